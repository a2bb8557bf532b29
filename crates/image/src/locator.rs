//! How one says where an image is.

mod name;
mod reference;
mod url;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use model::{Error, Result};

pub use name::AppName;
pub(crate) use name::check_identifier;
pub use reference::{DOCKER_HUB, Reference};
pub use url::Url;

use crate::Digest;

/// Where an image is, and which one it must be.
///
/// | written | meaning |
/// |---|---|
/// | `file:///abs.aci`, `file://rel/path.aci` | an App Container image on this host |
/// | `http://…`, `https://…` | one on the web |
/// | `docker://[host[:port]/]name[:tag]`, `docker:///name` | an image in a registry |
/// | `oci:PATH[:tag]` | an OCI image layout |
/// | `oci-archive:PATH[:tag]`, `docker-archive:PATH[:tag]` | such a layout, or what `docker save` wrote, in one file |
/// | `name[:version][,label=value…]` | App Container discovery |
///
/// Each may end in `@sha256:…` or `@sha512:…`, which pins its content: of a registry, a layout and an
/// archive the manifest's digest; of an App Container image the digest of its file as it is, or of the
/// tar in it (which as SHA-512 is the image's id).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locator {
    written: String,
    source: Source,
    pin: Option<Digest>,
}

/// The kinds of places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An App Container image in a file; a relative path is relative to the working directory.
    File(PathBuf),
    /// An App Container image on the web.
    Http(Url),
    /// An image in a registry.
    Docker(Reference),
    /// An OCI image layout.
    Layout {
        /// Its directory.
        path: PathBuf,
        /// Which of its images, if it holds several.
        tag: Option<String>,
    },
    /// An OCI or Docker archive.
    Archive {
        /// Its file.
        path: PathBuf,
        /// Which of its images, if it holds several.
        tag: Option<String>,
    },
    /// An App Container image somewhere, found by its name.
    Discover(AppName),
}

impl Locator {
    /// Where it is.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The digest that it must have.
    pub fn pin(&self) -> Option<&Digest> {
        self.pin.as_ref()
    }

    /// As an image named from within another one.
    pub(crate) fn discover(name: AppName) -> Self {
        Self { written: name.to_string(), source: Source::Discover(name), pin: None }
    }

    /// The text that policies compare by prefix: the name, the host with the path, or the path.
    pub(crate) fn subject(&self) -> String {
        match &self.source {
            Source::File(path) | Source::Layout { path, .. } | Source::Archive { path, .. } => {
                path.to_string_lossy().into_owned()
            }
            Source::Http(url) => format!("{}{}", url.host(), url.path()),
            Source::Docker(reference) => {
                format!("{}/{}", reference.registry(), reference.repository())
            }
            Source::Discover(name) => name.name().to_owned(),
        }
    }
}

impl fmt::Display for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl FromStr for Locator {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.len() > 4096 || text.contains('\0') {
            return Err(Error::invalid("an image's locator is at most 4096 bytes, and text"));
        }
        let (place, pin) = match text.rsplit_once('@') {
            Some((place, digest)) if digest.starts_with("sha") && digest.contains(':') => {
                (place, Some(digest.parse()?))
            }
            _ => (text, None),
        };
        let source = source(place).map_err(|error| match text.is_empty() {
            true => error,
            false => error.context(format!("image {text:?}")),
        })?;
        Ok(Self { written: text.to_owned(), source, pin })
    }
}

fn source(text: &str) -> Result<Source> {
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme, rest) => (scheme.to_ascii_lowercase(), rest),
        _ => return text.parse().map(Source::Discover),
    };
    let hierarchical = rest.strip_prefix("//");
    match scheme.as_str() {
        "file" => Ok(Source::File(path(hierarchical.unwrap_or(rest))?)),
        "http" | "https" => text.parse().map(Source::Http),
        "docker" => match hierarchical {
            Some(rest) => rest.strip_prefix('/').unwrap_or(rest).parse().map(Source::Docker),
            None => Err(Error::invalid("docker: needs two slashes: docker://[host/]name[:tag]")),
        },
        "oci" => tagged(rest).map(|(path, tag)| Source::Layout { path, tag }),
        "oci-archive" | "docker-archive" => {
            tagged(rest).map(|(path, tag)| Source::Archive { path, tag })
        }
        other => Err(Error::unsupported(format!(
            "{other:?} scheme not supported: file, http, https, docker, oci, oci-archive, \
             docker-archive, or a name"
        ))),
    }
}

