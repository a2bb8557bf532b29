//! A network of many hosts, as one of this host's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::Shared;
use host::host_context::HostContext;
use host::hosts::networks;
use linux::filter::{self, Guard};
use linux::iptables::{Iptables, Variant};
use model::{
    Backend, Bridge, BridgePort, EgressPolicy, Error, Family, Firewall, Gateway, IfName,
    IngressPolicy, IpNet, Ipam, Kind, Link, LinkKind, Masquerade, Network, NetworkName, Order,
    Pool, PoolId, Range, Result, Runtime, SharedNetwork, Sources, Space, Timestamp, Transport,
    Wiring, hosts_of, next_address,
};
use netlink::{HostLock, Socket};
use serde::{Deserialize, Serialize};

use super::member::{self, Member};

/// How long to wait for another process that changes rules: the lease of this host ends meanwhile.
const BRIEFLY: Duration = Duration::from_secs(1);

/// A network that the daemon made, and which of its addresses are this host's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Local {
    pub(super) network: SharedNetwork,
    /// The block in which the bridge has its address.
    pub(super) block: IpNet,
    /// Blocks that were claimed later, while the first was full.
    #[serde(default)]
    pub(super) more: Vec<IpNet>,
}

impl Local {
    /// Makes the network here, where it is not yet; the packet filter that it is made with.
    pub(super) fn ensure(
        &self,
        name: &NetworkName,
        place: &Path,
        host_context: &HostContext,
        (backend, now, is_draining): (Backend, Timestamp, bool),
    ) -> Result<Backend> {
        let known: Option<Self> = member::read(&path(place, name))?;
        let engine = host_context.engine();
        let declared = engine.records.declared(name)?;
        let network = match (declared, known) {
            (Some(declared), Some(known)) if known == *self => {
                // The process that wrote this may have ended before the book had the ranges.
                engine.addresses.set_shared(name, &self.ranges(), self.shared(is_draining))?;
                declared
            }
            (Some(declared), Some(known)) if self.is_same(&known) => {
                self.write(name, place)?;
                engine.addresses.set_shared(name, &self.ranges(), self.shared(is_draining))?;
                declared
            }
            (Some(_), Some(_)) => {
                // The cluster has made it anew while this host did not listen.
                remove(name, place, host_context)?;
                self.create(name, place, host_context, (backend, now, is_draining))?
            }
            (Some(_), None) => {
                return Err(Error::conflict(format!(
                    "this host has a network {name} of its own; remove it with `spoke network rm {name}`"
                )));
            }
            (None, _) => self.create(name, place, host_context, (backend, now, is_draining))?,
        };
        let bridge = model::bridge_name(name)?;
        if Socket::route()?.link_index(&bridge)?.is_none() {
            host_context.raise(&network)?;
        }
        let backend = backend_of(&network);
        self.guard(&bridge, backend, place)?;
        Ok(backend)
    }

    /// Has what holds for the bridge hold, but for what [`Local::guard_by_rules`] executes programs for.
    pub(super) fn guard(&self, bridge: &IfName, backend: Backend, place: &Path) -> Result<()> {
        match backend {
            Backend::Nftables => self.police(bridge, place),
            Backend::Iptables if self.network.rules.internal => {
                filter::make_internal(&mut Socket::netfilter()?, bridge)
            }
            Backend::Iptables => Ok(()),
        }
    }

    /// What the reference plugins' chains cannot hold.
    fn refuse_backend(&self, name: &NetworkName, backend: Backend) -> Result<()> {
        if backend == Backend::Iptables && self.network.rules.egress.is_some() {
            return Err(Error::unsupported(format!(
                "network {name} is not used: its egress rules need the nftables back end, and this host has \
                 `backend = \"iptables\"` in its configuration"
            )));
        }
        Ok(())
    }

    /// As [`Local::police`], by the reference plugins' chains.
    pub(super) fn guard_by_rules(&self, name: &NetworkName, runtime: &Path) -> Result<()> {
        let families: BTreeSet<Family> = self.network.nets().map(|net| Family::of(&net)).collect();
        let families: Vec<Family> = families.into_iter().collect();
        let is_guarded = self.network.rules.ingress != IngressPolicy::Open;
        let lock = HostLock::below(runtime);
        let iptables = Iptables::new(Variant::Host).locked_by(&lock).waiting(BRIEFLY);
        iptables.isolate_bridge(&model::bridge_name(name)?, &families, is_guarded)
    }

