//! The way of a packet from one to another and back, and the first hop at which it ends.
//!
//! The stages, in order. Each adds hops to the report, and a hop that fails ends the walk.
//!
//! | stage | where |
//! |---|---|
//! | both ends exist and run; the first packet | `begin`, `paused` |
//! | the packet leaves a container, or a virtual machine: route, own filter, interface | `leave`, `machine`, `interface` |
//! | or it comes from another host: which link, `rp_filter` | `outside` |
//! | a bridge switches it: port, VLAN, forwarding entry | `bridge`, `gate` |
//! | this host routes it, takes it, or sends it; rules translate its destination | `host`, `led` |
//! | the packet filter of a hook: which rule, whose, and the command that mends it | `ruling`, `fix`, `mend` |
//! | the next hop's hardware address | `resolve` |
//! | it leaves this host by a link | `uplink` |
//! | it comes to a container and a socket | `arrive` |
//! | the answer goes the same stages back | `back` |
//! | the largest packet that passes | `mtu` |

mod arrive;
mod back;
mod begin;
mod bridge;
#[cfg(test)]
mod fake;
mod fix;
mod gate;
mod hop;
mod host;
mod interface;
mod leave;
mod led;
mod machine;
mod mend;
mod mtu;
mod outside;
mod paused;
mod resolve;
mod ruling;
mod site;
mod uplink;

use std::net::IpAddr;

use model::{IpNet, Result};
use netlink::Link;
use serde::Serialize;

use crate::packet::{Carried, Device, Packet};
use crate::port::{Kernel, Space};
use crate::rules::{Author, RuleLocation};
pub use hop::{Hop, Status, Verdict};
pub use mend::forward;
pub use site::{Bridging, End, Plug, Site, Standing};

/// What is asked.
#[derive(Clone, Debug)]
pub struct Trip {
    /// Who begins.
    pub from: End,
    /// Who is called.
    pub to: End,
    /// At this address; at the one that fits if `None`.
    pub address: Option<IpAddr>,
    /// With what.
    pub carried: Carried,
    /// Ports of the host that lead to containers, by the book.
    pub published: Vec<Published>,
    /// Other containers that the packet may be led to.
    pub others: Vec<Site>,
    /// The firewall that published ports obey.
    pub follows: Option<Follows>,
    /// Addresses that other hosts have.
    pub elsewhere: Vec<Elsewhere>,
    /// Other containers that may have an address that is not theirs: names and namespaces.
    pub rivals: Vec<(String, Space)>,
}

/// Addresses of a network of many hosts that another host has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// Which.
    pub net: IpNet,
    /// What the host is called.
    pub host: String,
    /// Why the host is not reached, where that is known.
    pub trouble: Option<String>,
}

/// A firewall that published ports obey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follows {
    /// What it is called.
    pub name: String,
    /// Why it is not known what it does; everything is refused then.
    pub unknown: Option<String>,
}

/// A port of the host, and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The port.
    pub map: model::PortMap,
    /// The container.
    pub name: String,
    /// Its addresses.
    pub to: Vec<IpAddr>,
    /// Whether Spoke's own table has it.
    pub in_table: bool,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Who begins.
    pub from: String,
    /// Who is called.
    pub to: String,
    /// The address that is called, where it is known.
    pub called: Option<IpAddr>,
    /// Whether it gets there, and back.
    pub verdict: Verdict,
    /// The hops, up to the one that fails.
    pub hops: Vec<Hop>,
}

/// The walk is over: its last hop says why.
#[derive(Clone, Copy, Debug)]
struct Stop;

type Walked<T> = std::result::Result<T, Stop>;

/// Where a packet has come to its end.
#[derive(Clone, Debug)]
enum Arrived {
    /// In the container that was called, or the one that called.
    Container,
    /// On this host.
    Host,
    /// Out of this host.
    Beyond,
}

/// Follows the packet of `trip` there, and the answer back.
pub fn walk(kernel: &mut dyn Kernel, trip: &Trip, before: Vec<Hop>) -> Report {
    let mut walker = Walker::new(kernel, trip, before);
    let walked = walker.there_and_back();
    let verdict = match walked {
        Ok(()) => Verdict::Reaches,
        Err(Stop) => walker.hops.last().map_or(Verdict::Unknown, Hop::verdict),
    };
    let (from, to) = (trip.from.to_string(), trip.to.to_string());
    let called = walker.called;
    Report { from, to, called, verdict, hops: walker.hops }
}