/// A scheme of Spoke's, or the text before `://`; `name:version` has none.
fn is_scheme(scheme: &str, rest: &str) -> bool {
    const OURS: [&str; 7] =
        ["file", "http", "https", "docker", "oci", "oci-archive", "docker-archive"];
    rest.starts_with("//") || OURS.iter().any(|own| own.eq_ignore_ascii_case(scheme))
}

fn path(text: &str) -> Result<PathBuf> {
    let path = name::decoded(text)
        .ok_or_else(|| Error::invalid(format!("path {text:?} has a % that stands for no text")))?;
    if path.is_empty() || path.contains('\0') {
        return Err(Error::invalid("the path is missing"));
    }
    Ok(path.into())
}

/// `PATH[:tag]`; names of images in archives of Docker hold slashes and colons: `a.tar:h.i/b:1`.
fn tagged(text: &str) -> Result<(PathBuf, Option<String>)> {
    let text = text.strip_prefix("//").unwrap_or(text);
    let (place, tag) = match text.split_once(':') {
        Some((place, tag)) => (place, Some(tag.to_owned())),
        None => (text, None),
    };
    if place.is_empty() || place.contains('\0') {
        return Err(Error::invalid("the path is missing"));
    }
    Ok((place.into(), tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Source {
        text.parse::<Locator>().unwrap().source
    }

    #[test]
    fn each_form_is_read() {
        let file = |path: &str| Source::File(path.into());
        assert_eq!(read("file:///a/b.aci"), file("/a/b.aci"));
        assert_eq!(read("file://rel/b.aci"), file("rel/b.aci"));
        assert_eq!(read("file:/a%20b"), file("/a b"));
        assert_eq!(read("http://h/x.aci"), Source::Http("http://h/x.aci".parse().unwrap()));
        for text in ["docker:///user/x:1", "docker://user/x:1", "docker://docker.io/user/x:1"] {
            assert_eq!(read(text), Source::Docker("user/x:1".parse().unwrap()));
        }
        let (path, tag) = ("a/b".into(), Some("1".to_owned()));
        assert_eq!(read("oci:a/b:1"), Source::Layout { path, tag });
        let (path, tag) = ("/a".into(), Some("x/y:1".to_owned()));
        assert_eq!(read("docker-archive:/a:x/y:1"), Source::Archive { path, tag });
        let (path, tag) = ("/a".into(), None);
        assert_eq!(read("oci-archive:///a"), Source::Archive { path, tag });
        assert_eq!(read("a.b/c:1"), Source::Discover("a.b/c:1".parse().unwrap()));
    }

    #[test]
    fn a_pin_is_taken_off() {
        let hex = "0".repeat(64);
        for start in ["docker://h.i/x", "file:///x@y", "a.b/c:1", "http://h/x"] {
            let text = format!("{start}@sha256:{hex}");
            let locator: Locator = text.parse().unwrap();
            assert_eq!(locator.pin().unwrap().hex(), hex);
            assert_eq!(locator.source(), &read(start));
            assert_eq!(locator.to_string(), text);
        }
        assert_eq!("a.b/c@sha256:00".parse::<Locator>().unwrap_err().kind(), model::Kind::Invalid);
        assert_eq!("a.b/c@sha1:00".parse::<Locator>().unwrap_err().kind(), model::Kind::Invalid);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("", "ACIdentifier cannot be empty"),
            ("gopher://h/x", "\"gopher\" scheme not supported"),
            ("/tmp/x.aci", "ACIdentifier must start"),
            ("file://", "the path is missing"),
            ("oci:", "the path is missing"),
            ("docker:x", "two slashes"),
            ("http:///x", "no host"),
        ] {
            let error = text.parse::<Locator>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
