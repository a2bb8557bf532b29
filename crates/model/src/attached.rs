//! The result of an attach: interfaces, addresses, routes.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::{IfName, Mac, Mtu};

/// `RT_TABLE_MAIN` of rtnetlink(7).
const MAIN: u32 = 254;

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

/// A route in the container's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Where to.
    pub dst: IpNet,
    /// The next hop. Without one, the gateway of the same family.
    pub via: Option<IpAddr>,
    /// Path MTU in bytes (CNI 1.1.0).
    pub mtu: Option<u32>,
    /// Maximal segment size to advertise, in bytes (CNI 1.1.0).
    pub advmss: Option<u32>,
    /// Metric; lower is preferred (CNI 1.1.0).
    pub priority: Option<u32>,
    /// Routing table; the main one where none is given (CNI 1.1.0).
    pub table: Option<u32>,
    /// `rt_scope` of rtnetlink(7) (CNI 1.1.0).
    pub scope: Option<u8>,
}

impl Route {
    /// The scope of a destination that is directly on the link: `RT_SCOPE_LINK` of rtnetlink(7). Greater ones are
    /// narrower.
    pub const ON_LINK: u8 = 253;

    /// A route with nothing but its destination and next hop.
    pub fn new(dst: IpNet, via: Option<IpAddr>) -> Self {
        Self { dst, via, mtu: None, advmss: None, priority: None, table: None, scope: None }
    }

    /// Whether it is in the main table.
    pub fn is_in_main(&self) -> bool {
        self.table.is_none_or(|table| table == MAIN || table == 0)
    }

    /// Whether it is a default route: every destination of its family, in the main table, with a
    /// next hop.
    pub fn is_default(&self) -> bool {
        self.dst.prefix_len() == 0 && self.is_in_main()
    }
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
