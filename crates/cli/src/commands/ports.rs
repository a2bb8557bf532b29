//! Every port of this host that leads to a container, of every runtime: what `spoke port ls` lists, and
//! `spoke ports`, as it was called first.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::{Attachment, Backend, Layer, Phase, PortMap, Publish, Reach, Result, Runtime};
use serde::Serialize;

use crate::answer::Answer;
use crate::args::PortsArgs;
use crate::commands::ps::shortened;
use crate::context::CommandContext;
use crate::mapped::Mapped;
use crate::output::table::Table;
use crate::output::{Output, Shown, list};
use crate::titles::{Named, entitle, shown};
use crate::view::port::nowhere;
use crate::view::remote::serves;
use crate::view::{labels, of_one, reach};

/// The publisher of ports that Docker maps by itself.
pub(crate) const BY_DOCKER: &str = "docker";

/// Where Docker maps to an address that only it knows.
const UNKNOWN: &str = "?";

/// A published port and its holder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct PublishedView {
    pub(crate) host_port: u16,
    pub(crate) protocol: String,
    /// The host's address; null: all of them.
    pub(crate) host_ip: Option<String>,
    pub(crate) container_port: u16,
    /// The container's address of the same family, or to which Docker's proxy leads; null where Docker maps to one of
    /// its own.
    pub(crate) container_ip: Option<String>,
    /// Of each family the address that it leads to.
    pub(crate) container_ips: Vec<String>,
    /// Why it leads nowhere: its container has no address of this family (`IPv4`, `IPv6`).
    pub(crate) lacks: Option<String>,
    /// Whether a command added it while the container ran.
    pub(crate) added: bool,
    /// `any`, `lan` or `local`.
    pub(crate) reach: &'static str,
    pub(crate) name: String,
    pub(crate) container: String,
    pub(crate) runtime: String,
    pub(crate) network: String,
    /// What its runtime calls the network.
    pub(crate) title: Option<String>,
    /// The user's labels of the container.
    pub(crate) labels: BTreeMap<String, String>,
    /// The publisher: `nftables` and `iptables` are Spoke's, `plugin` is the network's Docker
    /// plugin, `docker` is Docker itself.
    pub(crate) backend: &'static str,
    /// Whether Docker publishes it on a network of its own.
    #[serde(skip)]
    pub(crate) is_beside: bool,
}

impl PublishedView {
    /// Whether the port is Spoke's, and obeys a firewall that is followed.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.backend, "nftables" | "iptables")
    }

    /// Where it leads to.
    pub(crate) fn target(&self) -> String {
        match &self.lacks {
            Some(family) => nowhere(family),
            None => self.at(self.container_ip.as_deref().unwrap_or(UNKNOWN)),
        }
    }

    /// All of that, one of each family.
    pub(crate) fn targets(&self) -> Vec<String> {
        match self.container_ips.as_slice() {
            [] => vec![self.target()],
            all => all.iter().map(|to| self.at(to)).collect(),
        }
    }

    /// The container's name; an id shortened, unless it is wanted whole.
    pub(crate) fn holder(&self, no_trunc: bool) -> String {
        match self.name == self.container {
            true => shortened(&self.name, no_trunc),
            false => self.name.clone(),
        }
    }

    /// What people call its network.
    pub(crate) fn network(&self) -> &str {
        shown(&self.title, &self.network)
    }

    /// What is said of its network.
    pub(crate) fn named(&mut self) -> Named<'_> {
        Named { network: &mut self.network, title: &mut self.title, runtime: &self.runtime }
    }

    fn at(&self, address: &str) -> String {
        match address.contains(':') {
            true => format!("[{address}]:{}", self.container_port),
            false => format!("{address}:{}", self.container_port),
        }
    }
}

pub(crate) fn run(wanted: &PortsArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let records = engine.records.attachments()?;
    let aliases = engine.records.aliases()?;
    let mapped = match wanted.network {
        None => Mapped::ask_all(&aliases, context),
        Some(_) => Mapped::ask(&aliases, context),
    };
    let mut rows = all(&records, &mapped);
    entitle(&engine, wanted.network.as_ref(), &mut rows, PublishedView::named)?;
    rows.extend(beside(&mapped));
    rows.sort();
    rows.retain(|row| wanted.filters.iter().all(|filter| filter.holds(&row.labels)));
    let listing = &wanted.listing;
    let name = |row: &PublishedView| format!("{}/{}", row.host_port, row.protocol);
    let table = |rows: &[PublishedView]| table(rows, listing.no_trunc);
    let text = list(output, listing, &rows, Shown { name: &name, table: &table })?;
    Ok(Answer { notes: mapped.notes, ..Answer::text(text) })
}

/// A row for each published port of these attachments, in order.
pub(crate) fn all(records: &[Attachment], mapped: &Mapped) -> Vec<PublishedView> {
    let mut rows: Vec<PublishedView> = records
        .iter()
        .filter(|record| matches!(record.phase, Phase::Attached(_)) && serves(record))
        .flat_map(|record| published(record, records, mapped))
        .collect();
    // Of several attachments of a container another one may lead it.
    let is_same = |one: &PublishedView, other: &PublishedView| {
        (one.host_port, &one.protocol, &one.host_ip)
            == (other.host_port, &other.protocol, &other.host_ip)
            && (&one.container, &one.runtime) == (&other.container, &other.runtime)
    };
    let led: Vec<PublishedView> = match rows.iter().any(|row| row.lacks.is_some()) {
        true => rows.iter().filter(|row| row.lacks.is_none()).cloned().collect(),
        false => Vec::new(),
    };
    rows.retain(|row| row.lacks.is_none() || !led.iter().any(|other| is_same(row, other)));
    rows.sort();
    rows
}

