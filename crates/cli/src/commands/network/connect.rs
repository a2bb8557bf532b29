//! `spoke network connect` and `disconnect`: sandboxes that Spoke itself connects to networks, as
//! libnetwork's controller does.

pub(crate) mod guest;
pub(crate) mod naming;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use docker::driver::Within;
use engine::{Engine, Request};
use libnetwork::parameters::{EndpointParameters, ExposedParameter};
use model::{
    Attachment, AttachmentId, Backend, ContainerId, EgressPolicy, Error, Fence, IfName, Kind,
    Labels, Layer, Link, LinkKind, Network, NetworkName, OwnerName, Phase, Publish, Result,
    Runtime, Sandbox, Wiring,
};

use naming::Moved;

use crate::answer::Answer;
use crate::args::{ConnectArgs, DisconnectArgs, JoinedArgs, MadeArgs};
use crate::context::CommandContext;
use crate::output::{Output, names, render};
use crate::titles;
use crate::view::AttachmentView;

/// The prefix of interface names where none is given.
const PREFIX: &str = "eth";

/// Several networks are connected at once, and each wants the lowest name that is free.
const RACES: usize = 32;

/// No sandbox has more interfaces.
const MOST_INTERFACES: u32 = 10_000;

/// Where `ip netns` keeps namespaces by name.
const NAMED: &str = "run/netns";

pub(super) fn connect(
    wanted: &ConnectArgs,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    if wanted.tap.tap {
        return guest::connect(wanted, output, context);
    }
    let engine = (context.engine)()?;
    let network = Network { runtime: Runtime::Spoke, ..engine.networks.joined(&wanted.network)? };
    let mut wiring = wiring(&wanted.made, &network, context.backend)?;
    if let Some(link) = &mut wiring.link {
        link.name = wanted.joined.ifname.clone().or(link.name.take());
    }
    let (path, called) = find(&wanted.sandbox, &context.root);
    let how = naming::connecting(&wanted.made, wanted.joined.gw_priority, &network)?;
    naming::refuse_nameless(&how.dns, &wanted.sandbox, &path, &context.root)?;
    let container = wanted.joined.container.clone().map_or_else(|| called.parse(), Ok)?;
    let known = engine.records.connected(&container)?;
    let labels = Labels::of(wanted.made.labels.iter().cloned())?;
    refuse_apart(&engine, &network.name, &container)?;
    guest::refuse_guest(&engine, &network.name, &container)?;
    refuse_familyless(&wanted.made, &network, &known)?;
    let mut tries = 0;
    loop {
        let within = host::sandbox::inspect(&path)?.ok_or_else(|| no_sandbox(&wanted.sandbox))?;
        let again = known.iter().find(|record| record.id.network == network.name);
        let ifname = match again.filter(|_| wanted.joined.ifname.is_none()) {
            Some(again) => again.id.ifname.clone(),
            None => interface(&wanted.joined, &known, &within)?,
        };
        let request = Request {
            layer: Layer::Link,
            container: container.clone(),
            ifname: ifname.clone(),
            names: Vec::new(),
            dns: model::Dns::default(),
            owner: lasting_name(&container, &network),
            sandbox: Some(Sandbox { path: path.clone(), inode: within.inode }),
            wiring: wiring.clone(),
            ipam: network.ipam.clone(),
            wanted: addresses(&wanted.made),
            labels: labels.clone(),
            addresses: Vec::new(),
            network: network.clone(),
        };
        match engine.networks.connect(&request, how.clone()) {
            // Another process took the name meanwhile.
            Err(error) if error.kind() == Kind::Conflict && tries < RACES => {
                let is_chosen = wanted.joined.ifname.is_none();
                if !is_chosen || !is_taken_since(&ifname, &within, &path)? {
                    return Err(error);
                }
                tries += 1;
            }
            Err(error) => return Err(error),
            Ok(attachment) => {
                inspect_sandbox(&engine, &container, context);
                let network = &attachment.id.network;
                let moved = Moved { container: &container, path: Some(&path), network };
                let notes = naming::name(&engine, &moved, &context.root);
                return Ok(Answer { notes, ..shown(&attachment, output)? });
            }
        }
    }
}

/// The name under which one that returns gets its addresses again, on a sticky network.
fn lasting_name(container: &ContainerId, network: &Network) -> Option<OwnerName> {
    // A name that no owner can have keeps nothing.
    network.sticky.then(|| container.as_str().parse().ok()).flatten()
}

