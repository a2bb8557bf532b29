//! What the records of tests have in common.

use model::{
    AttachmentId, Bridge, BridgePort, Gateway, IpNet, Ipam, Link, LinkKind, NetworkName, Order,
    Pool, PoolId, Range, Space, Timestamp,
};

use crate::holder::Holder;

/// The attachment of a container.
pub(crate) fn holder(container: &str) -> Holder {
    let id = AttachmentId {
        network: "front".parse().unwrap(),
        container: container.parse().unwrap(),
        ifname: "eth0".parse().unwrap(),
    };
    Holder { id, since: Timestamp(0) }
}

/// A bridge that is the default gateway.
pub(crate) fn bridge() -> Link {
    let kind = LinkKind::Bridge(Bridge {
        name: "br0".parse().unwrap(),
        gateway: Gateway::Default,
        host_absent: model::Absence::default(),
        force_address: false,
        hairpin: false,
        promiscuous: false,
        port: BridgePort::default(),
    });
    Link { kind, name: None, mac: None, mtu: None }
}

/// Addresses of the store, of the subnets that these are in.
pub(crate) fn pools(network: &NetworkName, addresses: &[IpNet]) -> Ipam {
    let of = |net: &IpNet| Range::of_hosts(net.trunc(), None, None).unwrap();
    let ranges = addresses.iter().map(of).collect();
    let id = PoolId { network: network.clone(), index: 0 };
    Ipam::Book { pools: vec![Pool { id, space: Space::Host, ranges, order: Order::NextAfterLast }] }
}
