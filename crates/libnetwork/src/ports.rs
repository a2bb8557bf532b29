//! The exposed and published ports of a container.

use std::net::IpAddr;
use std::num::NonZeroU16;

use model::{Error, Protocol, Result as Parsed};

use super::Refusal;
use super::object::Object;

/// As many ports as a protocol has. Longer lists are no container's.
const MOST_PORTS: usize = 65_536;

/// `com.docker.network.endpoint.exposedports`
pub(super) const EXPOSED: &str = "com.docker.network.endpoint.exposedports";
/// `com.docker.network.portmap`
pub(super) const PORT_MAP: &str = "com.docker.network.portmap";

/// The ports in the options of CreateEndpoint, Join and ProgramExternalConnectivity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// The ports that the image or the user exposes. In CreateEndpoint 29 has only the published
    /// ones.
    pub exposed: Vec<Exposed>,
    /// The ports to publish.
    pub bindings: Vec<PortBinding>,
}

/// A port of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Exposed {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number.
    pub port: NonZeroU16,
}

/// A port of a container that is to be published on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortBinding {
    /// Of both ports.
    pub protocol: Protocol,
    /// In the container.
    pub port: NonZeroU16,
    /// The container's address, where the engine says it; none does so far.
    pub address: Option<IpAddr>,
    /// Only this address of the host; every one where none is given.
    pub host: Option<IpAddr>,
    /// On the host.
    pub host_ports: HostPorts,
}

/// The ports of the host that lead to the container's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPorts {
    /// Any free one; our choice.
    Ephemeral,
    /// The first free one of these, both ends included. Mostly it is a single one: the engine
    /// sends ranges with as many ports in the container one by one.
    Range(NonZeroU16, NonZeroU16),
}

impl Ports {
    pub(super) fn read(options: &Object<'_>) -> Result<Self, Refusal> {
        let exposed = options.objects(EXPOSED, MOST_PORTS)?;
        let bindings = options.objects(PORT_MAP, MOST_PORTS)?;
        Ok(Self {
            exposed: exposed.iter().map(Exposed::read).collect::<Result<_, _>>()?,
            bindings: bindings.iter().map(PortBinding::read).collect::<Result<_, _>>()?,
        })
    }
}

impl Exposed {
    fn read(entry: &Object<'_>) -> Result<Self, Refusal> {
        let port = port(entry, "Port")?;
        let missing = || Error::invalid(format!("{} is missing or 0", entry.place("Port")));
        Ok(Self { protocol: protocol(entry)?, port: port.ok_or_else(missing)? })
    }
}

impl PortBinding {
    fn read(entry: &Object<'_>) -> Result<Self, Refusal> {
        let Exposed { protocol, port } = Exposed::read(entry)?;
        Ok(Self {
            protocol,
            port,
            address: entry.parsed("IP")?,
            host: entry.parsed("HostIP")?,
            host_ports: host_ports(entry)?,
        })
    }
}

fn host_ports(entry: &Object<'_>) -> Result<HostPorts, Refusal> {
    let Some(first) = port(entry, "HostPort")? else { return Ok(HostPorts::Ephemeral) };
    let last = port(entry, "HostPortEnd")?.unwrap_or(first);
    if last < first {
        let place = entry.place("HostPortEnd");
        return Err(Error::invalid(format!("{place}: {last} is below HostPort {first}")).into());
    }
    Ok(HostPorts::Range(first, last))
}

fn port(entry: &Object<'_>, key: &str) -> Result<Option<NonZeroU16>, Refusal> {
    entry.number(key).map(NonZeroU16::new)
}

fn protocol(entry: &Object<'_>) -> Result<Protocol, Refusal> {
    let number: u64 = entry.number("Proto")?;
    Ok(by_number(number).map_err(|error| error.context(entry.place("Proto")))?)
}

fn by_number(number: u64) -> Parsed<Protocol> {
    [Protocol::Tcp, Protocol::Udp, Protocol::Sctp]
        .into_iter()
        .find(|protocol| u64::from(protocol.number()) == number)
        .ok_or_else(|| {
            Error::invalid(format!("protocol {number} is none of 6 (tcp), 17 (udp), 132 (sctp)"))
        })
}
