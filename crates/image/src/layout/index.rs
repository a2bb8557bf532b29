//! Which images a layout has: its `index.json`.

use model::{Error, Result};

use crate::Digest;
use crate::manifest::{Descriptor, Document};

/// The annotation that has an image's tag.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// The annotation in which containerd and Docker put the whole name.
const IMAGE_NAME: &str = "io.containerd.image.name";

/// The images of a layout.
pub(crate) struct Index {
    pub(crate) images: Vec<Descriptor>,
}

impl Index {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        match Document::read(bytes, None).map_err(|error| error.context("its index.json"))? {
            Document::Index(images) => Ok(Self { images }),
            Document::Manifest(_) => Err(Error::invalid("its index.json is a manifest")),
        }
    }
}

/// The image that is called `tag`, or that is pinned, or that is the only one.
///
/// # Errors
/// [`NotFound`](model::Kind::NotFound) with the names that there are.
pub(crate) fn select<'a>(
    images: &'a [Descriptor],
    tag: Option<&str>,
    pin: Option<&Digest>,
) -> Result<&'a Descriptor> {
    let is_it = |image: &&Descriptor| match tag {
        Some(tag) => names(image).any(|name| is_called(name, tag)),
        None => true,
    };
    let mut found: Vec<&Descriptor> = images.iter().filter(is_it).collect();
    if let Some(pinned) = found.iter().find(|image| Some(&image.digest) == pin) {
        return Ok(pinned);
    }
    found.dedup_by(|one, other| one.digest == other.digest);
    match found.as_slice() {
        [only] => Ok(only),
        _ => {
            let there: Vec<&str> = images.iter().flat_map(names).map(String::as_str).collect();
            let which = tag.map_or("which of its images is meant".to_owned(), |tag| {
                format!("it has no image, or several, called {tag:?}")
            });
            Err(Error::not_found(format!("{which}; there are: {}", there.join(", "))))
        }
    }
}

fn names(image: &Descriptor) -> impl Iterator<Item = &String> {
    [REF_NAME, IMAGE_NAME].into_iter().filter_map(|key| image.annotations.get(key))
}

/// Names may be whole or only a tag.
fn is_called(name: &str, tag: &str) -> bool {
    let rest = name.strip_suffix(tag);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with([':', '/']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn image(digit: char, name: Option<&str>) -> Value {
        let mut image = json!({"mediaType": "", "digest": digest(digit).to_string(), "size": 1});
        if let Some(name) = name {
            image["annotations"] = json!({ REF_NAME: name });
        }
        image
    }

    fn digest(digit: char) -> Digest {
        format!("sha256:{}", digit.to_string().repeat(64)).parse().unwrap()
    }

    fn selected(images: &[Value], tag: Option<&str>, pin: Option<&Digest>) -> Option<Digest> {
        let index = json!({"schemaVersion": 2, "manifests": images}).to_string();
        let Index { images } = Index::read(index.as_bytes()).unwrap();
        select(&images, tag, pin).ok().map(|image| image.digest.clone())
    }

    #[test]
    fn finds_who_is_called_so() {
        let images = [image('1', Some("1.0")), image('2', Some("quay.io/a/b:2")), image('3', None)];
        assert_eq!(selected(&images, Some("1.0"), None), Some(digest('1')));
        assert_eq!(selected(&images, Some("2"), None), Some(digest('2')));
        assert_eq!(selected(&images, Some("b:2"), None), Some(digest('2')));
        assert_eq!(selected(&images, Some("quay.io/a/b:2"), None), Some(digest('2')));
        assert_eq!(selected(&images, Some(".0"), None), None);
        assert_eq!(selected(&images, None, None), None);
        assert_eq!(selected(&images, None, Some(&digest('3'))), Some(digest('3')));
        assert_eq!(selected(&images[2..], None, None), Some(digest('3')));
        assert_eq!(selected(&[], None, None), None);
        let twice = [image('1', Some("a")), image('1', Some("b"))];
        assert_eq!(selected(&twice, None, None), Some(digest('1')));
    }
}
