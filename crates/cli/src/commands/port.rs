//! `spoke port`: ports of the host are published and withdrawn while their container runs.

use std::collections::BTreeMap;

use engine::Engine;
use model::{Amendment, Attachment, Error, Kind, PortMap, Result, Runtime};
use serde::Serialize;

use crate::answer::Answer;
use crate::args::{PortAddArgs, PortCommand, PortLsArgs, PortRmArgs};
use crate::commands::ports::{self, PublishedView};
use crate::container::{Called, attachments, leading, shown, waiting};
use crate::context::CommandContext;
use crate::mapped::Mapped;
use crate::output::table::Table;
use crate::output::{Output, Shown, list, names};
use crate::titles::entitle;

/// A port of a container. Of one that waits nothing is known but what was added.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct PortRow {
    #[serde(flatten)]
    port: PublishedView,
    /// `published` or `waiting`.
    state: &'static str,
}

pub(crate) fn run(
    command: &PortCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    match command {
        PortCommand::Add(wanted) => add(wanted, output, context),
        PortCommand::Rm(wanted) => rm(wanted, output, context),
        PortCommand::Ls(wanted) => ls(wanted, output, context),
    }
}

fn add(wanted: &PortAddArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let called = Called::of(&wanted.container);
    let found = attachments(&engine, &called, wanted.network.as_ref(), context)?;
    if wanted.network.is_some() {
        refuse_of_sandbox(&engine, &found, context)?;
    }
    let Some(attachment) = leading(found) else { return Err(Error::bug("a container of nothing")) };
    let map = PortMap { host: one_address(wanted.port.host, wanted.ip)?, ..wanted.port.clone() };
    engine.attachments.add_port(&attachment.id, &map)?;
    Ok(Answer::text(names(output, &[map.to_string()])?))
}

/// The ports of what `spoke network connect` connected are its sandbox's, and lead over its default route.
fn refuse_of_sandbox(
    engine: &Engine<'_>,
    chosen: &[Attachment],
    context: &CommandContext,
) -> Result<()> {
    let is_of_sandbox = |it: &&Attachment| it.runtime == Runtime::Spoke && it.sandbox.is_some();
    let Some(first) = chosen.iter().find(is_of_sandbox) else { return Ok(()) };
    let (name, runtime) = (first.container_name(), first.runtime);
    let called = format!("{runtime}:{name}");
    let all = attachments(engine, &Called::of(&called), None, context)?;
    // Where its default route goes is decided, and written down.
    let leads =
        |it: &Attachment| it.gateway_role.as_ref().is_some_and(|role| !role.families.is_empty());
    match leading(all).filter(leads) {
        Some(leads) if !chosen.iter().any(|it| it.id == leads.id) => Err(Error::invalid(format!(
            "the ports of {name} are its namespace's and follow its default route, which is by network {}: leave out \
             --network",
            leads.network()
        ))),
        Some(_) | None => Ok(()),
    }
}

/// The host's address, which can be said in two ways.
fn one_address(
    inside: Option<std::net::IpAddr>,
    beside: Option<std::net::IpAddr>,
) -> Result<Option<std::net::IpAddr>> {
    match (inside, beside) {
        (Some(one), Some(other)) if one != other => Err(Error::invalid(format!(
            "--ip {other}: the port names the address {one}; give one of them"
        ))),
        (one, other) => Ok(one.or(other)),
    }
}

fn rm(wanted: &PortRmArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let called = Called::of(&wanted.container);
    let mut port = wanted.port;
    port.host = one_address(port.host, wanted.ip)?;
    let network = wanted.network.as_ref();
    let found = match attachments(&engine, &called, network, context) {
        Err(error) if error.kind() == Kind::NotFound => {
            return forget(&engine, wanted, output, error);
        }
        found => found?,
    };
    let mut gone: Vec<PortMap> = Vec::new();
    let mut failed = Ok(());
    for attachment in &found {
        match engine.attachments.remove_port(&attachment.id, &port) {
            Ok(maps) => {
                gone.extend(maps.into_iter().filter(|map| !gone.contains(map)).collect::<Vec<_>>())
            }
            // Those of a sandbox are of each of its attachments.
            Err(error) => failed = failed.and(Err(error)),
        }
    }
    if gone.is_empty() {
        failed?;
    }
    let gone: Vec<String> = gone.iter().map(ToString::to_string).collect();
    Ok(Answer::text(names(output, &gone)?))
}

