//! `spoke firewall`: what is open, whether the host's own firewall says otherwise, and which one published
//! ports obey.

mod allowed;
mod held;
mod state;

use std::collections::BTreeMap;
use std::path::Path;

use host::follow::Follow;
use linux::follow::{self, Followed, Judgement, State};
use model::{Attachment, Error, Family, LinkKind, Passage, Phase, Protocol, Result};
use netlink::Socket;
use serde::Serialize;

use crate::answer::{Answer, sentence};
use crate::args::firewall::FirewallCommand;
use crate::commands::ports::{self, PublishedView};
use crate::context::CommandContext;
use crate::daemon::start;
use crate::mapped::Mapped;
use crate::output::table::Table;
use crate::output::{Output, render};
use crate::titles::{Named, Titles, shown};
use allowed::Source;
use held::{Held, held};
use state::FirewallState;

pub(crate) fn run(
    command: &FirewallCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    match command {
        FirewallCommand::Status => status(output, context),
        FirewallCommand::Follow(wanted) => choose(wanted.firewall.0, output, context),
    }
}

/// A firewall that is to judge here and has no rules in the kernel, and what puts them back. Where that cannot be
/// read, there is nothing to say.
pub(crate) fn lost(context: &CommandContext) -> Option<(String, &'static str)> {
    let kept = place(context).and_then(|place| place.kept()).ok()?;
    state::lost(kept.as_ref(), &context.root, &mut Socket::netfilter().ok()?).ok()?
}

fn place(context: &CommandContext) -> Result<Follow> {
    let state =
        context.store.last().ok_or_else(|| Error::bug("no directory of the book is known"))?;
    let follow = Follow::new(state, &context.root);
    Ok(match context.store.first() {
        Some(runtime) => follow.with_book(runtime, state),
        None => follow,
    })
}

#[derive(Serialize)]
struct ChosenView {
    follow: Option<Followed>,
    /// `on`, `off` or `unknown`; null where nothing is followed.
    state: Option<&'static str>,
    notes: Vec<String>,
}

fn choose(firewall: Option<Followed>, output: Output, context: &CommandContext) -> Result<Answer> {
    let follow = place(context)?;
    if let Some(followed) = firewall {
        refuse_absent(followed, &context.root)?;
    }
    let held = follow.choose(firewall)?;
    let mut notes = Vec::new();
    if let Some(judgement) = &held {
        notes.extend(judgement.notes.iter().cloned());
        match &judgement.state {
            State::On => {}
            State::Off => notes.push(format!("{} is off: everything is open", judgement.by)),
            State::Unknown(why) => notes.push(format!("published ports are shut: {why}")),
        }
    }
    let view = ChosenView { follow: firewall, state: held.as_ref().map(state), notes };
    let text = render(output, &view, || match firewall {
        Some(followed) => format!("published ports obey {followed}\n"),
        None => "published ports obey no firewall\n".to_owned(),
    })?;
    Ok(Answer { notes: view.notes, ..Answer::text(text) })
}

fn refuse_absent(followed: Followed, root: &Path) -> Result<()> {
    if follow::is_there(followed, root, &mut Socket::netfilter()?)? {
        return Ok(());
    }
    Err(Error::not_found(match followed {
        Followed::Ufw => "there is no ufw here: /etc/ufw/ufw.conf or /etc/default/ufw is missing",
        Followed::Firewalld => {
            "firewalld does not run here: there is no table inet firewalld; start it first"
        }
    }))
}

fn state(judgement: &Judgement) -> &'static str {
    match judgement.state {
        State::On => "on",
        State::Off => "off",
        State::Unknown(_) => "unknown",
    }
}

