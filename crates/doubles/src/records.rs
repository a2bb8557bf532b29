//! Records with the values that no test is about. A text that cannot be parsed fails the test.

use std::net::IpAddr;

use engine::Request;
use model::{
    Absence, Alias, AttachmentId, Bridge, BridgePort, Dns, Gateway, Handoff, InterfaceAddress,
    IpNet, Ipam, Labels, Layer, LinkKind, Network, Order, Pool, PoolId, Publisher, Range, Runtime,
    Space, Timestamp, Wiring,
};

/// The interface `eth0` of a container.
pub fn attachment_id(network: &str, container: &str) -> AttachmentId {
    AttachmentId {
        network: network.parse().unwrap(),
        container: container.parse().unwrap(),
        ifname: "eth0".parse().unwrap(),
    }
}

/// A bridge without options.
pub fn bridge(name: &str, gateway: Gateway) -> LinkKind {
    LinkKind::Bridge(Bridge {
        name: name.parse().unwrap(),
        gateway,
        host_absent: Absence::default(),
        force_address: false,
        hairpin: false,
        promiscuous: false,
        port: BridgePort::default(),
    })
}

/// An address with the length of its subnet, without a gateway.
pub fn address(net: &str) -> InterfaceAddress {
    InterfaceAddress { address: net.parse().unwrap(), gateway: None, interface: None }
}

/// All hosts of a subnet. The first one is the gateway.
pub fn pool(network: &str, subnet: &str, order: Order) -> Pool {
    let subnet: IpNet = subnet.parse().unwrap();
    let hosts: Vec<IpAddr> = subnet.hosts().collect();
    let range = Range::new(subnet, hosts[0], hosts[hosts.len() - 1], Some(hosts[0])).unwrap();
    Pool {
        id: PoolId { network: network.parse().unwrap(), index: 0 },
        space: Space::Host,
        ranges: vec![range],
        order,
    }
}

/// A network of CNI without links.
pub fn network(name: &str, ipam: Ipam) -> Network {
    Network::new(name.parse().unwrap(), Runtime::Cni, Timestamp(0), Wiring::default(), ipam)
}

/// A request for `eth0` of a container, with what the network has.
pub fn request(network: &Network, container: &str) -> Request {
    Request {
        labels: Labels::default(),
        network: network.clone(),
        layer: Layer::Link,
        container: container.parse().unwrap(),
        ifname: "eth0".parse().unwrap(),
        names: Vec::new(),
        dns: Dns::default(),
        owner: None,
        sandbox: None,
        wiring: network.wiring.clone(),
        ipam: network.ipam.clone(),
        wanted: Vec::new(),
        addresses: Vec::new(),
    }
}

/// A network's id at Docker. Spoke publishes the ports and completes the interfaces.
pub fn alias(id: &str, network: &Network) -> Alias {
    Alias {
        id: id.parse().unwrap(),
        network: network.name.clone(),
        runtime: Runtime::Docker,
        since: Timestamp(0),
        title: None,
        publisher: Publisher::Spoke,
        handoff: Handoff::Finish,
        publish_on: None,
        lister: None,
        prefix: None,
    }
}
