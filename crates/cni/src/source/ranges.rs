//! Ranges of addresses, filled in and refused as the reference plugin `host-local` does.

use std::net::IpAddr;

use model::{Error, Fact, Family, IpNet, Order, Pool, PoolId, Range, Result, Space};

use crate::call::Call;
use crate::capability;
use crate::wire::{Command, Node, Object, Version};
use crate::words::reported;

/// One pool for each set of ranges: those of the capability `ipRanges` first, then the single
/// range of old configurations, then `ranges`.
pub(super) fn pools(call: &Call<'_>, ipam: &Object<'_>, space: &Space) -> Result<Vec<Pool>> {
    let mut sets = Vec::new();
    if let Some(runtime) = call.config.runtime()? {
        sets.extend(
            runtime
                .list(capability::IP_RANGES)?
                .iter()
                .map(Node::list)
                .collect::<Result<Vec<_>>>()?,
        );
    }
    if let (Some(_), Some(node)) = (ipam.text("subnet")?, call.config.root().get("ipam")) {
        sets.push(vec![node]);
    }
    sets.extend(ipam.list("ranges")?.iter().map(Node::list).collect::<Result<Vec<_>>>()?);
    if sets.is_empty() {
        // Which ranges there are is not known before ADD.
        if call.command == Command::Status && call.config.declares(capability::IP_RANGES)? {
            return Ok(Vec::new());
        }
        return Err(Error::invalid("no IP ranges specified"));
    }
    let mut pools = Vec::with_capacity(sets.len());
    for (place, set) in sets.iter().enumerate() {
        let wrong = |error: Error| error.context(format!("invalid range set {place}"));
        let index = u8::try_from(place)
            .map_err(|_| Error::invalid(format!("{} range sets are too many", sets.len())))?;
        pools.push(Pool {
            id: PoolId { network: call.config.name().clone(), index },
            space: space.clone(),
            ranges: range_set(set).map_err(wrong)?,
            order: Order::NextAfterLast,
        });
    }
    refuse_overlaps(&pools)?;
    refuse_several(call, &pools)?;
    Ok(pools)
}

