//! The treatment of a container's packets, and the tuning of its interface.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Family, IfName, Mac, Mtu, Quota, ZoneName};

/// Which of the kernel's packet filters holds the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// Elements in the sets of our own table, over netlink.
    Nftables,
    /// Chains named as the reference plugins name them, by `iptables-restore`.
    Iptables,
}

/// Hide the container's addresses behind the host's when its packets leave the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Masquerade {
    /// The packet filter that has the rules.
    pub backend: Backend,
    /// The host's addresses that packets leave with.
    #[serde(default, skip_serializing_if = "Sources::is_empty")]
    pub sources: Sources,
    /// The only family in which it is so; both where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Family>,
}

impl Masquerade {
    /// Behind the address of whichever interface a packet leaves by.
    pub fn new(backend: Backend) -> Self {
        Self { backend, sources: Sources::default(), only: None }
    }

    /// Whether it is so in this family.
    pub fn is_of(&self, family: Family) -> bool {
        self.only.is_none_or(|only| only == family)
    }
}

/// The addresses of the host that packets of containers leave with (Docker's
/// `com.docker.network.host_ipv4` and `_ipv6`). Where a family has none it is that of the interface
/// that they leave by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources {
    /// Of IPv4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v4: Option<Ipv4Addr>,
    /// Of IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v6: Option<Ipv6Addr>,
}

impl Sources {
    /// The description of an IPv4 source, for a message.
    pub const V4: &str = "an IPv4 address of this host that others can answer";
    /// The description of an IPv6 source, for a message.
    pub const V6: &str = "an IPv6 address of this host that others can answer";

    /// The description of one of either family, for a message.
    pub const EITHER: &str = "an address of this host that others can answer, or one of each family between \
                              commas";

    /// Whether no family has one.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The address of this family.
    pub fn of(&self, family: Family) -> Option<IpAddr> {
        match family {
            Family::V4 => self.v4.map(IpAddr::V4),
            Family::V6 => self.v6.map(IpAddr::V6),
        }
    }

    /// Reads an IPv4 source; `None` for what cannot be answered: no address, loopback, multicast,
    /// broadcast, unspecified.
    pub fn read_v4(text: &str) -> Option<Ipv4Addr> {
        let is_answered = |it: &Ipv4Addr| {
            !(it.is_unspecified() || it.is_loopback() || it.is_multicast() || it.is_broadcast())
        };
        text.parse().ok().filter(is_answered)
    }

    /// The same of IPv6, where addresses of one segment are answered there only, and refused too.
    pub fn read_v6(text: &str) -> Option<Ipv6Addr> {
        let is_answered = |it: &Ipv6Addr| {
            let is_local = it.is_unicast_link_local() || it.to_ipv4_mapped().is_some();
            !(it.is_unspecified() || it.is_loopback() || it.is_multicast() || is_local)
        };
        text.parse().ok().filter(is_answered)
    }
}

/// Which packets may reach a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firewall {
    /// The packet filter that has the rules.
    pub backend: Backend,
    /// From where packets are let in.
    pub ingress: IngressPolicy,
    /// Where packets may go.
    #[serde(default)]
    pub egress: EgressPolicy,
    /// The bridge that the container is on, where it is on one.
    pub bridge: Option<IfName>,
    /// The chain for the administrator's own rules, evaluated first (iptables only).
    pub admin_chain: Option<String>,
    /// The zone of firewalld that has the container's addresses as sources. None unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneName>,
    /// Which clients reach it by a route (nftables only).
    #[serde(default, skip_serializing_if = "Passage::is_unjudged")]
    pub passage: Passage,
}

impl Firewall {
    /// One that refuses nothing.
    pub fn open(backend: Backend) -> Self {
        Self {
            backend,
            ingress: IngressPolicy::Open,
            egress: EgressPolicy::Open,
            bridge: None,
            admin_chain: None,
            zone: None,
            passage: Passage::Unjudged,
        }
    }
}

