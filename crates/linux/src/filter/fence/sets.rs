//! The sets of the table, and the ranges that rules by address are in them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{EgressRule, Family as IpFamily, IfName, IpNet, Protocol};
use netlink::nft::{Between, Family, Field, Lookup, Set, Table, Tuple};

use crate::filter::ruleset::set;

/// The table.
pub(crate) const TABLE: Table<'static> = Table { family: Family::Inet, name: "spoke_fence" };
/// The version, as in `inet spoke`.
pub(super) const STAMP: &str = "fence_11";

const FROM: [&[Field]; 2] = [&[Field::Interface, Field::Ipv4], &[Field::Interface, Field::Ipv6]];
const TO: [&[Field]; 2] = [
    &[Field::Interface, Field::Ipv4, Field::Protocol, Field::Service],
    &[Field::Interface, Field::Ipv6, Field::Protocol, Field::Service],
];
const FLOW: [&[Field]; 2] = [
    &[Field::Interface, Field::Ipv4, Field::Ipv4, Field::Protocol, Field::Service],
    &[Field::Interface, Field::Ipv6, Field::Ipv6, Field::Protocol, Field::Service],
];

const fn pair(
    names: [&'static str; 2],
    keys: [&'static [Field]; 2],
    by: Lookup,
) -> [Set<'static>; 2] {
    [Set { lookup: by, ..set(names[0], keys[0]) }, Set { lookup: by, ..set(names[1], keys[1]) }]
}

pub(super) const FENCED: Set<'static> = set("fenced", &[Field::Interface]);
/// Those behind which nothing is allowed, whatever the records say.
pub(super) const SHUT: Set<'static> = set("shut", &[Field::Interface]);
pub(super) const LEARNING: Set<'static> =
    Set { lookup: Lookup::Expiring, ..set("learning", &[Field::Interface]) };
/// Those of which nothing is routed without a mark.
pub(super) const STRICT: Set<'static> = set("strict", &[Field::Interface]);
pub(super) const WITHIN: Set<'static> = set("within", &[Field::Interface, Field::Interface]);
/// The bridges that others reach by routes, by packets of these families.
pub(super) const ROUTED: Set<'static> = set("routed", &[Field::Interface, Field::Family]);
/// The bridges, and the devices whose callers reach the containers at their own addresses.
pub(super) const TRUSTED: Set<'static> = set("trusted", &[Field::Interface, Field::Interface]);
/// Of IPv4 and of IPv6, as the following.
pub(super) const SOURCES: [Set<'static>; 2] = pair(["sources4", "sources6"], FROM, Lookup::Ranges);
pub(super) const ALLOWED: [Set<'static>; 2] = pair(["allowed4", "allowed6"], TO, Lookup::Ranges);
pub(super) const HOSTS: [Set<'static>; 2] = pair(["hosts4", "hosts6"], TO, Lookup::Ranges);
pub(super) const OPENINGS: [Set<'static>; 2] =
    pair(["openings4", "openings6"], FLOW, Lookup::Expiring);
pub(super) const RECENT: [Set<'static>; 2] = pair(["recent4", "recent6"], FLOW, Lookup::Expiring);

/// Containers with rules of their own.
pub(super) const OWN: [Set<'static>; 2] = [set("own4", FROM[0]), set("own6", FROM[1])];
/// Those of them that only record what they would refuse.
pub(super) const OWN_LEARNING: [Set<'static>; 2] =
    pair(["own_learning4", "own_learning6"], FROM, Lookup::Expiring);
/// What these allow by address.
pub(super) const OWN_ALLOWED: [Set<'static>; 2] =
    pair(["own_allowed4", "own_allowed6"], FLOW, Lookup::Ranges);
pub(super) const OWN_HOSTS: [Set<'static>; 2] =
    pair(["own_hosts4", "own_hosts6"], FLOW, Lookup::Ranges);

/// All of them, in the order of `fence.nft`.
pub(super) fn all_sets() -> Vec<Set<'static>> {
    let mut all = vec![FENCED, SHUT, STRICT, LEARNING, WITHIN, ROUTED, TRUSTED];
    let own = [OWN, OWN_LEARNING, OWN_ALLOWED, OWN_HOSTS];
    for pair in [SOURCES, ALLOWED, HOSTS, OPENINGS, RECENT].into_iter().chain(own) {
        all.extend(pair);
    }
    all
}

/// Those with the ranges that a network's rules allow.
pub(super) fn range_sets() -> impl Iterator<Item = Set<'static>> {
    [ALLOWED, HOSTS].into_iter().flatten()
}

/// Of a pair of sets the one for the address.
pub(super) fn of(sets: &[Set<'static>; 2], address: IpAddr) -> &'static str {
    let [v4, v6] = sets;
    if address.is_ipv4() { v4.name } else { v6.name }
}

/// The sources behind a bridge.
pub(super) fn sources(bridge: &IfName, subnets: &[IpNet]) -> Vec<(&'static str, Between)> {
    let mut all = Vec::new();
    for net in distinct(subnets) {
        let key = |address| Tuple::new().interface(bridge).address(address);
        let (first, last) = (key(net.network()), key(net.broadcast()));
        all.push((of(&SOURCES, net.addr()), Between { first, last }));
    }
    all
}

fn distinct(subnets: &[IpNet]) -> Vec<IpNet> {
    IpNet::aggregate(&subnets.iter().map(IpNet::trunc).collect::<Vec<_>>())
}

/// What the rules allow by address.
pub(super) fn allowed(bridge: &IfName, rules: &[EgressRule]) -> Vec<(&'static str, Between)> {
    let from = Tuple::new().interface(bridge);
    by_address(&from, rules, [&ALLOWED, &HOSTS], &[IpFamily::V4, IpFamily::V6])
}

/// The same of one container's address.
pub(super) fn own_allowed(
    bridge: &IfName,
    source: IpAddr,
    rules: &[EgressRule],
) -> Vec<(&'static str, Between)> {
    let from = Tuple::new().interface(bridge).address(source);
    let family = [if source.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 }];
    by_address(&from, rules, [&OWN_ALLOWED, &OWN_HOSTS], &family)
}

fn by_address(
    from: &Tuple,
    rules: &[EgressRule],
    [all_sets, host_sets]: [&[Set<'static>; 2]; 2],
    families: &[IpFamily],
) -> Vec<(&'static str, Between)> {
    let mut all = Vec::new();
    let is_host =
        |rule: &&EgressRule| rule.net().is_some_and(|net| net.prefix_len() == net.max_prefix_len());
    let hosts: Vec<&EgressRule> = rules.iter().filter(is_host).collect();
    let every: Vec<&EgressRule> = rules.iter().collect();
    for (sets, rules) in [(all_sets, every), (host_sets, hosts)] {
        for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
            for family in families {
                let ranges = apart(&rules, protocol, *family);
                let between =
                    |range: &Block| (of(sets, range.first), range.between(from, protocol));
                all.extend(ranges.iter().map(between));
            }
        }
    }
    all
}

/// Addresses and ports that rules allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    first: IpAddr,
    last: IpAddr,
    ports: (u16, u16),
}

impl Block {
    fn between(&self, from: &Tuple, protocol: Protocol) -> Between {
        let key =
            |address, port| from.clone().address(address).protocol(protocol.number()).service(port);
        Between { first: key(self.first, self.ports.0), last: key(self.last, self.ports.1) }
    }
}

/// The same addresses and ports, each once: the kernel refuses what overlaps.
fn apart(rules: &[&EgressRule], protocol: Protocol, family: IpFamily) -> Vec<Block> {
    let nets: Vec<(u128, u128, (u16, u16))> = rules
        .iter()
        .filter(|rule| rule.service.protocol == protocol)
        .filter_map(|rule| Some((rule.net()?, (rule.service.first, rule.service.last))))
        .filter(|(net, _)| IpFamily::of(net) == family)
        .flat_map(|(net, ports)| pieces(net).map(move |(first, last)| (first, last, ports)))
        .collect();
    let most = if family == IpFamily::V4 { u128::from(u32::MAX) } else { u128::MAX };
    let mut bounds = BTreeSet::new();
    for (first, last, _) in &nets {
        bounds.insert(*first);
        // Behind the last address of all nothing begins.
        bounds.extend(last.checked_add(1).filter(|next| *next <= most));
    }
    let bounds: Vec<u128> = bounds.into_iter().collect();
    let mut all: Vec<Block> = Vec::new();
    for (place, first) in bounds.iter().enumerate() {
        let last = bounds.get(place + 1).map_or(most, |next| next - 1);
        let is_in = |(from, to, _): &&(u128, u128, (u16, u16))| from <= first && last <= *to;
        let ports = merged(nets.iter().filter(is_in).map(|(_, _, ports)| *ports).collect());
        for ports in ports {
            let (first, last) = (address(*first, family), address(last, family));
            all.push(Block { first, last, ports });
        }
    }
    all
}

/// The addresses that a rule for the subnet means ([`model::Fence::allows`]): those of the link only where it
/// names nothing else.
fn pieces(net: IpNet) -> impl Iterator<Item = (u128, u128)> {
    let (first, last) = (number(net.network()), number(net.broadcast()));
    let link = model::link_local(IpFamily::of(&net));
    let (from, to) = (number(link.network()), number(link.broadcast()));
    let is_around = first <= from && to <= last && (first, last) != (from, to);
    let pieces = match is_around {
        true => [
            from.checked_sub(1).map(|before| (first, before)),
            to.checked_add(1).map(|next| (next, last)),
        ],
        false => [Some((first, last)), None],
    };
    pieces.into_iter().flatten().filter(|(first, last)| first <= last)
}

fn merged(mut ports: Vec<(u16, u16)>) -> Vec<(u16, u16)> {
    ports.sort_unstable();
    let mut all: Vec<(u16, u16)> = Vec::new();
    for (first, last) in ports {
        match all.last_mut() {
            Some(before) if u32::from(first) <= u32::from(before.1) + 1 => {
                before.1 = before.1.max(last);
            }
            Some(_) | None => all.push((first, last)),
        }
    }
    all
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => v6.into(),
    }
}

fn address(number: u128, family: IpFamily) -> IpAddr {
    match family {
        IpFamily::V4 => IpAddr::V4(u32::try_from(number).unwrap_or(u32::MAX).into()),
        IpFamily::V6 => IpAddr::V6(number.into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_of_a_link_are_left_out() {
        let all = |text: &str| {
            let rule: EgressRule = text.parse().unwrap();
            let blocks = apart(&[&rule], Protocol::Tcp, IpFamily::V4);
            blocks.iter().map(|it| format!("{}-{}", it.first, it.last)).collect::<Vec<_>>()
        };
        let around = ["0.0.0.0-169.253.255.255", "169.255.0.0-255.255.255.255"];
        assert_eq!(all("0.0.0.0/0:80"), around);
        assert_eq!(all("169.254.169.254:80"), ["169.254.169.254-169.254.169.254"]);
        assert_eq!(all("169.254.0.0/16:80"), ["169.254.0.0-169.254.255.255"]);
    }

    proptest! {
        /// No two overlap, and together they are what the rules say.
        #[test]
        fn ranges_are_apart(
            given in proptest::collection::vec((0u32..64, 26u8..=32, 1u16..30, 0u16..9), 0..8),
        ) {
            let rules: Vec<EgressRule> = given
                .iter()
                .map(|(low, length, port, more)| {
                    let net = IpNet::new(IpAddr::V4((0xffff_ffc0 + low).into()), *length).unwrap();
                    format!("{}:{port}-{}", net.trunc(), port + more).parse().unwrap()
                })
                .collect();
            let rules: Vec<&EgressRule> = rules.iter().collect();
            let boxes = apart(&rules, Protocol::Tcp, IpFamily::V4);
            for low in 0..64u32 {
                let at = IpAddr::V4((0xffff_ffc0 + low).into());
                for port in 1..40u16 {
                    let is_in = |one: &&Block| {
                        one.first <= at && at <= one.last && one.ports.0 <= port && port <= one.ports.1
                    };
                    let wanted = rules.iter().any(|rule| {
                        rule.net().unwrap().contains(&at) && rule.service.has(Protocol::Tcp, port)
                    });
                    prop_assert_eq!(boxes.iter().filter(is_in).count(), usize::from(wanted));
                }
            }
        }
    }
}
