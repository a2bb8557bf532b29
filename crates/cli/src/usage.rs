//! The use of a pool, computed from the taken addresses and never by walking all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cni::reference::HeldFile;
use model::{Holder, Pool, Range, Reservation};

use crate::view::PoolView;

/// The addresses in use, from the store and from the reference plugins' files; each in ascending
/// order.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) holders: Vec<Holder>,
    pub(super) reservations: Vec<Reservation>,
    /// Only those that the store knows nothing of.
    pub(super) files: Vec<HeldFile>,
}

impl Taken {
    pub(super) fn new(
        mut holders: Vec<Holder>,
        mut reservations: Vec<Reservation>,
        mut files: Vec<HeldFile>,
    ) -> Self {
        holders.sort_by_key(|holder| holder.lease.address.addr());
        reservations.sort_by_key(|reserved| reserved.address);
        files.sort_by_key(|file| file.address);
        Self { holders, reservations, files }
    }

    pub(super) fn held_in<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = &'a Holder> {
        let inside = inside(pool, &self.holders, |holder| holder.lease.address.addr());
        inside.filter(|holder| holder.lease.space == pool.space)
    }

    fn reserved_in<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = IpAddr> + 'a {
        self.reservations_in(pool).map(|reserved| reserved.address)
    }

    pub(super) fn reservations_in<'a>(
        &'a self,
        pool: &'a Pool,
    ) -> impl Iterator<Item = &'a Reservation> {
        let inside = inside(pool, &self.reservations, |reserved| reserved.address);
        inside.filter(|reserved| reserved.space == pool.space)
    }

    pub(super) fn files_in<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = &'a HeldFile> {
        inside(pool, &self.files, |file| file.address)
    }
}

/// Those of a list in the order of addresses that are in the pool, each once.
fn inside<'a, T>(
    pool: &'a Pool,
    all: &'a [T],
    address_of: impl Fn(&T) -> IpAddr + Copy + 'a,
) -> impl Iterator<Item = &'a T> {
    let of_range = move |range: &'a Range| {
        let from = all.partition_point(|it| address_of(it) < range.first);
        let rest = all.get(from..).unwrap_or_default().iter();
        let those = rest.take_while(move |it| address_of(it) <= range.last);
        // Ranges may overlap.
        those.filter(move |it| {
            let first = pool.range_of(address_of(it));
            first.is_some_and(|first| std::ptr::eq(first, range))
        })
    };
    pool.ranges.iter().flat_map(of_range)
}

/// How full `pool` is.
pub(super) fn view(pool: &Pool, taken: &Taken) -> PoolView {
    let mut holders: BTreeMap<String, u64> = BTreeMap::new();
    let mut held = BTreeSet::new();
    let mut quarantined = 0;
    for holder in taken.held_in(pool) {
        held.insert(holder.lease.address.addr());
        match holder.quarantined {
            Some(_) => quarantined += 1,
            None => *holders.entry(holder.runtime.to_string()).or_default() += 1,
        }
    }
    for file in taken.files_in(pool) {
        if held.insert(file.address) {
            *holders.entry("reference".to_owned()).or_default() += 1;
        }
    }
    let reserved = taken.reserved_in(pool).filter(|address| !held.contains(address)).count();
    let size = u64::try_from(pool.capacity()).unwrap_or(u64::MAX);
    let (used, reserved) = (holders.values().sum::<u64>(), reserved as u64);
    let ranges = free_ranges(pool, taken);
    let subnets: Vec<String> =
        pool.ranges.iter().map(|range| range.subnet.trunc().to_string()).collect();
    PoolView {
        network: pool.id.network.to_string(),
        title: None,
        pool: subnets.join(","),
        size,
        used,
        reserved,
        quarantined,
        free: size.saturating_sub(used + reserved + quarantined),
        holders,
        free_ranges: ranges.iter().map(range_text).collect(),
    }
}

