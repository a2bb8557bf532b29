//! `spoke host remove`, and what a host does that was removed.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::{Revision, book};
use host::time;
use model::{Error, HostName, Kind, Result};

use crate::Daemon;
use crate::hosts::etcd::etcd_upkeep;
use crate::hosts::etcd::older::{Heard, Older};
use crate::hosts::keep::{Keeper, PAUSE};
use crate::hosts::links::closed;
use crate::hosts::links::tunnel;
use crate::hosts::member::Member;
use crate::hosts::membership::Membership;
use crate::hosts::{Hosts, engines, local};

impl Hosts {
    /// Takes a host out of the cluster.
    pub(in crate::hosts) fn remove(
        &self,
        daemon: &Daemon,
        name: &HostName,
        force: bool,
    ) -> Result<()> {
        let (member, _) = self.connected()?;
        let is_own = *name == member.name;
        let removed = etcd_upkeep::retire(&member, name, force)
            .and_then(|etcd| book::remove_host(&etcd, name, &member.name, force));
        match removed {
            // etcd lost its data, and so no record says to this host that it was removed.
            Err(error) if error.kind() == Kind::NotFound && is_own => {}
            // It was removed while it was cut off: its certificate is worth nothing.
            Err(error) if error.kind() == Kind::TryAgain && is_own && member.own_etcd && force => {
                let seconds = daemon.context_pool.config().hosts.takeover_seconds;
                if !self.is_lost_for(seconds) {
                    return Err(error.context(format!(
                        "etcd may only be slow, and this host would lose its server of it; once nothing was heard \
                         of the cluster for {seconds} seconds, --force removes this host"
                    )));
                }
            }
            Err(error) => return Err(error),
            // The others end its connection, maybe before it has heard why.
            Ok(()) if is_own && member.own_etcd => {}
            Ok(()) => return Ok(()),
        }
        self.set(|state| state.leaving = true);
        self.nudge();
        Ok(())
    }

    /// Whether etcd does not answer for so long: a server that is slow for a moment says nothing of a removal.
    fn is_lost_for(&self, seconds: u32) -> bool {
        let since = self.lock().unheard;
        let limit = Duration::from_secs(seconds.into());
        since.is_some_and(|since| time::since_boot().saturating_sub(since) >= limit)
    }
}

impl Keeper<'_> {
    /// Whether this host goes, also where etcd does not answer it.
    pub(in crate::hosts) fn is_leaving(&self, member: &Member) -> bool {
        member.own_etcd && self.hosts.lock().leaving
    }

    /// This host was removed: nothing leads to others any more, and its networks go where no container uses
    /// them. What fails is tried again, and so what it is a member by goes last.
    pub(in crate::hosts) fn leave(&mut self, member: &Member, why: &Error) {
        self.daemon.journal.failed("the cluster of hosts", why);
        self.hosts.set(|state| (state.guarded, state.filter, state.leaving) = (None, None, true));
        self.daemon.elsewhere.set(Vec::new());
        if let Err(error) = self.let_go(member) {
            self.daemon.journal.failed("leaving the cluster of hosts", &error);
            self.pause(PAUSE);
            return;
        }
        // The next cluster counts from anew.
        (self.membership, self.renewed, self.is_settled) = (Membership::default(), None, false);
        self.is_swept = false;
        (self.heard, self.alive) = (Revision::default(), Revision::default());
        (self.is_older, self.is_other) = (false, false);
        (self.lease, self.latest) = (None, None);
        self.set_isolated(BTreeSet::new());
        self.daemon.set_members(None);
        self.daemon.journal.metrics.no_hosts();
        self.hosts.set(|state| {
            (state.member, state.view, state.lost, state.leaving) = (None, None, None, false);
            (state.renewed, state.mute, state.unwritten) = (None, BTreeSet::new(), None);
            state.unheard = None;
            state.failures.clear();
            state.narrow.clear();
            state.older = Older::No;
        });
    }

    fn let_go(&self, member: &Member) -> Result<()> {
        let (context_pool, place) = (&self.daemon.context_pool, &self.hosts.place);
        let mut made = local::made(place).unwrap_or_default();
        let mut outcome = closed::unlink(member, closed::closed(&made, &[])?);
        made.retain(|name, _| {
            context_pool.with(|host_context| local::remove(name, place, host_context)).is_err()
        });
        // Networks that this host makes later may have the same addresses.
        let mut closed = closed::closed(&made, &[])?;
        closed.values_mut().for_each(Vec::clear);
        outcome = outcome.and(closed::unlink(member, closed));
        outcome
            .and(context_pool.with(|host_context| host_context.engine().addresses.forget_hosts()))
            .and(tunnel::forget(place))
            .and(engines::forget(self.daemon, place))?;
        self.hosts.forget_own()?;
        // Last: in another attempt it must be known what is still here.
        made.keys().try_for_each(|name| {
            context_pool.with(|host_context| local::disown(name, place, host_context))
        })?;
        Heard::forget(place)?;
        Member::forget(place)
    }
}
