//! `spoke flows`: which connections containers have, by the names of both ends.

use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use host::exit;
use model::{Error, Kind, Result};
use netlink::Socket;
use netlink::conntrack::tracked::{self, Carried, Change, Follower, News, Tracked};
use serde::Serialize;
use traffic::flow::{Flow, FlowAddress, FlowEnd, FlowParties};
use traffic::{Addresses, Party};

use super::addresses::Directory;
use super::known::{self, Known};
use super::summary::instant;
use super::unit::short;
use crate::answer::Answer;
use crate::args::FlowsArgs;
use crate::commands::ps::shortened;
use crate::context::CommandContext;
use crate::output::table::Table;
use crate::output::{Output, line, render};

/// Whether the kernel counts what each connection carries.
const COUNTING: &str = "/proc/sys/net/netfilter/nf_conntrack_acct";
/// Whether it sends events.
const EVENTS: &str = "/proc/sys/net/netfilter/nf_conntrack_events";
/// More connections are not listed at once.
const MOST: usize = 65_536;
/// The longest wait for an event before the records are looked at again.
const GLANCE: Duration = Duration::from_secs(5);

/// A connection. `source` is where it began, `destination` where it goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct FlowView {
    /// `began` or `ended`; null in a list.
    event: Option<&'static str>,
    /// When, in UTC; null in a list.
    time: Option<String>,
    protocol: String,
    source: EndView,
    destination: EndView,
    /// The address and port that were asked for, where they were translated: the published port.
    published: Option<String>,
    /// The address that the destination sees, where the source was translated.
    masqueraded: Option<String>,
    state: &'static str,
    /// Null where the kernel does not count.
    sent_bytes: Option<u64>,
    sent_packets: Option<u64>,
    answered_bytes: Option<u64>,
    answered_packets: Option<u64>,
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct EndView {
    /// `container`, `host` or `outside`.
    kind: &'static str,
    name: Option<String>,
    container: Option<String>,
    network: Option<String>,
    /// What its runtime calls the network, where that differs.
    title: Option<String>,
    runtime: Option<String>,
    address: String,
    port: Option<u16>,
}

/// Lists the connections, or reports them as they begin and end.
pub(crate) fn run(
    wanted: &FlowsArgs,
    output: Output,
    context: &CommandContext,
    out: &mut dyn Write,
) -> Result<Answer> {
    if wanted.follow {
        return follow(wanted, output, context, out);
    }
    let known = Known::now(context)?;
    let directory = Directory::new(&known, context)?;
    let addresses = directory.addresses();
    let names = known::resolved(&wanted.names, &known, addresses, context)?;
    let is_meant = |entry: &Tracked| is_wanted(&Flow::of(entry, addresses), &names, wanted);
    let listed = tracked::list(&mut Socket::netfilter()?, MOST, is_meant)?;
    let views = listed.entries.iter().map(|entry| FlowView::of(&Flow::of(entry, addresses)));
    let views: Vec<FlowView> = views.collect();
    let mut notes = notes(&views);
    if listed.omitted > 0 {
        notes.push(format!("{} more are not shown; name a container", listed.omitted));
    }
    let text = render(output, &views, || table(&views).text())?;
    Ok(Answer { notes, ..Answer::text(text) })
}

fn is_wanted(flow: &Flow, names: &[String], wanted: &FlowsArgs) -> bool {
    match names {
        [] => wanted.all || flow.is_of_container(),
        names => flow.is_of(names),
    }
}

/// Why numbers may be missing.
fn notes(views: &[FlowView]) -> Vec<String> {
    let is_uncounted = views.iter().any(|view| view.sent_bytes.is_none());
    let off = "the kernel does not count what connections carry; `sysctl \
        net.netfilter.nf_conntrack_acct=1` lets it count for new ones";
    let is_off = is_uncounted && setting(COUNTING) == Some(0);
    is_off.then(|| off.to_owned()).into_iter().collect()
}

fn setting(path: &str) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Until a signal ends the process, or its reader has gone.
fn follow(
    wanted: &FlowsArgs,
    output: Output,
    context: &CommandContext,
    out: &mut dyn Write,
) -> Result<Answer> {
    if setting(EVENTS) == Some(0) {
        return Err(Error::new(
            Kind::Unsupported,
            "the kernel sends no events of connections; `sysctl net.netfilter.nf_conntrack_events=2` \
            lets it",
        ));
    }
    let mut known = Known::watched(context)?;
    let mut follower = Follower::new()?;
    let mut directory = Directory::new(&known, context)?;
    let names = known::resolved(&wanted.names, &known, directory.addresses(), context)?;
    let mut ends = remembered(directory.addresses())?;
    loop {
        let news = follower.wait(GLANCE)?;
        if known.refresh(context)? {
            directory.refresh(&known)?;
        }
        let changes = match news {
            News::Changes(changes) => changes,
            News::Lost if write(out, &lost(output)?)? => {
                ends = remembered(directory.addresses())?;
                continue;
            }
            News::Lost => return Ok(Answer::default()),
        };
        let is_unknown =
            |(_, it): &(Change, Tracked)| Flow::of(it, directory.addresses()).is_to_outside();
        if changes.iter().any(is_unknown) {
            directory.miss(&known, context)?;
        }
        let addresses = directory.addresses();
        let flows = changes.iter().map(|(change, it)| (*change, ends.flow(*change, it, addresses)));
        let meant = flows.filter(|(_, flow)| is_wanted(flow, &names, wanted));
        let lines = meant.map(|(change, flow)| text(change, &flow, output));
        if !write(out, &lines.collect::<Result<String>>()?)? {
            return Ok(Answer::default());
        }
    }
}