struct Walker<'a> {
    kernel: &'a mut dyn Kernel,
    trip: &'a Trip,
    hops: Vec<Hop>,
    is_back: bool,
    /// The devices that were passed.
    mtus: Vec<mtu::Passed>,
    /// Whether this host has routed the packet.
    is_routed: bool,
    /// The address that is called.
    called: Option<IpAddr>,
    /// The rule that leads the packet to another destination.
    led: Option<RuleLocation>,
    /// Where no device answered when the kernel asked for the hardware address of a next hop.
    unanswered: Option<resolve::Unanswered>,
    /// The link by which the packet left this host.
    left: Option<u32>,
    /// What is to be said of a packet that leaves with a container's own address.
    unhidden: Option<String>,
}

impl<'a> Walker<'a> {
    fn new(kernel: &'a mut dyn Kernel, trip: &'a Trip, hops: Vec<Hop>) -> Self {
        Self {
            kernel,
            trip,
            hops,
            is_back: false,
            mtus: Vec::new(),
            is_routed: false,
            called: None,
            led: None,
            unanswered: None,
            left: None,
            unhidden: None,
        }
    }
}

impl Walker<'_> {
    fn there_and_back(&mut self) -> Walked<()> {
        let mut packet = self.begin()?;
        let arrived = match &self.trip.from {
            End::Container(site) => self.leave(site, &mut packet)?,
            End::Host => self.sent_by_host(&mut packet)?,
            End::Outside | End::Address(_) => self.comes_from_outside(&mut packet)?,
        };
        self.is_called(&arrived, &packet)?;
        self.answers(&arrived, &packet)?;
        if matches!(arrived, Arrived::Beyond) {
            let what = "leaves this host; what happens then cannot be seen from here";
            self.note("beyond", what);
        }
        self.are_answered()?;
        self.fits()?;
        match self.unhidden.take() {
            Some(what) => Err(self.unknown("masquerade", what)),
            None => Ok(()),
        }
    }

    /// That the packet has come to who was called.
    fn is_called(&mut self, arrived: &Arrived, packet: &Packet) -> Walked<()> {
        let (name, where_) = match (arrived, &self.trip.to) {
            (Arrived::Container, End::Container(_))
            | (Arrived::Beyond, End::Outside | End::Address(_))
            // A port of the host may lead to a container.
            | (Arrived::Host | Arrived::Container, End::Host) => return Ok(()),
            (Arrived::Container, to) => (to.to_string(), "to a container"),
            (Arrived::Host, to) => (to.to_string(), "to this host itself"),
            (Arrived::Beyond, to) => (to.to_string(), "out of this host"),
        };
        let hop = Hop::new("destination", format!("it goes {where_}, not to {name}"));
        let Some(place) = self.led.take() else {
            // Without a rule that leads it, routes do.
            let fix = self.onto_its_bridge(packet.destination);
            return Err(self.fail(hop.by(Author::Operator).fixed_if(fix)));
        };
        let by = self.author(Space::HOST, &place)?;
        let fix = match by {
            // It is published so.
            Author::Spoke | Author::Docker => None,
            _ => Some(fix::of_place(&place)),
        };
        Err(self.fail(hop.by(by).ruled(place).fixed_if(fix)))
    }

    /// The container of this trip that has an address.
    fn receiver(&self, address: IpAddr) -> Option<&Site> {
        let sites = [&self.trip.to, &self.trip.from];
        let sites = sites.into_iter().filter_map(End::site).chain(&self.trip.others);
        sites.into_iter().find(|site| site.has(address))
    }

    /// What the kernel does not say is not known.
    fn ask<T>(&mut self, answer: impl FnOnce(&mut dyn Kernel) -> Result<T>) -> Walked<T> {
        match answer(self.kernel) {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.unknown("kernel", error.to_string())),
        }
    }

    /// The container in a namespace.
    fn site_in(&self, space: Space) -> Option<&Site> {
        let ends = [&self.trip.to, &self.trip.from].into_iter().filter_map(End::site);
        ends.chain(&self.trip.others).find(|site| site.space() == Some(space))
    }

    /// The command by which this host sends what is for a container to its bridge.
    fn onto_its_bridge(&self, address: IpAddr) -> Option<String> {
        let plug = self.receiver(address)?.plug_of(address)?;
        let Bridging::In(bridge) = &plug.bridging else { return None };
        Some(format!("ip route replace {} dev {bridge}", model::host_net(address)))
    }

    /// A command in a namespace; none where it is not known whose that is.
    fn within(&self, space: Space, command: &str) -> Option<String> {
        match space {
            Space::HOST => Some(command.to_owned()),
            _ => self.site_in(space).map(|site| site.within(command)),
        }
    }

    fn device(link: &Link) -> Option<Device> {
        Some(Device::from(link))
    }
}
