//! What the table says of a bridge: which addresses are behind it, and who reaches these. Its network needs some of it, and
//! so does each container with rules of its own. Their records may say different things of one bridge: what each of them
//! needs is there.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

use model::{IfName, IpNet, Result};
use netlink::Socket;
use netlink::nft::{self, Between, Element, Transaction, Tuple};

use super::own::{MayHaveOthers, Own, own_sources};
use super::reach::{Reach, Reached};
use super::sets::{SOURCES, TABLE, WITHIN, sources};
use super::{ATTEMPTS, Fenced, calmly, is_of_one, rules};
use crate::filter::ruleset::{is_raced, settled};

/// What begins the name of every version's stamp.
const STAMPS: &str = "fence_";

/// What is needed of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The subnets of those behind it.
    subnets: Vec<IpNet>,
    /// Who reaches them.
    reach: Reach,
}

impl Needs {
    /// Of those of these containers that are behind a bridge.
    pub(super) fn of<'a>(bridge: &IfName, all: impl IntoIterator<Item = &'a Own>) -> Self {
        let mut needs = Self::default();
        for own in all.into_iter().filter(|own| own.bridge == *bridge) {
            needs.add(&own.gateways, &own.reach);
        }
        needs
    }

    /// Of a network alone.
    fn of_network(fenced: &Fenced) -> Self {
        let mut needs = Self::default();
        needs.add(&fenced.gateways, &fenced.reach);
        needs
    }

    /// Of a network, and of what is known of its containers with rules of their own.
    fn of_all(fenced: &Fenced) -> Self {
        let mut needs = Self::of_network(fenced);
        if let Some(beside) = &fenced.beside {
            needs.add(&beside.subnets, &beside.reach);
        }
        needs
    }

    fn add(&mut self, subnets: &[IpNet], reach: &Reach) {
        for net in subnets.iter().map(IpNet::trunc) {
            if !self.subnets.contains(&net) {
                self.subnets.push(net);
            }
        }
        self.reach.unite(reach);
    }

    fn ranges(&self, bridge: &IfName) -> Vec<(&'static str, Between)> {
        sources(bridge, &self.subnets)
    }

    /// Of each subnet by itself: neighbouring ones are in one range, or in one each.
    fn each_range(&self, bridge: &IfName) -> impl Iterator<Item = (&'static str, Between)> {
        self.subnets.iter().flat_map(|net| sources(bridge, std::slice::from_ref(net)))
    }
}

impl Own {
    /// Whether it needs the same of its bridge as another one.
    pub fn needs_as(&self, other: &Self) -> bool {
        (&self.bridge, &self.gateways, &self.reach)
            == (&other.bridge, &other.gateways, &other.reach)
    }
}

/// What the table has, of all bridges.
struct Entries {
    sources: Vec<(&'static str, Between)>,
    reached: Reached,
}

impl Entries {
    fn read(socket: &mut Socket) -> Result<Self> {
        let mut all = Vec::new();
        for set in SOURCES.map(|set| set.name) {
            all.extend(nft::between(socket, TABLE, set)?.into_iter().map(|range| (set, range)));
        }
        Ok(Self { sources: all, reached: Reached::read(socket)? })
    }

    fn of(&self, bridge: &IfName) -> impl Iterator<Item = &(&'static str, Between)> {
        let name = Tuple::new().interface(bridge);
        self.sources.iter().filter(move |(_, range)| range.first.bytes().starts_with(name.bytes()))
    }

    /// Ranges of several interfaces: they have no owner.
    fn across(&self) -> impl Iterator<Item = &(&'static str, Between)> {
        self.sources.iter().filter(|(_, range)| !is_of_one(range))
    }

    /// Whether all that is needed of a bridge is there, maybe in what others need.
    fn has(&self, bridge: &IfName, needs: &Needs) -> bool {
        let is_there = |range| self.of(bridge).any(|it| is_in(&range, it));
        needs.each_range(bridge).all(is_there) && self.reached.has(bridge, &needs.reach)
    }

