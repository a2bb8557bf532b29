//! `spoke top`: what each container has received and sent, and does now.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use linux::meter::Meter;
use model::{Attachment, AttachmentId, NetworkName, Phase, Result};
use netlink::Counters;
use serde::Serialize;
use traffic::rate::{Rates, Snapshot, sum};

use super::known::{self, Known};
use super::screen;
use super::unit::short;
use crate::answer::Answer;
use crate::args::{By, Sort, TopArgs};
use crate::commands::ps::shortened;
use crate::context::CommandContext;
use crate::output::table::Table;
use crate::output::{Output, render};
use crate::titles::{Titles, shown};

mod interfaces;
mod ports;

use interfaces::Interfaces;

/// How often the counters are read.
const INTERVAL: Duration = Duration::from_secs(1);
/// The lines above and below the rows, with that of the cursor.
const AROUND: usize = 5;

/// A container on a network, or a network.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Row {
    /// The container's name; null for a network.
    name: Option<String>,
    container: Option<String>,
    interface: Option<String>,
    runtime: Option<String>,
    network: String,
    /// What its runtime calls the network, where that differs.
    title: Option<String>,
    /// The published port, where each is a row.
    port: Option<String>,
    /// How many interfaces are in it.
    interfaces: usize,
    receive_bytes: u64,
    receive_packets: u64,
    receive_drops: u64,
    transmit_bytes: u64,
    transmit_packets: u64,
    transmit_drops: u64,
    /// Since the last look.
    #[serde(skip)]
    rates: Option<Rates>,
    #[serde(skip)]
    counters: Counters,
}

/// Prints one table, or draws one each second where a terminal shows it.
pub(crate) fn run(
    wanted: &TopArgs,
    output: Output,
    context: &CommandContext,
    out: &mut dyn Write,
) -> Result<Answer> {
    let is_live = !wanted.once && output == Output::Table && std::io::stdout().is_terminal();
    if is_live {
        return live(wanted, context, out);
    }
    let known = Known::now(context)?;
    let names = known::resolved(&wanted.names, &known, &(), context)?;
    let links = selected(&known, &names, wanted.by);
    let (looks, note) = look(&links, &Meter::new(&links)?, wanted.by)?;
    let shown = (wanted.by, known.titles());
    let mut rows = rows(&looks, |_| None, shown, &mut Interfaces::default());
    sort(&mut rows, wanted.sort.unwrap_or(Sort::Bytes));
    let notes = note.into_iter().collect();
    let text = render(output, &rows, || totals(&rows, wanted.by).text())?;
    Ok(Answer { notes, ..Answer::text(text) })
}

/// What one row counts.
struct Look<'a> {
    link: &'a Attachment,
    port: Option<String>,
    counters: Counters,
}

/// By what a row is known from one look to the next.
type Counted = (AttachmentId, Option<String>);

impl Look<'_> {
    fn key(&self) -> Counted {
        (self.link.id.clone(), self.port.clone())
    }
}

/// The counters now, and what is to be said of those that there are not.
fn look<'a>(
    links: &[&'a Attachment],
    meter: &Meter,
    by: By,
) -> Result<(Vec<Look<'a>>, Option<String>)> {
    if by == By::Port {
        return Ok((ports::look(links)?, None));
    }
    let counted = meter.read()?;
    let note = uncounted(links, &counted);
    let each = links.iter().zip(counted);
    let look = |(link, counters): (&&'a Attachment, Option<Counters>)| {
        Some(Look { link, port: None, counters: counters? })
    };
    Ok((each.filter_map(look).collect(), note))
}

/// Which containers are connected and have no counters.
fn uncounted(links: &[&Attachment], counted: &[Option<Counters>]) -> Option<String> {
    let is_missing = |(link, counters): &(&&Attachment, &Option<Counters>)| {
        counters.is_none() && matches!(link.phase, Phase::Attached(_))
    };
    let mut missing = links.iter().zip(counted).filter(is_missing).map(|(link, _)| link);
    let first = missing.next()?;
    let others = match missing.count() {
        0 => String::new(),
        count => format!(" and {count} others"),
    };
    let name = first.container_name();
    Some(format!("the links of {name}{others} are gone or cannot be entered: not counted"))
}

/// Those that are meant by any of the names.
fn selected<'a>(known: &'a Known, names: &[String], by: By) -> Vec<&'a Attachment> {
    let mut links = if by == By::Port { known.published() } else { known.links() };
    links.retain(|link| names.is_empty() || names.iter().any(|it| known::is_meant(it, link)));
    links
}

