//! Asks a link's segment whether an address is used (RFC 5227, RFC 4862).

use std::net::IpAddr;
use std::time::Duration;

use model::{Attachment, Error, InterfaceNamespace, Result};
use netlink::packet::arp::{self, Retries};
use netlink::{At, Netns, Socket};

use crate::plan::PeerPlacement;

/// On a wire an answer takes less than a millisecond; a host that saves power takes longer.
const TIMEOUT: Retries = Retries { probes: 3, interval: Duration::from_millis(80) };

/// The attachment's addresses for which a host answers, over its link which is up. In IPv6 there is
/// no request: a host defends its address itself.
pub(crate) fn answers(attachment: &Attachment, sandbox: Option<&Netns>) -> Result<Vec<IpAddr>> {
    let peer_placement = PeerPlacement::of(attachment)?;
    match (peer_placement.place, sandbox) {
        (InterfaceNamespace::Sandbox, Some(sandbox)) => {
            sandbox.enter(|| ask(attachment, &peer_placement))?
        }
        (InterfaceNamespace::Sandbox | InterfaceNamespace::Host, _) => {
            ask(attachment, &peer_placement)
        }
    }
}

fn ask(attachment: &Attachment, peer_placement: &PeerPlacement) -> Result<Vec<IpAddr>> {
    let name = &peer_placement.name;
    let there = Socket::route()?.link(At::Name(name))?;
    let link = there.and_then(|link| Some((link.index, link.mac?)));
    let Some((index, mac)) = link else {
        return Err(Error::not_found(format!("interface {name} is gone")));
    };
    let mut taken = Vec::new();
    for held in &attachment.addresses {
        if let IpAddr::V4(address) = held.address.addr()
            && arp::probe(index, mac, address, TIMEOUT)?.is_some()
        {
            taken.push(held.address.addr());
        }
    }
    Ok(taken)
}
