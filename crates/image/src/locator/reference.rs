//! The name of an image in a Docker registry.

use std::fmt;
use std::str::FromStr;

use model::{Error, Result};

use super::url::is_host;

/// The registry that is meant where none is named.
pub const DOCKER_HUB: &str = "docker.io";

/// An image in a registry, as in the `distribution` project's reference grammar. A digest is kept by
/// the [`super::Locator`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
}

impl Reference {
    /// The registry's host with its port, if one was named; [`DOCKER_HUB`] where none was.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The repository within it: `library/busybox`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag that was named.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }
}

impl FromStr for Reference {
    type Err = Error;

    /// Reads `[host[:port]/]path[:tag]`.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = |why: &str| Error::invalid(format!("image {text:?} {why}"));
        let (rest, tag) = match text.rsplit_once(':') {
            Some((rest, tag)) if !tag.contains('/') => (rest, Some(tag)),
            _ => (text, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(wrong("has an invalid tag: at most 128 of A-Z a-z 0-9 _ . -"));
        }
        let (registry, path) = match rest.split_once('/') {
            Some((host, path)) if host.contains(['.', ':', '[']) || host == "localhost" => {
                (host.to_ascii_lowercase(), path)
            }
            _ => (DOCKER_HUB.to_owned(), rest),
        };
        let hub = matches!(registry.as_str(), DOCKER_HUB | "index.docker.io");
        let registry = if hub { DOCKER_HUB.to_owned() } else { registry };
        if !is_host(&registry) {
            return Err(wrong("names no valid registry"));
        }
        let official = hub && !path.contains('/');
        let repository = if official { format!("library/{path}") } else { path.to_owned() };
        if repository.len() > 255 || !repository.split('/').all(is_component) {
            return Err(wrong(
                "has an invalid repository: parts of a-z 0-9 with single . _ - between",
            ));
        }
        Ok(Self { registry, repository, tag: tag.map(str::to_owned) })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        self.tag.as_ref().map_or(Ok(()), |tag| write!(f, ":{tag}"))
    }
}

/// `[A-Za-z0-9_][A-Za-z0-9._-]{0,127}`.
fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let more = |byte: u8| word(byte) || matches!(byte, b'.' | b'-');
    tag.len() <= 128 && tag.bytes().next().is_some_and(word) && tag.bytes().all(more)
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`.
fn is_component(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [part.bytes().next(), part.bytes().next_back()];
    let between =
        |run: &str| matches!(run, "" | "." | "_" | "__") || run.bytes().all(|byte| byte == b'-');
    ends.into_iter().all(|end| end.is_some_and(plain))
        && part.is_ascii()
        && part.split(|letter: char| letter.is_ascii_alphanumeric()).all(between)
        && !part.bytes().any(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_added() {
        for (text, whole) in [
            ("busybox", "docker.io/library/busybox"),
            ("user/plugin:1.0", "docker.io/user/plugin:1.0"),
            ("localhost/a", "localhost/a"),
            ("index.docker.io/a", "docker.io/library/a"),
            ("127.0.0.1:5000/a/b_c:x", "127.0.0.1:5000/a/b_c:x"),
            ("[::1]:5000/a--b", "[::1]:5000/a--b"),
        ] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), whole);
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in
            ["", "/", "A", "a/", "a//b", "a:", "a:-x", "a..b", "a___b", "-a", "h:x/a", "../a"]
        {
            assert_eq!(
                text.parse::<Reference>().unwrap_err().kind(),
                model::Kind::Invalid,
                "{text}"
            );
        }
    }
}
