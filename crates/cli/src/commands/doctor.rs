//! `spoke doctor`: what is wrong with this host for containers, and the command that repairs it.

mod cluster;
mod daemon;
mod filter;
mod host;
mod kernel;
mod kurma;
mod lost_networks;
mod plugins;
mod ports;
pub(crate) mod removed;
mod source;
mod switch;
mod traffic;

use std::collections::BTreeSet;
use std::path::Path;

use ::host::facts::HostFacts;
use ::host::views::Clash;
use engine::Mode;
use model::{Attachment, Network, Result};

use crate::answer::{Answer, FOUND};
use crate::check::{Check, Status};
use crate::commands::{events, findings, install, stock};
use crate::context::CommandContext;
use crate::daemon::{enable, restart, start};
use crate::output::{Output, render};
use crate::titles::Titles;
use crate::view::FindingView;
use traffic::Overlap;

/// The usual directories of plugins.
const PLUGINS: [&str; 2] = ["opt/cni/bin", "usr/lib/cni"];

pub(crate) fn run(output: Output, context: &CommandContext) -> Result<Answer> {
    let checks = checks(context);
    let code = if checks.iter().any(|check| check.status == Status::Fail) { FOUND } else { 0 };
    Ok(Answer { code, ..Answer::text(render(output, &checks, || text(&checks))?) })
}

/// The results, as the page shows them.
pub(crate) fn shown(context: &CommandContext) -> Vec<page::shown::Check> {
    let shown = |check: Check| page::shown::Check {
        status: check.status.word().to_owned(),
        what: check.what,
        fix: check.fix,
        note: check.note,
    };
    checks(context).into_iter().map(shown).collect()
}

fn checks(context: &CommandContext) -> Vec<Check> {
    let mut checks = kernel::checks(&context.root);
    checks.extend(host::stores(context));
    let book = book(context, &mut checks);
    let is_read = book.is_some();
    let (networks, attachments) = book.unwrap_or_default();
    let networks = titles(context).entitled(networks);
    checks.extend(daemon::check(context, &networks));
    if is_read {
        // Each engine is asked once, and may take its time.
        let docker = (context.docker_networks)();
        checks.extend(removed::checks(context, (&networks, &attachments), docker.ids.as_ref()));
        checks.extend(lost_networks::check(context, docker.there));
    }
    checks.extend(crate::via::checks(&networks, &attachments, start(context)));
    checks.extend(traffic::forwarding(&context.root, &networks, &attachments));
    checks.extend(ports::checks(context, &attachments));
    match (context.facts)() {
        Ok(facts) => {
            checks.extend(filter::checks(facts.tables.as_ref(), &attachments, enable(context)));
            checks.extend(on_the_wire(context, &networks, &facts));
        }
        Err(error) => checks.push(
            Check::fail(format!("the kernel does not describe this host: {error}"), "")
                .without_fix(),
        ),
    }
    checks
        .extend(crate::commands::firewall::lost(context).map(|(what, fix)| Check::warn(what, fix)));
    checks.extend(plugins::checks(context, &networks));
    checks.extend(switch::checks(&networks, &attachments));
    checks.extend(cluster::checks(context));
    checks.extend(names(context));
    checks.extend(kurma::checks(context));
    checks.extend(plugins(context));
    checks.extend(lost_ports(context));
    checks.extend(used_up(context, &attachments));
    checks.extend(stock(context));
    checks.extend(events::contested(context).map(|what| {
        Check::warn(what, "find what else changes the packet filter of this host, and stop it")
    }));
    checks
}

/// What networks are called; their names in the book where that cannot be read, which is reported elsewhere.
fn titles(context: &CommandContext) -> Titles {
    let read = || Titles::read(&(context.engine)()?);
    read().unwrap_or_default()
}

