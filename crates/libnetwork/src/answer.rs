//! The answers of plugins. Keys are written as the contract spells them.

mod profile;
mod read;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use model::{Family, IfName, Mac};
use serde::{Serialize, Serializer};

use super::{Method, PoolKey, SpaceName};
pub use profile::Manifest;
pub use read::{Releasable, Unusable, failure, readable};

/// The answer of a successful call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// It is done.
    Done {},
    /// GwAllocCheck.
    Skip(Skip),
    /// AllocateNetwork.
    Allocated {
        /// Passed to CreateNetwork on every node.
        #[serde(rename = "Options")]
        options: BTreeMap<String, String>,
    },
    /// CreateEndpoint.
    Endpoint {
        /// Only what the request left open; anything else makes the engine undo the endpoint.
        #[serde(rename = "Interface")]
        interface: EndpointGiven,
    },
    /// EndpointOperInfo. The engine shows nothing of it.
    Info {
        /// Whatever there is to say.
        #[serde(rename = "Value")]
        value: BTreeMap<String, String>,
    },
    /// Join.
    Joined(Box<Joined>),
    /// RequestPool.
    Pool(PoolGiven),
    /// RequestAddress.
    Address {
        /// With the prefix length of the pool.
        #[serde(rename = "Address")]
        address: IpNet,
        /// Whatever else there is to say.
        #[serde(rename = "Data")]
        data: BTreeMap<String, String>,
    },
}

/// Which gateways the engine need not request, because the driver needs none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skip {
    /// IPv4's.
    #[serde(rename = "SkipIPv4")]
    pub ipv4: bool,
    /// IPv6's.
    #[serde(rename = "SkipIPv6")]
    pub ipv6: bool,
}

impl Skip {
    /// Whether the gateway of such a subnet is of no use.
    pub fn has(&self, net: &IpNet) -> bool {
        match Family::of(net) {
            Family::V4 => self.ipv4,
            Family::V6 => self.ipv6,
        }
    }
}

/// The properties that CreateEndpoint adds to the request's interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EndpointGiven {
    /// IPv4, with its prefix length.
    #[serde(rename = "Address", skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<Ipv4Net>,
    /// IPv6, with its prefix length.
    #[serde(rename = "AddressIPv6", skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Ipv6Net>,
    /// Hardware.
    #[serde(rename = "MacAddress", skip_serializing_if = "Option::is_none")]
    pub mac: Option<Mac>,
}

/// The answer of Join.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Joined {
    /// The interface that the engine moves into the sandbox; `None` if it exists already (28.0).
    #[serde(rename = "InterfaceName", skip_serializing_if = "Option::is_none")]
    pub interface: Option<Moved>,
    /// The sandbox's default route. Without one the engine connects it to `docker_gwbridge`.
    #[serde(rename = "Gateway", skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Ipv4Addr>,
    /// The same of IPv6.
    #[serde(rename = "GatewayIPv6", skip_serializing_if = "Option::is_none")]
    pub gateway_v6: Option<Ipv6Addr>,
    /// Other routes; never a default route, which engines of different versions refuse in
    /// different ways.
    #[serde(rename = "StaticRoutes", skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<StaticRoute>,
    /// The engine is not to connect the sandbox to `docker_gwbridge`.
    #[serde(rename = "DisableGatewayService", skip_serializing_if = "is_false")]
    pub no_gateway_service: bool,
}

/// An interface that the engine moves and renames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Its name in the engine's namespace.
    #[serde(rename = "SrcName")]
    pub from: IfName,
    /// The prefix of its name in the sandbox, before a number that the engine chooses.
    #[serde(rename = "DstPrefix")]
    pub prefix: String,
}

/// A route of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaticRoute {
    /// Through a router.
    Via(IpNet, IpAddr),
    /// Through the endpoint's link.
    Connected(IpNet),
}

impl Serialize for StaticRoute {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "PascalCase")]
        struct Route {
            destination: IpNet,
            route_type: u8,
            #[serde(skip_serializing_if = "Option::is_none")]
            next_hop: Option<IpAddr>,
        }
        let (destination, route_type, next_hop) = match *self {
            StaticRoute::Via(destination, router) => (destination, 0, Some(router)),
            StaticRoute::Connected(destination) => (destination, 1, None),
        };
        Route { destination, route_type, next_hop }.serialize(serializer)
    }
}

