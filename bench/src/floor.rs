//! The kernel's part alone: the same work by one long-lived process that knows everything
//! beforehand, decides nothing and records nothing.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use ipnet::{IpNet, Ipv4Net};
use model::{Error, IfName, Result};
use netlink::address::NewAddress;
use netlink::nft::{Element, Family, Table, Transaction, Tuple};
use netlink::wire::{Batch, Messages};
use netlink::{At, Change, Existing, Netns, NewBridge, Peer, Route, Socket, Veth};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
    sockopt,
};
use nix::sys::time::TimeVal;

use crate::contender::Contender;
use crate::execute::{Cost, ourselves};
use crate::world::Host;

/// The product's own ruleset: the floor's elements are looked up by the same rules.
const RULESET: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/linux/src/filter/ruleset.nft");
const TABLE: Table<'static> = Table { family: Family::Inet, name: "spoke" };
/// `RTMGRP_LINK`.
const LINKS: u32 = 1;
/// `RTM_DELLINK`.
const DELETED: u16 = 17;
const TCP: u8 = 6;

/// The floor on one host.
pub(crate) struct Floor<'a> {
    host: &'a Host,
    netns: PathBuf,
    ifname: IfName,
    bridge: (IfName, u32),
    /// `None`: only the link, its address and its route.
    filter: Option<Socket>,
    route: Socket,
    next: u32,
    orders: SyncSender<u32>,
    done: Receiver<Result<()>>,
}

impl<'a> Floor<'a> {
    /// With a bridge, 10.`octet`.0.1/16; with `filter` also a published port and the rest that
    /// the packet filter knows of a container.
    pub(crate) fn new(
        host: &'a Host,
        netns: &Path,
        ifname: &str,
        octet: u8,
        filter: bool,
    ) -> Result<Self> {
        let name: IfName = format!("br-floor{octet}").parse()?;
        if filter {
            host.run(&["nft", "-f", RULESET], "")?;
        }
        let (orders, done) = deleter(host)?;
        host.within(|| {
            let mut route = Socket::route()?;
            let index = bridge(&mut route, &name, octet)?;
            let filter = if filter { Some(Socket::netfilter()?) } else { None };
            let (netns, ifname) = (netns.into(), ifname.parse()?);
            let bridge = (name.clone(), index);
            Ok(Self { host, netns, ifname, bridge, filter, route, next: 10_000, orders, done })
        })
    }

    /// One container more, in `netns`; the index of its link.
    pub(crate) fn add(&mut self, netns: &Path) -> Result<u32> {
        self.next += 1;
        let index = self.next;
        let name: IfName = format!("fl{index}").parse()?;
        let inside = Netns::open(netns)?;
        let peer =
            Peer { name: &self.ifname, index: Some(index), mac: None, netns: Some(inside.as_fd()) };
        let mut outer = Batch::new();
        outer.new_veth(&Veth {
            name: &name,
            index: Some(index),
            mac: None,
            mtu: None,
            master: Some(self.bridge.1),
            group: None,
            up: true,
            peer,
        });
        outer.change_link(At::Index(index), &[Change::NoIpv6Addresses, Change::Hairpin(true)]);
        self.route.send(&mut outer)?.into_result()?;
        inside.enter(|| self.inner(index))??;
        self.elements(true)?;
        Ok(index)
    }

    /// One container more in each of `spaces`, to stay.
    pub(crate) fn fill(&mut self, spaces: &[PathBuf]) -> Result<()> {
        let host = self.host;
        host.within(|| spaces.iter().try_for_each(|netns| self.add(netns).map(drop)))
    }

    fn inner(&self, index: u32) -> Result<()> {
        let mut batch = Batch::new();
        let lo: IfName = "lo".parse()?;
        batch.change_link(At::Name(&lo), &[Change::Up(true)]);
        batch.change_link(At::Index(index), &[Change::Up(true)]);
        let [_, second, _, _] = self.address().octets();
        batch.add_address(&NewAddress::new(index, subnet(self.address())));
        if self.filter.is_some() {
            let gateway = IpAddr::from(Ipv4Addr::new(10, second, 0, 1));
            let anywhere = IpNet::from(Ipv4Net::default());
            let default = Route::new(anywhere, Some(gateway), Some(index));
            batch.add_route(&default, Existing::Refuse);
        }
        Socket::route()?.send(&mut batch)?.into_result()
    }

    /// Of the last container.
    fn address(&self) -> Ipv4Addr {
        let octet = self.bridge.0.as_str().trim_start_matches("br-floor").parse().unwrap_or(0);
        let [_, _, high, low] = self.next.to_be_bytes();
        Ipv4Addr::new(10, octet, high, low)
    }