/// What this host resolves names of networks with, where its operator wants that.
fn names(context: &CommandContext) -> Option<Check> {
    if !context.names_host {
        return None;
    }
    Some(match linux::resolved::Resolved::connect() {
        Ok(Some(_)) => Check::ok("this host resolves names of networks by systemd-resolved"),
        Ok(None) => Check::warn(
            "this host is to resolve names of networks, and systemd-resolved does not run",
            "spoke dns host prints the lines for dnsmasq",
        ),
        Err(error) => {
            let what = format!("this host does not resolve names of networks: {error}");
            Check::warn(what, "systemctl restart systemd-resolved")
        }
    })
}

fn on_the_wire(context: &CommandContext, networks: &[Network], facts: &HostFacts) -> Vec<Check> {
    let bridges = traffic::bridges(networks, facts);
    let mut checks = vec![traffic::policy(&facts.forward, &bridges, restart(context))];
    checks.extend(traffic::exposed(facts.exposed.as_deref(), enable(context)));
    checks.extend(traffic::bridge_filter(context, &facts.forward, &bridges));
    checks.extend(traffic::subnets(context, networks, facts));
    checks.extend(source::checks(networks, facts));
    checks.extend(traffic::mtu(networks, facts));
    checks
}

/// Subnets of this host that one of these networks and another one use, a sentence each with what repairs it.
pub(crate) fn clashes(
    context: &CommandContext,
    networks: &[Network],
    facts: &HostFacts,
) -> BTreeSet<Clash> {
    let in_book = |name: String| {
        let network = networks.iter().find(|network| network.name.as_str() == name)?;
        Some((network.name.clone(), network.runtime))
    };
    let clash = |Overlap { check, ours }: Overlap| {
        let sentence = match check.remedy() {
            Some(fix) => format!("{}; mend it with: {fix}", check.what),
            None => check.what.clone(),
        };
        Clash { sentence, networks: ours.into_iter().filter_map(in_book).collect() }
    };
    traffic::overlaps(context, networks, facts).into_iter().map(clash).collect()
}

/// Ports that were deleted in Neutron although containers have them.
fn lost_ports(context: &CommandContext) -> Vec<Check> {
    let lost = match (context.neutron)() {
        Ok(Some(neutron)) => neutron.lost_ports().unwrap_or_default(),
        // Without access to the cloud no lost port is known.
        Ok(None) | Err(_) => Vec::new(),
    };
    let reported = |lost: &neutron::port_update::Lost| {
        let what = format!("port {} of {} was deleted in Neutron", lost.port, lost.of);
        Check::fail(what, "start the container again")
    };
    lost.iter().map(reported).collect()
}

/// Containers whose packets are dropped until their period ends. What cannot be read is reported elsewhere.
fn used_up(context: &CommandContext, attachments: &[Attachment]) -> Vec<Check> {
    let Ok(engine) = (context.engine)() else { return Vec::new() };
    let is_over = |record: &&Attachment| {
        let used = engine.links.used_of(record).ok().flatten();
        record.quota().zip(used).is_some_and(|(quota, used)| used >= quota.bytes)
    };
    let titles = titles(context);
    let check = |record: &Attachment| {
        let (name, network) = (record.container_name(), titles.shown(record));
        let what = format!("{name} on {network} has used up its quota: its packets are dropped");
        let network = titles.in_commands(record);
        let note = format!("spoke limit --network {network} {name} --quota SIZE/PERIOD");
        Check::noted(Status::Warn, what, note)
    };
    attachments.iter().filter(is_over).map(check).collect()
}

/// Ports of Neutron's that are made ahead of need.
fn stock(context: &CommandContext) -> Vec<Check> {
    let orphans = || context.store.first().map_or(0, |runtime| stock::orphaned(runtime));
    let Ok(Some(neutron)) = (context.neutron)() else {
        return match orphans() {
            0 => Vec::new(),
            count => vec![Check::warn(
                format!("{count} ports are ready in a cloud that is not configured any more"),
                format!("put [neutron] back, and run {}", stock::DRAIN),
            )],
        };
    };
    let kinds = neutron.stock().unwrap_or_default();
    let troubles = stock::troubles(&neutron, &kinds);
    let mut checks: Vec<Check> =
        troubles.into_iter().map(|(what, fix)| Check::warn(what, fix)).collect();
    if checks.is_empty() {
        checks.extend(stock::summary(&neutron, &kinds).map(Check::ok));
    }
    checks
}

