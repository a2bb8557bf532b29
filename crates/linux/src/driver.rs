//! The kernel as the engine's dataplane.

use std::collections::BTreeSet;

use engine::port::{Driver, Presence, Stray};
use model::{
    Attached, Attachment, Error, IfName, Kind, LinkKind, Mac, Network, Result, Runtime, Sandbox,
};
use netlink::{At, Errno, Link, Links, Netns, Socket};

use crate::apply::Hands;
use crate::identity::{GROUP, Identity};
use crate::policy::Policy;
use crate::{facts, identity, plan, tuning, verify};

/// How long the process lives that works on the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It answers and exits: what would make it wait for the kernel is left to a child.
    Short,
    /// It stays: it waits itself.
    Long,
}

/// The kernel of this host, in the network namespace of the calling thread.
pub struct Linux {
    life: Life,
    policy: Policy,
}

impl Linux {
    /// For a process of this life.
    pub fn new(life: Life) -> Self {
        Self { life, policy: Policy::default() }
    }
}

impl Driver for Linux {
    fn attach(&self, attachment: &Attachment) -> Result<Attached> {
        self.policy.probe(attachment)?;
        let sandbox = attachment.sandbox.as_ref().map(open).transpose()?;
        let attached = match (&attachment.wiring.link, &sandbox) {
            (Some(_), Some(sandbox)) => link(attachment, sandbox)?,
            (Some(_), None) => {
                return Err(Error::invalid(format!("{} has no network namespace", attachment.id)));
            }
            (None, _) => unlinked(attachment),
        };
        self.policy.install(attachment)?;
        if let (Some(tuning), Some(sandbox)) = (&attachment.wiring.tuning, &sandbox) {
            tuning::tune(tuning, &attachment.id.ifname, sandbox)?;
        }
        Ok(attached)
    }

    fn detach(&self, attachment: &Attachment) -> Result<()> {
        let filtered = self.policy.remove(attachment);
        let sandbox = attachment.sandbox.as_ref().and_then(|sandbox| open(sandbox).ok());
        let tuned = match &attachment.wiring.tuning {
            Some(tuning) => tuning::untune(tuning, &attachment.id.ifname, sandbox.as_ref()),
            None => Ok(()),
        };
        let unlinked = self.unlink(attachment, sandbox.as_ref());
        filtered.and(tuned).and(unlinked)
    }

    fn check(&self, attachment: &Attachment, attached: &Attached) -> Result<()> {
        let sandbox = attachment.sandbox.as_ref().map(open).transpose()?;
        if attachment.wiring.link.is_some() {
            verify::host(attachment, attached)?;
        }
        if let Some(sandbox) = &sandbox {
            if attachment.wiring.link.is_some() {
                verify::sandbox(attachment, attached, sandbox)?;
            }
            if let Some(tuning) = &attachment.wiring.tuning {
                tuning::check(tuning, &attachment.id.ifname, sandbox)?;
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
        let path = attachment.sandbox.as_ref().map(at_path);
        match (host_link(attachment), path) {
            (Ok(Some(_)), _) => Presence::Alive,
            (Err(_), _) => Presence::Doubtful,
            (Ok(None), Some(AtPath::Same(sandbox))) => within(attachment, &sandbox),
            (Ok(None), Some(AtPath::Other)) => Presence::Gone,
            (Ok(None), Some(AtPath::Nothing)) => match proves_death(attachment) {
                true => Presence::Gone,
                false => Presence::Doubtful,
            },
            (Ok(None), None) => Presence::Doubtful,
        }
    }

    fn restore(&self, attachment: &Attachment) -> Result<()> {
        self.policy.install(attachment)
    }

    fn hardware_address(&self, attachment: &Attachment) -> Option<Mac> {
        let link = attachment.wiring.link.as_ref()?;
        Some(plan::container_mac(attachment, link))
    }

    fn up(&self, _network: &Network) -> Result<()> {
        Err(Error::bug("not there yet"))
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
                self.policy.forget_bridge(&bridge.name)?;
                self.delete(&mut socket, &bridge.name)
            }
            Some(_) | None => self.policy.forget_bridge(&bridge.name),
        }
    }

