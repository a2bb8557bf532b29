//! Notifications: who changed what in the ruleset.

use super::abi::{self, HEADER};
use super::object::Family;
use crate::wire::Message;

/// A kind of object in a ruleset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// A table.
    Table,
    /// A chain, its policy included.
    Chain,
    /// A rule.
    Rule,
    /// A set or map.
    Set,
    /// Elements of a set or map.
    Elements,
}

/// One change of the ruleset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct News {
    /// The changed object.
    pub object: Object,
    /// Whether it is gone, rather than there or different.
    pub gone: bool,
    /// Of the table.
    pub family: Family,
    /// The table.
    pub table: String,
    /// The chain of a rule, or a chain itself; empty otherwise.
    pub chain: String,
    /// The set of elements; empty otherwise.
    pub set: String,
}

/// Reads a notification; `None` if it is about anything else.
pub(crate) fn read(message: &Message<'_>) -> Option<News> {
    let (object, gone) = object(message.kind)?;
    let attributes = message.attributes(HEADER);
    // The table's name is the first attribute of every object.
    let table = attributes.find_kind(abi::TABLE_NAME)?.text()?.to_owned();
    let chain = match object {
        Object::Chain => attributes.find_kind(abi::CHAIN_NAME),
        Object::Rule => attributes.find_kind(abi::RULE_CHAIN),
        Object::Table | Object::Set | Object::Elements => None,
    };
    let chain = chain.and_then(|chain| chain.text()).unwrap_or_default().to_owned();
    let set = attributes.find_kind(abi::ELEMENTS_SET).filter(|_| object == Object::Elements);
    let set = set.and_then(|set| set.text()).unwrap_or_default().to_owned();
    let family = Family::from_number(*message.payload.first()?)?;
    Some(News { object, gone, family, table, chain, set })
}

fn object(message: u16) -> Option<(Object, bool)> {
    let known = [
        (abi::NEWTABLE, Object::Table, false),
        (abi::DELTABLE, Object::Table, true),
        (abi::NEWCHAIN, Object::Chain, false),
        (abi::DELCHAIN, Object::Chain, true),
        (abi::NEWRULE, Object::Rule, false),
        (abi::DELRULE, Object::Rule, true),
        (abi::NEWSET, Object::Set, false),
        (abi::DELSET, Object::Set, true),
        (abi::NEWSETELEM, Object::Elements, false),
        (abi::DELSETELEM, Object::Elements, true),
    ];
    let found = known.into_iter().find(|(number, ..)| abi::kind(*number) == message);
    found.map(|(_, object, gone)| (object, gone))
}

/// The thread that committed the preceding changes, by its number in the initial process namespace;
/// `None` if the message does not end a transaction.
pub(crate) fn author(message: &Message<'_>) -> Option<u32> {
    (message.kind == abi::kind(abi::NEWGEN)).then_some(())?;
    Some(message.attributes(HEADER).find_kind(abi::GEN_THREAD)?.be32().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{Batch, Messages};

    #[test]
    fn reads_a_rule_that_is_gone() {
        let mut batch = Batch::new();
        let mut request = batch.request(abi::kind(abi::DELRULE), 0, "test");
        request.bytes(&abi::header(2, 0));
        request.text(abi::RULE_TABLE, "filter").text(abi::RULE_CHAIN, "FORWARD");
        let bytes = batch.seal(0).to_vec();
        let news = read(&Messages::new(&bytes).next().unwrap()).unwrap();
        assert_eq!((news.object, news.gone, news.family), (Object::Rule, true, Family::Ipv4));
        assert_eq!((news.table.as_str(), news.chain.as_str()), ("filter", "FORWARD"));
    }

    #[test]
    fn reads_of_which_set_elements_are() {
        let mut batch = Batch::new();
        let mut request = batch.request(abi::kind(abi::DELSETELEM), 0, "test");
        request.bytes(&abi::header(1, 0));
        request.text(abi::ELEMENTS_TABLE, "filter").text(abi::ELEMENTS_SET, "known");
        let bytes = batch.seal(0).to_vec();
        let news = read(&Messages::new(&bytes).next().unwrap()).unwrap();
        assert_eq!((news.object, news.gone), (Object::Elements, true));
        assert_eq!((news.table.as_str(), news.chain.as_str()), ("filter", ""));
        assert_eq!(news.set, "known");
    }

    proptest! {
        #[test]
        fn any_notification_is_survived(
            kind in 0x0a00u16..0x0a20,
            payload in proptest::collection::vec(any::<u8>(), 0..256),
        ) {
            let message = Message { kind, flags: 0, sequence: 0, payload: &payload };
            let _ = (read(&message), author(&message));
        }
    }
}
