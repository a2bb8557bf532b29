//! Connecting ports on this host, as the types of VIFs that Neutron names ask for.
//!
//! The kernel's part, a link, is the dataplane's ([`kernel_link`] says which). Here is what has to
//! happen around it, in this order: [`prepare`], the link comes, [`plug`]; [`unplug`], the link goes,
//! [`release`]. Each may be repeated, and the latter two find nothing to do where the former two did not
//! come to it.

mod bridge;
mod function;
mod hybrid;
mod kernel;
mod python;
mod script;
mod vif;

use std::time::Duration;

use model::{Error, IfName, Mac, ResourceId, Result, Vif};
use netlink::{At, Socket};

use crate::config::Plugging;
use crate::ovsdb::{NewPort, Ovsdb, Plugged};

pub use kernel::kernel_link;
pub use vif::{nested, vif_of};

/// Marks the devices that are made here (`IFLA_GROUP`): "spon". None of them is a container's.
pub const GROUP: u32 = 0x7370_6f6e;

/// As long as a container waits for the flows of its port at most: what comes first would be lost.
const INSTALLING: Duration = Duration::from_secs(1);

/// A port that is to be connected, or is.
#[derive(Clone, Copy, Debug)]
pub struct SwitchPort<'a> {
    /// How.
    pub vif: &'a Vif,
    /// The port.
    pub port: &'a ResourceId,
    /// Its network.
    pub network: &'a ResourceId,
    /// Its hardware address.
    pub mac: Mac,
    /// Neutron's `device_id`.
    pub device: &'a str,
    /// The project that it belongs to, where that is known: only scripts get it, when they bind.
    pub project: &'a str,
}

/// Prepares what must exist before the link: a virtual function has its address and VLAN.
///
/// # Errors
/// The kernel's refusal; [`model::Kind::NotFound`] where there is no such function.
pub fn prepare(switch_port: &SwitchPort<'_>) -> Result<()> {
    match switch_port.vif {
        Vif::Function { slot, vlan } => function::give(slot, switch_port.mac, *vlan),
        _ => Ok(()),
    }
}

/// Connects the host's end of the link. Repeating it is no error.
///
/// # Errors
/// [`model::Kind::Conflict`] where another port has the end's name on the switch;
/// [`model::Kind::NotFound`] where the switch or the script is missing; [`model::Kind::TryAgain`] where
/// the switch does not answer, or does not take the port; what the kernel refuses.
pub fn plug(switch_port: &SwitchPort<'_>, plugging: &Plugging) -> Result<()> {
    let end = end_of(switch_port.port)?;
    match switch_port.vif {
        Vif::Ovs { bridge, .. } => join(switch_port, &end, bridge, plugging),
        Vif::OvsHybrid { bridge, .. } => {
            let there = hybrid::make(switch_port.port, &end)?;
            join(switch_port, &there, bridge, plugging)
        }
        Vif::Bridge { bridge } => bridge::join(bridge, &end, &plugging.lock),
        Vif::Script { name, details } => script::bind(switch_port, &end, (name, details), plugging),
        Vif::Tap
        | Vif::Macvlan { .. }
        | Vif::Ipvlan { .. }
        | Vif::Trunk { .. }
        | Vif::Function { .. } => Ok(()),
    }
}

/// Compares what is connected with what [`plug`] made.
///
/// # Errors
/// [`model::Kind::NotFound`] where something of it is missing; [`model::Kind::TryAgain`] where the
/// switch does not answer.
pub fn check(switch_port: &SwitchPort<'_>, plugging: &Plugging) -> Result<()> {
    let end = end_of(switch_port.port)?;
    let holds = match switch_port.vif {
        Vif::Ovs { bridge, .. } => holds(switch_port, &end, bridge, plugging)?,
        Vif::OvsHybrid { bridge, .. } => {
            let there = hybrid::switch_end(switch_port.port)?;
            hybrid::connects(switch_port.port, &end)?
                && holds(switch_port, &there, bridge, plugging)?
        }
        Vif::Bridge { bridge } => bridge::has(bridge, &end)?,
        // The program that connects these does not report it.
        Vif::Tap
        | Vif::Script { .. }
        | Vif::Macvlan { .. }
        | Vif::Ipvlan { .. }
        | Vif::Trunk { .. }
        | Vif::Function { .. } => true,
    };
    match holds {
        true => Ok(()),
        false => Err(Error::not_found(format!(
            "{end} of port {} is not connected to its bridge any more",
            switch_port.port
        ))),
    }
}

