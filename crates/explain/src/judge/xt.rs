//! Matches and targets of iptables, as far as they are common (`linux/netfilter/xt_*.h`).

use std::net::IpAddr;

use crate::packet::{Carried, Device, Packet};
use crate::tri::Tri;

/// What a target does.
pub(super) enum Target {
    GoesOn,
    /// Bits that are cleared and then turned, as (turned, cleared); unknown ones if `None`.
    Mark(Option<(u32, u32)>),
    Untracked,
    Rejects,
    Source(Option<IpAddr>),
    Destination(Option<IpAddr>, Option<u16>),
    Unknown,
}

/// Of the target's name, revision and structure.
pub(super) fn target(name: &str, revision: u32, info: &[u8]) -> Target {
    match name {
        "LOG" | "NFLOG" | "TRACE" | "CHECKSUM" | "TCPMSS" | "CLASSIFY" | "TOS" | "DSCP" => {
            Target::GoesOn
        }
        // `struct xt_mark_tginfo2`.
        "MARK" if revision == 2 => Target::Mark(word(info, 0).zip(word(info, 4))),
        "MARK" | "CONNMARK" => Target::Mark(None),
        "NOTRACK" => Target::Untracked,
        // `XT_CT_NOTRACK`.
        "CT" if word(info, 0).is_some_and(|flags| flags & 1 != 0) => Target::Untracked,
        "CT" => Target::GoesOn,
        "REJECT" => Target::Rejects,
        "MASQUERADE" => Target::Source(None),
        "SNAT" => range(revision, info).map_or(Target::Unknown, |(to, _)| Target::Source(to)),
        "DNAT" => range(revision, info)
            .map_or(Target::Unknown, |(to, port)| Target::Destination(to, port)),
        "REDIRECT" => {
            range(0, info).map_or(Target::Unknown, |(_, port)| Target::Destination(None, port))
        }
        _ => Target::Unknown,
    }
}

/// The first address and port of a range (`struct nf_nat_ipv4_multi_range_compat`, `nf_nat_range`).
fn range(revision: u32, info: &[u8]) -> Option<(Option<IpAddr>, Option<u16>)> {
    const ADDRESSES: u32 = 1;
    const PORTS: u32 = 2;
    let (flags, address, port) = match revision {
        0 => (word(info, 4)?, IpAddr::from(part::<4>(info, 8)?), part::<2>(info, 16)?),
        _ => {
            let wide = part::<16>(info, 4)?;
            // IPv4 has the first four bytes, and nothing behind.
            let address = match wide[4..] == [0; 12] {
                true => IpAddr::from(part::<4>(info, 4)?),
                false => IpAddr::from(wide),
            };
            (word(info, 0)?, address, part::<2>(info, 36)?)
        }
    };
    let port = u16::from_be_bytes(port);
    Some(((flags & ADDRESSES != 0).then_some(address), (flags & PORTS != 0).then_some(port)))
}

/// Whether a match holds, by its name, revision and structure.
pub(super) fn matches(
    (name, revision, info): (&str, u32, &[u8]),
    packet: &Packet,
    address_type: &mut dyn FnMut(IpAddr) -> Option<u32>,
) -> Tri {
    let answer = match (name, revision) {
        ("comment", _) => Some(true),
        ("conntrack", 2 | 3) => connection(revision, info, packet),
        ("state", _) => word(info, 0).and_then(|mask| Some(mask & packet.state()? != 0)),
        ("addrtype", 1) => types(info, packet, address_type),
        ("tcp", _) => match packet.carried {
            Carried::Tcp(_) => return tcp(info, packet),
            _ => Some(false),
        },
        ("udp", _) => match packet.carried {
            Carried::Udp(_) => return ports(info, *info.get(8).unwrap_or(&0), packet),
            _ => Some(false),
        },
        ("multiport", 1) => return several(info, packet),
        ("mark", 1) => match (packet.mark, word(info, 0), word(info, 4)) {
            (Some(mark), Some(wanted), Some(mask)) => {
                Some((mark & mask == wanted) != (info.get(8) == Some(&1)))
            }
            _ => None,
        },
        ("devgroup", 0) => groups(info, packet),
        ("icmp" | "icmp6", _) => echo(info, packet),
        _ => None,
    };
    Tri::from(answer)
}

