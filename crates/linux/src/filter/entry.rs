//! One element of the table, as what it means.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::{IfName, Protocol};
use netlink::nft::{Comment, Element, Set, Tuple};

use super::ruleset::{
    APART, AT_LOOPBACK, DNAT_ANY, DNAT_HOST, GUARDED, HAIRPIN, HOME, ISOLATED, LAN_ONLY,
    LOCAL_ONLY, MASQUERADE, MASQUERADE_ALL, OWNED, ROUTED, SERVED, SOURCE, SWITCHED,
};

/// An entry about a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entry {
    /// A port of the host leads to the container.
    Port {
        /// Only on this address of the host.
        host: Option<IpAddr>,
        /// Of the transport.
        protocol: Protocol,
        /// On the host; never zero.
        host_port: u16,
        /// The container's address.
        to: IpAddr,
        /// In the container.
        to_port: u16,
    },
    /// Clients behind the same interface appear as the host to the container's published ports.
    Hairpin(IfName, IpAddr),
    /// All clients do.
    MasqueradeAll(IpAddr),
    /// Packets of the container through this interface keep their source.
    Home(IfName, IpAddr),
    /// The container has an interface of the host to itself: what it sends to others that have
    /// one keeps its source.
    Routed(IpAddr),
    /// Other packets of the container get the host's source address.
    Masquerade(IpAddr),
    /// Other packets of the first address, the container's, get the second one, the host's, as
    /// source.
    Source(IpAddr, IpAddr),
    /// Behind this interface, and not reached from other ones with a policy.
    Guarded(IfName, IpAddr),
    /// Behind this interface, and not reached from any with a policy.
    Isolated(IfName, IpAddr),
    /// Others do not reach it, or only its published ports: no other interface leads to its address.
    Apart(IpAddr),
    /// Its published ports are reached from the host's connected subnets only.
    LanOnly(IpAddr),
    /// Its published ports are reached from this host and its containers only.
    LocalOnly(IpAddr),
    /// Behind this bridge, in a VLAN whose gateway is another interface.
    Switched(IfName, IpAddr),
    /// The container's port is published, and trusted clients reach it at its own address.
    Served(IpAddr, Protocol, u16),
    /// Behind this interface, with a port at the host's loopback addresses.
    AtLoopback(IfName, Ipv4Addr),
}

impl Entry {
    /// The set, and the element in it.
    pub(super) fn element(&self, comment: &Comment) -> (&'static str, Element) {
        let set = self.set();
        let element = Element {
            key: self.key(),
            data: self.data(),
            counter: self.counter(),
            comment: Some(comment.clone()),
        };
        (set.name, element)
    }

