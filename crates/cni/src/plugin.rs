//! The plugins: each turns its configuration into what the engine understands.

mod bandwidth;
mod bridge;
mod device;
mod dummy;
mod firewall;
mod ipam;
mod ipvlan;
mod joined;
mod kind;
mod link;
mod loopback;
mod macvlan;
mod parent;
mod portmap;
mod ptp;
mod source_routing;
mod spoke;
mod tap;
mod tuning;
mod vlan;
mod vrf;

use std::path::PathBuf;

use model::{
    ContainerId, IfName, InterfaceAddress, Labels, Layer, NetworkName, Result, Sandbox, Stage,
    Wiring,
};

pub use kind::Plugin;

use crate::Context;
use crate::source::Source;
use crate::wire::{Args, Command, Configuration, Environment, Object, Success};

/// A call whose form is right.
pub(crate) struct Call<'a> {
    pub(crate) plugin: Plugin,
    pub(crate) command: Command,
    pub(crate) environment: &'a Environment,
    pub(crate) config: &'a Configuration,
    /// The container and its interface; none in GC and STATUS.
    pub(crate) subject: Option<(ContainerId, IfName)>,
    pub(crate) sandbox: Option<Sandbox>,
    pub(crate) previous: Option<Success>,
    pub(crate) context: &'a Context<'a>,
}

impl Call<'_> {
    /// `CNI_ARGS` without unknown keys.
    pub(crate) fn args(&self) -> Result<Args> {
        Args::parse(&self.environment.args)?.strict()
    }

    /// `CNI_PATH`.
    pub(crate) fn path(&self) -> Vec<PathBuf> {
        let directories = self.environment.path.split(':');
        directories.filter(|directory| !directory.is_empty()).map(PathBuf::from).collect()
    }
}

/// Whether a plugin's configuration describes a network of this host that Spoke makes. One of type `spoke` that says
/// nothing of it joins the network of its list's name.
pub(crate) fn describes_network(root: &Object<'_>) -> bool {
    let named = root.text("type").ok().flatten().and_then(Plugin::named);
    match named {
        Some(Plugin::Spoke) => spoke::describes_network(root),
        Some(plugin) => plugin.layer() == Layer::Link && plugin != Plugin::Loopback,
        None => false,
    }
}

/// The addresses that earlier plugins gave to the container's interface.
fn own_addresses(call: &Call<'_>) -> Vec<InterfaceAddress> {
    match (&call.previous, &call.subject) {
        (Some(previous), Some((_, ifname))) => previous.addresses_of(ifname),
        (_, _) => Vec::new(),
    }
}

/// The meaning of a configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The network, where it is not called as the configuration is.
    pub(crate) network: Option<NetworkName>,
    /// The interface, where the configuration overrides the runtime.
    pub(crate) ifname: Option<IfName>,
    /// What the dataplane makes for every container of the network.
    pub(crate) template: Wiring,
    /// What it makes for this one.
    pub(crate) wiring: Wiring,
    /// Where addresses come from.
    pub(crate) source: Source,
    /// Addresses from earlier plugins.
    pub(crate) addresses: Vec<InterfaceAddress>,
    /// Whether containers with a lasting name keep their addresses.
    pub(crate) sticky: bool,
    /// The labels of the network.
    pub(crate) labels: Labels,
    /// Whether containers can be attached to it, where it was there before.
    pub(crate) stage: Stage,
    /// As [`model::Network::title`].
    pub(crate) title: Option<model::NetworkName>,
    /// Why not, as [`model::Network::unsupported`].
    pub(crate) unsupported: bool,
    /// Whether there is nothing to make.
    pub(crate) idle: bool,
    /// A warning for a person about the configuration.
    pub(crate) note: Option<String>,
    /// The same container's interfaces on further networks.
    pub(crate) further: Vec<Plan>,
}
