//! Decides from one snapshot what is alive. In doubt it is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use engine::Live;
use model::{AliasId, AttachmentId, ContainerId, Space};

use super::snapshot::{Sighting, Snapshot};
use super::store_view::{DockerRecords, HeldEndpoint, HeldLease, HeldSubnet};
use crate::api::Endpoint;

/// The records in the store that are in use.
pub(super) fn live(held: &DockerRecords, snapshot: &Snapshot) -> Live {
    let mut live = Live { networks: networks(held, snapshot), ..Live::default() };
    let spaces = spaces(held);
    for endpoint in snapshot.networks.values().filter_map(|s| s.endpoints.as_ref()).flatten() {
        live.addresses.extend(addresses(endpoint, &spaces));
    }
    for subnet in &held.subnets {
        let users = snapshot.users(&subnet.id).count();
        let is_judged = may_be_judged(subnet, held, snapshot);
        if users > 0 || !is_judged {
            live.subnets.insert(subnet.id.clone());
        }
        if users > 0 && is_judged {
            live.shares.insert(subnet.id.clone(), users);
        }
    }
    let alive = alive(held, &live);
    for lease in &held.leases {
        let is_used = lease.user.as_ref().is_some_and(|user| alive.contains(user));
        if is_used || !is_reported(lease, snapshot, &live) {
            live.addresses.insert((lease.subnet.space.clone(), lease.address));
        }
    }
    live
}

/// The spaces in which an address that an engine lists may be held: it does not name them.
fn spaces(held: &DockerRecords) -> BTreeSet<Space> {
    let of_leases = held.leases.iter().map(|lease| lease.subnet.space.clone());
    of_leases.filter(Space::has_networks).chain([Space::Host]).collect()
}

fn addresses(
    endpoint: &Endpoint,
    spaces: &BTreeSet<Space>,
) -> impl Iterator<Item = (Space, IpAddr)> {
    let of = |address: IpAddr| spaces.iter().map(move |space| (space.clone(), address));
    endpoint.addresses.iter().flat_map(move |address| of(*address))
}

/// More that is alive, by what an engine says of its containers.
pub(super) fn add_running(
    held: &DockerRecords,
    live: &mut Live,
    running: Vec<(Option<AliasId>, Endpoint)>,
) {
    let spaces = spaces(held);
    for (network, endpoint) in running {
        live.addresses.extend(addresses(&endpoint, &spaces));
        if let Some(network) = network {
            let known = live.networks.entry(network).or_insert_with(|| Some(BTreeSet::new()));
            known.iter_mut().for_each(|known| {
                known.insert(endpoint.id.clone());
            });
        }
    }
}

/// A network that none of the engines which are asked has ever listed may be that of another one.
fn networks(
    held: &DockerRecords,
    snapshot: &Snapshot,
) -> BTreeMap<AliasId, Option<BTreeSet<ContainerId>>> {
    let ids = |sighting: &Sighting| {
        let endpoints = sighting.endpoints.as_ref()?;
        Some(endpoints.iter().map(|endpoint| endpoint.id.clone()).collect())
    };
    let seen = snapshot.networks.iter().map(|(id, sighting)| (id.clone(), ids(sighting)));
    let mut networks: BTreeMap<_, _> = seen.collect();
    for network in held.networks.iter().filter(|network| !network.is_of(&snapshot.engines)) {
        networks.entry(network.id.clone()).or_insert(None);
    }
    networks
}

/// Whether the subnet is known to belong to an engine that is asked, or is unused because no
/// network was made of it. On a bridge of Docker's own only its gateway shows that an engine which
/// is not asked has it.
pub(super) fn may_be_judged(
    subnet: &HeldSubnet,
    held: &DockerRecords,
    snapshot: &Snapshot,
) -> bool {
    let engines = &snapshot.engines;
    let mut of_network = held.networks.iter().filter(|known| known.network == subnet.network);
    let is_known = of_network.any(|known| known.is_of(engines));
    let is_listed = subnet.listed && subnet.lister.as_ref().is_none_or(|by| engines.contains(by));
    subnet.id.space.has_networks() && (is_listed || is_known || subnet.idle)
}

/// The endpoints that are in use, or may be.
fn alive(held: &DockerRecords, live: &Live) -> BTreeSet<AttachmentId> {
    let is_alive = |endpoint: &&HeldEndpoint| match &endpoint.network {
        None => true,
        Some(network) => match live.networks.get(network) {
            None => false,
            Some(None) => true,
            Some(Some(endpoints)) => endpoints.contains(&endpoint.id.container),
        },
    };
    held.endpoints.iter().filter(is_alive).map(|endpoint| endpoint.id.clone()).collect()
}

/// Whether the engines have listed all addresses of its subnet.
fn is_reported(lease: &HeldLease, snapshot: &Snapshot, live: &Live) -> bool {
    let mut users = snapshot.users(&lease.subnet).peekable();
    match users.peek() {
        Some(_) => users.all(|sighting| sighting.endpoints.is_some()),
        None => lease.subnet.space.has_networks() && !live.subnets.contains(&lease.subnet),
    }
}

#[cfg(test)]
mod tests;
