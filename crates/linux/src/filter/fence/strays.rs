//! What is in the sets of what names have opened, though no name opened it: other programs put it there.

use std::cell::Cell;
use std::time::Duration;

use model::Result;
use netlink::nft::{self, Expiring, Transaction};
use netlink::{Errno, Socket};

use super::calm;
use super::opened::{Opening, sets};
use super::sets::TABLE;
use crate::filter::ruleset::settled;

/// An element of these sets, as it was when it was read.
#[derive(Clone, Debug)]
pub struct InSet {
    set: &'static str,
    is_open: bool,
    there: Expiring,
}

/// Whether a set of the fence's table is one of these.
pub fn is_of_openings(set: &str) -> bool {
    sets().any(|(name, _)| name == set)
}

/// Everything in these sets but requests for calm.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn in_sets(socket: &mut Socket) -> Result<Vec<InSet>> {
    let mut all = Vec::new();
    for (set, is_open) in sets() {
        let there = nft::expiring(socket, TABLE, set)?.into_iter();
        let there = there.filter(|there| !calm::is_request(there));
        all.extend(there.map(|there| InSet { set, is_open, there }));
    }
    Ok(all)
}

impl InSet {
    /// Whether it is not `known` to have been opened, or stays longer than it may.
    pub fn is_stray(&self, is_known: &dyn Fn(&Opening, Option<Duration>) -> bool) -> bool {
        let remaining = self.there.remaining;
        let open = remaining.filter(|_| self.is_open);
        let is_stray = |opening: Opening| remaining.is_none() || !is_known(&opening, open);
        Opening::read(&self.there.element.key).is_none_or(is_stray)
    }
}

/// Removes those of these that are still there, all by one change of the ruleset where none expires meanwhile.
///
/// # Errors
/// Where the process may not change the ruleset.
pub fn remove_strays(socket: &mut Socket, strays: &[&InSet]) -> Result<()> {
    let mut strays = strays.to_vec();
    while !strays.is_empty() {
        let mut transaction = Transaction::new();
        let first = transaction.next_index();
        for stray in &strays {
            let about = format!("removing what others opened ({TABLE})");
            transaction.delete_element(TABLE, stray.set, &stray.there.element, about);
        }
        let gone = Cell::new(None);
        let is_removed = settled(transaction.commit(socket), |failure| {
            gone.set(failure.index.checked_sub(first));
            failure.errno == Errno::NOENT
        })?;
        match gone.get().filter(|at| !is_removed && *at < strays.len()) {
            Some(at) => drop(strays.remove(at)),
            None => return Ok(()),
        }
    }
    Ok(())
}
