//! What is added to an existing link: rate limits, membership in a VRF, routing by source; and the loopback
//! device of a sandbox of Spoke's.

use model::{Attached, Attachment, Bandwidth, Error, IfName, Result};
use netlink::{Netns, Socket};

use crate::{loopback, plan, rate, source_routing, vrf};

/// Makes what the wiring has, and completes the result.
pub(crate) fn make(
    attachment: &Attachment,
    attached: &mut Attached,
    sandbox: Option<&Netns>,
) -> Result<()> {
    let wiring = &attachment.wiring;
    // A sandbox that Spoke itself connects has no runtime that would do it. It stays up when the
    // attachment goes, as in libnetwork: processes may use it.
    if let (Some(_), Some(sandbox)) = (&attachment.gateway_role, sandbox) {
        loopback::up(sandbox)?;
    }
    if let Some(wanted) = &wiring.vrf {
        vrf::join(wanted, plan::device(attachment), needed(attachment, sandbox)?)?;
    }
    if wiring.source_routing.is_some() {
        let sandbox = needed(attachment, sandbox)?;
        source_routing::install(attachment, &attached.addresses, sandbox)?;
    }
    let ifb = rate::limit(attachment, sandbox)?;
    // Where Spoke made the link, the device means nothing to the runtime.
    if wiring.link.is_none() {
        attached.interfaces.extend(ifb);
    }
    Ok(())
}

/// Compares it with what it should be.
pub(crate) fn check(
    attachment: &Attachment,
    attached: &Attached,
    sandbox: Option<&Netns>,
) -> Result<()> {
    if let (Some(wanted), Some(sandbox)) = (&attachment.wiring.vrf, sandbox) {
        vrf::check(wanted, plan::device(attachment), sandbox)?;
    }
    if let Some(sandbox) = sandbox {
        source_routing::check(attachment, &attached.addresses, sandbox)?;
    }
    rate::check(attachment, sandbox)
}

/// Undoes what may stay after the link is gone. Everything is tried; the first failure is returned.
pub(crate) fn undo(attachment: &Attachment, sandbox: Option<&Netns>) -> Result<()> {
    let unrouted = source_routing::remove(attachment, sandbox);
    let unbound = match &attachment.wiring.vrf {
        Some(wanted) => vrf::leave(wanted, plan::device(attachment), sandbox),
        None => Ok(()),
    };
    let lifted = rate::lift(attachment, sandbox);
    unrouted.and(unbound).and(lifted)
}

/// The devices in the host that go with the attachment, besides its link.
pub(crate) fn devices(attachment: &Attachment) -> Result<Vec<IfName>> {
    match attachment.wiring.bandwidth {
        Some(_) => rate::devices(attachment, &mut Socket::route()?),
        None => Ok(Vec::new()),
    }
}

/// Whether something is to be undone in the container.
pub(crate) fn reach_inside(attachment: &Attachment) -> bool {
    let wiring = &attachment.wiring;
    let is_limited_inside =
        |limits: &Bandwidth| limits.device.is_none() && !rate::has_end(attachment);
    wiring.vrf.is_some()
        || wiring.source_routing.is_some()
        || wiring.bandwidth.as_ref().is_some_and(is_limited_inside)
}

fn needed<'a>(attachment: &Attachment, sandbox: Option<&'a Netns>) -> Result<&'a Netns> {
    sandbox.ok_or_else(|| {
        Error::unsupported(format!(
            "{}: tables and rules of its own need an interface that we complete in the container",
            attachment.id
        ))
    })
}