/// The opposite, while the link may still exist. A port that is not connected, or that another
/// owner connected, is no error.
///
/// # Errors
/// As [`plug`].
pub fn unplug(switch_port: &SwitchPort<'_>, plugging: &Plugging) -> Result<()> {
    let end = end_of(switch_port.port)?;
    match switch_port.vif {
        Vif::Ovs { .. } => leave(switch_port, &end, plugging),
        Vif::OvsHybrid { .. } => {
            let stray = leave(switch_port, &hybrid::switch_end(switch_port.port)?, plugging);
            stray.and(hybrid::remove(switch_port.port))
        }
        Vif::Bridge { bridge } => bridge::leave(bridge, &end, &plugging.lock),
        Vif::Script { name, details } => {
            script::unbind(switch_port, &end, (name, details), plugging)
        }
        Vif::Tap
        | Vif::Macvlan { .. }
        | Vif::Ipvlan { .. }
        | Vif::Trunk { .. }
        | Vif::Function { .. } => Ok(()),
    }
}

/// The last step, once the link is gone: a virtual function is in no VLAN any more.
///
/// # Errors
/// The kernel's refusal.
pub fn release(switch_port: &SwitchPort<'_>) -> Result<()> {
    match switch_port.vif {
        Vif::Function { slot, .. } => function::take_back(slot),
        _ => Ok(()),
    }
}

/// Removes what is left of a port that no record speaks of: its place on the switch, and what was made
/// between that and its link, which is the dataplane's to remove.
///
/// # Errors
/// As [`unplug`].
pub fn remove_stray(stray: &Plugged, plugging: &Plugging) -> Result<()> {
    let unplugged =
        Ovsdb::connect(&plugging.ovsdb)?.unplug(&stray.end, &stray.port, &stray.device).map(drop);
    unplugged.and(hybrid::remove(&stray.port))
}

/// Removes the host's end of a pair of kuryr-libnetwork's, which has the same name as Spoke's and
/// no mark of Spoke's.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn drop_foreign_end(port: &ResourceId) -> Result<()> {
    let mut socket = Socket::route()?;
    match socket.link(At::Name(&end_of(port)?))? {
        Some(link) if link.group == 0 && link.kind.as_deref() == Some("veth") => {
            bridge::delete(&link, &mut socket)
        }
        Some(_) | None => Ok(()),
    }
}

/// The name of the host's end of a port's link: the one that Neutron's agents search for, and that
/// kuryr-libnetwork gives.
///
/// # Errors
/// None, as ids are short enough.
pub fn end_of(port: &ResourceId) -> Result<IfName> {
    named("tap", port)
}

/// A device that is named after a port.
fn named(prefix: &str, port: &ResourceId) -> Result<IfName> {
    let name = format!("{prefix}{}", port.short());
    name.parse().map_err(|_: Error| Error::bug(format!("{name} is no interface's name")))
}

fn join(
    switch_port: &SwitchPort<'_>,
    end: &IfName,
    bridge: &IfName,
    plugging: &Plugging,
) -> Result<()> {
    let new = NewPort {
        bridge,
        end,
        port: switch_port.port,
        mac: switch_port.mac,
        device: switch_port.device,
    };
    let mut database = Ovsdb::connect(&plugging.ovsdb)?.within(plugging.timeout);
    database.plug(&new)?;
    // A caller that waits for ACTIVE gets an error if the flows are not installed.
    database.is_installed(end, INSTALLING).map(drop)
}

fn holds(
    switch_port: &SwitchPort<'_>,
    end: &IfName,
    bridge: &IfName,
    plugging: &Plugging,
) -> Result<bool> {
    Ovsdb::connect(&plugging.ovsdb)?.holds(bridge, end, switch_port.port)
}

fn leave(switch_port: &SwitchPort<'_>, end: &IfName, plugging: &Plugging) -> Result<()> {
    Ovsdb::connect(&plugging.ovsdb)?.unplug(end, switch_port.port, switch_port.device).map(drop)
}
