//! What the views show. Texts may be hostile; they are cleaned where they are written.

use std::net::IpAddr;

use crate::target::{Asked, Filter};

/// The overview.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// The device of the default route.
    pub uplink: Option<String>,
    /// Every network.
    pub networks: Vec<Network>,
    /// Every attachment.
    pub attachments: Vec<Attachment>,
    /// Whether the subnets of this host clash, a sentence each.
    pub troubles: Vec<String>,
    /// Addresses that can be leased, of all pools; those that are held; those in quarantine.
    pub addresses: Addresses,
    /// How many ports are published.
    pub ports: usize,
    /// The last events, newest first.
    pub events: Vec<Event>,
}

/// Counted addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Held by containers.
    pub used: u64,
    /// In quarantine.
    pub quarantined: u64,
    /// Free, of IPv4 pools.
    pub free: u64,
}

/// A network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// What its runtime calls it, where that differs.
    pub title: Option<String>,
    /// Who made it.
    pub runtime: String,
    /// Who makes its links.
    pub driver: String,
    /// Its subnets.
    pub subnets: Vec<String>,
    /// Its bridge.
    pub device: Option<String>,
    /// The device on whose segment its containers are.
    pub parent: Option<String>,
    /// Whether nothing is forwarded between it and anything else.
    pub internal: bool,
    /// What runtimes call it, where they call it otherwise.
    pub titles: Vec<String>,
    /// Whether containers can be attached: `ready`, or why not.
    pub state: String,
}

impl Network {
    /// What people call it.
    pub fn called(&self) -> &str {
        self.title.as_ref().unwrap_or(&self.name)
    }
}

/// A network that is led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The network.
    pub network: String,
    /// What its runtime calls the network, where that differs.
    pub title: Option<String>,
}

/// An interface of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attachment {
    /// What the container is called.
    pub name: String,
    /// As its runtime calls it: an id of Docker's, a container of CNI's.
    pub id: String,
    /// Its runtime.
    pub runtime: String,
    /// The network.
    pub network: String,
    /// What its runtime calls the network, where that differs.
    pub title: Option<String>,
    /// The container's end.
    pub interface: String,
    /// With the prefix length.
    pub addresses: Vec<String>,
    /// The hardware address.
    pub mac: Option<String>,
    /// Who made the link.
    pub driver: Option<String>,
    /// Its other names on the network.
    pub names: Vec<String>,
    /// The user's labels.
    pub labels: Vec<(String, String)>,
    /// What is published, as `spoke ps` writes it.
    pub ports: Vec<String>,
    /// `attached`, or how far it is.
    pub state: String,
    /// How long it has been there.
    pub age: String,
    /// Since when, in UTC.
    pub since: String,
    /// The namespace's path.
    pub sandbox: Option<String>,
}

/// Pools of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pools {
    /// The network whose pools alone are shown, with all addresses.
    pub network: Option<String>,
    /// The pools.
    pub pools: Vec<Pool>,
    /// Which part of all pools, and how many parts there are.
    pub part: ListPart,
}

/// A part of a longer list, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListPart {
    /// This one.
    pub number: usize,
    /// How many there are.
    pub of: usize,
}

impl ListPart {
    /// The part `number` of `all`, `most` of them at a time, and what is in it.
    pub fn of<T>(all: Vec<T>, number: usize, most: usize) -> (Vec<T>, Self) {
        let of = all.len().div_ceil(most).max(1);
        let number = number.clamp(1, of);
        (all.into_iter().skip((number - 1) * most).take(most).collect(), Self { number, of })
    }
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The network.
    pub network: String,
    /// What its runtime calls the network, where that differs.
    pub title: Option<String>,
    /// Its subnets.
    pub subnet: String,
    /// How many addresses can be leased; 2^64-1 where there are more.
    pub size: u64,
    /// Those that containers hold.
    pub used: u64,
    /// Those that are kept for named owners.
    pub reserved: u64,
    /// Those that may be in use.
    pub quarantined: u64,
    /// The others.
    pub free: u64,
    /// The ranges.
    pub ranges: Vec<Range>,
    /// Addresses that are not free, ascending.
    pub taken: Vec<Taken>,
    /// The gaps, as `spoke ipam show` writes them.
    pub free_ranges: Vec<String>,
}

/// Consecutive addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first that may be leased.
    pub first: IpAddr,
    /// The last that may be leased.
    pub last: IpAddr,
    /// The gateway.
    pub gateway: Option<IpAddr>,
}

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// A container holds it.
    Held,
    /// It is kept for a named owner.
    Reserved,
    /// It may be in use.
    Quarantined,
}

impl State {
    /// As people read it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            State::Held => "held",
            State::Reserved => "reserved",
            State::Quarantined => "quarantine",
        }
    }
}

/// An address that is not free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The address.
    pub address: IpAddr,
    /// Why it is not free.
    pub state: State,
    /// Who holds it.
    pub holder: String,
    /// The holder's runtime.
    pub runtime: String,
    /// The holder's interface.
    pub interface: String,
    /// Since how long.
    pub age: String,
}

/// Containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Containers {
    /// Which are listed.
    pub filter: Filter,
    /// Their attachments, those of a container one after the other.
    pub attachments: Vec<Attachment>,
    /// How many containers the filter lets pass.
    pub found: usize,
    /// How many there are.
    pub all: usize,
    /// Every runtime that has containers.
    pub runtimes: Vec<String>,
    /// The network that the filter names.
    pub network: Option<Box<Network>>,
    /// Which part.
    pub part: ListPart,
}

/// One container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its runtime.
    pub runtime: String,
    /// Its interfaces.
    pub attachments: Vec<Attachment>,
    /// Its published ports.
    pub ports: Vec<Port>,
    /// What it is found by over DNS: a name, and the network on which.
    pub names: Vec<(String, Place)>,
    /// Its last events, newest first.
    pub events: Vec<Event>,
}

/// Published ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// Those of this part.
    pub ports: Vec<Port>,
    /// How many there are.
    pub all: usize,
    /// Which part.
    pub part: ListPart,
}

/// A published port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// The host's port.
    pub port: u16,
    /// `tcp`, `udp` or `sctp`.
    pub protocol: String,
    /// The host's address; `None`: all of them.
    pub host: Option<String>,
    /// `any`, `lan` or `local`.
    pub reach: String,
    /// Where it leads to: an address of each family.
    pub to: Vec<String>,
    /// The container.
    pub name: String,
    /// Its runtime.
    pub runtime: String,
    /// Its network.
    pub network: String,
    /// What its runtime calls the network, where that differs.
    pub title: Option<String>,
    /// The publisher.
    pub backend: String,
    /// Whether Docker publishes it on a network of its own: neither that nor the container has a view here.
    pub is_beside: bool,
}

/// Events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Those of this part, newest first.
    pub events: Vec<Event>,
    /// The day that alone is shown.
    pub day: Option<String>,
    /// How many each day has, oldest first.
    pub days: Vec<Day>,
    /// Which part.
    pub part: ListPart,
    /// Those of all parts.
    pub found: usize,
}

/// The events of a day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Day {
    /// `2026-11-18`.
    pub day: String,
    /// How many.
    pub count: usize,
    /// How many of them are troubles.
    pub troubles: usize,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// `2026-11-18T12:00:00Z`.
    pub time: String,
    /// As the event file calls it.
    pub kind: String,
    /// Whether an operator should know.
    pub is_trouble: bool,
    /// A sentence.
    pub message: String,
    /// The container, where it has a name.
    pub name: Option<String>,
    /// Its runtime.
    pub runtime: Option<String>,
}

/// The hosts of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// The hosts.
    pub hosts: Vec<Member>,
    /// What does not work.
    pub notes: Vec<String>,
}

/// A host of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Where others reach it.
    pub address: String,
    /// `up` or `lost`.
    pub state: String,
    /// Whether it is this one.
    pub own: bool,
    /// The networks, and the block that it leases from on each.
    pub blocks: Vec<(String, String)>,
    /// How many containers it has.
    pub containers: usize,
}

/// The result of a check of the doctor's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// `ok`, `warn` or `FAIL`.
    pub status: String,
    /// What was found.
    pub what: String,
    /// The command that repairs it.
    pub fix: Option<String>,
    /// What the operator has to do where no command does it.
    pub note: Option<String>,
}

/// Why one does not reach another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// What was asked.
    pub asked: Asked,
    /// Who may be chosen.
    pub choices: Vec<String>,
    /// What was found; `None` where nothing was asked.
    pub answer: Option<Result<Explanation, String>>,
}

/// What was found on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The verdict as a sentence.
    pub summary: String,
    /// The way, hop by hop.
    pub hops: Vec<Hop>,
}

/// A hop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// `ok`, `note`, `FAIL` or `?`.
    pub status: String,
    /// Which hop.
    pub name: String,
    /// What happens there.
    pub what: String,
    /// Who set what fails.
    pub by: Option<String>,
    /// What repairs it.
    pub fix: Option<String>,
}

/// What egress rules refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// The network that alone is shown, as it was asked for.
    pub network: Option<String>,
    /// Those of this part, newest first.
    pub refusals: Vec<Refusal>,
    /// Which part.
    pub part: ListPart,
    /// Those of all parts.
    pub found: usize,
}

/// A name or a packet that was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// `2026-11-18T12:00:00Z`.
    pub time: String,
    /// The network.
    pub network: String,
    /// What its runtime calls the network, where that differs.
    pub title: Option<String>,
    /// The container's name, or its address.
    pub who: String,
    /// Its runtime, where it is a container that is known.
    pub runtime: Option<String>,
    /// Where it was going.
    pub to: String,
    /// What happened.
    pub what: String,
    /// Why.
    pub why: String,
}