    fn set(&self) -> Set<'static> {
        let (sets, address) = match self {
            Entry::Port { host: Some(_), to, .. } => (DNAT_HOST, to),
            Entry::Port { host: None, to, .. } => (DNAT_ANY, to),
            Entry::Hairpin(_, address) => (HAIRPIN, address),
            Entry::MasqueradeAll(address) => (MASQUERADE_ALL, address),
            Entry::Home(_, address) => (HOME, address),
            Entry::Routed(address) => (ROUTED, address),
            Entry::Masquerade(address) => (MASQUERADE, address),
            Entry::Source(address, _) => (SOURCE, address),
            Entry::Guarded(_, address) => (GUARDED, address),
            Entry::Isolated(_, address) => (ISOLATED, address),
            Entry::Apart(address) => (APART, address),
            Entry::LanOnly(address) => (LAN_ONLY, address),
            Entry::LocalOnly(address) => (LOCAL_ONLY, address),
            Entry::Switched(_, address) => (SWITCHED, address),
            Entry::Served(address, ..) => (SERVED, address),
            Entry::AtLoopback(..) => return AT_LOOPBACK,
        };
        let [v4, v6] = sets;
        if address.is_ipv4() { v4 } else { v6 }
    }

    fn key(&self) -> Tuple {
        match self {
            Entry::Port { host, protocol, host_port, .. } => {
                let key = host.map_or_else(Tuple::new, |host| Tuple::new().address(host));
                key.protocol(protocol.number()).service(*host_port)
            }
            Entry::Hairpin(interface, address)
            | Entry::Home(interface, address)
            | Entry::Guarded(interface, address)
            | Entry::Isolated(interface, address)
            | Entry::Switched(interface, address) => {
                Tuple::new().interface(interface).address(*address)
            }
            Entry::AtLoopback(interface, address) => {
                Tuple::new().interface(interface).address((*address).into())
            }
            Entry::MasqueradeAll(address)
            | Entry::Routed(address)
            | Entry::Masquerade(address)
            | Entry::Source(address, _)
            | Entry::Apart(address)
            | Entry::LanOnly(address)
            | Entry::LocalOnly(address) => Tuple::new().address(*address),
            Entry::Served(address, protocol, port) => {
                Tuple::new().address(*address).protocol(protocol.number()).service(*port)
            }
        }
    }

    fn data(&self) -> Option<Tuple> {
        match self {
            Entry::Port { to, to_port, .. } => Some(Tuple::new().address(*to).service(*to_port)),
            Entry::Source(_, host) => Some(Tuple::new().address(*host)),
            _ => None,
        }
    }

    /// The counter that the element leads to.
    pub(super) fn counter(&self) -> Option<String> {
        match self {
            Entry::AtLoopback(interface, _) => Some(counter_of(interface)),
            _ => None,
        }
    }

    /// The container's address.
    pub fn address(&self) -> IpAddr {
        match self {
            Entry::Port { to, .. } => *to,
            Entry::Hairpin(_, address)
            | Entry::MasqueradeAll(address)
            | Entry::Home(_, address)
            | Entry::Routed(address)
            | Entry::Masquerade(address)
            | Entry::Source(address, _)
            | Entry::Served(address, ..)
            | Entry::Apart(address)
            | Entry::LanOnly(address)
            | Entry::LocalOnly(address)
            | Entry::Guarded(_, address)
            | Entry::Isolated(_, address)
            | Entry::Switched(_, address) => *address,
            Entry::AtLoopback(_, address) => (*address).into(),
        }
    }

    /// Whether both are the same port of the host, in the same address family.
    pub(super) fn is_same_port(&self, other: &Self) -> bool {
        let is_port = |entry: &Self| matches!(entry, Entry::Port { .. });
        is_port(self) && is_port(other) && self.set() == other.set() && self.key() == other.key()
    }

    /// The interface that must be known as one with a policy.
    pub(super) fn policed(&self) -> Option<&IfName> {
        match self {
            Entry::Guarded(interface, _) | Entry::Isolated(interface, _) => Some(interface),
            _ => None,
        }
    }

    /// The meaning of an element of `set`; `None` if this program would not have written it.
    pub(super) fn read(set: &Set<'_>, element: &Element) -> Option<Self> {
        let key = element.key.fields(set.key)?;
        if *set == AT_LOOPBACK {
            let address = <[u8; 4]>::try_from(*key.get(1)?).ok()?;
            return Some(Entry::AtLoopback(interface(key.first()?)?, address.into()));
        }
        let family = OWNED.iter().find(|pair| pair.iter().any(|one| one.name == set.name))?;
        match <[Set<'_>; 2]>::try_from(*family).ok()? {
            DNAT_HOST => {
                let [host, rest @ ..] = key.as_slice() else { return None };
                Self::read_port(set, Some(address(host)?), rest, element)
            }
            DNAT_ANY => Self::read_port(set, None, &key, element),
            MASQUERADE_ALL => Some(Entry::MasqueradeAll(address(key.first()?)?)),
            ROUTED => Some(Entry::Routed(address(key.first()?)?)),
            MASQUERADE => Some(Entry::Masquerade(address(key.first()?)?)),
            SOURCE => {
                let data = element.data.as_ref()?.fields(set.data)?;
                Some(Entry::Source(address(key.first()?)?, address(data.first()?)?))
            }
            SERVED => {
                let [served, number, service] = key.as_slice() else { return None };
                Some(Entry::Served(address(served)?, protocol(number)?, port(service)?))
            }
            APART => Some(Entry::Apart(address(key.first()?)?)),
            LAN_ONLY => Some(Entry::LanOnly(address(key.first()?)?)),
            LOCAL_ONLY => Some(Entry::LocalOnly(address(key.first()?)?)),
            pair => {
                let made: fn(IfName, IpAddr) -> Entry = match pair {
                    HAIRPIN => Entry::Hairpin,
                    HOME => Entry::Home,
                    GUARDED => Entry::Guarded,
                    SWITCHED => Entry::Switched,
                    _ => Entry::Isolated,
                };
                Some(made(interface(key.first()?)?, address(key.get(1)?)?))
            }
        }
    }

    fn read_port(
        set: &Set<'_>,
        host: Option<IpAddr>,
        key: &[&[u8]],
        element: &Element,
    ) -> Option<Self> {
        let [number, host_port] = key else { return None };
        let data = element.data.as_ref()?.fields(set.data)?;
        Some(Entry::Port {
            host,
            protocol: protocol(number)?,
            host_port: port(host_port)?,
            to: address(data.first()?)?,
            to_port: port(data.get(1)?)?,
        })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entry::Port { host, protocol, host_port, to, to_port } => {
                write!(f, "port {host_port}/{protocol}")?;
                if let Some(host) = host {
                    write!(f, " of {host}")?;
                }
                write!(f, " to port {to_port} of {to}")
            }
            Entry::Hairpin(interface, address) => {
                write!(f, "published ports of {address} for its neighbours behind {interface}")
            }
            Entry::MasqueradeAll(address) => write!(f, "masquerading of all clients of {address}"),
            Entry::Home(interface, address) => write!(f, "{address} at home behind {interface}"),
            Entry::Routed(address) => write!(f, "{address} as routed"),
            Entry::Masquerade(address) => write!(f, "masquerading of {address}"),
            Entry::Source(address, host) => write!(f, "masquerading of {address} as {host}"),
            Entry::Served(address, protocol, port) => {
                write!(f, "port {port}/{protocol} of {address} for trusted interfaces")
            }
            Entry::Guarded(interface, address) => {
                write!(f, "ingress policy same-bridge of {address} behind {interface}")
            }
            Entry::Isolated(interface, address) => {
                write!(f, "ingress policy isolated of {address} behind {interface}")
            }
            Entry::Apart(address) => write!(f, "{address} as one of this interface alone"),
            Entry::LanOnly(address) => write!(f, "published ports of {address} for the LAN only"),
            Entry::LocalOnly(address) => {
                write!(f, "published ports of {address} for this host only")
            }
            Entry::Switched(bridge, address) => write!(f, "{address} in a VLAN of {bridge}"),
            Entry::AtLoopback(interface, address) => {
                write!(f, "ports of {address} behind {interface} at the loopback addresses")
            }
        }
    }
}

