//! Doing what is planned: steps become messages, and the messages of one namespace are sent
//! together.

mod port;

use std::collections::BTreeMap;

use model::{Error, Fact, IfName, IpNet, Kind, Result};
use netlink::wire::Batch;
use netlink::{
    At, Change, Errno, Existing, HostLock, Link, Netns, NewAddress, NewBridge, NewDevice, Peer,
    Socket,
};

use crate::identity::{GROUP, PROTOCOL};
use crate::plan::{Plan, Single, Step, Veth};

/// Does what is planned; `below` is known already.
pub(crate) fn carry_out(
    plan: &Plan,
    below: Option<&Link>,
    (sandbox, lock): (Option<&Netns>, &HostLock),
    socket: &mut Socket,
) -> Result<()> {
    let mut hands = Hands::new(socket, sandbox).locked_by(lock);
    if let Some(below) = below {
        hands.knows(&below.name, below.index);
    }
    hands.apply(&plan.host).map_err(|error| match below {
        Some(bridge) if error.kind() == Kind::Exhausted => {
            error.context(format!("bridge {}", bridge.name))
        }
        Some(_) | None => error,
    })?;
    if let Some(sandbox) = sandbox {
        sandbox.enter(|| Hands::new(&mut Socket::route()?, None).apply(&plan.sandbox))??;
    }
    hands.apply(&plan.after)
}

/// One namespace that steps are applied to: the calling thread's.
pub(crate) struct Hands<'a> {
    socket: &'a mut Socket,
    /// Where the container's ends come into being.
    peers: Option<&'a Netns>,
    /// By which others are excluded from this namespace: the namespace's own, where these are not the host's.
    lock: HostLock,
    batch: Batch,
    /// The errors that count as success, by message.
    done: Vec<(usize, Errno)>,
    indices: BTreeMap<IfName, u32>,
    /// The host's end of the pair that is made last.
    end: Option<IfName>,
}

impl<'a> Hands<'a> {
    pub(crate) fn new(socket: &'a mut Socket, peers: Option<&'a Netns>) -> Self {
        Self {
            socket,
            peers,
            lock: HostLock::default(),
            batch: Batch::new(),
            done: Vec::new(),
            indices: BTreeMap::new(),
            end: None,
        }
    }

    /// Excludes others by this lock.
    pub(crate) fn locked_by(mut self, lock: &HostLock) -> Self {
        self.lock = lock.clone();
        self
    }

    /// Adds the index of a known link, so that it is not requested.
    pub(crate) fn knows(&mut self, name: &IfName, index: u32) {
        self.indices.insert(name.clone(), index);
    }

