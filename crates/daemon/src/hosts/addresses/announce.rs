//! Tells containers of this host that an address has moved to another hardware address, because they keep what
//! they learnt for half a minute and longer; and that an address of another host is there, because one of them
//! may have asked for it a moment too early, and asks again only after a second.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::{IfName, Mac, NetworkName, Result};
use netlink::{At, Socket, packet};
use overlay::Overlay;

use crate::hosts::Attached;

/// More new addresses at a time come from reading everything again: no call waits for them.
const MOST_NEW: usize = 32;

/// The hardware address that each address of a network had last, wherever it was.
#[derive(Debug, Default)]
pub(in crate::hosts) struct Announced(BTreeMap<(NetworkName, IpAddr), Mac>);

impl Announced {
    /// Announces on the bridge what has another hardware address than before, and what has come to other
    /// hosts.
    pub(in crate::hosts) fn moved(&mut self, overlay: &Overlay, attached: Option<&Attached>) {
        let networks = spoken_of(overlay);
        self.0.retain(|(name, _), _| networks.iter().any(|it| it.name == name));
        for network in &networks {
            let own = attached.iter().flat_map(|attached| &attached.macs);
            let own = own.filter(|((of, _), _)| of == network.name);
            let own: Vec<_> = own.map(|((_, address), mac)| (*address, *mac)).collect();
            let mut news = Vec::new();
            for (address, mac) in own {
                if self.learn(network, address, mac) == Learnt::Moved {
                    news.push((address, mac));
                }
            }
            let mut new = Vec::new();
            for (address, mac) in network.elsewhere.iter().copied() {
                match self.learn(network, address, mac) {
                    Learnt::Moved => news.push((address, mac)),
                    Learnt::New => new.push((address, mac)),
                    Learnt::Known => {}
                }
            }
            if new.len() <= MOST_NEW {
                news.append(&mut new);
            }
            // The next packet asks again where the announcement was lost: it only takes longer.
            let _ = announce(network, &news);
        }
    }

    fn learn(&mut self, network: &Spoken<'_>, address: IpAddr, mac: Mac) -> Learnt {
        match self.0.insert((network.name.clone(), address), mac) {
            None => Learnt::New,
            Some(before) if before == mac => Learnt::Known,
            Some(_) => Learnt::Moved,
        }
    }
}

/// A network, and the hardware address by which each address on other hosts is reached from its bridge.
struct Spoken<'a> {
    name: &'a NetworkName,
    bridge: &'a IfName,
    elsewhere: Vec<(IpAddr, Mac)>,
}

/// Of a routed network that is the bridge's own: the host answers for what is elsewhere.
fn spoken_of(overlay: &Overlay) -> Vec<Spoken<'_>> {
    let switched = overlay.networks.iter().map(|it| Spoken {
        name: &it.name,
        bridge: &it.bridge,
        elsewhere: it.endpoints.iter().map(|(address, (mac, _))| (*address, *mac)).collect(),
    });
    let routed = overlay.routes.networks.iter().map(|it| Spoken {
        name: &it.name,
        bridge: &it.bridge,
        elsewhere: it.elsewhere.iter().map(|address| (*address, it.mac)).collect(),
    });
    switched.chain(routed).collect()
}

/// What was known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Learnt {
    Known,
    New,
    /// It had another hardware address.
    Moved,
}

fn announce(network: &Spoken<'_>, moved: &[(IpAddr, Mac)]) -> Result<()> {
    if moved.is_empty() {
        return Ok(());
    }
    let Some(bridge) = Socket::route()?.link(At::Name(network.bridge))? else { return Ok(()) };
    moved.iter().try_for_each(|(address, mac)| packet::announce(bridge.index, *mac, *address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moved_is_distinguished_from_what_is_new() {
        let (name, bridge) = ("front".parse().unwrap(), "sp-front".parse().unwrap());
        let network = Spoken { name: &name, bridge: &bridge, elsewhere: Vec::new() };
        let (mut announced, address) = (Announced::default(), IpAddr::from([10, 8, 0, 2]));
        let mut learn =
            |last| announced.learn(&network, address, Mac::local([0, 0, 0, 0, 0, last]));
        use Learnt::{Known, Moved, New};
        assert_eq!(
            [learn(1), learn(1), learn(2), learn(2), learn(1)],
            [New, Known, Moved, Known, Moved]
        );
    }
}
