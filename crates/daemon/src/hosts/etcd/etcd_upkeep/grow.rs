//! The growth of the cluster's own etcd to its second and third server, and the replacement of a lost one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use cluster::{ServerRecord, book};
use model::{ClusterHost, HostName, Result};

use super::Work;
use crate::hosts::etcd::server;

/// So many servers there are to be.
const SERVERS: usize = 3;
/// How long a server may take to begin, and to have what the others have.
const LEARN: Duration = Duration::from_secs(5 * 60);
/// How long a host is not chosen again whose server did not.
const REST: Duration = Duration::from_secs(60 * 60);

/// What became of the hosts that were chosen, as the host that chooses has seen it.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// Which server learns, and since when.
    learns: Option<(u64, Instant)>,
    /// The hosts whose servers came to nothing, and when.
    failed: BTreeMap<HostName, Instant>,
}

impl Chosen {
    /// Whether a server that learns is to be taken out, because it has had its time.
    fn is_over(&mut self, server: u64, now: Instant) -> bool {
        match self.learns {
            Some((known, since)) if known == server => {
                now.saturating_duration_since(since) >= LEARN
            }
            Some(_) | None => {
                self.learns = Some((server, now));
                false
            }
        }
    }

    /// A session with etcd begins. No host could make a server a voter while there was none, so that time is not the
    /// server's.
    pub(super) fn begin(&mut self) {
        self.learns = None;
    }

    fn fail(&mut self, host: &HostName, now: Instant) {
        self.learns = None;
        self.failed.insert(host.clone(), now);
    }

    /// Forgets those that may be chosen again.
    fn pass(&mut self, now: Instant) {
        self.failed.retain(|_, since| now.saturating_duration_since(*since) < REST);
    }

    /// What is to be said of them.
    pub(super) fn note(&self) -> Option<String> {
        let names: Vec<&str> = self.failed.keys().map(HostName::as_str).collect();
        (!names.is_empty()).then(|| {
            format!(
                "host {} was chosen to run a server of the cluster's etcd, and that did not begin within {} minutes: it \
                 was taken out, and the host is not chosen again for an hour; its journal says why",
                names.join(", "),
                LEARN.as_secs() / 60
            )
        })
    }
}

impl Work<'_> {
    /// Makes three servers where three hosts are up. One host does it: the first that has a vote.
    pub(super) fn grow(&self, chosen: &mut Chosen) -> Result<()> {
        let voter = |(name, server): &(&HostName, &ServerRecord)| {
            server.voter && self.view.alive.contains(*name)
        };
        if self.view.servers.iter().find(voter).map(|(name, _)| name) != Some(&self.member.name) {
            *chosen = Chosen::default();
            return Ok(());
        }
        chosen.pass(Instant::now());
        let servers = self.etcd.servers()?;
        let is_server = |host: &ClusterHost| {
            let peer = server::peer(host.address);
            servers.iter().any(|server| server.peer == peer)
        };
        book::forget_servers(self.etcd, self.view, is_server)?;
        let is_learning = self.view.servers.values().any(|server| !server.voter);
        // From one server to two only where a third one can follow: two need both.
        let up = self.view.hosts.keys().filter(|name| self.is_usable(name, chosen));
        if !is_learning && (self.view.servers.len() >= SERVERS || up.count() < SERVERS) {
            return Ok(());
        }
        for server in &servers {
            let mut hosts = self.view.hosts.iter();
            let Some((name, _)) = hosts.find(|(_, host)| server::peer(host.address) == server.peer)
            else {
                // It may be that of a host whose record cannot be read.
                if self.view.servers.keys().any(|name| self.view.is_damaged(name)) {
                    return Ok(());
                }
                // Its host was removed.
                return self.etcd.remove_server(server.id);
            };
            let known = self.view.servers.get(name);
            match server.is_learner {
                false if known.is_some_and(|known| known.voter) => {}
                false => return book::put_server(self.etcd, name, true),
                true if server.name.is_empty() && !self.can_serve(name) => {
                    // It has not begun, and another host may be able to.
                    self.etcd.remove_server(server.id)?;
                    return book::forget_server(self.etcd, name);
                }
                true if known.is_none() => return book::put_server(self.etcd, name, false),
                // It may still have to learn: then it is tried again.
                true if server.name.is_empty() || self.etcd.promote(server.id).is_err() => {
                    let now = Instant::now();
                    if !chosen.is_over(server.id, now) {
                        return Ok(());
                    }
                    // Another host may be able to.
                    self.etcd.remove_server(server.id)?;
                    chosen.fail(name, now);
                    return book::forget_server(self.etcd, name);
                }
                true => return book::put_server(self.etcd, name, true),
            }
        }
        let peers: BTreeSet<&str> = servers.iter().map(|server| &*server.peer).collect();
        let Some((name, host)) = self.candidate(&peers, chosen) else { return Ok(()) };
        self.etcd.add_learner(&server::peer(host.address))?;
        book::put_server(self.etcd, name, false)
    }

    /// Whether a host is there, and has the program.
    fn can_serve(&self, name: &HostName) -> bool {
        self.view.alive.contains(name) && !self.view.without_etcd.contains(name)
    }

    /// The same, without those whose server came to nothing.
    fn is_usable(&self, name: &HostName, chosen: &Chosen) -> bool {
        self.can_serve(name) && !chosen.failed.contains_key(name)
    }

    /// The oldest member that can run a server and runs none.
    fn candidate(
        &self,
        peers: &BTreeSet<&str>,
        chosen: &Chosen,
    ) -> Option<(&HostName, &ClusterHost)> {
        let up = self.view.hosts.iter().filter(|(name, _)| self.is_usable(name, chosen));
        let free = up.filter(|(_, host)| !peers.contains(&*server::peer(host.address)));
        free.min_by_key(|(name, host)| (host.since, *name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_begin_makes_way_for_another() {
        let (mut chosen, begin) = (Chosen::default(), Instant::now());
        let (host, second) = ("b".parse().unwrap(), Duration::from_secs(1));
        assert!(!chosen.is_over(7, begin) && !chosen.is_over(7, begin + LEARN - second));
        // Time without etcd does not count.
        chosen.begin();
        assert!(!chosen.is_over(7, begin + LEARN));
        // Another one has its own time.
        assert!(!chosen.is_over(8, begin + LEARN));
        assert!(!chosen.is_over(8, begin + LEARN + LEARN - second));
        let now = begin + LEARN + LEARN;
        assert!(chosen.is_over(8, now));
        chosen.fail(&host, now);
        chosen.begin();
        assert!(chosen.note().is_some_and(|note| note.starts_with("host b was chosen")));
        chosen.pass(now + REST - second);
        assert!(chosen.failed.contains_key(&host));
        chosen.pass(now + REST);
        assert_eq!(chosen.note(), None);
    }
}
