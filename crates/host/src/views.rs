//! What the commands show and the daemon reports alike. The command line makes it, and the binary hands it to the
//! daemon: neither names the other.

use std::collections::BTreeSet;
use std::sync::Arc;

use config::Config;
use docker::api::Container;
use engine::{Engine, Finding};
use model::{Network, NetworkName, Result, Runtime};
use neutron::Neutron;
use page::{Content, View};
use remote::{CleanupSubject, PendingCleanup};

use crate::cloud::Listed;
use crate::dataplane::Foreign;
use crate::facts::HostFacts;

/// The engine over what this thread has open.
pub type OpenEngine<'a> = dyn Fn() -> Result<Engine<'a>> + 'a;

/// What a view is filled with, and sentences about what is missing.
pub type Filled = (Content, Vec<String>);

/// What the daemon has of the command line.
#[derive(Clone, Copy)]
pub struct Views {
    /// A view's content, and why something may be missing there; `None` for what is no document.
    pub content:
        for<'a> fn(&View, &'a OpenEngine<'a>, &Config, &Outside<'a>) -> Result<Option<Filled>>,
    /// Each subnet of this host that one of these networks and another one use, as `spoke doctor` says it.
    pub clashes: for<'a> fn(&'a OpenEngine<'a>, &Config, &[Network]) -> Result<BTreeSet<Clash>>,
    /// How full each pool of networks is, as `spoke ipam show` says it.
    pub pools: fn(&Engine, &[Network]) -> Result<Vec<PoolUse>>,
    /// A finding's kind, and a sentence about it, as `spoke gc` says it.
    pub finding: fn(&Finding) -> (&'static str, String),
}

/// What the daemon has that a view may need.
pub struct Outside<'a> {
    /// The kernel's links, routes and packet filter, not older than a few seconds.
    pub facts: &'a dyn Fn() -> Result<HostFacts>,
    /// The running containers of each Docker Engine of this host; `NotFound` where there is none.
    pub running: &'a dyn Fn() -> Vec<Result<Vec<Container>>>,
    /// Whether a container of a Docker Engine runs, by its name; `None` where none has it.
    pub runs: &'a dyn Fn(&str) -> Option<bool>,
    /// Third-party Docker plugins.
    pub foreign: &'a dyn Fn() -> Result<Arc<Foreign>>,
    /// Neutron, where this host is configured for one.
    pub neutron: &'a dyn Fn() -> Result<Option<Arc<Neutron>>>,
    /// The networks that the Docker Engines of this host list.
    pub listed: &'a dyn Fn() -> Option<Listed>,
}

/// A subnet that two networks use.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Clash {
    /// That, and what mends it, with the names of networks in the book: what they are called may be learned later.
    pub sentence: String,
    /// Which of them are in the book, and their runtimes.
    pub networks: Vec<(NetworkName, Runtime)>,
}

/// How full a pool is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolUse {
    /// Its network.
    pub network: String,
    /// Its subnets.
    pub pool: String,
    /// How many addresses are held.
    pub used: u64,
    /// How many can still be allocated.
    pub free: u64,
}

/// The object of the cleanup.
pub fn cleanup_object(cleanup: &PendingCleanup) -> String {
    match &cleanup.who {
        CleanupSubject::Network(name) => format!("network {name}"),
        CleanupSubject::Attachment(id) => id.to_string(),
        CleanupSubject::Unreadable => {
            format!("an unknown object: {} cannot be read", cleanup.log_file)
        }
    }
}
