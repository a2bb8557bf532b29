//! Questions: what is in the ruleset. Everything that comes back is bounded by the datagrams that
//! it comes in, and what cannot be read is left out.

use model::{Kind, Result};

use super::abi::{self, HEADER, header, kind};
use super::comment::Comment;
use super::data::Element;
use super::object::{Base, Family, Table};
use super::shape::Shape;
use crate::wire::{Attributes, Batch, DUMP, Message, Request};
use crate::{Errno, Socket};

/// A chain that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Of which family its table is.
    pub family: Family,
    /// In which table it is.
    pub table: String,
    /// Its name.
    pub name: String,
    /// Its hook, if it is a base chain.
    pub base: Option<Base>,
}

/// A rule that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its number in its table.
    pub handle: u64,
    /// Its effect, as far as it is distinguished here.
    pub shape: Vec<Shape>,
    /// The comment.
    pub comment: Option<Comment>,
}

/// The number of transactions that this namespace's ruleset has seen (for
/// [`super::Transaction::of_generation`]).
///
/// # Errors
/// As [`Socket::get`].
pub fn generation(socket: &mut Socket) -> Result<u32> {
    let mut batch = Batch::new();
    let about = "asking for the generation of the nftables ruleset";
    batch.request(kind(abi::GETGEN), 0, about).bytes(&header(0, 0));
    let read = |message: &Message<'_>| {
        (message.kind == kind(abi::NEWGEN))
            .then(|| message.attributes(HEADER).find_kind(abi::GEN_ID)?.be32())
            .flatten()
    };
    let missing = || model::Error::new(Kind::Kernel, format!("{about}: there is none"));
    socket.get(&mut batch, &[], read)?.ok_or_else(missing)
}

/// Whether the kernel has nftables and allows requests; `true` where that is unknown. For use after
/// a failure: it opens a socket of its own.
pub fn is_supported() -> bool {
    match Socket::try_netfilter() {
        Ok(mut socket) => answers(&mut socket, kind(abi::GETGEN)),
        Err(errno) => !ABSENT.contains(&errno),
    }
}

/// How a kernel without nfnetlink, or without this part of it, answers.
const ABSENT: [Errno; 4] =
    [Errno::PROTONOSUPPORT, Errno::AFNOSUPPORT, Errno::OPNOTSUPP, Errno::INVAL];

fn answers(socket: &mut Socket, question: u16) -> bool {
    let mut batch = Batch::new();
    batch.request(question, 0, "asking for nftables").bytes(&header(0, 0));
    match socket.send(&mut batch) {
        Ok(outcome) => !outcome.failures().iter().any(|failure| ABSENT.contains(&failure.errno)),
        Err(_) => true,
    }
}

/// The names of a family's tables, with their comments.
///
/// # Errors
/// As [`Socket::dump`].
pub fn tables(socket: &mut Socket, family: Family) -> Result<Vec<(String, Option<Comment>)>> {
    let about = format!("listing the nftables tables of family {family}");
    dump(socket, abi::GETTABLE, (family, about), |_| {}, read_table)
}

/// The number that the kernel gave a table when it was made: later ones have larger ones. `None` if it is not there.
///
/// # Errors
/// As [`Socket::dump`].
pub fn table_handle(socket: &mut Socket, table: Table<'_>) -> Result<Option<u64>> {
    let about = format!("looking for {table}");
    let all = dump(
        socket,
        abi::GETTABLE,
        (table.family, about),
        |_| {},
        |message| {
            let there = message.attributes(HEADER);
            let handle = there.find_kind(abi::TABLE_HANDLE)?.be64()?;
            (there.find_kind(abi::TABLE_NAME)?.text()? == table.name).then_some(handle)
        },
    )?;
    Ok(all.into_iter().next())
}

/// A family's chains, in all tables.
///
/// # Errors
/// As [`Socket::dump`].
pub fn chains(socket: &mut Socket, family: Family) -> Result<Vec<Chain>> {
    let about = format!("listing the nftables chains of family {family}");
    dump(socket, abi::GETCHAIN, (family, about), |_| {}, read_chain)
}

/// Whether a table has a chain of this name.
///
/// # Errors
/// As [`Socket::get`].
pub fn chain_exists(socket: &mut Socket, table: Table<'_>, name: &str) -> Result<bool> {
    Ok(chain(socket, table, name)?.is_some())
}

