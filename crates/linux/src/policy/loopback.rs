//! Packets from the host's loopback addresses to containers: `route_localnet` of the interface that leads to
//! them (the kernel's `ip-sysctl`).
//!
//! It is set with the first container behind a bridge that has a port there, and set back with the
//! last. The table has an element for each of these containers, and the kernel knows how many there
//! are. Whether it was set before is kept in the interface itself, in a number that is for any program that
//! needs one (`tag`), so that it outlives this process and a flushed packet filter, and ends with the
//! interface. Where another program uses that number, the parameter stays set.

use std::net::IpAddr;

use model::{Attachment, Family, IfName, LinkKind, PortMap, Result};
use netlink::{HostLock, nft, sysctl};

use super::Policy;
use super::expected::uses_table;
use crate::filter::{self, Elements, loopback};
use crate::plan::gateway::is_gateway;
use crate::tag::{self, Localnet, Tag};

impl Policy {
    /// Lets packets from this host's loopback addresses reach the container, once its elements are in
    /// the table: the last container to leave looks for them.
    pub(super) fn open_loopback(
        &self,
        attachment: &Attachment,
        behind: Option<&IfName>,
    ) -> Result<()> {
        let Some(interface) = behind.filter(|_| publishes_at_loopback(attachment)) else {
            return Ok(());
        };
        if !uses_table(attachment) {
            // Also where the runtime publishes: without its guard the host's loopback would be open to containers.
            self.if_there(filter::ensure)?;
        }
        open(interface, &self.lock, &|| {
            is_shared(attachment) && (uses_table(attachment) || nft::is_supported())
        })
    }

    /// Sets back what [`Policy::open_loopback`] set, where these elements, which are removed, were the
    /// last that need it.
    pub(super) fn close_loopback(&self, removed: &Elements) -> Result<()> {
        let Some(interface) = loopback::interface_of(removed) else { return Ok(()) };
        let is_used = || self.if_there(|socket| loopback::is_used(socket, interface));
        if is_used()? {
            return Ok(());
        }
        if is_known(interface) {
            self.lock.with(|| close(interface, &is_used))?;
        }
        self.if_there(|socket| loopback::forget(socket, interface))
    }
}

/// Whether clients at this host's loopback addresses reach ports of the container, which leads its
/// sandbox out.
pub(super) fn publishes_at_loopback(attachment: &Attachment) -> bool {
    has_ports_at_loopback(attachment) && is_gateway(attachment, Family::V4)
}

/// The same, whichever program publishes them.
pub(super) fn has_ports_at_loopback(attachment: &Attachment) -> bool {
    let published = attachment.wiring.publish.as_ref().filter(|publish| publish.snat);
    published.is_some_and(|publish| publish.ports.iter().any(is_at_loopback))
        && attachment.first(Family::V4).is_some()
}

/// Whether the interface stays when the container goes.
pub(super) fn is_shared(attachment: &Attachment) -> bool {
    let link = attachment.wiring.link.as_ref();
    !link.is_some_and(|link| matches!(link.kind, LinkKind::Ptp(_)))
}

/// For others nothing has to be opened, which the table alone would keep shut.
fn is_at_loopback(port: &PortMap) -> bool {
    match port.host {
        Some(IpAddr::V4(host)) => host.is_unspecified() || host.is_loopback(),
        Some(IpAddr::V6(_)) => false,
        None => true,
    }
}

/// Both are read at once: who writes [`Localnet::Leaving`] looks afterwards whether a container came.
fn open(interface: &IfName, lock: &HostLock, is_counted: &dyn Fn() -> bool) -> Result<()> {
    let there = tag::read(interface).unwrap_or_default();
    let is_leaving = Tag::of(&there).is_some_and(|tag| tag.localnet == Localnet::Leaving);
    match !is_leaving && there.route_localnet {
        true => Ok(()),
        false => lock.with(|| open_first(interface, is_counted())),
    }
}

/// Where that can neither be set nor is so already, the ports cannot be reached as they are promised
/// to be: an error, as with the reference plugin.
fn open_first(interface: &IfName, is_counted: bool) -> Result<()> {
    let there = tag::read(interface).unwrap_or_default();
    let is_open = there.route_localnet;
    if let Some(tag) = Tag::of(&there) {
        let is_new = tag.localnet == Localnet::Unused && is_counted && !is_open;
        if is_new || tag.localnet == Localnet::Leaving {
            // Where that cannot be written, the parameter cannot either, and that error says more.
            drop(Tag { localnet: Localnet::Ours, ..tag }.write(interface));
        }
    }
    match is_open {
        true => Ok(()),
        false => match sysctl::write(parameter(interface, PARAMETER), "1") {
            // What is set for all interfaces holds for each.
            Err(_) if sysctl::read(of_all()).is_ok_and(|all| all == "1") => Ok(()),
            written => written,
        },
    }
}

fn close(interface: &IfName, is_used: &dyn Fn() -> Result<bool>) -> Result<()> {
    let Some(tag) = Tag::read(interface) else { return Ok(()) };
    if tag.localnet == Localnet::Unused {
        return Ok(());
    }
    Tag { localnet: Localnet::Leaving, ..tag }.write(interface)?;
    if is_used()? {
        return Tag { localnet: Localnet::Ours, ..tag }.write(interface);
    }
    sysctl::write(parameter(interface, PARAMETER), "0")?;
    Tag { localnet: Localnet::Unused, ..tag }.write(interface)
}

/// Whether what was set is set back.
fn is_known(interface: &IfName) -> bool {
    Tag::read(interface).is_some_and(|tag| tag.localnet != Localnet::Unused)
}

const PARAMETER: &str = "route_localnet";

fn of_all() -> String {
    format!("net/ipv4/conf/all/{PARAMETER}")
}

fn parameter(interface: &IfName, name: &str) -> String {
    format!("net/ipv4/conf/{interface}/{name}")
}
