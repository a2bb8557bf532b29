//! This host as its kernel describes it, for the commands that explain and choose.

use std::collections::BTreeMap;
use std::fs;

use linux::RuleTable;
use linux::filter::Dropping;
use model::{Family, Result};
use netlink::{Links, Routes, Socket};

use super::{DroppingChain, Forward, HostFacts, HostLink, HostRoute};

/// Reads links, routes and packet filter; changes nothing.
pub fn read() -> Result<HostFacts> {
    let mut socket = Socket::route()?;
    let links = socket.links(Links::default())?;
    let names: BTreeMap<u32, String> =
        links.iter().map(|link| (link.index, link.name.to_string())).collect();
    let mut routes = Vec::new();
    for family in [Family::V4, Family::V6] {
        let main = Routes { family, table: Some(netlink::route::MAIN), link: None };
        // Those between hosts of a cluster lead to Spoke's own networks.
        let there = socket.routes(main)?;
        for route in socket.besides_hosts(family, there)? {
            let device = route.link.and_then(|index| names.get(&index)).cloned();
            routes.push(HostRoute { dst: route.dst, device: device.unwrap_or_default() });
        }
    }
    let links = links
        .into_iter()
        .map(|link| HostLink {
            name: link.name.to_string(),
            mtu: link.mtu,
            is_bridge: link.kind.as_deref() == Some("bridge"),
        })
        .collect();
    let forward = forward().unwrap_or_else(|error| Forward::Unknown(error.to_string()));
    // Where the filter cannot be read, `forward` says so.
    let exposed = linux::exposed().unwrap_or_default();
    let tables = Socket::netfilter().and_then(|mut socket| RuleTable::present(&mut socket)).ok();
    Ok(HostFacts { links, routes, forward, exposed, tables })
}

fn forward() -> Result<Forward> {
    let mut socket = Socket::netfilter()?;
    let dropping = linux::filter::dropping_chains(&mut socket)?;
    if !dropping.is_empty() {
        let dropping = dropping.into_iter();
        let chains = dropping.map(|Dropping { chain, passing }| DroppingChain { chain, passing });
        return Ok(Forward::Dropped(chains.collect()));
    }
    let legacy = fs::read_to_string("/proc/net/ip_tables_names").unwrap_or_default();
    Ok(match legacy.lines().any(|table| table == "filter") {
        true => Forward::Unknown(
            "the old iptables is in use, `iptables-legacy -S FORWARD` shows its policy".into(),
        ),
        false => Forward::Accepted,
    })
}
