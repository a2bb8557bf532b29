//! Tells containers of this host that an address has moved to another hardware address, because they keep what
//! they learnt for half a minute and longer; and that an address of another host is there, because one of them
//! may have asked for it a moment too early, and asks again only after a second.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::{Mac, NetworkName, Result};
use netlink::packet::{arp, neighbor};
use netlink::{At, Socket};
use overlay::{Overlay, OverlayNetwork};

use super::Attached;

/// More new addresses at a time come from reading everything again: nobody waits for them.
const MOST_NEW: usize = 32;

/// The hardware address that each address of a network had last, wherever it was.
#[derive(Debug, Default)]
pub(super) struct Announced(BTreeMap<(NetworkName, IpAddr), Mac>);

impl Announced {
    /// Announces on the bridge what has another hardware address than before, and what has come to other
    /// hosts.
    pub(super) fn moved(&mut self, overlay: &Overlay, attached: Option<&Attached>) {
        self.0.retain(|(name, _), _| overlay.networks.iter().any(|it| it.name == *name));
        for network in &overlay.networks {
            let elsewhere = network.endpoints.iter().map(|(address, (mac, _))| (*address, *mac));
            let own = attached.iter().flat_map(|attached| &attached.macs);
            let own = own.filter(|((of, _), _)| *of == network.name);
            let own: Vec<_> = own.map(|((_, address), mac)| (*address, *mac)).collect();
            let mut news = Vec::new();
            for (address, mac) in own {
                if self.learn(network, address, mac) == Learnt::Moved {
                    news.push((address, mac));
                }
            }
            let mut new = Vec::new();
            for (address, mac) in elsewhere {
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

    fn learn(&mut self, network: &OverlayNetwork, address: IpAddr, mac: Mac) -> Learnt {
        match self.0.insert((network.name.clone(), address), mac) {
            None => Learnt::New,
            Some(before) if before == mac => Learnt::Known,
            Some(_) => Learnt::Moved,
        }
    }
}

/// What was known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Learnt {
    Known,
    New,
    /// It had another hardware address.
    Moved,
}

fn announce(network: &OverlayNetwork, moved: &[(IpAddr, Mac)]) -> Result<()> {
    if moved.is_empty() {
        return Ok(());
    }
    let Some(bridge) = Socket::route()?.link(At::Name(&network.bridge))? else { return Ok(()) };
    moved.iter().try_for_each(|(address, mac)| match address {
        IpAddr::V4(address) => arp::announce(bridge.index, *mac, *address),
        IpAddr::V6(address) => neighbor::announce(bridge.index, *mac, *address),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moved_is_told_from_what_is_new() {
        let network = OverlayNetwork {
            name: "front".parse().unwrap(),
            vni: model::Vni::new(7).unwrap(),
            bridge: "sp-front".parse().unwrap(),
            mac: Mac::local([0; 6]),
            subnet: "10.8.0.0/16".parse().unwrap(),
            subnet6: None,
            mtu: model::Mtu::new(1450).unwrap(),
            encrypted: false,
            endpoints: BTreeMap::new(),
        };
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
