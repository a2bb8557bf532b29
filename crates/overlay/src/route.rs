//! Networks whose packets go from host to host as they are: the hosts share a segment.
//!
//! Each block of another host has a route by that host's own address, and an exact address that is elsewhere than its
//! block has a route of its own. A network's subnet spans its hosts, so a container asks by ARP or neighbour discovery
//! for what is on another host: the host answers for what it has a route to (`proxy_arp`), and in IPv6, where the
//! kernel needs each address, for those that are known (`proxy_ndp`). The table `inet spoke_routes` lets nothing
//! into the bridges from the segment but what comes from the other members, from addresses of the same network.

mod filter;
mod link;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use model::{Error, Family, HostLink, IfName, IpNet, Mac, Mtu, NetworkName, Result};
use netlink::route::OF_HOSTS;
use netlink::wire::Batch;
use netlink::{At, Errno, Link, Links, Route, Socket, sysctl};

pub use filter::RouteFilter;
pub(crate) use filter::is_ours;
pub use link::{Underlay, underlay};

use crate::outcome::Outcome;

/// So many changes are sent at a time.
const CHUNK: usize = 256;

/// What there should be of routed networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// The networks.
    pub networks: Vec<RoutedNetwork>,
    /// By what the other members are known on the segment: of those from which packets are taken.
    pub links: BTreeMap<IpAddr, HostLink>,
    /// The bridges of routed networks that are still here, while the cluster does not say that they should be, and
    /// their addresses: no container sends to those.
    pub closed: BTreeMap<IfName, Vec<IpNet>>,
}

/// A routed network, on one of its hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedNetwork {
    /// Its name.
    pub name: NetworkName,
    /// Its bridge, which is there or not.
    pub bridge: IfName,
    /// The bridge's own hardware address: it is another one on each host.
    pub mac: Mac,
    /// Its addresses: at most one subnet of each family.
    pub subnets: Vec<IpNet>,
    /// Of all its devices.
    pub mtu: Mtu,
    /// The addresses of the bridge: what this host itself sends has these.
    pub gateways: Vec<IpAddr>,
    /// What is on other hosts, and the addresses of these.
    pub nets: BTreeMap<IpNet, IpAddr>,
    /// Exact addresses that this host has outside its blocks.
    pub own: BTreeSet<IpAddr>,
    /// Addresses that are known on other hosts.
    pub elsewhere: BTreeSet<IpAddr>,
}

impl Routes {
    /// Who may send to the bridges.
    pub(crate) fn filter(&self, underlay: Option<&Underlay>) -> RouteFilter {
        let sources = self.networks.iter();
        let sources = sources.map(|it| (it.bridge.clone(), it.nets.keys().copied().collect()));
        let closed = self.closed.keys().map(|bridge| (bridge.clone(), Vec::new()));
        let subnets = self.networks.iter().flat_map(|it| it.subnets.iter().copied());
        RouteFilter {
            underlay: underlay.map(|underlay| underlay.name.clone()),
            hosts: self.links.values().map(|link| link.mac).collect(),
            sources: closed.chain(sources).collect(),
            subnets: subnets.chain(self.closed.values().flatten().copied()).collect(),
        }
    }