#[derive(Serialize)]
struct StatusView {
    /// What published ports obey.
    follow: Option<Followed>,
    /// Whether nothing new comes to published ports: another program keeps removing the table that makes them obey.
    withdrawn: bool,
    firewalls: Vec<FirewallView>,
    ports: Vec<PortView>,
    routes: Vec<RouteView>,
    /// What a firewall says otherwise.
    otherwise: Vec<String>,
    /// Whether following a firewall would change that: not where all these ports are Docker's.
    #[serde(skip)]
    is_mended: bool,
    /// What is wrong with the firewalls themselves.
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct FirewallView {
    name: Followed,
    /// `on`, `off`, `unknown`, `away` (its rules are not in the kernel) or `panic` (it drops everything).
    state: &'static str,
    /// Why it is not known, or does not judge.
    why: Option<String>,
    /// Rules that are not understood, and what holds in their place.
    notes: Vec<String>,
}

#[derive(Serialize)]
struct PortView {
    #[serde(flatten)]
    port: PublishedView,
    /// The firewall that it obeys.
    obeys: Option<Followed>,
    /// By firewall: from where that lets this port of the host be reached; of the obeyed one by the rules that the kernel
    /// has, and nothing where these are others than it has now and are not known.
    allowed: BTreeMap<String, Vec<Source>>,
}

/// A network whose containers are reached past published ports of the host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct RouteView {
    network: String,
    /// What the runtime of its containers calls it.
    title: Option<String>,
    /// `everybody`, or the interfaces by which they come.
    from: Vec<String>,
    /// `published` ports, or `everything`.
    what: &'static str,
}

fn status(output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let records = engine.records.attachments()?;
    let aliases = engine.records.aliases()?;
    let mapped = Mapped::ask_all(&aliases, context);
    let kept = place(context)?.kept()?;
    let mut socket = Socket::netfilter()?;
    let seen = state::all(kept.as_ref(), &context.root, &mut socket)?;
    let withdrawn = follow::is_shut(&mut socket)?;
    let held = held(kept.as_ref(), &seen, withdrawn, &mut socket)?;
    let follow = kept.map(|kept| kept.follow);
    let titles = Titles::of(&engine.records.networks()?).with(&aliases);
    let mut published = ports::all(&records, &mapped);
    published.iter_mut().for_each(|port| titles.complete(port.named()));
    published.extend(ports::beside(&mapped));
    published.sort();
    let ports: Vec<PortView> =
        published.into_iter().map(|port| port_view(port, (follow, &held), &seen)).collect();
    let view = StatusView {
        follow,
        withdrawn,
        otherwise: all_otherwise(&ports, &seen),
        is_mended: ports.iter().any(|it| it.port.is_ours() && !otherwise(it, &seen).is_empty()),
        warnings: state::warnings(&seen, follow, withdrawn, &held, start(context)),
        firewalls: seen.iter().map(firewall_view).collect(),
        ports,
        routes: routes(&records, &titles),
    };
    let text = render(output, &view, || text(&view))?;
    Ok(Answer { notes: mapped.notes, ..Answer::text(text) })
}

fn firewall_view(seen: &FirewallState) -> FirewallView {
    let (name, notes) = (seen.judgement.by, seen.judgement.notes.clone());
    FirewallView { name, state: seen.state, why: seen.why.clone(), notes }
}

fn port_view(
    port: PublishedView,
    (follow, held): (Option<Followed>, &Held),
    seen: &[FirewallState],
) -> PortView {
    let follow = follow.filter(|_| port.is_ours());
    let protocol = port.protocol.parse::<Protocol>().map_or(0, Protocol::number);
    let address = port.host_ip.as_deref().and_then(|address| address.parse().ok());
    let known = seen.iter().filter(|seen| seen.is_known());
    let allowed = known.filter_map(|FirewallState { judgement, .. }| {
        // What is obeyed is what the kernel holds, whatever the firewall says now.
        let judgement = match held {
            Held::Former(former) if follow == Some(judgement.by) => former.as_deref()?,
            Held::Former(_) | Held::Current | Held::Nothing => judgement,
        };
        let sources = allowed::sources(judgement, (protocol, port.host_port), address);
        Some((judgement.by.to_string(), sources))
    });
    let allowed = allowed.collect();
    let obeys = follow.filter(|_| !matches!(held, Held::Nothing));
    PortView { obeys, allowed, port }
}

/// Of all ports; Docker has one for each family of addresses.
fn all_otherwise(ports: &[PortView], seen: &[FirewallState]) -> Vec<String> {
    let mut all: Vec<String> = ports.iter().flat_map(|port| otherwise(port, seen)).collect();
    all.dedup();
    all
}