fn range_set(set: &[Node<'_>]) -> Result<Vec<Range>> {
    let ranges = set.iter().map(|node| range(&node.object()?)).collect::<Result<Vec<Range>>>()?;
    let Some(first) = ranges.first() else { return Err(Error::invalid("empty range set")) };
    if ranges.iter().any(|range| Family::of(&range.subnet) != Family::of(&first.subnet)) {
        return Err(Error::invalid("mixed address families"));
    }
    for (place, one) in ranges.iter().enumerate() {
        if let Some(other) = ranges[place + 1..].iter().find(|other| one.overlaps(other)) {
            let (one, other) = (shown(one), shown(other));
            return Err(Error::invalid(format!("subnets {one} and {other} overlap")));
        }
    }
    Ok(ranges)
}

fn range(object: &Object<'_>) -> Result<Range> {
    let Some(node) = object.get("subnet") else {
        return Err(Error::invalid("a range has no \"subnet\""));
    };
    let subnet: IpNet = node.parse().map_err(|error: Error| {
        let words = format!("invalid CIDR address: {}", node.text().unwrap_or_default());
        error.context(&words).about(Fact::Whole(words))
    })?;
    if subnet.prefix_len() + 2 > subnet.max_prefix_len() {
        return Err(Error::invalid(format!("Network {subnet} too small to allocate from")));
    }
    if subnet.addr() != subnet.network() {
        return Err(Error::invalid(format!(
            "Network has host bits set. For a subnet mask of length {} the network address is {}",
            subnet.prefix_len(),
            subnet.network()
        )));
    }
    let gateway = address(object, "gateway")?.or_else(|| model::first_host(&subnet));
    let inside = |end: IpAddr, what: &str| match subnet.contains(&end) {
        true => Ok(end),
        false => Err(Error::invalid(format!("{what} {end} not in network {subnet}"))),
    };
    let first = address(object, "rangeStart")?.map(|start| inside(start, "RangeStart"));
    let last = address(object, "rangeEnd")?.map(|end| inside(end, "RangeEnd"));
    let first =
        first.transpose()?.or_else(|| model::first_host(&subnet)).unwrap_or(subnet.network());
    let last = last.transpose()?.unwrap_or_else(|| last_of(&subnet));
    if first > last {
        let more = format!(": it is after RangeEnd {last}");
        return Err(reported(format!("RangeStart {first} not in network {subnet}"), &more));
    }
    Range::new(subnet, first, last, gateway)?.for_containers()
}

/// The last address to lease: for IPv4 the one before the broadcast address.
fn last_of(subnet: &IpNet) -> IpAddr {
    match subnet.broadcast() {
        IpAddr::V4(broadcast) => IpAddr::V4(u32::from(broadcast).saturating_sub(1).into()),
        last @ IpAddr::V6(_) => last,
    }
}

fn address(object: &Object<'_>, key: &str) -> Result<Option<IpAddr>> {
    match object.text(key)? {
        None => Ok(None),
        Some(text) => match text.parse::<IpAddr>() {
            Ok(address) => Ok(Some(address.to_canonical())),
            Err(_) => {
                let what = format!("invalid IP address: {text}");
                Err(Error::invalid(format!("{what}, the {key:?}")).about(Fact::Whole(what)))
            }
        },
    }
}

fn refuse_overlaps(pools: &[Pool]) -> Result<()> {
    for (one, pool) in pools.iter().enumerate() {
        for (other, beside) in pools.iter().enumerate().skip(one + 1) {
            let overlap = |range: &Range| beside.ranges.iter().any(|r| r.overlaps(range));
            if pool.ranges.iter().any(overlap) {
                let msg = format!("range set {one} overlaps with {other}");
                return Err(Error::invalid(msg));
            }
        }
    }
    Ok(())
}

/// Results before 0.3.0 have one address per family.
fn refuse_several(call: &Call<'_>, pools: &[Pool]) -> Result<()> {
    let families = pools.iter().filter_map(|pool| pool.ranges.first());
    super::fixed::refuse_several(call.config.version(), families.map(|range| range.subnet))
}

fn shown(range: &Range) -> String {
    format!("{}-{}", range.first, range.last)
}

/// The addresses that this container wants, by `CNI_ARGS`, `args.cni` and the capability `ips`
/// together; each may have a prefix length, which does not count.
pub(crate) fn wanted(call: &Call<'_>) -> Result<Vec<IpAddr>> {
    let args = call.args()?;
    let mut texts: Vec<String> = Vec::new();
    if let Some(ip) = args.ip {
        match bare(&ip) {
            Some(_) => texts.push(ip),
            None => {
                return Err(Error::invalid(format!(
                    "ARGS: error parsing value of pair \"IP={ip}\": invalid IP address {ip}"
                )));
            }
        }
    }
    for object in [call.config.args()?, call.config.runtime()?].iter().flatten() {
        texts.extend(object.texts(capability::IPS)?);
    }
    let mut wanted = Vec::new();
    for text in texts {
        let address =
            bare(&text).ok_or_else(|| Error::invalid(format!("invalid IP address {text}")))?;
        if !wanted.contains(&address) {
            wanted.push(address);
        }
    }
    Ok(wanted)
}

/// Refuses wanted addresses that are a gateway, or that no pool is left for: each gives one.
pub(super) fn refuse_unattainable(pools: &[Pool], wanted: &[IpAddr]) -> Result<()> {
    let mut remaining = wanted.to_vec();
    for pool in pools {
        let Some(place) = remaining.iter().position(|it| pool.range_of(*it).is_some()) else {
            continue;
        };
        let address = remaining.remove(place);
        if pool.range_of(address).is_some_and(|range| range.gateway == Some(address)) {
            return Err(Error::invalid(format!(
                "failed to allocate for range {}: requested ip {address} is subnet's gateway",
                pool.id.index
            )));
        }
    }
    let remaining: Vec<String> = remaining.iter().map(ToString::to_string).collect();
    match remaining.is_empty() {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "failed to allocate all requested IPs: {}",
            remaining.join(" ")
        ))),
    }
}

/// An address, whatever prefix length it is written with.
pub(crate) fn bare(text: &str) -> Option<IpAddr> {
    let address = match text.contains('/') {
        true => text.parse::<IpNet>().ok()?.addr(),
        false => text.parse::<IpAddr>().ok()?,
    };
    Some(address.to_canonical())
}

/// The versions whose results have one address per family.
pub(super) fn is_single(version: Version) -> bool {
    version < Version::V030
}
