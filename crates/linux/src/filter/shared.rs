//! Elements that belong to a bridge rather than to one of its containers: they stay until it goes.

use std::collections::BTreeSet;

use model::{Error, Family, IfName, Passage, Result};
use netlink::nft::{self, Element, Transaction, Tuple};
use netlink::{Errno, Socket};

use super::fence;
use super::ruleset::{
    self, BOUNDED_BRIDGES, CLOSED, GUARDED_BRIDGES, INSIDE, INTERNAL, POLICED, SERVING, TABLE,
    TRUSTED, UNJUDGED,
};

/// Docker's own gateway network, on which it publishes ports of Spoke's containers
/// (`ports=docker`). They could bypass their network's isolation there, so it is policed as Spoke's
/// bridges are, even before it exists, and as long as one of them exists.
const DOCKERS_WAY_OUT: &str = "docker_gwbridge";
/// Others may change the ruleset between the read and the write.
const ATTEMPTS: usize = 16;

/// An element of a set that has no owners.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shared {
    set: &'static str,
    element: Element,
    bridge: IfName,
}

impl Shared {
    /// The interface has an ingress policy.
    pub(super) fn policed(bridge: &IfName) -> Self {
        Self::new(POLICED.name, Tuple::new().interface(bridge), bridge)
    }

    /// The bridge over which Docker publishes ports of our containers has an ingress policy.
    pub(super) fn dockers_way_out() -> Option<Self> {
        DOCKERS_WAY_OUT.parse().ok().as_ref().map(Self::policed)
    }

    /// The bridge is one of a network with rules that many hosts share.
    fn guarded(bridge: &IfName, guard: &Guard) -> BTreeSet<Self> {
        let one = || Tuple::new().interface(bridge);
        let mut all = BTreeSet::from([
            Self::policed(bridge),
            Self::new(BOUNDED_BRIDGES.name, one(), bridge),
            Self::new(INSIDE.name, one().interface(bridge), bridge),
        ]);
        if guard.is_guarded {
            all.insert(Self::new(GUARDED_BRIDGES.name, one(), bridge));
        }
        if guard.is_internal {
            all.extend(Self::internal(bridge));
        }
        all.extend(guard.underlay.as_ref().map(|underlay| {
            Self::new(INSIDE.name, Tuple::new().interface(underlay).interface(bridge), bridge)
        }));
        all
    }

    /// The interface is that of an internal network, whose packets stay in it.
    pub(super) fn internal(bridge: &IfName) -> [Self; 2] {
        let inside = Tuple::new().interface(bridge).interface(bridge);
        [
            Self::new(INTERNAL.name, Tuple::new().interface(bridge), bridge),
            Self::new(INSIDE.name, inside, bridge),
        ]
    }

    /// The entries for the interface of a network whose passage restricts routes.
    pub(super) fn judged(bridge: &IfName, passage: &Passage) -> Vec<Self> {
        let one = || Tuple::new().interface(bridge);
        let mut all = vec![
            Self::new(CLOSED.name, one(), bridge),
            Self::new(INSIDE.name, one().interface(bridge), bridge),
        ];
        match passage {
            Passage::Unjudged => return Vec::new(),
            Passage::Everybody => all.push(Self::new(SERVING.name, one(), bridge)),
            Passage::EverybodyOf(family) => {
                all.push(Self::new(SERVING.name, one(), bridge));
                all.push(Self::unjudged(bridge, family.other()));
            }
            Passage::Trusted(names) => all.extend(names.iter().map(|name| {
                Self::new(TRUSTED.name, Tuple::new().interface(name).interface(bridge), bridge)
            })),
        }
        all
    }

    /// Of packets of this family nothing is decided.
    fn unjudged(bridge: &IfName, family: Family) -> Self {
        let key = Tuple::new().interface(bridge).of_family(family_of(family));
        Self::new(UNJUDGED.name, key, bridge)
    }

    fn new(set: &'static str, key: Tuple, bridge: &IfName) -> Self {
        Self { set, element: Element::of(key), bridge: bridge.clone() }
    }

    fn about(&self, doing: &str) -> String {
        format!("{doing} {} ({} of {TABLE})", self.bridge, self.set)
    }

    pub(super) fn add(&self, transaction: &mut Transaction) {
        transaction.ensure_element(TABLE, self.set, &self.element, self.about("adding"));
    }
}

/// The first of the elements that is missing.
pub(super) fn missing<'a>(
    socket: &mut Socket,
    wanted: &'a BTreeSet<Shared>,
) -> Result<Option<&'a Shared>> {
    let there = found(socket, wanted.iter())?;
    Ok((0..).zip(wanted).find(|(index, _)| !there.contains(index)).map(|(_, missing)| missing))
}

/// As [`missing`], as an error.
pub(super) fn verify(socket: &mut Socket, wanted: &BTreeSet<Shared>) -> Result<()> {
    match missing(socket, wanted)? {
        Some(missing) => Err(Error::not_found(missing.about("missing:"))),
        None => Ok(()),
    }
}

/// Makes the interface one of an internal network, before its first container comes.
///
/// # Errors
/// As [`Transaction::apply`], and as [`super::ensure`].
pub fn make_internal(socket: &mut Socket, bridge: &IfName) -> Result<()> {
    keep(socket, &Shared::internal(bridge).into())
}

