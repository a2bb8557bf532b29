//! Queries in sandboxes whose runtime has a server of its own there.
//!
//! What such a container asks comes to sockets in its own sandbox. Spoke answers what it knows, and asks
//! the runtime's server for the rest, which knows the names of networks that are not Spoke's. Behind a fence,
//! and where the network has a way out of its own, that server is asked nothing: it asks others by the host's way.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::Result;

use crate::decide::{Decision, decide};
use crate::question::Transport;
use crate::table::{Asker, Sandbox, Table};

/// How often it is looked for a sandbox that is not there yet: engines tell of it before they make it.
const SOON: Duration = Duration::from_millis(10);
/// How long as often as that; afterwards the engine has given up.
const EAGER: Duration = Duration::from_secs(30);
/// How often it is looked whether sandboxes are still there.
const SWEEP: Duration = Duration::from_secs(1);

/// The way into sandboxes. Threads share it: root in a container can delay it without limit.
pub trait Door: Send + Sync {
    /// Opens sockets in a sandbox and leads to them what its own server is asked. `None` where the sandbox is
    /// not there yet.
    ///
    /// # Errors
    /// Where that cannot be.
    fn enter(&self, sandbox: &Sandbox) -> Result<Option<Opened>>;
}

/// What is open in a sandbox, as long as this value exists.
pub trait Inside: Send + Sync {
    /// A socket that is connected to the runtime's server.
    ///
    /// # Errors
    /// Where there is none, or the sandbox is shut.
    fn udp(&self) -> io::Result<UdpSocket>;

    /// A connection to it.
    ///
    /// # Errors
    /// As [`Inside::udp`].
    fn tcp(&self, limit: Duration) -> io::Result<TcpStream>;

    /// Whether the sandbox is still at its path.
    fn is_there(&self) -> bool;

    /// Whether the sandbox is shut and its packet filter has changed since queries were led here. It takes no time.
    fn is_changed(&self) -> bool;

    /// Leads queries here again. Says whether what led them was gone.
    ///
    /// # Errors
    /// Where that cannot be.
    fn restore(&self) -> Result<bool>;

    /// Its sockets are closed afterwards. It takes no time where others follow ([`Leaving::Renewed`]).
    fn leave(&self, leaving: Leaving);
}

/// Why the sockets in a sandbox are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The container is on no network with names any more: the runtime's server is asked again.
    Gone,
    /// Other sockets follow: what leads queries stays until it leads to them.
    Renewed,
    /// The server ends. The runtime's server is asked again, but not in a sandbox that is shut: nothing that
    /// is asked there leaves it while there is no server.
    Ended,
}

/// The sockets in a sandbox.
pub struct Opened {
    /// For datagrams.
    pub udp: UdpSocket,
    /// For connections.
    pub tcp: TcpListener,
    /// The rest.
    pub inside: Arc<dyn Inside>,
}

/// One that is not there yet.
#[derive(Clone, Copy)]
struct Missing {
    since: Instant,
    /// When it is to be tried.
    next: Instant,
}

/// What is to be closed and what is to be tried to open now, and where queries may be led elsewhere.
pub(crate) type Due = (Vec<Closed>, Vec<Sandbox>, Vec<(Sandbox, Arc<dyn Inside>)>);

/// What is to be closed, where, and why.
pub(crate) type Closed = (PathBuf, Arc<dyn Inside>, Leaving);

/// Those in which queries are answered, and those that are waited for.
#[derive(Default)]
pub(crate) struct Sandboxes {
    generation: Option<u64>,
    held: BTreeMap<Sandbox, Arc<dyn Inside>>,
    /// Those that queries are still led to, though their sockets are closed.
    renewed: BTreeMap<PathBuf, Arc<dyn Inside>>,
    missing: BTreeMap<Sandbox, Missing>,
    swept: Option<Instant>,
    /// Those where something took away what led queries here, and that were reported.
    robbed: BTreeSet<Sandbox>,
    /// The server ends.
    is_over: bool,
}

impl Sandboxes {
    /// What is to be done.
    pub(crate) fn due(&mut self, table: &Table, now: Instant) -> Due {
        let mut closed = self.renew(table, now);
        let mut changed = Vec::new();
        if self.swept.is_none_or(|at| now.saturating_duration_since(at) >= SWEEP) {
            self.swept = Some(now);
            for (sandbox, inside) in self.held.extract_if(.., |_, inside| !inside.is_there()) {
                // No process is in there any more, or it is where it was in a moment.
                closed.push((sandbox.path.clone(), inside, Leaving::Renewed));
                self.missing.insert(sandbox, Missing::new(now));
            }
            let held = self.held.iter().filter(|(_, inside)| inside.is_changed());
            changed.extend(held.map(|(sandbox, inside)| (sandbox.clone(), Arc::clone(inside))));
            self.robbed.retain(|it| self.held.contains_key(it));
        }
        let due = self.missing.iter_mut().filter(|(_, missing)| missing.next <= now);
        let due = due.map(|(sandbox, missing)| {
            let is_eager = now.saturating_duration_since(missing.since) < EAGER;
            missing.next = now + if is_eager { SOON } else { SWEEP };
            sandbox.clone()
        });
        (closed, due.collect(), changed)
    }

