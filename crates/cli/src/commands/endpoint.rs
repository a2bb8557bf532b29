//! `spoke endpoint`: what `spoke network connect` and `disconnect` do at once, in its two halves each.

use engine::{Engine, Entering, Request};
use model::{
    Attachment, AttachmentId, ContainerId, Error, Kind, Labels, Layer, Network, NetworkName, Phase,
    Result, Runtime, Sandbox,
};

use crate::answer::Answer;
use crate::args::{
    EndpointCommand, EndpointCreateArgs, EndpointJoinArgs, EndpointLsArgs, EndpointRmArgs,
    NamedArgs,
};
use crate::commands::network::connect::naming::Moved;
use crate::commands::network::connect::{self, guest, naming};
use crate::commands::ps::shortened;
use crate::context::CommandContext;
use crate::output::table::Table;
use crate::output::{Output, Shown, in_order, json, list, names, render};
use crate::titles::{self, Named, Titles};
use crate::view::AttachmentView;

/// Several endpoints are joined at once, and each wants the lowest name that is free.
const RACES: usize = 32;

pub(crate) fn run(
    command: &EndpointCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    match command {
        EndpointCommand::Ls(wanted) => ls(wanted, output, context),
        EndpointCommand::Inspect(wanted) => inspect(wanted, output, context),
        EndpointCommand::Create(wanted) => create(wanted, output, context),
        EndpointCommand::Join(wanted) => join(wanted, output, context),
        EndpointCommand::Leave(wanted) => leave(wanted, output, context),
        EndpointCommand::Rm(wanted) => rm(wanted, output, context),
    }
}

fn ls(wanted: &EndpointLsArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let network = match &wanted.network {
        Some(name) => Some(engine.records.network(name)?.name),
        None => None,
    };
    let records = engine.records.attachments()?;
    let is_one = |record: &&Attachment| {
        is_endpoint(record) && network.as_ref().is_none_or(|name| record.id.network == *name)
    };
    let rows = records.iter().filter(is_one).filter_map(|record| AttachmentView::of(&[record]));
    let titles = Titles::read(&engine)?;
    let rows = rows.map(|mut row| {
        titles.complete(Named {
            network: &mut row.network,
            title: &mut row.title,
            runtime: &row.runtime,
        });
        row
    });
    let mut rows: Vec<AttachmentView> =
        rows.filter(|row| wanted.filters.iter().all(|filter| row.passes(filter))).collect();
    in_order(&mut rows, |row| {
        (row.container.clone(), titles::shown(&row.title, &row.network).clone())
    });
    let listing = &wanted.listing;
    let name = |row: &AttachmentView| shortened(&row.container, listing.no_trunc);
    let table = |rows: &[AttachmentView]| table(rows, listing.no_trunc);
    Ok(Answer::text(list(output, listing, &rows, Shown { name: &name, table: &table })?))
}

/// A gateway endpoint cannot be joined by users.
fn is_endpoint(record: &Attachment) -> bool {
    (record.layer, record.runtime) == (Layer::Link, Runtime::Spoke)
        && record.id.network.as_str() != engine::GATEWAY_NETWORK
}

fn table(rows: &[AttachmentView], no_trunc: bool) -> Table {
    let mut table =
        Table::new(&["NAME", "NETWORK", "STATE", "IP", "MAC", "DRIVER", "PORTS", "SANDBOX"]);
    for view in rows {
        let ports: Vec<&str> = view.ports.iter().map(|port| port.text.as_str()).collect();
        table.row([
            shortened(&view.container, no_trunc),
            titles::shown(&view.title, &view.network).clone(),
            view.state.to_owned(),
            view.addresses.join(","),
            view.mac.clone().unwrap_or_default(),
            view.driver.clone().unwrap_or_default(),
            ports.join(","),
            view.sandbox.clone().unwrap_or_default(),
        ]);
    }
    table
}

fn inspect(wanted: &NamedArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let id = find(&engine, wanted)?;
    let mut records = engine.records.attachments()?;
    records.retain(|record| record.id == id && record.layer == Layer::Link);
    let views: Vec<_> = records.iter().filter_map(|record| AttachmentView::of(&[record])).collect();
    let text = match output {
        Output::Table => json(&views)?,
        Output::Json | Output::Yaml | Output::Frr | Output::Bird => {
            render(output, &views, String::new)?
        }
    };
    Ok(Answer::text(text))
}

fn create(wanted: &EndpointCreateArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let network =
        Network { runtime: Runtime::Spoke, ..engine.networks.joined(&wanted.named.network)? };
    let name = &wanted.named.name;
    guest::refuse_guest(&engine, &network.name, name)?;
    if engine
        .records
        .endpoint_named(&network.name, name)?
        .is_some_and(|id| is_finished(&engine, &id))
    {
        return Err(there(&wanted.named.network, name));
    }
    let request = Request {
        layer: Layer::Link,
        container: name.clone(),
        ifname: engine::APART.parse()?,
        names: Vec::new(),
        dns: model::Dns::default(),
        owner: None,
        sandbox: None,
        wiring: connect::wiring(&wanted.made, &network, context.backend)?,
        ipam: network.ipam.clone(),
        wanted: connect::addresses(&wanted.made),
        addresses: Vec::new(),
        labels: Labels::of(wanted.made.labels.iter().cloned())?,
        network: network.clone(),
    };
    let how = naming::connecting(&wanted.made, 0, &network)?;
    let made = engine.networks.create_endpoint(&request, &how)?;
    shown(&made, output)
}

