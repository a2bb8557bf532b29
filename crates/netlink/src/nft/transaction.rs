//! Changes: all of them or none.

use model::Result;

use super::abi::{self, header, kind};
use super::comment::Comment;
use super::data::{Element, Set};
use super::expression::Expression;
use super::object::{Base, Family, Table};
use crate::wire::{APPEND, Batch, CREATE, EXCLUSIVE, Request};
use crate::{Errno, Failure, Outcome, Socket};

/// How often a transaction is sent again that the kernel had no room or no time for.
const ATTEMPTS: usize = 8;

/// Where in its chain a rule is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulePosition {
    /// Before the rule of this handle.
    Before(u64),
    /// Behind all others.
    Tail,
}

/// Changes to the ruleset of a network namespace, in the order in which they are made.
///
/// No process sees a state in between. If one change is refused, none is made.
#[derive(Clone, Debug)]
pub struct Transaction {
    batch: Batch,
    sets: u32,
}

impl Default for Transaction {
    fn default() -> Self {
        Self::new()
    }
}

impl Transaction {
    /// Without any change.
    pub fn new() -> Self {
        Self::begin(None)
    }

    /// Without any change; it fails with [`Errno`]`::RESTART` if the ruleset is no longer what it
    /// was at this [`super::generation`].
    pub fn of_generation(generation: u32) -> Self {
        Self::begin(Some(generation))
    }

    fn begin(generation: Option<u32>) -> Self {
        let mut batch = Batch::with_capacity(1024);
        let mut begin = batch.request(abi::BATCH_BEGIN, 0, "changing the nftables ruleset");
        begin.bytes(&header(0, abi::BATCH_RESOURCE));
        if let Some(generation) = generation {
            begin.be32(abi::BATCH_GENERATION, generation);
        }
        Self { batch, sets: 0 }
    }

    /// Whether there is no change.
    pub fn is_empty(&self) -> bool {
        self.batch.count() == 1
    }

    /// The [`Failure::index`] of the next change.
    pub fn next_index(&self) -> usize {
        self.batch.count()
    }

    /// Makes a table, unless it exists.
    pub fn add_table(&mut self, table: Table<'_>, comment: Option<&Comment>) {
        let about = format!("adding {table}");
        let mut request = self.request(abi::NEWTABLE, CREATE, table.family, about);
        request.text(abi::TABLE_NAME, table.name).be32(abi::TABLE_FLAGS, 0);
        if let Some(comment) = comment {
            request.attribute(abi::TABLE_USERDATA, &comment.userdata());
        }
    }

    /// Removes a table with everything in it.
    pub fn delete_table(&mut self, table: Table<'_>) {
        let about = format!("removing {table}");
        self.request(abi::DELTABLE, 0, table.family, about).text(abi::TABLE_NAME, table.name);
    }

    /// Makes a table without anything in it, whatever was in one of that name.
    pub fn replace_table(&mut self, table: Table<'_>, comment: Option<&Comment>) {
        // To be removed it has to be there.
        self.add_table(table, comment);
        self.delete_table(table);
        self.add_table(table, comment);
    }

    /// Makes a chain: a base chain with `base`, one to jump to without. With `exclusive` it must
    /// not be there yet (EEXIST).
    pub fn add_chain(
        &mut self,
        table: Table<'_>,
        name: &str,
        base: Option<&Base>,
        exclusive: bool,
    ) {
        let flags = if exclusive { CREATE | EXCLUSIVE } else { CREATE };
        let about = format!("adding chain {name} to {table}");
        let mut request = self.request(abi::NEWCHAIN, flags, table.family, about);
        request.text(abi::CHAIN_TABLE, table.name).text(abi::CHAIN_NAME, name);
        if let Some(base) = base {
            base.write(&mut request);
        }
    }

    /// Removes a chain, which must be empty and not be jumped to.
    pub fn delete_chain(&mut self, table: Table<'_>, name: &str) {
        let about = format!("removing chain {name} from {table}");
        let mut request = self.request(abi::DELCHAIN, 0, table.family, about);
        request.text(abi::CHAIN_TABLE, table.name).text(abi::CHAIN_NAME, name);
    }

    /// Makes a set or map, unless one of the same type is there; another one is EEXIST.
    pub fn add_set(&mut self, table: Table<'_>, set: &Set<'_>) {
        self.sets += 1;
        let id = self.sets;
        let about = format!("adding set {} to {table}", set.name);
        let mut request = self.request(abi::NEWSET, CREATE, table.family, about);
        request.text(abi::SET_TABLE, table.name).text(abi::SET_NAME, set.name);
        set.write(&mut request);
        request.be32(abi::SET_ID, id);
    }

