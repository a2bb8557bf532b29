//! A kernel that answers what a test gives it, and a trip through it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use model::{Error, Family, Mac, Protocol, Result};
use netlink::diag::Taking;
use netlink::nft::{AnySet, Datum};
use netlink::sysctl::Parameter;
use netlink::{
    Address, BridgeSettings, Errno, Flags, Forwarded, Link, Neighbour, OperState, RouteLookup,
    Routed,
};

use super::{Bridging, End, Plug, Site, Standing, Trip};
use crate::packet::Carried;
use crate::port::{Kernel, Space, Which};
use crate::rules::Rules;

/// `IFF_UP` and `IFF_LOWER_UP`.
const WORKS: u32 = 0x1_0001;

/// The same rules are in every namespace.
#[derive(Default)]
pub(super) struct Fake {
    links: Vec<Link>,
    addresses: Vec<Address>,
    /// By destination; there is no route to others.
    ways: BTreeMap<IpAddr, RouteLookup>,
    /// By source, before those by destination.
    ways_from: BTreeMap<IpAddr, RouteLookup>,
    parameters: BTreeMap<String, String>,
    pub(super) rules: Rc<Rules>,
}

impl Fake {
    /// A link that works; its index.
    pub(super) fn link(&mut self, name: &str, kind: Option<&str>, addresses: &[&str]) -> u32 {
        let index = u32::try_from(self.links.len()).unwrap() + 2;
        self.links.push(Link {
            index,
            name: name.parse().unwrap(),
            mac: None,
            mtu: 1500,
            flags: Flags(WORKS),
            kind: kind.map(str::to_owned),
            master: None,
            peer: None,
            peer_netns: None,
            group: 0,
            alias: None,
            tx_queue: 0,
            state: OperState::Up,
            port: None,
            sharing: None,
        });
        self.addresses.extend(addresses.iter().map(|address| Address {
            link: index,
            address: address.parse().unwrap(),
            scope: 0,
            broadcast: None,
            tentative: false,
            duplicate: false,
            protocol: 0,
        }));
        index
    }

    pub(super) fn route(&mut self, to: &str, way: RouteLookup) {
        self.ways.insert(to.parse().unwrap(), way);
    }

    pub(super) fn route_from(&mut self, from: &str, way: RouteLookup) {
        self.ways_from.insert(from.parse().unwrap(), way);
    }

    pub(super) fn set(&mut self, key: &str, value: &str) {
        self.parameters.insert(key.to_owned(), value.to_owned());
    }
}

impl Fake {
    /// Whether the strict `rp_filter` of the link by which it came refuses it, as the kernel does.
    fn is_filtered_back(&self, packet: &Routed) -> bool {
        let (Some(input), Some(from)) = (packet.input, packet.from) else { return false };
        let link = self.links.iter().find(|link| link.index == input);
        let key = link.map(|link| Parameter::rp_filter(link.name.as_str()));
        let mode = key.and_then(|key| self.parameters.get(key.path()));
        let is_back =
            matches!(self.ways.get(&from), Some(RouteLookup::Out { link, .. }) if *link == input);
        mode.is_some_and(|mode| mode == "1") && !is_back
    }
}

/// Out of a link, by a gateway or onto its segment.
pub(super) fn out(link: u32, gateway: Option<&str>, source: &str) -> RouteLookup {
    let gateway = gateway.map(|gateway| gateway.parse().unwrap());
    RouteLookup::Out { link, gateway, source: Some(source.parse().unwrap()), mtu: None }
}

fn no<T>() -> Result<T> {
    Err(Error::not_found("nothing of that"))
}

impl Kernel for Fake {
    fn link(&mut self, _: Space, which: &Which) -> Result<Option<Link>> {
        let is_it = |link: &&Link| match which {
            Which::Index(index) => link.index == *index,
            Which::Name(name) => link.name == *name,
        };
        Ok(self.links.iter().find(is_it).cloned())
    }
    fn addresses(&mut self, _: Space) -> Result<Vec<Address>> {
        Ok(self.addresses.clone())
    }
    fn neighbours(&mut self, _: Space, _: u32) -> Result<Vec<Neighbour>> {
        Ok(Vec::new())
    }
    fn way(&mut self, _: Space, packet: &Routed) -> Result<RouteLookup> {
        if self.is_filtered_back(packet) {
            return Ok(RouteLookup::Nowhere(Errno::XDEV));
        }
        let by_source = packet.from.and_then(|from| self.ways_from.get(&from));
        let way = by_source.or_else(|| self.ways.get(&packet.to)).copied();
        let is_own = self.addresses.iter().any(|it| it.address.addr() == packet.to);
        Ok(way.unwrap_or(if is_own {
            RouteLookup::Local
        } else {
            RouteLookup::Nowhere(Errno::NETUNREACH)
        }))
    }
    fn routes_by_mark(&mut self, _: Space, _: Family) -> Result<bool> {
        Ok(false)
    }
    fn parameter(&mut self, _: Space, key: &str) -> Result<Option<String>> {
        Ok(self.parameters.get(key).cloned())
    }
    fn taking(&mut self, _: Space, _: Protocol) -> Result<Option<Vec<Taking>>> {
        Ok(None)
    }
    fn rules(&mut self, _: Space) -> Result<Rc<Rules>> {
        Ok(Rc::clone(&self.rules))
    }
    fn seek(&mut self, _: Space, _: &AnySet, _: &[u8]) -> Result<Option<Option<Datum>>> {
        no()
    }
    fn bridge(&mut self, _: u32) -> Result<Option<BridgeSettings>> {
        no()
    }
    fn forwarded(&mut self, _: u32, _: Mac) -> Result<Option<Forwarded>> {
        no()
    }
    fn vlans(&mut self, _: u32) -> Result<Vec<(u16, bool)>> {
        no()
    }
}

/// An interface on a network of Spoke's, without addresses.
pub(super) fn plug(network: &str) -> Plug {
    Plug {
        network: network.to_owned(),
        title: None,
        in_commands: Some(network.to_owned()),
        known_as: Vec::new(),
        interface: "eth0".parse().unwrap(),
        addresses: Vec::new(),
        mac: None,
        bridging: Bridging::None,
        kind: "bridge",
        is_isolated: false,
        is_internal: false,
        via: None,
        hides: Vec::new(),
        direct: Vec::new(),
        ports: Vec::new(),
    }
}

/// A container of a network `NAME-net` with this address; its namespace is open.
pub(super) fn site(name: &str, address: &str, space: Space) -> Site {
    let net: model::IpNet = address.parse().unwrap();
    let addresses = vec![(net, net.hosts().next())];
    let plug = Plug { addresses, ..plug(&format!("{name}-net")) };
    Site {
        name: name.to_owned(),
        runtime: model::Runtime::Spoke,
        standing: Standing::Open(space),
        path: format!("/run/netns/{name}"),
        plugs: vec![plug],
    }
}

pub(super) fn trip(from: End, to: End) -> Trip {
    Trip {
        from,
        to,
        address: None,
        carried: Carried::Tcp(80),
        published: Vec::new(),
        others: Vec::new(),
        follows: None,
        elsewhere: Vec::new(),
        rivals: Vec::new(),
    }
}
