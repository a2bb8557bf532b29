//! What the plugin works with.

use engine::Engine;
use model::{Backend, IpNet, NetworkName, Result, Timestamp};
use spec::ManyHosts;

/// The context of the plugin.
pub struct Context<'a> {
    /// The one door.
    pub engine: &'a Engine<'a>,
    /// Where packet filter rules go.
    pub backend: Backend,
    /// The time, for showing only.
    pub now: Timestamp,
    /// Declares a network for many hosts, and waits until this one has it.
    pub declare: &'a dyn Fn(&ManyHosts) -> Result<()>,
    /// Podman's networks, as its files have them.
    pub networks: &'a [Declared],
}

impl Context<'_> {
    /// What a description of a network takes of the host: where packet filter rules go, and the time.
    pub(crate) fn site(&self) -> (Backend, Timestamp) {
        (self.backend, self.now)
    }
}

/// A network of Podman's, by its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The network.
    pub name: NetworkName,
    /// Its subnets.
    pub subnets: Vec<IpNet>,
}
