//! The kernel as the engine's dataplane.

use engine::port::{Driver, Presence, Stray};
use model::{
    Attached, Attachment, Bridge, EgressPolicy, Error, Handoff, IfName, Kind, LinkKind, Mac,
    Network, Result, Runtime, Sandbox,
};
use netlink::{At, Errno, Link, Links, Netns, Reaper, Socket};

use crate::apply::Hands;
use crate::identity::{GROUP, Identity, PROTOCOL};
use crate::policy::Policy;
use crate::strays::Made;
use crate::{facts, plan, presence, tuning, verify};

/// How long the process lives that works on the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It answers and exits: what would make it wait for the kernel is left to a child.
    Short,
    /// It stays: what would make it wait for the kernel is left to a thread.
    Long,
}

/// The kernel of this host, in the network namespace of the calling thread. A thread has its own.
pub struct Linux {
    life: Life,
    policy: Policy,
    reaper: Reaper,
}

impl Linux {
    /// For a process of this life.
    pub fn new(life: Life) -> Self {
        Self { life, policy: Policy::default(), reaper: Reaper::new() }
    }

    /// Makes the packet filter's own rules what they should be, where others changed them; its
    /// elements are each attachment's ([`Driver::restore`]).
    ///
    /// # Errors
    /// Where the process may not change them; [`Kind::TryAgain`] where others keep doing so.
    pub fn mend(&self) -> Result<bool> {
        self.policy.mend()
    }

    /// Lets the subnets that the host is connected to now, and no others, reach the ports that are
    /// published for the LAN. For when addresses or routes of the host have changed; a table that is
    /// missing is not made.
    ///
    /// # Errors
    /// As [`Linux::mend`].
    pub fn refresh_lan(&self) -> Result<()> {
        self.policy.relearn_lan()
    }
}

impl Driver for Linux {
    fn attach(&self, attachment: &Attachment) -> Result<Attached> {
        self.policy.probe(attachment)?;
        let sandbox = entered(attachment)?;
        let attached = match (&attachment.wiring.link, &sandbox, attachment.handoff) {
            (Some(made), Some(_), _) | (Some(made), None, Handoff::Caller) => {
                link(attachment, made, sandbox.as_ref())?
            }
            (Some(_), None, Handoff::Finish) => {
                return Err(Error::invalid(format!("{} has no network namespace", attachment.id)));
            }
            (None, _, _) => unlinked(attachment),
        };
        self.policy.install(attachment)?;
        if let (Some(tuning), Some(sandbox)) = (&attachment.wiring.tuning, &sandbox) {
            tuning::tune(tuning, plan::device(attachment), sandbox)?;
        }
        Ok(attached)
    }

    fn detach(&self, attachment: &Attachment) -> Result<()> {
        let filtered = self.policy.remove(attachment);
        let sandbox = left(attachment);
        let tuned = match &attachment.wiring.tuning {
            Some(tuning) => tuning::untune(tuning, plan::device(attachment), sandbox.as_ref()),
            None => Ok(()),
        };
        let unlinked = self.unlink(attachment, sandbox.as_ref());
        filtered.and(tuned).and(unlinked)
    }

    fn check(&self, attachment: &Attachment, attached: &Attached) -> Result<()> {
        let sandbox = entered(attachment)?;
        if attachment.wiring.link.is_some() {
            verify::host(attachment, attached)?;
        }
        if let Some(sandbox) = &sandbox {
            if attachment.wiring.link.is_some() {
                verify::sandbox(attachment, attached, sandbox)?;
            }
            if let Some(tuning) = &attachment.wiring.tuning {
                tuning::check(tuning, plan::device(attachment), sandbox)?;
            }
        }
        // Of what the reference plugins made, the rules are not known.
        match attachment.runtime {
            Runtime::Reference => Ok(()),
            Runtime::Cni | Runtime::Podman | Runtime::Spoke | Runtime::Docker => {
                self.policy.check(attachment)
            }
        }
    }

    fn presence(&self, attachment: &Attachment) -> Presence {
        presence::of(attachment)
    }

    fn restore(&self, attachment: &Attachment) -> Result<bool> {
        self.policy.restore(attachment)
    }

    fn hardware_address(&self, attachment: &Attachment) -> Option<Mac> {
        let link = attachment.wiring.link.as_ref()?;
        (link.kind != LinkKind::Loopback).then(|| plan::container_mac(attachment, link))
    }

