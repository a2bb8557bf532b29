//! The requests of `NetworkDriver`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use model::{Error, Mac, Result as Parsed};

use super::object::{Object, quoted};
use super::options::{EndpointOptions, NetworkOptions};
use super::ports::Ports;
use super::{EndpointId, NetworkId, Refusal, SpaceName};

pub(super) const NO_PROXY_6TO4: &str = "com.docker.network.driver.private.no_proxy_6to4";
const MOST_SUBNETS: usize = 1024;
/// libnetwork's only kind of discovery.
pub(super) const NODE: u64 = 1;

/// CreateNetwork. It comes once in a network's life, not again when anything restarts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateNetwork {
    /// The network's id.
    pub id: NetworkId,
    /// The options with which it was created.
    pub options: NetworkOptions,
    /// Its IPv4 subnets.
    pub ipv4: Vec<Subnet>,
    /// Its IPv6 subnets.
    pub ipv6: Vec<Subnet>,
}

/// A subnet as the IPAM driver gave it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Of which address space; none in AllocateNetwork.
    pub space: Option<SpaceName>,
    /// Which addresses. `0.0.0.0/0` with the IPAM driver `null`.
    pub pool: IpNet,
    /// Its gateway, with the prefix length of the pool.
    pub gateway: Option<IpNet>,
    /// Addresses that the user took from it, by the user's names.
    pub aux: BTreeMap<String, IpAddr>,
}

/// AllocateNetwork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocateNetwork {
    /// The network's id.
    pub id: NetworkId,
    /// All options of `-o`.
    pub options: BTreeMap<String, String>,
    /// Its IPv4 subnets.
    pub ipv4: Vec<Subnet>,
    /// Its IPv6 subnets.
    pub ipv6: Vec<Subnet>,
}

/// Which endpoint of which network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointRef {
    /// The network.
    pub network: NetworkId,
    /// Its endpoint.
    pub endpoint: EndpointId,
}

/// CreateEndpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateEndpoint {
    /// Which one.
    pub at: EndpointRef,
    /// The engine's decisions; the answer may only add to them.
    pub interface: Interface,
    /// The options with which it was created.
    pub options: EndpointOptions,
}

/// An endpoint's addresses, so far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// IPv4, with the prefix length of the subnet.
    pub ipv4: Option<IpNet>,
    /// IPv6, with the prefix length of the subnet.
    pub ipv6: Option<IpNet>,
    /// Hardware.
    pub mac: Option<Mac>,
}

/// Join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// Which endpoint.
    pub at: EndpointRef,
    /// The sandbox's namespace. It does not exist yet when engines before 28.0 ask.
    pub sandbox: PathBuf,
    /// Offered and published ports.
    pub ports: Ports,
}

/// ProgramExternalConnectivity. 29 sends it again, and for two endpoints of a sandbox with the
/// same ports; the last one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramConnectivity {
    /// Which endpoint.
    pub at: EndpointRef,
    /// The ports to publish.
    pub ports: Ports,
    /// Another endpoint is the sandbox's IPv6 gateway: the host's IPv6 addresses must not lead to
    /// this one's IPv4 address (28.0).
    pub no_proxy_6to4: bool,
}

/// DiscoverNew and DiscoverDelete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// Of a node of the cluster.
    Node(Node),
    /// Of something that libnetwork had not thought of, with its number.
    Other(u64),
}

/// A node of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Where the others reach it.
    pub address: IpAddr,
    /// Where it listens.
    pub bind: Option<IpAddr>,
    /// It is this one.
    pub own: bool,
}

impl CreateNetwork {
    pub(super) fn read(body: &Object<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            id: body.required("NetworkID")?,
            options: NetworkOptions::read(&body.object("Options")?)?,
            ipv4: subnets(body, "IPv4Data")?,
            ipv6: subnets(body, "IPv6Data")?,
        })
    }
}

impl AllocateNetwork {
    pub(super) fn read(body: &Object<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            id: body.required("NetworkID")?,
            options: body.object("Options")?.all_texts()?,
            ipv4: subnets(body, "IPv4Data")?,
            ipv6: subnets(body, "IPv6Data")?,
        })
    }
}

