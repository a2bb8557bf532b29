//! App Container Image Discovery (App Container specification 0.8, "App Container Image
//! Discovery"): from an image's name to where it is.

mod page;

use std::collections::BTreeMap;

use model::{Error, Result};

use crate::transport::{Call, Transport};
use crate::{AppName, Url};

/// Longer pages are refused, in bytes.
const LONGEST: u64 = 1 << 20;

/// Further places are ignored.
const MOST: usize = 16;

/// Where an image may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageUrls {
    /// Its archive.
    pub image: Url,
    /// The signature of that.
    pub signature: Url,
}

/// Where the page of a name, or of the names above it, says that the image is; in the page's order,
/// after the page's own URL.
/// TLS is tried first; hosts that may do without are asked without, then.
///
/// # Errors
/// [`NotFound`](model::Kind::NotFound) when no page says so, with what each page was; others when a
/// page is wrong.
pub(crate) fn discover(transport: &Transport, name: &AppName) -> Result<(Url, Vec<ImageUrls>)> {
    let mut asked = Vec::new();
    for path in ancestors(name.name()) {
        match ask(transport, path) {
            Ok((url, page)) => {
                let found = places(&page, name);
                if !found.is_empty() {
                    return Ok((url, found));
                }
                asked.push(format!("{path} does not say"));
            }
            Err(error) => asked.push(error.to_string()),
        }
    }
    Err(Error::not_found(format!("image {name} is not discovered: {}", asked.join("; "))))
}

/// The places of an image on a page.
pub fn places(page: &[u8], name: &AppName) -> Vec<ImageUrls> {
    let reported = page::discoveries(&String::from_utf8_lossy(page));
    reported
        .into_iter()
        .filter(|(prefix, _)| is_prefix(prefix, name.name()))
        .filter_map(|(_, template)| place(&template, name))
        .take(MOST)
        .collect()
}

/// The page at `path`, which begins with a host.
fn ask(transport: &Transport, path: &str) -> Result<(Url, Vec<u8>)> {
    let (host, rest) = path.split_once('/').unwrap_or((path, ""));
    let url = |is_secure| Url::new(is_secure, host, &format!("/{rest}?ac-discovery=1"));
    let get = |url: Url| {
        let page =
            transport.bytes(&Call { accept: "text/html, */*", ..Call::get(&url) }, LONGEST)?;
        let page = page.ok_or_else(|| Error::not_found(format!("HTTP 404 on retrieving {url}")));
        page.map(|page| (url, page))
    };
    let secure = url(true).and_then(get);
    match secure {
        Err(_) if transport.may_be_plain(host) => url(false).and_then(get),
        other => other,
    }
}

/// `a/b/c`, `a/b`, `a`.
fn ancestors(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(name), |path| Some(path.rsplit_once('/')?.0))
}

/// A prefix ends where a part of the name does: `example.com/a` says nothing about `example.com/ab`.
fn is_prefix(prefix: &str, name: &str) -> bool {
    let rest = name.strip_prefix(prefix.trim_end_matches('/'));
    !prefix.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The template with its words filled in; none where it has other words.
fn place(template: &str, name: &AppName) -> Option<ImageUrls> {
    let with = |ext: &str| {
        let text = filled(template, name.name(), name.labels(), ext)?;
        text.parse::<Url>().ok()
    };
    Some(ImageUrls { image: with("aci")?, signature: with("aci.asc")? })
        .filter(|place| place.image != place.signature)
}

fn filled(
    template: &str,
    name: &str,
    labels: &BTreeMap<String, String>,
    ext: &str,
) -> Option<String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (word, after) = after.split_once('}')?;
        text.push_str(before);
        text.push_str(match word {
            "name" => name,
            "ext" => ext,
            "version" => labels.get("version").map_or("latest", String::as_str),
            label => labels.get(label)?,
        });
        rest = after;
    }
    text.push_str(rest);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str, name: &str) -> Vec<String> {
        let places = places(page.as_bytes(), &name.parse().unwrap());
        places.iter().map(|place| place.image.to_string()).collect()
    }

    fn meta(content: &str) -> String {
        format!("<html><head><meta name=\"ac-discovery\" content=\"{content}\"></head></html>")
    }

    #[test]
    fn templates_are_filled() {
        let page = meta("krm.test http://krm.test/d/{name}-{version}-{os}-{arch}.{ext}");
        let name: AppName = "krm.test/sub/spy".parse().unwrap();
        let arch = &name.labels()["arch"];
        assert_eq!(
            found(&page, "krm.test/sub/spy"),
            [format!("http://krm.test/d/krm.test/sub/spy-latest-linux-{arch}.aci")]
        );
        assert_eq!(
            found(&page, "krm.test/sub/spy:1.2"),
            [format!("http://krm.test/d/krm.test/sub/spy-1.2-linux-{arch}.aci")]
        );
        let places = places(page.as_bytes(), &"krm.test/a:1".parse().unwrap());
        let signature = places[0].signature.to_string();
        assert!(signature.ends_with(".aci.asc"), "{signature}");
        let page = meta("krm.test http://krm.test/{channel}/{name}.{ext}");
        assert_eq!(found(&page, "krm.test/a,channel=b"), ["http://krm.test/b/krm.test/a.aci"]);
        assert_eq!(found(&page, "krm.test/a"), Vec::<String>::new());
    }

    #[test]
    fn others_are_not_meant() {
        for content in [
            "krm.test/a http://x/{name}.{ext}",
            "krm http://x/{name}.{ext}",
            "other.test http://x/{name}.{ext}",
            "krm.test ftp://x/{name}.{ext}",
            "krm.test http://x/{name}.aci",
            "krm.test http://x/{name.{ext}",
            "krm.test http://x/{name}.{ext} more",
            "krm.test",
            " ",
        ] {
            assert_eq!(found(&meta(content), "krm.test/ab"), Vec::<String>::new(), "{content}");
        }
    }

    #[test]
    fn parents_are_asked() {
        let all: Vec<&str> = ancestors("a.b/c/d").collect();
        assert_eq!(all, ["a.b/c/d", "a.b/c", "a.b"]);
    }
}
