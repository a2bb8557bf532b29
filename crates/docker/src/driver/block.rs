//! The subnets of a Docker network, and the pools that they make.

use std::net::IpAddr;

use engine::Engine;
use model::{
    AddressSpace, Error, Family, IpNet, NetworkName, Order, Pool, PoolId, Range, Result, Space,
    Subnet, SubnetId, overlap,
};

use crate::ipam::key::space_of;
use libnetwork;

/// A subnet of a Docker network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) net: IpNet,
    pub(crate) gateway: Option<IpAddr>,
    /// Addresses of devices that are no containers.
    pub(crate) auxiliary: Vec<IpAddr>,
    /// The subnet if it was requested from Spoke; `None` where another IPAM driver has it.
    pub(crate) subnet: Option<Subnet>,
}

/// The subnets of CreateNetwork's data. The IPAM driver `null` gives `0.0.0.0/0`, which is none.
///
/// `tenant` is the space in which they were requested, if it is not the one of their name.
pub(crate) fn blocks(
    engine: &Engine<'_>,
    call: &libnetwork::CreateNetwork,
    tenant: Option<&AddressSpace>,
) -> Result<Vec<Block>> {
    let data = call.ipv4.iter().chain(&call.ipv6).filter(|subnet| subnet.pool.prefix_len() > 0);
    let blocks = data.map(|subnet| {
        Ok(Block {
            net: subnet.pool.trunc(),
            gateway: subnet.gateway.map(|gateway| gateway.addr()),
            auxiliary: subnet.aux.values().copied().collect(),
            subnet: match subnet.space.as_ref().and_then(space_of) {
                Some(Space::Host) => {
                    Some(requested(engine, &Space::of_networks(tenant), subnet.pool)?)
                }
                Some(space) => Some(requested(engine, &space, subnet.pool)?),
                None => None,
            },
        })
    });
    let blocks: Vec<Block> = blocks.collect::<Result<_>>()?;
    refuse_overlap(&blocks)?;
    Ok(blocks)
}

/// An address has one gateway, and so one subnet.
fn refuse_overlap(blocks: &[Block]) -> Result<()> {
    for (index, block) in blocks.iter().enumerate() {
        let mut others = blocks.iter().skip(index + 1);
        if let Some(other) = others.find(|other| overlap(&block.net, &other.net)) {
            return Err(Error::invalid(format!(
                "the subnets {} and {} of the network overlap; give each address one subnet",
                block.net, other.net
            )));
        }
    }
    Ok(())
}

/// The subnet that was requested before. Where the same one was allocated in parts, the one of a
/// network that is not made yet is meant.
fn requested(engine: &Engine<'_>, space: &Space, net: IpNet) -> Result<Subnet> {
    let whole = SubnetId { space: space.clone(), net, part: None };
    if let Some(subnet) = engine.records.subnet(&whole)? {
        return Ok(subnet);
    }
    let mut parts = engine.records.subnets_over(space, &net)?;
    parts.retain(|subnet| subnet.id.net == net);
    let aliases = engine.records.aliases()?;
    let is_made = |subnet: &Subnet| aliases.iter().any(|alias| alias.network == subnet.network);
    let new = parts.iter().position(|subnet| !is_made(subnet)).unwrap_or(0);
    match parts.len() {
        0 => Err(Error::not_found(format!(
            "pool {net} was not requested from Spoke's IPAM driver, or was released since{}",
            apart(space)
        ))),
        _ => Ok(parts.swap_remove(new)),
    }
}

/// Docker passes the options of the IPAM driver and of the network to one of them each.
fn apart(space: &Space) -> String {
    match space {
        Space::Named(name) => format!("; --ipam-opt address_space={name} requests it there"),
        Space::Host | Space::Global | Space::Network(_) => {
            "; where --ipam-opt names an address_space, -o does too".to_owned()
        }
    }
}

