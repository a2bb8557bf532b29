//! The end of what a network has in the kernel, and of what has no record.

use engine::port::{HostDataplane, Presence, Stray};
use model::{Attachment, Bridge, Error, IfName, LinkKind, Network, Result};
use netlink::{At, Errno, Links, Socket, process};

use super::Linux;
use crate::identity::GROUP;
use crate::life::Life;
use crate::strays::{self, KernelObjects};
use crate::{network as shares, plan, shared, vlan_gateway};

impl HostDataplane for Linux {
    fn strays(
        &self,
        records: &dyn Fn() -> Result<Vec<Attachment>>,
    ) -> Result<Vec<(Stray, Presence)>> {
        let made = KernelObjects::gather(self.policy.marks()?)?;
        Ok(made.strays(&records()?))
    }

    fn is_of(&self, stray: &Stray, record: &Attachment) -> bool {
        strays::is_of(stray, record)
    }

    fn remove_stray(&self, stray: &Stray) -> Result<()> {
        match stray {
            Stray::Link(name) => self.delete(&mut Socket::route()?, name),
            Stray::Elements(mark) => self.policy.remove_marked(mark),
            Stray::Parking(name) | Stray::Names(name) => Err(Error::bug(format!(
                "namespace {name} has no owner, and nothing of the kernel's dataplane is in it"
            ))),
            Stray::SwitchPort { name, .. } => Err(Error::bug(format!("{name} is a switch's port"))),
        }
    }
}

impl Linux {
    pub(super) fn remove_network(&self, network: &Network) -> Result<()> {
        let kind = network.wiring.link.as_ref().map(|link| &link.kind);
        let bridge = match kind {
            Some(LinkKind::Bridge(bridge)) => bridge,
            Some(kind) => {
                shared::remove(&network.name, kind, &self.lock, &|links| self.reap(links))?;
                return match strays::has_links(&mut Socket::route()?)? {
                    true => Ok(()),
                    false => self.policy.forget_unowned(),
                };
            }
            None => return Ok(()),
        };
        let mut socket = Socket::route()?;
        match socket.link(At::Name(&bridge.name))? {
            Some(link) if link.group == GROUP => {
                let ports = vlan_gateway::used_ports(&link, &mut socket)?;
                if let Some(port) = ports.first() {
                    return Err(Error::conflict(format!(
                        "bridge {} still has {} ports, {} among them",
                        bridge.name,
                        ports.len(),
                        port.name
                    )));
                }
                self.forget_gateway(bridge)?;
                vlan_gateway::remove_all(&link, &mut socket)?;
                self.forget_bridge(&bridge.name, &mut socket)?;
                self.delete(&mut socket, &bridge.name)
            }
            Some(link) => {
                let forgotten = self.forget_bridge(&bridge.name, &mut socket);
                let gateway = self.forget_gateway(bridge);
                let removed = vlan_gateway::remove_own(bridge, &link, &mut socket);
                let dropped = shares::drop_gateways(network, bridge, &link, &mut socket);
                forgotten.and(gateway).and(removed).and(dropped)
            }
            None => self.forget_bridge(&bridge.name, &mut socket),
        }
    }

    /// The packet filter's entry for the gateway of the bridge's VLAN.
    fn forget_gateway(&self, bridge: &Bridge) -> Result<()> {
        let gateway = plan::port::gateway_device(bridge)?;
        if gateway == bridge.name { Ok(()) } else { self.policy.forget_bridge(&gateway, false) }
    }

    /// The packet filter's table goes with our last bridge.
    fn forget_bridge(&self, name: &IfName, socket: &mut Socket) -> Result<()> {
        let bridges = socket.links(Links { kind: Some("bridge"), master: None })?;
        let is_last = !bridges.iter().any(|other| other.group == GROUP && other.name != *name);
        self.policy.forget_bridge(name, is_last)
    }

    pub(super) fn reap(&self, links: &[IfName]) -> Result<()> {
        match self.life {
            Life::Short if process::orphans_are_reaped() => {
                netlink::reap(links, self.policy.take_socket())
            }
            Life::Short | Life::Childless => netlink::delete_links(links),
            Life::Long => self.reaper.reap(links),
        }
    }

    pub(super) fn delete(&self, socket: &mut Socket, link: &IfName) -> Result<()> {
        match self.life {
            Life::Short | Life::Childless => {
                let mut batch = netlink::wire::Batch::new();
                batch.delete_link(At::Name(link));
                socket.send(&mut batch)?.except(Errno::NODEV).into_result()
            }
            Life::Long => self.reaper.reap(std::slice::from_ref(link)),
        }
    }
}
