//! The interfaces to containers that Spoke did not make, in the tables that judge what goes out by them.

use std::collections::BTreeSet;

use model::{Error, IfName, Result};
use netlink::nft::{self, Element, Transaction, Tuple};
use netlink::{Errno, Socket};

use super::SHUT;
use super::table::{ATTEMPTS, BEHIND, TABLE, is_loaded};
use crate::filter::{HAIRPIN, name_of};

/// Judges what goes out by this interface too, where there is the table: for one that leads to containers
/// and that Spoke did not make.
///
/// # Errors
/// Where the process may not change it.
pub(crate) fn reach_behind(socket: &mut Socket, interface: &IfName) -> Result<()> {
    let element = of(interface);
    for table in [TABLE, SHUT] {
        let mut transaction = Transaction::new();
        let about = format!("adding interface {interface} to {table}");
        transaction.ensure_element(table, BEHIND.name, &element, about);
        transaction.commit(socket)?.except(Errno::NOENT).into_result()?;
    }
    Ok(())
}

/// Ends that, where no port of a container is published by this interface any more: by the packet filter, and
/// by the book, which `is_needed` reads. What another process adds in between stays.
///
/// # Errors
/// Of `is_needed`, or where the process may not change the table.
pub(crate) fn forget_behind(
    socket: &mut Socket,
    interface: &IfName,
    is_needed: &dyn Fn(&IfName) -> Result<bool>,
) -> Result<()> {
    let element = of(interface);
    for _ in 0..ATTEMPTS {
        let mut transaction = Transaction::of_generation(nft::generation(socket)?);
        if !is_loaded(socket)?
            || published_behind(socket)?.contains(&element)
            || is_needed(interface)?
        {
            return Ok(());
        }
        let about = format!("removing interface {interface} from {TABLE}");
        transaction.delete_element(TABLE, BEHIND.name, &element, about);
        let outcome = transaction.commit(socket)?;
        if outcome.failures().first().is_some_and(|failure| failure.errno == Errno::RESTART) {
            continue;
        }
        return outcome.except(Errno::NOENT).into_result();
    }
    Err(Error::try_again(format!("{TABLE} keeps being changed by others")))
}

/// The interfaces of all containers that publish ports; `known` are those of the book.
pub(super) fn behind(socket: &mut Socket, known: &BTreeSet<IfName>) -> Result<Vec<Element>> {
    let mut all = nft::elements(socket, TABLE, BEHIND.name)?;
    all.extend(published_behind(socket)?);
    all.extend(known.iter().map(of));
    all.sort();
    all.dedup();
    Ok(all)
}

/// Those of the ports that are open now by Spoke's own table.
fn published_behind(socket: &mut Socket) -> Result<Vec<Element>> {
    let mut all = Vec::new();
    for set in &HAIRPIN {
        for element in nft::elements(socket, crate::filter::TABLE, set.name)? {
            let fields = element.key.fields(set.key);
            let name = fields.and_then(|fields| name_of(fields.first()?));
            all.extend(name.as_ref().map(of));
        }
    }
    Ok(all)
}

fn of(interface: &IfName) -> Element {
    Element::of(Tuple::new().interface(interface))
}
