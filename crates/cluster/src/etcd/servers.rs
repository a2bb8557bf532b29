//! The servers of an etcd (`/v3/cluster/member`).

use model::Result;
use serde_json::json;

use super::Etcd;
use super::wire::{Nothing, Servers};

/// A server of an etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdServer {
    /// As etcd knows it.
    pub id: u64,
    /// What it is called; nothing before it has started.
    pub name: String,
    /// Where the other servers reach it.
    pub peer: String,
    /// Whether it only learns what the others have, and has no vote.
    pub is_learner: bool,
}

impl Etcd {
    /// All of them.
    ///
    /// # Errors
    /// As those of the port.
    pub fn servers(&self) -> Result<Vec<EtcdServer>> {
        let found: Servers = self.http.ask("/v3/cluster/member/list", &json!({}))?;
        let server = |found: super::wire::Server| EtcdServer {
            id: found.id,
            name: found.name,
            peer: found.peers.into_iter().next().unwrap_or_default(),
            is_learner: found.is_learner,
        };
        Ok(found.members.into_iter().map(server).collect())
    }

    /// Lets a server learn what the others have. It has no vote, so that nothing waits for it.
    ///
    /// # Errors
    /// As those of the port, and where another one learns already.
    pub fn add_learner(&self, peer: &str) -> Result<()> {
        let body = json!({"peerURLs": [peer], "isLearner": true});
        self.http.ask::<Nothing>("/v3/cluster/member/add", &body).map(drop)
    }

    /// Gives a server a vote.
    ///
    /// # Errors
    /// As those of the port, and while it does not have yet what the others have.
    pub fn promote(&self, id: u64) -> Result<()> {
        let body = json!({"ID": id.to_string()});
        self.http.ask::<Nothing>("/v3/cluster/member/promote", &body).map(drop)
    }

    /// Takes a server out.
    ///
    /// # Errors
    /// As those of the port, and where the others would not be enough without it.
    pub fn remove_server(&self, id: u64) -> Result<()> {
        let body = json!({"ID": id.to_string()});
        self.http.ask::<Nothing>("/v3/cluster/member/remove", &body).map(drop)
    }
}
