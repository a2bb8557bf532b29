//! The device of a virtual machine, and the parameters of its gateway.

use std::net::IpAddr;
use std::path::Path;

use model::{Attachment, IfName, InterfaceNamespace, Mac, Phase, Result, SearchDomain};
use netlink::{At, Socket};

use crate::names::Resolver;
use crate::plan;

/// The tap device of the machine, and its index; `None` where it is down or gone: a packet socket on a device
/// that is down has an error at once.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn device(attachment: &Attachment) -> Result<Option<(IfName, u32)>> {
    let name = plan::host_end(attachment)?;
    let there = Socket::route()?.link(At::Name(&name))?;
    let ours = there
        .filter(|link| crate::facts::is_host_end(attachment, link))
        .filter(|link| link.flags.is_up());
    Ok(ours.map(|link| (name, link.index)))
}

/// The name of the tap device, as it is or will be.
///
/// # Errors
/// [`model::Kind::Bug`].
pub fn device_name(attachment: &Attachment) -> Result<IfName> {
    plan::host_end(attachment)
}

/// The hardware address of the machine's interface, and that of the interface that is its gateway: its
/// bridge, or that of its VLAN. `None` where it is not attached.
pub fn stations(attachment: &Attachment) -> Option<(Mac, Mac)> {
    let Phase::Attached(attached) = &attachment.phase else { return None };
    let end = plan::host_end(attachment).ok()?;
    let inside = attached.interfaces.iter().find(|it| it.place == InterfaceNamespace::Sandbox);
    let mut gateways = attached
        .interfaces
        .iter()
        .filter(|it| it.place == InterfaceNamespace::Host && it.name != end);
    let tuned = attachment.wiring.tuning.as_ref().and_then(|tuning| tuning.mac);
    // The gateway of a VLAN stands behind the bridge.
    Some((tuned.or(inside?.mac)?, gateways.next_back()?.mac?))
}

/// The servers that resolve names for the machine, and the domains in which it searches: its own, or else
/// those of the host below `root`.
pub fn resolver(attachment: &Attachment, root: &Path) -> (Vec<IpAddr>, Vec<SearchDomain>) {
    Resolver::of(&[attachment], root).into_parts()
}
