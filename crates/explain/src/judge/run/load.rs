//! Steps that load, change and compare registers.

use std::net::IpAddr;

use netlink::nft::{Header, Register32, Step};
use netlink::{RouteLookup, Routed};

use super::{Registers, bytes, store};
use crate::packet::{Carried, Device, Packet};
use crate::port::{Kernel, Space};
use crate::tri::Tri;

/// `NFT_META_*`.
mod meta {
    pub(super) const PROTOCOL: u32 = 1;
    pub(super) const MARK: u32 = 3;
    pub(super) const INPUT: u32 = 4;
    pub(super) const OUTPUT: u32 = 5;
    pub(super) const INPUT_NAME: u32 = 6;
    pub(super) const OUTPUT_NAME: u32 = 7;
    pub(super) const INPUT_TYPE: u32 = 8;
    pub(super) const FAMILY: u32 = 15;
    pub(super) const CARRIED: u32 = 16;
    pub(super) const PACKET_TYPE: u32 = 19;
    pub(super) const INPUT_GROUP: u32 = 21;
    pub(super) const OUTPUT_GROUP: u32 = 22;
    pub(super) const SECURED: u32 = 25;
    pub(super) const INPUT_KIND: u32 = 26;
    pub(super) const OUTPUT_KIND: u32 = 27;
}

/// `NFT_CT_*`.
mod ct {
    pub(super) const STATE: u32 = 0;
    pub(super) const DIRECTION: u32 = 1;
    pub(super) const STATUS: u32 = 2;
    pub(super) const MARK: u32 = 3;
    pub(super) const SOURCE: u32 = 8;
    pub(super) const DESTINATION: u32 = 9;
    pub(super) const CARRIED: u32 = 10;
    pub(super) const DESTINATION_PORT: u32 = 12;
}

/// `NFTA_FIB_F_*` and `NFT_FIB_RESULT_*`.
const OF_SOURCE: u32 = 1;
const WITH_INPUT: u32 = 8;
const WITH_OUTPUT: u32 = 16;
const PRESENT: u32 = 32;
const LINK: u32 = 1;
const KIND: u32 = 3;

/// What is loaded: known bytes, nothing (the rule does not match), or not known.
enum Loaded {
    Bytes(Vec<Option<u8>>),
    Nothing,
    Unknown,
}

impl From<Vec<u8>> for Loaded {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into_iter().map(Some).collect())
    }
}

/// Carries out a step; whether the rule goes on.
pub(super) fn load(
    step: &Step,
    packet: &Packet,
    registers: &mut Registers,
    (kernel, space): (&mut dyn Kernel, Space),
) -> Tri {
    match step {
        Step::Meta(key, into) => put(registers, *into, 16, of_meta(*key, packet)),
        Step::Conntrack(key, direction, into) => {
            put(registers, *into, 16, of_connection(*key, *direction, packet))
        }
        Step::Payload { base, offset, length, into } => {
            put(registers, *into, *length, of_header(*base, (*offset, *length), packet))
        }
        Step::Fib { result, flags, into } => {
            put(registers, *into, 4, of_fib((*result, *flags), packet, kernel, space))
        }
        Step::Constant(into, value) => {
            store(registers, *into, value);
            Tri::Yes
        }
        Step::Bitwise { from, into, mask, xor } => {
            bitwise(registers, (*from, *into), mask, xor);
            Tri::Yes
        }
        Step::Turned(at) => {
            if let Some(Some(word)) = registers.get_mut(at.0) {
                *word = u32::from_ne_bytes(*word).to_be_bytes();
            }
            Tri::Yes
        }
        Step::Compare(at, operator, value) => compare(registers, *at, *operator, value),
        Step::Range(at, from, to, outside) => {
            let there = bytes(registers, *at, from.len());
            Tri::from(there.map(|there| *from <= there && there <= *to)).flipped(*outside)
        }
        _ => Tri::Yes,
    }
}

