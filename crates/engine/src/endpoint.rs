//! Attachments whose runtime makes them in two steps: reserved first, joined to a sandbox later
//! (libnetwork's endpoints).

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;

use model::{
    AliasId, Attachment, AttachmentId, Error, Handoff, IfName, PortMap, Protocol, Publish, Result,
    Sandbox, Sysctl,
};

use crate::{Engine, Request};

/// What is asked of [`Engine::join`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joining {
    /// Where the runtime says that the sandbox is or will be.
    pub sandbox: Sandbox,
    /// Who completes the interface there.
    pub handoff: Handoff,
    /// What the interface is called there, where we complete it.
    pub name: Option<IfName>,
    /// Kernel parameters to set there, where we complete it.
    pub sysctls: Vec<Sysctl>,
}

/// What is asked of [`Engine::publish`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publishing {
    /// How, and the ports of which the host's number is given.
    pub publish: Publish,
    /// The ports of which the host's number is to be chosen.
    pub open: Vec<OpenPort>,
    /// What to do about ports that another attachment of the same sandbox serves.
    pub siblings: Siblings,
}

/// A port of the container for which a port of the host is to be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPort {
    /// Only this address of the host, as [`PortMap::host`].
    pub host: Option<IpAddr>,
    /// The numbers to choose from: the first that is free.
    pub among: RangeInclusive<NonZeroU16>,
    /// In the container.
    pub container_port: NonZeroU16,
    /// Of both.
    pub protocol: Protocol,
}

/// Who serves a port for a sandbox that has several attachments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Siblings {
    /// This one, instead of the one that does now.
    TakeOver,
    /// The one that does now, in each address family that it serves (libnetwork's
    /// `no_proxy_6to4`).
    GiveWay,
}

impl Engine<'_> {
    /// Records an attachment, with its addresses, in phase [`model::Phase::Reserved`]. Nothing is
    /// made in the kernel. Repeating it gives the same record.
    pub fn reserve(&self, _request: &Request, _alias: &AliasId) -> Result<Attachment> {
        Err(Error::bug("not there yet"))
    }

    /// The record of the attachment's link.
    pub fn attachment(&self, _id: &AttachmentId) -> Result<Option<Attachment>> {
        Err(Error::bug("not there yet"))
    }

    /// Makes a reserved attachment's interface. Repeating it gives the same result.
    pub fn join(&self, _id: &AttachmentId, _joining: &Joining) -> Result<Attachment> {
        Err(Error::bug("not there yet"))
    }

    /// Takes the interface away, and the published ports; the attachment is reserved again. What
    /// the runtime moved into the sandbox it takes back by itself: that goes with the attachment.
    pub fn leave(&self, _id: &AttachmentId) -> Result<()> {
        Err(Error::bug("not there yet"))
    }

    /// Removes the attachment, every layer of it; what is gone is done.
    pub fn remove(&self, _id: &AttachmentId) -> Result<()> {
        Err(Error::bug("not there yet"))
    }

    /// Publishes ports of a joined attachment instead of those that it published before, and tells
    /// them: one for each address family that the attachment serves.
    pub fn publish(&self, _id: &AttachmentId, _wanted: &Publishing) -> Result<Vec<PortMap>> {
        Err(Error::bug("not there yet"))
    }

    /// The ports that the attachment serves now.
    pub fn published(&self, _id: &AttachmentId) -> Result<Vec<PortMap>> {
        Err(Error::bug("not there yet"))
    }

    /// Ends the publishing of the attachment's ports.
    pub fn unpublish(&self, _id: &AttachmentId) -> Result<()> {
        Err(Error::bug("not there yet"))
    }
}