    fn up(&self, network: &Network) -> Result<()> {
        let Some(link) = &network.wiring.link else { return Ok(()) };
        let mut socket = Socket::route()?;
        let (facts, there) = facts::gather(&link.kind, &mut socket)?;
        let steps = plan::up(network, &facts)?;
        let mut hands = Hands::new(&mut socket, None);
        if let Some(there) = there {
            hands.knows(&there.name, there.index);
        }
        hands.apply(&steps)?;
        let firewall = network.wiring.firewall.as_ref();
        match (&link.kind, firewall.map(|firewall| firewall.egress)) {
            (LinkKind::Bridge(bridge), Some(EgressPolicy::Internal)) => {
                self.policy.make_internal(&bridge.name)
            }
            (_, _) => Ok(()),
        }
    }

    fn remove(&self, network: &Network) -> Result<()> {
        let kind = network.wiring.link.as_ref().map(|link| &link.kind);
        let Some(LinkKind::Bridge(bridge)) = kind else { return Ok(()) };
        let mut socket = Socket::route()?;
        match socket.link(At::Name(&bridge.name))? {
            Some(link) if link.group == GROUP => {
                let ports = socket.links(Links { kind: None, master: Some(link.index) })?;
                if let Some(port) = ports.first() {
                    return Err(Error::conflict(format!(
                        "bridge {} still has {} ports, {} among them",
                        bridge.name,
                        ports.len(),
                        port.name
                    )));
                }
                self.forget_bridge(&bridge.name, &mut socket)?;
                self.delete(&mut socket, &bridge.name)
            }
            Some(link) => {
                let forgotten = self.forget_bridge(&bridge.name, &mut socket);
                forgotten.and(drop_gateways(network, bridge, &link, &mut socket))
            }
            None => self.forget_bridge(&bridge.name, &mut socket),
        }
    }

    fn strays(
        &self,
        records: &dyn Fn() -> Result<Vec<Attachment>>,
    ) -> Result<Vec<(Stray, Presence)>> {
        let made = Made::look(self.policy.marks()?)?;
        Ok(made.strays(&records()?))
    }

    fn remove_stray(&self, stray: &Stray) -> Result<()> {
        match stray {
            Stray::Link(name) => self.delete(&mut Socket::route()?, name),
            Stray::Elements(mark) => self.policy.remove_marked(mark),
        }
    }
}

impl Linux {
    /// Removes the host's end, and with it the container's. Attachments of the reference plugins
    /// have a host's end of another name, and go by the container's.
    fn unlink(&self, attachment: &Attachment, sandbox: Option<&Netns>) -> Result<()> {
        match (&attachment.wiring.link, sandbox) {
            (None, _) => self.reap(&[]),
            (Some(link), sandbox) if link.kind == LinkKind::Loopback => match sandbox {
                Some(sandbox) => loopback_down(sandbox),
                None => Ok(()),
            },
            (Some(_), Some(sandbox)) if attachment.runtime == Runtime::Reference => {
                self.reap(&[Identity::of(&attachment.id).host_link()?])?;
                let device = plan::device(attachment);
                sandbox.enter(|| self.delete(&mut Socket::route()?, device))?
            }
            (Some(_), _) => self.reap(&[Identity::of(&attachment.id).host_link()?]),
        }
    }

    /// The packet filter's table goes with our last bridge.
    fn forget_bridge(&self, name: &IfName, socket: &mut Socket) -> Result<()> {
        let bridges = socket.links(Links { kind: Some("bridge"), master: None })?;
        let is_last = !bridges.iter().any(|other| other.group == GROUP && other.name != *name);
        self.policy.forget_bridge(name, is_last)
    }

    fn reap(&self, links: &[IfName]) -> Result<()> {
        match self.life {
            Life::Short => netlink::reap(links, self.policy.take_socket()),
            Life::Long => self.reaper.reap(links),
        }
    }

    fn delete(&self, socket: &mut Socket, link: &IfName) -> Result<()> {
        match self.life {
            Life::Short => {
                let mut batch = netlink::wire::Batch::new();
                batch.delete_link(At::Name(link));
                socket.send(&mut batch)?.except(Errno::NODEV).into_result()
            }
            Life::Long => self.reaper.reap(std::slice::from_ref(link)),
        }
    }
}

