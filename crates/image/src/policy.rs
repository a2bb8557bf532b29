//! The allowed sources of images, and limits.

use std::path::PathBuf;
use std::time::Duration;

use web::Proxies;

/// The host's configuration for images.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The keys that images need.
    pub keys: Vec<KeyRule>,
    /// Hosts (`name` or `name:port`) that may be reached without TLS, besides this host itself.
    pub insecure: Vec<String>,
    /// Credentials for registries, in the format of Docker's `config.json` and Podman's `auth.json`.
    pub auth: Option<PathBuf>,
    /// The proxies for servers.
    pub proxies: Proxies,
    /// How much is too much.
    pub limits: Limits,
}

/// Images whose name or locator (without its scheme) starts with `prefix` must be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRule {
    /// `example.com/network/`; the empty one is every image.
    pub prefix: String,
    /// OpenPGP public keys, armoured or not; each file may hold several.
    pub files: Vec<PathBuf>,
}

/// How much is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of a file as it is fetched, in bytes.
    pub compressed: u64,
    /// Of everything that is unpacked out of one image, in bytes.
    pub unpacked: u64,
    /// Files, directories, also those that only paths name, and links in one image.
    pub entries: usize,
    /// How many directories one path may have.
    pub depth: usize,
    /// Of the paths of all entries together, in bytes: what is remembered of an image.
    pub paths: usize,
    /// How long the kernel may take to follow all of its paths.
    pub following: Duration,
    /// Of a manifest, in bytes.
    pub manifest: u64,
    /// How many bytes one compressed byte may become, once there are 64 MiB of them.
    pub ratio: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            compressed: 1 << 30,
            unpacked: 4 << 30,
            entries: 200_000,
            depth: 128,
            paths: 64 << 20,
            following: Duration::from_secs(20),
            manifest: 4 << 20,
            ratio: 400,
        }
    }
}
