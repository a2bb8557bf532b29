//! The entries of a log file: calls that undo what plugins did.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use model::{DriverName, Error, Family, IfName, IpNet, Result, Timestamp};
use serde::{Deserialize, Serialize};

use libnetwork::{Call, EndpointRef, PoolKey, ReleaseAddress, RequestPool};

/// A call that undoes another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Entry {
    pub(in super::super) undo: Undo,
    /// Since the end of what it is for was announced; until then it is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(alias = "owed")]
    pub(in super::super) pending: Option<CleanupPending>,
}

/// The tries of a pending call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct CleanupPending {
    pub(in super::super) since: Timestamp,
    /// How often it failed.
    #[serde(default)]
    pub(in super::super) tries: u32,
    /// How many of these the plugin itself refused.
    #[serde(default)]
    pub(in super::super) refusals: u32,
    /// When it failed last.
    pub(in super::super) tried: Timestamp,
    /// Why.
    #[serde(default)]
    pub(in super::super) error: String,
    /// Trying it again is of no use.
    #[serde(default)]
    pub(in super::super) is_hopeless: bool,
}

/// Which endpoint of which network, as the driver knows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct At {
    pub(in super::super) network: String,
    pub(in super::super) endpoint: String,
}

/// The request of RequestPool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct PoolAsked {
    pub(in super::super) space: String,
    pub(in super::super) family: Family,
    pub(in super::super) net: Option<IpNet>,
    pub(in super::super) part: Option<IpNet>,
    #[serde(default)]
    pub(in super::super) options: BTreeMap<String, String>,
}

impl PoolAsked {
    /// The same for the pool that was allocated: a replay requests no other one.
    pub(in super::super) fn known(&self, net: IpNet) -> Self {
        Self { net: Some(net), ..self.clone() }
    }
}

/// What an IPAM driver allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum DriverAllocation {
    /// The driver answered so.
    Surely(IpNet),
    /// It was asked for this one, and its answer was lost.
    Perhaps(IpAddr),
}

/// A call that undoes another one, with what it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in super::super) enum Undo {
    /// Of ProgramExternalConnectivity.
    Revoke(DriverName, At),
    /// Of Join.
    Leave(DriverName, At),
    /// Of CreateEndpoint.
    DeleteEndpoint(DriverName, At),
    /// Of RequestAddress.
    ReleaseAddress(DriverName, String, DriverAllocation),
    /// Of RequestPool, whose answer named the pool; with what was asked for, where it is to be
    /// asked for again in another life of the plugin.
    ReleasePool(DriverName, String, PoolAsked),
    /// Of CreateNetwork.
    DeleteNetwork(DriverName, String),
    /// A RequestAddress for any address of the pool, before its answer.
    UnknownAddress(DriverName, String),
    /// A RequestPool before its answer.
    UnknownPool(DriverName, PoolAsked),
}

/// Join's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct JoinAnswer {
    pub(in super::super) source: Option<IfName>,
    pub(in super::super) prefix: Option<IfName>,
    pub(in super::super) gateway_v4: Option<Ipv4Addr>,
    pub(in super::super) gateway_v6: Option<Ipv6Addr>,
    pub(in super::super) routes: Vec<KeptRoute>,
    pub(in super::super) keeps_in: bool,
}

/// A route of the sandbox; connected where it has no next hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct KeptRoute {
    pub(in super::super) dst: IpNet,
    pub(in super::super) via: Option<IpAddr>,
}

impl Entry {
    /// One that is in use.
    pub(in super::super) fn held(undo: Undo) -> Self {
        Self { undo, pending: None }
    }

    /// Announces its end.
    pub(in super::super) fn mark_pending(&mut self, now: Timestamp) {
        self.pending.get_or_insert_with(|| CleanupPending {
            since: now,
            tries: 0,
            refusals: 0,
            tried: now,
            error: String::new(),
            is_hopeless: false,
        });
    }

    /// Whether it is pending and no call can carry it out.
    pub(in super::super) fn is_lost(&self) -> bool {
        self.pending
            .as_ref()
            .is_some_and(|pending| pending.is_hopeless || !self.undo.can_be_called())
    }
}

impl DriverAllocation {
    pub(in super::super) fn address(self) -> IpAddr {
        match self {
            DriverAllocation::Surely(net) => net.addr(),
            DriverAllocation::Perhaps(address) => address,
        }
    }
}

impl Undo {
    pub(in super::super) fn driver(&self) -> &DriverName {
        match self {
            Undo::Revoke(driver, _)
            | Undo::Leave(driver, _)
            | Undo::DeleteEndpoint(driver, _)
            | Undo::ReleaseAddress(driver, ..)
            | Undo::ReleasePool(driver, ..)
            | Undo::DeleteNetwork(driver, _)
            | Undo::UnknownAddress(driver, _)
            | Undo::UnknownPool(driver, _) => driver,
        }
    }

    /// The pool that it belongs to, where that is known.
    pub(in super::super) fn pool(&self) -> Option<&str> {
        match self {
            Undo::ReleaseAddress(_, pool, _)
            | Undo::ReleasePool(_, pool, _)
            | Undo::UnknownAddress(_, pool) => Some(pool),
            Undo::Revoke(..)
            | Undo::Leave(..)
            | Undo::DeleteEndpoint(..)
            | Undo::DeleteNetwork(..)
            | Undo::UnknownPool(..) => None,
        }
    }

    /// Whether it is about addresses.
    pub(in super::super) fn is_of_ipam(&self) -> bool {
        self.pool().is_some() || matches!(self, Undo::UnknownPool(..))
    }