/// One pool for each family, with a range or more for each subnet.
pub(crate) fn pools(
    network: &NetworkName,
    blocks: &[Block],
    tenant: Option<&AddressSpace>,
) -> Result<Vec<Pool>> {
    let mut pools = Vec::new();
    for family in [Family::V4, Family::V6] {
        let of_family: Vec<&Block> =
            blocks.iter().filter(|block| Family::of(&block.net) == family).collect();
        let Some(first) = of_family.first() else { continue };
        let ranges = of_family.iter().map(|block| ranges(block)).collect::<Result<Vec<_>>>()?;
        let index = u8::from(!pools.is_empty());
        pools.push(Pool {
            id: PoolId { network: network.clone(), index },
            // A request in the space of a cluster is repeated in this host's space to use an
            // address.
            space: Space::of_networks(tenant),
            ranges: ranges.concat(),
            order: first.subnet.as_ref().map_or(Order::LowestFree, |subnet| subnet.order),
        });
    }
    Ok(pools)
}

/// The ranges of a subnet that may be leased. Docker's own IPAM takes the lowest free address and
/// does not know Spoke's, so where it has the subnet Spoke begins with the upper half.
fn ranges(block: &Block) -> Result<Vec<Range>> {
    let Some(subnet) = &block.subnet else {
        let whole = Range::of_hosts(block.net, None, block.gateway)?.for_containers()?;
        let halves = block.net.subnets(block.net.prefix_len().saturating_add(1));
        let mut halves: Vec<Range> =
            halves.into_iter().flatten().filter_map(|half| whole.clipped(&half)).collect();
        halves.reverse();
        return Ok(if halves.is_empty() { vec![whole] } else { halves });
    };
    Ok(vec![Range::of_hosts(block.net, subnet.id.part, block.gateway)?.for_containers()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(net: &str, part: Option<&str>) -> Block {
        let net: IpNet = net.parse().unwrap();
        let subnet = part.map(|part| Subnet {
            id: SubnetId { space: Space::Host, net, part: part.parse().ok() },
            network: "n".parse().unwrap(),
            runtime: model::Runtime::Docker,
            since: model::Timestamp(0),
            references: 1,
            order: Order::LowestFree,
            sticky: model::Sticky::No,
            listed: false,
            lister: None,
        });
        Block { net, gateway: None, auxiliary: Vec::new(), subnet }
    }

    fn shown(net: &str, part: Option<&str>) -> String {
        let ranges = ranges(&block(net, part)).unwrap();
        let shown = ranges.iter().map(|range| format!("{}-{}", range.first, range.last));
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ours_begin_at_the_lowest_host() {
        for (net, part, expected) in [
            ("10.1.0.0/16", "", "10.1.0.1-10.1.255.254"),
            ("10.1.0.0/16", "10.1.4.0/24", "10.1.4.0-10.1.4.255"),
            ("10.1.0.0/16", "10.1.0.0/24", "10.1.0.1-10.1.0.255"),
            ("10.1.0.0/16", "10.1.255.0/24", "10.1.255.0-10.1.255.254"),
            ("10.1.0.2/31", "", "10.1.0.2-10.1.0.3"),
            ("10.1.0.2/32", "", "10.1.0.2-10.1.0.2"),
            ("fd00::/64", "", "fd00::1-fd00::ffff:ffff:ffff:ffff"),
            ("fd00::/64", "fd00::100/120", "fd00::100-fd00::1ff"),
        ] {
            assert_eq!(shown(net, Some(part)), expected, "{net} {part}");
        }
    }

    #[test]
    fn those_of_others_begin_in_the_middle() {
        for (net, expected) in [
            ("172.18.0.0/16", "172.18.128.0-172.18.255.254 172.18.0.1-172.18.127.255"),
            ("10.0.0.0/30", "10.0.0.2-10.0.0.2 10.0.0.1-10.0.0.1"),
            ("10.0.0.0/31", "10.0.0.1-10.0.0.1 10.0.0.0-10.0.0.0"),
            ("10.0.0.0/32", "10.0.0.0-10.0.0.0"),
        ] {
            assert_eq!(shown(net, None), expected, "{net}");
        }
    }

    #[test]
    fn a_family_has_one_pool() {
        let network = "n".parse().unwrap();
        let blocks = [
            block("10.1.0.0/24", Some("")),
            block("fd00::/64", Some("")),
            block("10.2.0.0/24", Some("")),
        ];
        let pools = pools(&network, &blocks, None).unwrap();
        assert_eq!(pools.iter().map(|pool| pool.ranges.len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((pools[0].id.index, pools[1].id.index), (0, 1));
    }
}