/// Keeps what comes by an interface from the containers that other networks guard, whether or not one of its own is
/// guarded. Repeating it changes nothing.
///
/// # Errors
/// As [`Transaction::apply`], and as [`super::ensure`].
pub fn police(socket: &mut Socket, bridge: &IfName) -> Result<()> {
    keep(socket, &BTreeSet::from([Shared::policed(bridge)]))
}

/// What holds for the bridge of a network that many hosts share, whatever host a container is on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Whether what comes in by other policed interfaces, or by bridges of others, does not leave by it.
    pub is_guarded: bool,
    /// Whether nothing else passes it.
    pub is_internal: bool,
    /// The device by which the network's packets come from other hosts, where they are routed.
    pub underlay: Option<IfName>,
}

/// As [`police`], and routes what comes in by the bridge for this host's containers alone. Repeating it changes nothing.
///
/// # Errors
/// As [`police`].
pub fn guard_bridge(socket: &mut Socket, bridge: &IfName, guard: &Guard) -> Result<()> {
    keep(socket, &Shared::guarded(bridge, guard))
}

fn keep(socket: &mut Socket, wanted: &BTreeSet<Shared>) -> Result<()> {
    fence::calmly(socket, |socket| {
        if missing(socket, wanted)?.is_none() {
            return Ok(());
        }
        ruleset::ensure(socket)?;
        let mut transaction = Transaction::new();
        wanted.iter().for_each(|shared| shared.add(&mut transaction));
        transaction.apply(socket)
    })
}

/// Removes an interface's entries, once it is gone. Interfaces are shared, so [`super::remove`]
/// does not.
///
/// # Errors
/// As [`Transaction::apply`].
pub fn forget_bridge(socket: &mut Socket, bridge: &IfName) -> Result<()> {
    let all = Guard { is_guarded: true, is_internal: true, underlay: None };
    let mut unwanted = Shared::guarded(bridge, &all);
    unwanted.extend(leading(socket, INSIDE.name, bridge)?);
    unwanted.extend(trusting(socket, bridge)?);
    let there = found(socket, unwanted.iter())?;
    let mut transaction = Transaction::new();
    for (_, shared) in unwanted.iter().enumerate().filter(|(index, _)| there.contains(index)) {
        let about = shared.about("removing");
        transaction.delete_element(TABLE, shared.set, &shared.element, about);
    }
    transaction.commit(socket)?.except(Errno::NOENT).into_result()?;
    forget_dockers_way_out(socket)
}

/// The entries about clients that reach the network of a bridge by routes.
fn trusting(socket: &mut Socket, bridge: &IfName) -> Result<Vec<Shared>> {
    let mut trusting = Shared::judged(bridge, &Passage::Everybody);
    trusting.extend([Family::V4, Family::V6].map(|family| Shared::unjudged(bridge, family)));
    trusting.extend(leading(socket, TRUSTED.name, bridge)?);
    Ok(trusting)
}

/// The pairs of interfaces of a set that end with this bridge.
fn leading(socket: &mut Socket, set: &'static str, bridge: &IfName) -> Result<Vec<Shared>> {
    let all = nft::elements(socket, TABLE, set)?.into_iter();
    let all = all.filter(|element| leads_to(element, bridge));
    Ok(all.map(|element| Shared { set, element, bridge: bridge.clone() }).collect())
}

/// As nftables has it.
pub(super) fn family_of(family: Family) -> nft::Family {
    match family {
        Family::V4 => nft::Family::Ipv4,
        Family::V6 => nft::Family::Ipv6,
    }
}

/// Whether an element that is a pair of interfaces ends with this one.
pub(super) fn leads_to(element: &Element, name: &IfName) -> bool {
    let fields = element.key.fields(TRUSTED.key);
    let to = fields.as_ref().and_then(|fields| fields.get(1));
    to.is_some_and(|to| {
        to.strip_prefix(name.as_str().as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    })
}

/// Removes the entry for Docker's own gateway network where no bridge of Spoke's is policed any
/// more. Where others keep changing the ruleset it stays: it has no effect then, and is removed
/// with the next bridge.
fn forget_dockers_way_out(socket: &mut Socket) -> Result<()> {
    let Some(way) = Shared::dockers_way_out() else { return Ok(()) };
    for _ in 0..ATTEMPTS {
        let mut transaction = Transaction::of_generation(nft::generation(socket)?);
        if found(socket, [&way].into_iter())?.is_empty() {
            return Ok(());
        }
        if nft::elements(socket, TABLE, way.set)? != [way.element.clone()] {
            return Ok(());
        }
        transaction.delete_element(TABLE, way.set, &way.element, way.about("removing"));
        if ruleset::settled(transaction.commit(socket), ruleset::is_raced)? {
            return Ok(());
        }
    }
    Ok(())
}

fn found<'a>(
    socket: &mut Socket,
    asked: impl Iterator<Item = &'a Shared>,
) -> Result<BTreeSet<usize>> {
    let keys: Vec<_> = asked.map(|shared| (shared.set, &shared.element)).collect();
    Ok(nft::find(socket, TABLE, &keys)?.into_iter().map(|(index, _)| index).collect())
}
