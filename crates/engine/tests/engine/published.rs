//! Ports as runtimes ask for them.

use std::net::IpAddr;

use engine::{OpenPort, Publishing, Siblings};
use model::*;

pub(crate) fn map(host: Option<&str>, host_port: u16) -> PortMap {
    PortMap {
        host: host.map(|host| host.parse().unwrap()),
        host_port: host_port.try_into().unwrap(),
        container_port: 80.try_into().unwrap(),
        protocol: Protocol::Tcp,
    }
}

pub(crate) fn publishing(ports: Vec<PortMap>, siblings: Siblings) -> Publishing {
    let publish = Publish { ports, ..Publish::new(Backend::Nftables) };
    Publishing { publish, open: Vec::new(), siblings }
}

pub(crate) fn open(first: u16, last: u16) -> OpenPort {
    OpenPort {
        host: None,
        among: first.try_into().unwrap()..=last.try_into().unwrap(),
        container_port: 80.try_into().unwrap(),
        protocol: Protocol::Tcp,
    }
}

/// The published ports of an attachment, by what no other one may have.
pub(crate) fn elements(attachment: &Attachment) -> Vec<((Protocol, u16, IpAddr), PortMap)> {
    let ports = attachment.wiring.publish.iter().flat_map(|publish| &publish.ports);
    let key = |map: &PortMap| (map.protocol, map.host_port.get(), map.host.unwrap());
    ports.map(|map| (key(map), map.clone())).collect()
}

/// What an attachment is called in the list of effects: its layer, its container, its ports.
pub(crate) fn label(attachment: &Attachment) -> String {
    let ports: Vec<String> = elements(attachment).iter().map(|(_, map)| map.to_string()).collect();
    let layer = format!("{:?}", attachment.layer).to_lowercase();
    format!("{layer} of {} {}", attachment.id.container, ports.join(" ")).trim().to_owned()
}
