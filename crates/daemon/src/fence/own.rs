//! Keeps the rules that single containers have instead of their network's.

use std::collections::{BTreeMap, BTreeSet};

use engine::port::Record;
use host::event::{Event, What};
use host::time;
use linux::filter::fence::{self, Own};
use model::{AttachmentId, IfName, Moment, Phase, Result};
use netlink::Socket;

use super::records::own_of;
use super::{Fences, failed};
use crate::Daemon;

/// A container with rules of its own, and what becomes of its interface.
pub(super) struct FencedContainer {
    pub(super) own: Own,
    pub(super) stage: Stage,
}

/// Whether another process makes the interface now, or removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Coming,
    There,
    Going,
}

/// A container that comes may send before its record says that it is there.
pub(super) const PRESENT: [Stage; 2] = [Stage::Coming, Stage::There];

impl Fences {
    /// Those whose stage is one of these.
    pub(super) fn own_in(&self, stages: &[Stage]) -> Vec<Own> {
        let held = self.own.values().filter(|held| stages.contains(&held.stage));
        held.map(|held| held.own.clone()).collect()
    }

    /// An attachment is as it says now, or gone. Whether its own rules are others now.
    pub(super) fn learn_own(
        &mut self,
        daemon: &Daemon,
        id: &AttachmentId,
        now: Option<Record>,
    ) -> bool {
        let held = match &now {
            Some(Record::Attachment(attachment)) => own_of(attachment).map(|own| {
                let stage = match attachment.phase {
                    Phase::Attached(_) => Stage::There,
                    Phase::Detaching { .. } => Stage::Going,
                    Phase::Reserved | Phase::Attaching { .. } => Stage::Coming,
                };
                own.map(|own| FencedContainer { own, stage })
            }),
            _ => Ok(None),
        };
        let before = self.own.get(id).map(|held| held.own.clone());
        match held {
            Ok(Some(held)) => drop(self.own.insert(id.clone(), held)),
            Ok(None) => drop(self.own.remove(id)),
            // What was recorded holds on.
            Err(error) => failed(daemon, &error),
        }
        let now = self.own.get(id).map(|held| &held.own);
        let needs_same = |(before, now): (&Own, &Own)| before.needs_as(now);
        self.has_less |= before.is_some() && !before.as_ref().zip(now).is_some_and(needs_same);
        before.as_ref() != now
    }

    /// Whether containers in these stages have the rules of their own that they should have, and no others have any,
    /// behind one bridge or all. Where a record is damaged its container may have some: those without a readable record
    /// are tolerated there.
    pub(super) fn is_own_kept(
        &self,
        daemon: &Daemon,
        (socket, stages, behind): (&mut Socket, &[Stage], Option<&IfName>),
        now: &Moment,
    ) -> Result<bool> {
        let is_meant = |bridge: &IfName| behind.is_none_or(|behind| behind == bridge);
        let mut there = effective_own(self.own_in(stages), &daemon.fence.shut());
        there.retain(|own| is_meant(&own.bridge));
        let mut moving = vec![Stage::Coming, Stage::There, Stage::Going];
        moving.retain(|stage| !stages.contains(stage));
        let moving = self.own_in(&moving);
        if fence::is_own_kept(socket, &there, (&moving, &|it| !is_meant(it)), now)? {
            return Ok(true);
        }
        let unread = daemon.fence.unread()?;
        let may_have_others = |it: &IfName| !is_meant(it) || unread.has(it);
        Ok(!unread.is_empty()
            && fence::is_own_kept(socket, &there, (&moving, &may_have_others), now)?)
    }

    /// Makes the changed rules hold. Whether containers have none any more, or need something else of their bridge: then
    /// [`FenceGate::settle_own`](super::FenceGate::settle_own) removes what is left.
    pub(super) fn renew_own(
        &mut self,
        daemon: &Daemon,
        (changed, unfinished): (BTreeSet<AttachmentId>, BTreeSet<AttachmentId>),
        socket: &mut Socket,
    ) -> bool {
        let mut is_gone = false;
        for id in changed {
            let renewed = match self.own.get(&id) {
                Some(FencedContainer { stage: Stage::Going, .. }) => Ok(()),
                Some(FencedContainer { own, .. }) => {
                    daemon.fence.forget_own_names(own);
                    renew(daemon, socket, own)
                }
                None => {
                    is_gone = true;
                    Ok(())
                }
            };
            if let Err(error) = renewed {
                // It is done again at the next look, and reported once.
                if !unfinished.contains(&id) {
                    failed(daemon, &error);
                }
                self.unfinished_own.insert(id);
            }
        }
        let has_less = std::mem::take(&mut self.has_less);
        is_gone || has_less
    }

    /// Ends what began while a container learned, when that is over.
    pub(super) fn end_own_learning(&mut self, daemon: &Daemon, now: &Moment, socket: &mut Socket) {
        let is_learning =
            |held: &&FencedContainer| held.stage == Stage::There && held.own.fence.is_learning(now);
        let learning = self.own.values().filter(is_learning).map(|held| held.own.id.clone());
        let before = std::mem::replace(&mut self.learning_own, learning.collect());
        for id in before {
            let Some(FencedContainer { own, stage: Stage::There }) = self.own.get(&id) else {
                continue;
            };
            if self.learning_own.contains(&id) {
                continue;
            }
            let message = format!("{id} refuses again what its own rules do not allow");
            daemon.journal.report(&Event::new(What::Other, time::now(), message));
            // The kernel may count a moment longer, in which ended flows would begin again.
            if let Err(error) = renew(daemon, socket, own) {
                daemon.journal.failed("ending what a container learned", &error);
                self.unfinished_own.insert(id);
            }
        }
    }
}

/// The rules that hold now: behind bridges that stay shut nothing is allowed.
pub(super) fn effective_own(all: Vec<Own>, shut: &BTreeMap<IfName, String>) -> Vec<Own> {
    let effective = |own: Own| if shut.contains_key(&own.bridge) { own.shut() } else { own };
    all.into_iter().map(effective).collect()
}

/// Makes the rules of a container hold, and ends what they do not allow, unless it learns.
fn renew(daemon: &Daemon, socket: &mut Socket, own: &Own) -> Result<()> {
    // What stays shut has them when that is over.
    if daemon.fence.shut().contains_key(&own.bridge) {
        return Ok(());
    }
    let now = time::moment()?;
    daemon.fence.keep_own(socket, own, &now)?;
    if own.fence.is_learning(&now) { Ok(()) } else { fence::prune_own(socket, own) }
}