    /// Adds a rule to a chain.
    pub fn add_rule(
        &mut self,
        table: Table<'_>,
        chain: &str,
        place: RulePosition,
        expressions: &[Expression<'_>],
    ) {
        let flags = match place {
            RulePosition::Before(_) => CREATE,
            RulePosition::Tail => CREATE | APPEND,
        };
        let about = format!("adding a rule to chain {chain} of {table}");
        let mut request = self.request(abi::NEWRULE, flags, table.family, about);
        request.text(abi::RULE_TABLE, table.name).text(abi::RULE_CHAIN, chain);
        if let RulePosition::Before(handle) = place {
            request.be64(abi::RULE_POSITION, handle);
        }
        request.nest(abi::RULE_EXPRESSIONS, |list| {
            for expression in expressions {
                expression.write(list);
            }
        });
    }

    /// Removes one rule of a chain.
    pub fn delete_rule(&mut self, table: Table<'_>, chain: &str, handle: u64) {
        let about = format!("removing rule {handle} from chain {chain} of {table}");
        let mut request = self.request(abi::DELRULE, 0, table.family, about);
        request.text(abi::RULE_TABLE, table.name).text(abi::RULE_CHAIN, chain);
        request.be64(abi::RULE_HANDLE, handle);
    }

    /// Removes all rules of all chains of a table.
    pub fn delete_rules(&mut self, table: Table<'_>) {
        let about = format!("removing the rules of {table}");
        self.request(abi::DELRULE, 0, table.family, about).text(abi::RULE_TABLE, table.name);
    }

    /// Adds an element that must not be there yet (EEXIST). `about` names it for an error.
    pub fn add_element(&mut self, table: Table<'_>, set: &str, element: &Element, about: String) {
        self.element(abi::NEWSETELEM, CREATE | EXCLUSIVE, (table, set, about), element);
    }

    /// Adds an element unless it exists; one with another value is EEXIST.
    pub fn ensure_element(
        &mut self,
        table: Table<'_>,
        set: &str,
        element: &Element,
        about: String,
    ) {
        self.element(abi::NEWSETELEM, CREATE, (table, set, about), element);
    }

    /// Removes an element, which must be there (ENOENT); only its key counts.
    pub fn delete_element(
        &mut self,
        table: Table<'_>,
        set: &str,
        element: &Element,
        about: String,
    ) {
        let key = Element::of(element.key.clone());
        self.element(abi::DELSETELEM, 0, (table, set, about), &key);
    }

    /// Adds an interval to a set of [`super::Lookup::Interval`]; none of its keys may be in the set
    /// yet (EEXIST). Several are added in ascending order.
    pub fn add_interval(
        &mut self,
        table: Table<'_>,
        set: &str,
        interval: &super::Interval,
        about: String,
    ) {
        let mut request = self.request(abi::NEWSETELEM, CREATE | EXCLUSIVE, table.family, about);
        request.text(abi::ELEMENTS_TABLE, table.name).text(abi::ELEMENTS_SET, set);
        interval.write(&mut request);
    }

    /// Removes every element of a set.
    pub fn clear_set(&mut self, table: Table<'_>, set: &str) {
        let about = format!("clearing set {set} of {table}");
        let mut request = self.request(abi::DELSETELEM, 0, table.family, about);
        request.text(abi::ELEMENTS_TABLE, table.name).text(abi::ELEMENTS_SET, set);
    }

    fn element(
        &mut self,
        message: u16,
        flags: u16,
        (table, set, about): (Table<'_>, &str, String),
        element: &Element,
    ) {
        let mut request = self.request(message, flags, table.family, about);
        request.text(abi::ELEMENTS_TABLE, table.name).text(abi::ELEMENTS_SET, set);
        element.write(&mut request);
    }

    pub(super) fn request(
        &mut self,
        message: u16,
        flags: u16,
        family: Family,
        about: String,
    ) -> Request<'_> {
        let mut request = self.batch.request(kind(message), flags, about);
        request.bytes(&header(family.number(), 0));
        request
    }

    /// Makes the changes. Without any, nothing happens. What the kernel had no room or no time
    /// for (ENOBUFS, EBUSY, EINTR) is tried again.
    ///
    /// # Errors
    /// As [`Socket::send`]; what was refused is in the [`Outcome`], with the change it was.
    pub fn commit(mut self, socket: &mut Socket) -> Result<Outcome> {
        if self.is_empty() {
            return Ok(Outcome::default());
        }
        self.end();
        for _ in 1..ATTEMPTS {
            let outcome = socket.send(&mut self.batch.clone())?;
            if !outcome.failures().iter().any(passes) {
                return Ok(outcome);
            }
        }
        socket.send(&mut self.batch)
    }

    /// As [`Transaction::commit`], with the first refusal as an error.
    ///
    /// # Errors
    /// As [`Failure::into_error`].
    pub fn apply(self, socket: &mut Socket) -> Result<()> {
        self.commit(socket)?.into_result()
    }

    /// Closes the batch. The last change is acknowledged, not the end of the batch: that the kernel
    /// answers only from 6.10 on.
    fn end(&mut self) {
        // The result is read with the batch's answers.
        let _ = self.batch.acknowledged();
        let mut end = self.batch.request(abi::BATCH_END, 0, "changing the nftables ruleset");
        end.bytes(&header(0, abi::BATCH_RESOURCE));
    }
}

/// Removes a table with everything in it. A missing one is done.
///
/// # Errors
/// Where the process may not change it.
pub fn remove_table(socket: &mut Socket, table: Table<'_>) -> Result<()> {
    let mut transaction = Transaction::new();
    transaction.delete_table(table);
    transaction.commit(socket)?.except(Errno::NOENT).into_result()
}

/// Whether the same change may be made a moment later.
fn passes(failure: &Failure) -> bool {
    matches!(failure.errno, Errno::BUSY | Errno::NOBUFS | Errno::INTR | Errno::AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nft::Tuple;

    /// The bytes that nft(8) 1.0.6 sends for the same, but for its set id and the flags.
    #[test]
    fn an_element_is_what_nft_sends() {
        let table = Table { family: Family::Inet, name: "spoke" };
        let key = Tuple::new().address("1.2.3.4".parse().unwrap()).protocol(6).service(80);
        let data = Tuple::new().address("1.2.3.5".parse().unwrap()).service(81);
        let comment = Some("own".parse().unwrap());
        let element = Element { data: Some(data), comment, ..Element::of(key) };
        let mut transaction = Transaction::new();
        transaction.add_element(table, "dnat4_host", &element, "adding".to_owned());
        transaction.end();
        let bytes = transaction.batch.seal(1).to_vec();
        let begin = [20, 0, 0, 0, 16, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10];
        let end = [20, 0, 0, 0, 17, 0, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10];
        let message: &[&[u8]] = &[
            &[104, 0, 0, 0, 12, 10, 5, 6, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
            &[10, 0, 1, 0, b's', b'p', b'o', b'k', b'e', 0, 0, 0],
            &[15, 0, 2, 0],
            b"dnat4_host\0\0",
            &[56, 0, 3, 0x80, 52, 0, 1, 0x80],
            &[20, 0, 1, 0x80, 16, 0, 1, 0, 1, 2, 3, 4, 6, 0, 0, 0, 0, 80, 0, 0],
            &[16, 0, 2, 0x80, 12, 0, 1, 0, 1, 2, 3, 5, 0, 81, 0, 0],
            &[10, 0, 6, 0, 0, 4, b'o', b'w', b'n', 0, 0, 0],
        ];
        assert_eq!(bytes, [&begin[..], &message.concat(), &end[..]].concat());
    }

    #[test]
    fn a_rule_is_what_nft_sends() {
        let table = Table { family: Family::Inet, name: "t" };
        let mut transaction = Transaction::of_generation(7);
        transaction.add_rule(table, "c", RulePosition::Tail, &[Expression::Masquerade]);
        let bytes = transaction.batch.seal(1).to_vec();
        let expected: &[&[u8]] = &[
            &[28, 0, 0, 0, 16, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10],
            &[8, 0, 1, 0, 0, 0, 0, 7],
            &[60, 0, 0, 0, 6, 10, 1, 12, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
            &[6, 0, 1, 0, b't', 0, 0, 0, 6, 0, 2, 0, b'c', 0, 0, 0],
            &[24, 0, 4, 0x80, 20, 0, 1, 0x80, 9, 0, 1, 0],
            &[b'm', b'a', b's', b'q', 0, 0, 0, 0, 4, 0, 2, 0x80],
        ];
        let expected = expected.concat();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn nothing_to_change_is_not_sent() {
        assert!(Transaction::new().is_empty());
    }
}
