//! The nouns of Spoke.
//!
//! Everything that crosses the engine is one of these types. They are made once, where a front
//! end parses its wire, and hold nothing that is not valid: there is no string in here that
//! stands for an address, a name or an option.

mod address;
mod amendment;
mod attached;
mod attachment;
mod attachment_id;
mod attachment_outline;
mod calendar;
mod called;
mod cluster;
mod cursor;
mod device;
mod dhcp;
mod egress;
mod error;
mod family;
mod former;
mod guest;
mod label;
mod link;
mod moment;
mod mtu;
mod name;
mod name_service;
mod naming;
mod network;
mod network_change;
mod policy;
mod pool;
mod port;
mod process;
mod public_key;
mod quota;
mod refusal;
mod route;
mod runtime;
mod sandbox_record;
mod settings;
pub mod text;
mod via;
mod vni;
mod wiring;

pub use address::{
    Mac, first_host, host_net, hosts_of, next_address, overlap, overlapping_pairs, previous_address,
};
pub use amendment::{Amendment, AmendmentPart};
pub use attached::{Attached, Dns, Interface, InterfaceAddress, InterfaceNamespace};
pub use attachment::{Attachment, Origin, Phase, Sandbox, Spec};
pub use attachment_id::{AttachmentId, Layer};
pub use attachment_outline::AttachmentOutline;
pub use calendar::{Timestamp, date};
pub use called::is_owner_called;
pub use cluster::{
    AddressPin, ClusterHost, ENGINE_LABEL, EngineKind, Engines, HostLink, NamedElsewhere, PinState,
    Placement, SharedEndpoint, SharedName, SharedNetwork, SharedRules, Transport, TransportChoice,
};
pub use cursor::{Cursor, Floor};
pub use device::{Device, DeviceAddress, DeviceChoice};
pub use dhcp::{Dhcp, DhcpOption};
pub use egress::{
    DomainName, EgressRule, EgressTarget, Fence, Service, behind_nat64, is_meant, is_public,
    link_local,
};
pub use error::{Error, Fact, Kind, RequestedAddress, Result};
pub use family::Family;
pub use ipnet::{IpNet, Ipv4Net, Ipv6Net};
pub use label::{LABEL_PREFIX, Label, LabelFilter, Labels};
pub use link::{
    Absence, AddressPair, Binding, Bridge, BridgePort, ExternalInterface, Form, Gateway, Ipvlan,
    IpvlanMode, Link, LinkKind, LinkTraits, Macvlan, MacvlanMode, NEUTRON_PREFIX, Nesting,
    NeutronLink, Ovs, Ownership, Parent, Plug, PluginChain, PortSpec, PortUser, Ptp, RemoteLink,
    ResourceId, ResourceName, ResourceRef, ScriptName, Tap, Tunnel, Vif, Vlan, VlanId, VlanRange,
    VlanTag, Vlans, bridge_name,
};
pub use moment::Moment;
pub use mtu::Mtu;
pub use name::{
    AliasId, ContainerId, DriverName, EngineId, IfName, NetworkName, OwnerName, PluginName,
    ZoneName,
};
pub use naming::{HostName, LinkLocal, NAME_DOMAIN, ResolverOption, SearchDomain, name_domain};
pub use network::{Alias, FormerName, Network, Publisher, Stage, Unmaking};
pub use network_change::NetworkChange;
pub use policy::{
    Backend, Bandwidth, EgressPolicy, Firewall, IngressPolicy, Masquerade, Passage, Rate,
    SourceRouting, Sources, Sysctl, Tuning, Vrf,
};
pub use pool::{
    AddressSpace, ForeignIpam, GivenPool, Holder, Ipam, Lease, Order, Pool, PoolId, Range,
    RemoteIpam, RemotePool, Reservation, Space, Sticky, Subnet, SubnetId, Tenant, Want,
};
pub use port::{Claim, IptablesPublish, PortMap, Protocol, Publish, Reach, hosts_clash};
pub use process::Process;
pub use public_key::PublicKey;
pub use quota::{Period, Quota, Usage};
pub use route::Route;
pub use runtime::{Handoff, Runtime};
pub use sandbox_record::{GatewayRole, GatewayState, Namespace, SandboxRecord};
pub use settings::{Settings, Way};
pub use via::{Gateways, Via, WAY_MARK, way_table};
pub use vni::Vni;
pub use wiring::Wiring;
