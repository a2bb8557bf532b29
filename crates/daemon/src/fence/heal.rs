//! Puts back what other programs have changed of the fences.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use host::event::{Event, What};
use host::time;
use linux::filter::fence::{self, Fenced, Opening, Own};
use model::{Error, IfName, Moment, Result};
use netlink::{At, Socket};
use store::Watch;

use super::gate::staying_shut;
use super::own::{PRESENT, Stage, effective_own};
use super::unread::Unread;
use super::{Fences, failed};
use crate::Daemon;

/// A network that is being removed loses its fence first, and its record within this time.
const REMOVED: Duration = Duration::from_secs(2);
pub(super) const PUTTING_BACK: &str = "putting the fences of networks back";
/// How often it is compared again what processes of Spoke change meanwhile.
const LOOKS: usize = 16;

impl Fences {
    /// Makes what is missing, opens again what was open, and ends what began meanwhile.
    pub(super) fn heal(&mut self, daemon: &Daemon, watch: &mut Watch, socket: &mut Socket) {
        let look = self.shut_unread(daemon, socket);
        self.heal_known(daemon, watch, socket);
        let opened = look.and_then(|look| match look {
            Some(look) => self.open_read(daemon, &look, socket),
            None => Ok(()),
        });
        self.end_look(daemon, opened);
    }