/// The ends of the connections that there are.
fn remembered(addresses: &Addresses) -> Result<FlowParties> {
    let mut ends = FlowParties::default();
    for entry in tracked::list(&mut Socket::netfilter()?, MOST, |_| true)?.entries {
        ends.remember(&entry, addresses);
    }
    Ok(ends)
}

/// Whether anyone reads it.
fn write(out: &mut dyn Write, text: &str) -> Result<bool> {
    if text.is_empty() { Ok(true) } else { exit::write(out, text) }
}

fn now() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    instant(now)
}

fn lost(output: Output) -> Result<String> {
    #[derive(Serialize)]
    struct Lost {
        event: &'static str,
        time: String,
    }
    match output {
        Output::Table => Ok(format!("{}  lost   events came faster than they were read\n", now())),
        Output::Json => Ok(line(&Lost { event: "lost", time: now() })? + "\n"),
        Output::Yaml | Output::Frr | Output::Bird => {
            let lost = Lost { event: "lost", time: now() };
            Ok(format!("---\n{}", render(output, &lost, String::new)?))
        }
    }
}

fn text(change: Change, flow: &Flow, output: Output) -> Result<String> {
    let event = match change {
        Change::Opened => "began",
        Change::Closed => "ended",
    };
    let view = FlowView { event: Some(event), time: Some(now()), ..FlowView::of(flow) };
    match output {
        Output::Table => Ok(sentence(event, &view)),
        Output::Json => Ok(line(&view)? + "\n"),
        Output::Yaml | Output::Frr | Output::Bird => {
            Ok(format!("---\n{}", render(output, &view, String::new)?))
        }
    }
}

fn sentence(event: &str, view: &FlowView) -> String {
    let mut what = format!("{} {} > {}", view.protocol, view.source, view.destination);
    if let Some(published) = &view.published {
        let _ = write!(what, " by {published}");
    }
    if let (Some(sent), Some(answered)) = (view.sent_bytes, view.answered_bytes)
        && event == "ended"
    {
        let _ = write!(what, ", sent {sent} bytes, answered {answered}");
    }
    let mut table = Table::headless();
    table.row([view.time.clone().unwrap_or_default(), event.to_owned(), what]);
    table.text()
}

fn table(views: &[FlowView]) -> Table {
    let mut table = Table::new(&[
        "PROTOCOL",
        "SOURCE",
        "DESTINATION",
        "PUBLISHED",
        "STATE",
        "SENT",
        "ANSWERED",
    ]);
    for view in views {
        table.row([
            view.protocol.clone(),
            view.source.to_string(),
            view.destination.to_string(),
            view.published.clone().unwrap_or_default(),
            view.state.to_owned(),
            view.sent_bytes.map(short).unwrap_or_default(),
            view.answered_bytes.map(short).unwrap_or_default(),
        ]);
    }
    table
}

impl FlowView {
    fn of(flow: &Flow) -> Self {
        let [sent, answered] = [flow.sent, flow.answered];
        let bytes = |carried: Option<Carried>| carried.map(|it| it.bytes);
        let packets = |carried: Option<Carried>| carried.map(|it| it.packets);
        let text = |place: &Option<FlowAddress>| place.as_ref().map(ToString::to_string);
        Self {
            event: None,
            time: None,
            protocol: flow.protocol.clone(),
            source: EndView::of(&flow.source),
            destination: EndView::of(&flow.destination),
            published: text(&flow.published),
            masqueraded: text(&flow.masqueraded),
            state: flow.state,
            sent_bytes: bytes(sent),
            sent_packets: packets(sent),
            answered_bytes: bytes(answered),
            answered_packets: packets(answered),
        }
    }
}

impl EndView {
    fn of(end: &FlowEnd) -> Self {
        let (address, port) = (end.place.address.to_string(), end.place.port);
        let blank = |kind| Self {
            kind,
            name: None,
            container: None,
            network: None,
            title: None,
            runtime: None,
            address: address.clone(),
            port,
        };
        match &end.party {
            Party::Host => blank("host"),
            Party::Outside => blank("outside"),
            Party::Container { name, container, network, title, runtime } => Self {
                name: Some(name.clone()),
                container: Some(container.clone()),
                network: Some(network.clone()),
                title: title.clone(),
                runtime: Some(runtime.clone()),
                ..blank("container")
            },
        }
    }
}

/// `web(front):80`, `host(10.1.0.1):4000`, `198.51.100.9:4000`.
impl std::fmt::Display for EndView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.kind, &self.name, self.title.as_ref().or(self.network.as_ref())) {
            (_, Some(name), Some(network)) => write!(f, "{}({network})", shortened(name, false))?,
            ("host", _, _) => write!(f, "host({})", self.address)?,
            _ if self.address.contains(':') && self.port.is_some() => {
                write!(f, "[{}]", self.address)?;
            }
            _ => f.write_str(&self.address)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}
