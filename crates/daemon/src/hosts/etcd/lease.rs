//! The lease by which the others hear of this host, and how long it waits until it asks etcd again.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use cluster::{Cluster, Etcd, View, book, is_refusal};
use host::time;
use model::{Error, Result};

use crate::hosts::keep::{Keeper, LEASE, PAUSE, PERIOD};
use crate::hosts::member::Member;

impl Keeper<'_> {
    /// Has the others hear of this host: by a new lease, or by that of the session before while etcd takes no writes.
    pub(in crate::hosts) fn be_heard_of(
        &mut self,
        etcd: &Etcd,
        view: &mut View,
        member: &Member,
    ) -> Result<()> {
        let (renewed, alive) = (time::since_boot(), self.tended.alive());
        let granted = etcd.grant(LEASE).and_then(|lease| {
            Ok((lease, book::be_alive(etcd, view, &member.name, (lease, &alive))?))
        });
        match granted {
            Ok((lease, alive)) => {
                (self.lease, self.alive) = (Some(lease), alive);
                self.keep_heard();
            }
            Err(error) if is_refusal(&error) && view.alive.contains(&member.name) => {
                let before = self.lease.map(|lease| etcd.renew(lease)).transpose()?;
                if before != Some(true) {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        self.renewed = Some(renewed);
        Ok(())
    }

    /// Keeps it for a note where etcd takes no write: the lease is renewed meanwhile, and the next comparison tries it
    /// again.
    ///
    /// # Errors
    /// Every other one.
    pub(in crate::hosts) fn unless_refused<T>(&mut self, done: Result<T>) -> Result<Option<T>> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(error) if is_refusal(&error) => {
                self.unwritten.get_or_insert(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reports once what etcd did not take.
    pub(in crate::hosts) fn report_unwritten(&mut self) {
        let unwritten = self.unwritten.take();
        let unwritten =
            unwritten.map(|error| error.context("telling the others what this host has"));
        let text = unwritten.as_ref().map(ToString::to_string);
        if let Some(error) = unwritten.filter(|_| text != self.unwritten_before) {
            self.daemon.journal.failed("the cluster of hosts", &error);
        }
        self.unwritten_before.clone_from(&text);
        self.hosts.set(|state| state.unwritten = text);
    }

    /// Renews the lease where that is due: also between the parts of what takes long.
    pub(in crate::hosts) fn keep_alive(&mut self, etcd: &Etcd, member: &Member) -> Result<()> {
        let Some(lease) = self.lease.filter(|_| self.renewal().is_zero()) else { return Ok(()) };
        let (now, since_boot) = (Instant::now(), time::since_boot());
        match etcd.renew(lease)? {
            true => {
                self.renewed = Some(since_boot);
                self.pauses = Pauses::default();
                self.hosts.set(|state| state.renewed = Some(now));
                Ok(())
            }
            false => Err(ended(member)),
        }
    }

    /// How long it is until then.
    pub(in crate::hosts) fn renewal(&self) -> Duration {
        let due = self.renewed.map(|renewed| renewed + PERIOD);
        due.map_or(Duration::ZERO, |due| due.saturating_sub(time::since_boot()))
    }
}

/// Fails where etcd does not have any more that this host is there: others may have taken its addresses over since, and
/// so it has to be heard of anew.
pub(in crate::hosts) fn refuse_unheard(view: &View, member: &Member) -> Result<()> {
    match view.alive.contains(&member.name) {
        true => Ok(()),
        false => Err(ended(member)),
    }
}

fn ended(member: &Member) -> Error {
    Error::try_again(format!("the lease of host {} ended before it was renewed", member.name))
}

/// How often everything was read in vain. etcd has the more to do the more hosts read everything, and so each waits
/// longer every time, and for another while than the others.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::hosts) struct Pauses(u32);

impl Pauses {
    /// Everything was read: it comes to something when the lease is renewed.
    pub(in crate::hosts) fn read(&mut self) {
        self.0 = self.0.saturating_add(1);
    }

    pub(in crate::hosts) fn next(self) -> Duration {
        self.within(RandomState::new().hash_one(()))
    }

    fn within(self, random: u64) -> Duration {
        let most = PAUSE.saturating_mul(1 << self.0.saturating_sub(1).min(8)).min(PERIOD);
        let part = u32::try_from(random % 1000).unwrap_or(0);
        most / 2 + most / 2000 * part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_in_vain_is_read_ever_more_rarely() {
        let (mut pauses, mut most) = (Pauses::default(), Vec::new());
        // A host that reaches no server may come back at any moment.
        assert!(pauses.within(999) <= PAUSE && pauses.within(0) == PAUSE / 2);
        for _ in 0..40 {
            pauses.read();
            most.push(pauses.within(999));
            assert!(pauses.within(0) < pauses.within(500) && pauses.within(999) <= PERIOD);
        }
        assert!(most[0] <= PAUSE && most[1] > most[0] && most[2] > most[1], "{most:?}");
        assert!(most[39] > PERIOD - PAUSE, "{most:?}");
    }
}
