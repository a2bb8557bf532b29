//! `bridge`: a port of a bridge, as the reference plugin of that name.

use model::{
    Bridge, BridgePort, Error, Fact, Gateway, IfName, Ipam, LinkKind, Result, VlanId, VlanRange,
    Vlans, Wiring,
};

use super::{Plan, link};
use crate::call::Call;
use crate::source;
use crate::wire::{Node, Object};
use crate::words::reported;

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let root = call.config.root();
    let bridge = bridge(&root, "cni0")?;
    let (gateway, left_down) = (bridge.gateway, bridge.port.left_down);
    let template = Wiring {
        masquerade: link::masquerade(call, &root, false)?,
        ..link::alone(LinkKind::Bridge(bridge), link::mtu(&root)?)
    };
    let mut source = source::load(call, link::space(call, gateway))?;
    if left_down && source.ipam != Ipam::None {
        return Err(reported(
            "cannot use IPAM when DisableContainerInterface flag is set",
            ": \"disableContainerInterface\" is true and \"ipam.type\" is not empty",
        ));
    }
    if gateway != Gateway::None {
        source.name_gateways();
    }
    let wiring = with_mac(call, &template)?;
    Ok(Plan { template, wiring, source, ..Plan::default() })
}

/// The template with the hardware address that this container wants.
pub(super) fn with_mac(call: &Call<'_>, template: &Wiring) -> Result<Wiring> {
    Ok(link::with_mac(template, link::mac(call)?))
}

/// The bridge that the configuration describes.
pub(super) fn bridge(root: &Object<'_>, default: &str) -> Result<Bridge> {
    let name: IfName = match root.get("bridge") {
        None => default.parse()?,
        Some(node) => node.parse().map_err(|error: Error| {
            let name = node.text().unwrap_or_default();
            let too_long = name.len() > 15;
            match too_long {
                true => error.about(Fact::Whole(format!(
                    "failed to create bridge {name:?}: could not add {name:?}: numerical result out \
                     of range"
                ))),
                false => error,
            }
        })?,
    };
    let gateway = match (root.flag("isDefaultGateway")?, root.flag("isGateway")?) {
        (true, _) => Gateway::Default,
        (false, true) => Gateway::Address,
        (false, false) => Gateway::None,
    };
    let bridge = Bridge {
        name,
        gateway,
        force_address: root.flag("forceAddress")?,
        hairpin: root.flag("hairpinMode")?,
        host_absent: model::Absence::default(),
        promiscuous: root.flag("promiscMode")?,
        port: port(root)?,
    };
    match bridge.hairpin && bridge.promiscuous {
        false => Ok(bridge),
        true => Err(reported(
            "cannot set hairpin mode and promiscuous mode at the same time",
            ": \"hairpinMode\" and \"promiscMode\" are true",
        )),
    }
}

/// The settings of the container's port.
fn port(root: &Object<'_>) -> Result<BridgePort> {
    Ok(BridgePort {
        vlans: vlans(root)?,
        spoof_check: root.flag("macspoofchk")?,
        isolated: root.flag("portIsolation")?,
        duplicate_detection: root.flag("enabledad")?,
        direct: root.flag("direct")?,
        direct_only: None,
        left_down: root.flag("disableContainerInterface")?,
        tap: None,
    })
}

/// One VLAN without a tag, and any with one.
fn vlans(root: &Object<'_>) -> Result<Vlans> {
    let untagged = match root.integer("vlan")? {
        None | Some(0) => None,
        Some(number) => Some(vlan(number).ok_or_else(|| {
            Error::invalid(format!("invalid VLAN ID {number} (must be between 0 and 4094)"))
        })?),
    };
    let mut tagged = Vec::new();
    for node in root.list("vlanTrunk")? {
        trunk(&node, &mut tagged)?;
    }
    // A port that has only a trunk keeps the default VLAN, whatever is asked for.
    let keep_default = root.flag("preserveDefaultVlan")? || untagged.is_none();
    let vlans = Vlans { untagged, tagged: merged(tagged), keep_default };
    Ok(if vlans.is_empty() { Vlans::default() } else { vlans })
}