    /// Containers of other hosts come by this bridge too: the host's isolated networks hold against them. What other
    /// networks send to these by this host is kept from an isolated one here.
    fn police(&self, bridge: &IfName, place: &Path) -> Result<()> {
        let (socket, rules) = (&mut Socket::netfilter()?, &self.network.rules);
        if rules.is_open() {
            return filter::police(socket, bridge);
        }
        let guard = Guard {
            is_guarded: rules.ingress != IngressPolicy::Open,
            is_internal: rules.internal,
            underlay: self.underlay(place)?,
        };
        filter::guard_bridge(socket, bridge, &guard)
    }

    /// The device by which packets of the network come from other hosts, where they are routed.
    fn underlay(&self, place: &Path) -> Result<Option<IfName>> {
        if self.network.transport != Transport::Route {
            return Ok(None);
        }
        let Some(member) = Member::read(place)? else { return Ok(None) };
        let underlay = overlay::underlay(member.address, &mut Socket::route()?)?;
        Ok(underlay.map(|underlay| underlay.name))
    }

    fn create(
        &self,
        name: &NetworkName,
        place: &Path,
        host_context: &HostContext,
        (backend, now, is_draining): (Backend, Timestamp, bool),
    ) -> Result<Network> {
        self.refuse_backend(name, backend)?;
        // The intent, before the first side effect.
        self.write(name, place)?;
        let network = self.described(name, backend, now)?;
        host_context.engine().networks.create(&network)?;
        if is_draining {
            let shared = self.shared(true);
            host_context.engine().addresses.set_shared(name, &self.ranges(), shared)?;
        }
        Ok(network)
    }

    /// What a daemon changes of it besides its ranges.
    fn shared(&self, is_draining: bool) -> Shared {
        Shared { is_draining, names: self.network.names, sticky: self.network.sticky }
    }

    fn write(&self, name: &NetworkName, place: &Path) -> Result<()> {
        member::write(&networks(place), name.as_str(), self)
    }

    /// Whether they differ at most in the blocks that came later.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.network.is_same(&other.network) && self.block == other.block
    }

    /// All blocks.
    pub(super) fn blocks(&self) -> impl Iterator<Item = IpNet> + '_ {
        std::iter::once(self.block).chain(self.more.iter().copied())
    }

    /// How many addresses containers can have in a block.
    pub(super) fn capacity(&self, block: IpNet) -> usize {
        let range = self.range(block);
        usize::try_from(range.size()).unwrap_or(usize::MAX)
    }

    fn described(&self, name: &NetworkName, backend: Backend, since: Timestamp) -> Result<Network> {
        let (bridge, rules) = (model::bridge_name(name)?, &self.network.rules);
        let kind = LinkKind::Bridge(Bridge {
            name: bridge.clone(),
            gateway: if rules.internal { Gateway::Address } else { Gateway::Default },
            host_absent: model::Absence::default(),
            force_address: false,
            hairpin: true,
            promiscuous: false,
            // The table of routed networks decides who.
            port: BridgePort {
                direct: self.network.transport == Transport::Route,
                ..BridgePort::default()
            },
        });
        let wiring = Wiring {
            link: Some(Link { kind, name: None, mac: None, mtu: Some(self.network.mtu) }),
            masquerade: Some(Masquerade {
                backend,
                sources: Sources { v4: None, v6: None },
                only: None,
            }),
            firewall: Some(Firewall {
                bridge: Some(bridge),
                ingress: rules.ingress,
                egress: if rules.internal { EgressPolicy::Internal } else { EgressPolicy::Open },
                ..Firewall::open(backend)
            }),
            names: self.network.names,
            fence: rules.egress.clone(),
            ..Wiring::default()
        };
        let ipam = Ipam::Book { pools: self.pools(name) };
        let network = Network::new(name.clone(), Runtime::Spoke, since, wiring, ipam);
        Ok(Network { sticky: self.network.sticky, ..network })
    }

    /// One of each family of the network.
    fn pools(&self, name: &NetworkName) -> Vec<Pool> {
        let pool = |(index, ranges)| Pool {
            id: PoolId { network: name.clone(), index },
            space: Space::Host,
            ranges,
            order: Order::NextAfterLast,
        };
        (0..).zip(self.ranges()).map(pool).collect()
    }

    fn ranges(&self) -> Vec<Vec<Range>> {
        let own = self.blocks().map(|block| self.range(block)).collect();
        let v6: Vec<Range> = self.blocks().filter_map(|block| self.range6(block)).collect();
        [own, v6].into_iter().filter(|ranges| !ranges.is_empty()).collect()
    }

    /// The IPv6 addresses that belong to a block of IPv4 addresses.
    fn range6(&self, block: IpNet) -> Option<Range> {
        let (subnet, own) = (self.network.subnet6?, self.network.addresses6(&self.block)?);
        let net = self.network.addresses6(&block)?;
        Some(range(IpNet::V6(subnet), IpNet::V6(own), IpNet::V6(net)))
    }

    /// The addresses of a block.
    pub(super) fn range(&self, block: IpNet) -> Range {
        range(self.network.subnet, self.block, block)
    }
}

