//! Parts of attachments on the kernel, each test in namespaces of its own that end with its
//! threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

#[path = "../bed/mod.rs"]
#[allow(dead_code)]
mod bed;
mod bridge_port;
mod rate;
mod route;
mod sbr;
mod spoof;
mod vrf;

use model::{Attachment, IfName, Layer, Wiring};

/// The record of another layer of the same attachment, as a chained plugin has it.
pub(crate) fn chained(link: &Attachment, layer: Layer, wiring: Wiring) -> Attachment {
    Attachment { layer, wiring, ..link.clone() }
}

pub(crate) fn name(text: &str) -> IfName {
    text.parse().unwrap()
}
