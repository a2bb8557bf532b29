//! The announcement of a container that a switch connects.
//!
//! Such a switch may answer its ports' questions for addresses itself (OVN's ARP responder), so that
//! the others never hear of a new holder: they would go on sending to the hardware address of the
//! address's last port, which is another one, until their entry fails. The kernel announces when the
//! interface comes up, which is before the switch takes anything from it.

use std::net::IpAddr;

use model::{Attached, Attachment, IfName, InterfaceNamespace, LinkKind, Mac, Result};
use netlink::wire::Batch;
use netlink::{At, Change, Socket, packet, sysctl};

use crate::{Linux, sandbox};

impl Linux {
    /// Announces the addresses of a container that a switch connects from the container's end, once the switch
    /// takes its packets. Neighbours that miss it find out later, so no attach fails for it.
    pub fn announce_plugged(&self, attachment: &Attachment, attached: &Attached) {
        let _ = announce(attachment, attached);
    }
}

fn announce(attachment: &Attachment, attached: &Attached) -> Result<()> {
    let is_plug = |link: &model::Link| matches!(link.kind, LinkKind::Plug(_));
    if !attachment.wiring.link.as_ref().is_some_and(is_plug) {
        return Ok(());
    }
    let sandbox = sandbox::entered(attachment)?;
    let place =
        if sandbox.is_some() { InterfaceNamespace::Sandbox } else { InterfaceNamespace::Host };
    // The host's end comes first.
    let own = attached.interfaces.iter().rev().find(|known| known.place == place);
    let Some((name, mac)) = own.and_then(|own| Some((&own.name, own.mac?))) else { return Ok(()) };
    let addresses = attached.addresses.iter().map(|held| held.address.addr());
    match sandbox {
        Some(sandbox) => sandbox.enter(|| send(&mut Socket::route()?, name, mac, addresses))?,
        None => before_the_move(name, mac, addresses),
    }
}

/// The end is still the host's, which must take nothing from the switch by it while it is up: neither a
/// router's advertisement nor a question for one of the host's addresses.
fn before_the_move(name: &IfName, mac: Mac, addresses: impl Iterator<Item = IpAddr>) -> Result<()> {
    // A kernel without IPv6 has no such file, and needs none.
    let _ = sysctl::ensure(format!("net/ipv6/conf/{name}/disable_ipv6"), "1");
    sysctl::ensure(format!("net/ipv4/conf/{name}/arp_ignore"), "8")?;
    let mut socket = Socket::route()?;
    set_up(&mut socket, name, true)?;
    let sent = send(&mut socket, name, mac, addresses);
    set_up(&mut socket, name, false).and(sent)
}

fn set_up(socket: &mut Socket, name: &IfName, up: bool) -> Result<()> {
    let mut batch = Batch::new();
    batch.change_link(At::Name(name), &[Change::Up(up)]);
    socket.send(&mut batch)?.into_result()
}

fn send(
    socket: &mut Socket,
    name: &IfName,
    mac: Mac,
    mut addresses: impl Iterator<Item = IpAddr>,
) -> Result<()> {
    let Some(index) = socket.link_index(name)? else { return Ok(()) };
    addresses.try_for_each(|address| packet::announce(index, mac, address))
}