    /// Applies the steps in order; the first failure ends it.
    pub(crate) fn apply(&mut self, steps: &[Step]) -> Result<()> {
        for step in steps {
            self.step(step)?;
        }
        self.flush()
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Bridge { name, mac, mtu } => {
                let bridge =
                    NewBridge { name, mac: Some(*mac), mtu: *mtu, vlan_filtering: false, up: true };
                let made = self.batch.new_bridge(&bridge);
                self.done.push((made, Errno::EXIST));
                self.batch.change_link(At::Name(name), &[Change::Group(GROUP)]);
                self.flush()
            }
            Step::Veth(veth) => self.veth(veth),
            Step::FilterVlans(bridge) => self.filter_vlans(bridge),
            Step::Port(port) => self.port(port),
            Step::VlanGateway(gateway) => self.vlan_gateway(gateway),
            Step::Detected(name, address) => self.detected(name, *address),
            Step::Settle(name) => self.settle(name),
            Step::Single(single) => self.single(single),
            Step::Tap(tap) => {
                self.flush()?;
                crate::tap::make(self.socket, tap)
            }
            Step::Move { from, to, remembers } => self.move_link(from, to, *remembers),
            Step::Mark { link, group, alias } => self.mark(link, *group, alias),
            Step::Rename { from, to } => self.rename(from, to),
            Step::Mtu(name, mtu) => self.change(name, &Change::Mtu(*mtu)),
            Step::Mac(name, mac) => self.change(name, &Change::Mac(*mac)),
            Step::Checksums(name) => {
                self.flush()?;
                self.socket.leave_checksums(name, false)
            }
            Step::Alias(name, text) => self.change(name, &Change::Alias(text.clone())),
            Step::Up(name) => self.change(name, &Change::Up(true)),
            Step::Down(name) => self.change(name, &Change::Up(false)),
            Step::Hairpin(name) => self.change(name, &Change::Hairpin(true)),
            Step::NoIpv6Addresses(name) => self.silence(name),
            Step::Promiscuous(name) => self.change(name, &Change::Promiscuous(true)),
            Step::Address(name, address) => self.address(name, *address, 0),
            Step::Gateway(name, address) => self.address(name, *address, PROTOCOL),
            Step::DropAddress(name, address) => {
                let index = self.index(name)?;
                let dropped = self.batch.delete_address(index, *address);
                self.done.push((dropped, Errno::ADDRNOTAVAIL));
                Ok(())
            }
            Step::Route { link, route, source } => {
                let index = self.index(link)?;
                self.add_route(&netlink::Route { source: *source, ..wire(route, Some(index)) });
                Ok(())
            }
            Step::RouteAnywhere(route) => {
                self.add_route(&wire(route, None));
                Ok(())
            }
            Step::DropRoute(name, dst) => {
                let index = self.index(name)?;
                self.drop_route(&netlink::Route::new(*dst, None, Some(index)));
                Ok(())
            }
            Step::DropRouteAnywhere(dst, via) => {
                self.drop_route(&netlink::Route::new(*dst, Some(*via), None));
                Ok(())
            }
            Step::Forward(family) => {
                self.flush()?;
                crate::forwarding::turn_on(*family, self.socket, &self.lock)
            }
            Step::Sysctl { path, value, optional } => self.sysctl(path, value, *optional),
        }
    }

    fn silence(&mut self, name: &IfName) -> Result<()> {
        self.flush()?;
        let index = self.index(name)?;
        let silenced = self.batch.change_link(At::Index(index), &[Change::NoIpv6Addresses]);
        // Below IPv6's least MTU the device has no IPv6 at all.
        self.done.push((silenced, Errno::AFNOSUPPORT));
        Ok(())
    }

    fn sysctl(&mut self, path: &str, value: &str, optional: bool) -> Result<()> {
        self.flush()?;
        match netlink::sysctl::ensure(path, value) {
            // The kernel may lack it, and `/proc/sys` may be read-only or masked.
            Err(_) if optional => Ok(()),
            written => written,
        }
    }

    fn add_route(&mut self, route: &netlink::Route) {
        let added = self.batch.add_route(route, Existing::Keep);
        self.done.push((added, Errno::EXIST));
    }

    fn drop_route(&mut self, route: &netlink::Route) {
        let dropped = self.batch.delete_route(route);
        self.done.push((dropped, Errno::SRCH));
    }

    fn mark(&mut self, link: &IfName, group: u32, alias: &str) -> Result<()> {
        let index = self.index(link)?;
        let marks = [Change::Group(group), Change::Alias(alias.to_owned())];
        self.batch.change_link(At::Index(index), &marks);
        Ok(())
    }

    fn rename(&mut self, from: &IfName, to: &IfName) -> Result<()> {
        let index = self.index(from)?;
        self.batch.change_link(At::Index(index), &[Change::Name(to.clone())]);
        self.indices.remove(from);
        self.knows(to, index);
        Ok(())
    }

    fn veth(&mut self, veth: &Veth) -> Result<()> {
        let master = veth.master.as_ref().map(|master| self.index(master)).transpose()?;
        let peers = self.peers.map(std::os::fd::AsFd::as_fd);
        self.end = Some(veth.host.clone());
        self.batch.new_veth(&netlink::Veth {
            name: &veth.host,
            index: None,
            mac: veth.host_mac,
            mtu: veth.mtu,
            master,
            group: Some(GROUP),
            up: true,
            peer: Peer { name: &veth.peer, index: None, mac: Some(veth.peer_mac), netns: peers },
        });
        if veth.alias.is_some() {
            // Where the name is taken, the next steps would change another link.
            self.flush()?;
        }
        // Below IPv6's least MTU the device has no IPv6 at all.
        let silenced = self.batch.change_link(At::Name(&veth.host), &[Change::NoIpv6Addresses]);
        self.done.push((silenced, Errno::AFNOSUPPORT));
        if let Some(alias) = &veth.alias {
            let alias = Change::Alias(alias.clone());
            self.batch.change_link(At::Name(&veth.host), &[alias]);
        }
        if veth.hairpin {
            self.batch.change_link(At::Name(&veth.host), &[Change::Hairpin(true)]);
        }
        Ok(())
    }

    fn single(&mut self, single: &Single) -> Result<()> {
        let parent = single.parent.as_ref().map(|parent| self.index(parent)).transpose()?;
        let made = self.batch.new_device(&NewDevice {
            name: &single.name,
            kind: single.kind,
            parent,
            mac: single.mac,
            mtu: single.mtu,
            group: Some(single.group),
            up: false,
            netns: self.peers.filter(|_| single.away).map(std::os::fd::AsFd::as_fd),
        });
        if single.shared {
            self.done.push((made, Errno::EXIST));
        }
        Ok(())
    }

    /// Its former name is recorded before any other step can fail.
    fn move_link(&mut self, from: &IfName, to: &IfName, remembers: bool) -> Result<()> {
        let Some(peers) = self.peers else {
            return Err(Error::bug(format!("{from} is to be moved to nowhere")));
        };
        let index = self.index(from)?;
        if remembers {
            let alias = Change::Alias(from.as_str().to_owned());
            self.batch.change_link(At::Index(index), &[alias]);
            self.flush()?;
        }
        self.batch.move_link(index, std::os::fd::AsFd::as_fd(peers), to);
        self.indices.remove(from);
        Ok(())
    }

    fn address(&mut self, name: &IfName, address: IpNet, protocol: u8) -> Result<()> {
        let index = self.index(name)?;
        let new = NewAddress { protocol, ..NewAddress::new(index, address) };
        let added = self.batch.add_address(&new);
        self.done.push((added, Errno::EXIST));
        Ok(())
    }

    fn change(&mut self, name: &IfName, change: &Change) -> Result<()> {
        let index = self.index(name)?;
        self.batch.change_link(At::Index(index), std::slice::from_ref(change));
        Ok(())
    }

    fn index(&mut self, name: &IfName) -> Result<u32> {
        if let Some(index) = self.indices.get(name) {
            return Ok(*index);
        }
        self.flush()?;
        let index = self.socket.link_index(name)?;
        let index = index.ok_or_else(|| Error::not_found(format!("interface {name} is gone")))?;
        self.indices.insert(name.clone(), index);
        Ok(index)
    }

    fn flush(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let mut batch = std::mem::take(&mut self.batch);
        let mut outcome = self.socket.send(&mut batch)?;
        for (index, errno) in self.done.drain(..) {
            outcome = outcome.except_at(index, errno);
        }
        if let Some(failure) = outcome.failures().first()
            && failure.errno == Errno::XFULL
        {
            return Err(Error::exhausted(format!(
                "{failure}: the bridge has no port left, it can have 1023"
            )));
        }
        match outcome.failures().first() {
            Some(failure) if failure.errno == Errno::BUSY => Err(busy(failure)),
            Some(failure) if failure.errno == Errno::EXIST => {
                let end = self.end.clone();
                outcome.into_result().map_err(|error| error.about(Fact::NameTaken(end)))
            }
            Some(_) | None => outcome.into_result(),
        }
    }
}

/// Of what a batch here makes, only devices on a parent can find it busy, and trying again is no
/// help.
fn busy(failure: &netlink::Failure) -> Error {
    Error::conflict(format!(
        "{failure}: the device below it is a port of another one (then name that as the parent), or has links of another kind: macvlan and ipvlan cannot share a parent, and passthru does not share it"
    ))
}

/// The route for the kernel. Without a table, priority or scope the kernel's defaults apply.
fn wire(route: &model::Route, link: Option<u32>) -> netlink::Route {
    let mut reported = netlink::Route::new(route.dst, route.via, link);
    reported.priority = route.priority;
    reported.mtu = route.mtu;
    reported.advmss = route.advmss;
    if let Some(table) = route.table {
        reported.table = table;
    }
    if let Some(scope) = route.scope {
        reported.scope = scope;
    }
    reported
}