/// libnetwork asks each driver of the container's endpoints for what it says of them, whenever one
/// has come and the default route is chosen (EndpointOperInfo). Nothing depends on it.
pub(crate) fn inspect_sandbox(
    engine: &Engine<'_>,
    container: &ContainerId,
    context: &CommandContext,
) {
    let records = engine.records.connected(container).unwrap_or_default();
    let is_remote = |record: &&Attachment| {
        matches!(record.phase, Phase::Attached(_)) && record.wiring.is_remote()
    };
    for record in records.iter().filter(is_remote) {
        if let Ok(foreign) = (context.foreign)() {
            // libnetwork asks for it too; the answer has no effect.
            let _ = foreign.remote.info(record);
        }
    }
}

pub(super) fn disconnect(
    wanted: &DisconnectArgs,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let engine = (context.engine)()?;
    let name = titles::meant(&engine, &wanted.network)?;
    let mut connected = engine.records.connected(&wanted.container)?;
    connected.extend(engine.attachments.guests(&name, &wanted.container)?);
    let on_it: Vec<&Attachment> =
        connected.iter().filter(|record| record.id.network == name).collect();
    if on_it.is_empty() && !wanted.force {
        return Err(Error::not_found(format!(
            "container {} is not connected to network {} by this command; `spoke ps` shows who is \
             on it",
            wanted.container, wanted.network
        )));
    }
    let mut done = Ok(());
    for record in &on_it {
        done = done.and_then(|()| engine.networks.disconnect(&record.id));
    }
    let moved = Moved { container: &wanted.container, path: path_of(&on_it), network: &name };
    let notes = naming::name(&engine, &moved, &context.root);
    done?;
    let gone: Vec<String> = on_it.iter().map(|record| record.id.container.to_string()).collect();
    Ok(Answer { notes, ..Answer::text(names(output, &gone)?) })
}

/// Where the sandbox of these is, if all are in one.
pub(crate) fn path_of<'r>(records: &[&'r Attachment]) -> Option<&'r Path> {
    let mut paths =
        records.iter().map(|record| record.sandbox.as_ref().map(|it| it.path.as_path()));
    let first = paths.next()??;
    paths.all(|path| path == Some(first)).then_some(first)
}

/// Where the namespace is, and what its container is called where none is given.
pub(crate) fn find(sandbox: &str, root: &Path) -> (PathBuf, String) {
    let path = Path::new(sandbox);
    if !sandbox.is_empty() && sandbox.bytes().all(|byte| byte.is_ascii_digit()) {
        return (root.join("proc").join(sandbox).join("ns/net"), sandbox.to_owned());
    }
    if !sandbox.contains('/') {
        return (root.join(NAMED).join(sandbox), sandbox.to_owned());
    }
    let name = match path.strip_prefix("/proc").map(|rest| rest.iter().next()) {
        Ok(Some(process)) => Some(process),
        Ok(None) | Err(_) => path.file_name(),
    };
    let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    (path.to_owned(), name)
}

pub(crate) fn no_sandbox(given: &str) -> Error {
    Error::not_found(format!(
        "{given} is no network namespace: give a path, a name below /run/netns, or a process's id"
    ))
}

/// The name of the interface: the given one, or the first free one.
pub(crate) fn interface(
    wanted: &JoinedArgs,
    known: &[Attachment],
    within: &Within,
) -> Result<IfName> {
    if let Some(name) = &wanted.ifname {
        return Ok(name.clone());
    }
    let taken: BTreeSet<&IfName> = known.iter().map(name_of).collect();
    for number in 0..MOST_INTERFACES {
        let name: IfName = format!("{PREFIX}{number}").parse()?;
        if !within.links.contains(&name) && !taken.contains(&name) {
            return Ok(name);
        }
    }
    Err(Error::exhausted(format!("{MOST_INTERFACES} interfaces are called {PREFIX}…")))
}

/// The name of an attachment's interface in its sandbox.
pub(crate) fn name_of(record: &Attachment) -> &IfName {
    let given = record.wiring.link.as_ref().and_then(|link| link.name.as_ref());
    given.unwrap_or(&record.id.ifname)
}

/// Whether another process took the name after the sandbox was read.
pub(crate) fn is_taken_since(name: &IfName, before: &Within, path: &Path) -> Result<bool> {
    let now = host::sandbox::inspect(path)?;
    let is_there = now.is_some_and(|now| now.links.contains(name));
    Ok(is_there && !before.links.contains(name))
}

/// Of one name there is one endpoint on a network, or what was connected under it at once.
fn refuse_apart(engine: &Engine<'_>, network: &NetworkName, name: &ContainerId) -> Result<()> {
    let ifname = engine::APART.parse()?;
    let id = AttachmentId { network: network.clone(), container: name.clone(), ifname };
    match engine.records.attachment(&id)? {
        Some(_) => Err(Error::conflict(format!(
            "endpoint {name} of network {network} is there already; join it with `spoke endpoint join \
             {network} {name} SANDBOX`, or name the container otherwise with --container"
        ))),
        None => Ok(()),
    }
}

