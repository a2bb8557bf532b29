//! The rules of single containers, which hold instead of their network's.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use model::{Attachment, AttachmentId, DomainName, Fence, IfName, IpNet, Moment, Result};
use netlink::Socket;
use netlink::nft::{self, Between, Comment, Element, Transaction, Tuple};

use super::calm::calmly;
use super::learning;
use super::opened::{self, Opening};
use super::sets::{
    FENCED, OWN, OWN_ALLOWED, OWN_HOSTS, OWN_LEARNING, STRICT, TABLE, of, own_allowed,
};
use super::{ATTEMPTS, Reach, behind, near, rules, shut, strict};
use crate::filter::ruleset::{is_raced, settled};
use crate::filter::spoof::Sender;
use crate::identity::digest_of;

/// A container with rules of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// The attachment that has them.
    pub id: AttachmentId,
    /// The bridge of its network.
    pub bridge: IfName,
    /// What its port may send, where that is checked.
    pub(crate) sender: Option<Sender>,
    /// Its addresses there.
    pub sources: Vec<IpAddr>,
    /// The network's gateways, with the lengths of their subnets.
    pub gateways: Vec<IpNet>,
    /// What is allowed.
    pub fence: Fence,
    /// The subnets of a network that others reach by routes: what stays in it leaves by another interface.
    pub near: Vec<IpNet>,
    /// Who reaches the network at its containers' addresses.
    pub reach: Reach,
}

impl Own {
    /// The rules of an attachment; `None` where it has none of its own.
    ///
    /// # Errors
    /// [`Attachment::refuse_own_fence`].
    pub fn of(attachment: &Attachment) -> Result<Option<Self>> {
        attachment.refuse_own_fence()?;
        let bridge = attachment.wiring.bridge();
        let Some((fence, bridge)) = attachment.wiring.own_fence.as_ref().zip(bridge) else {
            return Ok(None);
        };
        let sources: Vec<IpAddr> =
            attachment.addresses.iter().map(|held| held.address.addr()).collect();
        if sources.is_empty() {
            let what = format!("{}: egress of one container needs its addresses", attachment.id);
            return Err(model::Error::unsupported(what));
        }
        Ok(Some(Self {
            id: attachment.id.clone(),
            bridge: bridge.name.clone(),
            sender: crate::filter::spoof::sender(attachment)?,
            sources,
            gateways: attachment.wiring.name_servers(&attachment.ipam),
            fence: fence.clone(),
            near: near::subnets(attachment),
            reach: Reach::of(&attachment.wiring),
        }))
    }

    /// Whether the rules of one of these names allow what it opened.
    pub fn allows_by_name(&self, opening: &Opening, names: &[DomainName]) -> bool {
        self.fence.allows_by_name(names, opening.protocol, opening.port)
    }

    /// Whether it is the source of what a name opened.
    pub fn has_opened(&self, opening: &Opening) -> bool {
        opening.bridge == self.bridge && self.sources.contains(&opening.source)
    }

    pub(super) fn marks(&self) -> Result<Vec<(&'static str, Element)>> {
        let strict = if self.fence.strict { " strict" } else { "" };
        let digest = digest_of(&format!("{}{strict}", self.fence));
        let comment: Comment = format!("{} {digest}", self.id.network).parse()?;
        let mark = |(source, key): (IpAddr, Tuple)| {
            let element = Element { comment: Some(comment.clone()), ..Element::of(key) };
            (of(&OWN, source), element)
        };
        Ok(self.keys().map(mark).collect())
    }

    /// Its addresses, as the sets have them that are keyed by these.
    fn keys(&self) -> impl Iterator<Item = (IpAddr, Tuple)> {
        let key =
            |source: &IpAddr| (*source, Tuple::new().interface(&self.bridge).address(*source));
        self.sources.iter().map(key)
    }

    fn ranges(&self) -> Vec<(&'static str, Between)> {
        let rules: Vec<_> =
            self.fence.rules.iter().cloned().chain(near::rules(&self.near)).collect();
        let of = |source: &IpAddr| {
            let mut all = own_allowed(&self.bridge, *source, &rules);
            all.extend(near::others((&self.bridge, *source), &self.near));
            all
        };
        self.sources.iter().flat_map(of).collect()
    }

    /// The same container while its neighbours may send in its name: nothing is allowed.
    #[must_use]
    pub fn shut(&self) -> Self {
        let fence = Fence { strict: self.fence.strict, ..Fence::default() };
        Self { fence, near: Vec::new(), ..self.clone() }
    }

