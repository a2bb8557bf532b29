//! The fences of networks: made before the first interface, and gone with the bridge.

use engine::port::Neighbours;
use model::{Attachment, Error, IfName, Ipam, NetworkName, Result, Wiring};
use netlink::{At, Socket};

use super::{Policy, or_nothing};
use crate::filter::fence::{self, BoundPort, Fenced, Own};
use crate::filter::spoof::{self, Sender, sender};
use crate::identity::{GROUP, Identity};

impl Policy {
    /// Makes the fence of the attachment's network, before there is a link that could leave without one.
    pub(crate) fn fence(&self, attachment: &Attachment) -> Result<()> {
        self.fence_network(&attachment.id.network, &attachment.wiring, &attachment.ipam)?;
        match attachment.wiring.own_fence {
            Some(_) => self.fence_own(attachment)?,
            None => self.bind(attachment)?,
        }
        self.forget_former(attachment)
    }

    /// Has the port checked of who sends from its own addresses only, or from no neighbour's.
    fn bind(&self, attachment: &Attachment) -> Result<()> {
        match sender(attachment)?.filter(Sender::is_checked_from_the_start) {
            Some(sender) => self.with(|socket| spoof::install(socket, &sender)),
            None => Ok(()),
        }
    }

    /// Ends what the former holder of the container's addresses has begun and opened: no rule is asked about
    /// that any more. There is no link yet by which the container could begin anything.
    fn forget_former(&self, attachment: &Attachment) -> Result<()> {
        let Some(own) = Own::of(attachment)? else { return Ok(()) };
        self.with_calm(|socket| fence::forget_source(socket, &own.bridge, &own.sources))
    }

    /// Refuses rules of the container where others could lead past them, before they are recorded.
    pub(crate) fn refuse_own(&self, attachment: &Attachment) -> Result<()> {
        match Own::of(attachment)? {
            Some(own) => refuse_foreign(&own.id.network, &own.bridge, "egress"),
            None => Ok(()),
        }
    }

    /// Makes the rules that the container has alone, and has its port checked: nothing leaves by it in the
    /// name of another address, which other rules hold for.
    pub(crate) fn fence_own(&self, attachment: &Attachment) -> Result<()> {
        let Some(own) = Own::of(attachment)? else { return Ok(()) };
        refuse_foreign(&own.id.network, &own.bridge, "egress")?;
        if let Some(sender) = &own.sender {
            self.with(|socket| spoof::install(socket, sender))?;
        }
        self.with_calm(|socket| fence::keep_own(socket, &own, None))
    }

    /// Has the rules hold that the container has alone now, and ends what they allow no more. Without any
    /// those of its network hold, whatever an interrupted command left. While it learns the caller ends what that
    /// let begin: here it is not known what time it is.
    pub(crate) fn change_own(&self, now: &Attachment) -> Result<()> {
        let Some(own) = Own::of(now)? else { return self.unfence_own(now) };
        self.fence_own(now)?;
        // Until now it may have had its network's rules.
        if let Some(sender) = &own.sender {
            self.with(|socket| spoof::unlink(socket, sender))?;
        }
        if own.fence.learning.is_some() {
            return Ok(());
        }
        self.with_calm(|socket| fence::prune_own(socket, &own))
    }

    /// Ends what the container had alone when its interface is gone: until then it holds.
    pub(crate) fn forget_own(&self, attachment: &Attachment) -> Result<()> {
        if !super::is_checked_to_the_end(attachment) {
            return Ok(());
        }
        let unchecked = self.uncheck_sender(attachment);
        if attachment.wiring.own_fence.is_none() {
            return unchecked;
        }
        let link = attachment.wiring.link.as_ref();
        let Some(bridge) = link.and_then(|link| link.kind.bridge()) else { return unchecked };
        let addresses: Vec<_> =
            attachment.addresses.iter().map(|held| held.address.addr()).collect();
        self.deleted.set(true);
        let gone = or_nothing(self.with_calm(|socket| {
            fence::forget_source(socket, &bridge.name, &addresses)?;
            fence::forget_own(socket, &bridge.name, &addresses)
        }));
        unchecked.and(gone)
    }

    /// The same where the interface is gone already: a repair may have come later than the end.
    pub(crate) fn forget_own_of_gone(&self, attachment: &Attachment) -> Result<()> {
        let is_kept = super::is_checked_to_the_end(attachment) && attachment.wiring.link.is_some();
        if !is_kept {
            return Ok(());
        }
        let end = crate::plan::host_end(attachment)?;
        match Socket::route()?.link(At::Name(&end))? {
            Some(_) => Ok(()),
            None => self.forget_own(attachment),
        }
    }