/// A row for each port that Docker maps on a network of its own. None of these is in the book.
pub(crate) fn beside(mapped: &Mapped) -> impl Iterator<Item = PublishedView> {
    mapped.beside.iter().flat_map(|its| {
        let endpoint = &its.endpoint;
        let name =
            endpoint.name.as_ref().map_or_else(|| endpoint.id.to_string(), ToString::to_string);
        let network = its.network.as_ref().map(ToString::to_string).unwrap_or_default();
        its.ports.iter().map(move |map| {
            let addresses = || endpoint.addresses.iter().copied();
            let mut targets = targets(map, addresses());
            if targets.is_empty() {
                // Docker's proxy takes IPv6 to the address of IPv4.
                targets.extend(addresses().next().map(|address| address.to_string()));
            }
            PublishedView {
                host_port: map.host_port.get(),
                protocol: map.protocol.to_string(),
                host_ip: map.host.map(|host| host.to_string()),
                container_port: map.container_port.get(),
                container_ip: targets.first().cloned(),
                container_ips: targets,
                lacks: None,
                added: false,
                reach: reached(map, Reach::Any),
                name: name.clone(),
                container: endpoint.id.to_string(),
                runtime: Runtime::Docker.to_string(),
                network: network.clone(),
                title: None,
                labels: BTreeMap::new(),
                backend: BY_DOCKER,
                is_beside: true,
            }
        })
    })
}

fn published(record: &Attachment, all: &[Attachment], mapped: &Mapped) -> Vec<PublishedView> {
    let theirs = mapped.to(&record.id.container).filter(|_| record.layer == Layer::Link);
    let mut of_same = of_one(all, &record.id, |other| &other.id).iter();
    let known = of_same.find_map(|layer| layer.owner.as_ref());
    let known = known.or(theirs.and_then(|target| target.name.as_ref()));
    let name = &known.map_or_else(|| record.id.container.to_string(), ToString::to_string);
    let layers: Vec<&Attachment> = of_one(all, &record.id, |other| &other.id).iter().collect();
    let labels = &labels(&layers);
    let publish = record.wiring.publish.as_ref();
    let ours = publish.into_iter().flat_map(|publish| {
        publish.ports.iter().map(move |map| view(map, record, (name, labels), By::Spoke(publish)))
    });
    let theirs = theirs.into_iter().flat_map(|target| &target.ports);
    ours.chain(theirs.map(|map| view(map, record, (name, labels), By::Docker))).collect()
}

/// The publisher of a port.
enum By<'a> {
    Spoke(&'a Publish),
    Docker,
}

fn view(
    map: &PortMap,
    record: &Attachment,
    (name, labels): (&str, &BTreeMap<String, String>),
    by: By<'_>,
) -> PublishedView {
    let (targets, lacks, added, by_network, backend) = match by {
        By::Spoke(publish) => (
            targets(map, record.addresses.iter().map(|held| held.address.addr())),
            record.lacks(map),
            publish.added.contains(map),
            publish.reach,
            match publish.backend {
                _ if record.is_published_by_plugin() => "plugin",
                Backend::Nftables => "nftables",
                Backend::Iptables => "iptables",
            },
        ),
        By::Docker => (Vec::new(), None, false, Reach::Any, BY_DOCKER),
    };
    PublishedView {
        host_port: map.host_port.get(),
        protocol: map.protocol.to_string(),
        host_ip: map.host.map(|host| host.to_string()),
        container_port: map.container_port.get(),
        container_ip: targets.first().cloned(),
        container_ips: targets,
        lacks: lacks.map(|family| family.to_string()),
        added,
        reach: reached(map, by_network),
        name: name.to_owned(),
        container: record.id.container.to_string(),
        runtime: record.runtime.to_string(),
        network: record.id.network.to_string(),
        title: None,
        labels: labels.clone(),
        backend,
        is_beside: false,
    }
}

/// Who reaches a port whose network lets these: the kernel takes packets to a loopback address from the host only.
fn reached(map: &PortMap, by: Reach) -> &'static str {
    match map.host.is_some_and(|host| host.is_loopback()) {
        true => reach(Reach::Local),
        false => reach(by),
    }
}

/// The destination of the port: the container's first address of each of the port's families, in the
/// order of its addresses.
fn targets(map: &PortMap, addresses: impl Iterator<Item = IpAddr>) -> Vec<String> {
    let fits = |it: &IpAddr| map.host.is_none_or(|host| host.is_ipv4() == it.is_ipv4());
    let mut addresses: Vec<IpAddr> = addresses.filter(fits).collect();
    let mut families = BTreeSet::new();
    addresses.retain(|address| families.insert(address.is_ipv4()));
    addresses.iter().map(ToString::to_string).collect()
}

fn table(rows: &[PublishedView], no_trunc: bool) -> Table {
    let headings = ["PORT", "HOST IP", "TO", "FROM", "NAME", "RUNTIME", "NETWORK"];
    let mut table = Table::new(&headings);
    for row in rows {
        table.row([
            format!("{}/{}", row.host_port, row.protocol),
            row.host_ip.clone().unwrap_or_else(|| "*".to_owned()),
            row.target(),
            row.reach.to_owned(),
            row.holder(no_trunc),
            row.runtime.clone(),
            row.network().to_owned(),
        ]);
    }
    table
}
