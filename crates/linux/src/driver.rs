//! The kernel as the engine's dataplane.

mod removal;

use std::cell::RefCell;
use std::net::IpAddr;

use engine::port::{Driver, Metered, Neighbours, Presence, Still};
use model::{
    Attached, Attachment, Error, Family, Handoff, IfName, InterfaceNamespace, LinkKind, Mac,
    Network, PortMap, Result, Runtime,
};
use netlink::{Announcement, At, HostLock, Reaper, Socket, process};

use crate::facts;
use crate::life::Life;
use crate::link::{self, Before};
use crate::moved::Moved;
use crate::policy::{OwnTable, Policy};
use crate::{
    device, external, gateway, masquerade, mtu, network as shares, parts, plan, presence, probe,
    rate, sandbox, shared, sources, tuning, verify,
};

/// The kernel of this host, in the network namespace of the calling thread. A thread has its own.
pub struct Linux {
    life: Life,
    lock: HostLock,
    policy: Policy,
    reaper: Reaper,
    /// Announced after everything else: making a child takes longer than answering.
    announced: RefCell<Vec<Announcement>>,
}

impl Linux {
    /// For a process of this life, alone in its namespace or among others that lock that.
    pub fn new(life: Life) -> Self {
        Self::locked_by(HostLock::default(), life)
    }

    /// The same where processes exclude each other by this lock.
    pub fn locked_by(lock: HostLock, life: Life) -> Self {
        let (policy, announced) = (Policy::new(lock.clone()), RefCell::default());
        Self { life, lock, policy, reaper: Reaper::new(), announced }
    }

    /// Makes the packet filter's own rules what they should be, where others changed them; its
    /// elements are each attachment's ([`Driver::restore`]). One that cannot be mended keeps no other from it.
    ///
    /// # Errors
    /// Where the process may not change them; [`model::Kind::TryAgain`] where others keep doing so.
    pub fn mend(&self) -> Result<bool> {
        let mended = OwnTable::ALL.map(|table| self.mend_table(table));
        mended.into_iter().try_fold(false, |any, mended| Ok(mended? || any))
    }

    /// The same of one table.
    ///
    /// # Errors
    /// As [`Linux::mend`].
    pub fn mend_table(&self, table: OwnTable) -> Result<bool> {
        self.policy.mend(table)
    }

    /// Why published ports are not counted, where [`Driver::restore`] or making an attachment found that: they
    /// work all the same.
    pub fn take_uncounted(&self) -> Option<Error> {
        self.policy.take_uncounted()
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

    /// Whether the end in the host has the name of the attachment's and is another attachment's.
    ///
    /// # Errors
    /// Where the kernel cannot be asked.
    pub fn is_anothers(&self, attachment: &Attachment) -> Result<bool> {
        presence::is_anothers(attachment)
    }
}

impl Driver for Linux {
    fn attach(&self, attachment: &Attachment) -> Result<Attached> {
        // A source that is asked over the link was asked before.
        let before = match attachment.ipam.asks_over_link() {
            true => Before::Connected,
            false => Before::Nothing,
        };
        self.make(attachment, before)
    }

    fn connect(&self, attachment: &Attachment) -> Result<()> {
        self.policy.fence(attachment)?;
        self.policy.hold_to_way(&attachment.id.network, &attachment.wiring)?;
        match attachment.wiring.link {
            Some(_) => {
                link::connect(attachment, sandbox::entered(attachment)?.as_ref(), &self.lock)?;
                sources::settle_for(&attachment.wiring)
            }
            None => Ok(()),
        }
    }

    fn complete(&self, attachment: &Attachment) -> Result<Attached> {
        self.make(attachment, Before::Connected)
    }

    fn answers(&self, attachment: &Attachment) -> Result<Vec<IpAddr>> {
        probe::answers(attachment, sandbox::entered(attachment)?.as_ref())
    }

