//! The remote calls between the plugin `dhcp` and its daemon, both ends: those of the reference
//! plugins, so that either end can be theirs.
//!
//! They are Go's `net/rpc` over HTTP on a unix socket: after a CONNECT, a request is a header and its
//! argument, and a response is a header and its result, each a message of a gob stream.

mod call;
mod callers;
mod client;
mod gob;
mod rpc;
mod server;
mod spec;

use std::path::PathBuf;

use engine::Members;
use model::{AttachmentId, Dhcp, Error, InterfaceAddress, Mac, NetworkName, Result, Route};

pub use client::Daemon;
pub use server::{Server, Stopped};

/// The socket of the reference's daemon, and of Spoke's by default.
pub const SOCKET: &str = "/run/cni/dhcp.sock";

/// The owner of an address, as a plugin names it to the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The attachment.
    pub id: AttachmentId,
    /// Where its namespace can be opened; empty where it is gone.
    pub netns: PathBuf,
    /// The hardware address of its link, by which that is found where it has another name.
    pub mac: Option<Mac>,
    /// The request to the server.
    pub dhcp: Dhcp,
}

/// A DHCP server's answer, as the daemon passes it on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DhcpAnswer {
    /// The address.
    pub addresses: Vec<InterfaceAddress>,
    /// The routes.
    pub routes: Vec<Route>,
    /// The resolver's configuration.
    pub dns: model::Dns,
}

/// The daemon's service for its callers.
pub trait Service: Send + Sync {
    /// Gets a lease and keeps it alive; the one that there is, where there is one.
    ///
    /// # Errors
    /// [`model::Kind::TryAgain`] where no server answers.
    fn allocate(&self, subject: &Subject) -> Result<DhcpAnswer>;

    /// Releases a lease; no effect without one.
    ///
    /// # Errors
    /// Where it cannot be deleted.
    fn release(&self, subject: &Subject) -> Result<()>;

    /// The lease that there is.
    ///
    /// # Errors
    /// [`model::Kind::NotFound`] where there is none.
    fn check(&self, subject: &Subject) -> Result<DhcpAnswer>;

    /// Releases every lease of the network that `valid` does not list.
    ///
    /// # Errors
    /// As [`Service::release`].
    fn collect(&self, network: &NetworkName, valid: &Members) -> Result<()>;
}

/// The client identifier that the reference's daemon sends: type 0, then the names, together no
/// longer than an option (RFC 2132 §9.14).
pub fn client_id(id: &AttachmentId) -> Vec<u8> {
    let mut bytes = format!("\0{}/{}/{}", id.container, id.network, id.ifname).into_bytes();
    bytes.truncate(255);
    bytes
}

/// Reads a stream of calls from its start, as the daemon does; nothing is answered. For fuzzing.
pub fn decode_anything(bytes: &[u8]) {
    let mut reader = gob::Reader::new();
    let mut rest = bytes;
    while let Ok(Some((message, after))) = gob::frame(rest) {
        let Ok(value) = reader.message(message) else { return };
        if let Some(value) = value {
            let _ = (spec::read(&value), spec::read_members(&value), call::given(&value));
        }
        rest = after;
    }
}

fn unreadable(what: &str) -> Error {
    Error::invalid(format!("the DHCP daemon's call has {what} that cannot be read"))
}
