//! What registries and discovery pages say about images.

use image::Reference;
use image::discover::places;
use image::layout::Config;
use image::manifest::{Document, Platform, choose};
use image::registry::Challenge;
use image::registry::credentials::find;

/// A manifest or an index: what is read of it is bounded, and what is chosen is in it and runs here.
pub fn image_document(bytes: &[u8]) {
    for kind in [None, Some("application/vnd.oci.image.index.v1+json"), Some("; charset=utf-8")] {
        match Document::read(bytes, kind) {
            Ok(Document::Manifest(manifest)) => {
                assert!(manifest.layers.len() <= 128);
                assert!(manifest.config.size <= 4 << 20);
            }
            Ok(Document::Index(images)) => {
                let host = Platform::host();
                if let Ok(chosen) = choose(&images, &host) {
                    assert!(images.contains(chosen));
                    let runs = |platform: &Platform| host.rank(platform).is_some();
                    assert!(chosen.platform.as_ref().is_none_or(runs));
                }
            }
            Err(error) => assert!(error.kind() != model::Kind::Bug, "{error}"),
        }
    }
    if let Ok(config) = Config::read(bytes, &Default::default()) {
        let app = config.app.expect("an OCI image always has one");
        for mount in &app.mount_points {
            assert!(mount.path.is_absolute() && !mount.name.is_empty(), "{mount:?}");
        }
    }
    let reference: Reference = "docker.io/library/x".parse().expect("a reference");
    let _ = find(bytes, &reference);
}

/// A challenge: whatever it asks for stands in it.
pub fn image_challenge(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(Challenge::Bearer { realm, service, scope }) = Challenge::read(&text) {
        let plain = text.replace('\\', "");
        for word in [Some(realm), service, scope].into_iter().flatten() {
            assert!(plain.contains(&word.replace('\\', "")), "{word}");
        }
    }
}

/// A discovery page: it leads to few places, and to the web only.
pub fn image_discovery(bytes: &[u8]) {
    let name = "krm.test/sub/spy:1.0".parse().expect("a name");
    let places = places(bytes, &name);
    assert!(places.len() <= 16);
    for place in places {
        let image = place.image.to_string();
        assert!(image.starts_with("http://") || image.starts_with("https://"), "{image}");
        assert!(place.signature != place.image);
    }
}