    /// Whether there is a call that could undo it: not for an answer that named something that
    /// cannot be named in a call.
    pub(in super::super) fn can_be_called(&self) -> bool {
        match self {
            Undo::UnknownAddress(..) => false,
            Undo::UnknownPool(_, asked) => asked.net.is_some(),
            _ => true,
        }
    }

    /// The address that it releases to this pool.
    pub(in super::super) fn address_in(&self, driver: &DriverName, pool: &str) -> Option<IpAddr> {
        match self {
            Undo::ReleaseAddress(of, from, given) if of == driver && from == pool => {
                Some(given.address())
            }
            _ => None,
        }
    }

    /// Whether both release the same to the same driver.
    pub(in super::super) fn gives_back_same(&self, other: &Undo) -> bool {
        match (self, other) {
            (Undo::ReleaseAddress(one, from, _), Undo::ReleaseAddress(_, _, given)) => {
                other.address_in(one, from) == self.address_in(one, from)
                    && self.address_in(one, from) == Some(given.address())
            }
            (Undo::ReleasePool(one, pool, _), Undo::ReleasePool(two, other, _)) => {
                (one, pool) == (two, other)
            }
            _ => self == other,
        }
    }

    /// The call; none where there is none, or where that needs another one first.
    pub(in super::super) fn call(&self) -> Result<Option<Call>> {
        Ok(Some(match self {
            Undo::Revoke(_, at) => Call::RevokeConnectivity(at.wire()?),
            Undo::Leave(_, at) => Call::Leave(at.wire()?),
            Undo::DeleteEndpoint(_, at) => Call::DeleteEndpoint(at.wire()?),
            Undo::ReleaseAddress(_, pool, given) => Call::ReleaseAddress(ReleaseAddress {
                pool: parsed("pool", pool)?,
                address: given.address(),
            }),
            Undo::ReleasePool(_, pool, _) => Call::ReleasePool(parsed("pool", pool)?),
            Undo::DeleteNetwork(_, id) => Call::DeleteNetwork(parsed("network id", id)?),
            Undo::UnknownAddress(..) | Undo::UnknownPool(..) => return Ok(None),
        }))
    }

    /// What the driver holds until the call, for a person to read.
    pub(in super::super) fn held(&self) -> String {
        let endpoint = |at: &At| format!("endpoint {} of network {}", at.endpoint, at.network);
        match self {
            Undo::Revoke(_, at) => format!("the published ports of {}", endpoint(at)),
            Undo::Leave(_, at) => format!("the sandbox of {}", endpoint(at)),
            Undo::DeleteEndpoint(_, at) => endpoint(at),
            Undo::ReleaseAddress(_, pool, given) => {
                format!("address {} of pool {pool}", given.address())
            }
            Undo::ReleasePool(_, pool, asked) => match asked.net {
                Some(net) => format!("pool {pool} ({net})"),
                None => format!("pool {pool}"),
            },
            Undo::DeleteNetwork(_, id) => format!("network {id}"),
            Undo::UnknownAddress(_, pool) => {
                format!("an unknown address of pool {pool}")
            }
            Undo::UnknownPool(_, asked) => match asked.net {
                Some(net) => format!("a pool for {net}"),
                None => "an unknown pool".to_owned(),
            },
        }
    }

    /// Its place among the calls of a log file: those of a sandbox, of an endpoint, of addresses,
    /// and of a network, as Docker sends them.
    pub(in super::super) fn class(&self) -> u8 {
        match self {
            Undo::Revoke(..) => 0,
            Undo::Leave(..) => 1,
            Undo::DeleteEndpoint(..) => 2,
            Undo::ReleaseAddress(..)
            | Undo::ReleasePool(..)
            | Undo::UnknownAddress(..)
            | Undo::UnknownPool(..) => 3,
            Undo::DeleteNetwork(..) => 4,
        }
    }
}

impl fmt::Display for Undo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Undo::Revoke(..) => f.write_str("RevokeExternalConnectivity"),
            Undo::Leave(..) => f.write_str("Leave"),
            Undo::DeleteEndpoint(..) => f.write_str("DeleteEndpoint"),
            Undo::ReleaseAddress(_, pool, given) => {
                write!(f, "ReleaseAddress {} of pool {pool}", given.address())
            }
            Undo::ReleasePool(_, pool, _) => write!(f, "ReleasePool {pool}"),
            Undo::DeleteNetwork(_, id) => write!(f, "DeleteNetwork {id}"),
            Undo::UnknownAddress(_, pool) => {
                write!(
                    f,
                    "ReleaseAddress of what it gave of pool {pool} in an answer that was lost"
                )
            }
            Undo::UnknownPool(_, asked) => match asked.net {
                Some(net) => write!(f, "ReleasePool of {net}, the answer for which was lost"),
                None => f.write_str("ReleasePool of what it chose in an answer that was lost"),
            },
        }
    }
}

impl At {
    /// For the wire.
    pub(in super::super) fn wire(&self) -> Result<EndpointRef> {
        Ok(EndpointRef {
            network: parsed("network id", &self.network)?,
            endpoint: parsed("endpoint id", &self.endpoint)?,
        })
    }
}

impl PoolAsked {
    /// The call that asks for it.
    pub(in super::super) fn call(&self) -> Result<Call> {
        Ok(Call::RequestPool(RequestPool {
            space: parsed("address space", &self.space)?,
            pool: self.net,
            sub: self.part,
            options: self.options.clone(),
            v6: self.family == Family::V6,
        }))
    }
}

/// A pool's key as text.
pub(in super::super) fn pool_key(text: &str) -> Result<PoolKey> {
    parsed("pool", text)
}

fn parsed<T: FromStr<Err: fmt::Display>>(what: &str, text: &str) -> Result<T> {
    text.parse().map_err(|why| Error::invalid(format!("{what} {text:?} {why}")))
}
