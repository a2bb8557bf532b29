//! Puts back what other programs have changed of the fences.

use std::time::{Duration, Instant};

use host::event::{Event, What};
use host::time;
use linux::filter::fence::{self, Fenced};
use model::{Error, Moment, Result};
use netlink::Socket;
use store::Watch;

use super::Fences;
use super::own::{PRESENT, Stage};
use crate::Daemon;

/// A network that is being removed loses its fence first, and its record within this time.
const REMOVED: Duration = Duration::from_secs(2);
/// How often it is compared again what processes of Spoke change meanwhile.
const LOOKS: usize = 16;

impl Fences {
    /// Makes what is missing, opens again what was open, and ends what began meanwhile.
    pub(super) fn heal(&mut self, daemon: &Daemon, watch: &mut Watch, socket: &mut Socket) {
        let began = Instant::now();
        // Of the last ones that leave nothing is kept.
        if self.networks.is_empty() && self.own_in(&PRESENT).is_empty() {
            (self.is_failing, self.is_waiting, self.is_damaged) = (false, false, false);
            return;
        }
        match self.put_back(daemon, watch, socket) {
            Ok(()) => {
                self.is_failing = false;
                if std::mem::take(&mut self.is_damaged) {
                    let bridges = self.networks.keys().cloned().collect();
                    self.healed = Some((bridges, began.elapsed().as_micros(), began));
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    daemon.journal.failed("putting the fences of networks back", &error);
                }
            }
        }
    }

    /// Reports what was put back, unless a network was being removed: that begins with its fence.
    pub(super) fn report_healed(&mut self, daemon: &Daemon) {
        let is_settled = |(_, _, began): &mut (_, _, Instant)| began.elapsed() > REMOVED;
        let Some((bridges, took, _)) = self.healed.take_if(is_settled) else { return };
        if bridges.iter().all(|bridge| self.networks.contains_key(bridge)) {
            let message = format!(
                "another program changed the fences of networks; they were put back in {took} µs"
            );
            daemon.journal.metrics.heal();
            daemon.journal.report(&Event::new(What::Healed, time::now(), message));
        }
    }

    /// Whether the kernel has what the records say. Processes of Spoke record what they change before they do, and
    /// others may do so at any moment: where records have changed meanwhile it is compared once more.
    fn is_kept(
        &mut self,
        daemon: &Daemon,
        (watch, socket): (&mut Watch, &mut Socket),
        now: &Moment,
    ) -> Result<bool> {
        for _ in 0..LOOKS {
            let all: Vec<Fenced> = self.networks.values().cloned().collect();
            if fence::is_kept(socket, &all, now)?
                && self.is_own_kept(daemon, (socket, &[Stage::There]), now)?
            {
                return Ok(true);
            }
            if !self.learn_records(daemon, watch, socket)? {
                return Ok(false);
            }
        }
        Ok(false)
    }

    fn put_back(&mut self, daemon: &Daemon, watch: &mut Watch, socket: &mut Socket) -> Result<()> {
        let now = time::moment()?;
        let is_kept = self.is_kept(daemon, (watch, socket), &now)?;
        self.is_damaged |= !is_kept;
        let all: Vec<Fenced> = self.networks.values().cloned().collect();
        let is_complete = is_kept && fence::is_complete(socket, &self.strict(&PRESENT))?;
        self.is_waiting &= !is_complete;
        let own = self.own_in(&PRESENT);
        // All are shut before one is opened again, and what fails for one keeps no other from it.
        let mut failures = Vec::new();
        // What one container may not is not what its network may: its rules are there first.
        for own in own.iter().filter(|_| !is_kept) {
            failures.extend(fence::keep_own(socket, own, Some(&now)).err());
        }
        for fenced in all.iter().filter(|_| !is_kept) {
            failures.extend(fence::keep(socket, fenced, Some(&now)).err());
        }
        if !is_kept {
            failures.extend(daemon.fence.forget_other_own(socket).err());
        }
        // What is let pass is routed again when nothing is missing of what keeps the rest from it.
        if failures.is_empty() && !is_complete {
            match self.complete(daemon, (&all, &now), socket) {
                Ok(completed) => self.is_damaged |= completed,
                Err(error) => failures.push(error),
            }
        }
        let had_strays = daemon.fence.remove_strays(socket)?;
        self.is_damaged |= had_strays;
        if is_kept && !had_strays && !self.is_failing {
            return failures.into_iter().next().map_or(Ok(()), Err);
        }
        failures.extend(open_bound(daemon, socket));
        for fenced in all.iter().filter(|fenced| !fenced.fence.is_learning(&now)) {
            let ended = fence::end_flows(socket, fenced, &|opening| daemon.fence.knows(opening));
            failures.extend(ended.err());
        }
        for own in own.iter().filter(|own| !own.fence.is_learning(&now)) {
            let ended = fence::end_own_flows(socket, own, &|opening| daemon.fence.knows(opening));
            failures.extend(ended.err());
        }
        failures.into_iter().next().map_or(Ok(()), Err)
    }
}

/// Opens again what names opened, once the ports of containers are checked again: another one could send in the name of
/// the one for which it is open. What failed.
fn open_bound(daemon: &Daemon, socket: &mut Socket) -> Vec<Error> {
    let ports = match daemon.fence.ports() {
        Ok(ports) => ports,
        Err(error) => return vec![error],
    };
    let (unbound, mut failures): (Vec<_>, Vec<_>) = fence::bind(socket, &ports).into_iter().unzip();
    failures.extend(daemon.fence.open_again(socket, &unbound).err());
    failures
}
