//! Elements that belong to a bridge rather than to one of its containers: they stay until it goes.

use std::collections::BTreeSet;

use model::{Error, IfName, Result};
use netlink::nft::{self, Element, Transaction, Tuple};
use netlink::{Errno, Socket};

use super::ruleset::{self, INSIDE, INTERNAL, POLICED, TABLE};

/// Where Docker publishes ports of our containers (`ports=docker`), they have this way around their
/// network's isolation. It is policed as our bridges are, whether it is there yet or not, and no
/// longer once none of them is.
const DOCKERS_WAY_OUT: &str = "docker_gwbridge";
/// Others may change the ruleset between the look and the change.
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

    /// The interface is that of an internal network, whose packets stay in it.
    pub(super) fn internal(bridge: &IfName) -> [Self; 2] {
        let inside = Tuple::new().interface(bridge).interface(bridge);
        [
            Self::new(INTERNAL.name, Tuple::new().interface(bridge), bridge),
            Self::new(INSIDE.name, inside, bridge),
        ]
    }

    fn new(set: &'static str, key: Tuple, bridge: &IfName) -> Self {
        Self { set, element: Element { key, data: None, comment: None }, bridge: bridge.clone() }
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
    ruleset::ensure(socket)?;
    let mut transaction = Transaction::new();
    Shared::internal(bridge).iter().for_each(|shared| shared.add(&mut transaction));
    transaction.apply(socket)
}

/// Forgets what an interface was, once it is gone. Interfaces are shared, so [`super::remove`] does
/// not.
///
/// # Errors
/// As [`Transaction::apply`].
pub fn forget_bridge(socket: &mut Socket, bridge: &IfName) -> Result<()> {
    let [internal, inside] = Shared::internal(bridge);
    let unwanted = [Shared::policed(bridge), internal, inside];
    let there = found(socket, unwanted.iter())?;
    let mut transaction = Transaction::new();
    for (_, shared) in unwanted.iter().enumerate().filter(|(index, _)| there.contains(index)) {
        let about = shared.about("removing");
        transaction.delete_element(TABLE, shared.set, &shared.element, about);
    }
    transaction.commit(socket)?.except(Errno::NOENT).into_result()?;
    forget_dockers_way_out(socket)
}

/// Forgets Docker's way out where no bridge of ours is policed any more. Where others keep changing
/// the ruleset it stays: it concerns nobody then, and goes with the next bridge.
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
        let surprise = |errno| matches!(errno, Errno::RESTART | Errno::NOENT);
        if ruleset::settled(transaction.commit(socket), |failure| surprise(failure.errno))? {
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