    /// Ends what the container had alone, and lets its network's rules hold.
    fn unfence_own(&self, now: &Attachment) -> Result<()> {
        let link = now.wiring.link.as_ref();
        let Some(bridge) = link.and_then(|link| link.kind.bridge()) else { return Ok(()) };
        let addresses: Vec<_> = now.addresses.iter().map(|held| held.address.addr()).collect();
        or_nothing(self.with_calm(|socket| fence::forget_own(socket, &bridge.name, &addresses)))?;
        self.deleted.set(true);
        match sender(now)? {
            // The port is checked all the same, and at no time it is not: a machine's stays bound, and so does who
            // has its network's rules.
            Some(sender) => {
                self.with(|socket| spoof::install(socket, &sender))?;
                match sender.is_bound() {
                    true => Ok(()),
                    false => self.if_there(|socket| spoof::unbind(socket, &sender)),
                }
            }
            None => {
                let owner = Identity::of(&now.id).mark(now.layer).parse()?;
                self.if_there(|socket| spoof::remove_owned(socket, &owner))
            }
        }
    }

    /// Makes the fence of a network, where it has one.
    pub(crate) fn fence_network(
        &self,
        network: &NetworkName,
        wiring: &Wiring,
        ipam: &Ipam,
    ) -> Result<()> {
        let Some(fenced) = Fenced::of(network, wiring, ipam)? else { return Ok(()) };
        refuse_foreign(network, &fenced.bridge, "egress")?;
        self.with_calm(|socket| fence::ensure(socket, &fenced))
    }

    /// Closes the fence of what is attached where another program removed it. Its rules are the network's.
    pub(super) fn refence(&self, attachment: &Attachment) -> Result<bool> {
        let (id, wiring) = (&attachment.id, &attachment.wiring);
        let closed = match Fenced::of(&id.network, wiring, &attachment.ipam)? {
            Some(fenced) => self.with_calm(|socket| fence::close(socket, &fenced))?,
            None => false,
        };
        let Some(own) = Own::of(attachment)? else { return Ok(closed) };
        // Who comes first does not know what its neighbours' ports may send: the daemon opens it again.
        let is_shut =
            self.with_calm(|socket| fence::shut_lost(socket, std::slice::from_ref(&own)))?;
        Ok(closed || is_shut)
    }

    /// Shuts those whose rules are lost, and has their ports checked, before a strict container lets packets of its bridge
    /// be marked. Where that is strict already only the daemon does.
    pub(crate) fn shut_neighbours(
        &self,
        now: &Attachment,
        neighbours: Neighbours<'_>,
    ) -> Result<()> {
        let Some(own) = Own::of(now)? else { return Ok(()) };
        if fence::strict_bridges()?.contains(&own.bridge) {
            return Ok(());
        }
        let mut there = Vec::new();
        for neighbour in neighbours()? {
            // One that is going has no rules any more, nor a port.
            if BoundPort::of(&neighbour)?.map_or(Ok(false), |port| port.is_there())? {
                there.push(neighbour);
            }
        }
        self.refence_all(&there)?;
        there.iter().try_for_each(|neighbour| self.bind_again(neighbour))
    }

    /// As [`Policy::refence`] for those on one bridge, who mostly have one network: the table is looked at once.
    fn refence_all(&self, all: &[Attachment]) -> Result<()> {
        let mut networks: Vec<Fenced> = Vec::new();
        let mut owns = Vec::new();
        for attachment in all {
            let (id, wiring) = (&attachment.id, &attachment.wiring);
            if let Some(fenced) = Fenced::of(&id.network, wiring, &attachment.ipam)?
                && !networks.contains(&fenced)
            {
                networks.push(fenced);
            }
            owns.extend(Own::of(attachment)?);
        }
        for fenced in networks {
            self.with_calm(|socket| fence::close(socket, &fenced))?;
        }
        self.with_calm(|socket| fence::shut_lost(socket, &owns)).map(drop)
    }

    fn bind_again(&self, attachment: &Attachment) -> Result<()> {
        match sender(attachment)?.filter(Sender::is_bound) {
            Some(sender) => self.with(|socket| spoof::restore(socket, &sender)).map(drop),
            None => Ok(()),
        }
    }

    /// Closes what names opened for the container.
    pub(super) fn forget_opened(&self, attachment: &Attachment) -> Result<()> {
        let link = attachment.wiring.link.as_ref();
        let bridge = link.and_then(|link| link.kind.bridge());
        let Some((_, bridge)) = attachment.fence().zip(bridge) else { return Ok(()) };
        let addresses: Vec<_> =
            attachment.addresses.iter().map(|held| held.address.addr()).collect();
        self.deleted.set(true);
        or_nothing(self.with_calm(|socket| fence::forget_source(socket, &bridge.name, &addresses)))
    }
}

/// A bridge that is not Spoke's may have ports that lead elsewhere, past this host.
pub(super) fn refuse_foreign(network: &NetworkName, bridge: &IfName, what: &str) -> Result<()> {
    let there = Socket::route()?.link(At::Name(bridge))?;
    match there.filter(|link| link.group != GROUP) {
        Some(_) => Err(Error::unsupported(format!(
            "network {network}: {what} needs a bridge that Spoke makes, and {bridge} is not: it may have \
             other ways out"
        ))),
        None => Ok(()),
    }
}
