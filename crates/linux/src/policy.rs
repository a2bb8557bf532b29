//! The treatment of an attachment's packets, in the filter that its record names.

mod addresses;
mod count;
mod expected;
mod fence;
mod flows;
mod forward;
mod gateway;
mod loopback;
mod marked;
mod own_table;
mod ports;
mod quota;
mod reach;
mod removal;
mod rule_table;
mod transit;
mod via;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Instant;

use model::{
    Attachment, Backend, Error, Firewall, IfName, IngressPolicy, InterfaceAddress, Publish, Reach,
    Result, Runtime, ZoneName,
};
use netlink::wire::Batch;
use netlink::{At, Change, HostLock, Socket, nft};

use self::expected::{ExpectedElements, uses_table};
use self::flows::Stale;
pub use self::own_table::OwnTable;
pub use self::rule_table::RuleTable;
use crate::filter::spoof::Bound;
use crate::filter::{self, Owner};
use crate::identity::{self, Identity};
use crate::iptables::{Iptables, Variant};
use crate::{firewalld, follow, listener, subnets};

/// The packet filters of this host.
#[derive(Default)]
pub(crate) struct Policy {
    /// It is taken outside of what is repeated in calm: a lock that was not had is not waited for again.
    lock: HostLock,
    /// Opened once.
    socket: RefCell<Option<Socket>>,
    /// Whether something was deleted through it: closing it then blocks for an RCU grace period.
    deleted: Cell<bool>,
    /// Why ports are not counted.
    uncounted: RefCell<Option<Error>>,
    /// Until when healing does not wait for who keeps the lock on iptables rules.
    kept_until: Cell<Option<Instant>>,
    /// When healing looked last for what version 0.1.0 isolated each bridge by.
    looked_at: RefCell<BTreeMap<IfName, Instant>>,
}

impl Policy {
    pub(crate) fn new(lock: HostLock) -> Self {
        Self { lock, ..Self::default() }
    }

    fn iptables(&self, variant: Variant) -> Iptables {
        Iptables::new(variant).locked_by(&self.lock)
    }

    /// Refuses ports on which a process of this host listens, and those of protocols that the
    /// kernel does not have. The reference's portmap accepts these, so they are accepted for CNI.
    pub(crate) fn probe(&self, attachment: &Attachment) -> Result<()> {
        let published = attachment.wiring.publish.as_ref();
        let ports = published.map_or(&[][..], |publish| &publish.ports);
        if !matches!(attachment.runtime, Runtime::Cni | Runtime::Reference) {
            ports.iter().try_for_each(listener::refuse_unspoken)?;
        }
        ports.iter().try_for_each(listener::refuse)
    }

    /// Makes the parts that the wiring has.
    pub(crate) fn install(&self, attachment: &Attachment) -> Result<()> {
        self.prepare(attachment)?;
        self.iptables(Variant::Host).install(attachment)?;
        if let Some(wanted) = ExpectedElements::of(attachment)? {
            let is_gone = yielding(attachment)?;
            self.in_table(attachment, |socket| {
                filter::install(socket, &wanted.elements, &is_gone)
            })?;
            self.count(attachment, &wanted.elements);
            self.open_loopback(attachment, wanted.behind.as_ref())?;
            let legacy = |old: &_| self.iptables(Variant::Legacy).install(old);
            self.let_forward(attachment, &wanted.behind, legacy)?;
        }
        in_zone(attachment, firewalld::add_sources)?;
        // One that is bound or apart is so since before there was its port ([`Policy::fence`]).
        if !is_checked_to_the_end(attachment)
            && let Some(sender) = filter::spoof::sender(attachment)?
        {
            self.with(|socket| filter::spoof::install(socket, &sender))?;
        }
        self.forget_flows(attachment)
    }

    /// As [`Policy::install`], for what mostly is there and only the attachment has. Whether any of it
    /// was missing. Our own tables come first: iptables and firewalld may keep it waiting. One that fails keeps
    /// no other from being done, but where the fence fails nothing is let out.
    pub(crate) fn restore(&self, attachment: &Attachment) -> Result<bool> {
        let held = self.hold_again(attachment)? | self.refence(attachment)?;
        let own = self.restore_own(attachment);
        let rules = self.install_rules_again(Variant::Host, attachment);
        let zone = in_zone(attachment, firewalld::add_sources);
        Ok(held | own? | zone.and(rules)?)
    }