fn subnets(body: &Object<'_>, key: &str) -> Result<Vec<Subnet>, Refusal> {
    let is_v6 = key == "IPv6Data";
    let entries = body.objects(key, MOST_SUBNETS)?;
    entries.iter().map(|entry| Subnet::read(entry, is_v6)).collect()
}

impl Subnet {
    fn read(entry: &Object<'_>, is_v6: bool) -> Result<Self, Refusal> {
        let pool: IpNet = entry.required("Pool")?;
        of_family(pool.addr(), is_v6, || entry.place("Pool"))?;
        Ok(Self {
            space: entry.parsed("AddressSpace")?,
            pool,
            gateway: prefixed(entry, "Gateway", is_v6)?,
            aux: aux(&entry.object("AuxAddresses")?, is_v6)?,
        })
    }
}

fn aux(entries: &Object<'_>, is_v6: bool) -> Result<BTreeMap<String, IpAddr>, Refusal> {
    let texts = entries.all_texts()?.into_iter().filter(|(_, text)| !text.is_empty());
    texts
        .map(|(name, text)| {
            let place = || entries.place(&quoted(&name));
            // Engines write them with the pool's prefix length, the contract without.
            let net = text.parse::<IpNet>().map(|net| net.addr());
            let address = net
                .or_else(|_| text.parse::<IpAddr>())
                .map_err(|why| Error::invalid(format!("{}: {}: {why}", place(), quoted(&text))))?;
            of_family(address, is_v6, place)?;
            Ok((name, address))
        })
        .collect()
}

fn prefixed(object: &Object<'_>, key: &str, is_v6: bool) -> Result<Option<IpNet>, Refusal> {
    let net: Option<IpNet> = object.parsed(key)?;
    if let Some(net) = net {
        of_family(net.addr(), is_v6, || object.place(key))?;
    }
    Ok(net)
}

fn of_family(address: IpAddr, is_v6: bool, place: impl Fn() -> String) -> Parsed<()> {
    match address.is_ipv6() == is_v6 {
        true => Ok(()),
        false => {
            let family = if is_v6 { "IPv6" } else { "IPv4" };
            Err(Error::invalid(format!("{}: {address} is no {family} address", place())))
        }
    }
}

impl EndpointRef {
    pub(super) fn read(body: &Object<'_>) -> Result<Self, Refusal> {
        Ok(Self { network: body.required("NetworkID")?, endpoint: body.required("EndpointID")? })
    }
}

impl CreateEndpoint {
    pub(super) fn read(body: &Object<'_>) -> Result<Self, Refusal> {
        let interface = body.object("Interface")?;
        Ok(Self {
            at: EndpointRef::read(body)?,
            interface: Interface {
                ipv4: prefixed(&interface, "Address", false)?,
                ipv6: prefixed(&interface, "AddressIPv6", true)?,
                mac: interface.parsed("MacAddress")?,
            },
            options: EndpointOptions::read(&body.object("Options")?)?,
        })
    }
}

impl Join {
    pub(super) fn read(body: &Object<'_>) -> Result<Self, Refusal> {
        let sandbox: PathBuf = body.required("SandboxKey")?;
        if !sandbox.is_absolute() || sandbox.as_os_str().as_encoded_bytes().contains(&0) {
            let shown = quoted(&sandbox.to_string_lossy());
            return Err(Error::invalid(format!("SandboxKey: {shown} is no absolute path")).into());
        }
        Ok(Self {
            at: EndpointRef::read(body)?,
            sandbox,
            ports: Ports::read(&body.object("Options")?)?,
        })
    }
}

impl ProgramConnectivity {
    pub(super) fn read(body: &Object<'_>) -> Result<Self, Refusal> {
        let options = body.object("Options")?;
        Ok(Self {
            at: EndpointRef::read(body)?,
            ports: Ports::read(&options)?,
            no_proxy_6to4: options.flag(NO_PROXY_6TO4)?.unwrap_or(false),
        })
    }
}

impl Discovery {
    pub(super) fn read(body: &Object<'_>) -> Result<Self, Refusal> {
        let kind: u64 = body.number("DiscoveryType")?;
        if kind != NODE {
            return Ok(Discovery::Other(kind));
        }
        let data = body.object("DiscoveryData")?;
        Ok(Discovery::Node(Node {
            address: data.required("Address")?,
            bind: data.parsed("BindAddress")?,
            own: data.flag("Self")?.unwrap_or(false),
        }))
    }
}
