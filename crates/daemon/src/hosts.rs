//! Many hosts: the daemon is the one process of a host that speaks to etcd.
//!
//! | thread | does |
//! |---|---|
//! | `hosts` | holds the lease, makes this host's networks, entries and published endpoints equal to the cluster's |
//! | `hosts-book` | learns of attachments from the store, on a host of a cluster |
//! | `hosts-guard` | puts the packet filter before the VXLAN port back when it is removed, on a host of a cluster |
//! | `hosts-echo` | asks the other hosts which of them answer at all, on a host of a cluster |
//! | `hosts-engines` | makes networks of the cluster in the engines of this host, and removes them there |
//! | `hosts-declare` | declares networks that Docker was asked to make on many hosts, once they have names; from the first on |
//! | `hosts-ask` | answers the command line and processes that attach; several on a host of a cluster |
//! | `hosts-watch` | hears of changes in etcd, one for each session |
//! | `hosts-etcd` | keeps this host's server of etcd running, where the cluster has one of its own |
//! | `hosts-listen` | gives certificates to hosts, where this one has the authority's key |

mod addresses;
mod engines;
mod etcd;
mod keep;
mod links;
mod local;
mod make;
mod member;
mod membership;
mod requests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::overlay::{Guard, RouteFilter};
use cluster::{Change, Revision, View};
use host::hosts;
use model::{
    AliasId, Error, HostName, Mac, NetworkName, OwnerName, Result, Runtime, SharedName, Timestamp,
};

use super::Daemon;
use crate::sockets::{self, SocketFile};
use member::Member;
pub(super) use membership::Members;

/// What the threads share.
pub(super) struct Hosts {
    place: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
    wake: Mutex<Sender<Wake>>,
    server: etcd::server::Server,
    /// Held while this host signs certificates for itself.
    signing: Mutex<()>,
    /// The threads that only hosts of a cluster need.
    member: Later,
    /// The threads that only a cluster with an etcd of its own needs.
    own: Later,
    /// The thread that networks of Docker's for many hosts need.
    asking: Later,
}

/// Threads that are started when they are needed; once.
#[derive(Default)]
struct Later(Mutex<Option<Start>>);

type Start = Box<dyn FnOnce() -> Result<()> + Send>;

impl Later {
    fn prepare(&self, start: impl FnOnce() -> Result<()> + Send + 'static) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(start));
    }

    fn start(&self) -> Result<()> {
        let start = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        start.map_or(Ok(()), |start| start())
    }
}

/// What is known.
#[derive(Default)]
struct State {
    /// As which host this one is a member, where it is one.
    member: Option<Member>,
    /// The cluster, as it was read last.
    view: Option<View>,
    /// Whether its networks take no more containers, once they were compared with what is said of it.
    draining: Option<bool>,
    /// Whether this host leaves its cluster, which may not tell it any more that it was removed.
    leaving: bool,
    /// Whether etcd has an older state than was heard of.
    older: etcd::older::Older,
    /// Since when etcd does not answer, and what was said.
    lost: Option<(Timestamp, String)>,
    /// The same by the clock that no program can set, since the host was started.
    unheard: Option<Duration>,
    /// What does not work, by network.
    failures: BTreeMap<NetworkName, String>,
    /// What does not work between this host and the others.
    broken: Vec<String>,
    /// What takes VXLAN packets from members only, while this host has networks of many hosts.
    guarded: Option<Guard>,
    /// Who may send to routed networks, while this host has some.
    filter: Option<RouteFilter>,
    /// The hosts whose addresses may be taken over.
    gone: BTreeSet<HostName>,
    /// The hosts that may have given addresses of this one to others, while etcd does not answer.
    isolated: BTreeSet<HostName>,
    /// Before the lease was renewed last.
    renewed: Option<Instant>,
    /// The hosts that answer no echo also while etcd answers.
    mute: BTreeSet<HostName>,
    /// To which hosts whole packets do not come, in sentences.
    narrow: Vec<String>,
    /// Addresses that other hosts gave to this one a moment ago, for a container that has none yet.
    fresh: BTreeMap<(NetworkName, IpAddr), Instant>,
    /// Addresses that are asked for, or given away, right now.
    locked_addresses: BTreeSet<(NetworkName, IpAddr)>,
    /// What others wrote that is not used.
    refused: Vec<String>,
    /// What etcd does not take of what this host has to say.
    unwritten: Option<String>,
    /// What does not work with the cluster's own etcd.
    untended: Option<String>,
    /// Whether this host has the authority's key, and whether it listens to hosts that want certificates.
    signs: bool,
    is_open: bool,
    /// When this host's server of etcd has to begin anew.
    restart: Option<Instant>,
    /// What is to be said of networks in engines of this host, and which of it is a failure.
    engines: BTreeMap<NetworkName, Vec<engines::Note>>,
    /// Networks that Docker was asked to make on many hosts, and that are not there yet.
    asked: BTreeMap<AliasId, engines::declared::DeclaredNetwork>,
    /// Networks that the cluster has no more, and that were asked of the engines to remove.
    withdrawn: BTreeSet<NetworkName>,
    /// The containers of this host on every network, once the store was read.
    attached: Option<Attached>,
}

impl State {
    /// Whether this daemon has not yet heard of the cluster of which this host is a member, nor found that it cannot.
    fn is_beginning(&self) -> bool {
        self.member.is_some() && self.view.is_none() && self.lost.is_none()
    }
}

