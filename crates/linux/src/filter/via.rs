//! The table of networks with a way out of their own (`crate::way`): it drops whatever would leave by another
//! way, whatever the routing rules say.
//!
//! `via.nft` is the readable form.

mod rules;
mod switched;

use std::cell::Cell;

use engine::port::Still;
use model::{Family as IpFamily, IfName, IpNet, Result};
use netlink::Socket;
use netlink::nft::{self, Between, Comment, Element, Set, Transaction, Tuple};

use super::entry::interface;
use super::fence::calmly;
use super::ruleset::{is_raced, settled};
use crate::way::{Hops, WayOut};

pub(crate) use rules::TABLE;
use rules::{
    ASKED, ASKED_VIA, GATEWAYS, INSIDE, LED, LINKS, NEAR, RELAYS, SEGMENTS, SOURCES, element_sets,
    range_sets, ruleset,
};

/// The version of the table that did not check sources.
const UNCHECKED: &str = "via_1";
/// Others may change the ruleset between the read and the write.
const ATTEMPTS: usize = 16;

/// Whether the network's packets are dropped unless they go the way.
pub(crate) fn is_held(socket: &mut Socket, way: &WayOut) -> Result<bool> {
    let mark = mark(way)?;
    let found = nft::find(socket, TABLE, &[(LED.name, &mark)])?;
    let is_there = found.iter().any(|(_, there)| there.comment == mark.comment);
    Ok(is_there && ruleset().verify(socket).is_ok())
}

/// Whether the packets of a bridge are held, by whatever way.
pub(crate) fn holds(socket: &mut Socket, bridge: &IfName) -> Result<bool> {
    let own = Element::of(Tuple::new().interface(bridge));
    Ok(!nft::find(socket, TABLE, &[(LED.name, &own)])?.is_empty())
}

/// Whether a container on the bridge is said to forward for another network.
pub(crate) fn relays(socket: &mut Socket, bridge: &IfName) -> Result<bool> {
    let own = Element::of(Tuple::new().interface(bridge));
    Ok(!nft::find(socket, TABLE, &[(RELAYS.name, &own)])?.is_empty())
}

/// The bridges whose packets are held.
pub(crate) fn held(socket: &mut Socket) -> Result<Vec<IfName>> {
    let led = nft::elements(socket, TABLE, LED.name)?;
    Ok(led.iter().filter_map(|element| interface(element.key.bytes())).collect())
}

/// What the table has of a network, beside its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lead<'a> {
    /// Where its way leads.
    pub hops: &'a Hops,
    /// The subnets of Spoke's networks, of which none is in another one.
    pub inside: &'a [IpNet],
    /// Whether a container on it is the way of another network; `None` leaves what is said of that.
    pub relays: Option<bool>,
}

/// Makes chains and the elements of the network what they should be. Whether they were not. Nothing is changed where
/// `still` says that this is no more the way: it is asked behind the number of the ruleset which the change is for,
/// and the process that records another way changes the ruleset after that.
pub(crate) fn keep(
    socket: &mut Socket,
    way: &WayOut,
    lead: &Lead<'_>,
    still: Still<'_>,
) -> Result<bool> {
    let changed = Cell::new(false);
    calmly(socket, |socket| make(socket, (way, lead), &changed, still))?;
    Ok(changed.get())
}

