//! The guard of packets that pass a host which forwards because of Spoke. This is a table of its
//! own, because it stays as long as the host forwards, with or without containers.
//!
//! `transit.nft` is the readable form.

use model::{Error, Family, IfName, Result};
use netlink::nft::{
    self, Base, ChainKind, Element, Expression, Field, Hook, Meta, Policy, Set, Table, Transaction,
    Tuple,
};
use netlink::{Errno, Socket};

use super::rules::{ACCEPT, DROP, R, Steps, between, ending, known, to_in_family, translated};
use super::ruleset::{Ruleset, set, settled};
use super::shared::{family_of, leads_to};
use crate::identity::{GROUP, VLAN_GATEWAY};

/// The table.
pub(crate) const TABLE: Table<'static> = Table { family: nft::Family::Inet, name: "spoke_transit" };
/// The version, as in `inet spoke`.
const STAMP: &str = "transit_3";
const CHAIN: &str = "forward";
const FAMILIES: Set<'static> = set("families", &[Field::Family]);
const BEFORE: Set<'static> = set("before", &[Field::Interface]);
const SWITCHED: Set<'static> = set("switched", &[Field::Interface, Field::Interface]);
const BRIDGES: Set<'static> = set("bridges", &[Field::Interface]);
const DIRECT: Set<'static> = set("direct", &[Field::Interface]);
const DIRECT_OF: Set<'static> = set("direct_of", &[Field::Interface, Field::Family]);
const TRUSTED: Set<'static> = set("trusted", &[Field::Interface, Field::Interface]);
const ATTEMPTS: usize = 16;

/// An entry of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Spoke made the host forward these packets.
    Family(Family),
    /// The interface was there before that.
    Before(IfName),
    /// The device is a bridge, and passes frames from one of its ports to another.
    Switched(IfName),
    /// A third party's bridge is the gateway of containers.
    Bridge(IfName),
    /// The addresses behind the interface are reached by routes.
    Direct(IfName),
    /// The same by packets of this family only.
    DirectOf(IfName, Family),
    /// What is behind the second interface is reached by routes from the first one.
    Trusted(IfName, IfName),
}

impl Entry {
    fn element(&self) -> (&'static str, Element) {
        let interface = |name| Tuple::new().interface(name);
        let (set, key) = match self {
            Entry::Family(family) => (FAMILIES, Tuple::family(family_of(*family))),
            Entry::Before(name) => (BEFORE, interface(name)),
            Entry::Switched(name) => (SWITCHED, interface(name).interface(name)),
            Entry::Bridge(name) => (BRIDGES, interface(name)),
            Entry::Direct(name) => (DIRECT, interface(name)),
            Entry::DirectOf(name, family) => {
                (DIRECT_OF, interface(name).of_family(family_of(*family)))
            }
            Entry::Trusted(from, to) => (TRUSTED, interface(from).interface(to)),
        };
        (set.name, Element::of(key))
    }

    fn about(&self, doing: &str) -> String {
        format!("{doing} {self:?} ({TABLE})")
    }
}

/// Makes the table, and adds what it does not know yet.
pub(crate) fn ensure(socket: &mut Socket, entries: &[Entry]) -> Result<()> {
    for _ in 0..ATTEMPTS {
        if !is_there(socket)? {
            ruleset().ensure(socket)?;
        }
        let mut transaction = Transaction::new();
        for entry in entries {
            let (set, element) = entry.element();
            transaction.ensure_element(TABLE, set, &element, entry.about("adding"));
        }
        // The table is gone again.
        if settled(transaction.commit(socket), |failure| failure.errno == Errno::NOENT)? {
            return Ok(());
        }
    }
    Err(Error::try_again(format!("others keep removing {TABLE}")))
}

/// Whether the table is there.
pub(crate) fn is_there(socket: &mut Socket) -> Result<bool> {
    nft::chain_exists(socket, TABLE, STAMP)
}

/// Whether it knows this.
pub(crate) fn has(socket: &mut Socket, entry: &Entry) -> Result<bool> {
    let (set, element) = entry.element();
    Ok(!nft::find(socket, TABLE, &[(set, &element)])?.is_empty())
}