/// The answer of RequestPool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolGiven {
    /// Its id for later calls.
    #[serde(rename = "PoolID", serialize_with = "display")]
    pub key: PoolKey,
    /// Which addresses.
    #[serde(rename = "Pool")]
    pub pool: IpNet,
    /// Whatever else there is to say. The engine takes the gateway from
    /// `com.docker.network.gateway`, releases it, and never requests it.
    #[serde(rename = "Data")]
    pub data: BTreeMap<String, String>,
}

/// How Plugin.Activate calls a network driver.
pub(super) const NETWORK_DRIVER: &str = "NetworkDriver";
/// How it calls an IPAM driver.
pub(super) const IPAM_DRIVER: &str = "IpamDriver";

/// A question about the plugin itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Which protocols it speaks.
    Activate,
    /// The capabilities of its network driver.
    NetworkCapabilities,
    /// The requirements of its IPAM driver.
    IpamCapabilities,
    /// Which address spaces its IPAM driver uses by default.
    AddressSpaces,
}

impl Question {
    /// The question of a method, where it is one.
    pub fn of(method: Method) -> Option<Self> {
        match method {
            Method::Activate => Some(Question::Activate),
            Method::NetworkCapabilities => Some(Question::NetworkCapabilities),
            Method::IpamCapabilities => Some(Question::IpamCapabilities),
            Method::AddressSpaces => Some(Question::AddressSpaces),
            _ => None,
        }
    }
}

/// A plugin's profile. It is the same for its whole life: engines ask once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The capabilities of its network driver; `None` if it is no network driver.
    pub network: Option<NetworkCapabilities>,
    /// The requirements of its IPAM driver; `None` if it is no IPAM driver.
    pub ipam: Option<IpamCapabilities>,
    /// Which address spaces its IPAM driver uses by default; none if it names none.
    pub spaces: Option<AddressSpaces>,
}

/// The capabilities of a network driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NetworkCapabilities {
    /// The scope of its allocations.
    #[serde(rename = "Scope")]
    pub scope: Scope,
    /// The scope of its connectivity.
    #[serde(rename = "ConnectivityScope")]
    pub connectivity: Scope,
    /// It is to be asked by GwAllocCheck which gateways it needs.
    #[serde(rename = "GwAllocChecker")]
    pub checks_gateways: bool,
}

/// One host, or all of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// One host.
    Local,
    /// All hosts of a cluster.
    Global,
}

/// The requirements of an IPAM driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IpamCapabilities {
    /// The interface's hardware address with every request for an endpoint.
    #[serde(rename = "RequiresMACAddress")]
    pub requires_mac: bool,
    /// Every pool and address again when the engine starts. This harms drivers that store their
    /// state: they cannot distinguish a repetition from a new request.
    #[serde(rename = "RequiresRequestReplay")]
    pub requires_replay: bool,
}

/// The address spaces that an engine uses where the user names none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AddressSpaces {
    /// For networks of this host.
    #[serde(rename = "LocalDefaultAddressSpace", serialize_with = "display")]
    pub local: SpaceName,
    /// For networks of a cluster.
    #[serde(rename = "GlobalDefaultAddressSpace", serialize_with = "display")]
    pub global: SpaceName,
}

impl Profile {
    /// The answer, as JSON.
    pub fn answer(&self, question: Question) -> serde_json::Result<Vec<u8>> {
        #[derive(Serialize)]
        #[serde(rename_all = "PascalCase")]
        struct Manifest {
            implements: Vec<&'static str>,
        }
        match question {
            Question::Activate => {
                let network = self.network.map(|_| NETWORK_DRIVER);
                let implements = network.into_iter().chain(self.ipam.map(|_| IPAM_DRIVER));
                serde_json::to_vec(&Manifest { implements: implements.collect() })
            }
            Question::NetworkCapabilities => serde_json::to_vec(&self.network),
            Question::IpamCapabilities => serde_json::to_vec(&self.ipam),
            Question::AddressSpaces => serde_json::to_vec(&self.spaces),
        }
    }
}

/// An error's text under both keys: engines read `Err` from network drivers, `Error` from IPAM
/// drivers, and `Err` from both where the status is not 200.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure<'a> {
    /// For network drivers.
    #[serde(rename = "Err")]
    err: &'a str,
    /// For IPAM drivers.
    #[serde(rename = "Error")]
    error: &'a str,
}

impl<'a> Failure<'a> {
    /// With this text.
    pub fn new(text: &'a str) -> Self {
        Self { err: text, error: text }
    }
}

fn display<S: Serializer>(value: &impl ToString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.to_string())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
