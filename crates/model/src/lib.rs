//! The nouns of Spoke.
//!
//! Everything that crosses the engine is one of these types. They are made once, where a front
//! end parses its wire, and hold nothing that is not valid: there is no string in here that
//! stands for an address, a name or an option.

mod address;
mod amendment;
mod attached;
mod attachment;
mod attachment_outline;
mod calendar;
mod called;
mod cluster;
mod cursor;
mod dhcp;
mod egress;
mod error;
mod fact;
mod family;
mod former;
mod guest;
mod label;
mod link;
mod moment;
mod name;
mod name_service;
mod naming;
mod network;
mod policy;
mod pool;
mod port;
mod public_key;
mod quota;
mod sandbox_record;
mod settings;
pub mod text;
mod via;

pub use address::{
    Mac, first_host, host_net, hosts_of, next_address, overlap, overlapping_pairs, previous_address,
};
pub use amendment::{Amendment, AmendmentPart};
pub use attached::{Attached, Dns, Interface, InterfaceAddress, InterfaceNamespace, Route};
pub use attachment::{
    Attachment, AttachmentId, Handoff, Layer, Origin, Phase, Process, Runtime, Sandbox, Spec,
    Timestamp, Wiring,
};
pub use attachment_outline::AttachmentOutline;
pub use calendar::date;
pub use called::is_owner_called;
pub use cluster::{
    AddressPin, ClusterHost, ENGINE_LABEL, EngineKind, Engines, HostLink, NamedElsewhere, PinState,
    Placement, SharedEndpoint, SharedName, SharedNetwork, SharedRules, Transport, TransportChoice,
    Vni,
};
pub use cursor::{Cursor, Floor};
pub use dhcp::{Dhcp, DhcpOption};
pub use egress::{
    DomainName, EgressRule, EgressTarget, Fence, Service, behind_nat64, is_meant, is_public,
    link_local,
};
pub use error::{Error, Kind, Result};
pub use fact::{Fact, RequestedAddress};
pub use family::Family;
pub use former::FormerName;
pub use ipnet::{IpNet, Ipv4Net, Ipv6Net};
pub use label::{LABEL_PREFIX, Label, LabelFilter, Labels};
pub use link::{
    Absence, AddressPair, Binding, Bridge, BridgePort, Device, DeviceAddress, DeviceChoice,
    ExternalInterface, Form, Gateway, Ipvlan, IpvlanMode, Link, LinkKind, LinkTraits, Macvlan,
    MacvlanMode, Mtu, NEUTRON_PREFIX, Nesting, NeutronLink, Ovs, Ownership, Parent, Plug,
    PluginChain, PortSpec, PortUser, Ptp, RemoteLink, ResourceId, ResourceName, ResourceRef,
    ScriptName, Tap, Tunnel, Vif, Vlan, VlanId, VlanRange, VlanTag, Vlans, bridge_name,
};
pub use moment::Moment;
pub use name::{
    AliasId, ContainerId, DriverName, EngineId, IfName, NetworkName, OwnerName, PluginName,
    ZoneName,
};
pub use name_service::{NAME_DOMAIN, name_domain};
pub use naming::{HostName, LinkLocal, ResolverOption, SearchDomain};
pub use network::{Alias, Network, Publisher, Stage, Unmaking};
pub use policy::{
    Backend, Bandwidth, EgressPolicy, Firewall, IngressPolicy, Masquerade, Passage, Rate,
    SourceRouting, Sources, Sysctl, Tuning, Vrf,
};
pub use pool::{
    AddressSpace, ForeignIpam, GivenPool, Holder, Ipam, Lease, Order, Pool, PoolId, Range,
    RemoteIpam, RemotePool, Reservation, Space, Sticky, Subnet, SubnetId, Tenant, Want,
};
pub use port::{Claim, IptablesPublish, PortMap, Protocol, Publish, Reach, hosts_clash};
pub use public_key::PublicKey;
pub use quota::{Period, Quota, Usage};
pub use sandbox_record::{GatewayRole, GatewayState, Namespace, SandboxRecord};
pub use settings::{NetworkChange, Settings, Way};
pub use via::{Gateways, Via, WAY_MARK, way_table};
