//! nftables over netlink, without executing a program (`linux/netfilter/nf_tables.h`).
//!
//! A [`Transaction`] changes tables, chains, sets, rules and elements: all of it or nothing. Other
//! functions list them. What is written looks to nft(8) as if nft(8) itself had written it,
//! comments included.

mod abi;
mod comment;
mod counter;
mod data;
mod expiring;
mod expression;
mod interval;
mod list;
mod named;
mod news;
mod object;
mod quota;
mod shape;
mod step;
mod transaction;
mod tuple;
mod typeof_key;
mod verify;
mod whole;

pub use comment::Comment;
pub use counter::{Count, counter_users, counters, users_of_counters};
pub use data::{Element, Field, Lookup, ObjectKind, Set};
pub use expiring::{Between, Expiring, between, expiring};
pub use expression::{Answer, Conntrack, Expression, Meta, Original, Register, Verdict};
pub use interval::{Interval, intervals};
pub(crate) use list::read_anything;
pub use list::{
    Chain, Rule, chain, chain_exists, chains, elements, find, generation, is_supported, rules,
    table_handle, tables,
};
pub use news::{News, Object};
pub(crate) use news::{author, read as read_news};
pub use object::{Base, ChainKind, Family, Hook, Policy, Table};
pub use quota::{QuotaState, quota, quota_matches, quotas};
pub use shape::Shape;
pub use step::{Datum, Decision, Header, Register32, Step};
pub use transaction::{RulePosition, Transaction, remove_table};
pub use tuple::Tuple;
pub use verify::verify;
pub use whole::{
    AnyChain, AnyHook, AnyRule, AnySet, Keys, all_chains, all_rules, all_sets, keys, seek,
};

#[cfg(test)]
mod tests;
