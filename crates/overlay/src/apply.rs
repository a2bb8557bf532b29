//! Makes the kernel's state what it should be.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{Error, IfName, Mtu, Result};
use netlink::wire::Batch;
use netlink::{At, Change, Link, Links, NewVxlan, Socket};

use crate::kernel_device::{delete, rename, underlay_mtu};
use crate::outcome::Outcome;
use crate::tunnel::{self, Ways};
use crate::{Guard, Overlay, OverlayNetwork, RouteFilter, entries, guard, identity, overhead};

impl Overlay {
    /// What takes packets from members only, where this host has a network.
    pub fn guarded(&self) -> Option<Guard> {
        let guard = || Guard { local: self.local, members: self.members.clone() };
        (!self.networks.is_empty()).then(guard)
    }

    /// Who may send to the routed networks, where this host has some.
    ///
    /// # Errors
    /// Where the kernel cannot be asked.
    pub fn route_filter(&self) -> Result<Option<RouteFilter>> {
        if self.routes.is_empty() {
            return Ok(None);
        }
        let underlay = crate::underlay(self.local, &mut Socket::route()?)?;
        Ok(Some(self.routes.filter(underlay.as_ref())))
    }

    /// Compares this with the kernel and changes what differs. Goes on with the next network after a
    /// failure.
    ///
    /// # Errors
    /// Where the kernel cannot be asked, or VXLAN packets cannot be kept out: then no device is made.
    pub fn apply(&self) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        // Nothing is received before it is decided from whom.
        if let Some(guard) = self.guarded() {
            outcome.changed += usize::from(guard.ensure()?);
        }
        let mut socket = Socket::route()?;
        // Without a tunnel an encrypted network has no device.
        let ways = tunnel::ensure(&self.tunnels, self.local, &mut socket);
        outcome.changed += self.remove_others(ways.is_ok(), &mut socket)?;
        let has_networks = !self.networks.is_empty();
        let underlay = has_networks.then(|| underlay_mtu(self.local, &mut socket)).transpose();
        for network in &self.networks {
            // What fitted when its device was made may fit no more: small packets still arrive.
            let narrow = match &underlay {
                Ok(underlay) => underlay.and_then(|it| self.narrow(network, it)),
                Err(error) => Some(Error::new(error.kind(), error.to_string())),
            };
            let applied = self.apply_network(network, &ways, narrow.as_ref(), &mut socket);
            let failed = match applied {
                Ok(changed) => {
                    outcome.changed += changed;
                    narrow
                }
                Err(error) => Some(error),
            };
            let of = || format!("network {} between hosts", network.name);
            outcome.failures.extend(failed.map(|error| error.context(of())));
        }
        if self.networks.is_empty() {
            guard::remove(&mut Socket::netfilter()?)?;
        }
        if let Ok(Ways { keys, known, changed, .. }) = ways {
            outcome.changed += changed;
            (outcome.keys, outcome.known) = (keys, known);
        }
        if let Err(error) = self.routes.apply(self.local, &mut outcome) {
            outcome.failures.push(error.context("routed networks"));
        }
        Ok(outcome)
    }

    /// Devices of networks that this host has no more, or that cannot be encrypted.
    fn remove_others(&self, can_encrypt: bool, socket: &mut Socket) -> Result<usize> {
        let wanted = self.networks.iter().filter(|network| can_encrypt || !network.encrypted);
        let wanted: Result<BTreeSet<IfName>> =
            wanted.map(|network| identity::device(network.vni)).collect();
        let wanted = wanted?;
        let links = socket.links(Links { kind: Some("vxlan"), master: None })?;
        let others: Vec<&Link> = links
            .iter()
            .filter(|link| identity::is_device(link.name.as_str()) && !wanted.contains(&link.name))
            .collect();
        others.iter().try_for_each(|link| delete(socket, link))?;
        Ok(others.len())
    }

    fn apply_network(
        &self,
        network: &OverlayNetwork,
        ways: &Result<Ways>,
        narrow: Option<&Error>,
        socket: &mut Socket,
    ) -> Result<usize> {
        let mut changed = 0;
        let ways = match ways {
            _ if !network.encrypted => None,
            Ok(ways) => Some(ways),
            Err(error) => return Err(Error::new(error.kind(), error.to_string())),
        };
        // Made with its first container, or by the daemon.
        let Some(bridge) = socket.link(At::Name(&network.bridge))? else { return Ok(changed) };
        if bridge.mac != Some(network.mac) {
            rename((&network.bridge, network.mac), &bridge, socket)?;
            changed += 1;
        }
        let name = identity::device(network.vni)?;
        let marked = self.mark(network);
        let there = socket.link(At::Name(&name))?;
        let device = match there.filter(|it| is_as_wanted(it, &marked, &bridge, network)) {
            Some(link) => link.index,
            None => {
                if let Some(narrow) = narrow {
                    return Err(Error::new(narrow.kind(), narrow.to_string()));
                }
                changed += 1;
                self.make(network, (&name, &marked), &bridge, socket)?
            }
        };
        Ok(changed + entries::set(socket, network, (device, bridge.index), ways)?)
    }

    /// Why packets of the network do not fit into those of the device with this host's address, where they do not.
    fn narrow(&self, network: &OverlayNetwork, underlay: u32) -> Option<Error> {
        let (mtu, overhead) = (network.mtu.bytes(), overhead(self.local, network.encrypted));
        (underlay < mtu + overhead).then(|| {
            Error::invalid(format!(
                "its MTU is {mtu}, and packets of {} bytes do not fit into the {underlay} bytes of the device with {}; \
                 make the network again with --mtu {}, or raise the device's MTU",
                mtu + overhead,
                self.local,
                underlay.saturating_sub(overhead),
            ))
        })
    }

    /// What the device was made with, which the kernel need not be asked for.
    fn mark(&self, network: &OverlayNetwork) -> String {
        format!("spoke network {} from {} port {}", network.vni, self.local, network.port())
    }

    fn make(
        &self,
        network: &OverlayNetwork,
        (name, mark): (&IfName, &str),
        bridge: &Link,
        socket: &mut Socket,
    ) -> Result<u32> {
        if let Some(other) = socket.link(At::Name(name))? {
            delete(socket, &other)?;
        }
        let mut batch = Batch::new();
        batch.new_vxlan(&NewVxlan {
            name,
            vni: network.vni,
            local: self.local,
            port: network.port(),
            mtu: network.mtu,
            master: bridge.index,
        });
        batch.quiet_port(At::Name(name));
        let finished = [Change::NoIpv6Addresses, Change::Alias(mark.to_owned()), Change::Up(true)];
        batch.change_link(At::Name(name), &finished);
        socket.send(&mut batch)?.into_result()?;
        let made = socket.link(At::Name(name))?;
        made.map(|made| made.index).ok_or_else(|| Error::try_again(format!("{name} went away")))
    }
}

fn is_as_wanted(link: &Link, mark: &str, bridge: &Link, network: &OverlayNetwork) -> bool {
    link.alias.as_deref() == Some(mark)
        && link.master == Some(bridge.index)
        && link.mtu == network.mtu.bytes()
        && link.flags.is_up()
}

impl Overlay {
    /// The largest MTU of networks between hosts with such addresses as `local`, whose device has the MTU `underlay`;
    /// none where that is too small.
    pub fn mtu_within((local, underlay): (IpAddr, u32), encrypted: bool) -> Option<Mtu> {
        Mtu::new(underlay.checked_sub(overhead(local, encrypted))?)
    }
}
