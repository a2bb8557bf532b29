//! Parts of attachments on the kernel, each test in namespaces of its own that end with its
//! threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../bed/mod.rs"]
#[allow(dead_code)]
mod bed;
mod bridge_port;
mod by_route;
mod kept_lock;
mod loopback;
mod lost;
mod rate;
mod route;
mod routers;
mod sbr;
mod spoof;
mod vrf;

use std::path::Path;

use model::{Attachment, IfName, Layer, Wiring};

/// The record of another layer of the same attachment, as a chained plugin has it.
pub(crate) fn chained(link: &Attachment, layer: Layer, wiring: Wiring) -> Attachment {
    Attachment { layer, wiring, ..link.clone() }
}

/// The directory of the reference plugins of this version; none in the guest of `make test-vm`,
/// where they may not be.
pub(crate) fn reference(version: &str, plugin: &str) -> Option<String> {
    let unpacked = format!("{}/../../.cache/peers/{version}", env!("CARGO_MANIFEST_DIR"));
    let places = [unpacked, "/usr/lib/cni".to_owned()];
    let found = places.into_iter().find(|place| Path::new(place).join(plugin).exists());
    if found.is_none() {
        let is_guest = std::env::var_os(tests::kernel::COMPLETE).is_some();
        assert!(is_guest, "there are no reference plugins {version} (make test)");
        tests::skipped(&format!("against the reference's {plugin}"), "they are not in the guest");
    }
    found
}

pub(crate) fn name(text: &str) -> IfName {
    text.parse().unwrap()
}
