//! The requested properties of a network, and the wiring that follows from them.

use std::net::IpAddr;
use std::path::PathBuf;

use model::{
    Absence, AddressSpace, Backend, Bridge, BridgePort, Dhcp, EgressPolicy, Family, Fence,
    Firewall, Gateway, Handoff, IfName, IngressPolicy, InterfaceNamespace, Ipam, Ipvlan,
    IpvlanMode, Labels, Link, LinkKind, Macvlan, MacvlanMode, Masquerade, Mtu, Network,
    NetworkName, NeutronLink, Ovs, Parent, Passage, Publish, Publisher, Reach, Route, Runtime,
    Sources, Timestamp, Via, VlanId, Vlans, Wiring,
};

/// What VXLAN takes of the usual 1500 bytes (RFC 7348, IPv4 outside; IPv6 takes 20 more).
const THROUGH_VXLAN: u32 = 1430;

/// Where a DHCP daemon listens that keeps leases alive, Spoke's or the reference's.
const DHCP_SOCKET: &str = "/run/cni/dhcp.sock";

/// The values of a network's options. [`None`] means that the option is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkSpec {
    /// The link kind of its containers.
    pub kind: Option<KindSpec>,
    /// Where addresses come from.
    pub source: Source,
    /// An existing network, to join; for Docker also the name of a new one.
    pub network: Option<NetworkName>,
    /// The tenant's address space, whose networks this host does not route.
    pub address_space: Option<AddressSpace>,
    /// The bridge's device.
    pub bridge: Option<IfName>,
    /// Of the network's devices.
    pub mtu: Option<Mtu>,
    /// From where containers are reached.
    pub ingress: Option<IngressPolicy>,
    /// Where their packets may go.
    pub egress: EgressPolicy,
    /// From where published ports are reached.
    pub reach: Option<Reach>,
    /// Which side publishes ports.
    pub publisher: Option<Publisher>,
    /// Which side completes interfaces.
    pub handoff: Option<Handoff>,
    /// Where containers send what is for elsewhere.
    pub route: Option<DefaultRoute>,
    /// Whether they have a default route.
    pub default_route: Option<bool>,
    /// Of the default route.
    pub metric: Option<u32>,
    /// Whether others reach containers by routes, without published ports.
    pub direct: Option<bool>,
    /// The only family in which that is so; both where none is given.
    pub direct_only: Option<Family>,
    /// Who reaches published ports by routes.
    pub passage: Option<Passage>,
    /// Whether packets leave with the host's address.
    pub masquerade: Option<bool>,
    /// The only family in which that is so; both where none is given.
    pub masquerade_only: Option<Family>,
    /// The addresses that they leave with.
    pub sources: Sources,
    /// The families in which this host has no address on the segment.
    pub host_absent: Absence,
    /// Whether the bridge's ports get back what they sent.
    pub hairpin: Option<bool>,
    /// Whether Spoke answers queries for names at the gateway.
    pub names: Option<bool>,
    /// Where packets may go, by name and by address.
    pub fence: Option<Fence>,
    /// Whether that holds while the packet filter is not there, too. Without a fence nothing goes out.
    pub strict: Option<bool>,
    /// By what packets leave this host.
    pub via: Option<Via>,
    /// Whether the bridge takes every packet.
    pub promiscuous: Option<bool>,
    /// The address that ports are published on.
    pub publish_on: Option<IpAddr>,
    /// How interfaces in containers are called, before their number.
    pub prefix: Option<IfName>,
    /// The device whose segment it is.
    pub parent: Option<IfName>,
    /// The VLAN: of the parent, or of the bridge's ports.
    pub vlan: Option<VlanId>,
    /// Whether the host and the containers of a macvlan reach each other.
    pub host_access: Option<bool>,
    /// Whether the segment is asked before an address is used.
    pub probe: Option<bool>,
    /// Whether a container that returns gets the same addresses.
    pub sticky: Option<bool>,
    /// The user's labels.
    pub labels: Labels,
}

