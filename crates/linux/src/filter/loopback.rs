//! The owners of ports at the host's loopback addresses, counted by the kernel.

use model::{IfName, Result};
use netlink::nft::{self, Transaction};
use netlink::{Errno, Socket};

use super::entry::{Entry, counter_of};
use super::{Elements, TABLE};

/// Whether any container behind the interface has ports there, by one question. What elements that are
/// flushed said is not known.
///
/// # Errors
/// As [`nft::counter_users`].
pub(crate) fn is_used(socket: &mut Socket, interface: &IfName) -> Result<bool> {
    let users = nft::counter_users(socket, TABLE, &counter_of(interface))?;
    Ok(users.is_some_and(|users| users > 0))
}

/// Removes the interface's counter, unless elements lead to it.
///
/// # Errors
/// As [`Transaction::apply`].
pub(crate) fn forget(socket: &mut Socket, interface: &IfName) -> Result<()> {
    let mut transaction = Transaction::new();
    transaction.delete_counter(TABLE, &counter_of(interface));
    transaction.commit(socket)?.except(Errno::NOENT).except(Errno::BUSY).into_result()
}

/// The interface with whose loopback ports these elements have to do.
pub(crate) fn interface_of(elements: &Elements) -> Option<&IfName> {
    elements.entries().find_map(|entry| match entry {
        Entry::AtLoopback(interface, _) => Some(interface),
        _ => None,
    })
}
