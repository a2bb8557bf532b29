//! Routes of containers.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// `RT_TABLE_MAIN` of rtnetlink(7).
const MAIN: u32 = 254;

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
