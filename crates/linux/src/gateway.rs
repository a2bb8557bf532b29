//! Sets the default routes of a sandbox through one of its interfaces.

use model::{Attachment, Error, Family, Result};
use netlink::route::{MAIN, Routes};
use netlink::{Netns, Socket};

use crate::apply::Hands;
use crate::external;
use crate::plan::gateway::{GatewayRoute, steps};

/// Gives the sandbox default routes through the attachment's interface in these families, and
/// removes those of other families through it. Other interfaces' stay as they are.
///
/// # Errors
/// [`model::Kind::NotFound`] where the interface is gone; the kernel's refusal.
pub(crate) fn set_default_routes(
    attachment: &Attachment,
    families: &[Family],
    sandbox: &Netns,
) -> Result<()> {
    sandbox.enter(|| {
        let mut socket = Socket::route()?;
        let device = external::name_inside(attachment, &mut socket)?;
        let Some(link) = socket.link_index(&device)? else {
            return Err(Error::not_found(format!(
                "{}: the container has no interface {device} for the default route",
                attachment.id
            )));
        };
        let there = held(link, &mut socket)?;
        let steps = steps(attachment, &device, families, &there);
        let mut hands = Hands::new(&mut socket, None);
        hands.knows(&device, link);
        hands.apply(&steps)
    })?
}

/// The default routes through the link.
fn held(link: u32, socket: &mut Socket) -> Result<Vec<GatewayRoute>> {
    let mut held = Vec::new();
    for family in [Family::V4, Family::V6] {
        let through = Routes { family, table: Some(MAIN), link: Some(link) };
        let routes = socket.routes(through)?.into_iter();
        let defaults = routes.filter(|route| route.dst.prefix_len() == 0);
        held.extend(defaults.map(|route| GatewayRoute { family, via: route.gateway }));
    }
    Ok(held)
}
