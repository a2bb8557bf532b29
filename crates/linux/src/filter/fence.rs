//! The fence of a network: where the packets of its containers may go. A table of its own, which is there
//! before the first container's interface is, and goes with the last fenced network.
//!
//! `fence.nft` is the readable form. Rules by address are ranges in sets, keyed by the bridge; what answers
//! for allowed names open is elements that expire.

mod behind;
mod calm;
mod checked;
mod flows;
mod learning;
mod near;
mod opened;
mod own;
mod reach;
mod rules;
mod sets;
mod shut;
mod strays;
mod strict;
mod unread;

use model::{DomainName, Fence, IfName, IpNet, Ipam, Moment, NetworkName, Result, Wiring};
use netlink::Socket;
use netlink::nft::{self, Between, Comment, Element, Transaction, Tuple};
use std::net::IpAddr;
use std::time::Duration;

pub use crate::sources::{StrictBy, settle as settle_sources};
pub use behind::{Needs, complete_older, settle_behind};
pub(crate) use calm::calmly;
pub use checked::Checked;
pub(super) use flows::mark_of_forged;
pub use opened::{
    Opening, Sent, end_flows, end_packets, flows, forget_source, is_open, keep_known, open,
    open_each, opened, prune,
};
pub(super) use opened::{bridge, bridge_and_address};
pub use own::{
    MayHaveOthers, Own, end_own_flows, forget_other_own, forget_own, is_own_kept, keep_own,
    keep_own_checked, own_sources, prune_own,
};
pub use reach::Reach;
pub use rules::{LOG_GROUP, NAMES_PORT};
pub(super) use rules::{from_none, of_link_or_unspecified, of_unknown_option};
pub(crate) use sets::TABLE;
use sets::{FENCED, LEARNING, STRICT, WITHIN, range_sets};
pub use shut::{set_shut, shut_bridges, shut_lost};
pub use strays::{InSet, in_sets, is_of_openings, remove_strays};
pub use strict::{BoundPort, complete, is_complete, relax, strict_bridges};
pub use unread::{ContainerPort, Readable, keep_shut, lost_ports, open_port, shut_ports};

use super::ruleset::{is_raced, settled};
use crate::identity::digest_of;

/// Others may change the ruleset between the read and the write.
const ATTEMPTS: usize = 16;

/// A network with a fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fenced {
    /// The network.
    pub network: NetworkName,
    /// Its bridge.
    pub bridge: IfName,
    /// Its gateways, with the lengths of their subnets.
    pub gateways: Vec<IpNet>,
    /// What is allowed.
    pub fence: Fence,
    /// Who reaches it at its containers' addresses.
    pub reach: Reach,
    /// What its containers with rules of their own need of the bridge beside that, where that is known.
    pub beside: Option<Needs>,
}

impl Fenced {
    /// The fence of a network; `None` where it has none.
    ///
    /// # Errors
    /// [`Wiring::refuse_fence`].
    pub fn of(network: &NetworkName, wiring: &Wiring, ipam: &Ipam) -> Result<Option<Self>> {
        wiring.refuse_fence(network, ipam)?;
        let bridge = wiring.bridge();
        let (Some(fence), Some(bridge)) = (&wiring.fence, bridge) else { return Ok(None) };
        Ok(Some(Self {
            network: network.clone(),
            bridge: bridge.name.clone(),
            gateways: wiring.name_servers(ipam),
            fence: fence.clone(),
            reach: Reach::of(wiring),
            beside: None,
        }))
    }

