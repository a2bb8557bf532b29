//! Keeps ports shut of whose containers no record can be read, where nothing is left of the rules that these may have had.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

use linux::filter::fence::{self, ContainerPort};
use model::{Attachment, Error, IfName, Result};
use netlink::Socket;

use super::heal::PUTTING_BACK;
use super::{Fences, failed};
use crate::Daemon;

/// What is known of such ports.
#[derive(Default)]
pub(super) struct UnreadPorts {
    /// Whether they have been looked at since something was lost.
    is_known: bool,
    /// Those that are shut, as the last look found them. Each has been reported.
    shut: BTreeSet<IfName>,
}

impl UnreadPorts {
    /// Something may have been lost.
    pub(super) fn ask(&mut self) {
        self.is_known = false;
    }

    /// Whether one is shut, or may have to be.
    pub(super) fn is_any(&self) -> bool {
        !self.is_known || !self.shut.is_empty()
    }
}

impl Fences {
    /// Shuts the ports of whose containers nothing is known: what was lost of these no record puts back. Whether a
    /// container has rules of its own, or a network has, is not known by readable records alone.
    pub(super) fn shut_unread(&mut self, daemon: &Daemon, socket: &mut Socket) {
        if self.unread_ports.is_any()
            && let Err(error) = self.try_to_shut_unread(daemon, socket)
        {
            self.unread_ports.ask();
            failed(daemon, &error);
        }
    }

    fn try_to_shut_unread(&mut self, daemon: &Daemon, socket: &mut Socket) -> Result<()> {
        let unread = daemon.fence.unread()?;
        // What comes after a loss asks again.
        self.unread_ports.is_known = true;
        self.unread_ports.shut.extend(fence::shut_ports(socket)?);
        if unread.is_empty() {
            return Ok(());
        }
        // Before the records: a container that comes is recorded before it has a port.
        let mut ports = ContainerPort::all()?;
        let known = daemon.fence.by_port()?;
        ports.retain(|port| unread.has(&port.bridge) && !known.contains_key(&port.name));
        let sources = |attachment: &Attachment| {
            let bridge = attachment.wiring.bridge().map(|bridge| bridge.name.clone());
            let addresses: Vec<_> =
                attachment.addresses.iter().map(|held| held.address.addr()).collect();
            addresses.into_iter().filter_map(move |address| Some((bridge.clone()?, address)))
        };
        let sources: HashSet<(IfName, IpAddr)> = known.values().flat_map(sources).collect();
        // What was known of one that is shut is gone: by what is there now it may look as if it had never had any.
        let (shut, others): (Vec<_>, Vec<_>) =
            ports.into_iter().partition(|port| self.unread_ports.shut.contains(&port.name));
        fence::keep_shut(socket, &shut)?;
        for port in fence::shut_unread(socket, &others, &sources)? {
            if self.unread_ports.shut.insert(port.name.clone())
                && let Some(why) = unread.why(&port.bridge)
            {
                daemon.journal.failed(PUTTING_BACK, &staying_shut(&port, why));
            }
        }
        Ok(())
    }

    /// Opens those again that are known by now, when their rules are there, and forgets those that are gone.
    pub(super) fn open_read(&mut self, daemon: &Daemon, socket: &mut Socket) {
        if !self.unread_ports.shut.is_empty()
            && let Err(error) = self.try_to_open_read(daemon, socket)
        {
            failed(daemon, &error);
        }
    }

    fn try_to_open_read(&mut self, daemon: &Daemon, socket: &mut Socket) -> Result<()> {
        let unread = daemon.fence.unread()?;
        let ports: BTreeMap<IfName, ContainerPort> =
            ContainerPort::all()?.into_iter().map(|port| (port.name.clone(), port)).collect();
        let known = daemon.fence.by_port()?;
        for port in self.unread_ports.shut.clone() {
            let attachment: Option<&Attachment> = known.get(&port);
            let is_there = ports.get(&port);
            if attachment.is_none() && is_there.is_some_and(|it| unread.has(&it.bridge)) {
                continue;
            }
            if fence::open_port(socket, &port, attachment)? {
                self.unread_ports.shut.remove(&port);
            }
        }
        Ok(())
    }
}

fn staying_shut(port: &ContainerPort, why: &str) -> Error {
    let ContainerPort { name, bridge } = port;
    Error::try_again(format!("port {name} of bridge {bridge} stays shut: {why}"))
}
