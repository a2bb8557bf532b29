//! `vlan`: one VLAN of a parent device's segment.

use model::{Error, LinkKind, Parent, Result, Space, Vlan, VlanId, Wiring};

use super::{Call, Plan, link, parent};
use crate::source;
use crate::wire::Object;
use crate::words::reported;

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let root = call.config.root();
    let parent = parent::parent(&root)?;
    if parent.name.is_none() {
        return Err(Error::invalid(
            "\"master\" field is required. It specifies the host interface name to create the \
             VLAN for",
        ));
    }
    let kind = LinkKind::Vlan(Vlan { parent, id: id(&root)? });
    let template = link::alone(kind, parent::mtu(&root)?);
    let source = source::load(call, Space::Network(call.config.name().clone()))?;
    let sentence = "failed to execute IPAM delegate: no plugin name provided";
    link::require_addresses(call, &source, sentence)?;
    Ok(Plan { wiring: template.clone(), template, source, ..Plan::default() })
}

/// The VLAN of which nothing but that is known. Without a number there never was one.
pub(super) fn remnant(call: &Call<'_>, parent: Parent) -> Wiring {
    match id(&call.config.root()) {
        Ok(id) => link::alone(LinkKind::Vlan(Vlan { parent, id }), None),
        Err(_) => link::remnant(call),
    }
}

/// `vlanId`. 0 is a priority tag without a VLAN, for which there is no device.
fn id(root: &Object<'_>) -> Result<VlanId> {
    let number = root.integer("vlanId")?.unwrap_or(0);
    let id = u16::try_from(number).ok().and_then(VlanId::new);
    id.ok_or_else(|| {
        let words = format!("invalid VLAN ID {number} (must be between 0 and 4095 inclusive)");
        reported(words, ": \"vlanId\" is one of 1 to 4094")
    })
}
