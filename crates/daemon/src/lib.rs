//! `spoke serve`: the work that needs a long-lived process. It serves Docker's sockets, watches the
//! packet filter and the subnets of this host, reconciles, and reports events and metrics.
//!
//! Plugins and commands do not need it: they open the same store themselves. It keeps nothing that a
//! restart would lose.

mod client_files;
mod context_pool;
pub mod dhcp;
mod docker_backend;
mod docker_tcp;
mod elsewhere;
mod event_log;
mod fd_store;
mod fence;
mod filter_watch;
mod follow;
mod guests;
mod hosts;
mod journal;
mod kurma;
mod kuryr;
mod log;
mod masquerade;
mod metrics;
mod names;
mod neutron;
mod notify;
mod observe;
mod ports;
mod quota;
mod rate;
mod reconcile;
mod recorded;
mod remains;
mod remote;
mod sockets;
mod store_watch;
mod via;
mod web;

use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use config::{Config, Level, Listen, Scope};
use docker::server::{InFlight, Limits, Listener, Plugin, Server, Stopper};
use host::event::{Event, What};
use host::host_context::HostContext;
use host::time;
use host::views::Views;
use host::web::http::HttpListener;
use model::{Error, Result};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::context_pool::ContextPool;
use crate::sockets::{Inherited, Only, SocketFile, SocketsByName};
use docker_backend::Stage;
use docker_tcp::Spec;
use filter_watch::Subscriptions;
use journal::Journal;

/// The stack of a thread, in bytes; only what it uses is allocated.
const STACK: usize = 512 << 10;

/// Says, in the environment, that Docker manages this daemon, and what it calls it
/// (packaging/plugin/config.json).
const MANAGED: &str = "SPOKE_PLUGIN";

/// Docker's unanswered calls, below the runtime directory.
const CALLS: &str = "calls";

/// The kernel's parameters.
const PARAMETERS: &str = "/proc/sys";

/// The state that all threads of the daemon share.
pub(crate) struct Daemon {
    context_pool: ContextPool,
    journal: Arc<Journal>,
    stop: netlink::Stop,
    stopped: (Mutex<bool>, Condvar),
    /// The thread that answers queries for names, which takes back what leads them here.
    names: Mutex<Option<JoinHandle<()>>>,
    /// What containers of other hosts are called.
    elsewhere: elsewhere::Elsewhere,
    /// What the next life of the daemon has of this one.
    fd_store: Arc<fd_store::FdStore>,
    /// What opens the fences of networks for names.
    fence: Arc<fence::FenceGate>,
    /// The address of this host and those of the others, where it is in a cluster and has heard of it.
    members: Mutex<Option<hosts::Members>>,
    /// The ways out of networks.
    ways: Mutex<via::Ways>,
    /// What this host knows of others.
    many: OnceLock<Arc<hosts::Hosts>>,
    /// Which of Docker's engines restore containers that went on without them. One that does not answer is not there.
    restoring: Mutex<BTreeMap<PathBuf, bool>>,
    /// What it reports as commands show it.
    views: Views,
}

/// Why the daemon ends.
enum DaemonEnd {
    /// It was asked to.
    Reported,
    /// Docker's server ended by itself.
    Server(Result<()>),
}

/// The sockets, and what ends with the daemon.
struct Listeners {
    docker: Vec<Listener>,
    kuryr: Vec<Listener>,
    dhcp: Option<UnixListener>,
    metrics: Option<HttpListener>,
    /// Of the page, besides its socket.
    web: Option<HttpListener>,
    _made: Vec<SocketFile>,
    /// Of the life before.
    kept: SocketsByName,
    specs: Vec<Spec>,
}

/// A plugin, and where engines reach it.
struct Serving {
    /// The name of a thread, and the thread.
    name: &'static str,
    plugin: Arc<dyn Plugin>,
    listeners: Vec<Listener>,
    /// Engines' unanswered calls, below the runtime directory.
    calls: &'static str,
}