/// Networks and attachments; what the store has left over is noted.
fn book(
    context: &CommandContext,
    checks: &mut Vec<Check>,
) -> Option<(Vec<Network>, Vec<Attachment>)> {
    let read = || {
        let engine = (context.engine)()?;
        let found = findings::leftovers(&engine, Mode::DryRun, context);
        match found.failures.into_iter().next() {
            Some(error) => Err(error),
            None => Ok((found.findings, found.networks, engine.records.attachments()?)),
        }
    };
    match read() {
        Ok((leftovers, networks, attachments)) => {
            checks.extend(leaks(&leftovers));
            Some((networks, attachments))
        }
        Err(error) => {
            let error: model::Error = error;
            checks.push(
                Check::fail(format!("the address book cannot be read: {error}"), "").without_fix(),
            );
            None
        }
    }
}

/// One line for each kind of leftover.
fn leaks(findings: &[FindingView]) -> Vec<Check> {
    let count = |kind: &str, remedy: &str| {
        findings.iter().filter(|found| found.kind == kind && found.remedy == remedy).count()
    };
    let gone = [
        ("attachment", "attachments of containers that are gone"),
        ("lease", "addresses without an attachment"),
        ("file", "addresses of the reference plugins whose containers are gone"),
        ("link", "devices that no record knows"),
        ("switch-port", "ports of Open vSwitch that no record knows"),
        ("rules", "packet filter rules that no record knows"),
    ];
    let counted = gone.iter().map(|(kind, what)| (count(kind, "free"), what));
    let mut checks: Vec<Check> = counted
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| Check::fail(format!("{what}: {count}"), "spoke ipam check --fix"))
        .collect();
    let doubtful = count("attachment", "quarantine") + count("file", "keep");
    if doubtful > 0 {
        let what = format!("attachments of which nothing proves that they live: {doubtful}");
        checks.push(Check::warn(what, "spoke ipam check"));
    }
    let damaged = findings.iter().filter(|finding| finding.kind == "record");
    checks.extend(damaged.map(|finding| Check::warn(finding.why.clone(), "").without_fix()));
    if checks.is_empty() {
        checks.push(Check::ok("no leaked addresses, devices or rules"));
    }
    checks
}

fn plugins(context: &CommandContext) -> Vec<Check> {
    PLUGINS
        .iter()
        .filter_map(|directory| plugins_in(&context.root.join(directory), context))
        .collect()
}

fn plugins_in(directory: &Path, context: &CommandContext) -> Option<Check> {
    let states = install::states(directory, &context.executable).ok()?;
    let names = |wanted: &str| -> Vec<&str> {
        states.iter().filter(|plugin| plugin.state == wanted).map(|plugin| plugin.name).collect()
    };
    let shown = directory.display();
    let (foreign, other) = (names("foreign"), names("other-spoke"));
    let install = |options: &str| format!("spoke cni install --bin-dir {shown}{options}");
    if names("missing").len() == states.len() {
        None
    } else if !other.is_empty() {
        Some(Check::warn(format!("the plugins in {shown} are another build of Spoke"), install("")))
    } else if !foreign.is_empty() {
        let what = format!("plugins in {shown} are not Spoke's: {}", foreign.join(", "));
        Some(Check::warn(what, install(" --takeover")))
    } else {
        Some(Check::ok(format!("the plugins in {shown} are Spoke's")))
    }
}

fn text(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        text.push_str(&format!("{:4}  {}\n", check.status.word(), check.what));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("      fix: {fix}\n"));
        }
        if let Some(note) = &check.note {
            text.push_str(&format!("      note: {note}\n"));
        }
    }
    text
}
