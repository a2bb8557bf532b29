//! Images of plugins: where they come from, what is in them, and how one is made.
//!
//! [`Images`] fetches, checks, unpacks and keeps them; an [`Image`] is directories to run from, and
//! what to run. Nothing in here starts a container, and nothing that an image holds is trusted:
//! its archive is bounded, and is unpacked below one directory without following links out of it.

mod aci;
mod app;
mod archive;
pub mod build;
mod cache;
mod digest;
pub mod discover;
mod image;
mod images;
pub mod layout;
mod locator;
pub mod manifest;
mod owner;
mod policy;
pub mod registry;
mod signature;
mod transport;
mod unpack;

pub use app::{App, CapabilityChange, HostNamespaces, Isolators, MountPoint};
pub use digest::{Algorithm, Digest};
pub use image::{Image, ImageId};
pub use images::Images;
pub use locator::{AppName, DOCKER_HUB, Locator, Reference, Source, Url};
pub use owner::Owner;
pub use policy::{KeyRule, Limits, Policy};
pub use signature::verify;
pub use web::Proxies;

#[cfg(test)]
mod tests;