    /// Whether there is nothing to keep strangers from.
    pub(crate) fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.closed.is_empty()
    }

    /// Makes the filter where none is there; the filter, where it was made. One that is there was made by what the
    /// cluster said.
    ///
    /// # Errors
    /// As the kernel's.
    pub fn close(&self, local: IpAddr) -> Result<Option<RouteFilter>> {
        if self.is_empty() || filter::is_there(&mut Socket::netfilter()?)? {
            return Ok(None);
        }
        let underlay = underlay(local, &mut Socket::route()?)?;
        let filter = self.filter(underlay.as_ref());
        filter.ensure()?;
        Ok(Some(filter))
    }

    /// Removes the filter of a host of no cluster once none of its bridges is there; whether there is no filter.
    ///
    /// # Errors
    /// As the kernel's.
    pub fn sweep() -> Result<bool> {
        let mut netfilter = Socket::netfilter()?;
        if !filter::is_there(&mut netfilter)? {
            return Ok(true);
        }
        let bridges = Socket::route()?.links(Links { kind: Some("bridge"), master: None })?;
        if filter::has_one_of(&mut netfilter, bridges.iter().map(|link| &link.name))? {
            return Ok(false);
        }
        filter::remove(&mut netfilter).map(|()| true)
    }

    /// Compares this with the kernel and changes what differs.
    ///
    /// # Errors
    /// Where the kernel cannot be asked, or strangers cannot be kept out: then no route is made.
    pub(crate) fn apply(&self, local: IpAddr, outcome: &mut Outcome) -> Result<()> {
        if self.is_empty() {
            return remove(outcome);
        }
        let mut socket = Socket::route()?;
        let underlay = underlay(local, &mut socket)?;
        let filter = self.filter(underlay.as_ref());
        outcome.changed += usize::from(filter.ensure()?);
        if self.networks.is_empty() {
            outcome.changed += set(&[], &mut socket)?;
            return Ok(());
        }
        let underlay = underlay.ok_or_else(|| no_device(local))?;
        let mut wanted = Vec::new();
        for network in &self.networks {
            let made = network.apply((&underlay, &self.links), &mut socket, &mut wanted);
            let made = made.map(|(changed, unreached)| {
                outcome.changed += changed;
                outcome.failures.extend(unreached);
            });
            if let Err(error) = made {
                let about = format!("network {} between hosts", network.name);
                outcome.failures.push(error.context(about));
            }
        }
        outcome.changed += set(&wanted, &mut socket)?;
        Ok(())
    }
}

fn no_device(local: IpAddr) -> Error {
    Error::not_found(format!("no device of this host has the address {local}"))
}

/// The routes go first: without them nothing is sent, and without the filter everything would be taken.
fn remove(outcome: &mut Outcome) -> Result<()> {
    outcome.changed += set(&[], &mut Socket::route()?)?;
    let mut netfilter = Socket::netfilter()?;
    if filter::is_there(&mut netfilter)? {
        outcome.changed += 1;
        filter::remove(&mut netfilter)?;
    }
    Ok(())
}

/// Makes the routes with our mark these; how many were changed. One whose next hop is not known stays as it is.
fn set(wanted: &[ExpectedRoute], socket: &mut Socket) -> Result<usize> {
    let mut changes = Vec::new();
    for family in [Family::V4, Family::V6] {
        let there = socket.marked_routes(family, OF_HOSTS)?;
        let known: BTreeMap<IpNet, &ExpectedRoute> =
            wanted.iter().map(|it| (it.dst(), it)).collect();
        let gone = there.iter().filter(|route| !known.contains_key(&route.dst));
        changes.extend(gone.map(|route| (*route, false)));
        let new = wanted.iter().filter_map(|it| match it {
            ExpectedRoute::Route(route) if Family::of(&route.dst) == family => Some(*route),
            ExpectedRoute::Route(_) | ExpectedRoute::AsItIs(_) => None,
        });
        let has = |route: &Route| there.iter().any(|it| is_same(it, route));
        changes.extend(new.filter(|route| !has(route)).map(|route| (route, true)));
    }
    let mut done = Ok(());
    for some in changes.chunks(CHUNK) {
        let mut batch = Batch::new();
        for (route, is_wanted) in some {
            match is_wanted {
                true => batch.set_marked_route(route, OF_HOSTS),
                false => batch.delete_marked_route(route, OF_HOSTS),
            };
        }
        // What should go may have gone. What is refused is no reason to leave the others out.
        done = done.and(socket.send(&mut batch)?.except(Errno::SRCH).into_result());
    }
    done.map(|()| changes.len())
}

fn is_same(there: &Route, wanted: &Route) -> bool {
    (there.dst, there.gateway, there.link, there.source)
        == (wanted.dst, wanted.gateway, wanted.link, wanted.source)
}

/// A route that there should be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ExpectedRoute {
    Route(Route),
    /// It is not known now by which next hop.
    AsItIs(IpNet),
}

impl ExpectedRoute {
    fn dst(&self) -> IpNet {
        match self {
            ExpectedRoute::Route(route) => route.dst,
            ExpectedRoute::AsItIs(dst) => *dst,
        }
    }
}