/// Until a signal ends the process, or its terminal goes.
fn live(wanted: &TopArgs, context: &CommandContext, out: &mut dyn Write) -> Result<Answer> {
    let mut known = Known::watched(context)?;
    let names = known::resolved(&wanted.names, &known, &(), context)?;
    let started = Instant::now();
    let mut meter = Meter::new(&selected(&known, &names, wanted.by))?;
    let mut before: Option<Snapshot<Counted>> = None;
    let mut interfaces = Interfaces::default();
    loop {
        if known.refresh(context)? {
            meter = Meter::new(&selected(&known, &names, wanted.by))?;
            interfaces = Interfaces::default();
        }
        let links = selected(&known, &names, wanted.by);
        let (looks, _) = look(&links, &meter, wanted.by)?;
        let counters = looks.iter().map(|look| (look.key(), look.counters)).collect();
        let now = Snapshot { at: started.elapsed(), counters };
        let rate = |look: &Look<'_>| now.rate(before.as_ref()?, &look.key());
        let mut rows = rows(&looks, rate, (wanted.by, known.titles()), &mut interfaces);
        sort(&mut rows, wanted.sort.unwrap_or(Sort::Rate));
        let (lines, columns) = screen::size();
        let text = page(&rows, (lines, columns), wanted.by);
        if screen::draw(&text, columns, out).is_err() {
            return Ok(Answer::default());
        }
        before = Some(now);
        let next = INTERVAL * u32::try_from(started.elapsed().as_secs() + 1).unwrap_or(u32::MAX);
        sleep(next.saturating_sub(started.elapsed()));
    }
}

