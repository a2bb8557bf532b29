//! Puts back what other programs have changed of the fences.

use std::time::{Duration, Instant};

use host::event::{Event, What};
use host::time;
use linux::filter::fence::{self, Fenced, Own};
use model::{Error, IfName, Moment, Result};
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
        let (put_back, mut failures) = match is_kept {
            true => (None, Vec::new()),
            false => {
                let (unbound, failures) = self.put_rules_back(daemon, (&own, &now), socket);
                (Some(unbound), failures)
            }
        };
        // What is let pass is routed again when nothing is missing of what keeps the rest from it.
        if failures.is_empty() && !is_complete {
            match self.complete(daemon, (&all, &now), socket) {
                Ok(completed) => self.is_damaged |= completed,
                Err(error) => failures.push(error),
            }
        }
        failures.extend(self.settle_sources());
        let had_strays = daemon.fence.remove_strays(socket)?;
        self.is_damaged |= had_strays;
        if is_kept && !had_strays && !self.is_failing {
            return failures.into_iter().next().map_or(Ok(()), Err);
        }
        let unbound = put_back.unwrap_or_else(|| self.bind(daemon, socket, &mut failures));
        // Another one could send in the name of the one for which it is open.
        failures.extend(daemon.fence.open_again(socket, &unbound).err());
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

    /// Puts the rules back. Those of one container are not those of its network or of its neighbour: where there are
    /// such nothing is allowed before their ports are checked, because one could use the rules of another by its
    /// address. What fails for one keeps no other from it. Returns the bridges that stay shut, and what failed.
    fn put_rules_back(
        &self,
        daemon: &Daemon,
        (own, now): (&[Own], &Moment),
        socket: &mut Socket,
    ) -> (Vec<IfName>, Vec<Error>) {
        let mut failures = Vec::new();
        failures.extend(fence::shut_lost(socket, own).err());
        let is_mixed = |bridge: &IfName| own.iter().any(|own| own.bridge == *bridge);
        let (mixed, uniform): (Vec<_>, Vec<_>) =
            self.networks.values().partition(|it| is_mixed(&it.bridge));
        for fenced in uniform {
            failures.extend(fence::keep(socket, fenced, Some(now)).err());
        }
        for fenced in &mixed {
            failures.extend(fence::close(socket, fenced).err());
        }
        let unbound = self.bind(daemon, socket, &mut failures);
        for fenced in mixed.into_iter().filter(|it| !unbound.contains(&it.bridge)) {
            failures.extend(fence::keep(socket, fenced, Some(now)).err());
        }
        for own in own.iter().filter(|it| !unbound.contains(&it.bridge)) {
            failures.extend(daemon.fence.keep_own(socket, own, now).err());
        }
        failures.extend(daemon.fence.forget_other_own(socket).err());
        (unbound, failures)
    }

    /// Has the ports of containers checked again. Returns the bridges behind which one may send in another's name.
    fn bind(&self, daemon: &Daemon, socket: &mut Socket, failures: &mut Vec<Error>) -> Vec<IfName> {
        match daemon.fence.bind(socket) {
            Ok(failed) => {
                let (unbound, errors): (Vec<_>, Vec<_>) = failed.into_iter().unzip();
                failures.extend(errors);
                unbound
            }
            Err(error) => {
                failures.push(error);
                let own = self.own.values().map(|held| &held.own.bridge);
                self.networks.keys().chain(own).cloned().collect()
            }
        }
    }
}
