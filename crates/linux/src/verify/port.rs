//! The settings of a port of a bridge.

use model::{Bridge, Error, Result, Vlans};
use netlink::bridge_vlan::{PortVlan, Tagging};
use netlink::{At, Link, Socket};

use crate::plan::port::{gateway_device, gateway_port, vlan_of_gateway};

/// The container's port, and the gateway of its VLAN.
pub(super) fn check(bridge: &Bridge, there: &Link, port: &Link, socket: &mut Socket) -> Result<()> {
    let set = port.port;
    if bridge.hairpin && !set.is_some_and(|set| set.hairpin) {
        return Err(differs(format!("{} is not in hairpin mode", port.name)));
    }
    if bridge.port.isolated && !set.is_some_and(|set| set.isolated) {
        return Err(differs(format!("{} is not isolated", port.name)));
    }
    let wanted = &bridge.port.vlans;
    if wanted.is_empty() {
        return Ok(());
    }
    if !socket.filters_vlans(there.index)? {
        return Err(differs(format!("bridge {} does not separate VLANs", there.name)));
    }
    vlans(port, wanted, socket)?;
    if vlan_of_gateway(bridge).is_some() {
        let name = gateway_port(&gateway_device(bridge)?)?;
        // The gateway may have been there before us, under a port of another name.
        if let Some(port) = socket.link(At::Name(&name))? {
            vlans(&port, wanted, socket)?;
        }
    }
    Ok(())
}

/// A later plugin may add some, but none that comes without a tag.
fn vlans(port: &Link, wanted: &Vlans, socket: &mut Socket) -> Result<()> {
    match difference(&socket.port_vlans(port.index)?, wanted) {
        Some(what) => Err(differs(format!("{} {what}", port.name))),
        None => Ok(()),
    }
}

fn difference(there: &[PortVlan], wanted: &Vlans) -> Option<String> {
    let has = |number: u16, tagging| {
        there.iter().any(|vlan| (vlan.id.number(), vlan.tagging) == (number, tagging))
    };
    if let Some(id) = wanted.untagged.filter(|id| !has(id.number(), Tagging::Untagged)) {
        return Some(format!("is not in VLAN {id}, untagged"));
    }
    for range in &wanted.tagged {
        let mut numbers = range.first.number()..=range.last.number();
        if let Some(number) = numbers.find(|number| !has(*number, Tagging::Tagged)) {
            return Some(format!("is not in VLAN {number}, tagged"));
        }
    }
    let is_other =
        |vlan: &&PortVlan| vlan.tagging == Tagging::Untagged && wanted.untagged != Some(vlan.id);
    let other = there.iter().find(is_other).filter(|_| !wanted.keep_default)?;
    Some(format!("is in VLAN {}, untagged, besides", other.id))
}

fn differs(what: String) -> Error {
    Error::not_found(what)
}

#[cfg(test)]
mod tests {
    use model::{VlanId, VlanRange};

    use super::*;

    #[test]
    fn missing_and_other_vlans_are_found() {
        let vlan = |number| VlanId::new(number).unwrap();
        let port = |number, tagging| PortVlan { id: vlan(number), tagging };
        let wanted = Vlans {
            untagged: Some(vlan(10)),
            tagged: vec![VlanRange { first: vlan(20), last: vlan(21) }],
            keep_default: false,
        };
        let all = [
            port(10, Tagging::Untagged),
            port(20, Tagging::Tagged),
            port(21, Tagging::Tagged),
            port(99, Tagging::Tagged),
        ];
        assert_eq!(difference(&all, &wanted), None);
        let given = |there: &[PortVlan]| difference(there, &wanted).unwrap();
        assert_eq!(given(&all[1..]), "is not in VLAN 10, untagged");
        assert_eq!(given(&all[..2]), "is not in VLAN 21, tagged");
        let mut with_default = vec![port(1, Tagging::Untagged)];
        with_default.extend(all);
        assert_eq!(given(&with_default), "is in VLAN 1, untagged, besides");
        let keeping = Vlans { keep_default: true, ..wanted };
        assert_eq!(difference(&with_default, &keeping), None);
    }
}