/// A range, a single VLAN, or both.
fn trunk(node: &Node<'_>, tagged: &mut Vec<VlanRange>) -> Result<()> {
    let object = node.object()?;
    let number = |key: &str| {
        let Some(number) = object.integer(key)? else { return Ok(None) };
        vlan(number).map(Some).ok_or_else(|| {
            let more = format!(": {number} is no VLAN");
            reported(format!("incorrect trunk {key} parameter"), &more)
        })
    };
    let (first, last, only) = (number("minID")?, number("maxID")?, number("id")?);
    let lonely = |missing: &str| {
        Err(Error::invalid(format!(
            "minID and maxID should be configured simultaneously, {missing} is missing"
        )))
    };
    match (first, last) {
        (Some(first), Some(last)) if last < first => {
            let more = format!(": {first} and {last}");
            return Err(reported("minID is greater than maxID in trunk parameter", &more));
        }
        (Some(first), Some(last)) => tagged.push(VlanRange { first, last }),
        (None, Some(_)) => return lonely("minID"),
        (Some(_), None) => return lonely("maxID"),
        (None, None) => {}
    }
    tagged.extend(only.map(|id| VlanRange { first: id, last: id }));
    Ok(())
}

fn vlan(number: i64) -> Option<VlanId> {
    u16::try_from(number).ok().and_then(VlanId::new)
}

/// In order, each VLAN once, neighbours together.
fn merged(mut ranges: Vec<VlanRange>) -> Vec<VlanRange> {
    ranges.sort_by_key(|range| (range.first, range.last));
    let mut merged: Vec<VlanRange> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(before) if range.first.number() <= before.last.number() + 1 => {
                before.last = before.last.max(range.last);
            }
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(fields: &Value) -> Result<Vlans> {
        vlans(&Object::new("", fields.as_object().unwrap()))
    }

    #[test]
    fn trunks_are_merged() {
        let trunk = json!({"vlanTrunk": [
            {"minID": 10, "maxID": 12}, {"id": 13}, {"id": 20, "minID": 1, "maxID": 2}, {"id": 11}, {},
        ]});
        let vlans = of(&trunk).unwrap();
        let pairs: Vec<(u16, u16)> =
            vlans.tagged.iter().map(|range| (range.first.number(), range.last.number())).collect();
        assert_eq!(pairs, [(1, 2), (10, 13), (20, 20)]);
        assert!(vlans.untagged.is_none());
        assert_eq!(of(&json!({"vlan": 0, "preserveDefaultVlan": true})).unwrap(), Vlans::default());
    }

    /// The reference's default since 1.8.0: a container of VLAN 100 gets no frame of VLAN 1.
    #[test]
    fn the_default_vlan_goes_unless_it_is_kept() {
        let keeps = |fields: &Value| of(fields).unwrap().keep_default;
        assert!(
            !keeps(&json!({"vlan": 7})) && !keeps(&json!({"vlan": 7, "vlanTrunk": [{"id": 8}]}))
        );
        assert!(keeps(&json!({"vlanTrunk": [{"id": 7}], "preserveDefaultVlan": false})));
        assert!(!keeps(&json!({"vlan": 7, "preserveDefaultVlan": false})));
        assert!(keeps(&json!({"vlan": 7, "preserveDefaultVlan": true})));
    }

    #[test]
    fn refuses_in_the_reference_s_words() {
        for (fields, msg) in [
            (json!({"vlan": 4095}), "invalid VLAN ID 4095 (must be between 0 and 4094)"),
            (json!({"vlan": -1}), "invalid VLAN ID -1 (must be between 0 and 4094)"),
            (json!({"vlanTrunk": [{"id": 0}]}), "incorrect trunk id parameter"),
            (json!({"vlanTrunk": [{"minID": 0, "maxID": 3}]}), "incorrect trunk minID parameter"),
            (
                json!({"vlanTrunk": [{"minID": 1, "maxID": 4095}]}),
                "incorrect trunk maxID parameter",
            ),
            (json!({"vlanTrunk": [{"minID": 3, "maxID": 2}]}), "minID is greater than maxID"),
            (json!({"vlanTrunk": [{"minID": 3}]}), "minID and maxID should be configured"),
        ] {
            let error = of(&fields).unwrap_err().to_string();
            assert!(error.starts_with(msg), "{fields}: {error}");
        }
    }
}
