//! Forwarding of the host for containers' packets.
//!
//! Where the host forwarded before, its administrator decides about other packets. Where Spoke
//! turned forwarding on (0 to 1), no other packets may pass because of that: `filter/transit.nft`.
//! A mark in the namespace itself says that Spoke turned it on, so that it outlives a flushed
//! packet filter and ends with the namespace. The mark is that the loopback device, through which
//! nothing is ever forwarded, does not forward (`net.ipv4.conf.lo.forwarding` is 0). An
//! administrator who turns forwarding off and on again has thereby turned it on: that sets every
//! interface's parameter. The previous state and unfinished changes are in a number of the same
//! device ([`Memory`]). The host's own routes of IPv6 stay ([`routers`]).

mod routers;

use model::{Family, IfName, Result};
use netlink::nft::Policy;
use netlink::{At, HostLock, Link, Links, Parameters, Socket, nft, sysctl};

use crate::filter;
use crate::filter::transit::{self, Entry};
use crate::identity::is_ours_by;

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Makes the host forward packets of this family.
pub(crate) fn turn_on(family: Family, route: &mut Socket, lock: &HostLock) -> Result<()> {
    if !is_on(family, route)? {
        return lock.with(|| turn_on_first(family, route));
    }
    let reported = Reported::by(route);
    if reported.memory == Memory::default() {
        return Ok(());
    }
    let mut filter = Socket::netfilter()?;
    let mut is_marked = reported.is_marked(family);
    if !is_marked && transit::has(&mut filter, &Entry::Family(family))? {
        lock.with(|| settle(&mut filter))?;
        is_marked = Reported::by(route).is_marked(family);
    }
    match is_marked || reported.memory.has_started(family) {
        true => restore_missing(&mut filter).map(drop),
        false => Ok(()),
    }
}

/// The guard comes first: nothing may pass in between.
fn turn_on_first(family: Family, route: &mut Socket) -> Result<()> {
    if !guard(family, route)? {
        return write_first(family, route);
    }
    let started = Memory::read().with(family, true);
    // Where that cannot be written, forwarding cannot be turned on either, and that error says more.
    drop(started.write());
    if let Err(error) = write_first(family, route) {
        settle(&mut Socket::netfilter()?)?;
        return Err(error);
    }
    mark(family)
}

fn write_first(family: Family, route: &mut Socket) -> Result<()> {
    if family == Family::V6 {
        routers::keep(route)?;
    }
    sysctl::write(of_all(family), "1")
}

/// Whether there can be a guard: a kernel without nftables has none.
fn guard(family: Family, route: &mut Socket) -> Result<bool> {
    let mut filter = match Socket::netfilter() {
        Err(_) if !nft::is_supported() => return Ok(false),
        opened => opened?,
    };
    let mut memory = Memory::read();
    let links = route.links(Links::default())?;
    if memory.last == 0 {
        memory.last = links.iter().map(|link| link.index).max().unwrap_or_default();
        drop(memory.write());
    }
    let mut links = before(memory.last, links);
    // Interfaces that forward on their own are configured so.
    let forwards = |name: &IfName| sysctl::read(parameter(family, name.as_str()));
    links.retain(|link| forwards(&link.name).is_ok_and(|forwards| forwards == "0"));
    let mut entries = entries(&links);
    entries.push(Entry::Family(family));
    match transit::ensure(&mut filter, &entries) {
        Err(_) if !nft::is_supported() => Ok(false),
        ensured => ensured.map(|()| true),
    }
}

/// Says permanently that Spoke turned it on.
fn mark(family: Family) -> Result<()> {
    sysctl::write(of_loopback(family), "0")?;
    Memory::read().with(family, false).write()
}

/// Whether Spoke turned it on, or began to, and has not turned it off since.
pub(crate) fn is_turned_on() -> bool {
    Memory::read() != Memory::default()
}

