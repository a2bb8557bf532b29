//! The kernel, asked over netlink: each namespace by sockets that were opened in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use model::{Error, Family, Mac, Protocol, Result};
use netlink::bridge_vlan::Tagging;
use netlink::diag::Taking;
use netlink::nft::{self, AnySet, Datum};
use netlink::{
    Address, At, BridgeSettings, Forwarded, Link, Neighbour, Netns, RouteLookup, Routed, Socket,
    sysctl, xtables,
};

use crate::frozen::{Frozen, Processes};
use crate::port::{Kernel, Space, Which};
use crate::rules::Rules;

/// The kernel of this host.
#[derive(Debug)]
pub struct Netlink {
    spaces: Vec<Opened>,
    processes: Option<Processes>,
}

/// A namespace with its sockets.
#[derive(Debug)]
struct Opened {
    netns: Option<Netns>,
    route: Socket,
    filter: Option<Socket>,
    diagnosis: Option<Socket>,
    rules: Option<Rc<Rules>>,
    addresses: Option<Vec<Address>>,
    ways: BTreeMap<Routed, RouteLookup>,
}

impl Opened {
    fn new(netns: Option<Netns>, route: Socket) -> Self {
        Self {
            netns,
            route,
            filter: None,
            diagnosis: None,
            rules: None,
            addresses: None,
            ways: BTreeMap::new(),
        }
    }

    /// Does `work` in the namespace.
    fn within<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        match &self.netns {
            Some(netns) => netns.enter(work)?,
            None => work(),
        }
    }

    fn filter(&mut self) -> Result<&mut Socket> {
        if self.filter.is_none() {
            self.filter = Some(self.within(Socket::netfilter)?);
        }
        self.filter.as_mut().ok_or_else(|| Error::bug("a socket that was just opened"))
    }

    fn diagnosis(&mut self) -> Result<&mut Socket> {
        if self.diagnosis.is_none() {
            self.diagnosis = Some(self.within(Socket::diagnosis)?);
        }
        self.diagnosis.as_mut().ok_or_else(|| Error::bug("a socket that was just opened"))
    }

    fn read_rules(&mut self) -> Result<Rules> {
        let mut rules = match self.filter() {
            Ok(socket) => {
                let chains = nft::all_chains(socket)?;
                let some = !chains.is_empty();
                let read = if some { nft::all_rules(socket)? } else { Vec::new() };
                let sets = if some { nft::all_sets(socket)? } else { Vec::new() };
                Rules::new(chains, read, sets)
            }
            Err(_) if !nft::is_supported() => Rules::default(),
            Err(error) => return Err(error),
        };
        for family in [Family::V4, Family::V6] {
            match self.within(|| xtables::read(family)) {
                Ok(tables) => rules.add_legacy(tables),
                Err(error) => rules.unread = Some(error.to_string()),
            }
        }
        Ok(rules)
    }
}

impl Netlink {
    /// Of this host; no other namespace is open yet.
    ///
    /// # Errors
    /// As [`Socket::route`].
    pub fn new() -> Result<Self> {
        Ok(Self { spaces: vec![Opened::new(None, Socket::route()?)], processes: None })
    }

    /// Opens the namespace at `path`, if it is the one with this inode; any if that is zero.
    ///
    /// # Errors
    /// As [`Netns::open`]; [`model::Kind::NotFound`] if there is another one.
    pub fn open(&mut self, path: &Path, inode: u64) -> Result<Space> {
        let netns = Netns::open(path)?;
        if inode != 0 && netns.inode() != inode {
            return Err(Error::not_found(format!(
                "{} is another namespace by now",
                path.display()
            )));
        }
        let is_it = |it: &Opened| it.netns.as_ref().is_some_and(|open| open.is_same(&netns));
        if let Some(there) = self.spaces.iter().position(is_it) {
            return Ok(Space(there));
        }
        let route = netns.enter(Socket::route)??;
        self.spaces.push(Opened::new(Some(netns), route));
        Ok(Space(self.spaces.len() - 1))
    }

