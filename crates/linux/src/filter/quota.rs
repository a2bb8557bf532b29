//! Quotas: how many bytes a container's interface may carry, counted and enforced by the kernel. An interface is
//! one element, which leads to one quota, and the rules are always the same.
//!
//! `quota.nft` is the readable form.

use std::collections::BTreeSet;

use model::{Error, IfName, Result};
use netlink::nft::{
    self, Base, ChainKind, Comment, Element, Expression, Family, Field, Hook, Meta, ObjectKind,
    Policy, QuotaState, Set, Table, Transaction, Tuple,
};
use netlink::{Errno, Socket};

use super::owner::Owner;
use super::rules::{DROP, R, Steps};
use super::ruleset::{Ruleset, set, settled, unload_while};

/// The tables: where bridges forward frames, and where the host routes packets.
pub(crate) const TABLES: [Table<'static>; 2] = [table(Side::Bridged), table(Side::Routed)];
/// The version, as in `inet spoke`.
const STAMP: &str = "quota_1";
const ENDS: Set<'static> =
    Set { objects: Some(ObjectKind::Quota), ..set("ends", &[Field::Interface]) };
const ATTEMPTS: usize = 16;

/// How what a container sends comes into the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// By a port of a bridge.
    Bridged,
    /// By an interface that the host routes itself.
    Routed,
}

/// A container's interface, and where its packets are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) owner: Owner,
    /// The host's end of its pair.
    pub(crate) end: IfName,
    pub(crate) side: Side,
}

const fn table(side: Side) -> Table<'static> {
    let family = match side {
        Side::Bridged => Family::Bridge,
        Side::Routed => Family::Inet,
    };
    Table { family, name: "spoke_quota" }
}

impl Interface {
    const fn table(&self) -> Table<'static> {
        table(self.side)
    }

    /// The quota's name: nft(8) reads names that begin with a letter.
    fn quota(&self) -> String {
        quota_of(&self.owner)
    }

    fn element(&self) -> Element {
        Element {
            counter: Some(self.quota()),
            comment: Some(self.owner.0.clone()),
            ..Element::of(Tuple::new().interface(&self.end))
        }
    }

    fn about(&self, doing: &str) -> String {
        format!("{doing} the quota of {} ({})", self.end, self.table())
    }

    /// Its element, or another one of its interface.
    fn found(&self, socket: &mut Socket) -> Result<Option<Element>> {
        let element = self.element();
        let found = nft::find(socket, self.table(), &[(ENDS.name, &element)])?;
        Ok(found.into_iter().next().map(|(_, element)| element))
    }
}

fn quota_of(owner: &Owner) -> String {
    format!("of-{}", owner.as_str().split('/').next().unwrap_or_default())
}

/// What is counted; none where the interface is led to no quota of its own.
pub(crate) fn read(socket: &mut Socket, interface: &Interface) -> Result<Option<QuotaState>> {
    match interface.found(socket)? {
        Some(there) if there == interface.element() => {
            nft::quota(socket, interface.table(), &interface.quota())
        }
        Some(_) | None => Ok(None),
    }
}

/// Counts the interface with this quota, of which so much is used, whatever was counted before.
pub(crate) fn put(socket: &mut Socket, interface: &Interface, state: QuotaState) -> Result<()> {
    let (table, quota) = (interface.table(), interface.quota());
    for _ in 0..ATTEMPTS {
        ruleset(interface.side).ensure(socket)?;
        let mut transaction = Transaction::new();
        if let Some(there) = interface.found(socket)? {
            transaction.delete_element(table, ENDS.name, &there, interface.about("replacing"));
        }
        if nft::quota(socket, table, &quota)?.is_some() {
            transaction.delete_quota(table, &quota);
        }
        transaction.add_quota(table, &quota, state);
        transaction.add_element(table, ENDS.name, &interface.element(), interface.about("adding"));
        // BUSY: another process has led to the quota meanwhile.
        if settled(transaction.commit(socket), |failure| {
            matches!(failure.errno, Errno::EXIST | Errno::NOENT | Errno::BUSY)
        })? {
            return Ok(());
        }
    }
    Err(Error::try_again(interface.about("others keep changing")))
}

/// Takes the interface's quota out, and its table with the last one. Whether there was any.
pub(crate) fn remove(socket: &mut Socket, interface: &Interface) -> Result<bool> {
    remove_from(socket, interface.table(), &interface.owner)
}

/// Takes what bears the mark out, and a table with its last quota. Whether there was any.
pub(crate) fn remove_owned(socket: &mut Socket, owner: &Owner) -> Result<bool> {
    let mut any = false;
    for table in TABLES {
        any |= remove_from(socket, table, owner)?;
    }
    Ok(any)
}

fn remove_from(socket: &mut Socket, table: Table<'static>, owner: &Owner) -> Result<bool> {
    let quota = quota_of(owner);
    for _ in 0..ATTEMPTS {
        // The kernel keeps a quota as long as an element leads to it: one question where there is none.
        if nft::quota(socket, table, &quota)?.is_none() {
            return Ok(false);
        }
        let elements = nft::elements(socket, table, ENDS.name)?;
        let of_owner = |element: &&Element| element.comment.as_ref() == Some(&owner.0);
        let about = || format!("removing a quota of {owner} ({table})");
        let mut transaction = Transaction::new();
        for element in elements.iter().filter(of_owner) {
            transaction.delete_element(table, ENDS.name, element, about());
        }
        transaction.delete_quota(table, &quota);
        if settled(transaction.commit(socket), |failure| {
            matches!(failure.errno, Errno::NOENT | Errno::BUSY)
        })? {
            return unload_unused(socket, table).map(|()| true);
        }
    }
    Err(Error::try_again(format!("the quotas of {owner} in {table} keep changing")))
}

fn unload_unused(socket: &mut Socket, table: Table<'static>) -> Result<()> {
    unload_while(socket, table, |socket| Ok(nft::quotas(socket, table)?.is_empty()))
}

/// The owners of all elements.
pub(crate) fn owners(socket: &mut Socket) -> Result<BTreeSet<String>> {
    let mut owners = BTreeSet::new();
    for table in TABLES {
        let elements = nft::elements(socket, table, ENDS.name)?;
        let comments = elements.into_iter().filter_map(|element| element.comment);
        owners.extend(comments.map(|comment: Comment| comment.as_str().to_owned()));
    }
    Ok(owners)
}

/// Makes the chains what they should be, where there are the tables. Whether they were not.
pub(crate) fn mend(socket: &mut Socket) -> Result<bool> {
    // One that cannot be mended does not keep the other from it.
    let bridged = ruleset(Side::Bridged).mend(socket);
    let routed = ruleset(Side::Routed).mend(socket);
    Ok(bridged? | routed?)
}

fn ruleset(side: Side) -> Ruleset {
    let base = |hook, priority| {
        Some(Base { kind: ChainKind::Filter, hook, priority, policy: Policy::Accept })
    };
    // Packets are counted as they come, before fragments are put together.
    let first = match side {
        Side::Bridged => -250,
        Side::Routed => -450,
    };
    Ruleset {
        table: table(side),
        stamp: STAMP,
        sets: vec![ENDS],
        chains: vec![
            (STAMP, None),
            ("prerouting", base(Hook::Prerouting, first)),
            ("postrouting", base(Hook::Postrouting, 300)),
        ],
        rules: vec![("prerouting", over(Meta::InputName)), ("postrouting", over(Meta::OutputName))],
    }
}

fn over(name: Meta) -> Steps {
    vec![Expression::Meta(name, R), Expression::CountBy { map: ENDS.name, key: R }, DROP]
}