/// Which clients reach a container by a route through this host, at its own address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Passage {
    /// Every client for which the host forwards.
    #[default]
    Unjudged,
    /// Clients that arrive by one of these interfaces of the host, and only at published ports
    /// (Docker's `trusted_host_interfaces`).
    Trusted(Vec<IfName>),
    /// Every client, and only at published ports (Docker's gateway mode `routed`).
    Everybody,
    /// The same by packets of this family; nothing is decided of the other one.
    EverybodyOf(Family),
}

impl Passage {
    /// Only from there; from nowhere in particular where none is named.
    pub fn trusting(interfaces: Vec<IfName>) -> Self {
        if interfaces.is_empty() { Passage::Unjudged } else { Passage::Trusted(interfaces) }
    }

    /// Whether nothing is decided.
    pub fn is_unjudged(&self) -> bool {
        *self == Passage::Unjudged
    }

    /// The interfaces that are trusted.
    pub fn trusted(&self) -> &[IfName] {
        match self {
            Passage::Trusted(interfaces) => interfaces,
            Passage::Unjudged | Passage::Everybody | Passage::EverybodyOf(_) => &[],
        }
    }

    /// Whether everybody reaches published ports by packets of this family.
    pub fn is_everybodys(&self, family: Family) -> bool {
        match self {
            Passage::Everybody => true,
            Passage::EverybodyOf(only) => *only == family,
            Passage::Unjudged | Passage::Trusted(_) => false,
        }
    }
}

/// From where a container can be reached (the reference plugin `firewall`, `ingressPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IngressPolicy {
    /// From everywhere.
    Open,
    /// Not from other bridges of this host that have this policy.
    SameBridge,
    /// Not from any other container of this policy, those on the same bridge aside.
    Isolated,
}

/// Where a container's packets may go, beyond its own network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EgressPolicy {
    /// Everywhere.
    #[default]
    Open,
    /// Nowhere, and nothing from there reaches it (libnetwork's internal networks).
    Internal,
}

/// A kernel parameter below `net.`, in the container's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sysctl {
    /// Its path below `/proc/sys`, for example `net/ipv4/conf/eth0/rp_filter`; never `..`.
    pub path: PathBuf,
    /// The value to write.
    pub value: String,
}

/// How a container's interface is tuned, and what it was before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning {
    /// Kernel parameters, in the order in which they are written.
    pub sysctls: Vec<Sysctl>,
    /// A new hardware address.
    pub mac: Option<Mac>,
    /// A new MTU.
    pub mtu: Option<Mtu>,
    /// Promiscuous mode.
    pub promiscuous: Option<bool>,
    /// Reception of all multicast packets.
    pub all_multicast: Option<bool>,
    /// The length of the transmit queue in packets.
    pub tx_queue: Option<u32>,
    /// Where what was before is kept, as the reference plugin keeps it.
    pub backup: Option<PathBuf>,
}

/// How much a container may send and receive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// The limit for what it receives. Without one, unlimited.
    pub ingress: Option<Rate>,
    /// The limit for what it sends. Without one, unlimited.
    pub egress: Option<Rate>,
    /// The host's device whose packets are limited, where Spoke did not make the link.
    pub device: Option<IfName>,
    /// How much it may send and receive together in a period. Without one, as much as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
}

impl Bandwidth {
    /// Whether it limits what is sent or received at a time.
    pub const fn has_rates(&self) -> bool {
        self.ingress.is_some() || self.egress.is_some()
    }

    /// Whether it limits anything.
    pub const fn is_any(&self) -> bool {
        self.has_rates() || self.quota.is_some()
    }
}

/// A token bucket (tc-tbf(8)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Bits per second, never 0.
    pub rate: u64,
    /// Bits that may be sent at once, never 0.
    pub burst: u64,
}

/// A routing table of its own for the container's interface (`vrf`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vrf {
    /// The device that stands for it in the container; several interfaces may share it.
    pub name: IfName,
    /// Its routing table; the first free one where none is given.
    pub table: Option<u32>,
}

/// Routing by source address: what leaves with an address of the interface leaves through it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRouting {
    /// The routing table of the interface; the first free one from 100 on where none is given.
    pub table: Option<u32>,
    /// Its default gateways, at most one of each family, instead of those of its addresses.
    pub gateways: Vec<std::net::IpAddr>,
    /// Whether the routes name the interface's address as the source to use.
    pub source_hints: bool,
}
