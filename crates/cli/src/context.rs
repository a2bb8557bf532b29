//! The context of commands: everything outside the process that they read and change. The binary wires it.

use std::path::PathBuf;
use std::sync::Arc;

use ::docker::api::Container;
use ::host::cloud::Listed;
use ::host::dataplane::Foreign;
use ::host::engines::Networks;
use ::host::facts::HostFacts;
use ::host::kurma::Host;
use ::neutron::Neutron;
use engine::Engine;
use model::{Backend, PortMap, Result, Timestamp};

/// Everything outside the process that commands read or change.
pub struct CommandContext<'a> {
    /// Opens the store; called only by commands that need it.
    pub engine: &'a dyn Fn() -> Result<Engine<'a>>,
    /// The kernel's links, routes and packet filter of this host.
    pub facts: &'a dyn Fn() -> Result<HostFacts>,
    /// The program that listens on a port of this host.
    pub taken: &'a dyn Fn(&PortMap) -> linux::Taken,
    /// The root of the file system: `/`, or a test's directory.
    pub root: PathBuf,
    /// The running executable, which `cni install` copies.
    pub executable: PathBuf,
    /// Where the daemon's sockets are.
    pub runtime: PathBuf,
    /// The directories that the book is kept in.
    pub store: Vec<PathBuf>,
    /// The packet filter that new networks use.
    pub backend: Backend,
    /// The time.
    pub now: Timestamp,
    /// The socket at which Docker calls.
    pub socket: PathBuf,
    /// The networking pod.
    pub kurma: Host,
    /// Whether this host resolves names of its networks.
    pub names_host: bool,
    /// The socket at which Docker calls the plugin kuryr, where that is served.
    pub kuryr: Option<PathBuf>,
    /// Neutron, where this host is configured for one.
    pub neutron: &'a dyn Fn() -> Result<Option<Arc<Neutron>>>,
    /// The ids of the networks that the Docker Engines of this host list; `None` where not all of them
    /// answer, or none is asked.
    pub listed: &'a dyn Fn() -> Option<Listed>,
    /// The same with their drivers, also of those engines alone that answer.
    pub docker_networks: &'a dyn Fn() -> Networks,
    /// What Docker calls the driver, by this host's configuration; none where that serves no plugin.
    pub docker_driver: Option<String>,
    /// The third-party Docker plugins.
    pub foreign: &'a dyn Fn() -> Result<Arc<Foreign>>,
    /// The running containers of each Docker Engine of this host, `NotFound` where there is none; called only where
    /// Docker maps ports, or these are listed.
    pub running: &'a dyn Fn() -> Vec<Result<Vec<Container>>>,
    /// Whether a container of a Docker Engine of this host runs, by its name; `None` where none has it. Called only for
    /// names that the book has not.
    pub runs: &'a dyn Fn(&str) -> Option<bool>,
    /// Reports the changes of attachments' records, for commands that follow them.
    pub watch: &'a dyn Fn() -> Result<store::Watch>,
    /// Where the daemon writes what happens.
    pub events: PathBuf,
    /// Runs the daemon until it is stopped.
    pub serve: &'a dyn Fn() -> Result<()>,
    /// Calls the service manager of this host; `None` where there is none.
    pub systemctl: Option<&'a Report<'a>>,
}

/// Calls another program.
pub type Report<'a> = dyn Fn(&[&str]) -> Result<()> + 'a;
