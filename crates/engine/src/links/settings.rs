//! How what exists follows the settings of its network.
//!
//! The kernel comes first, and after it the attachment's record. So an attachment whose record differs from its
//! network's settings has yet to follow, and whatever process looks next completes what a killed command began.
//!
//! Of two processes at once one may come to the kernel with settings that are no longer recorded. So what it
//! made counts only where both records are still those that it had read; otherwise it makes what they say now.

use model::{Attachment, AttachmentId, Error, Layer, Network, Phase, Result};

use crate::Links;
use crate::contention::RACES;
use crate::port::{Key, Outcome, Presence, Record, Txn};
use crate::records::book::{Read, unchanged};

/// Which attachments of a network are compared with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Following {
    /// Those whose records differ.
    Differing,
    /// All, in the kernel, too: a process that was killed may have left there what is no longer recorded.
    Whole,
}

impl Following {
    /// Whether it concerns this attachment.
    pub(crate) fn concerns(self, attachment: &Attachment, network: &Network) -> bool {
        let (settings, wiring) = (&network.settings, &attachment.wiring);
        let is_whole = self == Following::Whole
            && (settings.mtu.is_some() && wiring.link.is_some()
                || settings.reach.is_some() && wiring.publish.is_some());
        is_whole || followed(attachment, network).is_some()
    }
}

impl Links<'_> {
    /// Gives a complete attachment what the settings of its network say now. One whose network has no record of its
    /// own, or that is being made or removed, is left as it is. The caller has the attachment's lock.
    ///
    /// # Errors
    /// Where the kernel refuses it; [`model::Kind::TryAgain`] where the records change all the time.
    pub(crate) fn follow_settings(
        &self,
        id: &AttachmentId,
        layer: Layer,
        following: Following,
    ) -> Result<()> {
        let mut made = None;
        for _ in 0..RACES {
            let network = self.records.network_under(&Key::Network(id.network.clone()))?;
            let Some(network) = network.filter(|it| is_changed(&it.value)) else { return Ok(()) };
            let Some(read) = self.records.record_of(id, layer)? else { return Ok(()) };
            // Its maker, or the end of it, is not to be disturbed.
            let is_settled = matches!(read.value.phase, Phase::Attached(_) | Phase::Reserved);
            if !is_settled || (made.is_none() && !following.concerns(&read.value, &network.value)) {
                return Ok(());
            }
            let after = followed(&read.value, &network.value).unwrap_or_else(|| read.value.clone());
            // The way and the title are the network's, and nothing of them is the container's.
            let is_same =
                *after != *read.value && made.is_none() && has_same_parts(&read.value, &after);
            if matches!(read.value.phase, Phase::Attached(_)) && !is_same {
                if self.links_gone(&read.value) {
                    return Ok(());
                }
                let before = self.serving(made.as_ref().unwrap_or(&read.value))?;
                self.driver.revise(&before, &*self.serving(&after)?)?;
                made = Some(*after.clone());
            }
            if self.is_followed((&read, after), &network)? {
                return Ok(());
            }
        }
        Err(Error::try_again(format!("{id} changes all the time")))
    }

    fn links_gone(&self, attachment: &Attachment) -> bool {
        self.presence(attachment) == Presence::Gone
    }

    /// Records what was made. `false` where one of the records is another one by now.
    fn is_followed(
        &self,
        (read, after): (&Read<Box<Attachment>>, Box<Attachment>),
        network: &Read<Box<Network>>,
    ) -> Result<bool> {
        let (id, layer) = (&after.id, after.layer);
        let network_key = Key::Network(id.network.clone());
        if after == read.value {
            let now = self.records.record_of(id, layer)?.map(|it| it.revision);
            let shared = self.records.network_under(&network_key)?.map(|it| it.revision);
            return Ok(now == Some(read.revision) && shared == Some(network.revision));
        }
        let key = Key::Attachment(id.clone(), layer);
        let txn = Txn::new()
            .require(network_key, unchanged(Some(network)))
            .require(key.clone(), unchanged(Some(read)))
            .put(key, Record::Attachment(after));
        Ok(matches!(self.store.commit(&txn)?, Outcome::Done(_)))
    }

    /// Gives what the attachments of a network share the MTU that its record has, also where another process
    /// records another one meanwhile.
    pub(crate) fn retune(&self, network: &Network) -> Result<()> {
        let mtu = |it: &Network| it.wiring.link.as_ref().and_then(|link| link.mtu);
        let mut wanted = network.clone();
        for _ in 0..RACES {
            let tuned = self.driver.retune(&wanted);
            match self.records.network_under(&Key::Network(network.name.clone()))? {
                Some(now) if mtu(&now.value) != mtu(&wanted) => wanted = *now.value,
                Some(_) | None => return tuned,
            }
        }
        let name = network.called();
        Err(Error::try_again(format!("the MTU of network {name} keeps being changed")))
    }
}

/// Whether a command changed what its attachments have of it.
pub(crate) fn is_changed(network: &Network) -> bool {
    !network.settings.is_empty() || network.title.is_some()
}

/// Whether these differ in what is the network's alone.
fn has_same_parts(before: &Attachment, after: &Attachment) -> bool {
    let mut same = before.clone();
    same.wiring.via.clone_from(&after.wiring.via);
    same.title.clone_from(&after.title);
    same == *after
}

/// The attachment as its network's settings have it; `None` where it is so.
fn followed(attachment: &Attachment, network: &Network) -> Option<Box<Attachment>> {
    let mut after = attachment.clone();
    let settings = &network.settings;
    after.title.clone_from(&network.title);
    if let (Some(mtu), Some(link)) = (settings.mtu, &mut after.wiring.link) {
        link.mtu = Some(mtu);
    }
    if let Some(reach) = settings.reach {
        let asked = after.spec.as_mut().and_then(|spec| spec.publish.as_mut());
        for publish in after.wiring.publish.as_mut().into_iter().chain(asked) {
            publish.reach = reach;
        }
    }
    if let Some(way) = &settings.way
        && attachment.layer == Layer::Link
    {
        after.wiring.via = way.via().cloned();
    }
    (after != *attachment).then(|| Box::new(after))
}
