//! Source and destination of a packet.

use std::fmt;
use std::net::IpAddr;

use model::{Family, IfName, IpNet, Mac, PortMap, Runtime};

use crate::port::Space;

/// An end of the way.
#[derive(Clone, Debug)]
pub enum End {
    /// A container.
    Container(Site),
    /// This host.
    Host,
    /// Beyond this host's default route.
    Outside,
    /// An address that no container has.
    Address(IpAddr),
}

impl End {
    /// The container.
    pub fn site(&self) -> Option<&Site> {
        match self {
            End::Container(site) => Some(site),
            End::Host | End::Outside | End::Address(_) => None,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Container(site) => f.write_str(&site.name),
            End::Host => f.write_str("this host"),
            End::Outside => f.write_str("outside"),
            End::Address(address) => address.fmt(f),
        }
    }
}

/// Whether a container is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its namespace is open.
    Open(Space),
    /// It has none, and why.
    Gone(String),
    /// It is a virtual machine behind this device of the host: what is inside of it cannot be seen.
    Machine(IfName),
    /// It cannot be opened, and why.
    Closed(String),
}

/// A container.
#[derive(Clone, Debug)]
pub struct Site {
    /// As it is shown.
    pub name: String,
    /// The runtime that has it.
    pub runtime: Runtime,
    /// Whether it is there.
    pub standing: Standing,
    /// The path of its namespace.
    pub path: String,
    /// Its interfaces, by the book.
    pub plugs: Vec<Plug>,
}

/// Where the host's end of an interface is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bridging {
    /// In this bridge.
    In(IfName),
    /// In none: the host routes.
    None,
    /// Where a third party put it.
    Foreign,
}

/// An interface of a container, as the book has it.
#[derive(Clone, Debug)]
pub struct Plug {
    /// Its network.
    pub network: String,
    /// What a command or its runtime calls the network, where that differs.
    pub title: Option<String>,
    /// The network's name in commands of Spoke's that are advised; `None` where it is none of Spoke's.
    pub in_commands: Option<String>,
    /// What runtimes call the network.
    pub known_as: Vec<(Runtime, String)>,
    /// Its name.
    pub interface: IfName,
    /// Its addresses, with the gateways.
    pub addresses: Vec<(IpNet, Option<IpAddr>)>,
    /// Its hardware address.
    pub mac: Option<Mac>,
    /// Where the host's end is.
    pub bridging: Bridging,
    /// How it is connected.
    pub kind: &'static str,
    /// Whether its network keeps containers from each other (`isolation=container`).
    pub is_isolated: bool,
    /// Whether its network is internal.
    pub is_internal: bool,
    /// The only way by which its network's packets leave this host, where there is one.
    pub via: Option<String>,
    /// The families in which what it sends leaves this host with an address of the host.
    pub hides: Vec<Family>,
    /// The families in which everybody reaches it by routes.
    pub direct: Vec<Family>,
    /// Its published ports.
    pub ports: Vec<PortMap>,
}

impl Plug {
    /// What people call its network.
    pub fn called(&self) -> &str {
        self.title.as_ref().unwrap_or(&self.network)
    }

    /// The first address of the family.
    pub fn address(&self, family: Family) -> Option<IpNet> {
        self.addresses.iter().map(|(net, _)| *net).find(|net| Family::of(net) == family)
    }

    /// The gateway of the family.
    pub fn gateway(&self, family: Family) -> Option<IpAddr> {
        let of = self.addresses.iter().filter(|(net, _)| Family::of(net) == family);
        of.filter_map(|(_, gateway)| *gateway).next()
    }

    /// Whether it has the address.
    pub fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(net, _)| net.addr() == address)
    }

    /// Whether the address is in one of its subnets.
    pub fn reaches(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(net, _)| net.contains(&address))
    }
}

impl Site {
    /// Its namespace, where that is open.
    pub fn space(&self) -> Option<Space> {
        match self.standing {
            Standing::Open(space) => Some(space),
            Standing::Gone(_) | Standing::Closed(_) | Standing::Machine(_) => None,
        }
    }

    /// Its device in the host, where it is a virtual machine.
    pub fn device(&self) -> Option<&IfName> {
        match &self.standing {
            Standing::Machine(device) => Some(device),
            Standing::Open(_) | Standing::Gone(_) | Standing::Closed(_) => None,
        }
    }

    /// Whether it has the address, by the book.
    pub fn has(&self, address: IpAddr) -> bool {
        self.plugs.iter().any(|plug| plug.has(address))
    }

    /// The interface that has the address, by the book.
    pub fn plug_of(&self, address: IpAddr) -> Option<&Plug> {
        self.plugs.iter().find(|plug| plug.has(address))
    }

    /// A command in its namespace.
    pub fn within(&self, command: &str) -> String {
        match self.path.strip_prefix("/run/netns/").or(self.path.strip_prefix("/var/run/netns/")) {
            Some(name) if !name.contains('/') => match command.strip_prefix("ip ") {
                Some(rest) => format!("ip -n {name} {rest}"),
                None => format!("ip netns exec {name} {command}"),
            },
            _ => format!("nsenter --net={} {command}", self.path),
        }
    }
}
