//! Ports as runtimes ask for them.

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
