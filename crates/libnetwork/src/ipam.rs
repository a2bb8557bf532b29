//! The requests of `IpamDriver`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use model::{Error, Mac, OwnerName};

use super::object::Object;
use super::options::MAC_ADDRESS;
use super::{PoolKey, Refusal, SpaceName};

pub(super) const KIND: &str = "RequestAddressType";
pub(super) const GATEWAY: &str = "com.docker.network.gateway";
pub(super) const ENDPOINT_NAME: &str = "com.docker.network.endpoint.name";
pub(super) const SERIAL: &str = "com.docker.network.ipam.serial";

/// RequestPool. It does not say for which network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPool {
    /// Of which address space.
    pub space: SpaceName,
    /// Which addresses; the driver's choice where none is given.
    pub pool: Option<IpNet>,
    /// The part of them that containers get.
    pub sub: Option<IpNet>,
    /// All options of `--ipam-opt`.
    pub options: BTreeMap<String, String>,
    /// The driver is to choose an IPv6 pool.
    pub v6: bool,
}

/// RequestAddress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestAddress {
    /// From which pool.
    pub pool: PoolKey,
    /// Which one; the driver's choice where none is given.
    pub address: Option<IpAddr>,
    /// The purpose.
    pub purpose: Purpose,
    /// The hardware address of the interface that will have it: always there for an endpoint if
    /// the driver says that it requires it.
    pub mac: Option<Mac>,
    /// The container's name (29.0).
    pub endpoint: Option<EndpointName>,
    /// The next after the last that was allocated is wanted, not the lowest (swarm).
    pub serial: bool,
}

/// A container's name. Engines set no limit to its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointName {
    /// One that an address can be kept for.
    Usable(OwnerName),
    /// One that none can be kept for, and why.
    Unusable(String),
}

impl EndpointName {
    fn read(text: &str) -> Self {
        match text.parse() {
            Ok(name) => Self::Usable(name),
            Err(error) => Self::Unusable(error.to_string()),
        }
    }
}

/// The purpose of a requested address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The network's gateway.
    Gateway,
    /// An endpoint.
    Endpoint,
    /// The engine sent no options: an auxiliary address, or one that it has from an earlier life.
    /// It is not for an endpoint of Spoke's as long as hardware addresses are required.
    Auxiliary,
}

/// ReleaseAddress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseAddress {
    /// From which pool.
    pub pool: PoolKey,
    /// Which one.
    pub address: IpAddr,
}

impl RequestPool {
    pub(super) fn read(body: &Object<'_>) -> Result<Self, Refusal> {
        let request = Self {
            space: body.required("AddressSpace")?,
            pool: body.parsed("Pool")?,
            sub: body.parsed("SubPool")?,
            options: body.object("Options")?.all_texts()?,
            v6: body.flag("V6")?.unwrap_or(false),
        };
        match (request.pool, request.sub) {
            (None, Some(sub)) => {
                Err(Error::invalid(format!("SubPool {sub} needs the Pool that it is part of"))
                    .into())
            }
            _ => Ok(request),
        }
    }
}

impl RequestAddress {
    pub(super) fn read(body: &Object<'_>) -> Result<Self, Refusal> {
        let options = body.object("Options")?;
        Ok(Self {
            pool: body.required("PoolID")?,
            address: body.parsed("Address")?,
            purpose: match options.text(KIND)? {
                Some(GATEWAY) => Purpose::Gateway,
                _ if options.is_present() => Purpose::Endpoint,
                _ => Purpose::Auxiliary,
            },
            mac: options.parsed(MAC_ADDRESS)?,
            endpoint: options.text(ENDPOINT_NAME)?.map(EndpointName::read),
            serial: options.text(SERIAL)?.is_some_and(|text| text.eq_ignore_ascii_case("true")),
        })
    }
}

impl ReleaseAddress {
    pub(super) fn read(body: &Object<'_>) -> Result<Self, Refusal> {
        Ok(Self { pool: body.required("PoolID")?, address: body.required("Address")? })
    }
}