/// Takes the addresses back that [`Driver::up`] gave to a bridge of somebody else.
fn drop_gateways(
    network: &Network,
    bridge: &Bridge,
    link: &Link,
    socket: &mut Socket,
) -> Result<()> {
    let ours = plan::gateways(&network.ipam);
    let mut batch = netlink::wire::Batch::new();
    for held in socket.addresses(Some(link.index))? {
        if held.protocol == PROTOCOL && ours.contains(&held.address) {
            batch.delete_address(link.index, held.address);
        }
    }
    let dropped = socket.send(&mut batch)?.except(Errno::ADDRNOTAVAIL).into_result();
    dropped.map_err(|error| error.context(format!("bridge {}", bridge.name)))
}

/// Makes the link. Something of our own name that no record speaks of is in nobody's use: it is
/// removed, and the link made again.
fn link(attachment: &Attachment, made: &model::Link, sandbox: Option<&Netns>) -> Result<Attached> {
    match try_link(attachment, made, sandbox) {
        Err(error) if error.kind() == model::Kind::Conflict => {
            let mut socket = Socket::route()?;
            let name = Identity::of(&attachment.id).host_link()?;
            match socket.link(At::Name(&name))? {
                Some(link) if link.group == GROUP => {
                    let mut batch = netlink::wire::Batch::new();
                    batch.delete_link(At::Index(link.index));
                    socket.send(&mut batch)?.except(Errno::NODEV).into_result()?;
                    try_link(attachment, made, sandbox)
                }
                Some(_) | None => Err(error),
            }
        }
        tried => tried,
    }
}

fn try_link(
    attachment: &Attachment,
    made: &model::Link,
    sandbox: Option<&Netns>,
) -> Result<Attached> {
    let mut socket = Socket::route()?;
    let (facts, bridge) = facts::gather(&made.kind, &mut socket)?;
    let plan = plan::attach(attachment, &facts)?;
    let mut hands = Hands::new(&mut socket, sandbox);
    if let Some(bridge) = &bridge {
        hands.knows(&bridge.name, bridge.index);
    }
    hands.apply(&plan.host).map_err(|error| match &bridge {
        Some(bridge) if error.kind() == Kind::Exhausted => {
            error.context(format!("bridge {}", bridge.name))
        }
        Some(_) | None => error,
    })?;
    if let Some(sandbox) = sandbox {
        sandbox.enter(|| Hands::new(&mut Socket::route()?, None).apply(&plan.sandbox))??;
    }
    hands.apply(&plan.after)?;
    match bridge.filter(|bridge| bridge.group != GROUP) {
        Some(bridge) => tell_mac(plan.attached, &bridge, &mut socket),
        None => Ok(plan.attached),
    }
}

/// A bridge of somebody else may take the hardware address of a new port.
fn tell_mac(mut attached: Attached, bridge: &Link, socket: &mut Socket) -> Result<Attached> {
    let now = socket.link(At::Index(bridge.index))?;
    let named = attached.interfaces.iter_mut().find(|known| known.name == bridge.name);
    if let (Some(interface), Some(now)) = (named, now) {
        interface.mac = now.mac;
    }
    Ok(attached)
}

/// A layer without a link of its own became what it was told.
fn unlinked(attachment: &Attachment) -> Attached {
    Attached {
        interfaces: Vec::new(),
        addresses: attachment.addresses.clone(),
        routes: attachment.routes.clone(),
        dns: attachment.dns.clone(),
    }
}

fn loopback_down(sandbox: &Netns) -> Result<()> {
    let steps = [plan::Step::Down("lo".parse()?)];
    sandbox.enter(|| Hands::new(&mut Socket::route()?, None).apply(&steps))?
}

/// The container's namespace, where we work in it.
fn entered(attachment: &Attachment) -> Result<Option<Netns>> {
    match attachment.handoff {
        Handoff::Finish => attachment.sandbox.as_ref().map(open).transpose(),
        Handoff::Caller => Ok(None),
    }
}

/// The container's namespace, where it is still there and something is to be undone in it: a pair
/// goes by its host's end.
fn left(attachment: &Attachment) -> Option<Netns> {
    let inside = attachment.wiring.tuning.is_some()
        || attachment.runtime == Runtime::Reference
        || attachment.wiring.link.as_ref().is_some_and(|link| link.kind == LinkKind::Loopback);
    let sandbox = attachment.sandbox.as_ref().filter(|_| inside)?;
    open(sandbox).ok()
}

/// Opens the namespace that the record means; another one at its path is none.
fn open(sandbox: &Sandbox) -> Result<Netns> {
    let netns = Netns::open(&sandbox.path)?;
    if netns.inode() != sandbox.inode {
        return Err(Error::not_found(format!(
            "{} is another network namespace by now",
            sandbox.path.display()
        )));
    }
    Ok(netns)
}
