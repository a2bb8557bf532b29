//! What `spoke host ls` shows: the hosts, what each has, and what keeps them from their work.

use std::collections::{BTreeMap, BTreeSet};

use cluster::View;
use cluster::book;
use host::hosts::{HostView, HostsView};
use host::time;
use model::{HostName, Mac, NetworkName, Result, Runtime, SharedName};

use super::no_member;
use crate::hosts::engines::{self, declared};
use crate::hosts::links::isolate::isolated;
use crate::hosts::{Hosts, State};

impl Hosts {
    /// The hosts as this one knows them.
    pub(super) fn list(&self) -> Result<HostsView> {
        self.wait_for_begin();
        let state = self.lock();
        let member = state.member.as_ref().ok_or_else(no_member)?;
        let begins = || (time::now(), "the daemon has only just started".to_owned());
        let lost = state.lost.clone().or_else(|| state.is_beginning().then(begins));
        let Some(view) = &state.view else {
            return Ok(HostsView { lost, ..HostsView::default() });
        };
        let (containers, mut blocks) = (containers(view), blocks(view));
        let hosts = view.hosts.iter().map(|(name, host)| HostView {
            name: name.to_string(),
            address: host.address.to_string(),
            state: match (view.alive.contains(name), host.draining) {
                (false, _) => "lost",
                (true, true) => "draining",
                (true, false) => "up",
            }
            .to_owned(),
            draining: host.draining,
            labels: host.labels.pairs().clone(),
            etcd: view
                .servers
                .get(name)
                .map(|server| if server.voter { "server" } else { "learns" }.to_owned()),
            own: *name == member.name,
            containers: containers.get(name).copied().unwrap_or(0),
            blocks: blocks.remove(name).unwrap_or_default(),
        });
        Ok(HostsView { hosts: hosts.collect(), lost, notes: notes(&state) })
    }
}

/// How many containers each host has: in one pass, because others wait for what is read. One without names counts once
/// for each of its networks.
fn containers(view: &View) -> BTreeMap<&HostName, usize> {
    let mut seen: BTreeMap<&HostName, BTreeSet<ContainerKey<'_>>> = BTreeMap::new();
    for ((host, network, address), (endpoint, _)) in &view.endpoints {
        if view.networks.get(network).is_none_or(|network| !network.is_gateway(*address)) {
            let seen_as = match endpoint.names.is_empty() {
                true => ContainerKey::At(network, endpoint.mac),
                false => ContainerKey::Called(endpoint.runtime, &endpoint.names),
            };
            seen.entry(host).or_default().insert(seen_as);
        }
    }
    seen.into_iter().map(|(host, seen)| (host, seen.len())).collect()
}

/// The key by which addresses are known to be of one container.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum ContainerKey<'a> {
    At(&'a NetworkName, Mac),
    Called(Option<Runtime>, &'a [SharedName]),
}

/// The blocks of each host, by network.
fn blocks(view: &View) -> BTreeMap<&HostName, BTreeMap<String, String>> {
    let mut all: BTreeMap<_, BTreeMap<String, String>> = BTreeMap::new();
    for ((name, net), (host, _)) in &view.blocks {
        if view.networks.get(name).is_some_and(|network| network.is_block(net)) {
            let of_host = all.entry(host).or_default();
            let joined = of_host.entry(name.to_string()).or_default();
            if !joined.is_empty() {
                joined.push(' ');
            }
            joined.push_str(&net.to_string());
        }
    }
    all
}

fn notes(state: &State) -> Vec<String> {
    let damaged = state.view.iter().flat_map(|view| &view.damaged);
    let damaged = damaged.map(|(key, why)| format!("not used, {key}: {why}"));
    // Most sentences name the network themselves.
    let failures = state.failures.iter().map(|(name, why)| match why.contains(name.as_str()) {
        true => why.clone(),
        false => format!("network {name}: {why}"),
    });
    let failures = failures.chain(engines::failures(state)).chain(declared::failures(state));
    let refused = state.refused.iter().map(|why| format!("not used, {why}"));
    let untended = state.untended.iter().chain(&state.unwritten).cloned();
    let untended = untended.chain(state.view.as_ref().and_then(book::rotating));
    let broken = state.broken.iter().chain(&state.narrow).cloned();
    let broken = isolated(&state.isolated).into_iter().chain(broken);
    let unknown = state.view.iter().flat_map(View::unknown);
    let damaged = damaged.chain(unknown);
    let all = failures.chain(untended).chain(broken).chain(refused).chain(damaged);
    let mut seen = BTreeSet::new();
    all.filter(|note| seen.insert(note.clone())).collect()
}