/// Serves until it is stopped. Fails before any change where the configuration cannot be served or
/// another daemon serves already.
pub fn run(mut config: Config, views: Views) -> Result<()> {
    if let Ok(name) = std::env::var(MANAGED) {
        config.docker.driver = Some(name);
        unlock_parameters()?;
    }
    let _only = Only::daemon(&config.store.runtime)?;
    let mut doors = Listeners::open(&config)?;
    let signals = Signals::new([SIGTERM, SIGINT])
        .map_err(|cause| Error::os("listening to signals", cause))?;
    let daemon = Arc::new(Daemon::new(config, std::mem::take(&mut doors.kept), views)?);
    doors.open_dhcp(daemon.context_pool.config(), &daemon.journal);
    let subscriptions = Subscriptions::open()?;
    daemon.raise();
    let result = daemon.serve(doors, subscriptions, signals);
    daemon.end();
    result
}

impl Listeners {
    fn open(config: &Config) -> Result<Self> {
        let mut inherited = Inherited::take()?;
        let mut doors = Self {
            docker: Vec::new(),
            kuryr: Vec::new(),
            dhcp: dhcp::inherited(&mut inherited, config),
            metrics: None,
            web: web::loopback(&config.web)?,
            _made: Vec::new(),
            kept: std::mem::take(&mut inherited.kept),
            specs: Vec::new(),
        };
        doors.open_kuryr(config, &mut inherited)?;
        if config.docker.enabled {
            doors.open_docker(config, inherited)?;
        }
        if config.metrics.enabled {
            doors.metrics = Some(match &config.metrics.listen {
                Listen::Unix(path) => HttpListener::Unix(doors.bind(path)?),
                Listen::Tcp(address) => HttpListener::Tcp(sockets::bind_tcp(*address)?),
            });
        }
        Ok(doors)
    }

    /// Another DHCP daemon may have the socket: then that one is asked.
    fn open_dhcp(&mut self, config: &Config, journal: &Journal) {
        if !config.dhcp.enabled || self.dhcp.is_some() {
            return;
        }
        match self.bind(&config.dhcp.socket) {
            Ok(listener) => self.dhcp = Some(listener),
            Err(error) => {
                journal.log.say(Level::Warn, &format!("DHCP is not served: {error}"), &[]);
            }
        }
    }

    fn open_docker(&mut self, config: &Config, inherited: Inherited) -> Result<()> {
        self.docker.extend(inherited.unix.into_iter().map(Listener::Unix));
        if self.docker.is_empty() {
            let listener = self.bind(&config.docker.socket)?;
            self.docker.push(Listener::Unix(listener));
        }
        let Some(tcp) = &config.docker.tcp else {
            return match inherited.tcp.is_empty() {
                true => Ok(()),
                false => Err(Error::invalid(
                    "a TCP socket was passed to this process, and [docker.tcp] does not say which \
                     certificates to use",
                )),
            };
        };
        let tls = docker_tcp::tls(tcp)?;
        let mut listeners = inherited.tcp;
        if listeners.is_empty() {
            listeners.push(sockets::bind_tcp(tcp.listen)?);
        }
        let listeners = listeners.into_iter().map(|tcp| Listener::Tls(tcp, tls.clone()));
        self.docker.extend(listeners);
        self.specs.extend(tcp.spec.as_ref().map(|spec| Spec::write(spec, tcp)).transpose()?);
        Ok(())
    }

    fn bind(&mut self, path: &std::path::Path) -> Result<std::os::unix::net::UnixListener> {
        let (listener, made) = sockets::bind(path)?;
        self._made.push(made);
        Ok(listener)
    }
}

