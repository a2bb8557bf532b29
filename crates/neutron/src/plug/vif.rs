//! How a port is connected, by Neutron's answer.

use model::{DeviceAddress, Error, IfName, Kind, Nesting, Result, ScriptName, Vif, VlanId};
use serde::Deserialize;
use serde_json::Value;

use crate::api::PortResource;
use crate::config::Plugging;
use crate::ovsdb::{Datapath, Ovsdb};

/// The part of `binding:vif_details` that Spoke reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    bridge_name: Option<String>,
    ovs_hybrid_plug: Option<bool>,
    datapath_type: Option<String>,
    #[serde(deserialize_with = "vlan_number")]
    vlan: Option<u16>,
}

/// How the port is to be connected on this host. Where Neutron does not say which datapath its
/// switch has, the switch is asked.
///
/// # Errors
/// [`Kind::Denied`] where Neutron may not tell this account; [`Kind::Invalid`] where the port is
/// bound to no host; [`Kind::TryAgain`] where Neutron could not bind it, or the switch does not
/// answer; [`Kind::NotFound`] where the switch lacks the bridge; [`Kind::Unsupported`] where
/// containers cannot be connected so.
pub fn vif_of(port: &PortResource, plugging: &Plugging) -> Result<Vif> {
    vif(port, plugging, |bridge| {
        let found = Ovsdb::connect(&plugging.ovsdb)?.bridge(bridge)?;
        found.map(|bridge| bridge.datapath).ok_or_else(|| {
            Error::not_found(format!(
                "port {}: Open vSwitch has no bridge {bridge}: is it what Neutron's agent on this \
                 host integrates its ports with?",
                port.id
            ))
        })
    })
}

/// How a port of a nested container is connected, where that is known without Neutron: a subport's VLAN
/// is not.
pub fn nested(nesting: &Nesting) -> Option<Vif> {
    match nesting {
        Nesting::Macvlan { parent, mode } => {
            Some(Vif::Macvlan { parent: parent.clone(), mode: *mode })
        }
        Nesting::Ipvlan { parent, mode } => {
            Some(Vif::Ipvlan { parent: parent.clone(), mode: *mode })
        }
        Nesting::Trunk { .. } => None,
    }
}

fn vif(
    port: &PortResource,
    plugging: &Plugging,
    datapath: impl Fn(&IfName) -> Result<Datapath>,
) -> Result<Vif> {
    let vif_type = bound(port)?;
    let details = details(port)?;
    match port.vnic_type.as_deref() {
        Some("direct" | "direct-physical") => return function(port, &details),
        Some("macvtap" | "baremetal" | "virtio-forwarder" | "smart-nic" | "vdpa") => {
            return Err(unsupported(port, "has a VNIC type that no container can be given"));
        }
        _ => {}
    }
    let bridge = |default: &dyn Fn() -> Result<IfName>| match &details.bridge_name {
        Some(name) => name.parse().map_err(|error: Error| error.context(reported(port))),
        None => default(),
    };
    match vif_type {
        "ovs" => {
            let bridge = bridge(&|| Ok(plugging.bridge.clone()))?;
            let path = match details.datapath_type.as_deref() {
                Some(path) if !path.is_empty() => Datapath::from(path),
                _ => datapath(&bridge)?,
            };
            let offload = path == Datapath::Kernel;
            Ok(match details.ovs_hybrid_plug {
                Some(true) => Vif::OvsHybrid { bridge, offload },
                Some(false) | None => Vif::Ovs { bridge, offload },
            })
        }
        "bridge" => {
            let bridge = bridge(&|| super::named("brq", &port.network_id))?;
            Ok(Vif::Bridge { bridge })
        }
        "tap" => Ok(Vif::Tap),
        other => script(port, other, plugging),
    }
}

/// The port's VIF type, if it is bound to a host.
fn bound(port: &PortResource) -> Result<&str> {
    match port.vif_type.as_deref() {
        None => Err(Error::new(
            Kind::Denied,
            format!(
                "{}: Neutron does not say how it is bound: by default only administrators and \
                 services may bind ports and see how",
                reported(port)
            ),
        )),
        Some("binding_failed") => Err(Error::try_again(format!(
            "{}: Neutron could not bind it to host {}: is there an agent of Neutron, alive and under \
             that name, which knows the network?",
            reported(port),
            port.host().unwrap_or("?")
        ))),
        Some("unbound" | "") => Err(Error::invalid(format!(
            "{}: it is bound to no host (binding:host_id is empty)",
            reported(port)
        ))),
        Some(vif_type) => Ok(vif_type),
    }
}

/// A program of the operator's for every other type.
fn script(port: &PortResource, vif_type: &str, plugging: &Plugging) -> Result<Vif> {
    match vif_type {
        "vhostuser" | "hw_veb" | "hostdev_physical" | "distributed" => {
            Err(unsupported(port, &format!("has VIF type {vif_type}, which is not for containers")))
        }
        _ if plugging.bindir.is_none() => Err(unsupported(
            port,
            &format!(
                "has VIF type {vif_type}, and there is no directory with programs for such (bindir)"
            ),
        )),
        _ => {
            let name = ScriptName::try_from(vif_type.to_owned())
                .map_err(|error| error.context(reported(port)))?;
            let details = port.vif_details.as_ref().map(Value::to_string).unwrap_or_default();
            Ok(Vif::Script { name, details })
        }
    }
}

/// A virtual function of a network card. The port's owner or Nova chose which one.
fn function(port: &PortResource, details: &Details) -> Result<Vif> {
    let slot = port.profile.as_ref().and_then(|profile| profile.pci_slot.clone());
    let slot = slot.ok_or_else(|| {
        Error::invalid(format!(
            "{}: it names no function of a card (binding:profile, pci_slot)",
            reported(port)
        ))
    })?;
    let vlan =
        match details.vlan.filter(|vlan| *vlan != 0) {
            Some(number) => Some(VlanId::new(number).ok_or_else(|| {
                Error::invalid(format!("{}: {number} is no VLAN", reported(port)))
            })?),
            None => None,
        };
    Ok(Vif::Function { slot: DeviceAddress::try_from(slot)?, vlan })
}

fn details(port: &PortResource) -> Result<Details> {
    match &port.vif_details {
        None | Some(Value::Null) => Ok(Details::default()),
        Some(reported_details) => Details::deserialize(reported_details).map_err(|error| {
            Error::invalid(format!("{}: binding:vif_details", reported(port))).because(error)
        }),
    }
}

/// A VLAN is a number, or a text with one.
fn vlan_number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u16>, D::Error> {
    match Option::<Value>::deserialize(from)? {
        None => Ok(None),
        Some(Value::Number(number)) => number
            .as_u64()
            .and_then(|number| u16::try_from(number).ok())
            .map(Some)
            .ok_or_else(|| serde::de::Error::custom("vlan is no VLAN")),
        Some(Value::String(text)) => text.parse().map(Some).map_err(serde::de::Error::custom),
        Some(_) => Err(serde::de::Error::custom("vlan is no VLAN")),
    }
}

fn reported(port: &PortResource) -> String {
    format!("port {}", port.id)
}

fn unsupported(port: &PortResource, why: &str) -> Error {
    Error::unsupported(format!("{} {why}", reported(port)))
}

#[cfg(test)]
mod tests;