    fn restore_own(&self, attachment: &Attachment) -> Result<bool> {
        // What fails of the rest does not keep the port from being checked.
        let unchecked = match filter::spoof::sender(attachment)? {
            Some(sender) => self.with(|socket| filter::spoof::restore(socket, &sender))?,
            None => false,
        };
        self.prepare(attachment)?;
        let Some(wanted) = ExpectedElements::of(attachment)? else { return Ok(unchecked) };
        let is_gone = yielding(attachment)?;
        let missed = self
            .in_table(attachment, |socket| filter::restore(socket, &wanted.elements, &is_gone))?;
        let uncounted = self.count(attachment, &wanted.elements);
        self.open_loopback(attachment, wanted.behind.as_ref())?;
        if missed {
            self.forget_flows(attachment)?;
        }
        Ok(missed || uncounted || unchecked)
    }

    /// Everything but our own table and iptables.
    fn prepare(&self, attachment: &Attachment) -> Result<()> {
        refuse_trust(attachment)?;
        if let Some(publish) = &attachment.wiring.publish {
            self.prepare_ports(publish)?;
        }
        isolate(attachment)?;
        transit::report(attachment)
    }

    fn prepare_ports(&self, publish: &Publish) -> Result<()> {
        match (publish.reach, publish.backend) {
            (Reach::Any, _) | (Reach::Local, Backend::Nftables) => Ok(()),
            (Reach::Lan, Backend::Nftables) => self.refresh_lan(),
            (Reach::Lan | Reach::Local, Backend::Iptables) => Err(Error::unsupported(
                "ports for the LAN or this host only need the nftables back end".to_owned(),
            )),
        }
    }

    /// Lets the followed firewall judge what goes out by the interface to the container.
    pub(crate) fn follow_behind(&self, attachment: &Attachment) -> Result<()> {
        match expected::judged_behind(attachment)? {
            Some(behind) => self.if_there(|socket| follow::reach_behind(socket, &behind)),
            None => Ok(()),
        }
    }

    /// Ends that where nothing is published by the interface after this work, and no other record needs it.
    pub(crate) fn leave_behind(
        &self,
        attachment: &Attachment,
        is_needed: &dyn Fn(&IfName) -> Result<bool>,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        // The way to the container may be gone afterwards.
        let behind = expected::judged_behind(attachment);
        let worked = work();
        let left = behind.and_then(|behind| match behind {
            Some(behind) => {
                self.if_there(|socket| follow::forget_behind(socket, &behind, is_needed))
            }
            None => Ok(()),
        });
        worked.and(left)
    }

    /// The interface that [`Policy::follow_behind`] has judged.
    pub(crate) fn judged_behind(attachment: &Attachment) -> Result<Option<IfName>> {
        expected::judged_behind(attachment)
    }

    fn forget_flows(&self, attachment: &Attachment) -> Result<()> {
        match Stale::before(attachment)? {
            Some(stale) => self.if_there(|socket| stale.forget(socket)),
            None => Ok(()),
        }
    }

    /// Lets the subnets that the host is connected to now reach the ports for the LAN.
    pub(crate) fn refresh_lan(&self) -> Result<()> {
        let subnets = subnets::connected(&mut Socket::route()?)?;
        self.with(|socket| filter::set_lan(socket, &subnets))
    }

    /// The same where Spoke's table exists: on any other host there are no ports for the LAN.
    pub(crate) fn relearn_lan(&self) -> Result<()> {
        match self.if_there(filter::is_loaded)? {
            true => self.refresh_lan(),
            false => Ok(()),
        }
    }

    /// Lets nothing pass between the containers of this bridge and anything else.
    pub(crate) fn make_internal(&self, bridge: &IfName) -> Result<()> {
        self.with(|socket| filter::make_internal(socket, bridge))
    }

    /// Names the first part that is missing.
    pub(crate) fn check(&self, attachment: &Attachment) -> Result<()> {
        self.iptables(Variant::Host).check(attachment)?;
        let wanted = if uses_table(attachment) { ExpectedElements::of(attachment)? } else { None };
        if let Some(wanted) = wanted {
            self.with(|socket| filter::verify(socket, &wanted.elements))?;
        }
        in_zone(attachment, firewalld::check_sources)?;
        match filter::spoof::sender(attachment)? {
            Some(sender) => self.with(|socket| filter::spoof::verify(socket, &sender)),
            None => Ok(()),
        }
    }

    /// The socket, for a process that ends soon and must not be the last to close it.
    pub(crate) fn take_socket(&self) -> Option<Socket> {
        self.socket.borrow_mut().take().filter(|_| self.deleted.get())
    }