    /// A link lives as long as its container's namespace: it is never garbage. Elements of a link
    /// that is gone are.
    fn strays(
        &self,
        records: &dyn Fn() -> Result<Vec<Attachment>>,
    ) -> Result<Vec<(Stray, Presence)>> {
        let links = Socket::route()?.links(Links { kind: Some("veth"), master: None })?;
        let links: BTreeSet<IfName> =
            links.into_iter().filter(|link| link.group == GROUP).map(|link| link.name).collect();
        let marks = self.policy.marks()?;
        let known: Vec<Identity> =
            records()?.iter().map(|attachment| Identity::of(&attachment.id)).collect();
        let mut strays = Vec::new();
        for link in &links {
            if !known.iter().any(|identity| identity.host_link().is_ok_and(|made| made == *link)) {
                strays.push((Stray::Link(link.clone()), Presence::Alive));
            }
        }
        for mark in marks {
            if !known.iter().any(|identity| identity.made(&mark)) {
                let presence = presence_of(&mark, &links);
                strays.push((Stray::Elements(mark), presence));
            }
        }
        Ok(strays)
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
                sandbox.enter(|| self.delete(&mut Socket::route()?, &attachment.id.ifname))?
            }
            (Some(_), _) => self.reap(&[Identity::of(&attachment.id).host_link()?]),
        }
    }

    fn reap(&self, links: &[IfName]) -> Result<()> {
        let hold = self.policy.take_socket();
        match self.life {
            Life::Short => netlink::reap(links, hold),
            Life::Long => {
                let mut socket = Socket::route()?;
                links.iter().try_for_each(|link| self.delete(&mut socket, link))
            }
        }
    }

    fn delete(&self, socket: &mut Socket, link: &IfName) -> Result<()> {
        let mut batch = netlink::wire::Batch::new();
        batch.delete_link(At::Name(link));
        socket.send(&mut batch)?.except(Errno::NODEV).into_result()
    }
}

/// Makes the link. Something of our own name that no record speaks of is in nobody's use: it is
/// removed, and the link made again.
fn link(attachment: &Attachment, sandbox: &Netns) -> Result<Attached> {
    match try_link(attachment, sandbox) {
        Err(error) if error.kind() == model::Kind::Conflict => {
            let mut socket = Socket::route()?;
            let name = Identity::of(&attachment.id).host_link()?;
            match socket.link(At::Name(&name))? {
                Some(link) if link.group == GROUP => {
                    let mut batch = netlink::wire::Batch::new();
                    batch.delete_link(At::Index(link.index));
                    socket.send(&mut batch)?.except(Errno::NODEV).into_result()?;
                    try_link(attachment, sandbox)
                }
                Some(_) | None => Err(error),
            }
        }
        tried => tried,
    }
}

fn try_link(attachment: &Attachment, sandbox: &Netns) -> Result<Attached> {
    let mut socket = Socket::route()?;
    let (facts, bridge) = facts::gather(attachment, &mut socket)?;
    let plan = plan::attach(attachment, &facts)?;
    let mut hands = Hands::new(&mut socket, Some(sandbox));
    if let Some(bridge) = &bridge {
        hands.knows(&bridge.name, bridge.index);
    }
    hands.apply(&plan.host).map_err(|error| match &bridge {
        Some(bridge) if error.kind() == Kind::Exhausted => {
            error.context(format!("bridge {}", bridge.name))
        }
        Some(_) | None => error,
    })?;
    sandbox.enter(|| Hands::new(&mut Socket::route()?, None).apply(&plan.sandbox))??;
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

enum AtPath {
    Same(Netns),
    Other,
    Nothing,
}

fn at_path(sandbox: &Sandbox) -> AtPath {
    match Netns::open(&sandbox.path) {
        Ok(netns) if netns.inode() == sandbox.inode => AtPath::Same(netns),
        Ok(_) => AtPath::Other,
        Err(_) => AtPath::Nothing,
    }
}

/// Of a container that still has its namespace, but whose host's end is gone, if it had one.
fn within(attachment: &Attachment, sandbox: &Netns) -> Presence {
    if !has_host_end(attachment) {
        return Presence::Alive;
    }
    let ifname = At::Name(&attachment.id.ifname);
    match sandbox.enter(|| Socket::route()?.link(ifname)) {
        Ok(Ok(None)) => Presence::Gone,
        Ok(Ok(Some(_)) | Err(_)) | Err(_) => Presence::Doubtful,
    }
}

/// Whether the container that elements were made for still has its link. One that got its link
/// from somebody else proves nothing.
fn presence_of(mark: &str, links: &BTreeSet<IfName>) -> Presence {
    let host_link = identity::host_link_of(mark);
    match host_link.is_some_and(|link| links.contains(&link)) {
        true => Presence::Alive,
        false if mark.ends_with("/link") => Presence::Gone,
        false => Presence::Doubtful,
    }
}

fn host_link(attachment: &Attachment) -> Result<Option<Link>> {
    let name = Identity::of(&attachment.id).host_link()?;
    Socket::route()?.link(At::Name(&name))
}

fn has_host_end(attachment: &Attachment) -> bool {
    let link = attachment.wiring.link.as_ref();
    link.is_some_and(|link| link.kind != LinkKind::Loopback)
}

/// Nothing at the namespace's path proves little, because it may be mounted where we cannot see
/// it. With it the host's end is gone too, which the kernel removes together with the namespace;
/// and where nothing is held, nothing can be taken from a living one.
fn proves_death(attachment: &Attachment) -> bool {
    let holds_something = !attachment.leases.is_empty() || attachment.wiring.publish.is_some();
    has_host_end(attachment) || !holds_something
}
