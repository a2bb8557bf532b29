//! Pools, as `spoke ipam show` has them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use host::time::ago;
use model::{Error, Holder, Kind, Network, Pool, Result};
use page::shown::{Addresses, ListPart, Pools, Range, State, Taken};
use page::{Content, Numbered};

use crate::commands::ipam;
use crate::context::CommandContext;
use crate::titles::Titles;
use crate::usage::{self, Taken as InUse};

/// A part of the list has so many pools.
const MOST: usize = 12;

pub(super) fn pools(
    wanted: &Numbered<Option<String>>,
    context: &CommandContext,
) -> Result<Content> {
    let engine = (context.engine)()?;
    let networks = engine.records.networks()?;
    let taken = ipam::taken(&engine, &networks, context)?;
    let titles = Titles::read(&engine)?;
    let find = |name: &String| engine.records.network(&name.parse()?);
    let meant = wanted.of.as_ref().map(find).transpose().map_err(|error| match error.kind() {
        Kind::NotFound | Kind::Invalid => Error::not_found("there is no network of this name"),
        _ => error,
    })?;
    let is_wanted =
        |network: &&Network| meant.as_ref().is_none_or(|meant| meant.name == network.name);
    let pools: Vec<&Pool> =
        networks.iter().filter(is_wanted).flat_map(|network| network.ipam.pools()).collect();
    let (pools, part) = ListPart::of(pools, wanted.number, MOST);
    let pools: Vec<page::shown::Pool> = pools
        .into_iter()
        .map(|pool| {
            let network = titles.called(&pool.id.network);
            let title = titles.title(pool.id.network.as_str(), None);
            page::shown::Pool { network, title, ..shown(pool, &taken, context) }
        })
        .collect();
    Ok(Content::Pools(Pools { network: wanted.of.clone(), pools, part }))
}

/// All pools; IPv6 is left out of what is free, which would say nothing.
pub(super) fn sum(networks: &[Network], taken: &InUse) -> Addresses {
    let mut sum = Addresses::default();
    for pool in networks.iter().flat_map(|network| network.ipam.pools()) {
        let view = usage::view(pool, taken);
        sum.used = sum.used.saturating_add(view.used);
        sum.quarantined = sum.quarantined.saturating_add(view.quarantined);
        if pool.ranges.iter().all(|range| range.first.is_ipv4()) {
            sum.free = sum.free.saturating_add(view.free);
        }
    }
    sum
}

fn shown(pool: &Pool, in_use: &InUse, context: &CommandContext) -> page::shown::Pool {
    let view = usage::view(pool, in_use);
    let range = |range: &model::Range| Range {
        first: range.first,
        last: range.last,
        gateway: range.gateway,
    };
    page::shown::Pool {
        network: view.network,
        title: None,
        subnet: view.pool,
        size: view.size,
        used: view.used,
        reserved: view.reserved,
        quarantined: view.quarantined,
        free: view.free,
        ranges: pool.ranges.iter().map(range).collect(),
        taken: taken(pool, in_use, context),
        free_ranges: view.free_ranges,
    }
}

/// Each address once: a holder comes before a reservation.
fn taken(pool: &Pool, in_use: &InUse, context: &CommandContext) -> Vec<Taken> {
    let mut all: BTreeMap<IpAddr, Taken> = BTreeMap::new();
    for holder in in_use.held_in(pool) {
        let one = held(holder, context);
        all.entry(one.address).or_insert(one);
    }
    for file in in_use.files_in(pool) {
        all.entry(file.address).or_insert_with(|| Taken {
            address: file.address,
            state: State::Held,
            holder: file.container.clone(),
            runtime: "reference".to_owned(),
            interface: file.interface.clone().unwrap_or_default(),
            age: ago(file.modified, context.now),
        });
    }
    for reserved in in_use.reservations_in(pool) {
        all.entry(reserved.address).or_insert_with(|| Taken {
            address: reserved.address,
            state: State::Reserved,
            holder: reserved.owner.as_ref().map(ToString::to_string).unwrap_or_default(),
            runtime: String::new(),
            interface: String::new(),
            age: String::new(),
        });
    }
    all.into_values().collect()
}

fn held(holder: &Holder, context: &CommandContext) -> Taken {
    let id = holder.attachment();
    let container = || id.map(|id| id.container.to_string());
    Taken {
        address: holder.lease.address.addr(),
        state: if holder.quarantined.is_some() { State::Quarantined } else { State::Held },
        holder: holder
            .owner
            .as_ref()
            .map(ToString::to_string)
            .or_else(container)
            .unwrap_or_default(),
        runtime: holder.runtime.to_string(),
        interface: id.map(|id| id.ifname.to_string()).unwrap_or_default(),
        age: ago(holder.since, context.now),
    }
}