    /// The same network beside its containers with rules of their own: those of these that are behind its bridge.
    #[must_use]
    pub fn beside<'a>(&self, all: impl IntoIterator<Item = &'a Own>) -> Self {
        Self { beside: Some(Needs::of(&self.bridge, all)), ..self.clone() }
    }

    /// Whether an address is one of the network's.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.gateways.iter().any(|net| net.contains(&address))
    }

    /// The same network while nothing is allowed.
    #[must_use]
    pub fn closed(&self) -> Self {
        let fence = Fence { strict: self.fence.strict, ..Fence::default() };
        Self { fence, ..self.clone() }
    }

    /// Whether the rules of one of these names allow what it opened.
    pub fn allows_by_name(&self, opening: &Opening, names: &[DomainName]) -> bool {
        self.fence.allows_by_name(names, opening.protocol, opening.port)
    }

    /// The element that says that the bridge is fenced, and by which rules.
    fn mark(&self) -> Result<Element> {
        let strict = if self.fence.strict { " strict" } else { "" };
        let text = format!("{:?} {}{strict}", self.gateways, self.fence);
        let comment: Comment = format!("{} {}", self.network, digest_of(&text)).parse()?;
        Ok(Element { comment: Some(comment), ..Element::of(self.key()) })
    }

    fn key(&self) -> Tuple {
        Tuple::new().interface(&self.bridge)
    }

    fn ranges(&self) -> Vec<(&'static str, Between)> {
        sets::allowed(&self.bridge, &self.fence.rules)
    }

    fn about(&self, doing: &str) -> String {
        format!("{doing} the fence of network {} ({TABLE})", self.network)
    }
}

/// Makes the fence, unless it is there with these rules: for each container that is attached. The chains are
/// compared, too: a flush of the table leaves its sets.
///
/// # Errors
/// Where the kernel lacks something, or the process may not change it. Nothing may be attached then.
pub fn ensure(socket: &mut Socket, fenced: &Fenced) -> Result<()> {
    let mark = fenced.mark()?;
    let found = nft::find(socket, TABLE, &[(FENCED.name, &mark)])?;
    match found.first() {
        Some((_, there))
            if there.comment == mark.comment
                && rules::ruleset().verify(socket).is_ok()
                && strict::is_kept(std::slice::from_ref(fenced))? =>
        {
            Ok(())
        }
        Some(_) | None => keep(socket, fenced, None),
    }
}

/// Drops everything that comes in by the bridge, where it is not fenced yet: for what was attached before
/// a loss. The network's rules come with [`keep`].
///
/// # Errors
/// As [`ensure`].
pub fn close(socket: &mut Socket, fenced: &Fenced) -> Result<bool> {
    let mark = Element::of(fenced.key());
    if !nft::find(socket, TABLE, &[(FENCED.name, &mark)])?.is_empty() {
        return Ok(false);
    }
    keep(socket, &fenced.closed(), None).map(|()| true)
}

/// Makes the fence what it should be: the chains, and the elements of this bridge. `now` says for how long
/// it learns; without it, that stays as it is. Behind a bridge that stays shut ([`set_shut`]) nothing is allowed.
///
/// # Errors
/// As [`ensure`].
pub fn keep(socket: &mut Socket, fenced: &Fenced, now: Option<&Moment>) -> Result<()> {
    calmly(socket, |socket| make(socket, fenced, now))
}

fn make(socket: &mut Socket, fenced: &Fenced, now: Option<&Moment>) -> Result<()> {
    let (ruleset, given) = (rules::ruleset(), fenced);
    for _ in 0..ATTEMPTS {
        ruleset.ensure(socket)?;
        if ruleset.verify(socket).is_err() {
            ruleset.reload(socket)?;
        }
        let mut transaction = Transaction::of_generation(nft::generation(socket)?);
        let fenced = &shut::effective(socket, given)?;
        let (mark, wanted) = (fenced.mark()?, fenced.ranges());
        if fenced.fence.strict && !strict::is_first(socket)? {
            strict::be_first(socket)?;
            continue;
        }
        renew(socket, &mut transaction, fenced, &wanted)?;
        transaction.ensure_element(
            TABLE,
            FENCED.name,
            &Element::of(fenced.key()),
            fenced.about("making"),
        );
        transaction.delete_element(TABLE, FENCED.name, &mark, fenced.about("making"));
        transaction.add_element(TABLE, FENCED.name, &mark, fenced.about("making"));
        behind::put_network(socket, &mut transaction, fenced)?;
        let is_first = fenced.fence.strict && !strict::is_ruled(&fenced.bridge)?;
        if is_first {
            let own = Element::of(fenced.key());
            transaction.ensure_element(TABLE, STRICT.name, &own, fenced.about("making"));
        }
        if let Some(now) = now {
            learn(&mut transaction, fenced, now);
        }
        if settled(transaction.commit(socket), is_raced)? {
            return if fenced.fence.strict { strict::keep(&fenced.bridge) } else { Ok(()) };
        }
    }
    Err(model::Error::try_again(given.about("others keep changing")))
}

