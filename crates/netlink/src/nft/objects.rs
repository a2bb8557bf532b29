//! Objects of a table that have names and keep a state: counters and quotas. The kernel knows how many
//! elements of maps lead to one of them, and does not let it go before the last.

use model::Result;

use super::abi::{self, HEADER, header, kind};
use super::object::Table;
use super::transaction::Transaction;
use crate::wire::{Attributes, Batch, CREATE, DUMP, Message};
use crate::{Errno, Socket};

/// `NFT_QUOTA_F_INV`: it matches what is over it.
const OVER: u32 = 1;
/// `NFTA_QUOTA_BYTES`, `_FLAGS` and `_CONSUMED`; `NFTA_COUNTER_BYTES` and `_PACKETS`.
const QUOTA_BYTES: u16 = 1;
const QUOTA_FLAGS: u16 = 2;
const QUOTA_CONSUMED: u16 = 4;
const COUNTER_BYTES: u16 = 1;
const COUNTER_PACKETS: u16 = 2;

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objects {
    /// They count packets and bytes.
    Counters,
    /// They match once more than so many bytes have come.
    Quotas,
}

impl Objects {
    pub(crate) const fn number(self) -> u32 {
        match self {
            Objects::Counters => abi::IS_COUNTER,
            Objects::Quotas => abi::IS_QUOTA,
        }
    }
}

/// An object with its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// A counter.
    Counter {
        /// How many packets it has seen.
        packets: u64,
        /// How many bytes, from the network header on.
        bytes: u64,
    },
    /// A quota.
    Quota {
        /// How many bytes may come.
        bytes: u64,
        /// How many have come.
        consumed: u64,
    },
}

impl Object {
    fn kind(self) -> Objects {
        match self {
            Object::Counter { .. } => Objects::Counters,
            Object::Quota { .. } => Objects::Quotas,
        }
    }

    fn read(data: &Attributes<'_>, kind: Objects) -> Option<Self> {
        let number = |kind| data.find_kind(kind)?.be64();
        Some(match kind {
            Objects::Counters => {
                Object::Counter { packets: number(COUNTER_PACKETS)?, bytes: number(COUNTER_BYTES)? }
            }
            Objects::Quotas => {
                let consumed = number(QUOTA_CONSUMED).unwrap_or(0);
                Object::Quota { bytes: number(QUOTA_BYTES)?, consumed }
            }
        })
    }
}

impl Transaction {
    /// Makes a counter, unless it is there.
    pub fn ensure_counter(&mut self, table: Table<'_>, name: &str) {
        self.ensure_object(table, name, Object::Counter { packets: 0, bytes: 0 });
    }

    /// Makes an object with this state. One that is there keeps its own, but for the size of a quota.
    pub fn ensure_object(&mut self, table: Table<'_>, name: &str, object: Object) {
        let about = format!("adding object {name} to {table}");
        let mut request = self.request(abi::NEWOBJ, CREATE, table.family, about);
        request.text(abi::OBJECT_TABLE, table.name).text(abi::OBJECT_NAME, name);
        request.be32(abi::OBJECT_TYPE, object.kind().number());
        request.nest(abi::OBJECT_DATA, |data| match object {
            Object::Counter { packets: 0, bytes: 0 } => {}
            Object::Counter { packets, bytes } => {
                data.be64(COUNTER_BYTES, bytes).be64(COUNTER_PACKETS, packets);
            }
            Object::Quota { bytes, consumed } => {
                data.be64(QUOTA_BYTES, bytes).be32(QUOTA_FLAGS, OVER);
                data.be64(QUOTA_CONSUMED, consumed);
            }
        });
    }

    /// Removes a counter, which must be there (ENOENT), and no element lead to it (EBUSY).
    pub fn delete_counter(&mut self, table: Table<'_>, name: &str) {
        self.delete_object(table, name, Objects::Counters);
    }

    /// Removes an object, as [`Transaction::delete_counter`].
    pub fn delete_object(&mut self, table: Table<'_>, name: &str, objects: Objects) {
        let about = format!("removing object {name} from {table}");
        let mut request = self.request(abi::DELOBJ, 0, table.family, about);
        request.text(abi::OBJECT_TABLE, table.name).text(abi::OBJECT_NAME, name);
        request.be32(abi::OBJECT_TYPE, objects.number());
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
    let read =
        |message: &Message<'_>| message.attributes(HEADER).find_kind(abi::OBJECT_USE)?.be32();
    socket.get(&mut batch, &[Errno::NOENT], read)
}

/// The objects of a kind in a table, with their names; none where there is no table.
///
/// # Errors
/// As [`Socket::dump`].
pub fn objects(
    socket: &mut Socket,
    table: Table<'_>,
    wanted: Objects,
) -> Result<Vec<(String, Object)>> {
    list(socket, table, wanted, |object| {
        Object::read(&object.find_kind(abi::OBJECT_DATA)?.nested(), wanted)
    })
}

/// The names of the objects of a kind in a table, with how many elements of maps lead to each; none where
/// there is no table.
///
/// # Errors
/// As [`Socket::dump`].
pub fn users(socket: &mut Socket, table: Table<'_>, wanted: Objects) -> Result<Vec<(String, u32)>> {
    list(socket, table, wanted, |object| object.find_kind(abi::OBJECT_USE)?.be32())
}

fn list<T>(
    socket: &mut Socket,
    table: Table<'_>,
    wanted: Objects,
    read: impl Fn(&Attributes<'_>) -> Option<T>,
) -> Result<Vec<(String, T)>> {
    let mut batch = Batch::new();
    let about = format!("listing the objects of {table}");
    let mut request = batch.request(kind(abi::GETOBJ), DUMP, about);
    request.bytes(&header(table.family.number(), 0));
    request.text(abi::OBJECT_TABLE, table.name).be32(abi::OBJECT_TYPE, wanted.number());
    socket.dump(&mut batch, &[Errno::NOENT], |message| {
        let attributes = message.attributes(HEADER);
        let text = |kind| attributes.find_kind(kind).and_then(|it| it.text());
        let is_it = text(abi::OBJECT_TABLE)? == table.name
            && attributes.find_kind(abi::OBJECT_TYPE)?.be32()? == wanted.number();
        let object = is_it.then(|| read(&attributes))??;
        Some((text(abi::OBJECT_NAME)?.to_owned(), object))
    })
}
