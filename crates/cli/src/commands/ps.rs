//! `spoke ps`: one row for each attachment of every runtime.

use std::collections::BTreeMap;

use host::time::ago;
use linux::meter;
use model::{
    Attachment, AttachmentId, ContainerId, Error, IfName, Layer, LinkKind, NetworkName, Result,
    Timestamp,
};

use crate::answer::Answer;
use crate::args::PsArgs;
use crate::container::Called;
use crate::context::CommandContext;
use crate::mapped::Mapped;
use crate::output::table::Table;
use crate::output::{Output, Shown, in_order, list};
use crate::titles::{Named, Titles, shown};
use crate::view::AttachmentView;
use crate::view::port::PortView;

/// How much of a container's id people need.
const SHORT: usize = 12;

/// How much of a port's id: as much as its device's name has of it.
const PORT: usize = 11;

pub(crate) fn run(wanted: &PsArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let records = engine.records.attachments()?;
    // A runtime's own name for a network does as well.
    let meant = wanted.network.as_ref().map(|name| (name, engine.records.network(name)));
    let network = meant.as_ref().map(|(name, found)| match found {
        Ok(network) => &network.name,
        Err(_) => *name,
    });
    let aliases = engine.records.aliases()?;
    let titles = Titles::of(&engine.records.networks()?).with(&aliases);
    let mut rows = rows(&records, network);
    if let (Some((name, Err(error))), true) = (&meant, rows.is_empty()) {
        let called = Called::of(name.as_str());
        let is_container = |it: &Attachment| called.is_name(it.runtime, &it.container_name());
        return Err(match records.iter().any(is_container) {
            true => Error::not_found(format!(
                "{name} is a container, no network; `spoke inspect {name}` shows it, `spoke ps --filter name={name}` \
                 lists it"
            )),
            false => Error::new(error.kind(), error.to_string()),
        });
    }
    rows.retain(|row| wanted.filters.iter().all(|filter| row.passes(filter)));
    let mapped = Mapped::ask(&aliases, context);
    if output != Output::Table || wanted.listing.format.is_some() {
        name_interfaces(&mut rows, &records);
    }
    complete(&mut rows, &mapped, &titles);
    in_order(&mut rows, columns);
    let listing = &wanted.listing;
    let name = |row: &AttachmentView| name(row, listing.no_trunc);
    let table = |rows: &[AttachmentView]| table(rows, listing.no_trunc, context.now);
    let text = list(output, listing, &rows, Shown { name: &name, table: &table })?;
    Ok(Answer { notes: mapped.notes, ..Answer::text(text) })
}

/// A row for each of these attachments.
pub(crate) fn all(records: &[Attachment], mapped: &Mapped, titles: &Titles) -> Vec<AttachmentView> {
    let mut rows = rows(records, None);
    complete(&mut rows, mapped, titles);
    rows
}

/// Adds what others know: what networks are called, here and by runtimes, the ports that Docker maps.
fn complete(rows: &mut [AttachmentView], mapped: &Mapped, titles: &Titles) {
    for row in rows {
        row.add_ports(mapped);
        let (network, title) = (&mut row.network, &mut row.title);
        titles.complete(Named { network, title, runtime: &row.runtime });
    }
}

/// What rows are in the order of.
pub(crate) fn columns(row: &AttachmentView) -> (String, String, String, String) {
    let network = shown(&row.title, &row.network).clone();
    (row.name.clone(), row.runtime.clone(), network, row.interface.clone())
}

fn rows(records: &[Attachment], network: Option<&NetworkName>) -> Vec<AttachmentView> {
    let is_wanted = |id: &AttachmentId| network.is_none_or(|network| id.network == *network);
    let mut records: Vec<&Attachment> = records.iter().collect();
    records.sort_by(|a, b| (&a.id, a.layer).cmp(&(&b.id, b.layer)));
    let chains = Chains::of(&records);
    let mut ports: BTreeMap<&AttachmentId, Vec<PortView>> = BTreeMap::new();
    let mut rows = Vec::new();
    for group in records.chunk_by(|a, b| a.id == b.id) {
        let Some(id) = group.first().map(|first| &first.id) else { continue };
        let whole = chains.whose_part(id).filter(|whole| is_wanted(whole));
        let view = || AttachmentView::of(group);
        match whole {
            Some(whole) => {
                let its = view().into_iter().flat_map(|view| view.ports);
                ports.entry(whole).or_default().extend(its);
            }
            None if is_wanted(id) => rows.extend(view().map(|view| (id, view))),
            None => {}
        }
    }
    let rows = rows.into_iter().map(|(id, mut view)| {
        view.ports.extend(ports.remove(id).unwrap_or_default());
        view
    });
    rows.collect()
}