/// The link kind of containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindSpec {
    /// A bridge.
    Bridge,
    /// On a parent device, each container with a hardware address of its own.
    Macvlan(Macvlan),
    /// On a parent device, with its hardware address.
    Ipvlan(Ipvlan),
    /// Whatever the plugins of the list in this file make.
    Plugins(PathBuf),
    /// A network of Neutron.
    Neutron(Box<NeutronLink>),
    /// A segment of Open vSwitch.
    Ovs(Box<Ovs>),
}

/// Where addresses come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Spoke's store.
    #[default]
    Book,
    /// The DHCP server of the network's segment.
    Dhcp,
    /// Nowhere.
    Nothing,
    /// The cloud that owns the network.
    Cloud,
}

/// Where a network's containers send what is for elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultRoute {
    /// To the bridge, which has the gateway's address.
    Bridge,
    /// To another device on the segment, which has the gateway's address.
    Router,
    /// Nowhere by this network; the bridge has the gateway's address all the same.
    Nowhere,
    /// Nowhere, and no device has such an address.
    Segment,
}

/// The properties of a network besides its options.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Its name.
    pub name: NetworkName,
    /// The runtime that describes it.
    pub runtime: Runtime,
    /// When it was made.
    pub since: Timestamp,
    /// Where addresses come from.
    pub ipam: Ipam,
    /// Routes of its containers.
    pub routes: Vec<Route>,
}

impl NetworkSpec {
    /// The network.
    pub fn network(&self, frame: Frame, wiring: Wiring) -> Network {
        Network {
            routes: frame.routes,
            sticky: self.sticky.unwrap_or(false),
            labels: self.labels.clone(),
            ..Network::new(frame.name, frame.runtime, frame.since, wiring, frame.ipam)
        }
    }

    /// How containers are connected by a link of this kind.
    pub fn wiring(&self, kind: LinkKind, backend: Backend) -> Wiring {
        let is_pair = kind.is_pair();
        let bridge = kind.bridge().map(|bridge| bridge.name.clone());
        let reach = self.reach.filter(|reach| *reach != Reach::default());
        // On a switch it says only that no other network is made its containers' way out.
        let is_closed = self.egress == EgressPolicy::Internal && matches!(kind, LinkKind::Ovs(_));
        let firewall = Firewall {
            backend,
            ingress: self.ingress.filter(|_| is_pair).unwrap_or(IngressPolicy::Open),
            egress: self.egress,
            bridge,
            admin_chain: None,
            zone: None,
            passage: self.passage.clone().unwrap_or_default(),
        };
        let masquerades = is_pair && self.masquerades();
        let mtu = self.mtu.or_else(|| through_tunnels(&kind));
        Wiring {
            link: Some(Link { kind, name: None, mac: None, mtu }),
            masquerade: masquerades.then_some(Masquerade {
                backend,
                sources: self.sources,
                only: self.masquerade_only,
            }),
            publish: reach.map(|reach| Publish { reach, ..Publish::new(backend) }),
            names: self.names.unwrap_or(false),
            fence: self.fence(),
            via: self.via.clone(),
            address_space: self.address_space.clone(),
            firewall: (is_pair || is_closed).then_some(firewall),
            ..Wiring::default()
        }
    }

    /// Where packets may go.
    pub fn fence(&self) -> Option<Fence> {
        let strict = self.strict.unwrap_or(false);
        let fence = self.fence.clone().or_else(|| strict.then(Fence::default))?;
        Some(Fence { strict, ..fence })
    }

