//! Containers, as `spoke ps` and `spoke port ls` have them.

use std::collections::BTreeSet;

use host::time::ago;
use linux::meter;
use model::{Error, Result};
use page::shown::{Attachment, Container, Containers, ListPart, Network, Place, Port};
use page::{Content, Filter, Numbered};

use super::{Filled, LAST, ShownRecords, events};
use crate::commands::ports::PublishedView;
use crate::context::CommandContext;
use crate::view::AttachmentView;

/// A part of the list has so many containers.
const MOST: usize = 200;

pub(super) fn attachment(view: AttachmentView, context: &CommandContext) -> Attachment {
    Attachment {
        name: view.name,
        id: view.container,
        runtime: view.runtime,
        network: view.network,
        title: view.title,
        interface: view.interface,
        addresses: view.addresses,
        mac: view.mac,
        driver: view.driver,
        names: view.names,
        labels: view.labels.into_iter().collect(),
        // Those of an endpoint in no sandbox are not open.
        ports: match view.state {
            "reserved" => Vec::new(),
            _ => view.ports.into_iter().map(|port| port.text).collect(),
        },
        state: view.state.to_owned(),
        age: ago(view.at, context.now),
        since: view.since,
        sandbox: view.sandbox,
    }
}

pub(super) fn port(view: PublishedView) -> Port {
    Port {
        port: view.host_port,
        to: view.targets(),
        protocol: view.protocol,
        host: view.host_ip,
        reach: view.reach.to_owned(),
        name: view.name,
        runtime: view.runtime,
        network: view.network,
        title: view.title,
        backend: view.backend.to_owned(),
        is_beside: view.is_beside,
    }
}

/// Whether an attachment has what is looked for, whatever its case.
fn passes(one: &Attachment, filter: &Filter) -> bool {
    let text = filter.text.trim().to_lowercase();
    let has = |value: &str| value.to_lowercase().contains(&text);
    let lists = [&one.addresses, &one.ports, &one.names];
    (filter.runtime.is_empty() || one.runtime == filter.runtime)
        && (filter.network.is_empty() || one.network == filter.network)
        && (text.is_empty()
            || has(&one.name)
            || has(&one.id)
            || one.mac.as_deref().is_some_and(has)
            || lists.into_iter().flatten().any(|value| has(value))
            || one.labels.iter().any(|(key, value)| has(&format!("{key}={value}"))))
}

/// The network that is called so here, or else by its runtime; none where none is named.
fn called<'a>(networks: &'a [Network], name: &str) -> Result<Option<&'a Network>> {
    if name.is_empty() {
        return Ok(None);
    }
    let mut titled = networks.iter().filter(|one| one.title.as_deref() == Some(name));
    let found = networks.iter().find(|one| one.name == name);
    match (found.or_else(|| titled.next()), titled.next()) {
        (Some(network), other) if other.is_none() || network.name == name => Ok(Some(network)),
        (Some(_), _) => Err(Error::conflict("several networks have this name")),
        (None, _) => Err(Error::not_found("there is no network of this name")),
    }
}

fn key(one: &Attachment) -> (&String, &String) {
    (&one.name, &one.runtime)
}

impl ShownRecords {
    /// A container is listed with all of its networks, where the filter holds for one of them.
    pub(super) fn containers(
        self,
        wanted: &Numbered<Filter>,
        context: &CommandContext,
    ) -> Result<Option<Filled>> {
        let networks = self.networks();
        let network = called(&networks, &wanted.of.network)?;
        let of = Filter {
            network: network.map_or_else(String::new, |it| it.name.clone()),
            ..wanted.of.clone()
        };
        let mut all = self.attachments(context);
        all.sort_by_cached_key(|one| {
            (page::in_order(&one.name), one.name.clone(), one.runtime.clone(), one.network.clone())
        });
        let groups: Vec<&[Attachment]> = all.chunk_by(|one, next| key(one) == key(next)).collect();
        let runtimes: BTreeSet<&String> = all.iter().map(|one| &one.runtime).collect();
        let count = groups.len();
        let found: Vec<&[Attachment]> =
            groups.into_iter().filter(|group| group.iter().any(|one| passes(one, &of))).collect();
        let found_count = found.len();
        let (shown, part) = ListPart::of(found, wanted.number, MOST);
        let content = Containers {
            filter: of,
            attachments: shown.concat(),
            found: found_count,
            all: count,
            runtimes: runtimes.into_iter().cloned().collect(),
            network: network.cloned().map(Box::new),
            part,
        };
        Ok(Some((Content::Containers(content), self.mapped.notes)))
    }

    /// What its runtime calls it may be what another one had before: then events of both are there.
    pub(super) fn container(
        self,
        name: &str,
        runtime: &str,
        context: &CommandContext,
    ) -> Result<Option<Filled>> {
        let is_it = |one: &Attachment| one.name == name && one.runtime == runtime;
        let mut attachments = self.attachments(context);
        attachments.retain(is_it);
        self.name_interfaces(&mut attachments);
        let mut ports = self.ports();
        ports.retain(|port| port.name == name && port.runtime == runtime);
        let names = self.names(&attachments);
        let events = events::last(4 * LAST, context, |event| {
            event.name.as_deref().or(event.container.as_deref()) == Some(name)
                && event.runtime.as_deref().is_none_or(|of| of == runtime)
        });
        if attachments.is_empty() && events.is_empty() {
            return Err(Error::not_found("no container of this name is known here"));
        }
        let content = Container {
            name: name.to_owned(),
            runtime: runtime.to_owned(),
            attachments,
            ports,
            names,
            events,
        };
        Ok(Some((Content::Container(content), self.mapped.notes)))
    }

    /// As runtimes named them: each costs a look into the container's namespace, so that lists do without.
    fn name_interfaces(&self, attachments: &mut [Attachment]) {
        for one in attachments {
            let is_its = |record: &&model::Attachment| {
                record.id.container.as_str() == one.id && record.network().as_str() == one.network
            };
            let name = self.records.iter().filter(is_its).find_map(meter::named_by_runtime);
            if let Some(name) = name {
                one.interface = name.to_string();
            }
        }
    }

    /// What is answered over DNS for these attachments, and on which network.
    fn names(&self, attachments: &[Attachment]) -> Vec<(String, Place)> {
        let table = crate::commands::dns::table(&self.networks, &self.aliases, &self.records);
        let mut names = Vec::new();
        for (network, entry) in table.entries() {
            let its = attachments.iter().find(|one| {
                one.network == network.as_str()
                    && entry.addresses.iter().any(|address| {
                        let address = address.to_string();
                        one.addresses.iter().any(|own| own.split('/').next() == Some(&address))
                    })
            });
            if let Some(Attachment { network, title, .. }) = its {
                let place = Place { network: network.clone(), title: title.clone() };
                let all = [&entry.name].into_iter().chain(&entry.aliases);
                names.extend(all.map(|name| (name.clone(), place.clone())));
            }
        }
        names
    }
}