    /// Whether nothing else is.
    fn has_only(&self, bridge: &IfName, needs: &Needs) -> bool {
        let wanted = needs.ranges(bridge);
        let mut there = self.of(bridge);
        there.all(|range| wanted.iter().any(|it| is_in(range, it)))
            && self.reached.has_only(bridge, &needs.reach)
    }

    /// Adds what is needed of a bridge. The kernel takes no ranges that overlap: of two in each other the wider one is
    /// there.
    fn add(
        &self,
        transaction: &mut Transaction,
        (bridge, needs): (&IfName, &Needs),
        about: &dyn Fn() -> String,
    ) {
        let mut missing = needs.ranges(bridge);
        missing.retain(|range| !self.of(bridge).any(|it| is_in(range, it)));
        let is_in_the_way = |there: &&(&str, Between)| {
            missing.iter().any(|it| overlap(it, there)) && is_of_one(&there.1)
        };
        for (set, range) in self.of(bridge).filter(is_in_the_way) {
            transaction.delete_between(TABLE, set, range, about());
        }
        for (set, range) in &missing {
            transaction.add_between(TABLE, set, range, about());
        }
        self.reached.add(transaction, (bridge, &needs.reach), about);
    }

    /// Has the table say what is needed of a bridge, and nothing else.
    fn set(
        &self,
        transaction: &mut Transaction,
        (bridge, needs): (&IfName, &Needs),
        about: &dyn Fn() -> String,
    ) {
        let wanted = needs.ranges(bridge);
        for (set, range) in self.of(bridge).filter(|(_, range)| is_of_one(range)) {
            if !wanted.contains(&(*set, range.clone())) {
                transaction.delete_between(TABLE, set, range, about());
            }
        }
        for one in wanted.iter().filter(|one| !self.of(bridge).any(|it| it == *one)) {
            transaction.add_between(TABLE, one.0, &one.1, about());
        }
        self.reached.add(transaction, (bridge, &needs.reach), about);
        self.reached.remove_others(transaction, (bridge, &needs.reach), about);
    }

    /// Takes out all that the table says of a bridge.
    fn forget(&self, transaction: &mut Transaction, bridge: &IfName) {
        let about = || format!("removing what is known of bridge {bridge} ({TABLE})");
        transaction.ensure_element(TABLE, WITHIN.name, &within(bridge), about());
        transaction.delete_element(TABLE, WITHIN.name, &within(bridge), about());
        self.set(transaction, (bridge, &Needs::default()), &about);
    }

