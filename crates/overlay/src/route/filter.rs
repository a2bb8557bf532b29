//! The packet filter of routed networks: `table inet spoke_routes`, as `routes.nft` shows it.

mod rules;

use std::collections::{BTreeMap, BTreeSet};

use model::{IfName, IpNet, Mac, Result};
use netlink::Socket;
use netlink::nft::{
    self, Between, Element, Family, Field, Interval, Lookup, RulePosition, Set, Table, Transaction,
    Tuple,
};

use crate::packet_filter::is_as_made;

pub(super) const TABLE: Table<'static> = Table { family: Family::Inet, name: "spoke_routes" };
const COMMENT: &str = "made by Spoke";

const fn set(name: &'static str, key: &'static [Field], lookup: Lookup) -> Set<'static> {
    Set { name, key, data: &[], objects: None, lookup }
}

const BRIDGES: Set<'static> = set("bridges", &[Field::Interface], Lookup::Exact);
const SWITCHED: Set<'static> =
    set("switched", &[Field::Interface, Field::Interface], Lookup::Exact);
const UNDERLAY: Set<'static> = set("underlay", &[Field::Interface], Lookup::Exact);
const HOSTS: Set<'static> = set("hosts", &[Field::Interface, Field::Ethernet], Lookup::Exact);
const SOURCES: [Set<'static>; 2] = [
    set("sources4", &[Field::Interface, Field::Ipv4], Lookup::Ranges),
    set("sources6", &[Field::Interface, Field::Ipv6], Lookup::Ranges),
];
const SUBNETS: [Set<'static>; 2] = [
    set("subnets4", &[Field::Ipv4], Lookup::Interval),
    set("subnets6", &[Field::Ipv6], Lookup::Interval),
];
const EXACT: [Set<'static>; 4] = [BRIDGES, SWITCHED, UNDERLAY, HOSTS];

/// Who may send to the bridges of routed networks from the segment of the hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteFilter {
    /// The device with this host's address; none where it is missing.
    pub(crate) underlay: Option<IfName>,
    /// The hardware addresses of the other members on that device.
    pub(crate) hosts: BTreeSet<Mac>,
    /// What each bridge leads to on other hosts, each address once; nothing where it is closed.
    pub(crate) sources: BTreeMap<IfName, Vec<IpNet>>,
    /// The subnets of these networks.
    pub(crate) subnets: Vec<IpNet>,
}