/// Removes ranges that are wanted no more, and adds those that are missing. Those of several interfaces, and
/// ways from one to another as if they were one network, have no owner.
fn renew(
    socket: &mut Socket,
    transaction: &mut Transaction,
    fenced: &Fenced,
    wanted: &[(&'static str, Between)],
) -> Result<()> {
    for set in range_sets() {
        let there = concerning(socket, set.name, &fenced.bridge)?;
        let is_of = |(name, _): &&(&'static str, Between)| *name == set.name;
        let wanted: Vec<&Between> = wanted.iter().filter(is_of).map(|(_, range)| range).collect();
        for range in there.iter().filter(|range| !wanted.contains(range)) {
            transaction.delete_between(TABLE, set.name, range, fenced.about("renewing"));
        }
        for range in wanted.into_iter().filter(|range| !there.contains(range)) {
            transaction.add_between(TABLE, set.name, range, fenced.about("renewing"));
        }
    }
    for element in nft::elements(socket, TABLE, WITHIN.name)?.iter().filter(|it| is_across(it)) {
        transaction.delete_element(TABLE, WITHIN.name, element, fenced.about("renewing"));
    }
    Ok(())
}

/// The ranges of a bridge, and those of several.
fn concerning(socket: &mut Socket, set: &str, bridge: &IfName) -> Result<Vec<Between>> {
    let name = Tuple::new().interface(bridge);
    let mut there = nft::between(socket, TABLE, set)?;
    there.retain(|range| range.first.bytes().starts_with(name.bytes()) || !is_of_one(range));
    Ok(there)
}

/// Whether it is of one interface.
fn is_of_one(range: &Between) -> bool {
    range.first.bytes().get(..opened::NAME) == range.last.bytes().get(..opened::NAME)
}

/// Whether it says that what comes in by one interface and leaves by another one stays in the network.
fn is_across(element: &Element) -> bool {
    let bytes = element.key.bytes();
    bytes.get(..bytes.len() / 2) != bytes.get(bytes.len() / 2..)
}

fn of_bridge(socket: &mut Socket, set: &str, bridge: &IfName) -> Result<Vec<Between>> {
    let name = Tuple::new().interface(bridge);
    let mut there = nft::between(socket, TABLE, set)?;
    there.retain(|range| range.first.bytes().starts_with(name.bytes()));
    Ok(there)
}

fn learn(transaction: &mut Transaction, fenced: &Fenced, now: &Moment) {
    let (element, remaining) = ((LEARNING.name, fenced.key()), fenced.fence.remaining(now));
    learning::put_for(transaction, element, remaining, fenced.about("learning beside"));
}

/// Whether the table is as these fences make it.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn is_kept(socket: &mut Socket, all: &[Fenced], now: &Moment) -> Result<bool> {
    let marks = all.iter().map(Fenced::mark).collect::<Result<Vec<_>>>()?;
    let keys: Vec<(&str, &Element)> = marks.iter().map(|mark| (FENCED.name, mark)).collect();
    let found = nft::find(socket, TABLE, &keys)?;
    let is_there = |mark: &Element| found.iter().any(|(_, there)| there.comment == mark.comment);
    if !marks.iter().all(is_there)
        || !all.is_empty() && rules::ruleset().verify(socket).is_err()
        || !strict::is_kept(all)?
    {
        return Ok(false);
    }
    let learning = nft::expiring(socket, TABLE, LEARNING.name)?;
    let is_learning_so =
        |it: &Fenced| learning::is_so(&learning, &it.key(), it.fence.remaining(now));
    if !all.iter().all(is_learning_so)
        || nft::elements(socket, TABLE, WITHIN.name)?.iter().any(is_across)
        || !behind::is_of_networks(socket, all)?
    {
        return Ok(false);
    }
    for fenced in all {
        let wanted = fenced.ranges();
        for set in range_sets() {
            let mut there = concerning(socket, set.name, &fenced.bridge)?;
            let is_of = |(name, _): &&(&'static str, Between)| *name == set.name;
            let mut of: Vec<_> = wanted.iter().filter(is_of).map(|(_, it)| it.clone()).collect();
            there.sort();
            of.sort();
            if there != of {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The bridges that have fences, whatever their networks are now.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn fenced_bridges(socket: &mut Socket) -> Result<Vec<IfName>> {
    let there = nft::elements(socket, TABLE, FENCED.name)?;
    Ok(there.iter().filter_map(|element| opened::bridge(&element.key)).collect())
}

/// Removes everything of a bridge that is gone, and the table with the last fence. What is gone is no error.
///
/// # Errors
/// Where the process may not change it.
pub fn forget_bridge(socket: &mut Socket, bridge: &IfName) -> Result<()> {
    let own = calmly(socket, own_sources)?.into_iter().filter(|(it, _)| it == bridge);
    let sources: Vec<IpAddr> = own.map(|(_, source)| source).collect();
    strict::forget(bridge)?;
    forget_own(socket, bridge, &sources)?;
    unfence(socket, bridge)?;
    shut::forget(socket, bridge)
}

/// Removes the fence of a network that has none any more. The own rules of its containers stay, and with them
/// what these need: one of them may be strict, which [`relax`] ends. A bridge that is shut stays so. What is gone is no
/// error.
///
/// # Errors
/// As [`forget_bridge`].
pub fn unfence(socket: &mut Socket, bridge: &IfName) -> Result<()> {
    let own = calmly(socket, own_sources)?;
    let is_relaxed = !own.iter().any(|(it, _)| it == bridge) && strict::is_marked(socket, bridge)?;
    if is_relaxed {
        strict::forget(bridge)?;
    }
    calmly(socket, |socket| remove(socket, bridge))?;
    // A strict container may have come meanwhile, and have found the rules there.
    if is_relaxed && strict::is_marked(socket, bridge)? {
        strict::keep(bridge)?;
    }
    Ok(())
}

fn remove(socket: &mut Socket, bridge: &IfName) -> Result<()> {
    let key = Tuple::new().interface(bridge);
    let within = Element::of(key.clone().interface(bridge));
    for _ in 0..ATTEMPTS {
        let mut transaction = Transaction::of_generation(nft::generation(socket)?);
        let fenced = nft::elements(socket, TABLE, FENCED.name)?;
        let own = own_sources(socket)?;
        let has_own = own.iter().any(|(it, _)| it == bridge);
        let is_fenced = fenced.iter().any(|element| element.key == key);
        let is_within = !nft::find(socket, TABLE, &[(WITHIN.name, &within)])?.is_empty();
        let is_marked = strict::is_marked(socket, bridge)?;
        if !is_fenced && (has_own || !is_within && !is_marked) {
            return Ok(());
        }
        let is_last = own.is_empty() && fenced.iter().all(|element| element.key == key);
        if is_last && shut_bridges(socket)?.is_empty() {
            transaction.delete_table(TABLE);
        } else {
            // These are for its containers' own rules, too.
            if !has_own {
                behind::forget(socket, &mut transaction, bridge)?;
            }
            take_out(socket, &mut transaction, (bridge, has_own))?;
        }
        if settled(transaction.commit(socket), is_raced)? {
            return Ok(());
        }
    }
    Err(model::Error::try_again(format!("{TABLE} keeps being changed by others")))
}

/// Removes what only the network's own fence needs.
fn take_out(
    socket: &mut Socket,
    transaction: &mut Transaction,
    (bridge, has_own): (&IfName, bool),
) -> Result<()> {
    let about = || format!("removing the fence of bridge {bridge} ({TABLE})");
    let own = Element::of(Tuple::new().interface(bridge));
    let strict = (!has_own).then_some(STRICT.name);
    for set in [FENCED.name].into_iter().chain(strict) {
        transaction.ensure_element(TABLE, set, &own, about());
        transaction.delete_element(TABLE, set, &own, about());
    }
    learning::put_for(transaction, (LEARNING.name, own.key), Duration::ZERO, about());
    for set in range_sets() {
        for range in of_bridge(socket, set.name, bridge)? {
            transaction.delete_between(TABLE, set.name, &range, about());
        }
    }
    Ok(())
}
