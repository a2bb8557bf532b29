//! Counters of a table that have names. The kernel knows how many elements of maps lead to one of
//! them, and does not let it go before the last.

use model::Result;

use super::abi::{self, HEADER, header, kind};
use super::object::Table;
use super::transaction::Transaction;
use crate::wire::{Batch, CREATE, Message};
use crate::{Errno, Socket};

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
    socket.get(&mut batch, &[Errno::NOENT], read)
}

fn read(message: &Message<'_>) -> Option<u32> {
    message.attributes(HEADER).find_kind(abi::OBJECT_USE)?.be32()
}