fn put(registers: &mut Registers, into: Register32, most: usize, loaded: Loaded) -> Tri {
    match loaded {
        Loaded::Nothing => Tri::No,
        Loaded::Unknown => {
            for register in registers.iter_mut().skip(into.0).take(most.div_ceil(4)) {
                *register = None;
            }
            Tri::Yes
        }
        Loaded::Bytes(found) => {
            for (number, chunk) in found.chunks(4).enumerate() {
                let known: Option<Vec<u8>> = chunk.iter().copied().collect();
                let at = Register32(into.0 + number);
                match known {
                    Some(known) => store(registers, at, &known),
                    None => {
                        if let Some(register) = registers.get_mut(at.0) {
                            *register = None;
                        }
                    }
                }
            }
            Tri::Yes
        }
    }
}

fn bitwise(
    registers: &mut Registers,
    (from, into): (Register32, Register32),
    mask: &[u8],
    xor: &[u8],
) {
    let there = bytes(registers, from, mask.len());
    let changed = there.map(|there| -> Vec<u8> {
        let masked = there.iter().zip(mask).map(|(byte, mask)| byte & mask);
        masked.zip(xor).map(|(byte, xor)| byte ^ xor).collect()
    });
    match changed {
        Some(changed) => store(registers, into, &changed),
        None => {
            put(registers, into, mask.len(), Loaded::Unknown);
        }
    }
}

/// `NFT_CMP_*`.
fn compare(registers: &Registers, at: Register32, operator: u32, value: &[u8]) -> Tri {
    let Some(there) = bytes(registers, at, value.len()) else { return Tri::Unknown };
    let order = there.as_slice().cmp(value);
    Tri::from(match operator {
        0 => order.is_eq(),
        1 => order.is_ne(),
        2 => order.is_lt(),
        3 => order.is_le(),
        4 => order.is_gt(),
        5 => order.is_ge(),
        _ => return Tri::Unknown,
    })
}

/// As the kernel writes names: 16 bytes.
fn text(name: &str) -> Loaded {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(16, 0);
    bytes.into()
}

fn of_meta(key: u32, packet: &Packet) -> Loaded {
    let number = |number: u32| Loaded::from(number.to_ne_bytes().to_vec());
    let name = |device: &Option<Device>| text(device.as_ref().map_or("", |it| &it.name));
    let index = |device: &Option<Device>| number(device.as_ref().map_or(0, |it| it.index));
    let group = |device: &Option<Device>| match device {
        Some(device) => number(device.group),
        None => Loaded::Nothing,
    };
    let kind = |device: &Option<Device>| {
        device.as_ref().and_then(|it| it.kind.as_deref()).map_or(Loaded::Nothing, text)
    };
    match key {
        meta::PROTOCOL => packet.ether_type().to_vec().into(),
        meta::MARK => packet.mark.map_or(Loaded::Unknown, number),
        meta::INPUT => index(&packet.input),
        meta::OUTPUT => index(&packet.output),
        meta::INPUT_NAME => name(&packet.input),
        meta::OUTPUT_NAME => name(&packet.output),
        meta::INPUT_TYPE => packet.input.as_ref().map_or(Loaded::Nothing, link_type),
        meta::FAMILY if packet.carried == Carried::Arp => vec![3].into(),
        meta::FAMILY => vec![if packet.destination.is_ipv4() { 2 } else { 10 }].into(),
        meta::CARRIED if packet.carried == Carried::Arp => Loaded::Nothing,
        meta::CARRIED => vec![packet.protocol()].into(),
        meta::INPUT_GROUP => group(&packet.input),
        meta::OUTPUT_GROUP => group(&packet.output),
        // `PACKET_OTHERHOST` and `PACKET_HOST`: what is followed has one receiver.
        meta::PACKET_TYPE => vec![if packet.is_switched { 3 } else { 0 }].into(),
        meta::SECURED => vec![0].into(),
        meta::INPUT_KIND => kind(&packet.input),
        meta::OUTPUT_KIND => kind(&packet.output),
        _ => Loaded::Unknown,
    }
}