impl RouteFilter {
    /// Makes the table what it should be; whether anything had to be changed.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub fn ensure(&self) -> Result<bool> {
        let socket = &mut Socket::netfilter()?;
        if !is_whole(socket)? {
            self.make()?.apply(socket)?;
            return Ok(true);
        }
        let mut transaction = Transaction::new();
        self.change_exact(socket, &mut transaction)?;
        self.change_sources(socket, &mut transaction)?;
        self.change_subnets(socket, &mut transaction)?;
        if transaction.is_empty() {
            return Ok(false);
        }
        transaction.apply(socket).map(|()| true)
    }

    fn exact(&self) -> [(Set<'static>, BTreeSet<Tuple>); 4] {
        let named = |name: &IfName| Tuple::new().interface(name);
        let underlay: BTreeSet<Tuple> = self.underlay.iter().map(named).collect();
        let hosts = self.underlay.iter().flat_map(|device| {
            self.hosts.iter().map(move |mac| Tuple::new().interface(device).mac(*mac))
        });
        let twice = |name: &IfName| Tuple::new().interface(name).interface(name);
        [
            (BRIDGES, self.sources.keys().map(named).collect()),
            (SWITCHED, self.sources.keys().map(twice).collect()),
            (UNDERLAY, underlay),
            (HOSTS, hosts.collect()),
        ]
    }

    fn ranges(&self, at: usize) -> BTreeSet<Between> {
        let is_of = |net: &&IpNet| net.addr().is_ipv6() == (at == 1);
        let all = self.sources.iter().flat_map(|(bridge, nets)| {
            let key = |address| Tuple::new().interface(bridge).address(address);
            IpNet::aggregate(nets)
                .iter()
                .filter(is_of)
                .map(move |net| Between { first: key(net.network()), last: key(net.broadcast()) })
                .collect::<Vec<_>>()
        });
        all.collect()
    }

    fn intervals(&self, at: usize) -> Vec<Interval> {
        let of = self.subnets.iter().filter(|net| net.addr().is_ipv6() == (at == 1));
        let all = of.map(|net| Interval { first: net.network(), last: net.broadcast() });
        Interval::merge(all.collect())
    }

    fn change_exact(&self, socket: &mut Socket, transaction: &mut Transaction) -> Result<()> {
        for (set, wanted) in self.exact() {
            let there: BTreeSet<Tuple> =
                nft::elements(socket, TABLE, set.name)?.into_iter().map(|it| it.key).collect();
            for gone in there.difference(&wanted) {
                let element = Element::of(gone.clone());
                transaction.delete_element(TABLE, set.name, &element, about(set));
            }
            for new in wanted.difference(&there) {
                let element = Element::of(new.clone());
                transaction.ensure_element(TABLE, set.name, &element, about(set));
            }
        }
        Ok(())
    }

    fn change_sources(&self, socket: &mut Socket, transaction: &mut Transaction) -> Result<()> {
        for (at, set) in SOURCES.into_iter().enumerate() {
            let wanted = self.ranges(at);
            let there: BTreeSet<Between> =
                nft::between(socket, TABLE, set.name)?.into_iter().collect();
            for gone in there.difference(&wanted) {
                transaction.delete_between(TABLE, set.name, gone, about(set));
            }
            for new in wanted.difference(&there) {
                transaction.add_between(TABLE, set.name, new, about(set));
            }
        }
        Ok(())
    }

    fn change_subnets(&self, socket: &mut Socket, transaction: &mut Transaction) -> Result<()> {
        for (at, set) in SUBNETS.into_iter().enumerate() {
            let wanted = self.intervals(at);
            if Interval::merge(nft::intervals(socket, TABLE, set.name)?) != wanted {
                transaction.clear_set(TABLE, set.name);
                wanted
                    .iter()
                    .for_each(|it| transaction.add_interval(TABLE, set.name, it, about(set)));
            }
        }
        Ok(())
    }

    fn make(&self) -> Result<Transaction> {
        let mut transaction = Transaction::new();
        transaction.replace_table(TABLE, Some(&COMMENT.parse()?));
        for set in EXACT.into_iter().chain(SOURCES).chain(SUBNETS) {
            transaction.add_set(TABLE, &set);
        }
        let chains = rules::chains();
        chains.iter().for_each(|(name, base, _)| {
            transaction.add_chain(TABLE, name, base.as_ref(), false);
        });
        for (name, _, rules) in &chains {
            rules
                .iter()
                .for_each(|rule| transaction.add_rule(TABLE, name, RulePosition::Tail, rule));
        }
        for (set, keys) in self.exact() {
            for key in keys {
                transaction.ensure_element(TABLE, set.name, &Element::of(key), about(set));
            }
        }
        for (at, set) in SOURCES.into_iter().enumerate() {
            let ranges = self.ranges(at);
            ranges.iter().for_each(|it| transaction.add_between(TABLE, set.name, it, about(set)));
        }
        for (at, set) in SUBNETS.into_iter().enumerate() {
            let all = self.intervals(at);
            all.iter().for_each(|it| transaction.add_interval(TABLE, set.name, it, about(set)));
        }
        Ok(transaction)
    }
}

fn about(set: Set<'_>) -> String {
    format!("changing set {} of {TABLE}", set.name)
}

/// Whether a table is this one.
pub(crate) fn is_ours(family: Family, name: &str) -> bool {
    (family, name) == (TABLE.family, TABLE.name)
}

/// Whether the table is there, in any state.
pub(super) fn is_there(socket: &mut Socket) -> Result<bool> {
    Ok(nft::tables(socket, TABLE.family)?.iter().any(|(name, _)| name == TABLE.name))
}

/// Whether one of these is the bridge of a routed network.
pub(super) fn has_one_of<'a>(
    socket: &mut Socket,
    mut names: impl Iterator<Item = &'a IfName>,
) -> Result<bool> {
    let there: BTreeSet<Tuple> =
        nft::elements(socket, TABLE, BRIDGES.name)?.into_iter().map(|it| it.key).collect();
    Ok(names.any(|name| there.contains(&Tuple::new().interface(name))))
}

/// Removes it.
pub(super) fn remove(socket: &mut Socket) -> Result<()> {
    nft::remove_table(socket, TABLE)
}

/// Whether the chains are there as this program makes them.
fn is_whole(socket: &mut Socket) -> Result<bool> {
    is_as_made(nft::verify(socket, TABLE, &rules::chains()))
}
