//! The few facts of this host that decisions depend on.

use std::net::IpAddr;
use std::time::Duration;

use model::{
    AttachmentId, Backend, IpNet, Network, NetworkName, OwnerName, Process, Result, Timestamp,
};

/// The right to work on an attachment, until it is dropped.
pub type AttachmentLock = Box<dyn std::any::Any>;

/// A subnet that is in use on this host, by a user that the store does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupied {
    /// The subnet.
    pub net: IpNet,
    /// The user, for a message.
    pub by: String,
}

/// A network that a runtime's file describes. The book has it from its first container on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// What the runtime calls it.
    pub name: NetworkName,
    /// The runtime, for a message.
    pub by: &'static str,
    /// Its file, for a message.
    pub file: String,
    /// The network; none where the runtime's call for a container says more of it than the file.
    pub network: Option<Box<Network>>,
}

/// What the engine cannot know without reading clocks or processes.
pub trait Host {
    /// The process that works.
    fn me(&self) -> Process;

    /// The time, for showing only.
    fn now(&self) -> Timestamp;

    /// Whether the process is alive.
    fn is_running(&self, process: &Process) -> bool;

    /// Waits until no other thread of this process works on the attachment. To the store the
    /// threads of one process are one, so they take turns. A process with one thread returns at
    /// once.
    fn lock_attachment(&self, id: &AttachmentId) -> AttachmentLock {
        let _ = id;
        Box::new(())
    }

    /// The same without waiting; none where another thread works on the attachment.
    fn try_lock_attachment(&self, id: &AttachmentId) -> Option<AttachmentLock> {
        Some(self.lock_attachment(id))
    }

    /// The subnets of this host that are in use outside the store: those of other runtimes'
    /// networks, and those of its routes.
    fn occupied(&self) -> Result<Vec<Occupied>>;

    /// The networks that the files of runtimes describe, also those that no container has been on.
    fn described(&self) -> Vec<Described> {
        Vec::new()
    }

    /// From which unique local IPv6 addresses subnets of our choice are taken: the global id of RFC
    /// 4193 §3.2, always the same on one host and best another one on every host.
    fn site(&self) -> [u8; 5] {
        *b"spoke"
    }

    /// Has an address given to this host that is in none of its blocks of a network of many hosts; `by` is
    /// what will have it, for sentences. `false` where the network is this host's alone.
    ///
    /// # Errors
    /// `Conflict` where another host has it, by name; `TryAgain` where the others cannot be asked.
    fn pin(&self, network: &NetworkName, address: IpAddr, by: &str) -> Result<bool> {
        let _ = (network, address, by);
        Ok(false)
    }

    /// Has the addresses given to this host that other hosts keep for a name, as far as they do not have a container that
    /// has them, and notes them as its own.
    ///
    /// # Errors
    /// `TryAgain` where the others cannot be asked.
    fn follow(&self, network: &NetworkName, name: &OwnerName) -> Result<()> {
        let _ = (network, name);
        Ok(())
    }

    /// Whether the network is one of many hosts, which [`Host::pin`] asks.
    fn has_hosts(&self, network: &NetworkName) -> bool {
        let _ = network;
        false
    }

    /// The packet filter for a network that no configuration describes: the gateway network.
    fn backend(&self) -> Backend {
        Backend::Nftables
    }

    /// Waits until the process has ended; `false` when it is still alive after `limit`.
    fn wait_for_end(&self, process: &Process, limit: Duration) -> bool;
}