    /// Does `work` with the calling thread in a namespace.
    ///
    /// # Errors
    /// As [`Netns::enter`].
    pub fn within<T>(&mut self, space: Space, work: impl FnOnce() -> T) -> Result<T> {
        self.space(space)?.within(|| Ok(work()))
    }

    fn space(&mut self, space: Space) -> Result<&mut Opened> {
        self.spaces.get_mut(space.0).ok_or_else(|| Error::bug("a namespace that is not open"))
    }

    fn host(&mut self) -> Result<&mut Socket> {
        self.space(Space::HOST).map(|host| &mut host.route)
    }
}

impl Kernel for Netlink {
    fn link(&mut self, space: Space, which: &Which) -> Result<Option<Link>> {
        let route = &mut self.space(space)?.route;
        match which {
            Which::Index(index) => route.link(At::Index(*index)),
            Which::Name(name) => route.link(At::Name(name)),
        }
    }

    fn addresses(&mut self, space: Space) -> Result<Vec<Address>> {
        let opened = self.space(space)?;
        if opened.addresses.is_none() {
            opened.addresses = Some(opened.route.addresses(None)?);
        }
        Ok(opened.addresses.clone().unwrap_or_default())
    }

    fn neighbours(&mut self, space: Space, link: u32) -> Result<Vec<Neighbour>> {
        self.space(space)?.route.neighbours(link)
    }

    fn way(&mut self, space: Space, packet: &Routed) -> Result<RouteLookup> {
        let opened = self.space(space)?;
        if let Some(way) = opened.ways.get(packet) {
            return Ok(*way);
        }
        let way = opened.route.look_up_route(packet)?;
        opened.ways.insert(*packet, way);
        Ok(way)
    }

    fn routes_by_mark(&mut self, space: Space, family: Family) -> Result<bool> {
        self.space(space)?.route.routes_by_mark(family)
    }

    fn parameter(&mut self, space: Space, key: &str) -> Result<Option<String>> {
        let read = self.space(space)?.within(|| sysctl::read(key));
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind() == model::Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn taking(&mut self, space: Space, protocol: Protocol) -> Result<Option<Vec<Taking>>> {
        self.space(space)?.diagnosis()?.taking(protocol)
    }

    fn frozen(&mut self, space: Space, socket: Option<u32>) -> Result<Option<Frozen>> {
        let Some(netns) = self.space(space)?.netns.as_ref().map(Netns::inode) else {
            return Ok(None);
        };
        Ok(self.processes.get_or_insert_with(Processes::read).frozen(netns, socket))
    }

    fn rules(&mut self, space: Space) -> Result<Rc<Rules>> {
        let opened = self.space(space)?;
        if let Some(rules) = &opened.rules {
            return Ok(Rc::clone(rules));
        }
        let rules = Rc::new(opened.read_rules()?);
        opened.rules = Some(Rc::clone(&rules));
        Ok(rules)
    }

    fn seek(&mut self, space: Space, set: &AnySet, key: &[u8]) -> Result<Option<Option<Datum>>> {
        nft::seek(self.space(space)?.filter()?, set, key)
    }

    fn quota_matches(&mut self, space: Space, set: &AnySet, name: &str) -> Result<Option<bool>> {
        nft::quota_matches(self.space(space)?.filter()?, set, name)
    }

    fn bridge(&mut self, bridge: u32) -> Result<Option<BridgeSettings>> {
        self.host()?.bridge_settings(bridge)
    }

    fn forwarded(&mut self, bridge: u32, mac: Mac) -> Result<Option<Forwarded>> {
        self.host()?.forwarded(bridge, mac)
    }

    fn vlans(&mut self, port: u32) -> Result<Vec<(u16, bool)>> {
        let vlans = self.host()?.port_vlans(port)?;
        let is_untagged = |tagging: Tagging| tagging == Tagging::Untagged;
        Ok(vlans.iter().map(|vlan| (vlan.id.number(), is_untagged(vlan.tagging))).collect())
    }
}
