//! Addresses that mean something on the interface's own link only, besides those that it is given.

use model::{Attachment, Error, InterfaceAddress, InterfaceNamespace, LinkLocal, Result};

use super::{Plan, Step};

/// Adds them to the plan of the sandbox, behind everything else: they have no routes.
pub(super) fn add(attachment: &Attachment, plan: &mut Plan) -> Result<()> {
    let Some(first) = attachment.link_local.first() else { return Ok(()) };
    let inside = |it: &model::Interface| it.place == InterfaceNamespace::Sandbox;
    let place = plan.attached.interfaces.iter().position(inside);
    let interface = place.and_then(|place| plan.attached.interfaces.get(place));
    let Some(device) = interface.map(|interface| interface.name.clone()) else {
        return Err(Error::unsupported(format!(
            "{}: its interface is not made by Spoke: no link-local address {first}",
            attachment.id
        )));
    };
    let held = |address: &LinkLocal| InterfaceAddress {
        address: address.net(),
        gateway: None,
        interface: place,
    };
    let own: Vec<InterfaceAddress> = attachment.link_local.iter().map(held).collect();
    plan.sandbox.extend(super::ipv6(&device, &own));
    let steps = own.iter().map(|held| Step::Address(device.clone(), held.address));
    plan.sandbox.extend(steps);
    plan.attached.addresses.extend(own);
    Ok(())
}