    pub(super) fn about(&self, doing: &str) -> String {
        format!("{doing} the egress rules of {} ({TABLE})", self.id)
    }
}

/// Makes the rules of a container what they should be. `now` says for how long it learns; without it, that stays
/// as it is. Behind a bridge that stays shut ([`set_shut`](super::set_shut)) nothing is allowed.
///
/// # Errors
/// Where the kernel lacks something, or the process may not change it. Nothing may be attached then.
pub fn keep_own(socket: &mut Socket, own: &Own, now: Option<&Moment>) -> Result<()> {
    keep_own_checked(socket, own, now, |_| Ok(true))
}

/// The same at a ruleset that checks what its neighbours send (`is_checked`, which is asked again where it has changed
/// something): one of them could use these rules by the container's address.
///
/// # Errors
/// As [`keep_own`], and where `is_checked` fails.
pub fn keep_own_checked(
    socket: &mut Socket,
    own: &Own,
    now: Option<&Moment>,
    is_checked: impl Fn(&mut Socket) -> Result<bool>,
) -> Result<()> {
    calmly(socket, |socket| make(socket, own, now, &is_checked))
}

fn make(
    socket: &mut Socket,
    own: &Own,
    now: Option<&Moment>,
    is_checked: &impl Fn(&mut Socket) -> Result<bool>,
) -> Result<()> {
    let given = own;
    for _ in 0..ATTEMPTS {
        have_chains(socket)?;
        let is_ruled = strict::is_ruled(&given.bridge)?;
        let mut transaction = Transaction::of_generation(nft::generation(socket)?);
        let own = &shut::effective_own(socket, given)?;
        let (marks, wanted) = (own.marks()?, own.ranges());
        if !is_checked(socket)? {
            continue;
        }
        if (own.fence.strict || is_ruled) && !strict::is_first(socket)? {
            strict::be_first(socket)?;
            continue;
        }
        behind::put(socket, &mut transaction, (&[own], "making"))?;
        for set in range_sets() {
            let there = of_sources(socket, set, &own.bridge, &own.sources)?;
            let wanted = || wanted.iter().filter(|(name, _)| *name == set).map(|(_, it)| it);
            for range in there.iter().filter(|range| !wanted().any(|it| it == *range)) {
                transaction.delete_between(TABLE, set, range, own.about("renewing"));
            }
            for range in wanted().filter(|range| !there.contains(range)) {
                transaction.add_between(TABLE, set, range, own.about("renewing"));
            }
        }
        put_marks(&mut transaction, own, &marks);
        // Without its check the container is being attached, and attached when that is there; or the check was lost, and
        // the daemon lets the others' packets be marked when it is back.
        let is_strict = own.fence.strict && (is_ruled || strict::has_bound_port(socket, own)?);
        if is_strict && !is_ruled {
            let bridge = strict::element(&own.bridge);
            transaction.ensure_element(TABLE, STRICT.name, &bridge, own.about("making"));
        }
        if let Some(now) = now {
            learn(&mut transaction, own, now);
        }
        if settled(transaction.commit(socket), is_raced)? {
            return if is_strict { strict::keep(&own.bridge) } else { Ok(()) };
        }
    }
    Err(model::Error::try_again(given.about("others keep changing")))
}

/// The chains, and their rules.
pub(super) fn have_chains(socket: &mut Socket) -> Result<()> {
    let ruleset = rules::ruleset();
    ruleset.ensure(socket)?;
    if ruleset.verify(socket).is_err() { ruleset.reload(socket) } else { Ok(()) }
}

