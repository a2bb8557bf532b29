//! That the host forwards what its containers send and are sent.
//!
//! Where it did so before, what else passes it is its administrator's affair. Where Spoke turned it on
//! (0 to 1), nothing else may pass because of that: `filter/transit.nft`. Who turned it on is kept in
//! the namespace itself, so that it outlives a flushed packet filter and ends with the namespace: the
//! loopback device, through which nothing is ever forwarded, does not forward
//! (`net.ipv4.conf.lo.forwarding` is 0). An administrator who turns forwarding off and on again
//! has thereby turned it on himself: that sets every interface's.

use std::path::Path;

use model::{Family, IfName, Result};
use netlink::{Link, Links, Netns, PATIENCE, Socket, Turn, nft, sysctl};

use crate::filter::transit::{self, Entry};
use crate::identity::{GROUP, VLAN_GATEWAY};

/// A number that is for whoever needs one (the kernel's `ip-sysctl`): the highest index that an
/// interface had when Spoke turned forwarding on first. Later ones have higher ones.
const LAST: &str = "net/ipv4/conf/lo/tag";
/// The calling thread's namespace.
const OWN: &str = "/proc/thread-self/ns/net";
const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Makes the host forward packets of this family.
pub(crate) fn turn_on(family: Family, route: &mut Socket) -> Result<()> {
    if sysctl::read(of_all(family))? != "1" {
        return turn_on_first(family, route);
    }
    if !is_ours(family) {
        return Ok(());
    }
    let mut filter = Socket::netfilter()?;
    match transit::is_there(&mut filter)? {
        true => Ok(()),
        false => restore(&mut filter, route),
    }
}

/// The guard comes first: nothing may pass in between.
fn turn_on_first(family: Family, route: &mut Socket) -> Result<()> {
    let host = Netns::open(Path::new(OWN))?;
    let _turn = Turn::take(&host, PATIENCE)?;
    let guarded = guard(family, route)?;
    if let Err(error) = sysctl::write(of_all(family), "1") {
        if guarded && !is_ours_at_all() {
            transit::unload(&mut Socket::netfilter()?)?;
        }
        return Err(error);
    }
    match guarded {
        true => sysctl::write(of_loopback(family), "0"),
        false => Ok(()),
    }
}

/// Whether there can be a guard: a kernel without nftables has none.
fn guard(family: Family, route: &mut Socket) -> Result<bool> {
    let mut filter = match Socket::netfilter() {
        Err(_) if !nft::is_supported() => return Ok(false),
        opened => opened?,
    };
    let last = if is_ours_at_all() { last() } else { remember_last(route)? };
    let mut links = before(last, route)?;
    // What forwards by itself is meant to.
    let forwards = |name: &IfName| sysctl::read(parameter(family, name.as_str()));
    links.retain(|link| forwards(&link.name).is_ok_and(|forwards| forwards == "0"));
    let mut entries = entries(&links);
    entries.push(Entry::Family(family));
    match transit::ensure(&mut filter, &entries) {
        Err(_) if !nft::is_supported() => Ok(false),
        ensured => ensured.map(|()| true),
    }
}

/// Turns it off again where Spoke turned it on and nobody can need it: there is no interface of ours
/// but the one that is `leaving`, and none that others made since.
pub(crate) fn turn_off(leaving: Option<&IfName>, filter: &mut Socket) -> Result<()> {
    if !is_ours_at_all() {
        return Ok(());
    }
    let host = Netns::open(Path::new(OWN))?;
    let _turn = Turn::take(&host, PATIENCE)?;
    let mut route = Socket::route()?;
    if is_needed(leaving, &mut route, filter)? {
        return Ok(());
    }
    let ours: Vec<Family> = FAMILIES.into_iter().filter(|family| is_ours(*family)).collect();
    for family in &ours {
        sysctl::write(of_all(*family), "0")?;
    }
    // Whoever made an interface in between may have seen that the host forwards.
    if is_needed(leaving, &mut route, filter)? {
        return ours.into_iter().try_for_each(|family| {
            sysctl::write(of_all(family), "1")?;
            sysctl::write(of_loopback(family), "0")
        });
    }
    sysctl::write(LAST, "0")?;
    transit::unload(filter)
}

fn is_needed(leaving: Option<&IfName>, route: &mut Socket, filter: &mut Socket) -> Result<bool> {
    let last = last();
    let needs = |link: &Link| link.index > last || is_link_of_ours(link);
    let links = route.links(Links::default())?;
    if links.iter().any(|link| leaving != Some(&link.name) && needs(link)) {
        return Ok(true);
    }
    for link in before(last, route)? {
        if !transit::has(filter, &Entry::Before(link.name))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes the guard again where somebody removed it. Whether it was missing.
pub(crate) fn mend(filter: &mut Socket) -> Result<bool> {
    if !is_ours_at_all() {
        return Ok(false);
    }
    match transit::is_there(filter)? {
        true => transit::mend(filter),
        false => restore(filter, &mut Socket::route()?).map(|()| true),
    }
}

fn restore(filter: &mut Socket, route: &mut Socket) -> Result<()> {
    let mut entries = entries(&before(last(), route)?);
    entries.extend(FAMILIES.into_iter().filter(|family| is_ours(*family)).map(Entry::Family));
    transit::ensure(filter, &entries)
}

/// The host's interfaces up to this index, as far as anything is forwarded through them.
fn before(last: u32, route: &mut Socket) -> Result<Vec<Link>> {
    let mut links = route.links(Links::default())?;
    links.retain(|link| {
        let is_loopback = link.name.as_str() == "lo";
        link.index <= last && link.port.is_none() && !is_loopback && !is_link_of_ours(link)
    });
    Ok(links)
}

/// Where br_netfilter is on, what a bridge switches is seen as forwarded.
fn entries(links: &[Link]) -> Vec<Entry> {
    let bridges = links.iter().filter(|link| link.kind.as_deref() == Some("bridge"));
    let switched = bridges.map(|bridge| Entry::Switched(bridge.name.clone()));
    links.iter().map(|link| Entry::Before(link.name.clone())).chain(switched).collect()
}

fn is_link_of_ours(link: &Link) -> bool {
    [GROUP, VLAN_GATEWAY].contains(&link.group)
}

/// The highest index so far. Where it cannot be written, forwarding cannot be turned on either, and
/// that error says more.
fn remember_last(route: &mut Socket) -> Result<u32> {
    let links = route.links(Links::default())?;
    let last = links.iter().map(|link| link.index).max().unwrap_or_default();
    drop(sysctl::write(LAST, &last.to_string()));
    Ok(last)
}

fn last() -> u32 {
    sysctl::read(LAST).ok().and_then(|told| told.parse().ok()).unwrap_or_default()
}

/// Whether Spoke turned it on in any family, and nobody else did since.
pub(crate) fn is_ours_at_all() -> bool {
    FAMILIES.into_iter().any(is_ours)
}

fn is_ours(family: Family) -> bool {
    let is = |path: String, value: &str| sysctl::read(path).is_ok_and(|there| there == value);
    is(of_loopback(family), "0") && is(of_all(family), "1")
}

fn of_all(family: Family) -> String {
    match family {
        // The same as `net/ipv4/conf/all/forwarding`, and what everybody knows it by.
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