/// Ends the checks for packets of this family.
pub(crate) fn forget_family(socket: &mut Socket, family: Family) -> Result<()> {
    let entry = Entry::Family(family);
    let (set, element) = entry.element();
    let mut transaction = Transaction::new();
    transaction.delete_element(TABLE, set, &element, entry.about("removing"));
    transaction.commit(socket)?.except(Errno::NOENT).into_result()
}

/// Removes the entries of an interface that leads to containers.
pub(crate) fn forget(socket: &mut Socket, name: &IfName) -> Result<()> {
    let of = |family| Entry::DirectOf(name.clone(), family);
    for entry in
        [Entry::Bridge(name.clone()), Entry::Direct(name.clone()), of(Family::V4), of(Family::V6)]
    {
        if has(socket, &entry)? {
            let (set, element) = entry.element();
            delete(socket, set, &element, entry.about("removing"))?;
        }
    }
    for element in nft::elements(socket, TABLE, TRUSTED.name)? {
        if leads_to(&element, name) {
            delete(socket, TRUSTED.name, &element, format!("removing trust of {name} ({TABLE})"))?;
        }
    }
    Ok(())
}

fn delete(socket: &mut Socket, set: &str, element: &Element, about: String) -> Result<()> {
    let mut transaction = Transaction::new();
    transaction.delete_element(TABLE, set, element, about);
    transaction.commit(socket)?.except(Errno::NOENT).into_result()
}

/// Makes the chains what they should be, where there is the table. Whether they were not.
pub(crate) fn mend(socket: &mut Socket) -> Result<bool> {
    ruleset().mend(socket)
}

/// Removes the table with everything in it. A missing table is done.
pub(crate) fn unload(socket: &mut Socket) -> Result<()> {
    nft::remove_table(socket, TABLE)
}

fn ruleset() -> Ruleset {
    let base =
        Base { kind: ChainKind::Filter, hook: Hook::Forward, priority: -9, policy: Policy::Accept };
    Ruleset {
        table: TABLE,
        stamp: STAMP,
        sets: vec![FAMILIES, BEFORE, SWITCHED, BRIDGES, DIRECT, DIRECT_OF, TRUSTED],
        chains: vec![(STAMP, None), (CHAIN, Some(base))],
        rules: rules().into_iter().map(|rule| (CHAIN, rule)).collect(),
    }
}

/// `RTN_MULTICAST` (`linux/rtnetlink.h`).
const RTN_MULTICAST: u32 = 5;

fn rules() -> Vec<Steps> {
    let group = |which: Meta, group: u32| {
        vec![Expression::Meta(which, R), Expression::Equal(R, group.to_ne_bytes().to_vec().into())]
    };
    let of = |which: Meta, set: Set<'static>| {
        vec![Expression::Meta(which, R), Expression::In(set.name, R)]
    };
    let others = vec![Expression::Meta(Meta::Family, R), Expression::NotIn(FAMILIES.name, R)];
    let multicast = vec![
        Expression::DestinationType(R),
        Expression::Equal(R, RTN_MULTICAST.to_ne_bytes().to_vec().into()),
    ];
    let transit = [of(Meta::InputName, BEFORE), of(Meta::OutputName, BEFORE)].concat();
    vec![
        ending(others, ACCEPT),
        known(),
        translated(ACCEPT),
        ending(group(Meta::InputGroup, GROUP), ACCEPT),
        ending(group(Meta::InputGroup, VLAN_GATEWAY), ACCEPT),
        ending(of(Meta::InputName, BRIDGES), ACCEPT),
        ending(of(Meta::OutputName, DIRECT), ACCEPT),
        ending(to_in_family(&DIRECT_OF), ACCEPT),
        ending(between(&TRUSTED), ACCEPT),
        ending(between(&SWITCHED), ACCEPT),
        ending(multicast, ACCEPT),
        ending(group(Meta::OutputGroup, GROUP), DROP),
        ending(group(Meta::OutputGroup, VLAN_GATEWAY), DROP),
        ending(of(Meta::OutputName, BRIDGES), DROP),
        ending(transit, DROP),
    ]
}
