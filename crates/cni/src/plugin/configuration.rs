//! What a call's configuration means, by its plugin.

use model::{InterfaceNamespace, LinkKind, Parent, Result, Wiring};

use super::{
    Plan, bandwidth, bridge, device, dummy, firewall, ipam, ipvlan, link, loopback, macvlan,
    parent, portmap, ptp, source_routing, spoke, tap, tuning, vlan, vrf,
};
use crate::call::Call;
use crate::plugin_type::Plugin;
use crate::source;

/// Reads the configuration.
pub(crate) fn plan(call: &Call<'_>) -> Result<Plan> {
    match call.plugin {
        Plugin::Bandwidth => bandwidth::plan(call),
        Plugin::Bridge => bridge::plan(call),
        Plugin::Dhcp | Plugin::HostLocal | Plugin::Static => ipam::plan(call),
        Plugin::Dummy => dummy::plan(call),
        Plugin::Firewall => firewall::plan(call),
        Plugin::HostDevice => device::plan(call),
        Plugin::Ipvlan => ipvlan::plan(call),
        Plugin::Loopback => loopback::plan(call),
        Plugin::Macvlan => macvlan::plan(call),
        Plugin::Portmap => portmap::plan(call),
        Plugin::Ptp => ptp::plan(call),
        Plugin::Sbr => source_routing::plan(call),
        Plugin::Spoke => spoke::plan(call),
        Plugin::Tap => tap::plan(call),
        Plugin::Tuning => tuning::plan(call),
        Plugin::Vlan => vlan::plan(call),
        Plugin::Vrf => vrf::plan(call),
    }
}

/// The basis of DEL where the configuration is not understood: the identity, that this plugin
/// made something for it, and what is readable of the address source.
pub(crate) fn remnant(call: &Call<'_>) -> Plan {
    let parent = || {
        let unknown = Parent { name: None, place: InterfaceNamespace::Host, vlan: None };
        parent::parent(&call.config.root()).unwrap_or(unknown)
    };
    let wiring = match call.plugin {
        Plugin::Bandwidth => bandwidth::remnant(),
        Plugin::Bridge | Plugin::Ptp | Plugin::Spoke => link::remnant(call),
        Plugin::Dummy => link::alone(LinkKind::Dummy, None),
        Plugin::Firewall => firewall::remnant(call),
        Plugin::HostDevice => device::remnant(call),
        Plugin::Ipvlan => ipvlan::remnant(parent()),
        Plugin::Macvlan => macvlan::remnant(parent()),
        Plugin::Sbr => source_routing::remnant(),
        Plugin::Tap => tap::remnant(),
        Plugin::Tuning => tuning::remnant(call),
        Plugin::Vlan => vlan::remnant(call, parent()),
        Plugin::Dhcp
        | Plugin::HostLocal
        | Plugin::Static
        | Plugin::Loopback
        | Plugin::Portmap
        | Plugin::Vrf => Wiring::default(),
    };
    Plan { wiring, source: source::remnant(call), ..Plan::default() }
}
