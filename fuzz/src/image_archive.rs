//! Images and signatures that anybody may have made.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use image::{Algorithm, Digest, Images, Locator, Policy};
use tempfile::TempDir;

/// 2026-01-01.
const NOW: u64 = 1_767_225_600;

/// An App Container image, packed or not. It is refused, or unpacked and known by its hash; beside the
/// cache nothing appears, and nothing is left of what was refused.
pub fn image_archive(bytes: &[u8]) {
    thread_local!(static PLACE: TempDir = crate::place::folder());
    PLACE.with(|place| archive(place.path(), bytes));
}

fn archive(place: &Path, bytes: &[u8]) {
    let file = place.join("image.aci");
    fs::write(&file, bytes).expect("a file");
    let images = Images::new(&place.join("cache"), Policy::default()).expect("a cache");
    let locator: Locator = format!("file://{}", file.display()).parse().expect("a locator");
    let count = |path: &str| fs::read_dir(place.join(path)).expect("a directory").count();
    match images.pull(&locator) {
        Ok(image) => {
            let magics: [&[u8]; 3] = [&[0x1f, 0x8b], b"\xfd7zXZ\0", &[0x28, 0xb5, 0x2f, 0xfd]];
            let packed = magics.iter().any(|magic| bytes.starts_with(magic))
                || bytes.get(1..4) == Some(b"\x2a\x4d\x18");
            let id = Digest::of(Algorithm::Sha512, bytes);
            assert!(packed || *image.id.digest() == id, "it is known by its hash");
            assert_eq!(images.cached(&locator).expect("a cache").as_ref(), Some(&image));
            let gone = images.gc(&BTreeSet::new(), Duration::ZERO).expect("a cache");
            assert_eq!(gone, [image.id]);
        }
        Err(error) => assert!(error.to_string().len() < 1 << 16, "{error}"),
    }
    assert_eq!(count("."), 2, "nothing is made beside the cache");
    let left = ["cache/staging", "cache/layers", "cache/images", "cache/names"];
    assert_eq!(left.map(count), [0; 4], "nothing is left");
}

/// A key, and behind a line of dashes a signature of the text `what is signed`: another text is never
/// signed, whatever both say.
pub fn image_signature(bytes: &[u8]) {
    let middle = bytes.windows(5).position(|five| five == b"\n---\n").unwrap_or(bytes.len());
    let (keys, signatures) = bytes.split_at(middle);
    let signatures = signatures.get(5..).unwrap_or_default();
    let _ = image::verify(keys, signatures, b"what is signed\n", NOW);
    assert!(image::verify(keys, signatures, b"what is not\n", NOW).is_err());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise what is made from them gets no further either.
    #[test]
    fn real_signatures_are_good() {
        for input in crate::corpus("image_signature") {
            let middle = input.windows(5).position(|five| five == b"\n---\n").expect("two parts");
            let (keys, signatures) = (&input[..middle + 1], &input[middle + 5..]);
            image::verify(keys, signatures, b"what is signed\n", NOW).expect("a good signature");
        }
    }
}
