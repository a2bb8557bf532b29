//! Keeps the containers of this host apart from others that may have their addresses.
//!
//! While etcd does not answer this host cannot know whether its lease has ended and its addresses were taken over.
//! By its own clock, which no program can set and which runs on while the host sleeps, it knows since when that may be so.
//! From then on it asks each host over a network that both have. A host that hears of etcd does not take packets of
//! this one any more by then, and does not answer. One that answers knows nothing of a takeover: etcd is gone for that
//! host too. So the containers of both go on.
//!
//! The packet filter of a host may refuse the question at any time. Which hosts answer none is learnt while etcd answers:
//! that these do not answer later says nothing, and so traffic with them goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use cluster::View;
use host::event::{Event, What};
use host::time;
use model::{Error, HostName, Kind, NetworkName, Result};
use netlink::ping::{self, Ask, Question};

use crate::Daemon;
use crate::hosts::keep::{Keeper, LEASE};
use crate::hosts::local::{self, Local};
use crate::hosts::member::Member;
use crate::hosts::requests::check::{HostPath, SMALL, host_path};
use crate::hosts::{Hosts, State};

/// How long a host may take to answer.
const LIMIT: Duration = Duration::from_secs(1);
/// How often it is learnt which hosts answer.
const LISTEN: Duration = Duration::from_secs(30);
/// How often a host is asked that does not answer.
const TIMES: usize = 2;

impl Keeper<'_> {
    /// Learns which hosts do not answer any more, from the moment on at which addresses of this host may be
    /// others'. Before that, no host can have taken one over.
    pub(in crate::hosts) fn isolate(&mut self, view: &View, member: &Member) {
        if !self.is_over_at(time::since_boot()) {
            return;
        }
        // Also where no network leads to a host that could be asked.
        self.may_be_anothers = true;
        match unanswered(self.hosts, view, |name| *name != member.name) {
            Ok(mut isolated) => {
                let mute = self.hosts.lock().mute.clone();
                isolated.retain(|name| !mute.contains(name));
                self.set_isolated(isolated);
            }
            Err(error) => self.daemon.journal.failed("asking the other hosts", &error),
        }
    }

    /// Whether that moment has come after `last`.
    pub(in crate::hosts) fn is_over_since(&self, last: Duration) -> bool {
        self.is_over_at(time::since_boot()) && !self.is_over_at(last)
    }

    fn is_over_at(&self, moment: Duration) -> bool {
        may_be_over(self.renewed, moment, self.grace())
    }

    /// The cluster is heard of again, and what others have by now was detached.
    pub(in crate::hosts) fn rejoin(&mut self) {
        if self.isolated.is_empty() {
            self.set_isolated(BTreeSet::new());
        }
    }

    pub(in crate::hosts) fn set_isolated(&mut self, isolated: BTreeSet<HostName>) {
        let before = std::mem::take(&mut self.hosts.lock().isolated);
        let event = match self::isolated(&isolated) {
            Some(text) if !isolated.is_subset(&before) => Some((What::HostIsolated, text)),
            None if !before.is_empty() => Some((
                What::HostIsolationOver,
                "the containers of this host reach those of all others again".to_owned(),
            )),
            Some(_) | None => None,
        };
        if let Some((what, text)) = event {
            self.daemon.journal.report(&Event::new(what, time::now(), text));
        }
        self.isolated.clone_from(&isolated);
        self.hosts.set(|state| state.isolated = isolated);
    }
}

/// Learns until the daemon stops which hosts answer while etcd does.
pub(in crate::hosts) fn listen(daemon: &Daemon, hosts: &Hosts) {
    while !daemon.sleep(LISTEN) {
        let known = {
            let state = hosts.lock();
            let known = state.member.clone().zip(state.view.clone());
            known.filter(|_| state.lost.is_none())
        };
        let Some((member, view)) = known else { continue };
        let is_there = |name: &HostName| *name != member.name && view.alive.contains(name);
        match unanswered(hosts, &view, is_there) {
            Ok(mute) => hosts.learn_mute(mute, Instant::now()),
            Err(error) => daemon.journal.failed("asking the other hosts", &error),
        }
        match narrow(hosts, &view, is_there) {
            Ok(narrow) => hosts.learn_narrow(daemon, narrow),
            Err(error) => daemon.journal.failed("asking the other hosts", &error),
        }
    }
}

