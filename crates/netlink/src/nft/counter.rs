//! Counters of a table that have names. The kernel knows how many elements of maps lead to one of
//! them, and does not let it go before the last.

use model::Result;

use super::abi;
use super::named::{self, Kind};
use super::object::Table;
use super::transaction::Transaction;
use crate::Socket;
use crate::wire::{Attributes, CREATE};

const COUNTER: Kind = Kind { number: abi::IS_COUNTER, name: "counter" };
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
        self.add_named((COUNTER, CREATE), table, name, |_| {});
    }

    /// Removes a counter, which must be there (ENOENT), and no element lead to it (EBUSY).
    pub fn delete_counter(&mut self, table: Table<'_>, name: &str) {
        self.delete_named(COUNTER, table, name);
    }
}

/// How many elements of maps lead to a table's counter; `None` if it is not there. However many there
/// are, it is one question.
///
/// # Errors
/// As [`Socket::get`].
pub fn counter_users(socket: &mut Socket, table: Table<'_>, name: &str) -> Result<Option<u32>> {
    named::find(socket, COUNTER, (table.family.number(), table.name, &table), name, users)
}

/// The counters of a table; none where there is no table.
///
/// # Errors
/// As [`Socket::dump`].
pub fn counters(socket: &mut Socket, table: Table<'_>) -> Result<Vec<(String, Count)>> {
    named::list(socket, COUNTER, table, |counter| {
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
    named::list(socket, COUNTER, table, users)
}

fn users(counter: &Attributes<'_>) -> Option<u32> {
    counter.find_kind(abi::OBJECT_USE)?.be32()
}