/// The addresses that are asked for.
pub(crate) fn addresses(wanted: &MadeArgs) -> Vec<IpAddr> {
    let v4 = wanted.ip.map(IpAddr::V4);
    v4.into_iter().chain(wanted.ip6.map(IpAddr::V6)).collect()
}

/// The network's wiring with the requested properties.
pub(crate) fn wiring(wanted: &MadeArgs, network: &Network, backend: Backend) -> Result<Wiring> {
    let mut wiring = network.wiring.clone();
    let rules = wanted.egress.clone();
    wiring.own_fence = Fence::strictly(rules, ("--egress-strict", wanted.egress_strict))?;
    let link = wiring.link.as_mut().ok_or_else(|| {
        Error::unsupported(format!("network {} has nothing to connect to", network.name))
    })?;
    link.mac = wanted.mac_address.or(link.mac);
    say(wanted, link)?;
    let template = wiring.publish.take().unwrap_or(Publish::new(backend));
    if wanted.publish.is_empty() || is_internal(network) {
        return Ok(wiring);
    }
    let kind = wiring.link.as_ref().map(|link| &link.kind);
    let bridge = kind.and_then(LinkKind::bridge);
    if !kind.is_some_and(LinkKind::has_ports) {
        return Err(Error::invalid(format!(
            "--publish: containers on network {} are reached past this host's packet filter",
            network.name
        )));
    }
    let behind = bridge.map(|bridge| bridge.name.clone());
    wiring.publish = Some(Publish { ports: wanted.publish.clone(), behind, ..template });
    Ok(wiring)
}

/// The endpoint's options for a Docker plugin.
fn say(wanted: &MadeArgs, link: &mut Link) -> Result<()> {
    let LinkKind::Remote(remote) = &mut link.kind else {
        return match wanted.driver_options.first() {
            None => Ok(()),
            Some((key, _)) => Err(Error::invalid(format!(
                "--driver-opt {key}: only Docker plugins have options of endpoints"
            ))),
        };
    };
    let exposed = wanted.expose.iter();
    remote.endpoint = EndpointParameters {
        options: wanted.driver_options.iter().cloned().collect(),
        exposed: exposed.map(|&(protocol, port)| ExposedParameter { protocol, port }).collect(),
        dns: wanted.dns.clone(),
    }
    .to_text()?;
    Ok(())
}

/// Refuses a port at an address of a family that the container will have no address of, as far as that is known: it
/// would lead nowhere. `known`: what the container has already; its ports may lead by these.
pub(crate) fn refuse_familyless(
    wanted: &MadeArgs,
    network: &Network,
    known: &[Attachment],
) -> Result<()> {
    let families = network.ipam.families();
    let own = addresses(wanted).into_iter().chain(families.iter().map(|it| it.unspecified()));
    let held = known.iter().flat_map(|record| &record.addresses).map(|it| it.address.addr());
    let all: Vec<IpAddr> = own.chain(held).collect();
    // Others may give addresses of both.
    if network.ipam.is_shared() || families.is_empty() {
        return Ok(());
    }
    for map in &wanted.publish {
        if let (Some(host), Some(family)) = (map.host, map.lacks(all.iter().copied())) {
            return Err(Error::invalid(format!(
                "--publish {map}: {host} is an address of {family}, and network {} has none of that family; name one of \
                 the other family, or none",
                network.called()
            )));
        }
    }
    Ok(())
}

fn is_internal(network: &Network) -> bool {
    let firewall = network.wiring.firewall.as_ref();
    firewall.is_some_and(|firewall| firewall.egress == EgressPolicy::Internal)
}

pub(crate) fn shown(attachment: &Attachment, output: Output) -> Result<Answer> {
    let view = AttachmentView::of(&[attachment])
        .ok_or_else(|| Error::bug(format!("{} cannot be shown", attachment.id)))?;
    let line = || {
        // A program opens a machine's device, and gives its interface the address.
        let interface = [view.tap.as_deref().unwrap_or(&view.interface)];
        let mac = view.mac.as_deref().filter(|_| view.tap.is_some());
        let words = interface.into_iter().chain(mac);
        let words: Vec<&str> = words.chain(view.addresses.iter().map(String::as_str)).collect();
        format!("{}\n", words.join(" "))
    };
    Ok(Answer::text(render(output, &view, line)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandboxes_are_found_as_they_are_called() {
        let found = |given: &str| {
            let (path, called) = find(given, Path::new("/"));
            format!("{} {called}", path.display())
        };
        assert_eq!(found("4711"), "/proc/4711/ns/net 4711");
        assert_eq!(found("web"), "/run/netns/web web");
        assert_eq!(found("/run/docker/netns/ab12"), "/run/docker/netns/ab12 ab12");
        assert_eq!(found("/proc/4711/ns/net"), "/proc/4711/ns/net 4711");
    }
}