pub(super) fn put_marks(
    transaction: &mut Transaction,
    own: &Own,
    marks: &[(&'static str, Element)],
) {
    for (set, mark) in marks {
        let bare = Element::of(mark.key.clone());
        transaction.ensure_element(TABLE, set, &bare, own.about("making"));
        transaction.delete_element(TABLE, set, mark, own.about("making"));
        transaction.add_element(TABLE, set, mark, own.about("making"));
    }
}

fn learn(transaction: &mut Transaction, own: &Own, now: &Moment) {
    learn_for(transaction, own, own.fence.remaining(now));
}

pub(super) fn learn_for(transaction: &mut Transaction, own: &Own, remaining: Duration) {
    for (source, key) in own.keys() {
        let about = own.about("learning beside");
        learning::put_for(transaction, (of(&OWN_LEARNING, source), key), remaining, about);
    }
}

/// Behind which bridges containers that are not known may have rules of their own: a record cannot be read.
pub type MayHaveOthers<'a> = &'a dyn Fn(&IfName) -> bool;

/// Whether the containers with rules of their own are these, and have these rules. Of `moving` ones, which
/// come or go just now, it does not matter what is there.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn is_own_kept(
    socket: &mut Socket,
    all: &[Own],
    (moving, may_have_others): (&[Own], MayHaveOthers<'_>),
    now: &Moment,
) -> Result<bool> {
    if !all.is_empty()
        && (rules::ruleset().verify(socket).is_err()
            || !behind::is_kept(socket, all, (moving, may_have_others))?)
    {
        return Ok(false);
    }
    let marks = all.iter().map(Own::marks).collect::<Result<Vec<_>>>()?.concat();
    let has = |all: &[Own], (bridge, source): &(IfName, IpAddr)| {
        all.iter().any(|own| own.bridge == *bridge && own.sources.contains(source))
    };
    let is_compared = |key: Option<(IfName, IpAddr)>| match key {
        Some(held) if may_have_others(&held.0) => has(all, &held),
        Some(held) => !has(moving, &held),
        None => true,
    };
    let mut there = Vec::new();
    for set in OWN {
        let mut elements = nft::elements(socket, TABLE, set.name)?;
        elements.retain(|it| is_compared(opened::bridge_and_address(&it.key)));
        there.extend(elements.into_iter().map(|it| (set.name, it)));
    }
    let same = |(set, mark): &(&str, Element)| {
        there
            .iter()
            .any(|(name, it)| name == set && it.key == mark.key && it.comment == mark.comment)
    };
    if there.len() != marks.len() || !marks.iter().all(same) {
        return Ok(false);
    }
    for set in OWN_LEARNING {
        let learning = nft::expiring(socket, TABLE, set.name)?;
        let is_learning_so = |own: &Own| {
            let remaining = own.fence.remaining(now);
            own.keys().all(|(_, key)| learning::is_so(&learning, &key, remaining))
        };
        if !all.iter().all(is_learning_so) {
            return Ok(false);
        }
    }
    let wanted: Vec<_> = all.iter().flat_map(Own::ranges).collect();
    for set in range_sets() {
        let mut there = nft::between(socket, TABLE, set)?;
        there.retain(|range| is_compared(source_of(range)));
        let mut of: Vec<_> =
            wanted.iter().filter(|(name, _)| *name == set).map(|(_, it)| it.clone()).collect();
        there.sort();
        of.sort();
        if there != of {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The containers behind bridges that have rules of their own now.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn own_sources(socket: &mut Socket) -> Result<HashSet<(IfName, IpAddr)>> {
    let mut all = HashSet::new();
    for set in OWN {
        for element in nft::elements(socket, TABLE, set.name)? {
            all.extend(opened::bridge_and_address(&element.key));
        }
    }
    Ok(all)
}

/// Removes the rules of containers that are gone or have none any more, and the table with the last. What is
/// gone is no error.
///
/// # Errors
/// Where the process may not change it.
pub fn forget_own(socket: &mut Socket, bridge: &IfName, sources: &[IpAddr]) -> Result<()> {
    let is_gone = |(name, source): &(IfName, IpAddr)| name == bridge && sources.contains(source);
    calmly(socket, |socket| {
        for _ in 0..ATTEMPTS {
            let generation = nft::generation(socket)?;
            if remove(socket, generation, &is_gone)? {
                return Ok(());
            }
        }
        Err(model::Error::try_again(format!("{TABLE} keeps being changed by others")))
    })
}

/// Removes those of all containers that are not among these, but behind the bridges that may have others. `false` where
/// the ruleset is no longer what it was at this generation.
///
/// # Errors
/// As [`forget_own`].
pub fn forget_other_own(
    socket: &mut Socket,
    generation: u32,
    (all, may_have_others): (&[Own], MayHaveOthers<'_>),
) -> Result<bool> {
    remove(socket, generation, &|(bridge, source)| {
        let is_known = |own: &Own| own.bridge == *bridge && own.sources.contains(source);
        !may_have_others(bridge) && !all.iter().any(is_known)
    })
}

fn remove(
    socket: &mut Socket,
    generation: u32,
    is_gone: &dyn Fn(&(IfName, IpAddr)) -> bool,
) -> Result<bool> {
    let there = own_sources(socket)?;
    let gone: Vec<_> = there.iter().filter(|it| is_gone(it)).collect();
    if gone.is_empty() {
        return Ok(true);
    }
    let mut transaction = Transaction::of_generation(generation);
    let mut relaxed: BTreeSet<&IfName> = BTreeSet::new();
    let is_last =
        gone.len() == there.len() && nft::elements(socket, TABLE, FENCED.name)?.is_empty();
    // What stays shut is no container's.
    if is_last && shut::shut_bridges(socket)?.is_empty() {
        // Where it is not marked the table does not have all that it had, and the daemon says what holds.
        let bridges: BTreeSet<&IfName> = gone.iter().map(|(bridge, _)| bridge).collect();
        for bridge in bridges {
            if strict::is_marked(socket, bridge)? {
                strict::forget(bridge)?;
                relaxed.insert(bridge);
            }
        }
        transaction.delete_table(TABLE);
    } else {
        let key = |(bridge, source): &&(IfName, IpAddr)| {
            let element = Element::of(Tuple::new().interface(bridge).address(*source));
            (of(&OWN_LEARNING, *source), element)
        };
        let keys: Vec<(&str, Element)> = gone.iter().map(key).collect();
        let asked: Vec<_> = keys.iter().map(|(set, element)| (*set, element)).collect();
        let learning = nft::find(socket, TABLE, &asked)?;
        for (bridge, source) in gone {
            let about =
                || format!("removing the egress rules of {source} behind {bridge} ({TABLE})");
            let key = Tuple::new().interface(bridge).address(*source);
            if learning.iter().any(|(_, there)| there.key == key) {
                let element = (of(&OWN_LEARNING, *source), key.clone());
                learning::put_for(&mut transaction, element, Duration::ZERO, about());
            }
            transaction.delete_element(TABLE, of(&OWN, *source), &Element::of(key), about());
            for set in range_sets() {
                for range in of_sources(socket, set, bridge, &[*source])? {
                    transaction.delete_between(TABLE, set, &range, about());
                }
            }
        }
        behind::take_out(socket, &mut transaction, &there, is_gone)?;
    }
    let is_done = settled(transaction.commit(socket), is_raced)?;
    if !is_done {
        // The table stays, with containers that may be strict.
        relaxed.into_iter().try_for_each(strict::keep)?;
    }
    Ok(is_done)
}

/// Closes what names opened that the container's rules allow no more, and ends flows that nothing allows.
///
/// # Errors
/// As [`super::prune`].
pub fn prune_own(socket: &mut Socket, own: &Own) -> Result<()> {
    opened::close(socket, &own.bridge, &|opening, names| {
        own.has_opened(opening) && !own.allows_by_name(opening, names)
    })?;
    let remaining: HashSet<Opening> = opened::opened_calmly(socket)?.into_keys().collect();
    end_own_flows(socket, own, &|opening| remaining.contains(opening))
}

/// Ends the flows of the container to elsewhere that neither its rules nor `is_opened` allow.
///
/// # Errors
/// As [`super::prune`].
pub fn end_own_flows(
    socket: &mut Socket,
    own: &Own,
    is_opened: &dyn Fn(&Opening) -> bool,
) -> Result<()> {
    let ends = opened::Ends { bridge: &own.bridge, gateways: &own.gateways, fence: &own.fence };
    opened::end(socket, &ends, &|source| own.sources.contains(&source), is_opened)
}

pub(super) fn range_sets() -> impl Iterator<Item = &'static str> {
    [OWN_ALLOWED, OWN_HOSTS].into_iter().flatten().map(|set| set.name)
}

/// The ranges of these containers.
fn of_sources(
    socket: &mut Socket,
    set: &str,
    bridge: &IfName,
    sources: &[IpAddr],
) -> Result<Vec<Between>> {
    let mut there = nft::between(socket, TABLE, set)?;
    there.retain(|range| {
        source_of(range).is_some_and(|(name, source)| name == *bridge && sources.contains(&source))
    });
    Ok(there)
}

/// The container that a range is of: its first key is that of the interface, the container's address, another
/// address, the protocol and the port.
pub(super) fn source_of(range: &Between) -> Option<(IfName, IpAddr)> {
    let bytes = range.first.bytes();
    let width = bytes.len().checked_sub(opened::NAME + 8)? / 2;
    opened::of_bytes(bytes.get(..opened::NAME + width)?)
}
