//! `bridge`: a port of a bridge, as the reference plugin of that name.

use model::{Bridge, BridgePort, Error, Gateway, IfName, Link, LinkKind, Result, Wiring};

use super::{Call, Plan, link};
use crate::source;
use crate::wire::Object;

/// Fields of the reference that mean something which Spoke cannot do yet.
const LACKING: [&str; 5] =
    ["macspoofchk", "portIsolation", "enabledad", "disableContainerInterface", "vlan"];

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let root = call.config.root();
    refuse_lacking(&root)?;
    let bridge = bridge(&root, "cni0")?;
    let gateway = bridge.gateway;
    let kind = LinkKind::Bridge(bridge);
    let template = Wiring {
        link: Some(Link { kind, name: None, mac: None, mtu: link::mtu(&root)? }),
        masquerade: link::masquerade(call, &root, false)?,
        ..Wiring::default()
    };
    let mut source = source::load(call, link::space(call, gateway))?;
    if gateway != Gateway::None {
        source.name_gateways();
    }
    let wiring = with_mac(call, &template)?;
    Ok(Plan { template, wiring, source, ..Plan::default() })
}

/// The template with the hardware address that this container wants.
pub(super) fn with_mac(call: &Call<'_>, template: &Wiring) -> Result<Wiring> {
    let mut wiring = template.clone();
    let mac = link::mac(call)?;
    if let Some(link) = &mut wiring.link {
        link.mac = mac;
    }
    Ok(wiring)
}

/// The bridge that the configuration describes.
pub(super) fn bridge(root: &Object<'_>, default: &str) -> Result<Bridge> {
    let name: IfName = match root.get("bridge") {
        None => default.parse()?,
        Some(node) => node.parse()?,
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
        promiscuous: root.flag("promiscMode")?,
        port: BridgePort::default(),
    };
    match bridge.hairpin && bridge.promiscuous {
        false => Ok(bridge),
        true => Err(Error::invalid(
            "cannot set hairpin mode and promiscuous mode at the same time: \
             \"hairpinMode\" and \"promiscMode\" are true",
        )),
    }
}

fn refuse_lacking(root: &Object<'_>) -> Result<()> {
    let unsupported = |node: crate::wire::Node<'_>| {
        let wrong = node.wrong("which Spoke does not support yet");
        Error::unsupported(wrong.to_string())
    };
    if let Some(vlan @ (i64::MIN..0 | 4095..)) = root.integer("vlan")? {
        let msg = format!("invalid VLAN ID {vlan} (must be between 0 and 4094)");
        return Err(Error::invalid(msg));
    }
    for node in LACKING.iter().filter_map(|key| root.get(key)) {
        let is_default = match node.value().as_i64() {
            Some(number) => number == 0,
            None => !node.flag()?,
        };
        if !is_default {
            return Err(unsupported(node));
        }
    }
    match root.get("vlanTrunk") {
        Some(node) if !node.list()?.is_empty() => Err(unsupported(node)),
        _ => Ok(()),
    }
}