    fn heal_known(&mut self, daemon: &Daemon, watch: &mut Watch, socket: &mut Socket) {
        let began = Instant::now();
        // Of the last ones that leave nothing is kept, but what stays shut for those that come.
        if self.networks.is_empty() && self.own_in(&PRESENT).is_empty() {
            (self.is_failing, self.is_waiting, self.is_damaged) = (false, false, false);
            let written = self
                .let_read_ones_go(daemon, socket)
                .and_then(|()| self.stay_shut(daemon, daemon.fence.shut(), socket));
            if let Err(error) = written {
                failed(daemon, &error);
            }
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
                    daemon.journal.failed(PUTTING_BACK, &error);
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
            let shut = daemon.fence.shut();
            let all = self.effective(&shut);
            if fence::shut_bridges(socket)?.iter().eq(shut.keys())
                && is_network_kept(daemon, socket, (all, now))?
                && self.is_own_kept(daemon, (socket, &[Stage::There], None), now)?
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
        // What fails keeps nothing else from being looked after; the first error is reported.
        let mut failures = Vec::new();
        failures.extend(self.let_read_ones_go(daemon, socket).err());
        let is_kept = or_false(self.is_kept(daemon, (watch, socket), &now), &mut failures);
        self.is_damaged |= !is_kept;
        let is_complete =
            is_kept && or_false(fence::is_complete(socket, &self.strict(&PRESENT)), &mut failures);
        self.is_waiting &= !is_complete;
        let own = self.own_in(&PRESENT);
        let put_back = match is_kept {
            true => None,
            false => Some(self.put_rules_back(daemon, (&own, &now), socket, &mut failures)),
        };
        // What is let pass is routed again when nothing is missing of what keeps the rest from it, behind each bridge.
        if !is_complete {
            match self.complete(daemon, (&now, &mut failures), socket) {
                Ok(completed) => self.is_damaged |= completed,
                Err(error) => failures.push(error),
            }
        }
        failures.extend(self.settle_sources());
        let had_strays = or_false(daemon.fence.remove_strays(socket), &mut failures);
        self.is_damaged |= had_strays;
        if is_kept && !had_strays && !self.is_failing {
            return failures.into_iter().next().map_or(Ok(()), Err);
        }
        let mut unbound = put_back.unwrap_or_else(|| self.bind(daemon, socket, &mut failures));
        unbound.extend(daemon.fence.shut().into_keys());
        // Another one could send in the name of the one for which it is open.
        failures.extend(daemon.fence.open_again(socket, &unbound).err());
        self.end_flows(daemon, (own, &now), socket, &mut failures);
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    /// Ends the flows that the rules which hold now do not allow: behind a bridge that stays shut, all.
    fn end_flows(
        &self,
        daemon: &Daemon,
        (own, now): (Vec<Own>, &Moment),
        socket: &mut Socket,
        failures: &mut Vec<Error>,
    ) {
        let shut = daemon.fence.shut();
        let is_opened = |bridge: &IfName, opening: &Opening| {
            !shut.contains_key(bridge) && daemon.fence.knows(opening)
        };
        let networks = self.effective(&shut);
        for fenced in networks.iter().filter(|fenced| !fenced.fence.is_learning(now)) {
            let is_opened = |opening: &Opening| is_opened(&fenced.bridge, opening);
            failures.extend(fence::end_flows(socket, fenced, &is_opened).err());
        }
        let own = effective_own(own, &shut);
        for own in own.iter().filter(|own| !own.fence.is_learning(now)) {
            let is_opened = |opening: &Opening| is_opened(&own.bridge, opening);
            failures.extend(fence::end_own_flows(socket, own, &is_opened).err());
        }
    }

    /// Puts the rules back. Those of one container are not those of its network or of its neighbour: where there are
    /// such nothing is allowed before their ports are checked, because one could use the rules of another by its
    /// address. What fails for one keeps no other from it, and what cannot be read is of one bridge: nothing is allowed
    /// there while it cannot. Returns the bridges behind which one may send in another's name.
    fn put_rules_back(
        &mut self,
        daemon: &Daemon,
        (own, now): (&[Own], &Moment),
        socket: &mut Socket,
        failures: &mut Vec<Error>,
    ) -> Vec<IfName> {
        let lost = self.lost_unread(daemon, (own, now), socket);
        failures.extend(lost.and_then(|shut| self.stay_shut(daemon, shut, socket)).err());
        let shut = daemon.fence.shut();
        let own = effective_own(own.to_vec(), &shut);
        failures.extend(fence::shut_lost(socket, &own).err());
        let is_mixed = |bridge: &IfName| own.iter().any(|own| own.bridge == *bridge);
        let unread = daemon.fence.unread().ok();
        let known = |fenced| as_known(unread.as_ref(), fenced);
        let networks = self.effective(&shut).into_iter().map(known);
        let (mixed, uniform): (Vec<_>, Vec<_>) = networks.partition(|it| is_mixed(&it.bridge));
        for fenced in uniform {
            failures.extend(fence::keep(socket, &fenced, Some(now)).err());
        }
        for fenced in &mixed {
            failures.extend(fence::close(socket, fenced).err());
        }
        let unbound = self.bind(daemon, socket, failures);
        // What stays shut is of no use to a neighbour.
        let may_hold = |bridge: &IfName| shut.contains_key(bridge) || !unbound.contains(bridge);
        for fenced in mixed.into_iter().filter(|it| may_hold(&it.bridge)) {
            failures.extend(fence::keep(socket, &fenced, Some(now)).err());
        }
        for own in own.iter().filter(|it| may_hold(&it.bridge)) {
            let kept = match shut.contains_key(&own.bridge) {
                true => fence::keep_own(socket, own, Some(now)),
                false => daemon.fence.keep_own(socket, own, now),
            };
            failures.extend(kept.err());
        }
        failures.extend(daemon.fence.settle_own(socket).err());
        unbound
    }

    /// The networks' rules that hold now: behind bridges that stay shut nothing is allowed.
    fn effective(&self, shut: &BTreeMap<IfName, String>) -> Vec<Fenced> {
        let mut beside: BTreeMap<&IfName, Vec<&Own>> = BTreeMap::new();
        for held in self.own.values() {
            beside.entry(&held.own.bridge).or_default().push(&held.own);
        }
        let effective = |fenced: &Fenced| {
            let own = beside.get(&fenced.bridge).into_iter().flatten().copied();
            let fenced = fenced.beside(own);
            if shut.contains_key(&fenced.bridge) { fenced.closed() } else { fenced }
        };
        self.networks.values().map(effective).collect()
    }

    /// Whether the kernel has what the records say of a bridge, and what stays shut there is.
    pub(super) fn is_bridge_kept(
        &self,
        daemon: &Daemon,
        (socket, stages): (&mut Socket, &[Stage]),
        (bridge, now): (&IfName, &Moment),
    ) -> Result<bool> {
        let mut fenced = self.effective(&daemon.fence.shut());
        fenced.retain(|it| it.bridge == *bridge);
        Ok(is_network_kept(daemon, socket, (fenced, now))?
            && self.is_own_kept(daemon, (socket, stages, Some(bridge)), now)?)
    }

    /// The bridges that are to stay shut: containers on them have rules of their own, some of it was lost, and the record of
    /// a container cannot be read. That one's port is not checked, nor is it known where it may go.
    fn lost_unread(
        &self,
        daemon: &Daemon,
        (own, now): (&[Own], &Moment),
        socket: &mut Socket,
    ) -> Result<BTreeMap<IfName, String>> {
        let unread = daemon.fence.unread()?;
        let mut shut = daemon.fence.shut();
        let bridges: BTreeSet<&IfName> = own.iter().map(|own| &own.bridge).collect();
        for bridge in bridges {
            let Some(why) = unread.why(bridge) else { continue };
            if !shut.contains_key(bridge)
                && !self.is_bridge_kept(daemon, (socket, &[Stage::There]), (bridge, now))?
            {
                shut.insert(bridge.clone(), why.to_owned());
            }
        }
        Ok(shut)
    }

    /// What was lost while no daemon ran is not opened by what the records say when they are first read. What an older
    /// version did not have was not lost.
    pub(super) fn shut_lost_before(&mut self, daemon: &Daemon, socket: &mut Socket) {
        let own = self.own_in(&PRESENT);
        if let Err(error) = self.stay_as_before(daemon, socket) {
            failed(daemon, &error);
        }
        let completed = daemon.fence.unread().and_then(|unread| {
            let is_asked = own.iter().any(|own| unread.has(&own.bridge));
            let networks = || self.effective(&BTreeMap::new());
            if is_asked { fence::complete_older(socket, &networks(), &own) } else { Ok(()) }
        });
        if let Err(error) = completed {
            failed(daemon, &error);
        }
        let lost = time::moment().and_then(|now| self.lost_unread(daemon, (&own, &now), socket));
        if let Err(error) = lost.and_then(|shut| self.stay_shut(daemon, shut, socket)) {
            failed(daemon, &error);
        }
    }

    /// What an earlier process of the daemon has shut stays so, unless all can be read by now.
    fn stay_as_before(&self, daemon: &Daemon, socket: &mut Socket) -> Result<()> {
        let before = fence::shut_bridges(socket)?;
        if before.is_empty() {
            return Ok(());
        }
        let unread = daemon.fence.unread();
        self.stay_shut(daemon, shut_before(before, unread.as_ref(), daemon.fence.shut()), socket)
    }

    /// Has bridges stay shut no longer of which all can be read, or that are gone. Whether a container has rules of its own
    /// there does not matter: the next one that has would be open to that whose record cannot be read.
    fn let_read_ones_go(&self, daemon: &Daemon, socket: &mut Socket) -> Result<()> {
        let mut shut = daemon.fence.shut();
        if shut.is_empty() {
            return Ok(());
        }
        let (unread, mut route) = (daemon.fence.unread()?, Socket::route()?);
        shut.retain(|it, _| unread.has(it));
        let own = self.own_in(&PRESENT);
        let mut gone = Vec::new();
        for bridge in shut.keys().filter(|it| !own.iter().any(|own| own.bridge == **it)) {
            if route.link(At::Name(bridge))?.is_none() {
                gone.push(bridge.clone());
            }
        }
        shut.retain(|it, _| !gone.contains(it));
        self.stay_shut(daemon, shut, socket)
    }

    /// These stay shut, and no others. Each is reported once. Processes that attach a container or change rules meanwhile
    /// ask the kernel which these are.
    fn stay_shut(
        &self,
        daemon: &Daemon,
        shut: BTreeMap<IfName, String>,
        socket: &mut Socket,
    ) -> Result<()> {
        let before = daemon.fence.shut();
        for (bridge, why) in shut.iter().filter(|(bridge, _)| !before.contains_key(*bridge)) {
            daemon.journal.failed(PUTTING_BACK, &staying_shut(bridge, why));
        }
        let written = fence::set_shut(socket, &shut.keys().collect());
        daemon.fence.set_shut(shut);
        written
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

/// The bridges that stay shut when the daemon starts: those that the kernel has (`there`), as long as one record there
/// cannot be read, or it is not known which can.
fn shut_before(
    there: BTreeSet<IfName>,
    unread: std::result::Result<&Unread, &Error>,
    mut known: BTreeMap<IfName, String>,
) -> BTreeMap<IfName, String> {
    for bridge in there {
        let why = match unread {
            Ok(unread) => unread.why(&bridge).map(str::to_owned),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = why {
            known.entry(bridge).or_insert(why);
        }
    }
    known
}

/// Whether the kernel has what these networks need. Where a record cannot be read that container may need more of its
/// bridge, and what is there of that is tolerated.
fn is_network_kept(
    daemon: &Daemon,
    socket: &mut Socket,
    (all, now): (Vec<Fenced>, &Moment),
) -> Result<bool> {
    if fence::is_kept(socket, &all, now)? {
        return Ok(true);
    }
    let unread = daemon.fence.unread()?;
    if !all.iter().any(|it| unread.has(&it.bridge)) {
        return Ok(false);
    }
    let all: Vec<Fenced> = all.into_iter().map(|it| as_known(Some(&unread), it)).collect();
    fence::is_kept(socket, &all, now)
}

/// What the containers behind a bridge need of it is not known where a record cannot be read, nor while it is not known
/// which cannot.
pub(super) fn as_known(unread: Option<&Unread>, fenced: Fenced) -> Fenced {
    let is_known = unread.is_some_and(|unread| !unread.has(&fenced.bridge));
    Fenced { beside: fenced.beside.filter(|_| is_known), ..fenced }
}

/// What the kernel does not answer counts as not so.
fn or_false(answer: Result<bool>, failures: &mut Vec<Error>) -> bool {
    answer.unwrap_or_else(|error| {
        failures.push(error);
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_shut_before_stays_so_while_a_record_cannot_be_read() {
        let (read, unread): (IfName, IfName) = ("br0".parse().unwrap(), "br1".parse().unwrap());
        let there = BTreeSet::from([read.clone(), unread.clone()]);
        let mut known = Unread::default();
        known.add(&unread, "damaged".to_owned());
        let shut = shut_before(there.clone(), Ok(&known), BTreeMap::new());
        assert_eq!(shut, BTreeMap::from([(unread.clone(), "damaged".to_owned())]));
        let shut = shut_before(there, Err(&Error::try_again("later")), BTreeMap::new());
        assert!(shut.keys().eq([&read, &unread]), "it is not known which can be read");
    }
}
