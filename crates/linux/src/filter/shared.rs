//! Elements that belong to a bridge rather than to one of its containers: they stay until it goes.

use std::collections::BTreeSet;

use model::{Error, IfName, Result};
use netlink::Socket;
use netlink::nft::{self, Element, Transaction, Tuple};

use super::ruleset::{self, INSIDE, INTERNAL, POLICED, TABLE};

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
    transaction.commit(socket)?.except(netlink::Errno::NOENT).into_result()
}

fn found<'a>(
    socket: &mut Socket,
    asked: impl Iterator<Item = &'a Shared>,
) -> Result<BTreeSet<usize>> {
    let keys: Vec<_> = asked.map(|shared| (shared.set, &shared.element)).collect();
    Ok(nft::find(socket, TABLE, &keys)?.into_iter().map(|(index, _)| index).collect())
}
