//! Forwarding entries and neighbours of one network.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::{Mac, Result};
use netlink::fdb::Entry;
use netlink::wire::Batch;
use netlink::{Errno, Neighbour, Socket};

use crate::OverlayNetwork;
use crate::tunnel::Ways;

/// So many changes are sent at a time.
const CHUNK: usize = 256;

/// Makes the entries of the network those that it should have; how many were changed.
pub(crate) fn set(
    socket: &mut Socket,
    network: &OverlayNetwork,
    (device, bridge): (u32, u32),
    ways: Option<&Ways>,
) -> Result<usize> {
    let forwarding = socket.forwarding(device)?;
    let neighbours = socket.neighbours(bridge)?;
    let mut changes = Changes::default();
    // What goes comes first: a hardware address may have moved from one address to another.
    changes.neighbours(&neighbours, network, bridge);
    changes.forwarding(&forwarding, network, (device, ways));
    changes.send(socket)
}

#[derive(Debug, PartialEq, Eq)]
enum Change {
    DeleteTunnel(u32, Mac),
    DeletePort(u32, Mac),
    Forward(u32, Mac, (IpAddr, Option<u32>)),
    DeleteNeighbour(u32, IpAddr),
    Neighbour(u32, IpAddr, Mac),
}

#[derive(Debug, Default)]
struct Changes(Vec<Change>);

impl Changes {
    fn neighbours(&mut self, there: &[Neighbour], network: &OverlayNetwork, bridge: u32) {
        let there: BTreeMap<IpAddr, Mac> = there
            .iter()
            .filter(|neighbour| neighbour.permanent)
            .filter_map(|neighbour| Some((neighbour.address, neighbour.mac?)))
            .filter(|(address, _)| network.subnets.iter().any(|net| net.contains(address)))
            .collect();
        let wanted: BTreeMap<IpAddr, Mac> =
            network.endpoints.iter().map(|(address, (mac, _))| (*address, *mac)).collect();
        let gone = there.keys().filter(|address| !wanted.contains_key(*address));
        self.0.extend(gone.map(|address| Change::DeleteNeighbour(bridge, *address)));
        let new = wanted.iter().filter(|(address, mac)| there.get(*address) != Some(*mac));
        self.0.extend(new.map(|(address, mac)| Change::Neighbour(bridge, *address, *mac)));
    }

    /// A host without a tunnel is not sent to, where there should be one.
    fn forwarding(
        &mut self,
        there: &[Entry],
        network: &OverlayNetwork,
        (device, ways): (u32, Option<&Ways>),
    ) {
        let reached = network.endpoints.values().filter_map(|(mac, host)| match ways {
            None => Some((*mac, (*host, None))),
            Some(ways) => ways.via(*host).map(|via| (*mac, (*host, Some(via)))),
        });
        let wanted: BTreeMap<Mac, (IpAddr, Option<u32>)> = reached.collect();
        let (mut tunnels, mut ports) = (BTreeMap::new(), BTreeSet::new());
        for entry in there {
            match *entry {
                Entry::Tunnel(mac, to, via) => drop(tunnels.insert(mac, (to, via))),
                Entry::Port(mac) => drop(ports.insert(mac)),
            }
        }
        let gone = tunnels.keys().filter(|mac| !wanted.contains_key(*mac));
        self.0.extend(gone.map(|mac| Change::DeleteTunnel(device, *mac)));
        let gone = ports.iter().filter(|mac| !wanted.contains_key(*mac));
        self.0.extend(gone.map(|mac| Change::DeletePort(device, *mac)));
        let new = wanted
            .iter()
            .filter(|(mac, to)| tunnels.get(*mac) != Some(*to) || !ports.contains(*mac));
        self.0.extend(new.map(|(mac, to)| Change::Forward(device, *mac, *to)));
    }

    fn send(self, socket: &mut Socket) -> Result<usize> {
        for changes in self.0.chunks(CHUNK) {
            let mut batch = Batch::new();
            changes.iter().for_each(|change| change.add(&mut batch));
            // What should go may have gone.
            socket.send(&mut batch)?.except(Errno::NOENT).into_result()?;
        }
        Ok(self.0.len())
    }
}

impl Change {
    fn add(&self, batch: &mut Batch) {
        match *self {
            Change::DeleteTunnel(device, mac) => batch.delete_tunnel_entry(device, mac),
            Change::DeletePort(device, mac) => batch.delete_port_entry(device, mac),
            Change::Forward(device, mac, to) => batch.set_forwarding(device, mac, to),
            Change::DeleteNeighbour(bridge, address) => batch.delete_neighbour(bridge, address),
            Change::Neighbour(bridge, address, mac) => batch.set_neighbour(bridge, address, mac),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An encrypted network with a container on a host with this address.
    fn encrypted(host: IpAddr) -> OverlayNetwork {
        let mac = Mac::local([2, 0, 0, 0, 0, 2]);
        OverlayNetwork {
            name: "front".parse().unwrap(),
            vni: model::Vni::new(7).unwrap(),
            bridge: "br0".parse().unwrap(),
            mac: Mac::local([2, 0, 0, 0, 0, 1]),
            subnets: vec!["fd00:8::/64".parse().unwrap()],
            mtu: model::Mtu::new(1350).unwrap(),
            encrypted: true,
            endpoints: BTreeMap::from([("fd00:8::2".parse().unwrap(), (mac, host))]),
        }
    }

    #[test]
    fn nothing_of_an_encrypted_network_is_sent_where_no_tunnel_leads() {
        for host in ["192.0.2.2", "2001:db8::2"] {
            let (network, ways) = (encrypted(host.parse().unwrap()), Ways::default());
            let mac = Mac::local([2, 0, 0, 0, 0, 2]);
            let mut changes = Changes::default();
            changes.forwarding(&[], &network, (5, Some(&ways)));
            assert_eq!(changes.0, [], "{host}");
            // What led there in clear text goes.
            let there = [Entry::Tunnel(mac, host.parse().unwrap(), None), Entry::Port(mac)];
            changes.forwarding(&there, &network, (5, Some(&ways)));
            assert_eq!(changes.0, [Change::DeleteTunnel(5, mac), Change::DeletePort(5, mac)]);
        }
    }
}
