//! Objects of a table that have names, as counters and quotas do.

use std::fmt::Display;

use model::Result;

use super::abi::{self, HEADER, header, kind};
use super::object::Table;
use super::transaction::Transaction;
use crate::wire::{Attributes, Batch, DUMP, Message, Request};
use crate::{Errno, Socket};

/// Which objects: `NFT_OBJECT_*`, and what they are called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) number: u32,
    pub(super) name: &'static str,
}

fn name(request: &mut Request<'_>, of: Kind, table: &str, name: &str) {
    request.text(abi::OBJECT_TABLE, table).text(abi::OBJECT_NAME, name);
    request.be32(abi::OBJECT_TYPE, of.number);
}

impl Transaction {
    /// Makes one; `flags` beside it say what if it is there. `data` is what its kind needs.
    pub(super) fn add_named(
        &mut self,
        (of, flags): (Kind, u16),
        table: Table<'_>,
        called: &str,
        data: impl FnOnce(&mut Request<'_>),
    ) {
        let about = format!("adding {} {called} to {table}", of.name);
        let mut request = self.request(abi::NEWOBJ, flags, table.family, about);
        name(&mut request, of, table.name, called);
        request.nest(abi::OBJECT_DATA, data);
    }

    /// Removes one, which must be there (ENOENT), and no element lead to it (EBUSY).
    pub(super) fn delete_named(&mut self, of: Kind, table: Table<'_>, called: &str) {
        let about = format!("removing {} {called} from {table}", of.name);
        let mut request = self.request(abi::DELOBJ, 0, table.family, about);
        name(&mut request, of, table.name, called);
    }
}

/// One of a table, read; `None` if it is not there. The table has a family, a name, and a form that people read.
pub(super) fn find<T>(
    socket: &mut Socket,
    of: Kind,
    (family, table, shown): (u8, &str, &dyn Display),
    called: &str,
    read: impl Fn(&Attributes<'_>) -> Option<T>,
) -> Result<Option<T>> {
    let mut batch = Batch::new();
    let about = format!("looking for {} {called} in {shown}", of.name);
    let mut request = batch.request(kind(abi::GETOBJ), 0, about);
    request.bytes(&header(family, 0));
    name(&mut request, of, table, called);
    let read = |message: &Message<'_>| read(&message.attributes(HEADER));
    socket.get(&mut batch, &[Errno::NOENT], read)
}

/// Those of a table by their names, read; none where there is no table.
pub(super) fn list<T>(
    socket: &mut Socket,
    of: Kind,
    table: Table<'_>,
    read: impl Fn(&Attributes<'_>) -> Option<T>,
) -> Result<Vec<(String, T)>> {
    let mut batch = Batch::new();
    let about = format!("listing the {}s of {table}", of.name);
    let mut request = batch.request(kind(abi::GETOBJ), DUMP, about);
    request.bytes(&header(table.family.number(), 0));
    request.text(abi::OBJECT_TABLE, table.name).be32(abi::OBJECT_TYPE, of.number);
    socket.dump(&mut batch, &[Errno::NOENT], |message| {
        let attributes = message.attributes(HEADER);
        let text = |kind| attributes.find_kind(kind).and_then(|it| it.text());
        let is_it = text(abi::OBJECT_TABLE)? == table.name
            && attributes.find_kind(abi::OBJECT_TYPE)?.be32()? == of.number;
        let read = is_it.then(|| read(&attributes))??;
        Some((text(abi::OBJECT_NAME)?.to_owned(), read))
    })
}
