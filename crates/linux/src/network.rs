//! Making and removing what the attachments of a network share.

use model::{Bridge, Error, LinkKind, Network, Result, Runtime};
use netlink::{At, Errno, HostLock, Link, Socket};

use crate::apply::Hands;
use crate::facts::{self, GatheredFacts};
use crate::identity::{PROTOCOL, is_ours_by};
use crate::plan;

/// Makes what the network's attachments share.
pub(crate) fn raise(network: &Network, kind: &LinkKind, lock: &HostLock) -> Result<()> {
    let mut socket = Socket::route()?;
    let GatheredFacts { facts, below } = facts::of_network(&network.name, kind, None, &mut socket)?;
    let steps = plan::up(network, &facts)?;
    let mut hands = Hands::new(&mut socket, None).locked_by(lock);
    if let Some(below) = below {
        hands.knows(&below.name, below.index);
    }
    hands.apply(&steps)
}

/// Takes the addresses back that [`raise`] gave to a third party's bridge.
pub(crate) fn drop_gateways(
    network: &Network,
    bridge: &Bridge,
    link: &Link,
    socket: &mut Socket,
) -> Result<()> {
    let ours = plan::gateways(&network.ipam);
    let mut batch = netlink::wire::Batch::new();
    for held in socket.addresses(Some(link.index))? {
        if held.protocol == PROTOCOL && ours.contains(&held.address) {
            batch.delete_address(link.index, held.address);
        }
    }
    let dropped = socket.send(&mut batch)?.except(Errno::ADDRNOTAVAIL).into_result();
    dropped.map_err(|error| error.context(format!("bridge {}", bridge.name)))
}

/// Refuses a bridge that is to be put back where another program's device has its name.
pub(crate) fn refuse_bridge(network: &Network) -> Result<()> {
    let bridge = network.wiring.link.as_ref().and_then(|link| link.kind.bridge());
    let Some(bridge) = bridge else { return Ok(()) };
    let Some(there) = Socket::route()?.link(At::Name(&bridge.name))? else { return Ok(()) };
    let is_bridge = there.kind.as_deref() == Some("bridge");
    if is_bridge && (is_ours_by(there.group) || network.runtime != Runtime::Spoke) {
        return Ok(());
    }
    let what = if is_bridge { "a bridge of another program" } else { "no bridge" };
    Err(Error::conflict(format!(
        "device {} exists and is {what}; it would be removed with the network",
        bridge.name
    )))
}
