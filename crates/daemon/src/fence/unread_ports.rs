//! Keeps ports shut of whose containers no record can be read, where nothing is left of the rules that these may have had.

use std::collections::{BTreeMap, BTreeSet};

use linux::filter::fence::{self, ContainerPort};
use model::{Attachment, Error, IfName, Result};
use netlink::Socket;

use super::heal::PUTTING_BACK;
use super::unread::Unread;
use super::{Fences, failed};
use crate::Daemon;

/// How often it is compared again what containers that come and go change meanwhile.
const LOOKS: usize = 16;

/// What is known of such ports.
#[derive(Default)]
pub(super) struct UnreadPorts {
    /// Whether they have been looked at since something was lost.
    is_known: bool,
    /// Those that are shut, as the last look found them. Each has been reported.
    shut: BTreeSet<IfName>,
    /// What could not be read then.
    unread: Unread,
    /// Whether one can be read whose rules were not there yet.
    is_waiting: bool,
    /// Whether the last look failed: that is reported once.
    is_failing: bool,
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

/// What records and links say at one look.
pub(super) struct Look {
    unread: Unread,
    ports: BTreeMap<IfName, ContainerPort>,
    /// What can be read.
    known: BTreeMap<IfName, Attachment>,
}

impl Look {
    fn now(daemon: &Daemon) -> Result<Self> {
        let unread = daemon.fence.unread()?;
        // Before the records: a container that comes is recorded before it has a port.
        let ports = all_ports()?;
        Ok(Self { unread, ports, known: daemon.fence.by_port()? })
    }

    /// The ports of whose containers nothing is known.
    fn unknown(&self) -> impl Iterator<Item = &ContainerPort> {
        let is_unknown = |port: &&ContainerPort| {
            self.unread.has(&port.bridge) && !self.known.contains_key(&port.name)
        };
        self.ports.values().filter(is_unknown)
    }
}

fn all_ports() -> Result<BTreeMap<IfName, ContainerPort>> {
    Ok(ContainerPort::all()?.into_iter().map(|port| (port.name.clone(), port)).collect())
}

impl Fences {
    /// Shuts the ports of whose containers nothing is known: what was lost of these no record puts back. Whether a
    /// container has rules of its own, or a network has, is not known by readable records alone. Returns what was found,
    /// where there was anything to look for.
    pub(super) fn shut_unread(
        &mut self,
        daemon: &Daemon,
        socket: &mut Socket,
    ) -> Result<Option<Look>> {
        if !self.unread_ports.is_any() {
            return Ok(None);
        }
        // What comes after a loss asks again.
        self.unread_ports.is_known = true;
        self.unread_ports.shut.extend(fence::shut_ports(socket)?);
        for look in 1..=LOOKS {
            let now = Look::now(daemon)?;
            // What was known of one that is shut is gone: by what is there now it may look as if it had never had any.
            let (mut shut, others): (Vec<_>, Vec<_>) =
                now.unknown().cloned().partition(|it| self.unread_ports.shut.contains(&it.name));
            let mut lost = Vec::new();
            if !others.is_empty() {
                let readable = daemon.fence.readable(&now.known)?;
                lost = fence::lost_ports(socket, &others, &readable)?;
            }
            // What goes meanwhile was not lost.
            if !lost.is_empty() && look < LOOKS && daemon.fence.by_port()? != now.known {
                continue;
            }
            shut.extend(lost.iter().cloned());
            fence::keep_shut(socket, &shut)?;
            for port in lost {
                if self.unread_ports.shut.insert(port.name.clone())
                    && let Some(why) = now.unread.why(&port.bridge)
                {
                    daemon.journal.failed(PUTTING_BACK, &staying_shut(&port, why));
                }
            }
            self.unread_ports.unread = now.unread.clone();
            return Ok(Some(now));
        }
        Ok(None)
    }

    /// The same where something was lost just now.
    pub(super) fn shut_at_once(&mut self, daemon: &Daemon, socket: &mut Socket) {
        self.unread_ports.ask();
        let shut = self.shut_unread(daemon, socket);
        self.end_look(daemon, shut.map(drop));
    }

    /// A look at such ports is over. What fails is done again at the next one, and reported once.
    pub(super) fn end_look(&mut self, daemon: &Daemon, result: Result<()>) {
        let is_failing = result.is_err();
        let was_failing = std::mem::replace(&mut self.unread_ports.is_failing, is_failing);
        if let Err(error) = result {
            self.unread_ports.ask();
            if !was_failing {
                failed(daemon, &error);
            }
        }
    }

    /// Opens those again that are known by now, when their rules are there, and forgets those that are gone.
    pub(super) fn open_read(
        &mut self,
        daemon: &Daemon,
        look: &Look,
        socket: &mut Socket,
    ) -> Result<()> {
        self.unread_ports.is_waiting = false;
        for port in self.unread_ports.shut.clone() {
            let attachment = look.known.get(&port);
            let is_there = look.ports.get(&port);
            if attachment.is_none() && is_there.is_some_and(|it| look.unread.has(&it.bridge)) {
                continue;
            }
            let has_rules = |it| daemon.fence.has_network_rules(it);
            let is_fenced = attachment.map_or(Ok(false), has_rules)?;
            match fence::open_port(socket, &port, (attachment, is_fenced))? {
                true => drop(self.unread_ports.shut.remove(&port)),
                false => self.unread_ports.is_waiting = true,
            }
        }
        Ok(())
    }

    /// Whether nothing can be read by now that could not be at the last look. Then those that are shut stay so, and
    /// those that are gone are forgotten.
    pub(super) fn is_unread_as_before(&mut self, daemon: &Daemon, socket: &mut Socket) -> bool {
        let held = &self.unread_ports;
        if !held.is_known || held.is_waiting || held.is_failing {
            return false;
        }
        let is_as_before = self.try_to_stay_shut(daemon, socket);
        if !matches!(is_as_before, Ok(true)) {
            self.unread_ports.ask();
        }
        let is_same = matches!(is_as_before, Ok(true));
        self.end_look(daemon, is_as_before.map(drop));
        is_same
    }

    fn try_to_stay_shut(&mut self, daemon: &Daemon, socket: &mut Socket) -> Result<bool> {
        if daemon.fence.unread()? != self.unread_ports.unread {
            return Ok(false);
        }
        let ports = all_ports()?;
        let mut there = Vec::new();
        for name in self.unread_ports.shut.clone() {
            match ports.get(&name) {
                Some(port) => there.push(port.clone()),
                None => {
                    fence::open_port(socket, &name, (None, false))?;
                    self.unread_ports.shut.remove(&name);
                }
            }
        }
        fence::keep_shut(socket, &there)?;
        Ok(true)
    }
}

fn staying_shut(port: &ContainerPort, why: &str) -> Error {
    let ContainerPort { name, bridge } = port;
    Error::try_again(format!("port {name} of bridge {bridge} stays shut: {why}"))
}
