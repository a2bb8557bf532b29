//! Names of containers over DNS (RFC 1034, RFC 1035), whichever runtime they belong to.
//!
//! [`Table`] is what the records say, [`decide()`] what becomes of a query, and neither does I/O: they are
//! what is fuzzed. [`Server`] listens at the gateways of networks, and asks other servers for the rest.
//! Messages are read and written by `domain`.

mod decide;
mod exchange;
mod fence;
mod fenced_answer;
#[cfg(test)]
mod fixture;
mod holder;
mod listening;
mod opener;
mod outside_query;
mod pending;
mod question;
mod record;
mod refusal;
mod results;
mod reverse;
mod sandbox;
mod server;
mod table;
mod tcp;
mod upstream;
mod write;
mod zone;

pub use decide::{Decision, decide, decide_for_host, lookup};
pub use fence::{Judged, Judgement, Verdict, judge};
pub use fenced_answer::FenceHost;
pub use holder::Holder;
pub use question::Transport;
pub use refusal::{Refusal, Why};
pub use sandbox::{Door, Inside, Leaving, Opened};
pub use server::{Counters, NameSource, Server};
pub use table::{Asker, Entry, Sandbox, ServedGateway, Table};
pub use upstream::host_servers;
pub use zone::reverse_domain;
