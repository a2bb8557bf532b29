//! Outlines: the few fields of a record that decisions about other records need.

use model::{IpNet, Network, NetworkName, Range, Result, Runtime, Space, Stage, SubnetId};

use super::{Key, Record};

/// The name and the subnets of a declared network or an allocated subnet. A search for overlapping
/// networks needs no more than this, however many there are. Spaces are identified by their
/// [`Space::label`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outline<'a> {
    /// A declared network has this bridge.
    Bridge {
        /// The network's name.
        network: &'a str,
        /// The bridge's.
        bridge: &'a str,
    },
    /// A declared network is, or was, called otherwise than by its name.
    Title {
        /// The network's name.
        network: &'a str,
        /// What it is, or was, called.
        title: &'a str,
    },
    /// All addresses of a declared network that lie in this subnet may be its own.
    Net {
        /// The network's name.
        network: &'a str,
        /// The runtime that owns it.
        runtime: Runtime,
        /// Where the addresses are unique.
        space: &'a str,
        /// The subnet.
        net: IpNet,
    },
    /// A subnet was allocated.
    Subnet {
        /// For a network of this name.
        network: &'a str,
        /// The runtime that requested it.
        runtime: Runtime,
        /// Where its addresses are unique.
        space: &'a str,
        /// The subnet.
        net: IpNet,
        /// All of it, or only this part.
        part: Option<IpNet>,
    },
}

impl Outline<'_> {
    /// Says what there is of one record; nothing where it is of another kind.
    pub fn each_of(key: &Key, record: &Record, report: &mut dyn FnMut(&Outline<'_>)) {
        match (key, record) {
            (Key::Network(name), Record::Network(network)) => {
                let network_name = name.as_str();
                let link = network.wiring.link.as_ref();
                if let Some(bridge) = link.and_then(|link| link.kind.bridge()) {
                    report(&Outline::Bridge {
                        network: network_name,
                        bridge: bridge.name.as_str(),
                    });
                }
                let former = network.former.iter().map(|former| &former.name);
                for title in network.title.iter().chain(former) {
                    report(&Outline::Title { network: network_name, title: title.as_str() });
                }
                if network.stage == Stage::Template {
                    return;
                }
                for (space, range) in spans(network) {
                    report(&Outline::Net {
                        network: network_name,
                        runtime: network.runtime,
                        space: space.label(),
                        net: range.subnet.trunc(),
                    });
                }
            }
            (Key::Subnet(id), Record::Subnet(subnet)) => report(&Outline::Subnet {
                network: subnet.network.as_str(),
                runtime: subnet.runtime,
                space: id.space.label(),
                net: id.net,
                part: id.part,
            }),
            _ => {}
        }
    }

    /// Which record it is of.
    pub fn key(&self) -> Result<Key> {
        Ok(match *self {
            Outline::Bridge { network, .. }
            | Outline::Title { network, .. }
            | Outline::Net { network, .. } => Key::Network(network.parse::<NetworkName>()?),
            Outline::Subnet { space, net, part, .. } => {
                Key::Subnet(SubnetId { space: Space::of_label(space)?, net, part })
            }
        })
    }

    /// Whether it is of the record under `key`.
    pub fn is_of(&self, key: &Key) -> bool {
        match (*self, key) {
            (
                Outline::Bridge { network, .. }
                | Outline::Title { network, .. }
                | Outline::Net { network, .. },
                Key::Network(name),
            ) => network == name.as_str(),
            (Outline::Subnet { space, net, part, .. }, Key::Subnet(id)) => {
                (space, net, part) == (id.space.label(), id.net, id.part)
            }
            _ => false,
        }
    }
}

/// The addresses of the network, and their spaces: those that it leases, and those that a third
/// party gave for it, or is to give.
pub(crate) fn spans(network: &Network) -> Vec<(Space, Range)> {
    let pools = network.ipam.pools().iter();
    let leased =
        pools.flat_map(|pool| pool.ranges.iter().map(|range| (pool.space.clone(), range.clone())));
    let space = network.wiring.space(&network.name);
    let remote = network.ipam.remote().into_iter().flat_map(|remote| &remote.pools);
    let given = remote.filter_map(|pool| {
        let net = pool.given.as_ref().map_or(pool.net, |given| Some(given.net))?.trunc();
        let whole = Range::new(net, net.network(), net.broadcast(), None).ok()?;
        Some((space.clone(), whole))
    });
    leased.chain(given).collect()
}
