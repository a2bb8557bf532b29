//! `spoke port`: ports of the host are published and withdrawn while their container runs.

use engine::Engine;
use model::{Amendment, Attachment, Error, Kind, Phase, PortMap, Result, Runtime};
use serde::Serialize;

use super::args::{Output, PortAddArgs, PortCommand, PortLsArgs, PortRmArgs};
use super::container::{Called, attachments, leading};
use super::output::{Shown, list, names};
use super::table::Table;
use super::view::remote::serves;
use super::{Answer, HostContext};

/// A port of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct PortRow {
    name: String,
    host_port: u16,
    protocol: String,
    /// The host's address; null: all of them.
    host_ip: Option<String>,
    container_port: u16,
    /// Whether `spoke port add` published it.
    added: bool,
    /// `published` or `waiting`.
    state: &'static str,
    runtime: String,
    network: String,
}

pub(super) fn run(
    command: &PortCommand,
    output: Output,
    host_context: &HostContext,
) -> Result<Answer> {
    match command {
        PortCommand::Add(wanted) => add(wanted, output, host_context),
        PortCommand::Rm(wanted) => rm(wanted, output, host_context),
        PortCommand::Ls(wanted) => ls(wanted, output, host_context),
    }
}

fn add(wanted: &PortAddArgs, output: Output, host_context: &HostContext) -> Result<Answer> {
    let engine = (host_context.engine)()?;
    let called = Called::of(&wanted.container);
    let found = attachments(&engine, &called, wanted.network.as_ref(), host_context)?;
    let Some(attachment) = leading(found) else { return Err(Error::bug("a container of nothing")) };
    let map = PortMap { host: one_address(wanted.port.host, wanted.ip)?, ..wanted.port.clone() };
    engine.add_port(&attachment.id, &map)?;
    Ok(Answer::text(names(output, &[map.to_string()])?))
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

fn rm(wanted: &PortRmArgs, output: Output, host_context: &HostContext) -> Result<Answer> {
    let engine = (host_context.engine)()?;
    let called = Called::of(&wanted.container);
    let mut port = wanted.port;
    port.host = one_address(port.host, wanted.ip)?;
    let network = wanted.network.as_ref();
    let found = match attachments(&engine, &called, network, host_context) {
        Err(error) if error.kind() == Kind::NotFound => {
            return forget(&engine, wanted, output, error);
        }
        found => found?,
    };
    let mut gone: Vec<PortMap> = Vec::new();
    let mut failed = Ok(());
    for attachment in &found {
        match engine.remove_port(&attachment.id, &port) {
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
    let mut gone = Vec::new();
    for kept in engine.amendments()? {
        if called.is_name(kept.runtime, kept.name.as_str()) {
            let network = wanted.network.as_ref();
            gone.extend(engine.forget_port((kept.runtime, &kept.name), network, &port)?);
        }
    }
    if gone.is_empty() {
        return Err(unknown);
    }
    let gone: Vec<String> = gone.iter().map(ToString::to_string).collect();
    Ok(Answer::text(names(output, &gone)?))
}

fn ls(wanted: &PortLsArgs, output: Output, host_context: &HostContext) -> Result<Answer> {
    let engine = (host_context.engine)()?;
    let (records, kept) = (engine.attachments()?, engine.amendments()?);
    let mut rows = rows(&records, &kept);
    if let Some(container) = &wanted.container {
        let called = Called::of(container);
        let known = attachments(&engine, &called, None, host_context);
        let whose = |it: &Attachment| (it.runtime.to_string(), it.container_name());
        let known: Vec<_> = known.unwrap_or_default().iter().map(whose).collect();
        let kept: Vec<_> = kept
            .iter()
            .filter(|it| called.is_name(it.runtime, it.name.as_str()))
            .map(|it| (it.runtime.to_string(), it.name.to_string()))
            .collect();
        rows.retain(|row| {
            let whose = (row.runtime.clone(), row.name.clone());
            known.contains(&whose) || kept.contains(&whose)
        });
        if rows.is_empty() && known.is_empty() {
            // Says which containers there are.
            attachments(&engine, &called, None, host_context)?;
        }
    }
    let name = |row: &PortRow| format!("{}/{}", row.host_port, row.protocol);
    Ok(Answer::text(list(output, &wanted.listing, &rows, Shown { name: &name, table: &table })?))
}

fn rows(records: &[Attachment], kept: &[Amendment]) -> Vec<PortRow> {
    let complete = records
        .iter()
        .filter(|record| matches!(record.phase, Phase::Attached(_)) && serves(record));
    let mut rows = Vec::new();
    for record in complete {
        if let Some(publish) = &record.wiring.publish {
            let ports = publish.ports.iter();
            let name = &name_of(record, records);
            rows.extend(ports.map(|map| row(name, record, map, publish.added.contains(map))));
        }
    }
    for amendment in kept {
        for map in &amendment.ports {
            let waiting = PortRow {
                name: amendment.name.to_string(),
                added: true,
                state: "waiting",
                runtime: amendment.runtime.to_string(),
                network: amendment.network.to_string(),
                ..of(map)
            };
            // A sandbox's port may be led over another of its networks.
            let is_it = |row: &PortRow| {
                let network = match amendment.runtime {
                    Runtime::Spoke => waiting.network.clone(),
                    _ => row.network.clone(),
                };
                PortRow { state: "waiting", network, ..row.clone() } == waiting
            };
            if !rows.iter().any(is_it) {
                rows.push(waiting);
            }
        }
    }
    rows.sort();
    rows.dedup();
    rows
}

/// Only one layer's record may know the container's lasting name.
fn name_of(record: &Attachment, records: &[Attachment]) -> String {
    let mut layers = records.iter().filter(|it| it.id == record.id && it.owner.is_some());
    layers.next().unwrap_or(record).container_name()
}

fn row(name: &str, record: &Attachment, map: &PortMap, added: bool) -> PortRow {
    PortRow {
        name: name.to_owned(),
        added,
        runtime: record.runtime.to_string(),
        network: record.id.network.to_string(),
        ..of(map)
    }
}

fn of(map: &PortMap) -> PortRow {
    PortRow {
        name: String::new(),
        host_port: map.host_port.get(),
        protocol: map.protocol.to_string(),
        host_ip: map.host.map(|host| host.to_string()),
        container_port: map.container_port.get(),
        added: false,
        state: "published",
        runtime: String::new(),
        network: String::new(),
    }
}

fn table(rows: &[PortRow]) -> Table {
    let mut table =
        Table::new(&["PORT", "HOST IP", "TO", "BY", "STATE", "NAME", "RUNTIME", "NETWORK"]);
    for row in rows {
        table.row([
            format!("{}/{}", row.host_port, row.protocol),
            row.host_ip.clone().unwrap_or_else(|| "*".to_owned()),
            row.container_port.to_string(),
            if row.added { "port add".to_owned() } else { "runtime".to_owned() },
            row.state.to_owned(),
            row.name.clone(),
            row.runtime.clone(),
            row.network.clone(),
        ]);
    }
    table
}