fn rows(
    looks: &[Look<'_>],
    rate: impl Fn(&Look<'_>) -> Option<Rates>,
    (by, titles): (By, &Titles),
    interfaces: &mut Interfaces,
) -> Vec<Row> {
    let all = looks.iter().map(|look| row(look, rate(look), titles));
    match by {
        By::Container | By::Port => {
            let name = |(row, look): (Row, &Look<'_>)| {
                let interface = Some(interfaces.name(look.link));
                Row { interface, ..row }
            };
            all.zip(looks).map(name).collect()
        }
        By::Network => {
            let mut networks: BTreeMap<&NetworkName, Row> = BTreeMap::new();
            for (row, look) in all.zip(looks) {
                let id = &look.link.id.network;
                match networks.get_mut(id) {
                    Some(network) => network.add(&row),
                    None => {
                        let title = titles.title(id.as_str(), None);
                        networks.insert(id, Row { title, ..row.alone() });
                    }
                }
            }
            networks.into_values().collect()
        }
    }
}

fn row(look: &Look<'_>, rates: Option<Rates>, titles: &Titles) -> Row {
    let (link, counters) = (look.link, look.counters);
    let mut row = Row {
        name: Some(link.container_name()),
        container: Some(link.id.container.to_string()),
        interface: None,
        runtime: Some(link.runtime.to_string()),
        network: link.network().to_string(),
        title: titles.of_record(link),
        port: look.port.clone(),
        interfaces: 1,
        receive_bytes: 0,
        receive_packets: 0,
        receive_drops: 0,
        transmit_bytes: 0,
        transmit_packets: 0,
        transmit_drops: 0,
        rates,
        counters,
    };
    row.count();
    row
}

impl Row {
    /// Repeats the counters in the fields that scripts read.
    fn count(&mut self) {
        let Counters { receive, transmit } = self.counters;
        (self.receive_bytes, self.transmit_bytes) = (receive.bytes, transmit.bytes);
        (self.receive_packets, self.transmit_packets) = (receive.packets, transmit.packets);
        (self.receive_drops, self.transmit_drops) = (receive.drops, transmit.drops);
    }

    fn add(&mut self, other: &Self) {
        self.interfaces += 1;
        self.counters = sum(self.counters, other.counters);
        self.rates = match (self.rates, other.rates) {
            (Some(one), Some(other)) => Some(one.plus(other)),
            (one, other) => one.or(other),
        };
        self.count();
    }

    /// The network's row, with its first container.
    fn alone(self) -> Self {
        Self { name: None, container: None, interface: None, runtime: None, ..self }
    }

    /// What people call its network.
    fn network(&self) -> &String {
        shown(&self.title, &self.network)
    }

    fn rate(&self) -> u64 {
        let both = self.rates.unwrap_or_default();
        both.receive.bytes.saturating_add(both.transmit.bytes)
    }

    fn bytes(&self) -> u64 {
        self.receive_bytes.saturating_add(self.transmit_bytes)
    }
}

/// The largest first, and those that are alike by name.
fn sort(rows: &mut [Row], by: Sort) {
    let weight = |row: &Row| match by {
        Sort::Rate => (row.rate(), row.bytes()),
        Sort::Bytes => (row.bytes(), 0),
        Sort::Receive => (row.receive_bytes, 0),
        Sort::Transmit => (row.transmit_bytes, 0),
        Sort::Drops => (row.receive_drops.saturating_add(row.transmit_drops), 0),
        Sort::Name => (0, 0),
    };
    rows.sort_by(|one, other| {
        let names = (&one.name, one.network(), &one.port);
        let names = names.cmp(&(&other.name, other.network(), &other.port));
        weight(other).cmp(&weight(one)).then(names)
    });
}

/// To the byte.
fn totals(rows: &[Row], by: By) -> Table {
    let numbers = ["RECEIVED", "PACKETS", "DROPS", "SENT", "PACKETS", "DROPS"];
    let mut table = Table::new(&[headings(by), &numbers].concat());
    for row in rows {
        let numbers = [
            row.receive_bytes,
            row.receive_packets,
            row.receive_drops,
            row.transmit_bytes,
            row.transmit_packets,
            row.transmit_drops,
        ];
        let cells = cells(row, by).into_iter();
        table.row(cells.chain(numbers.iter().map(ToString::to_string)));
    }
    table
}

/// What a narrow terminal does not show, the first before the others.
const SPARE: [&str; 9] = [
    "SENT",
    "RECEIVED",
    "TX DROP",
    "RX DROP",
    "TX PKT/S",
    "RX PKT/S",
    "INTERFACE",
    "RUNTIME",
    "NETWORK",
];

/// As much as a terminal of so many lines and columns shows.
fn page(rows: &[Row], (lines, columns): (usize, usize), by: By) -> String {
    let rates = rows.iter().filter_map(|row| row.rates).fold(Rates::default(), Rates::plus);
    let what = match by {
        By::Container => "interfaces",
        By::Network => "networks",
        By::Port => "published ports",
    };
    let mut text = format!(
        "{} {what}, receive {}B/s, transmit {}B/s\n\n",
        rows.len(),
        short(rates.receive.bytes),
        short(rates.transmit.bytes)
    );
    let shown = &rows[..rows.len().min(lines.saturating_sub(AROUND))];
    let spare = match by {
        By::Network => SPARE.split_last().map_or(&[][..], |(_, others)| others),
        By::Container | By::Port => &SPARE[..],
    };
    text.push_str(&current(shown, by).narrowed(columns, spare).text());
    if shown.len() < rows.len() {
        text.push_str(&format!("and {} more", rows.len() - shown.len()));
    }
    text
}

fn current(rows: &[Row], by: By) -> Table {
    let numbers =
        ["RX/S", "TX/S", "RX PKT/S", "TX PKT/S", "RX DROP", "TX DROP", "RECEIVED", "SENT"];
    let mut table = Table::new(&[headings(by), &numbers].concat());
    for row in rows {
        let rate = |of: fn(&Rates) -> u64| row.rates.as_ref().map(of).map(short);
        let numbers = [
            rate(|it| it.receive.bytes),
            rate(|it| it.transmit.bytes),
            rate(|it| it.receive.packets),
            rate(|it| it.transmit.packets),
            Some(short(row.receive_drops)),
            Some(short(row.transmit_drops)),
            Some(short(row.receive_bytes)),
            Some(short(row.transmit_bytes)),
        ];
        table.row(cells(row, by).into_iter().chain(numbers.map(Option::unwrap_or_default)));
    }
    table
}

fn headings(by: By) -> &'static [&'static str] {
    match by {
        By::Container => &["NAME", "RUNTIME", "NETWORK", "INTERFACE"],
        By::Network => &["NETWORK", "INTERFACES"],
        By::Port => &["PORT", "NAME", "RUNTIME", "NETWORK"],
    }
}

fn cells(row: &Row, by: By) -> Vec<String> {
    let text = |cell: &Option<String>| cell.clone().unwrap_or_default();
    match by {
        By::Container => {
            let name = shortened(&text(&row.name), false);
            vec![name, text(&row.runtime), row.network().clone(), text(&row.interface)]
        }
        By::Network => vec![row.network().clone(), row.interfaces.to_string()],
        By::Port => {
            let name = shortened(&text(&row.name), false);
            vec![text(&row.port), name, text(&row.runtime), row.network().clone()]
        }
    }
}
