//! The nouns of Spoke.
//!
//! Everything that crosses the engine is one of these types. They are made once, where a front
//! end parses its wire, and hold nothing that is not valid: there is no string in here that
//! stands for an address, a name or an option.

mod address;
mod attached;
mod attachment;
mod cursor;
mod error;
mod link;
mod name;
mod network;
mod policy;
mod pool;
mod port;

pub use address::{Mac, first_host, host_net, hosts_of, next_address, overlap};
pub use attached::{Attached, Dns, Interface, InterfaceAddress, Place, Route};
pub use attachment::{
    Attachment, AttachmentId, Family, Handoff, Layer, Phase, Process, Runtime, Sandbox, Timestamp,
    Wiring, Wish,
};
pub use cursor::{Cursor, Floor};
pub use error::{Error, Kind, Result};
pub use ipnet::{IpNet, Ipv4Net, Ipv6Net};
pub use link::{Bridge, Gateway, Link, LinkKind, Mtu, Ptp, bridge_name};
pub use name::{AliasId, ContainerId, IfName, NetworkName, OwnerName, PluginName};
pub use network::{Alias, Network, Publisher};
pub use policy::{Backend, EgressPolicy, Firewall, IngressPolicy, Masquerade, Sysctl, Tuning};
pub use pool::{
    ForeignIpam, Holder, Ipam, Lease, Order, Pool, PoolId, Range, Reservation, Space, Sticky,
    Subnet, SubnetId, Tenant, Want,
};
pub use port::{Claim, IptablesPublish, PortMap, Protocol, Publish, Reach, hosts_clash};