/// What a firewall that is not obeyed would refuse.
fn otherwise(view: &PortView, seen: &[FirewallState]) -> Vec<String> {
    let port = &view.port;
    let is_open = |judgement: &&Judgement| {
        judgement.state == State::On && view.obeys != Some(judgement.by) && port.reach != "local"
    };
    let says = |judgement: &Judgement| {
        let allowed = view.allowed.get(&judgement.by.to_string())?;
        let from = allowed::text(allowed);
        (from != allowed::ANYWHERE).then(|| {
            let what = match port.reach {
                "lan" => "from the LAN",
                _ => "from anywhere",
            };
            let whose = match (port.is_beside, port.backend) {
                (true, _) => "; Docker publishes it, and follows no firewall: publish it at one address (-p ADDRESS:…), or \
                    on a network of `docker network create -d spoke`",
                (false, ports::BY_DOCKER) => "; Docker publishes it, and follows no firewall: publish it at one address \
                    (-p ADDRESS:…), or make the network without ports=docker",
                _ => "",
            };
            format!(
                "{}/{} of {} is reached {what}, but {} would let this host's port be reached from {from}{whose}",
                port.host_port, port.protocol, port.name, judgement.by
            )
        })
    };
    let judgements = seen.iter().filter(|seen| seen.state == "on").map(|seen| &seen.judgement);
    judgements.filter(is_open).filter_map(says).collect()
}

fn routes(records: &[Attachment], titles: &Titles) -> Vec<RouteView> {
    let mut all: Vec<RouteView> = records
        .iter()
        .filter(|record| matches!(record.phase, Phase::Attached(_)))
        .filter_map(|record| {
            let (mut network, mut title) = (record.network().to_string(), None);
            let runtime = &record.runtime.to_string();
            titles.complete(Named { network: &mut network, title: &mut title, runtime });
            let everybody = || vec!["everybody".to_owned()];
            let wiring = &record.wiring;
            let is_direct = [Family::V4, Family::V6].into_iter().any(|it| wiring.is_direct(it));
            let kind = &wiring.link.as_ref()?.kind;
            match wiring.passage() {
                _ if is_direct && !matches!(kind, LinkKind::Neutron(_)) => {
                    Some(RouteView { network, title, from: everybody(), what: "everything" })
                }
                Passage::Everybody | Passage::EverybodyOf(_) => {
                    Some(RouteView { network, title, from: everybody(), what: "published ports" })
                }
                Passage::Trusted(names) => Some(RouteView {
                    network,
                    title,
                    from: names.iter().map(ToString::to_string).collect(),
                    what: "published ports",
                }),
                Passage::Unjudged => None,
            }
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

fn text(view: &StatusView) -> String {
    let firewalls: Vec<String> =
        view.firewalls.iter().map(|firewall| firewall.name.to_string()).collect();
    let mut headings: Vec<String> =
        ["PORT", "HOST IP", "NAME", "RUNTIME", "NETWORK", "REACH"].map(str::to_owned).into();
    headings.extend(firewalls.iter().map(|name| name.to_uppercase()));
    headings.push("OBEYS".to_owned());
    let mut table = Table::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    for row in &view.ports {
        let port = &row.port;
        let mut cells = vec![
            format!("{}/{}", port.host_port, port.protocol),
            port.host_ip.clone().unwrap_or_else(|| "*".to_owned()),
            port.name.clone(),
            port.runtime.clone(),
            port.network().to_owned(),
            port.reach.to_owned(),
        ];
        let allowed = |name: &String| row.allowed.get(name).map(|all| allowed::text(all));
        cells.extend(firewalls.iter().map(|name| allowed(name).unwrap_or_else(|| "?".to_owned())));
        cells.push(row.obeys.map_or_else(|| "none".to_owned(), |obeys| obeys.to_string()));
        table.row(cells);
    }
    let mut lines = table.text();
    for route in &view.routes {
        let network = shown(&route.title, &route.network);
        let from = route.from.join(", ");
        lines += &format!("{network}: {} reached by routes, from {from}\n", route.what);
    }
    for firewall in &view.firewalls {
        let why = firewall.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let state = if firewall.state == "panic" { "in panic mode" } else { firewall.state };
        lines += &format!("{} is {state}{why}\n", firewall.name);
        lines.extend(firewall.notes.iter().map(|note| format!("{}: {note}\n", firewall.name)));
    }
    for sentence in view.warnings.iter().chain(&view.otherwise) {
        lines += &format!("warn: {sentence}\n");
    }
    let on = view.firewalls.iter().find(|it| it.state == "on" && view.is_mended);
    if let (Some(firewall), None) = (on, view.follow) {
        lines += &format!("  fix: spoke firewall follow {}\n", firewall.name);
    }
    sentence(&lines) + "\n"
}
