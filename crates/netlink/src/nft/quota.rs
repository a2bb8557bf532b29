//! Quotas of a table that have names: what they count is shared by every element of a map that leads to them.

use model::Result;

use super::abi;
use super::named::{self, Kind};
use super::object::Table;
use super::transaction::Transaction;
use super::whole::AnySet;
use crate::Socket;
use crate::wire::{Attributes, CREATE, EXCLUSIVE};

const QUOTA: Kind = Kind { number: abi::IS_QUOTA, name: "quota" };
/// `NFTA_QUOTA_BYTES`, `_FLAGS` and `_CONSUMED`.
const BYTES: u16 = 1;
const FLAGS: u16 = 2;
const CONSUMED: u16 = 4;
/// `NFT_QUOTA_F_INV`: it matches what is over it.
const OVER: u32 = 1;

/// A quota, and what of it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaState {
    /// How many bytes may pass, from the network header on.
    pub bytes: u64,
    /// How many have been seen: never more than `bytes`, whatever was refused besides.
    pub used: u64,
}

impl Transaction {
    /// Makes a quota that matches what is over it; it must not be there yet (EEXIST).
    pub fn add_quota(&mut self, table: Table<'_>, name: &str, state: QuotaState) {
        self.add_named((QUOTA, CREATE | EXCLUSIVE), table, name, |quota| {
            quota.be64(BYTES, state.bytes).be32(FLAGS, OVER).be64(CONSUMED, state.used);
        });
    }

    /// Removes a quota, which must be there (ENOENT), and no element lead to it (EBUSY).
    pub fn delete_quota(&mut self, table: Table<'_>, name: &str) {
        self.delete_named(QUOTA, table, name);
    }
}

/// A table's quota; `None` if it is not there.
///
/// # Errors
/// As [`Socket::get`].
pub fn quota(socket: &mut Socket, table: Table<'_>, name: &str) -> Result<Option<QuotaState>> {
    named::find(socket, QUOTA, (table.family.number(), table.name, &table), name, state)
}

/// Whether a packet now matches the quota of this name, in the table of a set; `None` if there is no such quota.
///
/// # Errors
/// As [`Socket::get`].
pub fn quota_matches(socket: &mut Socket, set: &AnySet, name: &str) -> Result<Option<bool>> {
    let table = format!("table {}", set.table);
    named::find(socket, QUOTA, (set.family, &set.table, &table), name, |object| {
        let state = state(object)?;
        let flags = object.find_kind(abi::OBJECT_DATA)?.nested().find_kind(FLAGS)?.be32()?;
        Some((state.used >= state.bytes) == (flags & OVER != 0))
    })
}

/// The quotas of a table; none where there is no table.
///
/// # Errors
/// As [`Socket::dump`].
pub fn quotas(socket: &mut Socket, table: Table<'_>) -> Result<Vec<(String, QuotaState)>> {
    named::list(socket, QUOTA, table, state)
}

fn state(object: &Attributes<'_>) -> Option<QuotaState> {
    let data = object.find_kind(abi::OBJECT_DATA)?.nested();
    let number = |kind| data.find_kind(kind)?.be64();
    Some(QuotaState { bytes: number(BYTES)?, used: number(CONSUMED)? })
}