    /// As [`Policy::with`], for reads and removals: a kernel without nftables has nothing.
    fn if_there<T: Default>(&self, work: impl FnMut(&mut Socket) -> Result<T>) -> Result<T> {
        or_nothing(self.with(work))
    }

    /// As [`Policy::with`] for who has parts in our table; for others, whose elements only say that they
    /// are there, as [`Policy::if_there`].
    fn in_table<T: Default>(
        &self,
        attachment: &Attachment,
        work: impl FnMut(&mut Socket) -> Result<T>,
    ) -> Result<T> {
        if uses_table(attachment) { self.with(work) } else { self.if_there(work) }
    }

    /// Works on the packet filter, by steps that can be repeated: containers behind a fence must not keep it from
    /// being done by what they resolve.
    fn with<T>(&self, work: impl FnMut(&mut Socket) -> Result<T>) -> Result<T> {
        self.with_calm(|socket| filter::fence::calmly(socket, work))
    }

    /// The same for steps that ask for calm themselves: asked for twice, each attempt would be made so often again.
    fn with_calm<T>(&self, work: impl FnOnce(&mut Socket) -> Result<T>) -> Result<T> {
        let mut socket = self.socket.borrow_mut();
        let socket = match socket.as_mut() {
            Some(socket) => socket,
            None => socket.insert(Socket::netfilter()?),
        };
        work(socket)
    }
}

/// For reads and removals: a kernel without nftables has nothing.
fn or_nothing<T: Default>(worked: Result<T>) -> Result<T> {
    match worked {
        Err(_) if !nft::is_supported() => Ok(T::default()),
        worked => worked,
    }
}

/// Refuses trusted interfaces where no table of Spoke's keeps others away.
fn refuse_trust(attachment: &Attachment) -> Result<()> {
    let nftables = |part: &Firewall| part.backend == Backend::Nftables;
    let is_kept = attachment.wiring.firewall.as_ref().is_some_and(nftables);
    match attachment.wiring.passage().trusted().first() {
        Some(name) if !is_kept => Err(Error::unsupported(format!(
            "network {}: trusted interfaces ({name}) need the nftables back end",
            attachment.id.network
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Works on the container's addresses in the zone of firewalld that its record names.
fn in_zone(
    attachment: &Attachment,
    work: fn(&ZoneName, &[InterfaceAddress]) -> Result<()>,
) -> Result<()> {
    let firewall = attachment.wiring.firewall.as_ref();
    match firewall.and_then(|firewall| firewall.zone.as_ref()) {
        Some(zone) => work(zone, &attachment.addresses),
        None => Ok(()),
    }
}

/// Whether its sender is checked as long as there is the interface.
fn is_checked_to_the_end(attachment: &Attachment) -> bool {
    filter::spoof::bound(attachment) != Bound::No || filter::spoof::is_apart(attachment)
}

/// Who gives way to the attachment.
fn yielding(attachment: &Attachment) -> Result<impl Fn(&Owner) -> Result<bool>> {
    let host_end = Identity::of(&attachment.id).host_link()?;
    Ok(move |owner: &Owner| is_gone(owner, &host_end))
}

/// Whether the attachment with this `host_end` may replace an owner's element. It may replace a
/// dead container, whose host's end is gone. An owner whose link another plugin made has no host's
/// end of Spoke's, dead or alive, and may be replaced too, as may the other layers of the same
/// attachment. A link of Spoke's without an end in the host may be alive: it stays.
fn is_gone(owner: &Owner, host_end: &IfName) -> Result<bool> {
    match identity::host_link_of(owner.as_str()) {
        Some(link) if link == *host_end => Ok(true),
        Some(_) if identity::is_hidden(owner.as_str()) => Ok(false),
        Some(link) => Ok(Socket::route()?.link(At::Name(&link))?.is_none()),
        None => Ok(true),
    }
}

/// Packets between neighbours on one bridge never pass the packet filter: their ports keep them
/// apart. A host's end that is not Spoke's is left as it is.
fn isolate(attachment: &Attachment) -> Result<()> {
    let isolated = |part: &Firewall| part.ingress == IngressPolicy::Isolated;
    if !attachment.wiring.firewall.as_ref().is_some_and(isolated) {
        return Ok(());
    }
    let mut socket = Socket::route()?;
    let host_end = Identity::of(&attachment.id).host_link()?;
    match socket.link(At::Name(&host_end))? {
        Some(link) if link.port.is_some() => {
            let mut batch = Batch::new();
            batch.change_link(At::Index(link.index), &[Change::Isolated(true)]);
            socket.send(&mut batch)?.into_result()
        }
        Some(_) | None => Ok(()),
    }
}
