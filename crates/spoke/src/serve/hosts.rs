//! Many hosts: the daemon is the one process of a host that speaks to etcd.
//!
//! | thread | does |
//! |---|---|
//! | `hosts` | holds the lease, makes this host's networks, entries and published endpoints equal to the cluster's |
//! | `hosts-book` | learns of attachments from the store |
//! | `hosts-guard` | puts the packet filter before the VXLAN port back when it is removed |
//! | `hosts-ask` | answers the command line |
//! | `hosts-watch` | hears of changes in etcd, one for each session |

mod announce;
mod ask;
mod attached;
mod blocks;
mod check;
mod guard;
mod keep;
mod local;
mod make;
mod member;
mod overlay;
mod pin;
mod pins;
mod tunnel;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cluster::{Change, Revision, View};
use model::{Error, HostName, Mac, NetworkName, Result, Timestamp};

use super::Daemon;
use super::sockets::{self, Made};
use crate::hosts;
use member::Member;

/// What the threads share.
pub(super) struct Hosts {
    place: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
    wake: Mutex<Sender<Wake>>,
}

/// What is known.
#[derive(Default)]
struct State {
    /// As which host this one is a member, where it is one.
    member: Option<Member>,
    /// The cluster, as it was read last.
    view: Option<View>,
    /// Whether this host leaves a cluster whose etcd has lost its records.
    leaving: bool,
    /// Since when etcd does not answer, and what was said.
    lost: Option<(Timestamp, String)>,
    /// What does not work, by network.
    failures: BTreeMap<NetworkName, String>,
    /// What does not work between this host and the others.
    broken: Vec<String>,
    /// The members from which VXLAN packets are taken, while this host has networks of many hosts.
    guarded: Option<BTreeSet<Ipv4Addr>>,
    /// The hosts whose addresses may be taken over.
    gone: BTreeSet<HostName>,
    /// Addresses that other hosts gave to this one a moment ago, for a container that has none yet.
    fresh: BTreeMap<(NetworkName, Ipv4Addr), Instant>,
    /// What others wrote that is not used.
    refused: Vec<String>,
    /// The containers of this host on every network, once the store was read.
    attached: Option<Attached>,
}

/// What containers of this host have.
#[derive(Clone, Debug, Default)]
struct Attached {
    /// Their addresses, and the hardware addresses.
    macs: BTreeMap<(NetworkName, Ipv4Addr), Mac>,
    /// Addresses that are leased, also before there is an interface.
    leases: BTreeSet<(NetworkName, Ipv4Addr)>,
}

/// Why the keeper goes on.
enum Wake {
    /// The cluster changed, in this session.
    Changed(u64, Revision, Vec<Change>),
    /// The watch of this session ended; without an error everything is to be read again.
    Ended(u64, Option<Error>),
    /// Something on this host changed.
    Here,
}

impl Daemon {
    /// Serves the command line, and takes part in the cluster where this host is a member of one.
    ///
    /// The rest of the daemon works without.
    pub(super) fn serve_hosts(self: &Arc<Self>) -> Option<Made> {
        match self.try_to_serve_hosts() {
            Ok(made) => Some(made),
            Err(error) => {
                self.journal.failed("taking part in a cluster of hosts", &error);
                None
            }
        }
    }

    fn try_to_serve_hosts(self: &Arc<Self>) -> Result<Made> {
        let store = &self.context_pool.config().store;
        let (wake, wakes) = mpsc::channel();
        let hosts = Arc::new(Hosts {
            place: hosts::place(&store.state),
            state: Mutex::default(),
            changed: Condvar::new(),
            wake: Mutex::new(wake),
        });
        hosts.lock().member = Member::read(&hosts.place)?;
        let (listener, made) = sockets::bind(&hosts::socket(&store.runtime))?;
        let theirs = Arc::clone(&hosts);
        self.spawn("hosts-book", move |daemon| attached::follow(daemon, &theirs))?;
        let theirs = Arc::clone(&hosts);
        self.spawn("hosts-guard", move |daemon| guard::keep(daemon, &theirs))?;
        let theirs = Arc::clone(&hosts);
        self.spawn("hosts-ask", move |daemon| ask::serve(daemon, &theirs, &listener))?;
        self.spawn("hosts", move |daemon| keep::keep(daemon, &hosts, wakes))?;
        Ok(made)
    }
}

impl Hosts {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whoever waits that what is known has changed.
    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until `is` holds, for at most `limit`; whether it does.
    fn wait(&self, limit: Duration, is: impl Fn(&State) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        let mut state = self.lock();
        while !is(&state) {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, remaining);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn sender(&self) -> Sender<Wake> {
        self.wake.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has the keeper look again.
    fn nudge(&self) {
        // It fails only where the daemon ends.
        let _ = self.sender().send(Wake::Here);
    }
}
