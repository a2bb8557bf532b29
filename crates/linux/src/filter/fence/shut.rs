//! Behind which bridges nothing is allowed, whatever the records say of networks and containers there: of one the record
//! cannot be read, and rules were lost. The daemon says which bridges these are, and each process that makes rules heeds it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use model::{IfName, Result};
use netlink::Socket;
use netlink::nft::{self, Element, Transaction, Tuple};

use super::calm::calmly;
use super::own::{Own, have_chains, learn_for, own_sources, put_marks, range_sets, source_of};
use super::sets::{FENCED, SHUT, STRICT, TABLE};
use super::{ATTEMPTS, Fenced, behind, opened};
use crate::filter::ruleset::{is_raced, settled};

/// So many containers are shut by one change of the ruleset.
const AT_ONCE: usize = 256;

/// The bridges that stay shut.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn shut_bridges(socket: &mut Socket) -> Result<BTreeSet<IfName>> {
    let there = nft::elements(socket, TABLE, SHUT.name)?;
    Ok(there.iter().filter_map(|element| opened::bridge(&element.key)).collect())
}

/// These bridges stay shut from now on, and no others. What is made already stays as it is. The table goes with the last
/// of them where nothing else is in it.
///
/// # Errors
/// Where the kernel lacks something, or the process may not change it.
pub fn set_shut(socket: &mut Socket, bridges: &BTreeSet<&IfName>) -> Result<()> {
    change(socket, bridges, &|bridge| !bridges.contains(bridge))
}

/// The bridge stays shut no longer: it is forgotten.
pub(super) fn forget(socket: &mut Socket, bridge: &IfName) -> Result<()> {
    change(socket, &BTreeSet::new(), &|it| it == bridge)
}

fn change(
    socket: &mut Socket,
    more: &BTreeSet<&IfName>,
    is_gone: &dyn Fn(&IfName) -> bool,
) -> Result<()> {
    calmly(socket, |socket| {
        for _ in 0..ATTEMPTS {
            if !more.is_empty() {
                have_chains(socket)?;
            }
            let mut transaction = Transaction::of_generation(nft::generation(socket)?);
            let there = shut_bridges(socket)?;
            let about = || format!("saying which bridges stay shut ({TABLE})");
            let (gone, left): (Vec<_>, Vec<_>) = there.iter().partition(|it| is_gone(it));
            if !gone.is_empty() && left.is_empty() && more.is_empty() && !has_rules(socket)? {
                transaction.delete_table(TABLE);
            } else {
                for bridge in gone {
                    transaction.delete_element(TABLE, SHUT.name, &element(bridge), about());
                }
            }
            for bridge in more.iter().filter(|bridge| !there.contains(**bridge)) {
                transaction.ensure_element(TABLE, SHUT.name, &element(bridge), about());
            }
            if transaction.is_empty() || settled(transaction.commit(socket), is_raced)? {
                return Ok(());
            }
        }
        Err(model::Error::try_again(format!("{TABLE} keeps being changed by others")))
    })
}

/// Whether a network or a container has rules.
fn has_rules(socket: &mut Socket) -> Result<bool> {
    for set in [FENCED, STRICT] {
        if !nft::elements(socket, TABLE, set.name)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(!own_sources(socket)?.is_empty())
}

fn element(bridge: &IfName) -> Element {
    Element::of(Tuple::new().interface(bridge))
}

fn is_shut(socket: &mut Socket, bridge: &IfName) -> Result<bool> {
    Ok(!nft::find(socket, TABLE, &[(SHUT.name, &element(bridge))])?.is_empty())
}

/// The rules of a container that hold now.
pub(super) fn effective_own<'a>(socket: &mut Socket, own: &'a Own) -> Result<Cow<'a, Own>> {
    let is_shut = is_shut(socket, &own.bridge)?;
    Ok(if is_shut { Cow::Owned(own.shut()) } else { Cow::Borrowed(own) })
}

/// The rules of a network that hold now.
pub(super) fn effective<'a>(socket: &mut Socket, fenced: &'a Fenced) -> Result<Cow<'a, Fenced>> {
    let is_shut = is_shut(socket, &fenced.bridge)?;
    Ok(if is_shut { Cow::Owned(fenced.closed()) } else { Cow::Borrowed(fenced) })
}

/// Has nothing allowed to those of these containers whose rules have been lost, whatever is left of them: who takes the
/// rules away takes the checks of what their neighbours send, too. [`super::keep_own_checked`] opens them again. Whether
/// any was lost. What is strict is so by rules of routing, which stay as they are.
///
/// # Errors
/// As [`super::keep_own`].
pub fn shut_lost(socket: &mut Socket, all: &[Own]) -> Result<bool> {
    let (mut is_any, mut failure) = (false, None);
    // What fails for some keeps no others open.
    for some in all.chunks(AT_ONCE) {
        match calmly(socket, |socket| shut_some(socket, some)) {
            Ok(is_lost) => is_any |= is_lost,
            Err(error) => drop(failure.get_or_insert(error)),
        }
    }
    failure.map_or(Ok(is_any), Err)
}

fn shut_some(socket: &mut Socket, some: &[Own]) -> Result<bool> {
    for _ in 0..ATTEMPTS {
        have_chains(socket)?;
        let mut transaction = Transaction::of_generation(nft::generation(socket)?);
        let there = own_sources(socket)?;
        let is_lost = |own: &&Own| {
            let is_there = |source: &IpAddr| there.contains(&(own.bridge.clone(), *source));
            !own.sources.iter().all(is_there)
        };
        let lost: Vec<Own> = some.iter().filter(is_lost).map(Own::shut).collect();
        if lost.is_empty() {
            return Ok(false);
        }
        for set in range_sets() {
            for range in nft::between(socket, TABLE, set)? {
                let of = source_of(&range);
                let is_of = |own: &&Own| {
                    of.as_ref().is_some_and(|(bridge, it)| {
                        own.bridge == *bridge && own.sources.contains(it)
                    })
                };
                if let Some(own) = lost.iter().find(is_of) {
                    transaction.delete_between(TABLE, set, &range, own.about("shutting"));
                }
            }
        }
        behind::put(socket, &mut transaction, (&lost.iter().collect::<Vec<_>>(), "shutting"))?;
        for own in &lost {
            put_marks(&mut transaction, own, &own.marks()?);
            learn_for(&mut transaction, own, Duration::ZERO);
        }
        if settled(transaction.commit(socket), is_raced)? {
            return Ok(true);
        }
    }
    Err(model::Error::try_again(format!("{TABLE} keeps being changed by others")))
}
