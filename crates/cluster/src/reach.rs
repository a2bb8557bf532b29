//! Where the addresses of a network are, as one of its hosts has to know it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::{HostName, IpNet, Mac, NamedElsewhere, NetworkName, SharedEndpoint, SharedNetwork};

use crate::View;
use crate::record::Revision;

/// A host has no more addresses of one network than this; the others are not used.
const MOST: usize = 16 << 10;

/// Where a network's addresses are on other hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// The hardware address of each, and the address of its host.
    pub endpoints: BTreeMap<IpAddr, (Mac, IpAddr)>,
    /// What their containers are called, where the network has names.
    pub names: Vec<NamedElsewhere>,
    /// What other hosts say that cannot be so, in sentences.
    pub refused: Vec<String>,
}

impl View {
    /// The addresses of a network on hosts other than `me` that are not in `gone`. A host may have
    /// addresses in its own block only, and no hardware address that this or another host has.
    /// `default` is the hardware address that the holder of an address has where no container chose another one.
    /// Of those in `isolated` only their own addresses are, by which they are asked whether they answer.
    pub fn reached(
        &self,
        name: &NetworkName,
        me: &HostName,
        (gone, isolated): (&BTreeSet<HostName>, &BTreeSet<HostName>),
        default: impl Fn(&NetworkName, IpAddr) -> Mac,
    ) -> Reached {
        let mut reached = Reached::default();
        let Some(network) = self.networks.get(name) else { return reached };
        let own = self.hosts.get(me).map(|me| me.address);
        let mut claims = Vec::new();
        for (host, member) in &self.hosts {
            if host == me || gone.contains(host) || !self.is_on(network, host) {
                continue;
            }
            if Some(member.address) == own || !is_host(member.address) {
                let what = format!("host {host} has the address {}", member.address);
                reached.refused.push(format!("{what}, which no other host can have"));
                continue;
            }
            if let Some(own) = own.filter(|own| !is_of_family(member.address, *own)) {
                reached.refused.push(of_other_family((host, member.address), own));
                continue;
            }
            let (of, is_isolated) = ((name, host, member.address), isolated.contains(host));
            self.claims_of(network, of, is_isolated, (&mut claims, &mut reached.refused));
        }
        let mine = self.endpoints.iter().filter(|((host, of, _), _)| host == me && of == name);
        let mine = mine.map(|(_, (it, _))| it.mac).collect();
        let is_default = |claim: &Claim<'_>| default(name, claim.address) == claim.it.mac;
        let holders = holders((me, mine), &claims, is_default);
        reached.take((name, network), &claims, &holders);
        reached
    }

    /// Where the blocks of a network are on hosts other than `me` that are neither in `gone` nor in `isolated`, and
    /// addresses of `endpoints` that are elsewhere than their block: by the addresses of the hosts.
    pub fn routed(
        &self,
        name: &NetworkName,
        me: &HostName,
        (gone, isolated): (&BTreeSet<HostName>, &BTreeSet<HostName>),
        endpoints: &BTreeMap<IpAddr, (Mac, IpAddr)>,
    ) -> BTreeMap<IpNet, IpAddr> {
        let mut nets = BTreeMap::new();
        let Some(network) = self.networks.get(name) else { return nets };
        let own = self.hosts.get(me).map(|me| me.address);
        for (host, member) in &self.hosts {
            let is_left_out = host == me || gone.contains(host) || isolated.contains(host);
            let is_elsewhere = Some(member.address) != own
                && is_host(member.address)
                && own.is_none_or(|own| is_of_family(member.address, own));
            if is_left_out || !is_elsewhere || !self.is_on(network, host) {
                continue;
            }
            for block in self.blocks_of(name, host) {
                nets.extend(network.parts(&block).map(|net| (net, member.address)));
            }
        }
        let is_in_block = |address: IpAddr, at: IpAddr| {
            let block = network.block_with(address);
            block.is_some_and(|block| nets.get(&block) == Some(&at))
        };
        let exact = endpoints.iter().filter(|(address, (_, at))| !is_in_block(**address, *at));
        let exact: Vec<_> = exact.map(|(address, (_, at))| (IpNet::from(*address), *at)).collect();
        nets.extend(exact);
        nets
    }

    /// The addresses of a network that a host has outside its blocks.
    pub fn apart(&self, name: &NetworkName, host: &HostName) -> BTreeSet<IpAddr> {
        let pins = self.pins.keys().filter(|(of, _)| of == name).map(|(_, address)| *address);
        let is_own = |address: &IpAddr| {
            self.pinned(name, *address) == Some(host)
                && self.block_with(name, *address).is_none_or(|(holder, _)| holder != host)
        };
        pins.filter(is_own).collect()
    }

