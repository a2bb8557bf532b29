//! The events that the reconciler reports.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use engine::{Finding, Garbage};
use model::{AliasId, Error, NetworkName, SubnetId};

/// Something that a person, a metric or an event should know.
#[derive(Debug)]
pub enum Notice {
    /// An engine answers again, or for the first time.
    Reached {
        /// Where it serves.
        engine: PathBuf,
        /// Its version.
        version: String,
        /// Whether it restores containers that went on without it, where it says.
        restores: Option<bool>,
    },
    /// An engine does not answer any more. Nothing is freed until all do.
    Lost {
        /// Where it serves.
        engine: PathBuf,
        /// Why.
        why: Error,
    },
    /// Something was freed, or kept back, that no engine knows.
    Reclaimed {
        /// The finding, and its remedy.
        finding: Finding,
        /// For how long no engine has known it.
        missing: Duration,
    },
    /// An engine lists a network of our driver that the store does not know: its containers cannot
    /// start until it is created again.
    Unknown {
        /// The engine's id of it.
        network: AliasId,
        /// Its name for people.
        name: Option<NetworkName>,
    },
    /// The store knows a network of Docker's that no engine which is asked has ever listed: it belongs to
    /// another one, its engine has lost its data, or its creation was broken off.
    Unclaimed {
        /// Docker's id of it.
        network: AliasId,
        /// Its name in the store.
        name: NetworkName,
        /// Whether something is attached to it, which its removal would detach.
        is_used: bool,
    },
    /// The store holds a subnet that a Docker Engine requested, and no engine has ever listed a
    /// network of it: it belongs to an engine that is not asked, or came to no network.
    Unlisted {
        /// Which.
        subnet: SubnetId,
        /// The name of its network in the store.
        network: NetworkName,
    },
    /// The store could not be read or repaired.
    Failed(Error),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Reached { engine, version, .. } => {
                write!(f, "Docker Engine {version} answers at {}", engine.display())
            }
            Notice::Lost { engine, why } => {
                let engine = engine.display();
                write!(f, "nothing is freed while the Docker Engine at {engine} is silent: {why}")
            }
            Notice::Reclaimed { finding, missing } => {
                let missing = missing.as_secs();
                write!(f, "{}: no Docker Engine has known it for {missing} s", Named(&finding.what))
            }
            Notice::Unknown { network, name } => {
                let name = name.as_ref().map_or(network.as_str(), NetworkName::as_str);
                write!(
                    f,
                    "Docker's network {name} is unknown to Spoke: its containers cannot start; \
                     remove it in Docker and create it again"
                )
            }
            Notice::Unclaimed { network, name, is_used } => {
                write!(
                    f,
                    "no Docker Engine that is asked lists network {name} (Docker's {network}): name \
                     the engine that has it in the configuration"
                )?;
                match is_used {
                    true => write!(f, "; containers are on it"),
                    false => write!(f, ", or remove it with spoke network rm --force {name}"),
                }
            }
            Notice::Unlisted { subnet, network } => write!(
                f,
                "no Docker Engine that is asked lists a network with subnet {subnet} ({network}): \
                 name the engine that has it in the configuration; if none has it, it goes an hour \
                 after its request, once spoke ipam release has ended what is kept in it"
            ),
            Notice::Failed(error) => write!(f, "reconciling with Docker: {error}"),
        }
    }
}

/// Which one it is, for a sentence; the finding says what kind of thing.
struct Named<'a>(&'a Garbage);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Garbage::Attachment(id) | Garbage::Doubtful(id) | Garbage::Unfinished(id) => id.fmt(f),
            Garbage::Lease(lease) => lease.address.fmt(f),
            Garbage::Port(claim) => claim.holder.fmt(f),
            Garbage::Stray(stray) => write!(f, "{stray:?}"),
            Garbage::Alias(id) => id.fmt(f),
            Garbage::Subnet(id) => id.fmt(f),
            Garbage::Network(name) => name.fmt(f),
            Garbage::Sandbox(container) => container.fmt(f),
            Garbage::Damaged(damaged) => f.write_str(&damaged.path),
        }
    }
}