/// `ARPHRD_*`: whether it is Ethernet is known by its address.
fn link_type(device: &Device) -> Loaded {
    const ETHERNET: u16 = 1;
    const NONE: u16 = 0xfffe;
    let is_ethernet = device.mac.is_some_and(|mac| mac.octets() != [0; 6]);
    (if is_ethernet { ETHERNET } else { NONE }).to_ne_bytes().to_vec().into()
}

fn of_connection(key: u32, direction: Option<u8>, packet: &Packet) -> Loaded {
    let number = |number: u32| Loaded::from(number.to_ne_bytes().to_vec());
    let octets = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let port = packet.original.port.map(|port| port.to_be_bytes().to_vec());
    match (key, direction) {
        (ct::STATE, _) => packet.state().map_or(Loaded::Unknown, number),
        (ct::STATUS, _) => number(packet.status()),
        (ct::MARK, _) => packet.mark.map_or(Loaded::Unknown, |_| number(packet.connection_mark)),
        (ct::DIRECTION, _) => vec![u8::from(packet.is_reply)].into(),
        (ct::CARRIED, _) => vec![packet.protocol()].into(),
        (ct::SOURCE, Some(0)) => octets(packet.original.source).into(),
        (ct::DESTINATION, Some(0)) => octets(packet.original.destination).into(),
        (ct::DESTINATION_PORT, Some(0)) => port.map_or(Loaded::Unknown, Loaded::from),
        _ => Loaded::Unknown,
    }
}

fn of_header(base: Header, (offset, length): (usize, usize), packet: &Packet) -> Loaded {
    let header = match base {
        Header::Link => packet.link_header(),
        Header::Network => packet.network_header(),
        Header::Transport => packet.transport_header(),
        Header::Other => return Loaded::Unknown,
    };
    match header.get(offset..offset.saturating_add(length)) {
        Some(bytes) => Loaded::Bytes(bytes.to_vec()),
        None => Loaded::Unknown,
    }
}

/// `RTN_*` of an address; `None` if it is not known.
pub(super) fn address_type(kernel: &mut dyn Kernel, space: Space, address: IpAddr) -> Option<u32> {
    const UNICAST: u32 = 1;
    const LOCAL: u32 = 2;
    const BROADCAST: u32 = 3;
    const MULTICAST: u32 = 5;
    if address.is_multicast() {
        return Some(MULTICAST);
    }
    match kernel.way(space, &Routed::new(address)).ok()? {
        RouteLookup::Local => Some(LOCAL),
        RouteLookup::Many => Some(BROADCAST),
        // What there is no way to is unicast too, as the kernel says it (`inet_addr_type`).
        RouteLookup::Out { .. } | RouteLookup::Nowhere(_) => Some(UNICAST),
    }
}

fn of_fib(
    (result, flags): (u32, u32),
    packet: &Packet,
    kernel: &mut dyn Kernel,
    space: Space,
) -> Loaded {
    let address = if flags & OF_SOURCE != 0 { packet.source } else { packet.destination };
    let input = packet.input.as_ref().map(|device| device.index);
    let number = |number: u32| Loaded::from(number.to_ne_bytes().to_vec());
    match result {
        KIND if flags & (WITH_INPUT | WITH_OUTPUT) == 0 => {
            address_type(kernel, space, address).map_or(Loaded::Unknown, number)
        }
        KIND if flags & WITH_INPUT != 0 => match kernel.owner(space, address) {
            Ok(owner) if owner.is_some() && owner == input => number(2),
            Ok(Some(_)) => number(1),
            _ => Loaded::Unknown,
        },
        LINK if flags & WITH_INPUT != 0 => {
            let way = kernel.way(space, &Routed::new(address));
            let back = match way {
                Ok(RouteLookup::Out { link, .. }) if Some(link) == input => link,
                Ok(_) => 0,
                Err(_) => return Loaded::Unknown,
            };
            match flags & PRESENT != 0 {
                true => vec![u8::from(back != 0)].into(),
                false => number(back),
            }
        }
        _ => Loaded::Unknown,
    }
}