impl Daemon {
    fn new(config: Config, kept: SocketsByName, views: Views) -> Result<Self> {
        let journal = Arc::new(Journal::new(&config));
        let gate = fence::FenceGate::new(&config, journal.metrics.fence());
        Ok(Self {
            journal,
            fence: Arc::new(gate),
            elsewhere: elsewhere::Elsewhere::new(&config)?,
            members: Mutex::default(),
            ways: Mutex::default(),
            many: OnceLock::new(),
            restoring: Mutex::default(),
            context_pool: ContextPool::new(config),
            stop: netlink::Stop::new()?,
            stopped: (Mutex::new(false), Condvar::new()),
            names: Mutex::new(None),
            fd_store: Arc::new(fd_store::FdStore::new(kept)),
            views,
        })
    }

    /// Makes what a reboot or a flush took, before the first call is answered. Whatever cannot be
    /// made must not keep the rest from working.
    fn raise(&self) {
        if let Err(error) =
            self.context_pool.with(|host_context| host_context.engine().repair.raise_networks())
        {
            self.journal.failed("making the networks of this host", &error);
        }
        if let Err(error) = self.context_pool.with(HostContext::restore) {
            self.journal.failed("putting the packet filter back", &error);
        }
    }

    fn serve(
        self: &Arc<Self>,
        doors: Listeners,
        subscriptions: Subscriptions,
        signals: Signals,
    ) -> Result<()> {
        let (ended, end) = mpsc::channel();
        self.listen(signals, ended.clone())?;
        let (ruleset, network) = subscriptions.split();
        self.spawn("filter", |daemon| filter_watch::filter(daemon, ruleset))?;
        self.spawn("network", |daemon| filter_watch::network(daemon, network))?;
        let (watch, reported) = self.open_book()?;
        self.spawn("event-log", |daemon| daemon.follow_book(watch, reported))?;
        self.spawn("fence", fence::keep)?;
        self.spawn("follow", follow::keep)?;
        self.spawn("fence-log", fence::hear)?;
        self.spawn("via", via::follow)?;
        self.spawn("via-filter", via::guard)?;
        let names = self.spawn("names", names::answer)?;
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = Some(names);
        self.spawn("guests", guests::answer)?;
        self.spawn("reconcile", reconcile::book)?;
        self.spawn("quota", quota::keep)?;
        if neutron::is_needed(self) {
            self.report_passed_over();
            self.spawn("neutron", neutron::keep)?;
        }
        self.spawn("remote", remote::keep)?;
        if self.has_networking_pod() {
            self.spawn("kurma", kurma::keep)?;
        }
        let _hosts = self.serve_hosts();
        let stage = Stage(Arc::clone(self));
        self.spawn("docker-api", move |daemon| reconcile::docker(daemon, &stage))?;
        if let Some(door) = doors.metrics {
            self.spawn("metrics", move |daemon| door.serve_metrics(&|| daemon.figures()))?;
        }
        let _web = self.serve_web(doors.web);
        if let Some(listener) = doors.dhcp {
            self.serve_dhcp(listener);
        }
        let (stopper, stop) = Stopper::pair();
        let servers = [
            self.serve_docker(doors.docker, &stop, &ended)?,
            self.serve_kuryr(doors.kuryr, &stop, &ended)?,
        ];
        let message = format!("serving, version {}", env!("CARGO_PKG_VERSION"));
        self.journal.report(&Event::new(What::Started, time::now(), message));
        if self.context_pool.config().docker.scope == Scope::Global {
            let what = "[docker] scope = \"global\": swarm makes its networks on every node, and each node's bridge is its \
                own: containers of different nodes do not reach each other, but on networks of a cluster (--ipam-opt \
                network=NAME, see `spoke host`)";
            self.journal.warn(what);
        }
        notify::notify("READY=1");
        let result = wait(&end);
        notify::notify("STOPPING=1");
        stopper.stop();
        servers.into_iter().flatten().for_each(|server| drop(server.join()));
        result
    }

