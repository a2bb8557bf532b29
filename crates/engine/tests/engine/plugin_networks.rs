//! Networks whose links or addresses a plugin makes.

use std::collections::BTreeMap;

use engine::Request;
use model::*;

use super::common::{network, request};
use super::plugin_world::World;

/// A network of a plugin's, with addresses of a plugin's.
pub(crate) fn remote(name: &str) -> Network {
    let mut remote = network(name, remote_ipam());
    remote.runtime = Runtime::Spoke;
    let kind = LinkKind::Remote(Box::new(RemoteLink {
        driver: "plug".parse().unwrap(),
        id: name.parse().unwrap(),
        network: String::new(),
        endpoint: String::new(),
    }));
    remote.wiring.link = Some(Link { kind, name: None, mac: None, mtu: None });
    remote
}

/// A network of the kernel's, with addresses of a plugin's.
pub(crate) fn mixed(name: &str) -> Network {
    let mut mixed = network(name, remote_ipam());
    let kind = LinkKind::Ptp(Ptp::default());
    mixed.wiring.link = Some(Link { kind, name: None, mac: None, mtu: None });
    mixed
}

pub(crate) fn remote_ipam() -> Ipam {
    Ipam::Remote(RemoteIpam {
        driver: "plug".parse().unwrap(),
        space: None,
        options: BTreeMap::new(),
        pools: vec![RemotePool::any(Family::V4)],
    })
}

/// To connect a sandbox to a network that is there.
pub(crate) fn to(world: &World, network: &str, container: &str, ifname: &str) -> Request {
    let network = world.engine().records.network(&network.parse().unwrap()).unwrap();
    let mut request = request(&network, container);
    request.ifname = ifname.parse().unwrap();
    request.sandbox = Some(Sandbox { path: format!("/run/netns/{container}").into(), inode: 1 });
    request
}
