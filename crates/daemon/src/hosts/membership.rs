//! Reports hosts that join, are lost, come back and leave: as events, as figures, and to third-party drivers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::PoisonError;

use cluster::View;
use host::event::{Event, What};
use host::time;
use model::HostName;

use super::keep::Keeper;
use super::member::Member;
use crate::Daemon;
use crate::metrics::HostFigures;

/// Where this host is reached, and where the others are.
pub(crate) type Members = (IpAddr, BTreeSet<IpAddr>);

impl Daemon {
    pub(super) fn set_members(&self, members: Option<Members>) {
        *self.members.lock().unwrap_or_else(PoisonError::into_inner) = members;
    }

    pub(crate) fn members(&self) -> Option<Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The other members as they were heard of last, and whether each is there.
#[derive(Debug, Default)]
pub(super) struct Membership(Option<BTreeMap<HostName, bool>>);

impl Membership {
    /// What has changed since. What was there before anything was heard is no news.
    fn changes(&mut self, view: &View, member: &Member) -> Vec<(What, String)> {
        let others = view.hosts.keys().filter(|host| **host != member.name);
        let now: BTreeMap<HostName, bool> =
            others.map(|host| (host.clone(), view.alive.contains(host))).collect();
        let Some(before) = self.0.replace(now.clone()) else { return Vec::new() };
        let gone = before.keys().filter(|host| !now.contains_key(*host));
        let gone = gone.map(|host| (What::HostRemoved, format!("host {host} was removed")));
        let news = now.iter().filter_map(|(host, is_alive)| match (before.get(host), is_alive) {
            (None, _) => Some((What::HostJoined, format!("host {host} joined the cluster"))),
            (Some(true), false) => Some((What::HostLost, format!("host {host} is lost"))),
            (Some(false), true) => Some((What::HostBack, format!("host {host} is back"))),
            (Some(_), _) => None,
        });
        gone.chain(news).collect()
    }
}

impl Keeper<'_> {
    /// Reports what has changed, and how it is.
    pub(super) fn report_members(&mut self, view: &View, member: &Member) {
        for (what, text) in self.membership.changes(view, member) {
            self.daemon.journal.report(&Event::new(what, time::now(), text));
        }
        let others = view.hosts.iter().filter(|(host, _)| **host != member.name);
        let members = others.map(|(_, host)| host.address).collect();
        self.daemon.set_members(Some((member.address, members)));
        self.daemon.journal.metrics.hosts(&self.figures(view));
    }

    pub(super) fn figures(&self, view: &View) -> HostFigures {
        let alive = |host: &HostName| view.alive.contains(host);
        let draining = view.hosts.iter().filter(|(name, host)| alive(name) && host.draining);
        let (up, draining) =
            (view.hosts.keys().filter(|host| alive(host)).count(), draining.count());
        let state = self.hosts.lock();
        HostFigures {
            up: up.saturating_sub(draining),
            draining,
            lost: view.hosts.len().saturating_sub(up),
            isolated: state.isolated.len(),
            networks: view.networks.len(),
            failures: state.failures.len()
                + state.broken.len()
                + state.narrow.len()
                + usize::from(state.untended.is_some())
                + usize::from(state.unwritten.is_some()),
            refused: state.refused.len() + view.damaged.len(),
            is_heard: state.lost.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{ClusterHost, Timestamp};

    use super::*;

    #[test]
    fn only_what_changed_is_reported() {
        let member = Member {
            name: "a".parse().unwrap(),
            address: [192, 0, 2, 1].into(),
            etcd: Vec::new(),
            access: cluster::Access::default(),
            own_etcd: false,
        };
        let (mut membership, mut view) = (Membership::default(), View::default());
        let add = |view: &mut View, name: &str| {
            let host = ClusterHost::new([192, 0, 2, 9].into(), Timestamp(1));
            view.hosts.insert(name.parse().unwrap(), host);
            view.alive.insert(name.parse().unwrap());
        };
        let b: HostName = "b".parse().unwrap();
        let mut reported = |view: &View| {
            let all = membership.changes(view, &member).into_iter();
            all.map(|(what, _)| what).collect::<Vec<_>>()
        };
        add(&mut view, "a");
        add(&mut view, "b");
        assert_eq!(reported(&view), []);
        add(&mut view, "c");
        view.alive.remove(&b);
        assert_eq!(reported(&view), [What::HostLost, What::HostJoined]);
        assert_eq!(reported(&view), []);
        view.alive.insert(b.clone());
        assert_eq!(reported(&view), [What::HostBack]);
        view.hosts.remove(&b);
        assert_eq!(reported(&view), [What::HostRemoved]);
    }
}
