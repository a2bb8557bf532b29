//! The addresses that other hosts of the cluster have, as the daemon knows them.

use std::collections::BTreeMap;

use explain::Elsewhere;
use host::hosts::{self, Ask, HostView, Reply};

use crate::commands::dns::is_in_cluster;
use crate::context::CommandContext;

/// None where this host is in no cluster, or its daemon does not answer: the walk ends at the bridge then.
pub(super) fn of(context: &CommandContext) -> Vec<Elsewhere> {
    if !is_in_cluster(context) {
        return Vec::new();
    }
    let ask = |ask| hosts::ask(&context.runtime, &ask);
    // A daemon that does not answer is waited for once.
    let Ok(Reply::Hosts(known)) = ask(Ask::Hosts) else { return Vec::new() };
    let Ok(Reply::Routes(routes)) = ask(Ask::Routes) else { return Vec::new() };
    let known: BTreeMap<&str, &HostView> =
        known.hosts.iter().map(|host| (host.name.as_str(), host)).collect();
    let of_others = routes.into_iter().filter_map(|route| {
        let host = known.get(route.host.as_str()).filter(|host| !host.own)?;
        Some(Elsewhere { net: route.net, host: host.name.clone(), trouble: trouble(host) })
    });
    of_others.collect()
}

fn trouble(host: &HostView) -> Option<String> {
    (host.state == "lost")
        .then(|| "that host is lost: its daemon does not renew its lease".to_owned())
}