/// A part of a subnet without what would be a bridge's address, and without those of the subnet that no host may
/// have. The gateway is the bridge's own address, in `own`.
fn range(subnet: IpNet, own: IpNet, part: IpNet) -> Range {
    let bridge = SharedNetwork::gateway(&part);
    Range {
        subnet,
        first: next_address(bridge).unwrap_or(bridge),
        last: part.broadcast().min(hosts_of(&subnet).1),
        gateway: Some(SharedNetwork::gateway(&own)),
    }
}

/// What the daemon made, by name.
pub(super) fn made(place: &Path) -> Result<BTreeMap<NetworkName, Local>> {
    let mut made = BTreeMap::new();
    for entry in fs::read_dir(networks(place)).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(Ok(name)) = name.to_str().map(str::parse::<NetworkName>) else { continue };
        if let Some(local) = member::read(&path(place, &name))? {
            made.insert(name, local);
        }
    }
    Ok(made)
}

/// Removes a network from this host, with what names keep on it. `Conflict` while it is used.
pub(super) fn remove(name: &NetworkName, place: &Path, host_context: &HostContext) -> Result<()> {
    match host_context.engine().networks.remove(name, false) {
        Ok(()) => {}
        Err(error) if error.kind() == Kind::NotFound => {}
        Err(error) => return Err(error),
    }
    host_context.engine().addresses.forget_names(name)?;
    member::remove(&path(place, name))
}

/// Forgets that the daemon made it: it stays, as a network of this host alone, which others reach by published ports.
pub(super) fn disown(name: &NetworkName, place: &Path, host_context: &HostContext) -> Result<()> {
    host_context.engine().addresses.close_network(name)?;
    member::remove(&path(place, name))
}

/// The packet filter that a network is made with. The configuration may name another one by now.
pub(super) fn backend_of(network: &Network) -> Backend {
    network.wiring.firewall.as_ref().map_or(Backend::Nftables, |firewall| firewall.backend)
}

fn path(place: &Path, name: &NetworkName) -> PathBuf {
    networks(place).join(name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(subnet: &str, block: &str) -> Local {
        let block: IpNet = block.parse().unwrap();
        let network = SharedNetwork {
            vni: model::Vni::new(7).unwrap(),
            subnet: subnet.parse().unwrap(),
            block: block.prefix_len(),
            mtu: model::Mtu::new(1450).unwrap(),
            subnet6: None,
            hosts: model::Placement::All,
            encrypted: false,
            transport: Transport::Vxlan,
            engines: Default::default(),
            names: false,
            sticky: false,
            rules: model::SharedRules::OPEN,
            since: Timestamp(1),
        };
        Local { network, block, more: Vec::new() }
    }

    #[test]
    fn a_host_leases_from_its_block_only() {
        let range = |subnet, block| {
            let pools = local(subnet, block).pools(&"front".parse().unwrap());
            let range = &pools[0].ranges[0];
            [range.gateway.unwrap(), range.first, range.last].map(|address| address.to_string())
        };
        assert_eq!(range("10.8.0.0/16", "10.8.0.0/24"), ["10.8.0.1", "10.8.0.2", "10.8.0.255"]);
        assert_eq!(range("10.8.0.0/16", "10.8.3.0/24"), ["10.8.3.1", "10.8.3.2", "10.8.3.255"]);
        assert_eq!(range("10.8.0.0/16", "10.8.255.0/24")[2], "10.8.255.254");
        let mut more = local("10.8.0.0/16", "10.8.3.0/29");
        more.more = vec!["10.8.1.0/29".parse().unwrap()];
        let pool = &more.pools(&"front".parse().unwrap())[0];
        assert_eq!(pool.shown(), "10.8.3.2-10.8.3.7,10.8.1.2-10.8.1.7");
        assert!(pool.ranges.iter().all(|range| range.gateway == pool.ranges[0].gateway));
        assert_eq!(more.capacity(more.block), 6);
        more.network.subnet6 = Some("fd00:8::/64".parse().unwrap());
        let pool = &more.pools(&"front".parse().unwrap())[1];
        assert_eq!(
            pool.shown(),
            "fd00:8::300:0:0:2-fd00:8::307:ffff:ffff:ffff,fd00:8::100:0:0:2-fd00:8::107:ffff:ffff:ffff"
        );
        assert!(pool.ranges.iter().all(|range| range.gateway == pool.ranges[0].gateway));
    }
}