/// A table's chain of this name; `None` if there is none.
///
/// # Errors
/// As [`Socket::get`].
pub fn chain(socket: &mut Socket, table: Table<'_>, name: &str) -> Result<Option<Chain>> {
    let mut batch = Batch::new();
    let about = format!("looking for chain {name} in {table}");
    let mut request = batch.request(kind(abi::GETCHAIN), 0, about);
    request.bytes(&header(table.family.number(), 0));
    request.text(abi::CHAIN_TABLE, table.name).text(abi::CHAIN_NAME, name);
    socket.get(&mut batch, &[Errno::NOENT], read_chain)
}

/// The rules of a chain, in their order; none if it is not there.
///
/// # Errors
/// As [`Socket::dump`].
pub fn rules(socket: &mut Socket, table: Table<'_>, chain: &str) -> Result<Vec<Rule>> {
    let about = format!("listing the rules of chain {chain} in {table}");
    let ask = |request: &mut Request<'_>| {
        request.text(abi::RULE_TABLE, table.name).text(abi::RULE_CHAIN, chain);
    };
    dump(socket, abi::GETRULE, (table.family, about), ask, |message| {
        let rule = message.attributes(HEADER);
        // Older kernels dump every chain, whatever is asked for.
        let ours = rule.find_kind(abi::RULE_CHAIN)?.text() == Some(chain)
            && rule.find_kind(abi::RULE_TABLE)?.text() == Some(table.name);
        if ours { read_rule(message) } else { None }
    })
}

/// Calls `each` with the chain of every rule of a table and the rule's expressions, in the order that they have in their
/// chains, and returns what it was called on: one question, however many chains there are. Where the kernel's answer has
/// to be asked for again, it begins anew.
///
/// # Errors
/// As [`Socket::dump`].
pub(super) fn fold_rules<S>(
    socket: &mut Socket,
    table: Table<'_>,
    begin: impl Fn() -> S,
    mut each: impl FnMut(&mut S, &str, Attributes<'_>),
) -> Result<S> {
    let mut batch = Batch::new();
    let about = format!("listing the rules of {table}");
    let mut request = batch.request(kind(abi::GETRULE), DUMP, about);
    request.bytes(&header(table.family.number(), 0)).text(abi::RULE_TABLE, table.name);
    let hear = |state: &mut S, message: &Message<'_>| {
        let rule = message.attributes(HEADER);
        let text = |kind| rule.find_kind(kind).and_then(|it| it.text());
        if let Some(chain) = text(abi::RULE_CHAIN)
            && text(abi::RULE_TABLE) == Some(table.name)
        {
            let list = rule.find_kind(abi::RULE_EXPRESSIONS);
            each(state, chain, list.map_or(Attributes::new(&[]), |list| list.nested()));
        }
    };
    socket.fold_dump(&mut batch, begin, hear, |errno| errno == Errno::NOENT)
}

/// The elements of a set or map; none if it is not there.
///
/// # Errors
/// As [`Socket::dump`].
pub fn elements(socket: &mut Socket, table: Table<'_>, set: &str) -> Result<Vec<Element>> {
    let about = format!("listing the elements of set {set} in {table}");
    let ask = |request: &mut Request<'_>| {
        request.text(abi::ELEMENTS_TABLE, table.name).text(abi::ELEMENTS_SET, set);
    };
    let lists = dump(socket, abi::GETSETELEM, (table.family, about), ask, |message| {
        Some(read_elements(message))
    })?;
    Ok(lists.into_iter().flatten().collect())
}

/// Those of `keys` (a set and an element, of which only the key counts) that exist, as (index in
/// `keys`, element). Few questions go out in one send.
///
/// # Errors
/// As [`Socket::send`], and a refusal other than that there is no such element, set or table.
pub fn find(
    socket: &mut Socket,
    table: Table<'_>,
    keys: &[(&str, &Element)],
) -> Result<Vec<(usize, Element)>> {
    let mut found = Vec::new();
    for (number, some) in keys.chunks(ASKED_AT_ONCE).enumerate() {
        let first = number * ASKED_AT_ONCE;
        let there = find_some(socket, table, some)?.into_iter();
        found.extend(there.map(|(index, element)| (first + index, element)));
    }
    Ok(found)
}

/// The kernel answers all questions of a send before any answer can be taken: that many fit into
/// the smallest receive buffer that is usual.
const ASKED_AT_ONCE: usize = 16;

