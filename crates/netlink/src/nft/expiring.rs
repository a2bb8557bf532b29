//! Elements that expire, and elements that hold a range in each field of their key.

use std::time::Duration;

use model::Result;

use super::abi::{self, HEADER, header, kind};
use super::data::Element;
use super::object::Table;
use super::transaction::Transaction;
use super::tuple::Tuple;
use crate::wire::{Attributes, Batch, DUMP, Message, Request};
use crate::{Errno, Socket};

/// `NLM_F_CREATE` and `NLM_F_EXCL`.
const CREATE: u16 = 0x400;

/// The keys between two keys, field by field (of a set of [`super::Lookup::Ranges`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Between {
    /// The first of each field.
    pub first: Tuple,
    /// The last of each field.
    pub last: Tuple,
}

/// An element of a set of [`super::Lookup::Expiring`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiring {
    /// The element.
    pub element: Element,
    /// How long it stays; `None` for one that another program put there for ever.
    pub remaining: Option<Duration>,
}

impl Transaction {
    /// Adds ranges, which must not touch others of the set (EEXIST, ENOTEMPTY).
    pub fn add_between(&mut self, table: Table<'_>, set: &str, range: &Between, about: String) {
        self.between(abi::NEWSETELEM, CREATE, (table, set, about), range);
    }

    /// Removes ranges, which must be there (ENOENT).
    pub fn delete_between(&mut self, table: Table<'_>, set: &str, range: &Between, about: String) {
        self.between(abi::DELSETELEM, 0, (table, set, about), range);
    }

    fn between(
        &mut self,
        message: u16,
        flags: u16,
        (table, set, about): (Table<'_>, &str, String),
        range: &Between,
    ) {
        let mut request = self.request(message, flags, table.family, about);
        request.text(abi::ELEMENTS_TABLE, table.name).text(abi::ELEMENTS_SET, set);
        request.nest(abi::ELEMENTS_LIST, |list| {
            list.nest(abi::LIST_ELEMENT, |element| {
                value(element, abi::ELEMENT_KEY, &range.first);
                value(element, abi::ELEMENT_KEY_END, &range.last);
            });
        });
    }

    /// Adds an element that stays for `limit` from now on, in place of one that has its key. Kernels
    /// before 6.12 change the time of none, so it is replaced.
    pub fn put_expiring(
        &mut self,
        (table, set): (Table<'_>, &str),
        element: &Element,
        limit: Duration,
        about: &str,
    ) {
        let about = || about.to_owned();
        self.expiring((table, set, about()), element, limit);
        self.delete_element(table, set, element, about());
        self.expiring((table, set, about()), element, limit);
    }

    fn expiring(
        &mut self,
        (table, set, about): (Table<'_>, &str, String),
        element: &Element,
        limit: Duration,
    ) {
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut request = self.request(abi::NEWSETELEM, CREATE, table.family, about);
        request.text(abi::ELEMENTS_TABLE, table.name).text(abi::ELEMENTS_SET, set);
        request.nest(abi::ELEMENTS_LIST, |list| {
            list.nest(abi::LIST_ELEMENT, |inner| {
                value(inner, abi::ELEMENT_KEY, &element.key);
                inner.be64(abi::ELEMENT_TIMEOUT, limit);
                if let Some(comment) = &element.comment {
                    inner.attribute(abi::ELEMENT_USERDATA, &comment.userdata());
                }
            });
        });
    }
}

fn value(element: &mut Request<'_>, kind: u16, tuple: &Tuple) {
    element.nest(kind, |key| {
        key.attribute(abi::DATA_VALUE, tuple.bytes());
    });
}

/// The ranges of a set; none if it is not there. An element without an end, as other programs add it, is
/// the range of its key alone.
///
/// # Errors
/// As [`Socket::dump`].
pub fn between(socket: &mut Socket, table: Table<'_>, set: &str) -> Result<Vec<Between>> {
    listed(socket, table, set, |element| {
        let first = Element::read(element)?.key;
        let last = match element.find_kind(abi::ELEMENT_KEY_END) {
            Some(end) => Tuple::from_kernel(end.nested().find_kind(abi::DATA_VALUE)?.value)?,
            None => first.clone(),
        };
        Some(Between { first, last })
    })
}

/// The elements of a set with the time that each has; none if it is not there.
///
/// # Errors
/// As [`Socket::dump`].
pub fn expiring(socket: &mut Socket, table: Table<'_>, set: &str) -> Result<Vec<Expiring>> {
    listed(socket, table, set, |element| {
        let remaining = element.find_kind(abi::ELEMENT_EXPIRATION).and_then(|it| it.be64());
        let remaining = remaining.map(Duration::from_millis);
        Some(Expiring { element: Element::read(element)?, remaining })
    })
}

fn listed<T>(
    socket: &mut Socket,
    table: Table<'_>,
    set: &str,
    read: impl Fn(&Attributes<'_>) -> Option<T>,
) -> Result<Vec<T>> {
    let mut batch = Batch::new();
    let about = format!("listing the elements of set {set} in {table}");
    let mut request = batch.request(kind(abi::GETSETELEM), DUMP, about);
    request.bytes(&header(table.family.number(), 0));
    request.text(abi::ELEMENTS_TABLE, table.name).text(abi::ELEMENTS_SET, set);
    let of_message = |message: &Message<'_>| {
        let list = message.attributes(HEADER).find_kind(abi::ELEMENTS_LIST);
        let elements = list.map(|list| list.nested()).into_iter().flatten();
        Some(elements.filter_map(|one| read(&one.nested())).collect::<Vec<T>>())
    };
    let lists = socket.dump(&mut batch, &[Errno::NOENT], of_message)?;
    Ok(lists.into_iter().flatten().collect())
}
