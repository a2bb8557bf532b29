//! Applies what is particular to ports of bridges.

use std::time::{Duration, Instant};

use model::{Error, IfName, IpNet, Result, VlanRange};
use netlink::bridge_vlan::Tagging;
use netlink::{At, Change, Errno, Link, Monitor, NewAddress, Peer, Stop};

use super::Hands;
use crate::identity::VLAN_GATEWAY;
use crate::plan::port::BY_BRIDGE;
use crate::plan::{Port, VlanGateway};

/// How long duplicate address detection of an interface may take, as with the reference plugin.
const SETTLING: Duration = Duration::from_secs(5);

impl Hands<'_> {
    /// The port's VLANs, instead of those that every new port is in.
    pub(super) fn port(&mut self, port: &Port) -> Result<()> {
        let isolated = port.isolated.then_some(Change::Isolated(true));
        let filtered = port.filtered.then_some(Change::GroupForward(BY_BRIDGE));
        let flags: Vec<Change> = isolated.into_iter().chain(filtered).collect();
        if !flags.is_empty() {
            self.batch.change_link(At::Name(&port.name), &flags);
        }
        if port.vlans.is_empty() {
            return Ok(());
        }
        let index = self.index(&port.name)?;
        let vlans = vlans(&port.vlans);
        if !port.vlans.keep_default {
            let wanted = |there: u16| {
                vlans
                    .iter()
                    .any(|(range, _)| (range.first.number()..=range.last.number()).contains(&there))
            };
            for there in self.socket.port_vlans(index)? {
                if !wanted(there.id.number()) {
                    self.batch.leave_vlan(index, there.id);
                }
            }
        }
        self.batch.join_vlans(index, &vlans);
        Ok(())
    }

    pub(super) fn filter_vlans(&mut self, bridge: &IfName) -> Result<()> {
        let index = self.index(bridge)?;
        self.batch.filter_vlans(index);
        Ok(())
    }

    /// Made by the first process that needs it; a pair that is there becomes the bridge's.
    pub(super) fn vlan_gateway(&mut self, gateway: &VlanGateway) -> Result<()> {
        let master = Some(self.index(&gateway.bridge)?);
        let vlans = gateway.vlans.clone();
        if let Some(there) = self.other_end(&gateway.name)? {
            let changes = [Change::Master(master), Change::Up(true)];
            self.batch.change_link(At::Index(there.index), &changes);
            self.batch.change_link(At::Name(&gateway.name), &[Change::Up(true)]);
            return self.port(&Port { name: there.name, isolated: false, filtered: false, vlans });
        }
        let made = self.batch.new_veth(&netlink::Veth {
            name: &gateway.port,
            index: None,
            mac: None,
            mtu: gateway.mtu,
            master,
            group: Some(VLAN_GATEWAY),
            up: true,
            peer: Peer { name: &gateway.name, index: None, mac: Some(gateway.mac), netns: None },
        });
        self.done.push((made, Errno::EXIST));
        let quiet = self.batch.change_link(At::Name(&gateway.port), &[Change::NoIpv6Addresses]);
        self.done.push((quiet, Errno::AFNOSUPPORT));
        self.batch.change_link(At::Name(&gateway.name), &[Change::Up(true)]);
        let name = gateway.port.clone();
        self.port(&Port { name, isolated: false, filtered: false, vlans })
    }

    /// The other end of a pair that is whole in this namespace.
    fn other_end(&mut self, name: &IfName) -> Result<Option<Link>> {
        self.flush()?;
        let Some(link) = self.socket.link(At::Name(name))? else { return Ok(None) };
        let Some(peer) = link.peer.filter(|_| link.kind.as_deref() == Some("veth")) else {
            return Ok(None);
        };
        let end = self.socket.link(At::Index(peer))?;
        Ok(end.filter(|end| end.kind.as_deref() == Some("veth") && end.peer == Some(link.index)))
    }

    pub(super) fn detected(&mut self, name: &IfName, address: IpNet) -> Result<()> {
        let index = self.index(name)?;
        let new = NewAddress { duplicate_detection: true, ..NewAddress::new(index, address) };
        let added = self.batch.add_address(&new);
        self.done.push((added, Errno::EXIST));
        Ok(())
    }

    /// Waits until duplicate address detection of the interface is over.
    pub(super) fn settle(&mut self, name: &IfName) -> Result<()> {
        self.flush()?;
        let index = self.index(name)?;
        let deadline = Instant::now() + SETTLING;
        let (mut monitor, stop) = (Monitor::network()?, Stop::new()?);
        loop {
            let there = self.socket.addresses(Some(index))?;
            if let Some(address) = there.iter().find(|address| address.duplicate) {
                return Err(Error::conflict(format!(
                    "another host or container on the network of {name} has the address {}",
                    address.address
                )));
            }
            if !there.iter().any(|address| address.tentative) {
                return Ok(());
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Err(Error::try_again(format!(
                    "{name} still has tentative addresses after {} seconds",
                    SETTLING.as_secs()
                )));
            }
            monitor.wait(&stop, remaining)?;
        }
    }
}

fn vlans(vlans: &model::Vlans) -> Vec<(VlanRange, Tagging)> {
    let untagged = vlans.untagged.map(|id| (VlanRange { first: id, last: id }, Tagging::Untagged));
    let tagged = vlans.tagged.iter().map(|range| (*range, Tagging::Tagged));
    untagged.into_iter().chain(tagged).collect()
}
