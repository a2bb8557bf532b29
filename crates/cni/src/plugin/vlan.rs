//! `vlan`: one VLAN of a parent device's segment.

use model::{Error, LinkKind, Parent, Result, Space, Vlan, VlanTag, Wiring};

use super::{Plan, link, parent};
use crate::call::Call;
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
    let template = link::alone(kind, parent::mtu(&root, call.sandbox.as_ref())?);
    let source = source::load(call, Space::Network(call.config.name().clone()))?;
    let sentence = "failed to execute IPAM delegate: no plugin name provided";
    link::require_addresses(call, &source, sentence)?;
    Ok(Plan { wiring: template.clone(), template, source, ..Plan::default() })
}

/// The VLAN of which nothing but that is known.
pub(super) fn remnant(call: &Call<'_>, parent: Parent) -> Wiring {
    match id(&call.config.root()) {
        Ok(id) => link::alone(LinkKind::Vlan(Vlan { parent, id }), None),
        Err(_) => link::remnant(call),
    }
}

/// `vlanId`. 0, also where there is none, is a priority without a VLAN.
fn id(root: &Object<'_>) -> Result<VlanTag> {
    let number = root.integer("vlanId")?.unwrap_or(0);
    let id = u16::try_from(number).ok().and_then(VlanTag::new);
    id.ok_or_else(|| {
        let words = format!("invalid VLAN ID {number} (must be between 0 and 4095 inclusive)");
        reported(words, ": \"vlanId\" is one of 0 to 4094")
    })
}