/// Finishes a dead process's change, and drops the mark where an administrator took over. The caller has the lock.
pub(crate) fn settle(filter: &mut Socket) -> Result<()> {
    let mut route = Socket::route()?;
    let reported = Reported::by(&mut route);
    let mut remains = false;
    for family in FAMILIES {
        let is_ours = reported.is_ours(family, &mut route);
        remains |= is_ours;
        if is_ours && !reported.is_marked(family) {
            mark(family)?;
        }
        if !is_ours && transit::has(filter, &Entry::Family(family))? {
            transit::forget_family(filter, family)?;
        }
    }
    if remains { Ok(()) } else { forget(filter, None) }
}

/// As [`turn_off`] and an administrator end it: `policy` is what the host's own filter has then, where Spoke changed that.
fn forget(filter: &mut Socket, policy: Option<Policy>) -> Result<()> {
    filter::forget_policy(filter, policy)?;
    transit::unload(filter)?;
    routers::give_back(&mut Socket::route()?)?;
    match Memory::read() == Memory::default() {
        true => Ok(()),
        false => Memory::default().write(),
    }
}

/// Turns it off again where Spoke turned it on and no interface needs it: there is none of Spoke's
/// but the one that is `leaving`, and none that others made since. The caller has the lock.
pub(crate) fn turn_off(leaving: Option<&IfName>, filter: &mut Socket) -> Result<()> {
    settle(filter)?;
    let memory = Memory::read();
    if memory == Memory::default() {
        return Ok(());
    }
    let mut route = Socket::route()?;
    // A flushed guard does not know any more which interfaces were there before.
    restore_missing(filter)?;
    if is_needed(leaving, &mut route, filter)? {
        return Ok(());
    }
    let ours = ours();
    for family in &ours {
        sysctl::write(of_all(*family), "0")?;
    }
    // A program that made an interface in between may have seen that the host forwards.
    if !is_needed(leaving, &mut route, filter)? {
        return forget(filter, Some(Policy::Accept));
    }
    ours.iter().fold(memory, |memory, family| memory.with(*family, true)).write()?;
    ours.into_iter().try_for_each(|family| {
        sysctl::write(of_all(family), "1")?;
        mark(family)
    })
}

fn is_needed(leaving: Option<&IfName>, route: &mut Socket, filter: &mut Socket) -> Result<bool> {
    let last = Memory::read().last;
    let needs = |link: &Link| link.index > last || is_ours_by(link.group);
    let links = route.links(Links::default())?;
    if links.iter().any(|link| leaving != Some(&link.name) && needs(link)) {
        return Ok(true);
    }
    for link in before(last, links) {
        if !transit::has(filter, &Entry::Before(link.name))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes the guard again where it was removed, once that is settled. Returns whether it was missing.
pub(crate) fn mend(filter: &mut Socket) -> Result<bool> {
    if !is_ours_at_all() {
        return Ok(false);
    }
    Ok(restore_missing(filter)? || transit::mend(filter)?)
}

/// Makes the guard again where it is missing. Whether it was.
fn restore_missing(filter: &mut Socket) -> Result<bool> {
    if transit::is_there(filter)? {
        return Ok(false);
    }
    let memory = Memory::read();
    let links = Socket::route()?.links(Links::default())?;
    let mut entries = entries(&before(memory.last, links));
    entries.extend(ours().into_iter().map(Entry::Family));
    transit::ensure(filter, &entries).map(|()| true)
}

/// The host's interfaces up to this index, as far as anything is forwarded through them.
fn before(last: u32, mut links: Vec<Link>) -> Vec<Link> {
    links.retain(|link| {
        let is_loopback = link.name.as_str() == "lo";
        link.index <= last && link.port.is_none() && !is_loopback && !is_ours_by(link.group)
    });
    links
}

/// Where br_netfilter is on, what a bridge switches is seen as forwarded.
fn entries(links: &[Link]) -> Vec<Entry> {
    let bridges = links.iter().filter(|link| link.kind.as_deref() == Some("bridge"));
    let switched = bridges.map(|bridge| Entry::Switched(bridge.name.clone()));
    links.iter().map(|link| Entry::Before(link.name.clone())).chain(switched).collect()
}

/// State in a number that the kernel leaves to users (the kernel's `ip-sysctl`); 0 where Spoke
/// turned nothing on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Memory {
    /// The highest index that an interface had when Spoke turned forwarding on first. Later ones have
    /// higher ones.
    last: u32,
    /// The families, a bit for each, that are being turned on.
    started: u32,
}

impl Memory {
    const PARAMETER: &str = "net/ipv4/conf/lo/tag";
    const BITS: u32 = 2;

    fn read() -> Self {
        Reported::read().memory
    }

    fn of(number: u32) -> Self {
        Self { last: number >> Self::BITS, started: number & ((1 << Self::BITS) - 1) }
    }

    fn write(self) -> Result<()> {
        let number = self.last << Self::BITS | self.started;
        sysctl::write(Self::PARAMETER, &number.to_string())
    }

    fn with(self, family: Family, started: bool) -> Self {
        let others = self.started & !Self::bit(family);
        let own = if started { Self::bit(family) } else { 0 };
        Self { started: others | own, ..self }
    }

    fn has_started(self, family: Family) -> bool {
        self.started & Self::bit(family) != 0
    }

    fn bit(family: Family) -> u32 {
        match family {
            Family::V4 => 1,
            Family::V6 => 2,
        }
    }
}

/// Whether Spoke turned it on in any family, and no other program did since.
pub(crate) fn is_ours_at_all() -> bool {
    !ours().is_empty()
}

/// What strangers reach only because Spoke turned forwarding on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposed {
    /// Whatever they have a route to: the guard is missing.
    Host,
    /// Docker's containers in this family: dockerd found the host forwarding.
    Docker(Family),
}