    /// The bridge of this name.
    pub fn bridge(&self, name: IfName, gateway: Gateway) -> LinkKind {
        LinkKind::Bridge(Bridge {
            name,
            gateway,
            force_address: false,
            hairpin: self.hairpin.unwrap_or(true),
            host_absent: self.host_absent,
            promiscuous: self.promiscuous.unwrap_or(false),
            port: BridgePort {
                vlans: Vlans { untagged: self.vlan, ..Vlans::default() },
                direct: self.direct.unwrap_or(false),
                direct_only: self.direct_only,
                ..BridgePort::default()
            },
        })
    }

    /// The macvlan of this mode.
    pub fn macvlan(&self, mode: MacvlanMode) -> Macvlan {
        Macvlan {
            parent: self.on_parent(),
            mode,
            broadcast_queue: None,
            host_access: self.host_access.unwrap_or(false),
            probe: self.probe.unwrap_or(false),
        }
    }

    /// The ipvlan of this mode.
    pub fn ipvlan(&self, mode: IpvlanMode) -> Ipvlan {
        Ipvlan { parent: self.on_parent(), mode }
    }

    fn on_parent(&self) -> Parent {
        Parent { name: self.parent.clone(), place: InterfaceNamespace::Host, vlan: self.vlan }
    }

    /// Where containers send what is for elsewhere. No device of this host has an address in a
    /// tenant's network.
    pub fn default_route(&self) -> DefaultRoute {
        if self.address_space.is_some() {
            return DefaultRoute::Segment;
        }
        self.route.unwrap_or(match self.egress {
            EgressPolicy::Open => DefaultRoute::Bridge,
            EgressPolicy::Internal => DefaultRoute::Nowhere,
        })
    }

    /// Whether some device has the gateway's address of this family.
    pub fn has_gateway(&self, family: Family) -> bool {
        self.default_route().has_gateway() && !self.host_absent.is_in(family)
    }

    /// Whether packets leave with the host's address.
    pub fn masquerades(&self) -> bool {
        let leaves = self.egress == EgressPolicy::Open && self.address_space.is_none();
        leaves && self.masquerade.unwrap_or(self.default_route() == DefaultRoute::Bridge)
    }

    /// Addresses from the segment's DHCP server.
    pub fn dhcp(&self) -> Ipam {
        Ipam::Dhcp(Dhcp {
            socket: PathBuf::from(DHCP_SOCKET),
            request: Vec::new(),
            skip: Vec::new(),
            provide: Vec::new(),
            priority: self.metric,
        })
    }
}

fn through_tunnels(kind: &LinkKind) -> Option<Mtu> {
    match kind {
        LinkKind::Ovs(ovs) if ovs.tunnel.is_some() => Mtu::new(THROUGH_VXLAN),
        _ => None,
    }
}

impl DefaultRoute {
    /// Whether some device has the gateway's address.
    pub fn has_gateway(self) -> bool {
        self != DefaultRoute::Segment
    }

    /// The bridge's role as a gateway.
    pub fn gateway(self) -> Gateway {
        match self {
            DefaultRoute::Bridge => Gateway::Default,
            DefaultRoute::Nowhere => Gateway::Address,
            DefaultRoute::Router | DefaultRoute::Segment => Gateway::None,
        }
    }
}

impl KindSpec {
    /// The driver that makes it.
    pub fn driver(&self) -> crate::Driver {
        match self {
            KindSpec::Bridge => crate::Driver::Bridge,
            KindSpec::Macvlan(_) => crate::Driver::Macvlan,
            KindSpec::Ipvlan(_) => crate::Driver::Ipvlan,
            KindSpec::Plugins(_) => crate::Driver::Chain,
            KindSpec::Neutron(_) => crate::Driver::Neutron,
            KindSpec::Ovs(_) => crate::Driver::Ovs,
        }
    }

    /// Whether its containers are on the segment of a parent device.
    pub fn is_lan(&self) -> bool {
        self.driver().is_lan()
    }

    /// Whether what makes its links decides everything else, too.
    pub fn is_external(&self) -> bool {
        matches!(self, KindSpec::Plugins(_) | KindSpec::Neutron(_))
    }
}
