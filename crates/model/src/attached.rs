//! The result of an attach: interfaces, addresses, and what else the container gets.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{IfName, Mac, Mtu, Route};

/// In which namespace an interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceNamespace {
    /// The host's.
    Host,
    /// The container's.
    Sandbox,
}

/// An interface that belongs to an attachment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name in its namespace.
    pub name: IfName,
    /// Its hardware address.
    pub mac: Option<Mac>,
    /// Its MTU, where it was asked for.
    pub mtu: Option<Mtu>,
    /// Where it is.
    pub place: InterfaceNamespace,
}

/// An address, and the interface that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceAddress {
    /// With the prefix length of its subnet.
    pub address: IpNet,
    /// The gateway of its subnet.
    pub gateway: Option<IpAddr>,
    /// Which of the result's interfaces has it.
    pub interface: Option<usize>,
}

/// The resolver configuration of a container (resolv.conf(5)).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dns {
    /// Servers in order of preference.
    pub nameservers: Vec<String>,
    /// The local domain.
    pub domain: Option<String>,
    /// Domains to search.
    pub search: Vec<String>,
    /// Options of the resolver.
    pub options: Vec<String>,
}

/// The result of an attach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// Those in the host first.
    pub interfaces: Vec<Interface>,
    /// In the order of the pools that they came from.
    pub addresses: Vec<InterfaceAddress>,
    /// Those of the container.
    pub routes: Vec<Route>,
    /// The resolver configuration for the container.
    pub dns: Dns,
    /// Whether the sandbox is to get no other default route although this is none (libnetwork's
    /// `DisableGatewayService`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_in: bool,
    /// The prefix of the interface's name, where the runtime names it (libnetwork's `DstPrefix`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<IfName>,
}
