//! The interface to which Docker leads the ports that it maps itself (`-o ports=docker`): it is on a bridge of
//! Docker's, and the book does not know it.

use explain::{Bridging, Kernel, Netlink, Plug, Space, Which};
use model::{PortMap, Result};
use netlink::{RouteLookup, Routed};

/// The interface of a container, with these ports, that is none of the `known` ones and is on a bridge of this
/// host; `None` where there is none.
pub(super) fn plug(
    space: Space,
    known: &[Plug],
    ports: &[PortMap],
    kernel: &mut Netlink,
) -> Result<Option<Plug>> {
    let all = kernel.addresses(space)?;
    for held in all.iter().filter(|it| it.scope == 0) {
        let address = held.address.addr();
        if address.is_loopback() || known.iter().any(|plug| plug.has(address)) {
            continue;
        }
        let way = kernel.way(Space::HOST, &Routed::new(address))?;
        let RouteLookup::Out { link: index, gateway: None, .. } = way else { continue };
        let bridge = kernel.link(Space::HOST, &Which::Index(index))?;
        let bridge = bridge.filter(|link| link.kind.as_deref() == Some("bridge"));
        let link = kernel.link(space, &Which::Index(held.link))?;
        let Some((link, bridge)) = link.zip(bridge) else { continue };
        let own = all.iter().filter(|it| it.link == held.link && it.scope == 0);
        return Ok(Some(Plug {
            network: bridge.name.to_string(),
            title: None,
            in_commands: None,
            known_as: Vec::new(),
            interface: link.name,
            addresses: own.map(|it| (it.address, None)).collect(),
            mac: link.mac,
            bridging: Bridging::In(bridge.name),
            kind: "bridge",
            is_internal: false,
            via: None,
            is_isolated: false,
            hides: Vec::new(),
            direct: Vec::new(),
            ports: ports.to_vec(),
        }));
    }
    Ok(None)
}
