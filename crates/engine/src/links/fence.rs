//! The egress rules of an attachment: those that its network has now.

use std::borrow::Cow;

use model::{Attachment, Error, Layer, Network, Phase, Publisher, Result, Stage, Wiring};

use crate::Links;
use crate::port::Prefix;
use crate::records::book::passable;

/// How often another process may change the network first.
pub(crate) const RACES: usize = 16;

impl Links<'_> {
    /// Gives an attachment the rules and the way that its network has now: an attachment's record has those of
    /// the moment in which it was made, and a command or its runtime's configuration may change them.
    pub(crate) fn renew_fence(&self, attachment: &mut Attachment) -> Result<()> {
        let Some(network) = self.network_of_bridge(attachment)? else { return Ok(()) };
        // A network gets no rules in this way: what was attached before does not know its names.
        if attachment.wiring.fence.is_some() {
            attachment.wiring.fence = network.wiring.fence;
        }
        attachment.wiring.via = network.wiring.via;
        Ok(())
    }

    /// Puts back what an attachment has in the kernel, with the rules and the way that its network has now:
    /// the former ones would shut, or lead, the whole bridge. Whether anything was missing.
    pub(crate) fn restore_now(&self, made: &Attachment) -> Result<bool> {
        let mut now = Cow::Borrowed(made);
        if made.wiring.fence.is_some() || made.wiring.via.is_some() {
            self.renew_fence(now.to_mut())?;
        }
        self.driver.restore(&now)
    }

    /// Shuts the neighbours of a container that is about to be strict, as far as another program took their rules away
    /// and no daemon has put them back.
    pub(crate) fn shut_neighbours(&self, now: &Attachment) -> Result<()> {
        if !now.wiring.own_fence.as_ref().is_some_and(|fence| fence.strict) {
            return Ok(());
        }
        self.driver.shut_neighbours(now, &|| self.fenced_beside(now))
    }

    /// The other attachments behind the same bridge that have rules, with those of now.
    fn fenced_beside(&self, now: &Attachment) -> Result<Vec<Attachment>> {
        let bridge = |of: &Attachment| of.wiring.bridge().map(|bridge| bridge.name.clone());
        let mut beside = Vec::new();
        for read in self.records.attachments_in(&Prefix::Attachments)? {
            let mut other = *read.value;
            let is_there = matches!(other.phase, Phase::Attaching { .. } | Phase::Attached(_));
            let is_beside = is_there && other.id != now.id && other.layer == Layer::Link;
            if is_beside && other.fence().is_some() && bridge(&other) == bridge(now) {
                self.renew_fence(&mut other)?;
                beside.push(other);
            }
        }
        Ok(beside)
    }

    /// Makes the rules and the way of now hold where they were changed while the attachment was made, which made
    /// the former ones.
    pub(crate) fn follow_fence(&self, made: &Attachment) -> Result<()> {
        self.follow_way(made)?;
        let mut before = made.wiring.fence.clone();
        for _ in 0..RACES {
            let network = match &before {
                Some(_) => self.network_of_bridge(made)?,
                None => None,
            };
            // Where the network has none any more the daemon removes them.
            let Some(network) = network.filter(|it| it.wiring.fence.is_some()) else {
                return Ok(());
            };
            if network.wiring.fence == before {
                return Ok(());
            }
            self.driver.up(&network)?;
            before = network.wiring.fence;
        }
        let network = &made.id.network;
        Err(Error::try_again(format!("the egress rules of network {network} keep being changed")))
    }

    fn follow_way(&self, made: &Attachment) -> Result<()> {
        if made.wiring.via.is_none() {
            return Ok(());
        }
        match self.network_of_bridge(made)? {
            Some(network) if network.wiring.via != made.wiring.via => self.lead(&network),
            Some(_) | None => Ok(()),
        }
    }

    /// Has a network leave by the way that its record has. Where another process records another one meanwhile, that
    /// is the way, whichever process comes to the kernel last.
    pub(crate) fn lead(&self, network: &Network) -> Result<()> {
        let mut wanted = network.clone();
        for _ in 0..RACES {
            let recorded = || self.records.named(&network.name);
            let is_way = || Ok(recorded()?.is_none_or(|now| now.wiring.via == wanted.wiring.via));
            let led = self.driver.lead(&wanted, &self.records.attachments()?, &is_way);
            match recorded()? {
                Some(now) if now.wiring.via != wanted.wiring.via => wanted = now,
                Some(_) | None => return led,
            }
        }
        let name = network.called();
        Err(Error::try_again(format!("the way of network {name} keeps being changed")))
    }

    /// The network that an attachment is on, as its record says now. `None` where no network of that name has the
    /// attachment's bridge, or its record is damaged: then what the attachment's own record says holds.
    fn network_of_bridge(&self, attachment: &Attachment) -> Result<Option<Network>> {
        let bridge = |wiring: &Wiring| wiring.bridge().map(|it| it.name.clone());
        let own = bridge(&attachment.wiring);
        if attachment.layer != Layer::Link || own.is_none() {
            return Ok(None);
        }
        let network = passable(self.records.named(&attachment.id.network))?.flatten();
        Ok(network
            .filter(|network| network.stage != Stage::Template && bridge(&network.wiring) == own))
    }

    /// Refuses rules of a container alone where its runtime or its network leads past them.
    ///
    /// # Errors
    /// [`model::Kind::Unsupported`], with what is in the way.
    pub(crate) fn refuse_own_fence(
        &self,
        attachment: &Attachment,
        network: Option<&Network>,
    ) -> Result<()> {
        if attachment.wiring.own_fence.is_none() {
            return Ok(());
        }
        attachment.refuse_own_fence()?;
        network.map_or(Ok(()), Network::refuse_own_fences)?;
        let alias =
            attachment.alias.as_ref().map(|id| self.records.alias_of(id)).transpose()?.flatten();
        match alias.map(|read| read.value.publisher) {
            Some(Publisher::Runtime) => Err(Error::unsupported(format!(
                "network {}: egress of one container: {}'s own bridge, which publishes its ports, would \
                 lead past the rules; make the network without -o ports=docker",
                attachment.id.network, attachment.runtime
            ))),
            Some(Publisher::Spoke | Publisher::None) | None => Ok(()),
        }
    }
}