    fn remove_across(&self, transaction: &mut Transaction, about: &dyn Fn() -> String) {
        for (set, range) in self.across() {
            transaction.delete_between(TABLE, set, range, about());
        }
    }
}

/// Whether a range of a bridge is in another one.
fn is_in((set, inner): &(&str, Between), (name, outer): &(&str, Between)) -> bool {
    set == name && is_of_one(outer) && outer.first <= inner.first && inner.last <= outer.last
}

fn overlap((set, one): &(&str, Between), (name, other): &(&str, Between)) -> bool {
    set == name && one.first <= other.last && other.first <= one.last
}

fn within(bridge: &IfName) -> Element {
    Element::of(Tuple::new().interface(bridge).interface(bridge))
}

/// Adds what the rules of these need of their bridges, and removes nothing that others may need.
pub(super) fn put(
    socket: &mut Socket,
    transaction: &mut Transaction,
    (all, doing): (&[&Own], &str),
) -> Result<()> {
    let Some(first) = all.first() else { return Ok(()) };
    let entries = Entries::read(socket)?;
    entries.remove_across(transaction, &|| first.about(doing));
    let mut bridges: BTreeMap<&IfName, (Needs, &Own)> = BTreeMap::new();
    for own in all {
        let (needs, _) = bridges.entry(&own.bridge).or_insert_with(|| (Needs::default(), own));
        needs.add(&own.gateways, &own.reach);
    }
    for (bridge, (needs, own)) in bridges {
        transaction.ensure_element(TABLE, WITHIN.name, &within(bridge), own.about(doing));
        entries.add(transaction, (bridge, &needs), &|| own.about(doing));
    }
    Ok(())
}

/// Has the table say what is needed of a network's bridge. What its containers with rules of their own need stays where it
/// is not known.
pub(super) fn put_network(
    socket: &mut Socket,
    transaction: &mut Transaction,
    fenced: &Fenced,
) -> Result<()> {
    let entries = Entries::read(socket)?;
    let (bridge, about) = (&fenced.bridge, || fenced.about("making"));
    entries.remove_across(transaction, &about);
    transaction.ensure_element(TABLE, WITHIN.name, &within(bridge), about());
    let has_unknown = fenced.beside.is_none() && has_own(socket, bridge)?;
    let needs = Needs::of_all(fenced);
    match has_unknown {
        true => entries.add(transaction, (bridge, &needs), &about),
        false => entries.set(transaction, (bridge, &needs), &about),
    }
    Ok(())
}

fn has_own(socket: &mut Socket, bridge: &IfName) -> Result<bool> {
    Ok(own_sources(socket)?.iter().any(|(it, _)| it == bridge))
}

/// Whether all that these need is there, maybe in what others need; and behind bridges without a fence nothing that
/// none of them needs, nor any of those that come or go, where no others may have rules.
pub(super) fn is_kept(
    socket: &mut Socket,
    all: &[Own],
    (moving, may_have_others): (&[Own], MayHaveOthers<'_>),
) -> Result<bool> {
    let entries = Entries::read(socket)?;
    let fenced = super::fenced_bridges(socket)?;
    let bridges: BTreeSet<&IfName> = all.iter().map(|own| &own.bridge).collect();
    Ok(bridges.into_iter().all(|bridge| {
        let is_alone = !fenced.contains(bridge) && !may_have_others(bridge);
        entries.has(bridge, &Needs::of(bridge, all))
            && (!is_alone || entries.has_only(bridge, &Needs::of(bridge, all.iter().chain(moving))))
    }))
}

/// Whether what is there of the networks' bridges is what they need, and nothing that none of their containers needs, where
/// these are known.
pub(super) fn is_of_networks(socket: &mut Socket, all: &[Fenced]) -> Result<bool> {
    let entries = Entries::read(socket)?;
    let own = own_sources(socket)?;
    let is_so = |fenced: &Fenced| {
        let is_unknown =
            fenced.beside.is_none() && own.iter().any(|(bridge, _)| *bridge == fenced.bridge);
        entries.has(&fenced.bridge, &Needs::of_network(fenced))
            && (is_unknown || entries.has_only(&fenced.bridge, &Needs::of_all(fenced)))
    };
    Ok(entries.across().next().is_none() && all.iter().all(is_so))
}

/// Has the table say of the bridges behind which containers have rules of their own, and of these networks', what they need
/// and nothing else, but where others may have rules. `false` where the ruleset is no longer what it was at this
/// generation.
///
/// # Errors
/// Where the kernel cannot be asked, or the process may not change it.
pub fn settle_behind(
    socket: &mut Socket,
    generation: u32,
    (networks, own, may_have_others): (&[Fenced], &[Own], MayHaveOthers<'_>),
) -> Result<bool> {
    let entries = Entries::read(socket)?;
    let fenced = super::fenced_bridges(socket)?;
    let there = own_sources(socket)?;
    let mut transaction = Transaction::of_generation(generation);
    let bridges: BTreeSet<&IfName> =
        there.iter().map(|(bridge, _)| bridge).chain(&fenced).collect();
    for bridge in bridges.into_iter().filter(|bridge| !may_have_others(bridge)) {
        let network = networks.iter().find(|it| it.bridge == *bridge);
        // Of a fence that is just coming, or going, the network is not known.
        if fenced.contains(bridge) && network.is_none() {
            continue;
        }
        let mut needs = Needs::of(bridge, own);
        if let Some(network) = network.filter(|_| fenced.contains(bridge)) {
            needs.add(&network.gateways, &network.reach);
        }
        if !entries.has_only(bridge, &needs) {
            let about = || format!("settling what is known of bridge {bridge} ({TABLE})");
            entries.set(&mut transaction, (bridge, &needs), &about);
        }
    }
    if transaction.is_empty() { Ok(true) } else { settled(transaction.commit(socket), is_raced) }
}

/// Takes out what only containers with rules of their own needed of bridges, where the last of these goes. `there`: all
/// that have some.
pub(super) fn take_out(
    socket: &mut Socket,
    transaction: &mut Transaction,
    there: &HashSet<(IfName, IpAddr)>,
    is_gone: &dyn Fn(&(IfName, IpAddr)) -> bool,
) -> Result<()> {
    let of = |is_it: &dyn Fn(&(IfName, IpAddr)) -> bool| -> BTreeSet<&IfName> {
        there.iter().filter(|it| is_it(it)).map(|(bridge, _)| bridge).collect()
    };
    let (left, gone) = (of(&|it| !is_gone(it)), of(is_gone));
    let last: Vec<&IfName> = gone.difference(&left).copied().collect();
    if last.is_empty() {
        return Ok(());
    }
    let (fenced, entries) = (super::fenced_bridges(socket)?, Entries::read(socket)?);
    for bridge in last.into_iter().filter(|bridge| !fenced.contains(bridge)) {
        entries.forget(transaction, bridge);
    }
    Ok(())
}

/// Takes out all that the table says of a bridge, but not that it stays shut: that is for a record that cannot be read.
pub(super) fn forget(
    socket: &mut Socket,
    transaction: &mut Transaction,
    bridge: &IfName,
) -> Result<()> {
    Entries::read(socket)?.forget(transaction, bridge);
    Ok(())
}

/// Adds what an older version did not have, where its rules are: its chains are replaced, and what is known of the
/// bridges is completed. What is missing then, another program has taken. Another process of this version may have
/// replaced the chains already.
///
/// # Errors
/// Where the kernel cannot be asked, or the process may not change it.
pub fn complete_older(socket: &mut Socket, networks: &[Fenced], own: &[Own]) -> Result<()> {
    calmly(socket, |socket| {
        for _ in 0..ATTEMPTS {
            let chains = nft::chains(socket, TABLE.family)?;
            let mut ours = chains.iter().filter(|chain| chain.table == TABLE.name);
            if !ours.any(|chain| chain.name.starts_with(STAMPS)) {
                return Ok(());
            }
            // No effect where they are this version's.
            rules::ruleset().ensure(socket)?;
            let mut transaction = Transaction::of_generation(nft::generation(socket)?);
            let there = own_sources(socket)?;
            let is_there = |own: &&Own| {
                let has = |source: &IpAddr| there.contains(&(own.bridge.clone(), *source));
                own.sources.iter().all(has)
            };
            let own: Vec<&Own> = own.iter().filter(is_there).collect();
            put(socket, &mut transaction, (&own, "completing"))?;
            let bridges = super::fenced_bridges(socket)?;
            let entries = Entries::read(socket)?;
            for fenced in networks.iter().filter(|it| bridges.contains(&it.bridge)) {
                let reach = (&fenced.bridge, &fenced.reach);
                entries.reached.add(&mut transaction, reach, &|| fenced.about("completing"));
            }
            if transaction.is_empty() || settled(transaction.commit(socket), is_raced)? {
                return Ok(());
            }
        }
        Err(model::Error::try_again(format!("{TABLE} keeps being changed by others")))
    })
}