    /// What a host says that it has, and may have; of one that `is_isolated` its own addresses only.
    fn claims_of<'v>(
        &'v self,
        network: &SharedNetwork,
        (name, host, at): (&NetworkName, &'v HostName, IpAddr),
        is_isolated: bool,
        (claims, refused): (&mut Vec<Claim<'v>>, &mut Vec<String>),
    ) {
        let first = (host.clone(), name.clone(), IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let end = IpAddr::V6(Ipv6Addr::from(u128::MAX));
        let last = (host.clone(), name.clone(), end);
        for ((_, _, address), (it, since)) in self.endpoints.range(first..=last).take(MOST) {
            let (address, since) = (*address, *since);
            let is_bridge = network.is_gateway(address) && self.pinned(name, address).is_none();
            if is_isolated && !is_bridge {
                continue;
            }
            let why = match () {
                () if !self.may_have(name, host, address) => self.foreign(name, host, address),
                () if network.is_edge(address) => "it is no host's address".to_owned(),
                () if !is_unicast(it.mac) => format!("{} is no address of an interface", it.mac),
                () => {
                    claims.push(Claim { host, at, address, it, since, is_bridge });
                    continue;
                }
            };
            refused.push(is_refused((name, host), address, &why));
        }
    }
}

/// An address that a host says it has.
struct Claim<'v> {
    host: &'v HostName,
    /// The host's address.
    at: IpAddr,
    address: IpAddr,
    it: &'v SharedEndpoint,
    since: Revision,
    is_bridge: bool,
}

/// Whose each hardware address is: this host's where it has it, else that of the address from which it follows, else that
/// of the oldest record. What follows from addresses is known before it is used: a member that is the first to write it
/// takes nothing. A chosen one is that of the member that writes it first.
fn holders<'v>(
    (me, mine): (&'v HostName, BTreeSet<Mac>),
    claims: &[Claim<'v>],
    is_default: impl Fn(&Claim<'_>) -> bool,
) -> BTreeMap<Mac, &'v HostName> {
    let rank = |claim: &Claim<'v>| (!is_default(claim), claim.since, claim.host);
    let mut first: BTreeMap<Mac, &Claim<'v>> = BTreeMap::new();
    for claim in claims {
        match first.entry(claim.it.mac) {
            Entry::Vacant(free) => drop(free.insert(claim)),
            // From which address it follows matters only where it is claimed more than once.
            Entry::Occupied(mut known) if rank(claim) < rank(known.get()) => {
                known.insert(claim);
            }
            Entry::Occupied(_) => {}
        }
    }
    let mut holders: BTreeMap<_, _> =
        first.into_iter().map(|(mac, claim)| (mac, claim.host)).collect();
    holders.extend(mine.into_iter().map(|mac| (mac, me)));
    holders
}

fn is_refused((name, host): (&NetworkName, &HostName), address: IpAddr, why: &str) -> String {
    format!("{address} of network {name} on host {host}: {why}")
}

impl Reached {
    /// Takes over what is said by the holder of its hardware address.
    fn take(
        &mut self,
        (name, network): (&NetworkName, &SharedNetwork),
        claims: &[Claim<'_>],
        holders: &BTreeMap<Mac, &HostName>,
    ) {
        // A container has the same one for its addresses of both families.
        let mut own: BTreeSet<(Mac, bool)> = BTreeSet::new();
        let mut named: BTreeMap<(&HostName, Mac), NamedElsewhere> = BTreeMap::new();
        for Claim { host, at, address, it, is_bridge, .. } in claims {
            let is_holder = holders.get(&it.mac) == Some(host);
            if !is_holder || !own.insert((it.mac, address.is_ipv6())) {
                let why = format!("another one has the address {}", it.mac);
                self.refused.push(is_refused((name, host), *address, &why));
                continue;
            }
            self.endpoints.insert(*address, (it.mac, *at));
            if network.names && !it.names.is_empty() && !is_bridge {
                let new = || named_elsewhere((name, host), it);
                named.entry((host, it.mac)).or_insert_with(new).addresses.push(*address);
            }
        }
        self.names.extend(named.into_values());
    }
}

/// Its container, without addresses yet.
fn named_elsewhere(
    (network, host): (&NetworkName, &HostName),
    endpoint: &SharedEndpoint,
) -> NamedElsewhere {
    NamedElsewhere {
        network: network.clone(),
        host: host.clone(),
        mac: endpoint.mac,
        addresses: Vec::new(),
        names: endpoint.names.clone(),
        runtime: endpoint.runtime,
    }
}

impl View {
    /// Why a host cannot have an address.
    fn foreign(&self, name: &NetworkName, host: &HostName, address: IpAddr) -> String {
        if let Some(holder) = self.pinned(name, address) {
            return format!("host {holder} has it");
        }
        let blocks: Vec<String> =
            self.blocks_of(name, host).map(|block| block.to_string()).collect();
        match blocks.is_empty() {
            true => "it has no block".to_owned(),
            false => format!("it is not in its block {}", blocks.join(", ")),
        }
    }
}

fn is_unicast(mac: Mac) -> bool {
    let octets = mac.octets();
    octets[0] & 1 == 0 && octets != [0; 6]
}

/// Whether packets can be sent to it as to one host, from anywhere.
pub(crate) fn is_host(address: IpAddr) -> bool {
    let is_none = match address {
        IpAddr::V4(address) => address.is_broadcast(),
        IpAddr::V6(address) => {
            address.is_unicast_link_local() || address.to_ipv4_mapped().is_some()
        }
    };
    !(is_none || address.is_unspecified() || address.is_loopback() || address.is_multicast())
}

/// Why a host is not reached whose address is of another family than this one's.
pub(crate) fn of_other_family((host, address): (&HostName, IpAddr), own: IpAddr) -> String {
    let family = |address: IpAddr| if address.is_ipv4() { "IPv4" } else { "IPv6" };
    format!(
        "host {host} has the address {address}, and hosts of this cluster reach each other by {}, not by {}",
        family(own),
        family(address)
    )
}

/// Whether two hosts can be sent to in the same way: both by IPv4, or both by IPv6.
pub(crate) fn is_of_family(address: IpAddr, own: IpAddr) -> bool {
    address.is_ipv4() == own.is_ipv4()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout;
    use crate::record::Change;

    fn view(records: &[(&str, &str)]) -> View {
        let mut view = View::default();
        for (path, value) in records {
            let path = format!("{}{path}", layout::ROOT);
            let key = layout::key(&path).unwrap();
            let record = layout::record(&key, value.as_bytes()).unwrap();
            view.apply(Change {
                path,
                is_gone: false,
                bytes: 0,
                read: Ok((key, Some((record, Revision(1))))),
            });
        }
        view
    }

    const BASE: [(&str, &str); 7] = [
        ("host/a", r#"{"address":"192.0.2.1","since":1}"#),
        ("host/b", r#"{"address":"192.0.2.2","since":1}"#),
        (
            "network/front",
            r#"{"vni":7,"subnet":"10.8.0.0/16","block":24,"mtu":1450,"hosts":"all","since":1}"#,
        ),
        ("block/front/10.8.0.0/24", "\"a\""),
        ("block/front/10.8.1.0/24", "\"b\""),
        ("endpoint/a/front/10.8.0.2", r#"{"mac":"02:00:00:00:00:01"}"#),
        ("endpoint/b/front/10.8.1.2", r#"{"mac":"02:00:00:00:00:02"}"#),
    ];

    fn reached(more: &[(&str, &str)]) -> Reached {
        let view = view(&[&BASE[..], more].concat());
        let none = BTreeSet::new();
        view.reached(&"front".parse().unwrap(), &"a".parse().unwrap(), (&none, &none), default)
    }

    /// No hash, and as good here.
    fn default(_: &NetworkName, address: IpAddr) -> Mac {
        let IpAddr::V4(address) = address else { return Mac::local([0; 6]) };
        let [a, b, c, d] = address.octets();
        Mac::local([2, 0, a, b, c, d])
    }

    #[test]
    fn what_others_have_is_reached() {
        let reached = reached(&[]);
        let mac = "02:00:00:00:00:02".parse().unwrap();
        let wanted = (IpAddr::from([10, 8, 1, 2]), (mac, IpAddr::from([192, 0, 2, 2])));
        assert_eq!(reached.endpoints, BTreeMap::from([wanted]));
        assert_eq!(reached.refused, Vec::<String>::new());
    }

    /// What a hostile member would write to have the traffic of others.
    #[test]
    fn what_cannot_be_so_is_refused() {
        for (path, value, why) in [
            ("endpoint/b/front/10.8.0.2", r#"{"mac":"02:00:00:00:00:03"}"#, "not in its block"),
            ("endpoint/b/front/10.8.1.3", r#"{"mac":"02:00:00:00:00:01"}"#, "another one has"),
            ("endpoint/b/front/10.8.1.3", r#"{"mac":"ff:ff:ff:ff:ff:ff"}"#, "no address of an"),
            ("endpoint/b/front/10.8.1.3", r#"{"mac":"00:00:00:00:00:00"}"#, "no address of an"),
            ("host/c", r#"{"address":"192.0.2.1","since":1}"#, "no other host can have"),
            ("host/c", r#"{"address":"255.255.255.255","since":1}"#, "no other host can have"),
            ("host/c", r#"{"address":"fe80::3","since":1}"#, "no other host can have"),
            ("host/c", r#"{"address":"2001:db8::3","since":1}"#, "by IPv4, not by IPv6"),
        ] {
            let reached = reached(&[(path, value)]);
            assert_eq!(reached.endpoints.len(), 1, "{path}");
            assert!(reached.refused[0].contains(why), "{:?}", reached.refused);
        }
    }

    /// Of a network with names, a container has those that its host tells, for both of its addresses; the bridge of a
    /// host has none, and what is not reached has none.
    #[test]
    fn names_are_those_of_containers_that_are_reached() {
        let front = r#"{"vni":7,"subnet":"10.8.0.0/16","subnet6":"fd00:8::/64","block":24,"mtu":1450,"hosts":"all","names":true,"since":1}"#;
        let named = |last: u8, name: &str| {
            format!(r#"{{"mac":"02:00:00:00:00:{last:02x}","names":["{name}"],"runtime":"cni"}}"#)
        };
        let (web, bridge, foreign) = (named(2, "web"), named(3, "github.com"), named(4, "api"));
        let mut records = vec![
            ("network/front", front),
            ("endpoint/b/front/10.8.1.2", &web),
            ("endpoint/b/front/fd00:8::100:0:0:2", &web),
            ("endpoint/b/front/10.8.1.1", &bridge),
            ("endpoint/b/front/10.8.0.9", &foreign),
        ];
        let names = reached(&records).names;
        let shown: Vec<_> = names
            .iter()
            .map(|it| (it.host.as_str(), it.names[0].as_str(), it.addresses.len()))
            .collect();
        assert_eq!(shown, [("b", "web", 2)]);
        records[0].1 = BASE[2].1;
        records.remove(2);
        assert_eq!(reached(&records).names, []);
    }

    /// A member that comes before another one by its name takes none of its hardware addresses.
    #[test]
    fn the_older_record_has_a_hardware_address() {
        let front = "front".parse().unwrap();
        let mut view = view(
            &[
                &BASE[..],
                &[
                    ("host/aa", r#"{"address":"192.0.2.3","since":1}"#),
                    ("block/front/10.8.2.0/24", "\"aa\""),
                ],
            ]
            .concat(),
        );
        let mut say = |path: &str, mac: &str, at: u64| {
            let path = format!("{}endpoint/{path}", layout::ROOT);
            let key = layout::key(&path).unwrap();
            let record = layout::record(&key, format!(r#"{{"mac":"{mac}"}}"#).as_bytes()).unwrap();
            let read = Ok((key, Some((record, Revision(at)))));
            view.apply(Change { path, is_gone: false, bytes: 0, read });
            let none = BTreeSet::new();
            view.reached(&front, &"a".parse().unwrap(), (&none, &none), default)
        };
        let mac = "02:00:00:00:00:02";
        let reached = say("aa/front/10.8.2.2", mac, 7);
        let only = (IpAddr::from([10, 8, 1, 2]), (mac.parse().unwrap(), [192, 0, 2, 2].into()));
        assert_eq!(reached.endpoints, BTreeMap::from([only]));
        assert!(reached.refused[0].contains("on host aa: another one has"), "{reached:?}");
        // What this host has no other host has, however old the record is.
        let reached = say("aa/front/10.8.2.2", "02:00:00:00:00:01", 0);
        assert_eq!(reached.endpoints, BTreeMap::from([only]));
        // What follows from the address of another one was foreseen, and is that one's.
        let foreseen = default(&front, [10, 8, 1, 9].into());
        say("aa/front/10.8.2.2", &foreseen.to_string(), 8);
        let reached = say("b/front/10.8.1.9", &foreseen.to_string(), 9);
        let its = (IpAddr::from([10, 8, 1, 9]), (foreseen, [192, 0, 2, 2].into()));
        assert_eq!(reached.endpoints, BTreeMap::from([only, its]));
    }

    #[test]
    fn a_block_of_an_unknown_network_is_none() {
        let view = view(&[&BASE[..], &[("block/front/10.9.0.0/24", "\"c\"")]].concat());
        assert_eq!(view.block(&"front".parse().unwrap(), &"c".parse().unwrap()), None);
    }
}
