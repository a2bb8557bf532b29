//! What a plan must know of the host, read from the kernel.

use model::{LinkKind, Result};
use netlink::{At, Link, Socket};

use crate::plan::{BridgeFacts, Facts};

/// The facts for planning such a link, and the bridge as the kernel knows it.
pub(crate) fn gather(kind: &LinkKind, socket: &mut Socket) -> Result<(Facts, Option<Link>)> {
    let LinkKind::Bridge(bridge) = kind else { return Ok((Facts::default(), None)) };
    let Some(link) = socket.link(At::Name(&bridge.name))? else {
        return Ok((Facts::default(), None));
    };
    let addresses = socket.addresses(Some(link.index))?;
    let facts = BridgeFacts {
        is_bridge: link.kind.as_deref() == Some("bridge"),
        is_up: link.flags.is_up(),
        promiscuous: link.flags.is_promiscuous(),
        mac: link.mac,
        addresses: addresses.into_iter().map(|address| address.address).collect(),
    };
    Ok((Facts { bridge: Some(facts) }, Some(link)))
}
