//! What the tests have in common.

use std::fs;
use std::path::{Path, PathBuf};

use image::build::{self, Recipe};
use image::{Image, Images, Policy};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::registry::Registry;

pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// A directory with a cache in it, and a program to build images of.
pub(crate) struct Bench {
    pub(crate) directory: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut elf = vec![0; 100_000];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[18] = match std::env::consts::ARCH {
            "aarch64" => 183,
            _ => 62,
        };
        // It shall not become smaller than what a connection buffers.
        let mut number = 1_u32;
        for byte in &mut elf[4096..] {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (number >> 24).try_into().unwrap();
        }
        fs::write(directory.path().join("program"), elf).unwrap();
        Self { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn images(&self, policy: Policy) -> Images {
        Images::new(&self.path("cache"), policy).unwrap()
    }

    pub(crate) fn get(&self, locator: &str) -> model::Result<Image> {
        self.images(Policy::default()).get(&locator.parse().unwrap())
    }

    pub(crate) fn recipe(&self) -> Recipe {
        Recipe::plugin("krm.test/spoke", "1.0", &self.path("program"))
    }

    /// Puts a built image into the registry, as `name`; the digest of its manifest.
    pub(crate) fn push(&self, registry: &Registry, repository: &str, tag: &str) -> String {
        let layout = self.path("layout");
        build::layout(&self.recipe(), &layout).unwrap();
        let index = json_of(&layout.join("index.json"));
        let blob =
            |digest: &str| fs::read(layout.join("blobs").join(digest.replace(':', "/"))).unwrap();
        let digest = index["manifests"][0]["digest"].as_str().unwrap();
        let manifest = blob(digest);
        let parsed: Value = serde_json::from_slice(&manifest).unwrap();
        registry.add_blob(&blob(parsed["config"]["digest"].as_str().unwrap()));
        registry.add_blob(&blob(parsed["layers"][0]["digest"].as_str().unwrap()));
        registry.add_manifest(repository, tag, OCI_MANIFEST, &manifest)
    }
}

pub(crate) fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// What `Recipe::plugin` makes is what came.
pub(crate) fn check(image: &Image) {
    let app = image.app.as_ref().unwrap();
    assert_eq!(app.exec, ["/opt/network/setup"]);
    assert!(app.isolators.privileged);
    let mounts: Vec<_> = app.mount_points.iter().map(|mount| mount.name.as_str()).collect();
    assert_eq!(mounts, ["spoke-runtime", "spoke-state", "spoke-config"]);
    assert!(app.mount_points[2].read_only && !app.mount_points[0].read_only);
    let root = image.layers.last().unwrap();
    for verb in ["add", "del", "setup"] {
        let link = root.join("opt/network").join(verb);
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("../../usr/bin/spoke"));
        assert_eq!(fs::metadata(&link).unwrap().len(), 100_000);
    }
}

/// An index with this manifest for this host, and others for others.
pub(crate) fn index_of(registry: &Registry, manifest: &str, size: usize) -> Vec<u8> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let other = registry.add_blob(b"other");
    let image = |os: &str, architecture: &str, digest: &str, size: usize| {
        json!({"mediaType": OCI_MANIFEST, "digest": digest, "size": size,
               "platform": {"os": os, "architecture": architecture}})
    };
    let index = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [
        image("windows", architecture, &other, 5),
        image("linux", "s390x", &other, 5),
        image("linux", architecture, manifest, size),
        image("unknown", "unknown", &other, 5),
    ]});
    index.to_string().into_bytes()
}