    fn serve_docker(
        self: &Arc<Self>,
        listeners: Vec<Listener>,
        stop: &docker::server::Stop,
        ended: &Sender<DaemonEnd>,
    ) -> Result<Option<JoinHandle<()>>> {
        if listeners.is_empty() {
            return Ok(None);
        }
        let plugin = self.plugin()?;
        self.serve_plugin(Serving { name: "docker", plugin, listeners, calls: CALLS }, stop, ended)
    }

    fn serve_plugin(
        self: &Arc<Self>,
        serving: Serving,
        stop: &docker::server::Stop,
        ended: &Sender<DaemonEnd>,
    ) -> Result<Option<JoinHandle<()>>> {
        let Serving { name, plugin, listeners, calls } = serving;
        let server = Server {
            plugin,
            observe: Arc::new(observe::Calls {
                journal: Arc::clone(&self.journal),
                frontend: name,
                rate: rate::Rate::default(),
            }),
            limits: Limits::default(),
            in_flight: self.in_flight(calls),
        };
        let (stop, ended) = (stop.clone(), ended.clone());
        let serve =
            move |_: &Daemon| drop(ended.send(DaemonEnd::Server(server.run(listeners, stop))));
        self.spawn(name, serve).map(Some)
    }

    /// Where Docker's requests outlive a life that is killed. Calls can be answered without.
    fn in_flight(&self, calls: &str) -> Option<InFlight> {
        let directory = self.context_pool.config().store.runtime.join(calls);
        let opened = InFlight::open(&directory, time::since_boot());
        opened.map_err(|error| self.journal.failed("keeping Docker's requests", &error)).ok()
    }

    fn listen(self: &Arc<Self>, mut signals: Signals, ended: Sender<DaemonEnd>) -> Result<()> {
        let wait = move |_: &Daemon| {
            if signals.forever().next().is_some() {
                // The daemon may be ending already.
                let _ = ended.send(DaemonEnd::Reported);
            }
        };
        self.spawn("signals", wait).map(drop)
    }

    fn spawn(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&Self) + Send + 'static,
    ) -> Result<JoinHandle<()>> {
        let daemon = Arc::clone(self);
        thread::Builder::new()
            .name(name.to_owned())
            .stack_size(STACK)
            .spawn(move || work(&daemon))
            .map_err(|cause| Error::os(format!("starting the thread {name}"), cause))
    }

    /// Lets every thread end. What they were about is resumed by the next process, so this one does
    /// not wait for them, but for the one that leads queries for names here.
    fn end(&self) {
        *self.stopped.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stopped.1.notify_all();
        self.stop.stop();
        quota::note(self);
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner).take();
        names.into_iter().for_each(|names| drop(names.join()));
        self.journal.report(&Event::new(What::Stopped, time::now(), "stopped"));
    }

    /// Waits for so long; `true` where the daemon stops.
    fn sleep(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut stopped = self.stopped.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*stopped {
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                break;
            }
            let waited = self.stopped.1.wait_timeout(stopped, remaining);
            stopped = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *stopped
    }

    fn figures(&self) -> Result<String> {
        let read = |host_context: &HostContext| {
            metrics::StoreState::read(&host_context.engine(), self.views.pools)
        };
        let book = self.context_pool.with(read)?;
        self.journal.metrics.text(&book)
    }
}

/// Docker gives a managed plugin the kernel's parameters to read only, in a mount namespace that is
/// the plugin's own; with our capabilities that is a precaution and not a border.
fn unlock_parameters() -> Result<()> {
    let unlocked = mount_remount(PARAMETERS, MountFlags::BIND, "");
    match unlocked {
        // It is no mount of its own: no process locked it.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(cause) => Err(Error::os(format!("making {PARAMETERS} writable"), cause.into())),
    }
}

fn wait(end: &Receiver<DaemonEnd>) -> Result<()> {
    match end.recv() {
        Ok(DaemonEnd::Reported) | Err(_) => Ok(()),
        Ok(DaemonEnd::Server(result)) => result,
    }
}