impl Hosts {
    /// Takes over which hosts did not answer until `asked`, where etcd answered after that: otherwise this host may
    /// be the one that no other host hears.
    fn learn_mute(&self, mute: BTreeSet<HostName>, asked: Instant) {
        let is_heard = |state: &State| state.renewed.is_some_and(|renewed| renewed > asked);
        if self.wait(LIMIT + Duration::from_secs(LEASE.into()), is_heard) {
            self.set(|state| state.mute = mute);
        }
    }
}

impl Hosts {
    /// Takes over, and reports once, to which hosts whole packets do not come.
    fn learn_narrow(&self, daemon: &Daemon, narrow: Vec<String>) {
        let before = self.lock().narrow.clone();
        for new in narrow.iter().filter(|note| !before.contains(note)) {
            let error = Error::new(Kind::Kernel, new.clone());
            daemon.journal.failed("reaching the other hosts", &error);
        }
        self.set(|state| {
            // It may have left the cluster meanwhile.
            if state.member.is_some() {
                state.narrow = narrow;
            }
        });
    }
}

/// The hosts of these with a network in common that do not answer over it.
fn unanswered(
    hosts: &Hosts,
    view: &View,
    is_asked: impl Fn(&HostName) -> bool,
) -> Result<BTreeSet<HostName>> {
    let made = local::made(&hosts.place)?;
    let silent = silent(paths(view, &made, is_asked), |_| SMALL)?;
    Ok(silent.into_iter().map(|path| path.name.clone()).collect())
}

/// To which of these hosts small packets come, and whole ones do not, in sentences: the MTU of a device between them may
/// have changed since the network was made.
fn narrow(hosts: &Hosts, view: &View, is_asked: impl Fn(&HostName) -> bool) -> Result<Vec<String>> {
    let made = local::made(&hosts.place)?;
    let mut narrow = silent(paths(view, &made, is_asked), |path| path.mtu)?;
    if narrow.is_empty() {
        return Ok(Vec::new());
    }
    let all: BTreeSet<&HostName> = narrow.iter().map(|path| path.name).collect();
    let asked = paths(view, &made, |name| all.contains(name));
    let mute: BTreeSet<&HostName> =
        silent(asked, |_| SMALL)?.iter().map(|path| path.name).collect();
    narrow.retain(|path| !mute.contains(path.name));
    let shown = narrow.iter().map(|path| {
        format!(
            "packets of {} bytes of network {} do not come to host {}, and small ones do; `spoke host check` says which \
             do",
            path.mtu, path.network, path.name
        )
    });
    Ok(shown.collect())
}

fn paths<'v>(
    view: &'v View,
    made: &BTreeMap<NetworkName, Local>,
    is_asked: impl Fn(&HostName) -> bool,
) -> Vec<HostPath<'v>> {
    let others = view.hosts.iter().filter(|(name, _)| is_asked(name));
    others.filter_map(|host| host_path(view, made, host)).collect()
}

/// Those of the paths by which no answer comes to a packet of so many bytes.
fn silent<'v>(
    mut paths: Vec<HostPath<'v>>,
    size: impl Fn(&HostPath<'v>) -> u32,
) -> Result<Vec<HostPath<'v>>> {
    for _ in 0..TIMES {
        let question = |path: &HostPath<'v>| Question {
            from: path.from,
            to: path.to,
            ask: Ask::Echo(size(path)),
        };
        let asked: Vec<Question> = paths.iter().map(question).collect();
        let answers = ping::ask(&asked, LIMIT)?;
        let mut answers = answers.iter();
        paths.retain(|_| !matches!(answers.next(), Some(Some(_))));
    }
    Ok(paths)
}

/// Whether the lease that was renewed then has ended for so long that addresses may be others'.
fn may_be_over(renewed: Option<Duration>, now: Duration, grace: Duration) -> bool {
    let limit = Duration::from_secs(LEASE.into()) + grace;
    renewed.is_some_and(|renewed| now.saturating_sub(renewed) >= limit)
}

/// What `host ls` says of it.
pub(in crate::hosts) fn isolated(hosts: &BTreeSet<HostName>) -> Option<String> {
    let names: Vec<&str> = hosts.iter().map(HostName::as_str).collect();
    (!names.is_empty()).then(|| {
        format!(
            "this host was not heard of for so long that others may have its addresses, and no answer comes \
             from {}: its containers are kept apart from those there until etcd answers",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_over_by_the_host_s_own_clock() {
        let begin = Duration::from_secs(7);
        let minute = Duration::from_secs(60);
        let is_over =
            |seconds| may_be_over(Some(begin), begin + Duration::from_secs(seconds), minute);
        assert!(!is_over(0) && !is_over(67) && is_over(68));
        // Of what it never had nothing can be taken.
        assert!(!may_be_over(None, begin, minute));
    }
}