fn find_some(
    socket: &mut Socket,
    table: Table<'_>,
    keys: &[(&str, &Element)],
) -> Result<Vec<(usize, Element)>> {
    let mut batch = Batch::new();
    for (set, element) in keys {
        let about = format!("looking for an element in set {set} of {table}");
        let mut request = batch.request(kind(abi::GETSETELEM), 0, about);
        request.bytes(&header(table.family.number(), 0));
        request.text(abi::ELEMENTS_TABLE, table.name).text(abi::ELEMENTS_SET, set);
        Element::of(element.key.clone()).write(&mut request);
    }
    let mut found = Vec::new();
    let outcome = socket.exchange(&mut batch, |message| {
        let set = message.attributes(HEADER).find_kind(abi::ELEMENTS_SET);
        let Some(set) = set.and_then(|set| set.text()) else { return };
        for element in read_elements(message) {
            let same = |(name, asked): &(&str, &Element)| *name == set && asked.key == element.key;
            found.extend(keys.iter().position(same).map(|index| (index, element)));
        }
    })?;
    outcome.except(Errno::NOENT).into_result()?;
    Ok(found)
}

fn read_elements(message: &Message<'_>) -> Vec<Element> {
    let list = message.attributes(HEADER).find_kind(abi::ELEMENTS_LIST);
    let elements = list.map(|list| list.nested()).into_iter().flatten();
    elements.filter_map(|element| Element::read(&element.nested())).collect()
}

fn read_table(message: &Message<'_>) -> Option<(String, Option<Comment>)> {
    let table = message.attributes(HEADER);
    let userdata = table.find_kind(abi::TABLE_USERDATA);
    let comment = userdata.and_then(|userdata| Comment::read(userdata.value));
    Some((table.find_kind(abi::TABLE_NAME)?.text()?.to_owned(), comment))
}

fn read_chain(message: &Message<'_>) -> Option<Chain> {
    let chain = message.attributes(HEADER);
    Some(Chain {
        family: Family::from_number(*message.payload.first()?)?,
        table: chain.find_kind(abi::CHAIN_TABLE)?.text()?.to_owned(),
        name: chain.find_kind(abi::CHAIN_NAME)?.text()?.to_owned(),
        base: Base::read(&chain),
    })
}

fn read_rule(message: &Message<'_>) -> Option<Rule> {
    let rule = message.attributes(HEADER);
    let list = rule.find_kind(abi::RULE_EXPRESSIONS).map(|list| list.nested());
    let shape = list.map(|list| list.filter_map(|one| Shape::read(&one.nested())).collect());
    let userdata = rule.find_kind(abi::RULE_USERDATA);
    Some(Rule {
        handle: rule.find_kind(abi::RULE_HANDLE)?.be64()?,
        shape: shape.unwrap_or_default(),
        comment: userdata.and_then(|userdata| Comment::read(userdata.value)),
    })
}

/// How many objects of any kind `message` can be read as.
pub(crate) fn read_anything(message: &Message<'_>) -> usize {
    usize::from(read_table(message).is_some())
        + usize::from(read_chain(message).is_some())
        + usize::from(read_rule(message).is_some())
        + read_elements(message).len()
}

fn dump<T>(
    socket: &mut Socket,
    message: u16,
    (family, about): (Family, String),
    ask: impl Fn(&mut Request<'_>),
    read: impl FnMut(&Message<'_>) -> Option<T>,
) -> Result<Vec<T>> {
    let mut batch = Batch::new();
    let mut request = batch.request(kind(message), DUMP, about);
    request.bytes(&header(family.number(), 0));
    ask(&mut request);
    socket.dump(&mut batch, &[Errno::NOENT], read)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Messages;

    #[test]
    fn a_part_that_the_kernel_lacks_is_known() {
        assert!(is_supported());
        let mut socket = Socket::netfilter().unwrap();
        assert!(answers(&mut socket, kind(abi::GETGEN)));
        // Beyond NFNL_SUBSYS_COUNT.
        assert!(!answers(&mut socket, 0x7f00));
    }

    proptest! {
        #[test]
        fn any_answer_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..1024)) {
            for message in Messages::new(&bytes) {
                let _ = read_elements(&message);
                let _ = Shape::read(&message.attributes(HEADER));
            }
            let _ = Shape::read(&Attributes::new(&bytes));
        }
    }
}