    /// What led queries was taken away in a sandbox. Says whether that is new.
    pub(crate) fn is_first_theft(&mut self, sandbox: &Sandbox) -> bool {
        self.held.contains_key(sandbox) && self.robbed.insert(sandbox.clone())
    }

    fn renew(&mut self, table: &Table, now: Instant) -> Vec<Closed> {
        if self.generation == Some(table.sandbox_generation()) {
            return Vec::new();
        }
        self.generation = Some(table.sandbox_generation());
        let wanted = table.sandboxes();
        let paths: BTreeSet<&PathBuf> = wanted.iter().map(|it| &it.path).collect();
        let gone = self.renewed.extract_if(.., |path, _| !paths.contains(path));
        let gone = gone.map(|(path, inside)| (path, inside, Leaving::Gone));
        let mut closed: Vec<Closed> = gone.collect();
        for (sandbox, inside) in self.held.extract_if(.., |it, _| !wanted.contains(it)) {
            if paths.contains(&sandbox.path) {
                closed.push((sandbox.path.clone(), Arc::clone(&inside), Leaving::Renewed));
                self.renewed.insert(sandbox.path, inside);
            } else {
                closed.push((sandbox.path, inside, Leaving::Gone));
            }
        }
        let missing = wanted.into_iter().filter(|it| !self.held.contains_key(it));
        let known = |it: &Sandbox| self.missing.get(it).copied().unwrap_or(Missing::new(now));
        self.missing = missing.map(|it| (it.clone(), known(&it))).collect();
        closed
    }

    /// How soon it is to be looked again; `None` where nothing is missing.
    pub(crate) fn pause(&self, now: Instant) -> Option<Duration> {
        let next = self.missing.values().map(|missing| missing.next).min()?;
        Some(next.saturating_duration_since(now))
    }

    /// One could not be opened: that it will be is not a matter of moments.
    pub(crate) fn failed(&mut self, sandbox: &Sandbox, now: Instant) {
        if let Some(missing) = self.missing.get_mut(sandbox) {
            missing.next = now + SWEEP;
        }
    }

    pub(crate) fn opened(&mut self, sandbox: Sandbox, inside: Arc<dyn Inside>) {
        self.missing.remove(&sandbox);
        self.renewed.remove(&sandbox.path);
        self.held.insert(sandbox, inside);
    }

    /// Whether one that was entered is wanted as it was then.
    pub(crate) fn is_wanted(&self, sandbox: &Sandbox) -> bool {
        self.missing.contains_key(sandbox)
    }

    /// One was entered that is not wanted any more, or not as it was then. Says what it is to be closed for.
    pub(crate) fn unwanted(&mut self, sandbox: Sandbox, inside: &Arc<dyn Inside>) -> Leaving {
        if self.is_over {
            return Leaving::Ended;
        }
        if !self.missing.keys().any(|it| it.path == sandbox.path) {
            return Leaving::Gone;
        }
        self.renewed.insert(sandbox.path, Arc::clone(inside));
        Leaving::Renewed
    }

    /// All of them, which are to be closed: the server ends.
    pub(crate) fn take(&mut self) -> Vec<Closed> {
        self.is_over = true;
        self.missing.clear();
        let held = std::mem::take(&mut self.held).into_iter();
        let held = held.map(|(sandbox, inside)| (sandbox.path, inside));
        let all = held.chain(std::mem::take(&mut self.renewed));
        all.map(|(path, inside)| (path, inside, Leaving::Ended)).collect()
    }
}

impl Missing {
    fn new(now: Instant) -> Self {
        Self { since: now, next: now }
    }
}

/// As [`decide`], in a sandbox. Of a container that nothing leads out of, the runtime's server decides what
/// it is answered; a fence decides here.
pub(crate) fn decide_inside(
    table: &Table,
    asker: &Asker<'_>,
    message: &[u8],
    by: Transport,
) -> Decision {
    let is_closed = || !table.is_shut_for(asker) && table.servers_of(asker).is_none();
    match decide(table, asker, message, by) {
        Decision::Refuse(_) if is_closed() => Decision::Forward(Vec::new()),
        decision => decision,
    }
}