/// Of a container that is not attached only what its name keeps is known.
fn forget(
    engine: &Engine<'_>,
    wanted: &PortRmArgs,
    output: Output,
    unknown: Error,
) -> Result<Answer> {
    let called = Called::of(&wanted.container);
    let port = engine::HostPort { host: wanted.port.host.or(wanted.ip), ..wanted.port };
    let Some((runtime, name)) = waiting(engine, &called)? else { return Err(unknown) };
    let network = wanted.network.as_ref().map(|name| engine.records.meant(name)).transpose()?;
    let gone = engine.attachments.forget_port((runtime, &name), network.as_ref(), &port)?;
    if gone.is_empty() {
        return Err(unknown);
    }
    let gone: Vec<String> = gone.iter().map(ToString::to_string).collect();
    Ok(Answer::text(names(output, &gone)?))
}

fn ls(wanted: &PortLsArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let (records, kept) = shown(&engine, wanted.container.as_deref(), context)?;
    let aliases = engine.records.aliases()?;
    let is_all = wanted.container.is_none() && wanted.network.is_none();
    let mapped = match is_all {
        true => Mapped::ask_all(&aliases, context),
        false => Mapped::ask(&aliases, context),
    };
    let mut rows = rows(&records, &kept, &mapped);
    entitle(&engine, wanted.network.as_ref(), &mut rows, |row| row.port.named())?;
    rows.extend(ports::beside(&mapped).map(|port| PortRow { port, state: "published" }));
    rows.sort();
    rows.retain(|row| wanted.filters.iter().all(|filter| filter.holds(&row.port.labels)));
    let name = |row: &PortRow| format!("{}/{}", row.port.host_port, row.port.protocol);
    let table = |rows: &[PortRow]| table(rows, wanted.listing.no_trunc);
    let text = list(output, &wanted.listing, &rows, Shown { name: &name, table: &table })?;
    Ok(Answer { notes: mapped.notes, ..Answer::text(text) })
}

fn rows(records: &[Attachment], kept: &[Amendment], mapped: &Mapped) -> Vec<PortRow> {
    let published = ports::all(records, mapped).into_iter();
    let mut rows: Vec<PortRow> =
        published.map(|port| PortRow { port, state: "published" }).collect();
    for amendment in kept {
        let waiting = amendment.ports.iter().map(|map| waiting_port(amendment, map));
        let waiting: Vec<_> = waiting.filter(|port| !rows.iter().any(|it| is(it, port))).collect();
        rows.extend(waiting.into_iter().map(|port| PortRow { port, state: "waiting" }));
    }
    rows.sort();
    rows.dedup();
    rows
}

fn waiting_port(amendment: &Amendment, map: &PortMap) -> PublishedView {
    PublishedView {
        host_port: map.host_port.get(),
        protocol: map.protocol.to_string(),
        host_ip: map.host.map(|host| host.to_string()),
        container_port: map.container_port.get(),
        container_ip: None,
        container_ips: Vec::new(),
        lacks: None,
        added: true,
        reach: "",
        name: amendment.name.to_string(),
        container: String::new(),
        runtime: amendment.runtime.to_string(),
        network: amendment.network.to_string(),
        title: None,
        labels: BTreeMap::new(),
        backend: "",
        is_beside: false,
    }
}

/// Whether a row is what an added port has become: it may be led over another of the networks of its sandbox.
fn is(row: &PortRow, added: &PublishedView) -> bool {
    let port = &row.port;
    port.added
        && (&port.name, &port.runtime) == (&added.name, &added.runtime)
        && (port.host_port, port.container_port) == (added.host_port, added.container_port)
        && (&port.protocol, &port.host_ip) == (&added.protocol, &added.host_ip)
}

fn table(rows: &[PortRow], no_trunc: bool) -> Table {
    let headings = ["PORT", "HOST IP", "TO", "FROM", "BY", "STATE", "NAME", "RUNTIME", "NETWORK"];
    let mut table = Table::new(&headings);
    for PortRow { port, state } in rows {
        let by = if port.added { "port add" } else { "runtime" };
        table.row([
            format!("{}/{}", port.host_port, port.protocol),
            port.host_ip.clone().unwrap_or_else(|| "*".to_owned()),
            port.target(),
            port.reach.to_owned(),
            by.to_owned(),
            (*state).to_owned(),
            port.holder(no_trunc),
            port.runtime.clone(),
            port.network().to_owned(),
        ]);
    }
    table
}
