//! The steps of a plan.

use std::net::IpAddr;

use model::{Family, IfName, IpNet, Mac, Mtu, Route};

use super::{Port, Single, VlanGateway};

/// One change of one namespace. Each treats "already there" and "already gone" as done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Makes a bridge, up.
    Bridge {
        /// Its name.
        name: IfName,
        /// Its hardware address, permanently.
        mac: Mac,
        /// Its MTU.
        mtu: Option<Mtu>,
    },
    /// Makes the pair that connects a container.
    Veth(Veth),
    /// Makes a device of one end.
    Single(Single),
    /// Makes a device for a program in the container.
    Tap(Tap),
    /// Moves a link into the container.
    Move {
        /// Its name in the host.
        from: IfName,
        /// Its name in the container.
        to: IfName,
        /// Whether it keeps its old name in mind, to have it again one day.
        remembers: bool,
    },
    /// Says about a third party's link whose it is by now, and what it was.
    Mark {
        /// The link.
        link: IfName,
        /// Its group.
        group: u32,
        /// Free text about it.
        alias: String,
    },
    /// Gives a link another name.
    Rename {
        /// Its name.
        from: IfName,
        /// Its new name.
        to: IfName,
    },
    /// Sets the hardware address.
    Mac(IfName, Mac),
    /// Sets the MTU.
    Mtu(IfName, Mtu),
    /// Makes the sender compute the checksums of what is sent on a link.
    Checksums(IfName),
    /// Writes free text about a link.
    Alias(IfName, String),
    /// Sets a link up.
    Up(IfName),
    /// Sets a link down.
    Down(IfName),
    /// Lets a port's bridge send packets back to where they came from.
    Hairpin(IfName),
    /// Keeps the kernel from giving a link IPv6 addresses of its own.
    NoIpv6Addresses(IfName),
    /// Sets promiscuous mode.
    Promiscuous(IfName),
    /// Adds an address, without duplicate address detection.
    Address(IfName, IpNet),
    /// Adds an IPv6 address, with duplicate address detection.
    Detected(IfName, IpNet),
    /// Waits for the end of duplicate address detection.
    Settle(IfName),
    /// Makes a bridge separate VLANs.
    FilterVlans(IfName),
    /// Sets what is particular to a port of a bridge.
    Port(Port),
    /// Makes the gateway of a VLAN.
    VlanGateway(VlanGateway),
    /// Adds a gateway's address to a bridge, marked as Spoke's.
    Gateway(IfName, IpNet),
    /// Removes an address.
    DropAddress(IfName, IpNet),
    /// Adds a route.
    Route {
        /// Through this link.
        link: IfName,
        /// Its `via` is final here.
        route: Route,
        /// The source address of packets that have none yet.
        source: Option<IpAddr>,
    },
    /// Adds a route through any link that leads to its next hop.
    RouteAnywhere(Route),
    /// Removes a route through a link.
    DropRoute(IfName, IpNet),
    /// Removes a route through this next hop.
    DropRouteAnywhere(IpNet, IpAddr),
    /// Makes the host forward packets of this family.
    Forward(Family),
    /// Writes a kernel parameter, given below `/proc/sys`, unless it has the value already. One
    /// that the kernel lacks or that cannot be written is passed over where it only improves
    /// things.
    Sysctl {
        /// For example `net/ipv4/ip_forward`.
        path: String,
        /// The value to write.
        value: &'static str,
        /// Whether it may stay as it is.
        optional: bool,
    },
}

/// A pair of devices, one end in the host and one in the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Veth {
    /// The host's end.
    pub host: IfName,
    /// Its hardware address. Without one, the kernel chooses it.
    pub host_mac: Option<Mac>,
    /// The container's end.
    pub peer: IfName,
    /// Its hardware address.
    pub peer_mac: Mac,
    /// Of both.
    pub mtu: Option<Mtu>,
    /// The bridge that the host's end is a port of.
    pub master: Option<IfName>,
    /// Whether the port sends packets back to where they came from.
    pub hairpin: bool,
    /// The owner of the host's end, where its name does not say it.
    pub alias: Option<String>,
}

/// A device whose packets a program sends and receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tap {
    /// Its name.
    pub name: IfName,
    /// Its hardware address.
    pub mac: Mac,
    /// Its MTU; the kernel's default where there is none.
    pub mtu: Option<Mtu>,
    /// Its group: whose it is.
    pub group: u32,
    /// Its settings.
    pub tap: model::Tap,
}