/// Everything that is open so; `None` where the host does not forward because of Spoke.
///
/// # Errors
/// Where the packet filter cannot be read.
pub fn exposed() -> Result<Option<Vec<Exposed>>> {
    let ours = ours();
    if ours.is_empty() {
        return Ok(None);
    }
    let mut socket = Socket::netfilter()?;
    let unguarded = (!transit::is_there(&mut socket)?).then_some(Exposed::Host);
    let dockers = filter::left_open(&mut socket, &ours)?.into_iter().map(Exposed::Docker);
    Ok(Some(unguarded.into_iter().chain(dockers).collect()))
}

/// The families in which Spoke turned it on, and no other program did since.
pub(crate) fn ours() -> Vec<Family> {
    let Ok(mut route) = Socket::route() else { return Vec::new() };
    let reported = Reported::by(&mut route);
    FAMILIES.into_iter().filter(|family| reported.is_ours(*family, &mut route)).collect()
}

/// Of a family that the kernel lacks, the error of its file says so.
fn is_on(family: Family, route: &mut Socket) -> Result<bool> {
    match route.forwards(family)? {
        Some(on) => Ok(on),
        None => sysctl::read(of_all(family)).map(|on| on == "1"),
    }
}

/// What the loopback device says of both families, read at once.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    memory: Memory,
    parameters: Parameters,
}

impl Reported {
    /// The index of the loopback device in every namespace (`LOOPBACK_IFINDEX`).
    const LOOPBACK: At<'static> = At::Index(1);

    fn read() -> Self {
        Socket::route().map(|mut route| Self::by(&mut route)).unwrap_or_default()
    }

    /// What cannot be read says nothing: then nothing can be turned on.
    fn by(route: &mut Socket) -> Self {
        let parameters = route.parameters(Self::LOOPBACK).ok().flatten().unwrap_or_default();
        Self { memory: Memory::of(parameters.tag), parameters }
    }

    fn is_ours(&self, family: Family, route: &mut Socket) -> bool {
        let is_meant = self.is_marked(family) || self.memory.has_started(family);
        self.memory != Memory::default() && is_meant && is_on(family, route).is_ok_and(|on| on)
    }

    fn is_marked(&self, family: Family) -> bool {
        self.parameters.forwards(family) == Some(false)
    }
}

fn of_all(family: Family) -> String {
    match family {
        // The same as `net/ipv4/conf/all/forwarding`, under its usual name.
        Family::V4 => "net/ipv4/ip_forward".to_owned(),
        Family::V6 => parameter(family, "all"),
    }
}

fn of_loopback(family: Family) -> String {
    parameter(family, "lo")
}

fn parameter(family: Family, interface: &str) -> String {
    let version = match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    };
    format!("net/{version}/conf/{interface}/forwarding")
}
