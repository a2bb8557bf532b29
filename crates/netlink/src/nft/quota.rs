//! Quotas of a table that have names: what they count is shared by every element of a map that leads to them.

use model::Result;

use super::abi::{self, HEADER, header, kind};
use super::object::Table;
use super::transaction::Transaction;
use super::whole::AnySet;
use crate::wire::{Attributes, Batch, CREATE, DUMP, EXCLUSIVE, Message};
use crate::{Errno, Socket};

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
        let about = format!("adding quota {name} to {table}");
        let mut request = self.request(abi::NEWOBJ, CREATE | EXCLUSIVE, table.family, about);
        request.text(abi::OBJECT_TABLE, table.name).text(abi::OBJECT_NAME, name);
        request.be32(abi::OBJECT_TYPE, abi::IS_QUOTA);
        request.nest(abi::OBJECT_DATA, |quota| {
            quota.be64(BYTES, state.bytes).be32(FLAGS, OVER).be64(CONSUMED, state.used);
        });
    }

    /// Removes a quota, which must be there (ENOENT), and no element lead to it (EBUSY).
    pub fn delete_quota(&mut self, table: Table<'_>, name: &str) {
        let about = format!("removing quota {name} from {table}");
        let mut request = self.request(abi::DELOBJ, 0, table.family, about);
        request.text(abi::OBJECT_TABLE, table.name).text(abi::OBJECT_NAME, name);
        request.be32(abi::OBJECT_TYPE, abi::IS_QUOTA);
    }
}

/// A table's quota; `None` if it is not there.
///
/// # Errors
/// As [`Socket::get`].
pub fn quota(socket: &mut Socket, table: Table<'_>, name: &str) -> Result<Option<QuotaState>> {
    let mut batch = Batch::new();
    let about = format!("looking for quota {name} in {table}");
    let mut request = batch.request(kind(abi::GETOBJ), 0, about);
    request.bytes(&header(table.family.number(), 0));
    request.text(abi::OBJECT_TABLE, table.name).text(abi::OBJECT_NAME, name);
    request.be32(abi::OBJECT_TYPE, abi::IS_QUOTA);
    let read = |message: &Message<'_>| state(&message.attributes(HEADER));
    socket.get(&mut batch, &[Errno::NOENT], read)
}

/// Whether a packet now matches the quota of this name, in the table of a set; `None` if there is no such quota.
///
/// # Errors
/// As [`Socket::get`].
pub fn quota_matches(socket: &mut Socket, set: &AnySet, name: &str) -> Result<Option<bool>> {
    let mut batch = Batch::new();
    let about = format!("looking for quota {name} in table {}", set.table);
    let mut request = batch.request(kind(abi::GETOBJ), 0, about);
    request.bytes(&header(set.family, 0));
    request.text(abi::OBJECT_TABLE, &set.table).text(abi::OBJECT_NAME, name);
    request.be32(abi::OBJECT_TYPE, abi::IS_QUOTA);
    socket.get(&mut batch, &[Errno::NOENT], |message| {
        let object = message.attributes(HEADER);
        let state = state(&object)?;
        let flags = object.find_kind(abi::OBJECT_DATA)?.nested().find_kind(FLAGS)?.be32()?;
        Some((state.used >= state.bytes) == (flags & OVER != 0))
    })
}

/// The quotas of a table; none where there is no table.
///
/// # Errors
/// As [`Socket::dump`].
pub fn quotas(socket: &mut Socket, table: Table<'_>) -> Result<Vec<(String, QuotaState)>> {
    let mut batch = Batch::new();
    let about = format!("listing the quotas of {table}");
    let mut request = batch.request(kind(abi::GETOBJ), DUMP, about);
    request.bytes(&header(table.family.number(), 0));
    request.text(abi::OBJECT_TABLE, table.name).be32(abi::OBJECT_TYPE, abi::IS_QUOTA);
    socket.dump(&mut batch, &[Errno::NOENT], |message| {
        let attributes = message.attributes(HEADER);
        let text = |kind| attributes.find_kind(kind).and_then(|it| it.text());
        let is_it = text(abi::OBJECT_TABLE)? == table.name
            && attributes.find_kind(abi::OBJECT_TYPE)?.be32()? == abi::IS_QUOTA;
        let read = is_it.then(|| state(&attributes))??;
        Some((text(abi::OBJECT_NAME)?.to_owned(), read))
    })
}

fn state(object: &Attributes<'_>) -> Option<QuotaState> {
    let data = object.find_kind(abi::OBJECT_DATA)?.nested();
    let number = |kind| data.find_kind(kind)?.be64();
    Some(QuotaState { bytes: number(BYTES)?, used: number(CONSUMED)? })
}
