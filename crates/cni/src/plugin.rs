//! The plugins: each turns its configuration into what the engine understands.

mod bandwidth;
mod bridge;
mod configuration;
mod device;
mod dummy;
mod firewall;
mod ipam;
mod ipvlan;
mod joined;
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

use model::{IfName, InterfaceAddress, Labels, Layer, NetworkName, Stage, Wiring};

pub(crate) use configuration::{plan, remnant};

use crate::call::Call;
use crate::plugin_type::Plugin;
use crate::source::Source;
use crate::wire::Object;

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
