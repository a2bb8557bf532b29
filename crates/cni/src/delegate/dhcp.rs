//! The daemon that keeps leases of DHCP servers alive.

use std::path::PathBuf;

use engine::Members;
use engine::port::Offer;
use model::{Attachment, Dhcp, Error, Network, Result};

use crate::dhcp::{Daemon, DhcpAnswer, Subject};

/// Asks for an address over the attachment's link, which is up.
pub(super) fn lease(dhcp: &Dhcp, attachment: &Attachment) -> Result<Offer> {
    let given = Daemon::at(&dhcp.socket).allocate(&subject(dhcp, attachment))?;
    if given.addresses.is_empty() {
        return Err(Error::invalid("the DHCP daemon gave no address"));
    }
    let DhcpAnswer { addresses, mut routes, dns } = given;
    for route in &mut routes {
        route.priority = route.priority.or(dhcp.priority);
    }
    Ok(Offer { addresses, routes, dns, link: None })
}

/// Releases the address. Without a daemon the lease is not renewed, and ends with its time. One that is
/// there and does not answer would go on renewing it: then the call is to be repeated.
pub(super) fn release(dhcp: &Dhcp, attachment: &Attachment) -> Result<()> {
    let daemon = Daemon::at(&dhcp.socket);
    match daemon.is_there()? {
        true => daemon.release(&subject(dhcp, attachment)),
        false => Ok(()),
    }
}

/// Whether the daemon keeps what the attachment has.
pub(super) fn check(dhcp: &Dhcp, attachment: &Attachment) -> Result<()> {
    let given = Daemon::at(&dhcp.socket).check(&subject(dhcp, attachment))?;
    let kept = |held: &model::InterfaceAddress| {
        given.addresses.iter().any(|kept| kept.address == held.address)
    };
    match attachment.addresses.iter().find(|held| !kept(held)) {
        None => Ok(()),
        Some(held) => Err(Error::conflict(format!(
            "{}: the DHCP daemon at {} does not keep {}",
            attachment.id,
            dhcp.socket.display(),
            held.address
        ))),
    }
}

/// Releases what is not listed; without a daemon there is nothing.
pub(super) fn gc(dhcp: &Dhcp, network: &Network, valid: &Members) -> Result<()> {
    let daemon = Daemon::at(&dhcp.socket);
    match daemon.is_there()? {
        true => daemon.collect(&network.name, valid),
        false => Ok(()),
    }
}

/// Whether the daemon listens.
pub(super) fn status(dhcp: &Dhcp) -> Result<()> {
    Daemon::at(&dhcp.socket).status()
}

fn subject(dhcp: &Dhcp, attachment: &Attachment) -> Subject {
    let link = attachment.wiring.link.as_ref();
    Subject {
        id: attachment.id.clone(),
        netns: attachment.sandbox.as_ref().map_or_else(PathBuf::new, |it| it.path.clone()),
        mac: link.and_then(|link| link.mac),
        dhcp: dhcp.clone(),
    }
}
