//! Names of a sandbox, and its resolver configuration.

use std::path::Path;

use engine::{Connecting, Engine};
use linux::names::Names;
use model::{ContainerId, Dns, Error, LinkKind, Network, NetworkName, Result};

use crate::args::MadeArgs;

/// No resolver asks as many servers, or domains (resolv.conf(5)).
const MOST_SERVERS: usize = 16;
const MOST_DOMAINS: usize = 32;
const MOST_OPTIONS: usize = 32;
/// The limit of names.
const MOST_NAMES: usize = 64;
const MOST_LINK_LOCAL: usize = 16;

/// How a sandbox is to be on the network.
pub(crate) fn connecting(
    wanted: &MadeArgs,
    priority: i32,
    network: &Network,
) -> Result<Connecting> {
    for (option, count, most) in [
        ("--dns", wanted.dns.len(), MOST_SERVERS),
        ("--dns-search", wanted.dns_search.len(), MOST_DOMAINS),
        ("--dns-option", wanted.dns_option.len(), MOST_OPTIONS),
        ("--alias", wanted.names.len(), MOST_NAMES),
        ("--link-local-ip", wanted.link_local.len(), MOST_LINK_LOCAL),
    ] {
        if count > most {
            return Err(Error::invalid(format!(
                "{option} is given {count} times; {most} are most"
            )));
        }
    }
    let dns = Dns {
        nameservers: wanted.dns.iter().map(ToString::to_string).collect(),
        domain: None,
        search: wanted.dns_search.iter().map(ToString::to_string).collect(),
        options: wanted.dns_option.iter().map(ToString::to_string).collect(),
    };
    refuse_link_local(wanted, network)?;
    let mut how = Connecting {
        priority,
        names: wanted.names.clone(),
        link_local: wanted.link_local.clone(),
        dns,
    };
    how.names.sort();
    how.names.dedup();
    how.link_local.sort();
    how.link_local.dedup();
    Ok(how)
}

/// Refuses resolver options where they would have no file.
pub(crate) fn refuse_nameless(dns: &Dns, sandbox: &str, path: &Path, root: &Path) -> Result<()> {
    if *dns != Dns::default() && names(root).name_of(path).is_none() {
        return Err(Error::invalid(format!(
            "--dns, --dns-search, --dns-option: {sandbox} has no name below /run/netns, and so no resolv.conf \
             of its own"
        )));
    }
    Ok(())
}

/// Third-party plugins give their interfaces the addresses that they have.
fn refuse_link_local(wanted: &MadeArgs, network: &Network) -> Result<()> {
    let kind = network.wiring.link.as_ref().map(|link| &link.kind);
    match (wanted.link_local.first(), kind) {
        (Some(first), Some(LinkKind::Chain(_))) => Err(Error::unsupported(format!(
            "--link-local-ip {first}: third-party CNI plugins make the interfaces of network {}",
            network.name
        ))),
        (_, _) => Ok(()),
    }
}

/// The attachment that came to a network, or left it.
pub(crate) struct Moved<'a> {
    pub(crate) container: &'a ContainerId,
    /// Where its sandbox is, or was.
    pub(crate) path: Option<&'a Path>,
    pub(crate) network: &'a NetworkName,
}

/// Writes the hosts files and resolver configuration of the sandbox and of those on its network, as
/// the store has them by now. Returns notes about this sandbox only. The networks work without it,
/// and the collector repairs what failed here.
pub(crate) fn name(engine: &Engine<'_>, moved: &Moved<'_>, root: &Path) -> Vec<String> {
    let own = moved.path.and_then(|path| names(root).name_of(path).map(str::to_owned));
    let named = match moved.path {
        Some(path) => engine.networks.name_sandbox(moved.container, path, moved.network),
        // An earlier process died before it could do this, for unknown sandboxes.
        None => engine.networks.name_sandboxes(),
    };
    match named {
        Ok(notes) => {
            let its = notes.into_iter().filter(|note| Some(&note.namespace) == own.as_ref());
            its.map(|note| note.sentence).collect()
        }
        Err(error) => vec![error.context("resolving names in sandboxes").to_string()],
    }
}

/// Only to find the names of namespaces.
fn names(root: &Path) -> Names {
    Names::new(root, "")
}