impl RoutedNetwork {
    /// Makes the bridge what it should be, and adds the routes that there should be; how much was changed, and what
    /// is not reached.
    fn apply(
        &self,
        (underlay, links): (&Underlay, &BTreeMap<IpAddr, HostLink>),
        socket: &mut Socket,
        wanted: &mut Vec<ExpectedRoute>,
    ) -> Result<(usize, Vec<Error>)> {
        // Made with its first container, or by the daemon.
        let Some(bridge) = socket.link(At::Name(&self.bridge))? else {
            return Ok((0, Vec::new()));
        };
        if underlay.mtu < self.mtu.bytes() {
            return Err(Error::invalid(format!(
                "its MTU is {}, and packets of {} bytes do not fit into the {} bytes of the device with {}; make the \
                 network again with --mtu {}, or raise the device's MTU",
                self.mtu, self.mtu, underlay.mtu, underlay.address, underlay.mtu
            )));
        }
        let mut changed = 0;
        if bridge.mac != Some(self.mac) {
            crate::kernel_device::rename((&self.bridge, self.mac), &bridge, socket)?;
            changed += 1;
        }
        changed += self.answer(&bridge, socket)?;
        let mut unreached = Vec::new();
        for (net, host) in &self.nets {
            match self.way(*net, *host, (underlay, links)) {
                Ok(route) => wanted.push(route),
                Err(error) => unreached.push(error),
            }
        }
        let own = self.own.iter().map(|it| Route::new(IpNet::from(*it), None, Some(bridge.index)));
        wanted.extend(own.map(ExpectedRoute::Route));
        unreached.dedup_by_key(|error| error.to_string());
        Ok((changed, unreached))
    }

    fn way(
        &self,
        net: IpNet,
        host: IpAddr,
        (underlay, links): (&Underlay, &BTreeMap<IpAddr, HostLink>),
    ) -> Result<ExpectedRoute> {
        if !underlay.has(host) {
            return Err(Error::invalid(format!(
                "network {}: {host} is not on the segment of {} ({}), by which its packets would go as they are; make \
                 the network again with --transport vxlan",
                self.name, underlay.name, underlay.net
            )));
        }
        let hop = match (net, host) {
            (IpNet::V4(_), IpAddr::V4(_)) | (IpNet::V6(_), IpAddr::V6(_)) => Some(host),
            (IpNet::V6(_), _) => links.get(&host).and_then(|link| link.v6).map(IpAddr::V6),
            // No network is declared so.
            (IpNet::V4(_), _) => None,
        };
        let Some(hop) = hop else { return Ok(ExpectedRoute::AsItIs(net)) };
        let source = self.gateways.iter().copied().find(|it| it.is_ipv4() == hop.is_ipv4());
        let route = Route::new(net, Some(hop), Some(underlay.link));
        Ok(ExpectedRoute::Route(Route { source, ..route }))
    }

    /// Answers on the bridge for what is on other hosts; how much was changed.
    fn answer(&self, bridge: &Link, socket: &mut Socket) -> Result<usize> {
        let name = &self.bridge;
        sysctl::ensure(format!("net/ipv4/conf/{name}/proxy_arp"), "1")?;
        // The kernel would wait for up to 0.8 seconds.
        sysctl::ensure(format!("net/ipv4/neigh/{name}/proxy_delay"), "0")?;
        if self.subnets.iter().all(|net| net.addr().is_ipv4()) {
            return Ok(0);
        }
        sysctl::ensure(format!("net/ipv6/conf/{name}/proxy_ndp"), "1")?;
        sysctl::ensure(format!("net/ipv6/neigh/{name}/proxy_delay"), "0")?;
        let v6 = |address: &IpAddr| match address {
            IpAddr::V6(address) => Some(*address),
            IpAddr::V4(_) => None,
        };
        let wanted: BTreeSet<Ipv6Addr> = self.elsewhere.iter().filter_map(v6).collect();
        let there: BTreeSet<Ipv6Addr> = socket.proxies(bridge.index)?.into_iter().collect();
        let mut changes: Vec<(Ipv6Addr, bool)> =
            there.difference(&wanted).map(|it| (*it, false)).collect();
        changes.extend(wanted.difference(&there).map(|it| (*it, true)));
        for some in changes.chunks(CHUNK) {
            let mut batch = Batch::new();
            for (address, is_wanted) in some {
                match is_wanted {
                    true => batch.set_proxy(bridge.index, *address),
                    false => batch.delete_proxy(bridge.index, *address),
                };
            }
            socket.send(&mut batch)?.except(Errno::NOENT).into_result()?;
        }
        Ok(changes.len())
    }
}
