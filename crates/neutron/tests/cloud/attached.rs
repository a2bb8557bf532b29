//! Attachments of a host's containers, as an engine records them.

use model::*;
use serde_json::Value;

use crate::bed::{Bed, id};

/// An operator's network, as an attachment's configuration names it.
pub(crate) struct Front {
    pub(crate) name: String,
    pub(crate) network: ResourceId,
}

impl Front {
    pub(crate) fn new(bed: &Bed, name: &str, cidr: &str) -> Self {
        let (network, _) = bed.project.network(name, cidr);
        Self { name: name.to_owned(), network: network.parse().unwrap() }
    }

    /// Of a container, without a port yet.
    pub(crate) fn attachment(&self, container: &str, ifname: &str) -> Attachment {
        let id = AttachmentId {
            network: self.name.parse().unwrap(),
            container: container.parse().unwrap(),
            ifname: ifname.parse().unwrap(),
        };
        let phase = Phase::Attaching { by: Process { pid: 1, start: 1 } };
        let mut made = Attachment::new(id, Layer::Link, Runtime::Podman, Timestamp(0), phase);
        let link = NeutronLink {
            network: ResourceRef::Id(self.network.clone()),
            subnets: Vec::new(),
            spec: PortSpec::default(),
            binding: None,
        };
        let kind = LinkKind::Neutron(Box::new(link));
        made.wiring.link = Some(Link { kind, name: None, mac: None, mtu: None });
        made
    }

    /// Of one of Docker's endpoints.
    pub(crate) fn endpoint(&self, container: &str) -> Attachment {
        let mut made = self.attachment(container, "eth");
        made.runtime = Runtime::Docker;
        made.alias = Some(id());
        made
    }

    /// The containers' ports of the network.
    pub(crate) fn ports(&self, bed: &Bed) -> Vec<Value> {
        let mut ports = bed.project.list("ports", &format!("network_id={}", self.network));
        ports.retain(|port| port["device_owner"] != "network:dhcp");
        ports
    }
}

/// An id as Podman, containerd and CRI-O give them.
pub(crate) fn container() -> String {
    id().to_string()
}

/// Finds or makes the port, and records it as the engine does.
#[track_caller]
pub(crate) fn offered(bed: &Bed, asked: &Attachment) -> Attachment {
    let offer = bed.cloud.offer(asked).unwrap();
    let mut reported = asked.clone();
    reported.addresses = offer.addresses;
    reported.wiring.link = offer.link;
    reported
}

pub(crate) fn link(attachment: &Attachment) -> &NeutronLink {
    match &attachment.wiring.link.as_ref().unwrap().kind {
        LinkKind::Neutron(link) => link,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn change(attachment: &mut Attachment, change: impl FnOnce(&mut NeutronLink)) {
    match &mut attachment.wiring.link.as_mut().unwrap().kind {
        LinkKind::Neutron(link) => change(link),
        other => panic!("{other:?}"),
    }
}

/// The port that the record names.
pub(crate) fn port(attachment: &Attachment) -> &ResourceId {
    &link(attachment).binding.as_ref().unwrap().port
}