    fn elements(&mut self, present: bool) -> Result<()> {
        let (bridge, address) = (&self.bridge.0, IpAddr::from(self.address()));
        let Some(socket) = &mut self.filter else { return Ok(()) };
        let behind = || Tuple::new().interface(bridge).address(address);
        let port = Tuple::new().protocol(TCP).service(crate::chain::PORT);
        let to = Tuple::new().address(address).service(80);
        let elements = [
            ("home4", behind(), None),
            ("hairpin4", behind(), None),
            ("masq4", Tuple::new().address(address), None),
            ("dnat4_any", port, Some(to)),
        ];
        let mut transaction = Transaction::new();
        for (set, key, data) in elements {
            let (element, about) = (Element { data, ..Element::of(key) }, set.to_owned());
            match present {
                true => transaction.add_element(TABLE, set, &element, about),
                false => transaction.delete_element(TABLE, set, &element, about),
            }
        }
        transaction.apply(socket)
    }

    /// Removes the last container; done when the kernel says that its link is gone.
    fn del(&mut self) -> Result<()> {
        let index = self.next;
        self.elements(false)?;
        let monitor = monitor()?;
        self.orders.send(index).map_err(|_| Error::bug("the deleting thread ended"))?;
        gone(&monitor, index)
    }

    /// Waits for the kernel's acknowledgement.
    fn settle(&self) -> Result<()> {
        self.done.recv().map_err(|_| Error::bug("the deleting thread ended"))?
    }
}

impl Contender for &mut Floor<'_> {
    fn label(&self) -> &str {
        (**self).label()
    }

    fn run(&mut self, verb: &str) -> Result<Cost> {
        (**self).run(verb)
    }
}

impl Contender for Floor<'_> {
    fn label(&self) -> &str {
        "floor"
    }

    fn run(&mut self, verb: &str) -> Result<Cost> {
        let host = self.host;
        host.within(|| match verb {
            "ADD" => {
                let netns = self.netns.clone();
                ourselves(|| self.add(&netns)).map(|(_, cost)| cost)
            }
            _ => {
                let (_, answered) = ourselves(|| self.del())?;
                let (_, settled) = ourselves(|| self.settle())?;
                Ok(Cost { cpu: answered.cpu + settled.cpu, ..answered })
            }
        })
    }
}

fn bridge(route: &mut Socket, name: &IfName, octet: u8) -> Result<u32> {
    let mut batch = Batch::new();
    batch.new_bridge(&NewBridge { name, mac: None, mtu: None, vlan_filtering: false, up: true });
    route.send(&mut batch)?.into_result()?;
    let missing = || Error::bug("a bridge that was made is missing");
    let index = route.link(At::Name(name))?.ok_or_else(missing)?.index;
    let mut batch = Batch::new();
    batch.add_address(&NewAddress::new(index, subnet(Ipv4Addr::new(10, octet, 0, 1))));
    route.send(&mut batch)?.into_result()?;
    Ok(index)
}

fn subnet(address: Ipv4Addr) -> IpNet {
    Ipv4Net::new_assert(address, 16).into()
}

/// A thread of `host` that deletes links, and waits for the kernel to bury them.
fn deleter(host: &Host) -> Result<(SyncSender<u32>, Receiver<Result<()>>)> {
    let (orders, ordered) = sync_channel::<u32>(1);
    let (report, done) = sync_channel(1);
    let mut socket = host.within(Socket::route)?;
    thread::spawn(move || {
        for index in ordered {
            let mut batch = Batch::new();
            batch.delete_link(At::Index(index));
            let result = socket.send(&mut batch).and_then(netlink::Outcome::into_result);
            if report.send(result).is_err() {
                return;
            }
        }
    });
    Ok((orders, done))
}

fn monitor() -> Result<OwnedFd> {
    let failed = |errno: nix::errno::Errno| Error::os("listening to the kernel", errno.into());
    let protocol = SockProtocol::NetlinkRoute;
    let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)
        .map_err(failed)?;
    nix::sys::socket::setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::new(10, 0))
        .map_err(failed)?;
    bind(fd.as_raw_fd(), &NetlinkAddr::new(0, LINKS)).map_err(failed)?;
    Ok(fd)
}

fn gone(monitor: &OwnedFd, index: u32) -> Result<()> {
    let mut buffer = vec![0; 32 * 1024];
    loop {
        let len = recv(monitor.as_raw_fd(), &mut buffer, MsgFlags::empty())
            .map_err(|errno| Error::os("waiting for a link to go", errno.into()))?;
        let ends = |kind: u16, payload: &[u8]| {
            let of = payload.get(4..8).and_then(|bytes| bytes.try_into().ok());
            kind == DELETED
                && payload.first() == Some(&0)
                && of.map(u32::from_ne_bytes) == Some(index)
        };
        let received = buffer.get(..len).unwrap_or_default();
        if Messages::new(received).any(|message| ends(message.kind, message.payload)) {
            return Ok(());
        }
    }
}
