//! Which bridges are strict: those of strict networks, and of containers with strict rules of their own.

use std::collections::BTreeSet;

use linux::filter::fence::{self, StrictBy};
use model::{Error, IfName, Moment, Result};
use netlink::Socket;

use super::gate::staying_shut;
use super::heal::PUTTING_BACK;
use super::own::{PRESENT, Stage};
use super::records::Ports;
use super::{Fences, failed};
use crate::Daemon;

impl Fences {
    /// The bridges of strict networks, and of strict containers in one of these stages.
    pub(super) fn strict(&self, stages: &[Stage]) -> Vec<IfName> {
        let networks = self.networks.values().filter(|it| it.fence.strict);
        let mut all: Vec<IfName> = networks.map(|it| it.bridge.clone()).collect();
        let own = self.own_in(stages).into_iter().filter(|it| it.fence.strict);
        all.extend(own.map(|it| it.bridge));
        all.sort();
        all.dedup();
        all
    }

    /// Has strict bridges pass packets of this host's subnets only, where their network is strict. What failed.
    pub(super) fn settle_sources(&self) -> Vec<Error> {
        let is_network = |bridge: &IfName| {
            self.networks.values().any(|it| it.fence.strict && it.bridge == *bridge)
        };
        let by = |bridge: &IfName| match is_network(bridge) {
            true => StrictBy::Network,
            false => StrictBy::Others,
        };
        let strict = self.strict(&PRESENT);
        strict.iter().filter_map(|it| fence::settle_sources(it, by(it)).err()).collect()
    }

    /// Whether anything was strict at the last look.
    pub(super) fn has_strict(&self) -> bool {
        self.networks.values().any(|it| it.fence.strict)
            || self.own.values().any(|held| held.own.fence.strict)
    }

    /// Lets what fences let pass be routed out of strict networks, as far as the ports of their containers are checked.
    /// The others are looked at again soon, and those of which a record is damaged: its container may have rules
    /// that the book does not say. What fails for one keeps no other from it. Whether all are complete now.
    pub(super) fn complete(
        &mut self,
        daemon: &Daemon,
        (now, failures): (&Moment, &mut Vec<Error>),
        socket: &mut Socket,
    ) -> Result<bool> {
        let strict = self.strict(&PRESENT);
        self.is_waiting = !strict.is_empty();
        if !self.is_waiting {
            return Ok(true);
        }
        let unread = daemon.fence.unread()?;
        let Ports { all: ports, failed } = daemon.fence.ports()?;
        let mut waiting = BTreeSet::new();
        for bridge in &strict {
            if let Some(why) = unread.why(bridge) {
                if !self.waiting.contains(bridge) && !daemon.fence.shut().contains_key(bridge) {
                    daemon.journal.failed(PUTTING_BACK, &staying_shut(bridge, why));
                }
                waiting.insert(bridge.clone());
                continue;
            }
            if failed.iter().any(|(it, _)| it == bridge) {
                waiting.insert(bridge.clone());
                continue;
            }
            let is_kept = |socket: &mut Socket| {
                self.is_bridge_kept(daemon, (socket, &PRESENT), (bridge, now))
            };
            let completed = fence::complete(socket, (bridge, &ports), is_kept);
            if !matches!(completed, Ok(true)) {
                waiting.insert(bridge.clone());
            }
            failures.extend(completed.err());
        }
        failures.extend(failed.into_iter().filter(|(it, _)| strict.contains(it)).map(|it| it.1));
        self.is_waiting = !waiting.is_empty();
        self.waiting = waiting;
        Ok(!self.is_waiting)
    }

    /// Ends the strictness of bridges that nothing asks for any more. `there`: those that had it before the records
    /// were read. While a record of a bridge is damaged its container may ask for it.
    pub(super) fn relax(&self, daemon: &Daemon, there: Result<Vec<IfName>>, socket: &mut Socket) {
        let wanted = self.strict(&[Stage::Coming, Stage::There, Stage::Going]);
        let relaxed = there.and_then(|there| {
            if there.iter().all(|bridge| wanted.contains(bridge)) {
                return Ok(());
            }
            let unread = daemon.fence.unread()?;
            let there: Vec<IfName> = there.into_iter().filter(|it| !unread.has(it)).collect();
            fence::relax(socket, &there, &wanted)
        });
        if let Err(error) = relaxed {
            failed(daemon, &error);
        }
    }
}
