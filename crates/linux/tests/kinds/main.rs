//! Links without an end in the host, each test in namespaces of its own that end with its threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../bed/mod.rs"]
#[allow(dead_code)]
mod bed;
mod device;
mod external;
mod handed;
mod lacking;
mod macvlan;
mod plug;
mod segment;

use bed::{Container, attachment, run};
use model::*;
use netlink::{At, Socket};

pub(crate) fn link(name: &IfName) -> Option<netlink::Link> {
    Socket::route().unwrap().link(At::Name(name)).unwrap()
}

pub(crate) fn parent(name: &str) -> Parent {
    Parent { name: Some(name.parse().unwrap()), place: InterfaceNamespace::Host, vlan: None }
}

pub(crate) fn macvlan(parent: Parent) -> Macvlan {
    Macvlan {
        parent,
        mode: MacvlanMode::Bridge,
        broadcast_queue: None,
        host_access: false,
        probe: false,
    }
}

/// A segment with another host on it: `lan0` here, `eth0` with 10.77.0.9/24 there.
pub(crate) fn lan() -> Container {
    let other = Container::new();
    run(&format!("ip link add lan0 type veth peer name eth0 netns {}", other.netns()));
    run("ip link set lan0 up; ip address add 10.77.0.1/24 dev lan0");
    other.run("ip link set lo up; ip address add 10.77.0.9/24 dev eth0; ip link set eth0 up");
    other
}

pub(crate) fn over_the_link() -> Ipam {
    Ipam::Dhcp(Dhcp {
        socket: "/run/cni/dhcp.sock".into(),
        request: Vec::new(),
        skip: Vec::new(),
        provide: Vec::new(),
        priority: None,
    })
}

pub(crate) fn bare(
    container: &str,
    kind: LinkKind,
    address: &str,
    sandbox: &Sandbox,
) -> Attachment {
    let mut made = attachment(container, kind, address, sandbox);
    made.wiring.masquerade = None;
    made
}