/// `struct xt_devgroup_info`: whether the packet comes in, and goes out, by interfaces of these groups.
fn groups(info: &[u8], packet: &Packet) -> Option<bool> {
    const INVERTED: u32 = 2;
    let flags = word(info, 0)?;
    let holds = |flag: u32, device: &Option<Device>, at: usize| {
        let (group, mask) = (word(info, at)?, word(info, at + 4)?);
        let is = device.as_ref()?.group & mask == group;
        Some(is != (flags & (flag * INVERTED) != 0))
    };
    let asked = [(1, &packet.input, 4), (4, &packet.output, 12)];
    let mut asked = asked.into_iter().filter(|(flag, ..)| flags & flag != 0);
    asked.try_fold(true, |all, (flag, device, at)| Some(holds(flag, device, at)? && all))
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    part(bytes, at).map(u32::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    part(bytes, at).map(u16::from_ne_bytes)
}

/// `struct xt_conntrack_mtinfo2` and `3`; `None` where it asks for more than state and status.
fn connection(revision: u32, info: &[u8], packet: &Packet) -> Option<bool> {
    const STATE: u16 = 1;
    const DESTINATION: u16 = 1 << 3;
    const STATUS: u16 = 1 << 6;
    const DESTINATION_PORT: u16 = 1 << 9;
    // It was written as `-m state`, which is the same match (`XT_CONNTRACK_STATE_ALIAS`).
    const ALIAS: u16 = 1 << 13;
    let (flags, inverted) = (half(info, 146)?, half(info, 148)?);
    let (states, statuses) = (half(info, 150)?, half(info, 152)?);
    if flags & !(STATE | STATUS | DESTINATION | DESTINATION_PORT | ALIAS) != 0 {
        return None;
    }
    let holds = |flag: u16, is: bool| flags & flag == 0 || is != (inverted & flag != 0);
    // Translated connections have a bit each among the states (`XT_CONNTRACK_STATE_*`).
    let translated = (u16::from(packet.is_snat) << 6) | (u16::from(packet.is_dnat) << 7);
    let state = match packet.is_untracked {
        Tri::Yes => 1 << 8,
        Tri::No | Tri::Unknown => u16::try_from(packet.state()?).ok()? | translated,
    };
    let status = u16::try_from(packet.status()).ok()?;
    // The first address is the source's, with its mask; the destination's follow.
    let destination = masked(info, (32, 48), packet.original.destination)?;
    let within = |port: u16| Some(half(info, 140)? <= port && port <= half(info, 156)?);
    let port = packet.original.port.filter(|_| revision == 3).and_then(within);
    if flags & DESTINATION_PORT != 0 && port.is_none() {
        return None;
    }
    Some(
        holds(STATE, state & states != 0)
            && holds(STATUS, status & statuses != 0)
            && holds(DESTINATION, destination)
            && holds(DESTINATION_PORT, port.unwrap_or(false)),
    )
}

fn masked(info: &[u8], (value, mask): (usize, usize), address: IpAddr) -> Option<bool> {
    let octets = match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let value = info.get(value..value + octets.len())?;
    let mask = info.get(mask..mask + octets.len())?;
    Some(octets.iter().zip(value).zip(mask).all(|((octet, value), mask)| octet & mask == *value))
}

/// `struct xt_addrtype_info_v1`.
fn types(info: &[u8], packet: &Packet, ask: &mut dyn FnMut(IpAddr) -> Option<u32>) -> Option<bool> {
    const NOT_SOURCE: u32 = 1;
    const NOT_DESTINATION: u32 = 2;
    let (source, destination, flags) = (half(info, 0)?, half(info, 2)?, word(info, 4)?);
    if flags & !(NOT_SOURCE | NOT_DESTINATION) != 0 {
        return None;
    }
    let mut holds = |wanted: u16, address: IpAddr, not: u32| {
        if wanted == 0 {
            return Some(true);
        }
        let is = wanted & 1 << ask(address)? != 0;
        Some(is != (flags & not != 0))
    };
    let from = holds(source, packet.source, NOT_SOURCE)?;
    let to = holds(destination, packet.destination, NOT_DESTINATION)?;
    Some(from && to)
}

/// `struct xt_tcp`.
fn tcp(info: &[u8], packet: &Packet) -> Tri {
    let [option, mask, wanted, inverted] = part(info, 8).unwrap_or_default();
    const NOT_FLAGS: u8 = 4;
    let flags = if packet.is_reply { 0x12 } else { 0x02 };
    let is = Tri::from(flags & mask == wanted).flipped(inverted & NOT_FLAGS != 0);
    let option = if option == 0 { Tri::Yes } else { Tri::Unknown };
    ports(info, inverted, packet).and(is).and(option)
}

/// The ranges at the beginning of `struct xt_tcp` and `struct xt_udp`.
fn ports(info: &[u8], inverted: u8, packet: &Packet) -> Tri {
    let within = |at: usize, port: Option<u16>, not: u8| {
        let (Some(low), Some(high)) = (half(info, at), half(info, at + 2)) else {
            return Tri::Unknown;
        };
        if (low, high) == (0, u16::MAX) {
            return Tri::Yes;
        }
        Tri::from(port.map(|port| low <= port && port <= high)).flipped(inverted & not != 0)
    };
    within(0, packet.from_port(), 1).and(within(4, packet.to_port(), 2))
}

/// `struct xt_multiport_v1`.
fn several(info: &[u8], packet: &Packet) -> Tri {
    let (Some(flags), Some(count)) = (info.first(), info.get(1)) else { return Tri::Unknown };
    let inverted = info.get(47) == Some(&1);
    let all = |port: u16| {
        let mut at = 0;
        while at < usize::from(*count) {
            let low = half(info, 2 + 2 * at)?;
            let is_range = info.get(32 + at) == Some(&1);
            let high = if is_range { half(info, 4 + 2 * at)? } else { low };
            if low <= port && port <= high {
                return Some(true);
            }
            at += if is_range { 2 } else { 1 };
        }
        Some(false)
    };
    let port = match flags {
        0 => packet.from_port(),
        1 => packet.to_port(),
        _ => None,
    };
    Tri::from(port.and_then(all)).flipped(inverted)
}

/// `struct ipt_icmp` and `struct ip6t_icmp`.
fn echo(info: &[u8], packet: &Packet) -> Option<bool> {
    if !matches!(packet.carried, Carried::Echo | Carried::Neighbour) {
        return Some(false);
    }
    let there = packet.transport_header().first().copied().flatten()?;
    let [kind, low, high, inverted] = part(info, 0)?;
    let is = kind == u8::MAX || (kind == there && low == 0);
    let _ = high;
    Some(is != (inverted & 1 != 0))
}