/// What a dead process left of one does not count.
fn is_finished(engine: &Engine<'_>, id: &AttachmentId) -> bool {
    let record = engine.records.attachment(id).ok().flatten();
    record.is_none_or(|record| matches!(record.phase, Phase::Reserved | Phase::Attached(_)))
}

fn join(wanted: &EndpointJoinArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let id = find(&engine, &wanted.named)?;
    let (path, called) = connect::find(&wanted.sandbox, &context.root);
    let container = wanted.joined.container.clone().map_or_else(|| called.parse(), Ok)?;
    guest::refuse_guest(&engine, &id.network, &container)?;
    let there = engine.records.attachment(&id)?;
    let network = engine.records.network_of(&id.network)?;
    if let Some(given) = there.as_ref().filter(|there| there.dns != network.dns) {
        naming::refuse_nameless(&given.dns, &wanted.sandbox, &path, &context.root)?;
    }
    let known = engine.records.connected(&container)?;
    let mut tries = 0;
    loop {
        let within =
            host::sandbox::inspect(&path)?.ok_or_else(|| connect::no_sandbox(&wanted.sandbox))?;
        let sandbox = Sandbox { path: path.clone(), inode: within.inode };
        let is_in = |there: &&Attachment| {
            matches!(there.phase, Phase::Attached(_)) && there.sandbox.as_ref() == Some(&sandbox)
        };
        let again = there.as_ref().filter(|_| wanted.joined.ifname.is_none()).filter(is_in);
        let name = match again {
            Some(again) => connect::name_of(again).clone(),
            None => connect::interface(&wanted.joined, &known, &within)?,
        };
        let entering = Entering {
            sandbox,
            container: container.clone(),
            name: name.clone(),
            priority: wanted.joined.gw_priority,
        };
        match engine.networks.join_endpoint(&id, &entering) {
            // Another process took the name meanwhile.
            Err(error) if error.kind() == Kind::Conflict && tries < RACES => {
                let is_chosen = wanted.joined.ifname.is_none();
                if !is_chosen || !connect::is_taken_since(&name, &within, &path)? {
                    return Err(error);
                }
                tries += 1;
            }
            Err(error) => return Err(error),
            Ok(joined) => {
                connect::inspect_sandbox(&engine, &container, context);
                let moved =
                    Moved { container: &container, path: Some(&path), network: &id.network };
                let notes = naming::name(&engine, &moved, &context.root);
                return Ok(Answer { notes, ..connect::shown(&joined, output)? });
            }
        }
    }
}

fn leave(wanted: &NamedArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let id = find(&engine, wanted)?;
    let was = engine.records.attachment(&id)?;
    let left_sandbox = engine.networks.leave_endpoint(&id);
    let notes = parted(&engine, &id, was.as_ref(), context);
    left_sandbox?;
    Ok(Answer { notes, ..Answer::text(names(output, &[id.container.to_string()])?) })
}

fn rm(wanted: &EndpointRmArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let id = match find(&engine, &wanted.named) {
        Err(error) if wanted.force && error.kind() == Kind::NotFound => {
            return Ok(Answer::text(names(output, &[])?));
        }
        found => found?,
    };
    let was = engine.records.attachment(&id)?;
    let removed = engine.networks.remove_endpoint(&id, wanted.force);
    let notes = parted(&engine, &id, was.as_ref(), context);
    removed?;
    Ok(Answer { notes, ..Answer::text(names(output, &[id.container.to_string()])?) })
}

/// The sandbox that it was in, and those on its network, do not know it any more.
fn parted(
    engine: &Engine<'_>,
    id: &AttachmentId,
    was: Option<&Attachment>,
    context: &CommandContext,
) -> Vec<String> {
    let container = was.map_or(&id.container, Attachment::sandbox_name);
    let path = connect::path_of(was.as_slice());
    naming::name(engine, &Moved { container, path, network: &id.network }, &context.root)
}

fn find(engine: &Engine<'_>, wanted: &NamedArgs) -> Result<AttachmentId> {
    let network = titles::meant(engine, &wanted.network)?;
    engine.records.endpoint_named(&network, &wanted.name)?.ok_or_else(|| {
        Error::not_found(format!(
            "endpoint {} of network {} is not there; `spoke endpoint ls` shows those that are",
            wanted.name, wanted.network
        ))
    })
}

fn there(network: &NetworkName, name: &ContainerId) -> Error {
    Error::conflict(format!(
        "endpoint {name} of network {network} is there already; name it otherwise, or remove it with \
         `spoke endpoint rm {network} {name}`"
    ))
}

/// Its name, and its addresses.
fn shown(made: &Attachment, output: Output) -> Result<Answer> {
    let view = AttachmentView::of(&[made])
        .ok_or_else(|| Error::bug(format!("{} cannot be shown", made.id)))?;
    let line = || {
        let words = std::iter::once(view.container.as_str());
        let words: Vec<&str> = words.chain(view.addresses.iter().map(String::as_str)).collect();
        format!("{}\n", words.join(" "))
    };
    Ok(Answer::text(render(output, &view, line)?))
}