    fn detach(&self, attachment: &Attachment) -> Result<()> {
        let filtered = self.policy.remove(attachment);
        let sandbox = sandbox::remaining(attachment);
        let attachment = &external::as_inside(attachment, sandbox.as_ref());
        let tuned = match &attachment.wiring.tuning {
            Some(tuning) => tuning::untune(tuning, plan::device(attachment), sandbox.as_ref()),
            None => Ok(()),
        };
        let undone = parts::undo(attachment, sandbox.as_ref());
        let (devices, found) = match parts::devices(attachment) {
            Ok(devices) => (devices, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        // One wait for all.
        let delete = |links: &[IfName]| self.reap(&[&devices, links].concat());
        let unlinked = link::remove(attachment, sandbox.as_ref(), &delete);
        if let Some(moved) = Moved::by_going(attachment) {
            moved.report(self.life != Life::Long);
        }
        let own = match unlinked {
            Ok(()) => self.policy.forget_own(attachment),
            Err(_) => Ok(()),
        };
        filtered.and(tuned).and(undone).and(found).and(unlinked).and(own)
    }

    fn check(&self, attachment: &Attachment, attached: &Attached) -> Result<()> {
        let sandbox = sandbox::entered(attachment)?;
        let attachment = &external::as_attached(attachment, attached);
        // If both ends of a pair are missing, the error names the container's.
        if let Some(sandbox) = &sandbox
            && attachment.wiring.link.is_some()
        {
            verify::sandbox(attachment, attached, sandbox)?;
        }
        if attachment.wiring.link.is_some() {
            verify::host(attachment, attached)?;
        }
        if let (Some(sandbox), Some(tuning)) = (&sandbox, &attachment.wiring.tuning) {
            tuning::check(tuning, plan::device(attachment), sandbox)?;
        }
        parts::check(attachment, attached, sandbox.as_ref())?;
        // Of what the reference plugins made, the rules are not known.
        match attachment.runtime {
            Runtime::Reference => Ok(()),
            _ => self.policy.check(attachment),
        }
    }

    fn presence(&self, attachment: &Attachment) -> Presence {
        presence::of(attachment)
    }

    fn restore(&self, attachment: &Attachment) -> Result<bool> {
        let filter = self.policy.restore(attachment);
        if attachment.wiring.bandwidth.is_none() || attachment.runtime == Runtime::Reference {
            return filter;
        }
        let limited = self.restore_limits(attachment);
        Ok(filter? | limited?)
    }

    fn unfilter(&self, attachment: &Attachment) -> Result<()> {
        let removed = self.policy.remove(attachment);
        removed.and(self.policy.forget_own_of_gone(attachment))
    }

    fn withdraw_addresses(&self, before: &Attachment, now: &Attachment) -> Result<()> {
        self.policy.withdraw_addresses(before, now)
    }

    fn refuse_port(&self, attachment: &Attachment, map: &PortMap) -> Result<()> {
        self.policy.refuse_port(attachment, map)
    }

    fn withdraw_ports(&self, attachment: &Attachment, gone: &[PortMap]) -> Result<()> {
        self.policy.withdraw_ports(attachment, gone)
    }

    fn limit(&self, attachment: &Attachment) -> Result<()> {
        self.restore_limits(attachment).map(drop)
    }

    fn metered(&self, attachment: &Attachment) -> Result<Option<Metered>> {
        self.policy.metered(attachment)
    }

    fn meter(&self, attachment: &Attachment, metered: Metered) -> Result<()> {
        self.policy.meter(attachment, metered)
    }

    fn unmeter(&self, attachment: &Attachment) -> Result<()> {
        self.policy.unmeter(attachment)
    }

    fn revise(&self, before: &Attachment, after: &Attachment) -> Result<()> {
        mtu::revise(before, after)?;
        self.policy.revise_reach(after)?;
        self.limit(after)
    }

    fn retune(&self, network: &Network) -> Result<()> {
        mtu::retune(network)
    }

    fn refuse_way(&self, network: &Network) -> Result<()> {
        self.policy.refuse_way(network)
    }

    fn refuse_sources(&self, network: &Network) -> Result<()> {
        masquerade::refuse_shared(network)
    }

    fn lead(&self, network: &Network, attachments: &[Attachment], still: Still<'_>) -> Result<()> {
        self.policy.lead(network, attachments, still)
    }

    fn refuse_fence(&self, attachment: &Attachment) -> Result<()> {
        self.policy.refuse_own(attachment)
    }

    fn shut_neighbours(&self, now: &Attachment, neighbours: Neighbours<'_>) -> Result<()> {
        self.policy.shut_neighbours(now, neighbours)
    }

    fn fence(&self, now: &Attachment) -> Result<()> {
        self.policy.change_own(now)
    }

    fn restore_shared(&self, attachment: &Attachment) -> Result<bool> {
        self.policy.restore_shared(attachment)
    }

    fn refuse_bridge(&self, network: &Network) -> Result<()> {
        shares::refuse_bridge(network)
    }

    fn shared_hardware(&self, network: &Network) -> Result<Option<Mac>> {
        let bridge = network.wiring.link.as_ref().and_then(|link| link.kind.bridge());
        let Some(bridge) = bridge else { return Ok(None) };
        Ok(Socket::route()?.link(At::Name(&bridge.name))?.and_then(|link| link.mac))
    }

    fn hardware_address(&self, attachment: &Attachment) -> Option<Mac> {
        plan::hardware_address(attachment)
    }

    fn status(&self, network: &Network) -> Result<()> {
        let Some(link) = &network.wiring.link else { return Ok(()) };
        use InterfaceNamespace::Sandbox;
        let mut socket = Socket::route()?;
        match &link.kind {
            // The links in a container are unknown before the container exists.
            kind if kind.parent().is_some_and(|parent| parent.place == Sandbox) => Ok(()),
            LinkKind::Device(device) => device::is_there(device, &mut socket),
            kind => facts::of_network(&network.name, kind, None, &mut socket).map(|_| ()),
        }
    }

    fn set_gateway(&self, attachment: &Attachment, families: &[Family]) -> Result<()> {
        let Some(sandbox) = sandbox::entered(attachment)? else {
            return Err(Error::unsupported(format!(
                "{}: Spoke does not manage the default route of this sandbox",
                attachment.id
            )));
        };
        // A port must not lead to the container while its answers have no route.
        gateway::set_default_routes(attachment, families, &sandbox)?;
        self.policy.set_gateway(attachment, families)
    }

    fn up(&self, network: &Network) -> Result<()> {
        let Some(link) = &network.wiring.link else { return Ok(()) };
        network.refuse_fence()?;
        network.refuse_via()?;
        self.policy.fence_network(&network.name, &network.wiring, &network.ipam)?;
        self.policy.hold_to_way(&network.name, &network.wiring)?;
        shared::with_lock(&self.lock, &link.kind, || {
            shares::raise(network, &link.kind, &self.lock)
        })?;
        sources::settle_for(&network.wiring)?;
        let is_internal = network.wiring.is_internal();
        match &link.kind {
            LinkKind::Bridge(bridge) if is_internal || network.wiring.address_space.is_some() => {
                self.policy.make_internal(&bridge.name)
            }
            _ => Ok(()),
        }
    }

    fn remove(&self, network: &Network) -> Result<()> {
        self.remove_network(network)
    }
}

impl Linux {
    /// Judges what goes out by the container's interface as the followed firewall does, where one is.
    ///
    /// # Errors
    /// Where the process may not change it.
    pub fn follow_behind(&self, attachment: &Attachment) -> Result<()> {
        self.policy.follow_behind(attachment)
    }

    /// The interface that this judges.
    ///
    /// # Errors
    /// Where the kernel cannot be asked.
    pub fn judged_behind(attachment: &Attachment) -> Result<Option<IfName>> {
        Policy::judged_behind(attachment)
    }

    /// Does this work, after which nothing of the attachment is published, and ends that, unless `is_needed`
    /// says that another attachment has ports behind the interface.
    ///
    /// # Errors
    /// Of the work or of `is_needed`, or where the process may not change it.
    pub fn leave_behind(
        &self,
        attachment: &Attachment,
        is_needed: &dyn Fn(&IfName) -> Result<bool>,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.policy.leave_behind(attachment, is_needed, work)
    }

    fn make(&self, attachment: &Attachment, before: Before) -> Result<Attached> {
        self.policy.probe(attachment)?;
        self.policy.fence(attachment)?;
        self.policy.hold_to_way(&attachment.id.network, &attachment.wiring)?;
        let sandbox = sandbox::entered(attachment)?;
        let mut attached = match (&attachment.wiring.link, &sandbox, attachment.handoff) {
            (Some(_), Some(_), _) | (Some(_), None, Handoff::Caller) => {
                link::make(attachment, sandbox.as_ref(), before, &self.lock)?
            }
            (Some(_), None, Handoff::Finish) => {
                return Err(Error::invalid(format!("{} has no network namespace", attachment.id)));
            }
            (None, _, _) => link::unlinked(attachment),
        };
        sources::settle_for(&attachment.wiring)?;
        self.policy.install(attachment)?;
        let named = external::as_attached(attachment, &attached);
        if let (Some(tuning), Some(sandbox)) = (&named.wiring.tuning, &sandbox) {
            tuning::tune(tuning, plan::device(&named), sandbox)?;
        }
        parts::make(&named, &mut attached, sandbox.as_ref())?;
        self.announce(attachment, &attached);
        Ok(attached)
    }

    /// Neighbours may remember the previous holder of the address: a third party that made an
    /// interface chose its hardware address.
    fn announce(&self, attachment: &Attachment, attached: &Attached) {
        match (external::announcement(attachment, attached), self.life) {
            (Some(announcement), Life::Short | Life::Childless) => {
                self.announced.borrow_mut().push(announcement)
            }
            (Some(announcement), Life::Long) => announcement.announce_from_thread(),
            (None, _) => {}
        }
        let addresses = attached.addresses.iter().map(|held| held.address.addr()).collect();
        if let Some(moved) = Moved::by_coming(attachment, addresses) {
            moved.report(self.life != Life::Long);
        }
    }

    fn restore_limits(&self, attachment: &Attachment) -> Result<bool> {
        rate::restore(attachment, sandbox::entered(attachment)?.as_ref(), &self.lock)
    }
}

impl Drop for Linux {
    fn drop(&mut self) {
        let socket = self.policy.take_socket().filter(|_| self.life == Life::Short);
        match socket {
            Some(socket) if process::orphans_are_reaped() => {
                // Without a child the process closes it itself, and waits.
                let _ = netlink::reap(&[], Some(socket));
            }
            Some(socket) => netlink::close_at_end(socket),
            None => {}
        }
        let announced = self.announced.get_mut();
        if announced.is_empty() {
            return;
        }
        match self.life == Life::Short && process::orphans_are_reaped() {
            true => announced.iter().for_each(Announcement::announce_from_child),
            false => announced.iter().for_each(Announcement::announce_once),
        }
    }
}
