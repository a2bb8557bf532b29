//! What an image of a registry is called: `[HOST[:PORT]/]REPOSITORY[:TAG][@DIGEST]`, by the grammar
//! of the distribution project's `reference` package.

use std::fmt;
use std::str::FromStr;

use model::{Error, Result};

use crate::Digest;

/// Where images are that name no registry.
pub const HUB: &str = "docker.io";

/// Where that registry's interface is, which is the only one that isn't where its name says.
const HUB_INTERFACE: &str = "registry-1.docker.io";

/// Other names of it.
const HUB_ALIASES: [&str; 2] = ["index.docker.io", HUB_INTERFACE];

/// A repository's longest name, in bytes.
const LONGEST_REPOSITORY: usize = 255;

/// The longest tag, in bytes.
const LONGEST_TAG: usize = 128;

/// The longest host with its port, in bytes.
const LONGEST_HOST: usize = 262;

/// An image of a registry. What is shown is whole: registry, repository, and tag or digest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// The registry as it's called: `docker.io`, `registry.example:5000`.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Whom to ask, with the port where one was given.
    pub fn host(&self) -> &str {
        match self.registry.as_str() {
            HUB => HUB_INTERFACE,
            other => other,
        }
    }

    /// The repository: `library/busybox`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag; `latest` where neither a tag nor a digest was given.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest of the manifest, where one was given.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// Registry and repository: what the image is called, whichever version it is.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// What a registry calls this version: the digest where there is one, else the tag.
    pub(crate) fn version(&self) -> String {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, tag) => tag.as_deref().unwrap_or("latest").to_owned(),
        }
    }
}

impl FromStr for Reference {
    type Err = Error;

    /// As people write it: the Docker Hub and its `library/` are added where they are left out.
    fn from_str(text: &str) -> Result<Self> {
        let bad =
            |why: &str| Error::invalid(format!("{text:?} names no image of a registry: {why}"));
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse::<Digest>()?)),
            None => (text, None),
        };
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        let (registry, repository) = split(name);
        if !is_host(registry) {
            return Err(bad("its registry is no HOST or HOST:PORT"));
        }
        if !is_repository(&repository) {
            return Err(bad("a repository is of small letters and digits, with . _ - between them \
                            and / between its parts"));
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(bad("a tag is of up to 128 letters, digits, _ . and -"));
        }
        let tag = tag.or(digest.is_none().then_some("latest")).map(ToOwned::to_owned);
        Ok(Self { registry: registry.to_owned(), repository, tag, digest })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

/// Registry and repository. The first part is a registry when it cannot be a user's name.
fn split(name: &str) -> (&str, String) {
    let (registry, repository) = match name.split_once('/') {
        Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (host, rest),
        _ => (HUB, name),
    };
    let registry = if HUB_ALIASES.contains(&registry) { HUB } else { registry };
    match registry == HUB && !repository.contains('/') {
        true => (registry, format!("library/{repository}")),
        false => (registry, repository.to_owned()),
    }
}

fn is_host(text: &str) -> bool {
    if text.len() > LONGEST_HOST {
        return false;
    }
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) if address.parse::<std::net::Ipv6Addr>().is_ok() => {
            return port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        }
        Some(_) => return false,
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.split('.').all(is_label) && port.is_none_or(is_port)
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok_and(|port| port > 0)
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*` in each part.
fn is_repository(text: &str) -> bool {
    text.len() <= LONGEST_REPOSITORY && text.split('/').all(is_part)
}

fn is_part(part: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = |byte: Option<u8>| byte.is_some_and(is_plain);
    let joint = |joint: &str| {
        matches!(joint, "" | "." | "_" | "__") || joint.bytes().all(|byte| byte == b'-')
    };
    ends(part.bytes().next())
        && ends(part.bytes().next_back())
        && part
            .split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            .all(joint)
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !tag.is_empty()
        && tag.len() <= LONGEST_TAG
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn whole(text: &str) -> String {
        text.parse::<Reference>().unwrap().to_string()
    }

    #[test]
    fn is_made_whole() {
        assert_eq!(whole("busybox"), "docker.io/library/busybox:latest");
        assert_eq!(whole("busybox:1.36"), "docker.io/library/busybox:1.36");
        assert_eq!(whole("user/plugin-name:tag"), "docker.io/user/plugin-name:tag");
        assert_eq!(whole("docker.io/busybox"), "docker.io/library/busybox:latest");
        assert_eq!(whole("index.docker.io/a/b"), "docker.io/a/b:latest");
        assert_eq!(whole("localhost/x"), "localhost/x:latest");
        assert_eq!(whole("localhost:5000/x"), "localhost:5000/x:latest");
        assert_eq!(whole("[::1]:5000/a/b/c:v1"), "[::1]:5000/a/b/c:v1");
        assert_eq!(whole("quay.io/a/b__c.d---e_f:V_1.0-x"), "quay.io/a/b__c.d---e_f:V_1.0-x");
        let pinned = format!("quay.io/a/b@sha256:{HEX}");
        assert_eq!(whole(&pinned), pinned);
        let both = format!("quay.io/a/b:1@sha256:{HEX}");
        assert_eq!(whole(&both), both);
        assert_eq!(both.parse::<Reference>().unwrap().version(), format!("sha256:{HEX}"));
    }

    #[test]
    fn only_the_hub_is_elsewhere() {
        let host = |text: &str| text.parse::<Reference>().unwrap().host().to_owned();
        assert_eq!(host("busybox"), "registry-1.docker.io");
        assert_eq!(host("quay.io:443/x"), "quay.io:443");
    }

    #[test]
    fn refuses_what_is_none() {
        let long = format!("a/{}", "x".repeat(300));
        let tag = format!("x:{}", "t".repeat(129));
        for bad in [
            "", "/", "/x", "x/", "a//b", "X", "a/B", "a/.b", "a/b.", "a/b..c", "a/b___c", "a/-b",
            "x:", "x:-a", "x:.a", "x: a", "x:a b", "x@", "x@sha256:", "x@sha256:12", "a b",
            "host:0/x", "host:65536/x", "host:a/x", "[::1/x", "[x]:1/x", "-a.b/x", "a..b/x",
            "a/../b", "a/b?c", "a/b#c", "a/b%41", "me:pw@host/x", "ho\u{e4}st.x/a",
            long.as_str(), tag.as_str(),
        ] {
            assert!(bad.parse::<Reference>().is_err(), "{bad}");
        }
    }
}