/// `changed` is set where anything was not as it should be, and outlives an attempt that is made again.
fn make(
    socket: &mut Socket,
    (way, lead): (&WayOut, &Lead<'_>),
    changed: &Cell<bool>,
    still: Still<'_>,
) -> Result<()> {
    let (ruleset, wanted, ranges) = (ruleset(), elements(way, lead)?, ranges(way, lead));
    let refuse_other = || match still()? {
        true => Ok(()),
        false => Err(model::Error::try_again(format!("{}: it has another one", about(way)))),
    };
    for _ in 0..ATTEMPTS {
        // Who gave it none has removed the table.
        refuse_other()?;
        renew_older(socket)?;
        if ruleset.verify(socket).is_err() {
            ruleset.reload(socket)?;
            changed.set(true);
        }
        changed.set(changed.get() | switched::keep(socket)?);
        let mut transaction = Transaction::of_generation(nft::generation(socket)?);
        renew(socket, &mut transaction, (way, lead), &wanted)?;
        renew_ranges(socket, &mut transaction, way, &ranges)?;
        if transaction.is_empty() {
            return Ok(());
        }
        refuse_other()?;
        changed.set(true);
        if settled(transaction.commit(socket), is_raced)? {
            return Ok(());
        }
    }
    Err(model::Error::try_again(format!("{TABLE} keeps being changed by others")))
}

/// Makes the table, or replaces the chains of another version. The oldest one did not check sources: until the daemon
/// says which bridges have a container that forwards for another network, none is checked that was led so far.
fn renew_older(socket: &mut Socket) -> Result<()> {
    if nft::chain_exists(socket, TABLE, UNCHECKED)? {
        let led = nft::elements(socket, TABLE, LED.name)?;
        let about = format!("keeping what is there ({TABLE})");
        let fill = |transaction: &mut Transaction| {
            for element in &led {
                let relay = Element::of(element.key.clone());
                transaction.add_element(TABLE, RELAYS.name, &relay, about.clone());
            }
        };
        return ruleset().renew(socket, fill);
    }
    ruleset().ensure(socket)
}

fn about(way: &WayOut) -> String {
    format!("holding network {} to its way {} ({TABLE})", way.network, way.via)
}

fn mark(way: &WayOut) -> Result<Element> {
    let comment: Comment = format!("{} {}", way.network, way.table()).parse()?;
    let key = Tuple::new().interface(&way.bridge);
    Ok(Element { comment: Some(comment), ..Element::of(key) })
}

/// All but the ranges.
fn elements(way: &WayOut, lead: &Lead<'_>) -> Result<Vec<(&'static str, Element)>> {
    let mut all = vec![(LED.name, mark(way)?)];
    if lead.relays == Some(true) {
        all.push((RELAYS.name, Element::of(Tuple::new().interface(&way.bridge))));
    }
    for (family, hop) in lead.hops.all() {
        let place = usize::from(family == IpFamily::V6);
        let pair = Tuple::new().interface(&way.bridge).interface(&hop.device);
        let asked = Tuple::new().mark(way.table()).interface(&hop.device);
        // A device that is of the way alone; a segment has other routers, too.
        match hop.gateway.filter(|_| hop.mac.is_none()) {
            None => {
                all.push((LINKS.name, Element::of(pair.clone())));
                all.push((ASKED.name, Element::of(asked)));
            }
            Some(gateway) => {
                all.push((GATEWAYS[place].name, Element::of(pair.clone().address(gateway))));
                all.push((ASKED_VIA[place].name, Element::of(asked.address(gateway))));
                all.push((SEGMENTS.name, Element::of(pair.clone())));
            }
        }
        if let Some(source) = hop.source.filter(|_| way.translated.contains(&family)) {
            let data = Some(Tuple::new().address(source));
            all.push((SOURCES[place].name, Element { data, ..Element::of(pair) }));
        }
    }
    all.dedup();
    let mut distinct: Vec<(&'static str, Element)> = Vec::new();
    for one in all {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    Ok(distinct)
}

/// Who calls from the segment of a router, and whose answers stay in this host.
fn ranges(way: &WayOut, lead: &Lead<'_>) -> Vec<(&'static str, Between)> {
    let mut all = Vec::new();
    for net in lead.inside {
        let key = |address| Tuple::new().interface(&way.bridge).address(address);
        let (first, last) = (key(net.network()), key(net.broadcast()));
        let place = usize::from(IpFamily::of(net) == IpFamily::V6);
        all.push((INSIDE[place].name, Between { first, last }));
    }
    for (family, hop) in lead.hops.all() {
        let Some(segment) = hop.segment else { continue };
        let key =
            |address| Tuple::new().interface(&way.bridge).interface(&hop.device).address(address);
        let (first, last) = (key(segment.network()), key(segment.broadcast()));
        all.push((NEAR[usize::from(family == IpFamily::V6)].name, Between { first, last }));
    }
    all
}

/// Whether an element is of the bridge, or of what this host sends for it.
fn is_of(key: &Tuple, bridge: &IfName, table: u32) -> bool {
    let (name, mark) = (Tuple::new().interface(bridge), Tuple::new().mark(table));
    key.bytes().starts_with(name.bytes()) || key.bytes().starts_with(mark.bytes())
}

/// Whether a bridge that is led has this routing table, as [`mark`] says.
fn has_table(led: &Element, table: u32) -> bool {
    let number = led.comment.as_ref().and_then(|it| it.as_str().rsplit(' ').next());
    number == Some(&*table.to_string())
}

fn renew(
    socket: &mut Socket,
    transaction: &mut Transaction,
    (way, lead): (&WayOut, &Lead<'_>),
    wanted: &[(&'static str, Element)],
) -> Result<()> {
    let is_known = |set: &Set<'_>| lead.relays.is_some() || set.name != RELAYS.name;
    for set in element_sets().into_iter().filter(is_known) {
        let mut there = nft::elements(socket, TABLE, set.name)?;
        there.retain(|element| is_of(&element.key, &way.bridge, way.table()));
        let wanted = || wanted.iter().filter(|(name, _)| *name == set.name).map(|(_, it)| it);
        let is_same = |one: &Element, other: &Element| {
            (&one.key, &one.data, &one.comment) == (&other.key, &other.data, &other.comment)
        };
        for element in there.iter().filter(|it| !wanted().any(|other| is_same(it, other))) {
            transaction.delete_element(TABLE, set.name, element, about(way));
        }
        for element in wanted().filter(|it| !there.iter().any(|other| is_same(it, other))) {
            transaction.add_element(TABLE, set.name, element, about(way));
        }
    }
    Ok(())
}

fn renew_ranges(
    socket: &mut Socket,
    transaction: &mut Transaction,
    way: &WayOut,
    wanted: &[(&'static str, Between)],
) -> Result<()> {
    for set in range_sets() {
        let there = ranges_of(socket, set.name, &way.bridge)?;
        let wanted = || wanted.iter().filter(|(name, _)| *name == set.name).map(|(_, it)| it);
        for range in there.iter().filter(|range| !wanted().any(|other| other == *range)) {
            transaction.delete_between(TABLE, set.name, range, about(way));
        }
        for range in wanted().filter(|range| !there.contains(range)) {
            transaction.add_between(TABLE, set.name, range, about(way));
        }
    }
    Ok(())
}

fn ranges_of(socket: &mut Socket, set: &str, bridge: &IfName) -> Result<Vec<Between>> {
    let name = Tuple::new().interface(bridge);
    let mut there = nft::between(socket, TABLE, set)?;
    there.retain(|range| range.first.bytes().starts_with(name.bytes()));
    Ok(there)
}

/// Removes the elements of a bridge, and the table with the last one. What is gone is no error. Nothing is removed
/// where `still` says that the bridge has a way again; it is asked as in [`keep`].
pub(crate) fn forget_bridge(socket: &mut Socket, bridge: &IfName, still: Still<'_>) -> Result<()> {
    calmly(socket, |socket| remove(socket, bridge, still))
}

fn remove(socket: &mut Socket, bridge: &IfName, still: Still<'_>) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let mut transaction = Transaction::of_generation(nft::generation(socket)?);
        let led = nft::elements(socket, TABLE, LED.name)?;
        // Another version's table has other chains, and no other sets for this.
        if !ruleset().is_loaded(socket)? {
            return nft::remove_table(socket, switched::TABLE);
        }
        let own = Tuple::new().interface(bridge);
        if led.iter().all(|element| element.key == own) {
            transaction.delete_table(TABLE);
            if switched::ruleset().is_loaded(socket)? {
                transaction.delete_table(switched::TABLE);
            }
        } else {
            let about = || format!("letting bridge {bridge} go ({TABLE})");
            let table = model::way_table(bridge);
            let is_shared = led.iter().any(|it| it.key != own && has_table(it, table));
            let is_own = |key: &Tuple| match is_shared {
                true => key.bytes().starts_with(own.bytes()),
                false => is_of(key, bridge, table),
            };
            for set in element_sets() {
                let mut there = nft::elements(socket, TABLE, set.name)?;
                there.retain(|element| is_own(&element.key));
                for element in &there {
                    transaction.delete_element(TABLE, set.name, element, about());
                }
            }
            for set in range_sets() {
                for range in ranges_of(socket, set.name, bridge)? {
                    transaction.delete_between(TABLE, set.name, &range, about());
                }
            }
        }
        if transaction.is_empty() {
            return Ok(());
        }
        if !still()? {
            let what = format!("letting bridge {bridge} go ({TABLE}): it has a way again");
            return Err(model::Error::try_again(what));
        }
        if settled(transaction.commit(socket), is_raced)? {
            return Ok(());
        }
    }
    Err(model::Error::try_again(format!("{TABLE} keeps being changed by others")))
}
