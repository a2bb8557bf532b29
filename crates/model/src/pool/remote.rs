//! Addresses of third-party Docker IPAM plugins.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{DriverName, Family};

/// A remote IPAM driver of libnetwork's, and what it gave for a network (moby
/// `libnetwork/docs/ipam.md`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteIpam {
    /// Which driver.
    pub driver: DriverName,
    /// In which of the driver's address spaces; its default one where none is given.
    pub space: Option<String>,
    /// The driver's options for each pool. Spoke does not read them.
    pub options: BTreeMap<String, String>,
    /// An address of the first pool of each family that has one left.
    pub pools: Vec<RemotePool>,
}

/// One pool of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemotePool {
    /// Of which family.
    pub family: Family,
    /// The whole of it; the driver's choice where none is given.
    pub net: Option<IpNet>,
    /// The part of it from which containers get addresses.
    pub part: Option<IpNet>,
    /// The gateway; the driver's choice where none is given.
    pub gateway: Option<IpAddr>,
    /// Addresses that no container gets, by the user's names.
    pub auxiliary: BTreeMap<String, IpAddr>,
    /// The pool that the driver allocated; `None` before the request.
    pub given: Option<GivenPool>,
}

/// A pool that a remote IPAM driver allocated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenPool {
    /// The driver's id of the pool.
    pub key: String,
    /// Its addresses.
    pub net: IpNet,
    /// The network's gateway, with the prefix length of the pool.
    pub gateway: Option<IpNet>,
    /// The driver's other data of the pool.
    pub data: BTreeMap<String, String>,
}

impl RemotePool {
    /// A pool of the driver's choice.
    pub fn any(family: Family) -> Self {
        let (net, part, gateway, given) = (None, None, None, None);
        Self { family, net, part, gateway, auxiliary: BTreeMap::new(), given }
    }
}