/// The lowest `count` free addresses of `pool`.
pub(super) fn lowest_free(pool: &Pool, taken: &Taken, count: usize) -> Vec<IpAddr> {
    let ranges = free_ranges(pool, taken);
    let each = |(first, last): &(IpAddr, IpAddr)| {
        let like = *first;
        (bits(*first)..=bits(*last)).map(move |bits| address(bits, like))
    };
    ranges.iter().flat_map(each).take(count).collect()
}

/// The gaps between what is taken.
fn free_ranges(pool: &Pool, taken: &Taken) -> Vec<(IpAddr, IpAddr)> {
    let mut busy: BTreeSet<IpAddr> =
        taken.held_in(pool).map(|holder| holder.lease.address.addr()).collect();
    busy.extend(taken.reserved_in(pool));
    busy.extend(taken.files_in(pool).map(|file| file.address));
    busy.extend(pool.ranges.iter().filter_map(|range| range.gateway));
    let mut gaps = Vec::new();
    for range in &pool.ranges {
        let mut next = Some(bits(range.first));
        for taken in busy.range(range.first..=range.last).map(|address| bits(*address)) {
            if let Some(start) = next.filter(|start| *start < taken) {
                gaps.push((address(start, range.first), address(taken - 1, range.first)));
            }
            next = taken.checked_add(1);
        }
        if let Some(start) = next.filter(|start| *start <= bits(range.last)) {
            gaps.push((address(start, range.first), range.last));
        }
    }
    gaps
}

fn range_text((first, last): &(IpAddr, IpAddr)) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// An address as a number.
pub(super) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// A number as an address of the family of `like`; the family's last where it is too large.
pub(super) fn address(bits: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from(u32::try_from(bits).unwrap_or(u32::MAX))),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(bits)),
    }
}

#[cfg(test)]
mod tests {
    use model::{Order, PoolId, Space};
    use proptest::prelude::*;

    use super::*;

    fn pool(subnet: &str, first: &str, last: &str) -> Pool {
        let [first, last] = [first, last].map(|end| end.parse().unwrap());
        Pool {
            id: PoolId { network: "front".parse().unwrap(), index: 0 },
            space: Space::Host,
            ranges: vec![Range::new(subnet.parse().unwrap(), first, last, Some(first)).unwrap()],
            order: Order::NextAfterLast,
        }
    }

    fn reserved(address: IpAddr) -> Reservation {
        Reservation::new(Space::Host, address)
    }

    #[test]
    fn a_whole_ipv6_subnet_is_two_ends() {
        let pool = pool("fd00::/64", "fd00::1", "fd00::ffff:ffff:ffff:ffff");
        let taken = Taken::new(Vec::new(), vec![reserved("fd00::5".parse().unwrap())], Vec::new());
        let view = view(&pool, &taken);
        assert_eq!(view.free_ranges, ["fd00::2-fd00::4", "fd00::6-fd00::ffff:ffff:ffff:ffff"]);
        assert_eq!((view.size, view.reserved), (u64::MAX - 1, 1));
        let lowest: Vec<String> =
            lowest_free(&pool, &taken, 4).iter().map(ToString::to_string).collect();
        assert_eq!(lowest, ["fd00::2", "fd00::3", "fd00::4", "fd00::6"]);
    }

    proptest! {
        #[test]
        fn what_is_free_and_what_is_taken_make_the_pool(taken in prop::collection::btree_set(1u8..=254, 0..254)) {
            let pool = pool("10.0.0.0/24", "10.0.0.1", "10.0.0.254");
            let addresses = taken.iter().map(|last| IpAddr::from([10, 0, 0, *last]));
            let taken = Taken::new(Vec::new(), addresses.map(reserved).collect(), Vec::new());
            let free = lowest_free(&pool, &taken, 1000);
            for address in &free {
                prop_assert!(taken.reservations.iter().all(|reserved| reserved.address != *address));
            }
            let busy = taken.reservations.iter().filter(|r| !pool.is_gateway(r.address)).count();
            prop_assert_eq!(free.len() + busy, 253);
        }
    }
}
