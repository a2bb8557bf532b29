//! Fills the page's views with what the commands show: each view has the functions of its command.

mod addresses;
mod containers;
mod events;
mod explained;
mod network;

use config::Config;
use host::hosts::{self, Ask, Reply};
use host::time::rfc3339;
use host::views::{Filled, OpenEngine, Outside};
use model::{Attachment, Error, Result};
use page::shown::{Hosts, ListPart, Member, Overview, Ports};
use page::{Content, Numbered, View};

use crate::commands::{doctor, ipam, ports, ps};
use crate::context::CommandContext;
use crate::mapped::Mapped;
use crate::summary;
use crate::titles::Titles;

/// A part of the list has so many ports.
const PORTS: usize = 500;

/// How many events the overview and a container show.
const LAST: usize = 8;

/// A view's content, and why something may be missing there; `None` for what is no document.
pub fn content<'a>(
    view: &View,
    engine: &'a OpenEngine<'a>,
    config: &Config,
    outside: &Outside<'a>,
) -> Result<Option<Filled>> {
    let context = CommandContext {
        facts: outside.facts,
        running: outside.running,
        runs: outside.runs,
        foreign: outside.foreign,
        neutron: outside.neutron,
        listed: outside.listed,
        executable: std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into()),
        runtime: config.store.runtime.clone(),
        store: vec![config.store.runtime.clone(), config.store.state.clone()],
        names_host: config.names.host,
        kuryr: config.kuryr.enabled.then(|| config.kuryr.socket.clone()),
        ..summary::context(engine, config)
    };
    let known = |content: Content| Ok(Some((content, Vec::new())));
    match view {
        View::Overview => ShownRecords::read_all(&context)?.overview(&context),
        View::Containers(wanted) => ShownRecords::read(&context)?.containers(wanted, &context),
        View::Container { name, runtime } => {
            ShownRecords::read(&context)?.container(name, runtime, &context)
        }
        View::Ports(wanted) => {
            let book = ShownRecords::read_all(&context)?;
            let ports = book.all_ports();
            let all = ports.len();
            let (ports, part) = ListPart::of(ports, wanted.number, PORTS);
            Ok(Some((Content::Ports(Ports { ports, all, part }), book.mapped.notes)))
        }
        View::Addresses(wanted) => known(addresses::pools(wanted, &context)?),
        View::Events(Numbered { of, number }) => {
            known(Content::Events(events::events(of.as_deref(), *number, &context)))
        }
        View::Hosts => known(Content::Hosts(members(&context)?)),
        View::Checks => known(Content::Checks(doctor::shown(&context))),
        View::Explain(asked) => explained::explained(asked, &context).map(Some),
        View::Denied(Numbered { of, number }) => {
            known(explained::refusals(of.as_deref(), *number, &context)?)
        }
        View::Style | View::Script | View::Icon | View::Live => Ok(None),
    }
}

/// What `spoke ps`, `spoke port ls` and `spoke network ls` are made of.
struct ShownRecords {
    networks: Vec<model::Network>,
    records: Vec<Attachment>,
    aliases: Vec<model::Alias>,
    mapped: Mapped,
}

impl ShownRecords {
    fn read(context: &CommandContext) -> Result<Self> {
        Self::read_with(context, Mapped::ask)
    }

    /// With the ports of Docker's own networks.
    fn read_all(context: &CommandContext) -> Result<Self> {
        Self::read_with(context, Mapped::ask_all)
    }

    fn read_with(
        context: &CommandContext,
        ask: impl Fn(&[model::Alias], &CommandContext) -> Mapped,
    ) -> Result<Self> {
        let engine = (context.engine)()?;
        let aliases = engine.records.aliases()?;
        let mapped = ask(&aliases, context);
        let (networks, records) = (engine.records.networks()?, engine.records.attachments()?);
        Ok(Self {
            networks,
            records,
            aliases: crate::commands::network::by_network(aliases),
            mapped,
        })
    }

    fn titles(&self) -> Titles {
        Titles::of(&self.networks).with(&self.aliases)
    }

    fn attachments(&self, context: &CommandContext) -> Vec<page::shown::Attachment> {
        let rows = ps::all(&self.records, &self.mapped, &self.titles());
        rows.into_iter().map(|row| containers::attachment(row, context)).collect()
    }

    fn networks(&self) -> Vec<page::shown::Network> {
        let titles = self.titles();
        let shown = |network| network::shown(network, &self.records, &self.aliases, &titles);
        self.networks.iter().map(shown).collect()
    }

    fn ports(&self) -> Vec<page::shown::Port> {
        let titles = self.titles();
        let mut ports = ports::all(&self.records, &self.mapped);
        ports.iter_mut().for_each(|port| titles.complete(port.named()));
        ports.into_iter().map(containers::port).collect()
    }

    fn all_ports(&self) -> Vec<page::shown::Port> {
        let mut ports = self.ports();
        ports.extend(ports::beside(&self.mapped).map(containers::port));
        ports.sort_by_key(|port| port.port);
        ports
    }

    fn overview(self, context: &CommandContext) -> Result<Option<Filled>> {
        let engine = (context.engine)()?;
        let taken = ipam::taken(&engine, &self.networks, context)?;
        let facts = (context.facts)();
        let mut notes = self.mapped.notes.clone();
        let (mut uplink, mut troubles) = (None, Vec::new());
        match &facts {
            Ok(facts) => {
                uplink = facts.uplink().map(|link| link.name.clone());
                let clashes = doctor::clashes(context, &self.networks, facts).into_iter();
                troubles = clashes.map(|clash| clash.sentence).collect();
            }
            Err(error) => notes.push(format!("the kernel does not describe this host: {error}")),
        }
        troubles.extend(crate::commands::events::contested(context));
        let content = Overview {
            uplink,
            networks: self.networks(),
            attachments: self.attachments(context),
            troubles,
            addresses: addresses::sum(&self.networks, &taken),
            ports: self.all_ports().len(),
            events: events::last(LAST, context, |_| true),
        };
        Ok(Some((Content::Overview(content), notes)))
    }
}

/// As `spoke host ls` lists them.
fn members(context: &CommandContext) -> Result<Hosts> {
    let Reply::Hosts(view) = hosts::ask(&context.runtime, &Ask::Hosts)? else {
        return Err(Error::bug("the daemon answered something else than hosts"));
    };
    let mut notes = view.notes;
    notes.extend(view.lost.map(|(since, why)| {
        format!("since {} the cluster is not heard of: {why}", rfc3339(since))
    }));
    let member = |host: hosts::HostView| Member {
        name: host.name,
        address: host.address,
        state: host.state,
        own: host.own,
        blocks: host.blocks.into_iter().collect(),
        containers: host.containers,
    };
    Ok(Hosts { hosts: view.hosts.into_iter().map(member).collect(), notes })
}