/// Attachments that CNI plugins make, and what the list of these is called. Those of them that are Spoke's
/// have records of their own, under that name: it is one attachment all the same.
#[derive(Default)]
struct Chains<'a>(BTreeMap<(&'a ContainerId, &'a IfName), Vec<(&'a AttachmentId, NetworkName)>>);

impl<'a> Chains<'a> {
    fn of(records: &[&'a Attachment]) -> Self {
        let mut chains = Self::default();
        for record in records {
            let kind = record.wiring.link.as_ref().map(|link| &link.kind);
            if let Some(LinkKind::Chain(chain)) = kind
                && let Some(list) = cni::chain::list(chain)
            {
                let key = (&record.id.container, &record.id.ifname);
                chains.0.entry(key).or_default().push((&record.id, list));
            }
        }
        chains
    }

    /// The attachment that this one is a part of.
    fn whose_part(&self, id: &AttachmentId) -> Option<&'a AttachmentId> {
        let beside = self.0.get(&(&id.container, &id.ifname))?;
        let is_whole = |(whole, list): &&(&AttachmentId, NetworkName)| {
            let inner = cni::chain::inner(list.as_str());
            whole.network != id.network
                && (id.network == *list || inner.is_ok_and(|inner| id.network == inner))
        };
        beside.iter().find(is_whole).map(|(whole, _)| *whole)
    }
}

fn table(rows: &[AttachmentView], no_trunc: bool, now: Timestamp) -> Table {
    let mut table =
        Table::new(&["NAME", "RUNTIME", "NETWORK", "IP", "MAC", "DRIVER", "PORTS", "UP"]);
    for view in rows {
        let ports: Vec<&str> = view.ports.iter().map(|port| port.text.as_str()).collect();
        table.row([
            name(view, no_trunc),
            view.runtime.clone(),
            shown(&view.title, &view.network).clone(),
            view.addresses.join(","),
            view.mac.clone().unwrap_or_default(),
            driver(view, no_trunc),
            ports.join(","),
            if view.state == "attached" { ago(view.at, now) } else { view.state.to_owned() },
        ]);
    }
    table
}

/// A container's name, or the start of its id where it has none.
fn name(view: &AttachmentView, no_trunc: bool) -> String {
    match view.name == view.container {
        true => shortened(&view.name, no_trunc),
        false => view.name.clone(),
    }
}

/// Says what interfaces are called whose runtimes named them. The namespace of each is entered for it.
pub(crate) fn name_interfaces(rows: &mut [AttachmentView], records: &[Attachment]) {
    let links = records.iter().filter(|record| record.layer == Layer::Link);
    let links: BTreeMap<(&str, &ContainerId), &Attachment> =
        links.map(|it| ((it.id.network.as_str(), &it.id.container), it)).collect();
    for row in rows {
        let link = links.get(&(row.network.as_str(), &row.endpoint));
        if let Some(name) = link.and_then(|link| meter::named_by_runtime(link)) {
            row.interface = name.to_string();
        }
    }
}

/// With the start of the port's id, where the driver has ports of its own.
fn driver(view: &AttachmentView, no_trunc: bool) -> String {
    let driver = view.driver.as_deref().unwrap_or_default();
    match view.neutron.as_ref().and_then(|neutron| neutron.port.as_deref()) {
        Some(port) if no_trunc => format!("{driver}:{port}"),
        Some(port) => format!("{driver}:{}", port.get(..PORT).unwrap_or(port)),
        None => driver.to_owned(),
    }
}

/// The start of a long hexadecimal id; every other name in full.
pub(crate) fn shortened(id: &str, no_trunc: bool) -> String {
    let is_long = id.len() > 2 * SHORT && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_long && !no_trunc { id[..SHORT].to_owned() } else { id.to_owned() }
}
