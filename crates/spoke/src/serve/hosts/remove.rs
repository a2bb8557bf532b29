//! `spoke host remove`, and what a host does that was removed.

use std::collections::BTreeSet;

use cluster::{Revision, book};
use model::{Error, HostName, Kind, Result};

use super::keep::{Keeper, PAUSE};
use super::member::Member;
use super::membership::Membership;
use super::{Hosts, engines, local, tend, tunnel};

impl Hosts {
    /// Takes a host out of the cluster.
    pub(super) fn remove(&self, name: &HostName, force: bool) -> Result<()> {
        let (member, _) = self.connected()?;
        let is_own = *name == member.name;
        let removed = tend::retire(&member, name, force)
            .and_then(|etcd| book::remove_host(&etcd, name, &member.name, force));
        match removed {
            // etcd lost its data, and so nobody says to this host that it was removed.
            Err(error) if error.kind() == Kind::NotFound && is_own => {}
            // It was removed while it was cut off: its certificate is worth nothing.
            Err(error) if error.kind() == Kind::TryAgain && is_own && member.own_etcd && force => {}
            Err(error) => return Err(error),
            // The others end its connection, maybe before it has heard why.
            Ok(()) if is_own && member.own_etcd => {}
            Ok(()) => return Ok(()),
        }
        self.set(|state| state.leaving = true);
        self.nudge();
        Ok(())
    }
}

impl Keeper<'_> {
    /// Whether this host goes, also where etcd does not answer it.
    pub(super) fn is_leaving(&self, member: &Member) -> bool {
        member.own_etcd && self.hosts.lock().leaving
    }

    /// This host was removed: nothing leads to others any more, and its networks go where nobody uses
    /// them.
    pub(super) fn leave(&mut self, member: &Member, why: &Error) {
        self.daemon.journal.failed("the cluster of hosts", why);
        let nothing = ::overlay::Overlay {
            local: member.address,
            members: BTreeSet::new(),
            networks: Vec::new(),
            tunnels: Vec::new(),
        };
        self.hosts.set(|state| state.guarded = None);
        let mut outcome = nothing.apply().map(drop);
        for name in local::made(&self.hosts.place).unwrap_or_default().into_keys() {
            let place = &self.hosts.place;
            let removed = self.daemon.context_pool.with(|host_context| {
                local::remove(&name, place, host_context).or_else(|_| local::disown(&name, place))
            });
            outcome = outcome.and(removed);
        }
        let context_pool = &self.daemon.context_pool;
        outcome = outcome
            .and(context_pool.with(|host_context| host_context.engine().forget_hosts()))
            .and(self.hosts.forget_own())
            .and(tunnel::forget(&self.hosts.place))
            .and(engines::forget(self.daemon, &self.hosts.place))
            .and(Member::forget(&self.hosts.place));
        if let Err(error) = outcome {
            self.daemon.journal.failed("leaving the cluster of hosts", &error);
            self.pause(PAUSE);
            return;
        }
        // The next cluster counts from anew.
        (self.membership, self.renewed, self.is_settled) = (Membership::default(), None, false);
        self.set_isolated(BTreeSet::new());
        self.daemon.set_members(None);
        self.daemon.journal.metrics.no_hosts();
        (self.heard, self.alive, self.is_older) = (Revision::default(), Revision::default(), false);
        self.lease = None;
        self.hosts.set(|state| {
            (state.member, state.view, state.lost, state.leaving) = (None, None, None, false);
            state.failures.clear();
        });
    }
}
