//! How the cluster's own etcd gets its second and third server, and another one where one is lost.

use std::collections::BTreeSet;

use cluster::{ServerRecord, book};
use model::{ClusterHost, HostName, Result};

use super::super::server;
use super::Work;

/// So many servers there are to be.
const SERVERS: usize = 3;

impl Work<'_> {
    /// Makes three servers where three hosts are up. One host does it: the first that has a vote.
    pub(super) fn grow(&self) -> Result<()> {
        let voter = |(name, server): &(&HostName, &ServerRecord)| {
            server.voter && self.view.alive.contains(*name)
        };
        if self.view.servers.iter().find(voter).map(|(name, _)| name) != Some(&self.member.name) {
            return Ok(());
        }
        let servers = self.etcd.servers()?;
        let is_server = |host: &ClusterHost| {
            let peer = server::peer(host.address);
            servers.iter().any(|server| server.peer == peer)
        };
        book::forget_servers(self.etcd, self.view, is_server)?;
        let is_learning = self.view.servers.values().any(|server| !server.voter);
        let up = self.view.hosts.keys().filter(|name| self.can_serve(name));
        if !is_learning && (self.view.servers.len() >= SERVERS || up.count() < SERVERS) {
            return Ok(());
        }
        for server in &servers {
            let mut hosts = self.view.hosts.iter();
            let Some((name, _)) = hosts.find(|(_, host)| server::peer(host.address) == server.peer)
            else {
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
                    return Ok(());
                }
                true => return book::put_server(self.etcd, name, true),
            }
        }
        let peers: BTreeSet<&str> = servers.iter().map(|server| &*server.peer).collect();
        let Some((name, host)) = self.candidate(&peers) else { return Ok(()) };
        self.etcd.add_learner(&server::peer(host.address))?;
        book::put_server(self.etcd, name, false)
    }

    /// Whether a host is there, and has the program.
    fn can_serve(&self, name: &HostName) -> bool {
        self.view.alive.contains(name) && !self.view.without_etcd.contains(name)
    }

    /// The oldest member that can run a server and runs none.
    fn candidate(&self, peers: &BTreeSet<&str>) -> Option<(&HostName, &ClusterHost)> {
        let up = self.view.hosts.iter().filter(|(name, _)| self.can_serve(name));
        let free = up.filter(|(_, host)| !peers.contains(&*server::peer(host.address)));
        free.min_by_key(|(name, host)| (host.since, *name))
    }
}