/// The name of an interface's counter. nft(8) reads names of letters, digits and a few others, and
/// must read again what it showed: any other byte is `/` and its number.
pub(super) fn counter_of(interface: &IfName) -> String {
    let mut name = "via/".to_owned();
    for byte in interface.as_str().bytes() {
        match byte {
            b'-' | b'_' | b'.' => name.push(char::from(byte)),
            plain if plain.is_ascii_alphanumeric() => name.push(char::from(plain)),
            other => name.push_str(&format!("/{other:02x}")),
        }
    }
    name
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(v4).into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|v6| Ipv6Addr::from(v6).into())
}

fn protocol(bytes: &[u8]) -> Option<Protocol> {
    let [number] = bytes else { return None };
    let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    protocols.into_iter().find(|known| known.number() == *number)
}

fn port(bytes: &[u8]) -> Option<u16> {
    bytes.try_into().ok().map(u16::from_be_bytes)
}

pub(super) fn interface(bytes: &[u8]) -> Option<IfName> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(bytes.get(..end)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_read_again() {
        let comment: Comment = "owner".parse().unwrap();
        for address in ["10.1.0.2", "fd00:1::2"] {
            let address: IpAddr = address.parse().unwrap();
            for entry in every(address) {
                let (name, element) = entry.element(&comment);
                let set = OWNED.into_iter().flatten().find(|set| set.name == name).unwrap();
                assert_eq!(Entry::read(set, &element), Some(entry));
            }
        }
    }

    fn every(address: IpAddr) -> Vec<Entry> {
        let bridge: IfName = "fifteen-bytes-x".parse().unwrap();
        let port = |host| Entry::Port {
            host,
            protocol: Protocol::Sctp,
            host_port: 8080,
            to: address,
            to_port: 80,
        };
        vec![
            port(None),
            port(Some(address)),
            Entry::Hairpin(bridge.clone(), address),
            Entry::MasqueradeAll(address),
            Entry::Home(bridge.clone(), address),
            Entry::Routed(address),
            Entry::Masquerade(address),
            Entry::Guarded(bridge.clone(), address),
            Entry::Isolated(bridge.clone(), address),
            Entry::Switched(bridge, address),
            Entry::LanOnly(address),
            Entry::LocalOnly(address),
            Entry::Source(address, address),
            Entry::Served(address, Protocol::Udp, 53),
            Entry::AtLoopback("a+b\"é".parse().unwrap(), [10, 1, 0, 2].into()),
        ]
    }
}
