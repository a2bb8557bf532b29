//! Tells containers of this host that an address has moved to another hardware address: they keep what they
//! learnt for half a minute and longer.

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::{Mac, NetworkName, Result};
use netlink::packet::{arp, neighbor};
use netlink::{At, Socket};
use overlay::{Overlay, OverlayNetwork};

use super::Attached;

/// The hardware address that each address of a network had last, wherever it was.
#[derive(Debug, Default)]
pub(super) struct Announced(BTreeMap<(NetworkName, IpAddr), Mac>);

impl Announced {
    /// Announces on the bridge what has another hardware address than before. What was never seen is known
    /// to no container.
    pub(super) fn moved(&mut self, overlay: &Overlay, attached: Option<&Attached>) {
        self.0.retain(|(name, _), _| overlay.networks.iter().any(|it| it.name == *name));
        for network in &overlay.networks {
            let elsewhere = network.endpoints.iter().map(|(address, (mac, _))| (*address, *mac));
            let own = attached.iter().flat_map(|attached| &attached.macs);
            let own = own.filter(|((of, _), _)| *of == network.name);
            let all = own.map(|((_, address), mac)| (*address, *mac)).chain(elsewhere);
            let moved: Vec<_> =
                all.filter(|(address, mac)| self.learn(network, *address, *mac)).collect();
            // The next packet asks again where the announcement was lost: it only takes longer.
            let _ = announce(network, &moved);
        }
    }

    /// Whether the address had another hardware address before.
    fn learn(&mut self, network: &OverlayNetwork, address: IpAddr, mac: Mac) -> bool {
        let before = self.0.insert((network.name.clone(), address), mac);
        before.is_some_and(|before| before != mac)
    }
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
    fn only_what_moved_is_announced() {
        let network = OverlayNetwork {
            name: "front".parse().unwrap(),
            vni: model::Vni::new(7).unwrap(),
            bridge: "sp-front".parse().unwrap(),
            mac: Mac::local([0; 6]),
            subnet: "10.8.0.0/16".parse().unwrap(),
            subnet6: None,
            mtu: model::Mtu::new(1450).unwrap(),
            endpoints: BTreeMap::new(),
        };
        let (mut announced, address) = (Announced::default(), IpAddr::from([10, 8, 0, 2]));
        let mut learn =
            |last| announced.learn(&network, address, Mac::local([0, 0, 0, 0, 0, last]));
        assert_eq!(
            [learn(1), learn(1), learn(2), learn(2), learn(1)],
            [false, false, true, false, true]
        );
    }
}
