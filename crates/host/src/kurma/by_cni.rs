//! The plugins of type `spoke-image` in CNI's configurations, and the images that they name.

use std::path::Path;

use image::Locator;
use model::{Error, Result};
use serde_json::{Map, Value};

use crate::podman_networks::LISTS;

/// The plugin's `type`, and the name of its executable.
pub const TYPE: &str = "spoke-image";

/// The images that plugins of this type in the CNI configurations of the host at `root` name. One that
/// no call could read is none.
pub fn named_by_cni(root: &Path) -> Vec<Locator> {
    let plugins = cni::list::plugins(&root.join(LISTS), TYPE);
    plugins.iter().filter_map(|fields| image(fields).ok()).collect()
}

/// The image that a configuration names.
pub fn image(fields: &Map<String, Value>) -> Result<Locator> {
    let written = text(fields, "image")?
        .ok_or_else(|| Error::invalid("\"image\" is missing: say where the plugin's image is"))?;
    locator(written, text(fields, "digest")?)
}

/// The text of a field; `None` where it is not there.
pub fn text<'f>(fields: &'f Map<String, Value>, key: &str) -> Result<Option<&'f str>> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(Error::invalid(format!("{key:?} is {other}, which is no string"))),
    }
}

fn locator(written: &str, digest: Option<&str>) -> Result<Locator> {
    let whole = match digest {
        None => written.to_owned(),
        Some(digest) => format!("{written}@{digest}"),
    };
    let image: Locator = whole.parse().map_err(|error: Error| error.context("\"image\""))?;
    match (digest, image.pin()) {
        (Some(digest), None) => {
            let what = format!("\"digest\" is {digest:?}: it should be sha256:… or sha512:…");
            Err(Error::invalid(what))
        }
        (_, _) => Ok(image),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_a_pin() {
        let hex = "0".repeat(64);
        let pinned = locator("docker://h.i/x", Some(&format!("sha256:{hex}"))).unwrap();
        assert_eq!(pinned.pin().unwrap().hex(), hex);
        assert!(locator("docker://h.i/x", Some("latest")).is_err());
    }
}