/// What containers of this host have.
#[derive(Clone, Debug, Default)]
struct Attached {
    /// Their addresses, and the hardware addresses.
    macs: BTreeMap<(NetworkName, IpAddr), Mac>,
    /// What those are called that have names.
    names: BTreeMap<(NetworkName, IpAddr), (Vec<SharedName>, Runtime)>,
    /// What Docker calls its containers.
    called: BTreeMap<(NetworkName, IpAddr), OwnerName>,
    /// Addresses that are leased, also before there is an interface.
    leases: BTreeSet<(NetworkName, IpAddr)>,
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
    pub(super) fn serve_hosts(self: &Arc<Self>) -> Option<SocketFile> {
        match self.try_to_serve_hosts() {
            Ok(made) => Some(made),
            Err(error) => {
                self.journal.failed("taking part in a cluster of hosts", &error);
                None
            }
        }
    }

    fn try_to_serve_hosts(self: &Arc<Self>) -> Result<SocketFile> {
        let store = &self.context_pool.config().store;
        let (wake, wakes) = mpsc::channel();
        let hosts = Arc::new(Hosts {
            place: hosts::place(&store.state),
            state: Mutex::default(),
            changed: Condvar::new(),
            wake: Mutex::new(wake),
            server: etcd::server::Server::new(store),
            signing: Mutex::default(),
            member: Later::default(),
            own: Later::default(),
            asking: Later::default(),
        });
        hosts.lock().member = Member::read(&hosts.place)?;
        hosts.lock().signs = hosts.files().authority()?.is_some();
        let (listener, made) = sockets::bind(&hosts::socket(&store.runtime))?;
        let listener = Arc::new(listener);
        self.answer_hosts(&hosts, &listener)?;
        self.prepare_member(&hosts, listener);
        self.prepare_own(&hosts);
        self.prepare_asking(&hosts)?;
        drop(self.many.set(Arc::clone(&hosts)));
        let member = hosts.lock().member.clone();
        member.map_or(Ok(()), |member| hosts.serve_as(&member))?;
        self.spawn("hosts", move |daemon| keep::keep(daemon, &hosts, wakes))?;
        Ok(made)
    }
}

impl Daemon {
    fn answer_hosts(
        self: &Arc<Self>,
        hosts: &Arc<Hosts>,
        listener: &Arc<UnixListener>,
    ) -> Result<()> {
        let (hosts, listener) = (Arc::clone(hosts), Arc::clone(listener));
        let work = move |daemon: &Self| requests::serve(daemon, &hosts, &listener);
        self.spawn("hosts-ask", work).map(drop)
    }

    /// What hosts of a cluster need besides, now or when this one becomes one. Containers that attach ask only there.
    fn prepare_member(self: &Arc<Self>, hosts: &Arc<Hosts>, listener: Arc<UnixListener>) {
        let (daemon, hosts, prepared) = (Arc::clone(self), Arc::clone(hosts), hosts);
        prepared.member.prepare(move || {
            let theirs = Arc::clone(&hosts);
            daemon
                .spawn("hosts-book", move |daemon| addresses::attached::follow(daemon, &theirs))?;
            let theirs = Arc::clone(&hosts);
            daemon.spawn("hosts-engines", move |daemon| engines::keep(daemon, &theirs))?;
            let theirs = Arc::clone(&hosts);
            daemon.spawn("hosts-echo", move |daemon| links::isolate::listen(daemon, &theirs))?;
            let theirs = Arc::clone(&hosts);
            daemon.spawn("hosts-guard", move |daemon| links::guard::keep(daemon, &theirs))?;
            (1..requests::AT_ONCE).try_for_each(|_| daemon.answer_hosts(&hosts, &listener))
        });
    }

    /// What a cluster with an etcd of its own needs besides, now or when this host becomes a member of one.
    fn prepare_own(self: &Arc<Self>, hosts: &Arc<Hosts>) {
        let (daemon, theirs) = (Arc::clone(self), Arc::clone(hosts));
        hosts.own.prepare(move || {
            let hosts = Arc::clone(&theirs);
            daemon.spawn("hosts-etcd", move |daemon| etcd::etcd_upkeep::run(daemon, &hosts))?;
            daemon
                .spawn("hosts-listen", move |daemon| etcd::join_server::keep(daemon, &theirs))
                .map(drop)
        });
    }
}

impl Daemon {
    /// What networks of Docker's for many hosts need: from the first on, or where one is unfinished.
    fn prepare_asking(self: &Arc<Self>, hosts: &Arc<Hosts>) -> Result<()> {
        let (daemon, theirs) = (Arc::clone(self), Arc::clone(hosts));
        hosts.asking.prepare(move || {
            let work = move |daemon: &Self| engines::declared::keep(daemon, &theirs);
            daemon.spawn("hosts-declare", work).map(drop)
        });
        hosts.read_asked();
        let is_idle = hosts.lock().asked.is_empty();
        if is_idle { Ok(()) } else { hosts.asking.start() }
    }
}

impl Hosts {
    /// Starts the threads that only a member needs, where they do not run yet.
    fn serve_as(&self, member: &Member) -> Result<()> {
        self.member.start()?;
        if member.own_etcd { self.own.start() } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the threads that wait for a change of what is known.
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
