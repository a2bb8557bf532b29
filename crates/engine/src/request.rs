//! The request of a front end, and how it has a sandbox connected.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{
    Attachment, AttachmentId, ContainerId, Dns, Handoff, HostName, IfName, InterfaceAddress, Ipam,
    Labels, Layer, LinkLocal, Network, OwnerName, Phase, Runtime, Sandbox, Timestamp, Wiring,
};

/// One layer of an attachment, as a front end wants it made, compared or removed.
#[derive(Clone, Debug)]
pub struct Request {
    /// The network, as it is the same for all its attachments.
    pub network: Network,
    /// Which part of the attachment.
    pub layer: Layer,
    /// The container.
    pub container: ContainerId,
    /// The interface in the container.
    pub ifname: IfName,
    /// The container's lasting name, where the runtime gives one.
    pub owner: Option<OwnerName>,
    /// The container's other names on the network.
    pub names: Vec<HostName>,
    /// The container's resolver configuration; the network has the settings that are absent here.
    pub dns: Dns,
    /// The container's namespace; none when it is already gone.
    pub sandbox: Option<Sandbox>,
    /// The network's wiring with what this container asked for: its ports, its hardware address.
    pub wiring: Wiring,
    /// The network's address source with what this container asked for.
    pub ipam: Ipam,
    /// Addresses that must be among those allocated.
    pub wanted: Vec<IpAddr>,
    /// Addresses that the attachment already has from an earlier layer or an earlier call.
    pub addresses: Vec<InterfaceAddress>,
    /// The user's labels of the attachment.
    pub labels: Labels,
}

impl Request {
    /// The attachment's identity.
    pub fn id(&self) -> AttachmentId {
        AttachmentId {
            network: self.network.name.clone(),
            container: self.container.clone(),
            ifname: self.ifname.clone(),
        }
    }

    /// Whose name gets the addresses again. One that Podman's user asked for is not kept: the next container
    /// that asks for it may have it.
    pub(crate) fn sticky_owner(&self) -> Option<&OwnerName> {
        let is_asked_for = self.network.runtime == Runtime::Podman && !self.wanted.is_empty();
        self.owner.as_ref().filter(|_| self.network.sticky && !is_asked_for)
    }

    /// A virtual machine completes its own interface.
    fn handoff(&self) -> Handoff {
        match self.wiring.tap() {
            Some(_) => Handoff::Caller,
            None => Handoff::Finish,
        }
    }

    /// The record of the request, without any lease.
    pub(crate) fn record(&self, runtime: Runtime, since: Timestamp, phase: Phase) -> Attachment {
        Attachment {
            title: self.network.title.clone(),
            owner: self.owner.clone(),
            handoff: self.handoff(),
            names: self.names.clone(),
            sandbox: self.sandbox.clone(),
            wiring: self.wiring.clone(),
            ipam: self.ipam.clone(),
            addresses: self.addresses.clone(),
            labels: self.labels.clone(),
            routes: self.network.routes.clone(),
            dns: self.dns.or(&self.network.dns),
            ..Attachment::new(self.id(), self.layer, runtime, since, phase)
        }
    }
}

/// How a sandbox is to be on a network, where Spoke itself connects it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connecting {
    /// The attachment with the greatest priority is the default gateway.
    pub priority: i32,
    /// Its names on the network besides the container's name.
    pub names: Vec<HostName>,
    /// Link-local addresses besides the allocated ones.
    pub link_local: Vec<LinkLocal>,
    /// Its resolver configuration. The network has the settings that are absent here.
    pub dns: Dns,
}

impl Connecting {
    /// Says what of it is the attachment's own.
    pub(crate) fn say(&self, attachment: &mut Attachment) {
        attachment.names.clone_from(&self.names);
        attachment.link_local.clone_from(&self.link_local);
        attachment.dns = self.dns.or(&attachment.dns);
        attachment.runtime = Runtime::Spoke;
    }
}

impl From<i32> for Connecting {
    fn from(priority: i32) -> Self {
        Self { priority, ..Self::default() }
    }
}

/// The attachments of one network that a runtime still knows.
pub type Members = BTreeSet<(ContainerId, IfName)>;
