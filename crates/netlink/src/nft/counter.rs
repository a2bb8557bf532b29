//! Counters of a table that have names. The kernel knows how many elements of maps lead to one of
//! them, and does not let it go before the last.

use model::Result;

use super::abi::{self, HEADER, header, kind};
use super::object::Table;
use super::transaction::Transaction;
use crate::wire::{Attributes, Batch, CREATE, DUMP, Message};
use crate::{Errno, Socket};

/// `NFTA_COUNTER_BYTES` and `_PACKETS`.
const BYTES: u16 = 1;
const PACKETS: u16 = 2;

/// What a counter has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes, from the network header on.
    pub bytes: u64,
}

impl Transaction {
    /// Makes a counter, unless it is there.
    pub fn ensure_counter(&mut self, table: Table<'_>, name: &str) {
        let about = format!("adding counter {name} to {table}");
        let mut request = self.request(abi::NEWOBJ, CREATE, table.family, about);
        request.text(abi::OBJECT_TABLE, table.name).text(abi::OBJECT_NAME, name);
        request.be32(abi::OBJECT_TYPE, abi::IS_COUNTER);
        request.nest(abi::OBJECT_DATA, |_| {});
    }

    /// Removes a counter, which must be there (ENOENT), and no element lead to it (EBUSY).
    pub fn delete_counter(&mut self, table: Table<'_>, name: &str) {
        let about = format!("removing counter {name} from {table}");
        let mut request = self.request(abi::DELOBJ, 0, table.family, about);
        request.text(abi::OBJECT_TABLE, table.name).text(abi::OBJECT_NAME, name);
        request.be32(abi::OBJECT_TYPE, abi::IS_COUNTER);
    }
}

/// How many elements of maps lead to a table's counter; `None` if it is not there. However many there
/// are, it is one question.
///
/// # Errors
/// As [`Socket::get`].
pub fn counter_users(socket: &mut Socket, table: Table<'_>, name: &str) -> Result<Option<u32>> {
    let mut batch = Batch::new();
    let about = format!("looking for counter {name} in {table}");
    let mut request = batch.request(kind(abi::GETOBJ), 0, about);
    request.bytes(&header(table.family.number(), 0));
    request.text(abi::OBJECT_TABLE, table.name).text(abi::OBJECT_NAME, name);
    request.be32(abi::OBJECT_TYPE, abi::IS_COUNTER);
    let read = |message: &Message<'_>| users(&message.attributes(HEADER));
    socket.get(&mut batch, &[Errno::NOENT], read)
}

/// The counters of a table; none where there is no table.
///
/// # Errors
/// As [`Socket::dump`].
pub fn counters(socket: &mut Socket, table: Table<'_>) -> Result<Vec<(String, Count)>> {
    list(socket, table, |counter| {
        let data = counter.find_kind(abi::OBJECT_DATA)?.nested();
        let number = |kind| data.find_kind(kind)?.be64();
        Some(Count { packets: number(PACKETS)?, bytes: number(BYTES)? })
    })
}

/// How many elements of maps lead to each counter of a table; none where there is no table.
///
/// # Errors
/// As [`Socket::dump`].
pub fn users_of_counters(socket: &mut Socket, table: Table<'_>) -> Result<Vec<(String, u32)>> {
    list(socket, table, users)
}

fn users(counter: &Attributes<'_>) -> Option<u32> {
    counter.find_kind(abi::OBJECT_USE)?.be32()
}

fn list<T>(
    socket: &mut Socket,
    table: Table<'_>,
    read: impl Fn(&Attributes<'_>) -> Option<T>,
) -> Result<Vec<(String, T)>> {
    let mut batch = Batch::new();
    let about = format!("listing the counters of {table}");
    let mut request = batch.request(kind(abi::GETOBJ), DUMP, about);
    request.bytes(&header(table.family.number(), 0));
    request.text(abi::OBJECT_TABLE, table.name).be32(abi::OBJECT_TYPE, abi::IS_COUNTER);
    socket.dump(&mut batch, &[Errno::NOENT], |message| {
        let attributes = message.attributes(HEADER);
        let text = |kind| attributes.find_kind(kind).and_then(|it| it.text());
        let is_it = text(abi::OBJECT_TABLE)? == table.name
            && attributes.find_kind(abi::OBJECT_TYPE)?.be32()? == abi::IS_COUNTER;
        let read = is_it.then(|| read(&attributes))??;
        Some((text(abi::OBJECT_NAME)?.to_owned(), read))
    })
}
