//! What the runtime says of the container's names (capabilities `aliases` and `dns`).

use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;

use model::{Dns, HostName, ResolverOption, Result, SearchDomain};

use crate::call::Call;
use crate::capability;
use crate::plugin_type::Plugin;
use crate::wire::{Command, Node, Object};

/// More names than this are too many.
const MOST_ALIASES: usize = 64;
/// No resolver asks as many servers, or domains (resolv.conf(5)).
const MOST_SERVERS: usize = 16;
const MOST_DOMAINS: usize = 32;
const MOST_OPTIONS: usize = 32;

/// What the runtime calls the container on the network besides: a list, or a list for each network as Podman 4
/// sends. What cannot be a name is none.
pub(super) fn aliases(call: &Call<'_>) -> Vec<HostName> {
    let Ok(Some(runtime)) = call.config.runtime() else { return Vec::new() };
    let Some(node) = runtime.get(capability::ALIASES) else { return Vec::new() };
    let of_network = || node.value().get(call.config.name().as_str());
    let list = node.value().as_array().or_else(|| of_network()?.as_array());
    let texts = list.into_iter().flatten().take(MOST_ALIASES).filter_map(|it| it.as_str());
    let mut aliases: Vec<HostName> = texts.filter_map(|text| text.parse().ok()).collect();
    aliases.sort();
    aliases.dedup();
    aliases
}

/// What the container resolves names with, as the runtime says: containerd and CRI-O give a pod's `dnsConfig` so.
/// The reference plugins pass over it, and so do those of Spoke that are called as they are.
pub(super) fn dns(call: &Call<'_>) -> Result<Dns> {
    let is_made = matches!(call.command, Command::Add | Command::Check);
    if call.plugin != Plugin::Spoke || !is_made {
        return Ok(Dns::default());
    }
    let given =
        call.config.runtime()?.map(|runtime| runtime.object(capability::DNS)).transpose()?;
    let Some(given) = given.flatten() else { return Ok(Dns::default()) };
    Ok(Dns {
        nameservers: servers(&given)?,
        domain: None,
        search: texts::<SearchDomain>(&given, "searches", MOST_DOMAINS)?,
        options: texts::<ResolverOption>(&given, "options", MOST_OPTIONS)?,
    })
}

/// The servers that can be asked. Runtimes pass on what the host's file says: an address with a zone
/// (`fe80::1%eth0`), which means nothing in another namespace, is left out as Spoke leaves it out there.
fn servers(given: &Object<'_>) -> Result<Vec<String>> {
    let mut servers = Vec::new();
    for item in items(given, "servers", MOST_SERVERS)? {
        servers.extend(item.text()?.parse::<IpAddr>().ok().map(|it| it.to_string()));
    }
    Ok(servers)
}

/// The list in a field, each item of which is a `T`.
fn texts<T: FromStr<Err: Display> + Display>(
    given: &Object<'_>,
    key: &str,
    most: usize,
) -> Result<Vec<String>> {
    let items = items(given, key, most)?;
    items.iter().map(|item| item.parse::<T>().map(|it| it.to_string())).collect()
}

fn items<'a>(given: &Object<'a>, key: &str, most: usize) -> Result<Vec<Node<'a>>> {
    let Some(node) = given.get(key) else { return Ok(Vec::new()) };
    let items = node.list()?;
    match items.len() > most {
        true => Err(node.wrong(format!("which has more than {most} items"))),
        false => Ok(items),
    }
}
