//! Ports of the host that lead to a container.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::{question, shown};
use crate::{AttachmentId, Backend, Error, Family, IfName, Result, host_net};

/// A transport protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
    /// RFC 9260.
    Sctp,
}

impl Protocol {
    /// Its number in the IP header.
    pub const fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::Sctp => 132,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        })
    }
}

impl FromStr for Protocol {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "tcp" => Ok(Protocol::Tcp),
            "udp" => Ok(Protocol::Udp),
            "sctp" => Ok(Protocol::Sctp),
            _ => {
                let asked = question(text, ["tcp", "udp", "sctp"]);
                let shown = shown(text);
                Err(Error::invalid(format!(
                    "protocol \"{shown}\" is none of tcp, udp, sctp{asked}"
                )))
            }
        }
    }
}

/// One port of the host that leads to one port of the container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortMap {
    /// Only this address of the host (`0.0.0.0` and `::`: all of the family); every one where
    /// none is given.
    pub host: Option<IpAddr>,
    /// On the host.
    pub host_port: NonZeroU16,
    /// In the container.
    pub container_port: NonZeroU16,
    /// Of both.
    pub protocol: Protocol,
}

impl PortMap {
    /// The family of an address of the host that a container with these addresses lacks: the port leads nowhere. `None`
    /// also where the addresses are not known.
    pub fn lacks(&self, addresses: impl IntoIterator<Item = IpAddr>) -> Option<Family> {
        let family = Family::of(&host_net(self.host?));
        let mut families = addresses.into_iter().map(|it| Family::of(&host_net(it))).peekable();
        families.peek()?;
        families.all(|it| it != family).then_some(family)
    }
}

impl fmt::Display for PortMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Some(IpAddr::V6(host)) => write!(f, "[{host}]:")?,
            Some(host) => write!(f, "{host}:")?,
            None => {}
        }
        write!(f, "{}->{}/{}", self.host_port, self.container_port, self.protocol)
    }
}

/// A container's published ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publish {
    /// The packet filter that has the rules.
    pub backend: Backend,
    /// The published ports.
    pub ports: Vec<PortMap>,
    /// Those of [`Publish::ports`] that a command added while the container ran
    /// ([`crate::Amendment`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<PortMap>,
    /// Ports that a command withdraws, which the packet filter may still have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<PortMap>,
    /// Ports of the container that clients reach at its own address, as its network allows
    /// ([`crate::Passage`]), with or without a port of the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub served: Vec<(Protocol, NonZeroU16)>,
    /// From where the ports are reached.
    #[serde(default)]
    pub reach: Reach,
    /// Rewrite the source of packets that a container sends to its own published port.
    pub snat: bool,
    /// Rewrite the source of every packet to a published port.
    pub masquerade_all: bool,
    /// The host's interface behind which the container is, where it is known.
    pub behind: Option<IfName>,
    /// The iptables back end's own options.
    pub iptables: IptablesPublish,
}

impl Publish {
    /// Whether it comes to nothing.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.served.is_empty() && self.leaving.is_empty()
    }

    /// The default: no ports yet, reachable by every client.
    pub fn new(backend: Backend) -> Self {
        Self {
            backend,
            ports: Vec::new(),
            added: Vec::new(),
            leaving: Vec::new(),
            served: Vec::new(),
            reach: Reach::default(),
            snat: true,
            masquerade_all: false,
            behind: None,
            iptables: IptablesPublish::default(),
        }
    }
}

/// From where a published port is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// From wherever the host's address is reached.
    #[default]
    Any,
    /// From the subnets that the host is connected to.
    Lan,
    /// From this host, its containers included.
    Local,
}

/// Options of the reference plugin `portmap` that only iptables has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IptablesPublish {
    /// Matches added to each IPv4 rule.
    pub conditions_v4: Vec<String>,
    /// Matches added to each IPv6 rule.
    pub conditions_v6: Vec<String>,
    /// The bit of the packet mark that asks for masquerading; 13 where none is given.
    pub mark_bit: Option<u8>,
    /// A third party's chain that sets the mark.
    pub set_mark_chain: Option<String>,
}

/// The store's entry for a host port: one per address of the host that is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The address of the host; every one where none is given.
    pub host: Option<IpAddr>,
    /// The attachment that holds it.
    pub holder: AttachmentId,
    /// The holder's namespace, where a container may hold one port by several attachments.
    #[serde(default)]
    pub sandbox: Option<PathBuf>,
}

impl Claim {
    /// Whether it excludes another claim of the same port of `host` ([`hosts_clash`]).
    pub fn clashes(&self, host: Option<IpAddr>) -> bool {
        hosts_clash(self.host, host)
    }
}

/// Whether one port cannot be held twice, of these addresses of the host: they are the same, or one
/// stands for all addresses (none, as in [`Claim::host`]) or (as `0.0.0.0` and `::` do) for all of
/// the other's family.
pub fn hosts_clash(one: Option<IpAddr>, other: Option<IpAddr>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) if one.is_ipv4() == other.is_ipv4() => {
            one == other || one.is_unspecified() || other.is_unspecified()
        }
        (Some(_), Some(_)) => false,
        (None, _) | (_, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_a_family_that_the_container_lacks() {
        let lacks = |host: Option<&str>, addresses: &[&str]| {
            let port = NonZeroU16::MIN;
            let host = host.map(|host| host.parse().unwrap());
            let map =
                PortMap { host, host_port: port, container_port: port, protocol: Protocol::Tcp };
            map.lacks(addresses.iter().map(|it| it.parse().unwrap()))
        };
        assert_eq!(lacks(Some("0.0.0.0"), &["fd00::1"]), Some(Family::V4));
        assert_eq!(lacks(Some("::1"), &["10.0.0.1"]), Some(Family::V6));
        assert_eq!(lacks(Some("0.0.0.0"), &["fd00::1", "10.0.0.1"]), None);
        assert_eq!(lacks(None, &["fd00::1"]), None);
        assert_eq!(lacks(Some("0.0.0.0"), &[]), None);
    }

    #[test]
    fn every_address_clashes_with_each() {
        let holder = AttachmentId {
            network: "n".parse().unwrap(),
            container: "c".parse().unwrap(),
            ifname: "eth0".parse().unwrap(),
        };
        let one: IpAddr = "10.0.0.1".parse().unwrap();
        let other: IpAddr = "10.0.0.2".parse().unwrap();
        let claim = |host| Claim { host, holder: holder.clone(), sandbox: None };
        assert!(claim(None).clashes(Some(one)) && claim(Some(one)).clashes(None));
        assert!(claim(Some(one)).clashes(Some(one)) && !claim(Some(one)).clashes(Some(other)));
        let (all_v4, all_v6) = ("0.0.0.0".parse().unwrap(), "::".parse().unwrap());
        assert!(claim(Some(all_v4)).clashes(Some(one)) && !claim(Some(all_v6)).clashes(Some(one)));
    }
}
