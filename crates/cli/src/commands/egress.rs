//! `spoke egress`: where the containers of a network may go.

mod judged;
mod own;

use std::collections::BTreeMap;
use std::net::IpAddr;

use engine::Engine;
use host::denied::{Act, Denied};
use host::time::{self, rfc3339};
use linux::filter::fence::{self, Fenced, Opening};
use model::{
    DomainName, EgressRule, EgressTarget, Error, Fence, Network, NetworkName, Protocol, Result,
    Service, Timestamp,
};
use netlink::Socket;
use serde::Serialize;

use crate::answer::Answer;
use crate::args::egress::{EgressCommand, LearnArgs, SuggestArgs};
use crate::commands::denied;
use crate::context::CommandContext;
use crate::output::table::Table;
use crate::output::{Output, names, render};
use crate::titles::Titles;
use crate::view::rules;

const ONE_OF_BOTH: &str = "give a network, or --container";

/// A network's fence, as it is shown.
#[derive(Debug, Serialize)]
struct FenceView {
    network: String,
    /// What its runtime calls the network, where that differs.
    title: Option<String>,
    /// Whether the network has rules. Without any its containers go where they want, but for those that have
    /// rules of their own.
    #[serde(rename = "fenced")]
    is_fenced: bool,
    rules: Vec<String>,
    strict: bool,
    learning_until: Option<String>,
    containers: Vec<own::OwnView>,
    open: Vec<OpenView>,
}

/// What is open because of a name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct OpenView {
    source: IpAddr,
    address: IpAddr,
    port: u16,
    protocol: String,
    names: Vec<String>,
    seconds: u64,
}

pub(crate) fn run(
    command: &EgressCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    match command {
        EgressCommand::Show(which) => show(&which.network, output, context),
        EgressCommand::Test(wanted) => judged::test(wanted, output, context),
        EgressCommand::Set(wanted) => match wanted.wanted()? {
            own::RulesChange::Network(network, rules) => {
                crate::commands::host::refuse_shared_rules(&network, context)?;
                change(&network, output, context, &move |fence| {
                    fence.rules.clone_from(&rules.rules);
                })
            }
            own::RulesChange::Container(container, network, rules) => {
                own::set((container, network, rules), output, context)
            }
        },
        EgressCommand::Learn(wanted) => learn(wanted, output, context),
        EgressCommand::Suggest(wanted) => suggest(wanted, output, context),
    }
}

fn learn(wanted: &LearnArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let until = wanted.period.filter(|_| !wanted.stop);
    let now = time::moment()?;
    let until = until.map(|period| now.plus(period));
    match (&wanted.container, &wanted.network) {
        (Some(container), network) => {
            own::learn((container, network.as_ref(), until), output, context)
        }
        (None, Some(network)) => change(network, output, context, &move |fence| {
            fence.learning.clone_from(&until);
        }),
        (None, None) => Err(Error::invalid(ONE_OF_BOTH)),
    }
}

fn fenced(engine: &Engine<'_>, network: &Network) -> Result<Fenced> {
    let fenced = Fenced::of(&network.name, &network.wiring, &network.ipam)?;
    fenced.map_or_else(|| Err(unfenced(&Titles::read(engine)?.shown_of(network))), Ok)
}

fn unfenced(network: &str) -> Error {
    Error::not_found(format!("network {network} has no egress rules: it was made without --egress"))
}

/// Records the change first: a process that makes the fence meanwhile makes the new one.
fn change(
    name: &NetworkName,
    output: Output,
    context: &CommandContext,
    change: &dyn Fn(&mut Fence),
) -> Result<Answer> {
    let engine = (context.engine)()?;
    let network = engine.networks.change_fence(name, change)?;
    let fenced = fenced(&engine, &network)?;
    let mut socket = Socket::netfilter()?;
    let now = time::moment()?;
    fence::keep(&mut socket, &fenced, Some(&now))?;
    if !fenced.fence.is_learning(&now) {
        fence::end_packets(&mut socket, |socket| fence::prune(socket, &fenced))?;
    }
    // Scripts get the network's own name.
    let called = match output {
        Output::Table => Titles::read(&engine)?.shown_of(&network),
        _ => network.called().to_string(),
    };
    Ok(Answer::text(names(output, &[called])?))
}

fn show(name: &NetworkName, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let network = engine.records.network(name)?;
    let containers = own::views(&engine, &network.name, context)?;
    // Without rules of its own it may have a container with some.
    let fence = match fenced(&engine, &network) {
        Ok(fenced) => Some(fenced.fence),
        Err(_) if !containers.is_empty() => None,
        Err(error) => return Err(error),
    };
    let fence_of = fence.clone().unwrap_or_default();
    let remaining = fence_of.remaining(&time::moment()?).as_secs();
    let learning = (remaining > 0).then_some(Timestamp(context.now.0 + remaining));
    let view = FenceView {
        network: network.called().to_string(),
        title: Titles::read(&engine)?.title(network.name.as_str(), None),
        is_fenced: fence.is_some(),
        rules: rules::texts(&fence_of),
        strict: fence_of.strict,
        learning_until: learning.map(rfc3339),
        containers,
        open: open_behind(&network)?,
    };
    Ok(Answer::text(render(output, &view, || text(&view))?))
}

/// What is open now because of a name.
fn open_behind(network: &Network) -> Result<Vec<OpenView>> {
    let bridge = network.wiring.bridge();
    let is_own = |opening: &Opening| bridge.is_some_and(|it| it.name == opening.bridge);
    let mut open: Vec<OpenView> = fence::opened(&mut Socket::netfilter()?)?
        .into_iter()
        .filter(|(opening, (_, remaining))| is_own(opening) && !remaining.is_zero())
        .map(|(opening, (names, remaining))| OpenView {
            source: opening.source,
            address: opening.destination,
            port: opening.port,
            protocol: opening.protocol.to_string(),
            names: names.iter().map(ToString::to_string).collect(),
            seconds: remaining.as_secs(),
        })
        .collect();
    open.sort();
    Ok(open)
}

fn text(view: &FenceView) -> String {
    let mut text = String::new();
    if let Some(until) = &view.learning_until {
        text.push_str(&format!("Learns until {until}: nothing is refused.\n"));
    }
    let mut rules = Table::new(&["ALLOWED"]);
    view.rules.iter().for_each(|rule| rules.row([rule.clone()]));
    match view.rules.is_empty() {
        true if view.is_fenced => rules.row(["none".to_owned()]),
        true => rules.row(["everything".to_owned()]),
        false => {}
    }
    text.push_str(&rules.text());
    if view.strict {
        text.push_str("Strict: nothing is routed out while the packet filter is flushed.\n");
    }
    if !view.strict && view.containers.iter().any(|one| one.strict) {
        text.push_str(
            "Strict because of a container: nothing is routed out while the packet filter is flushed.\n",
        );
    }
    if !view.containers.is_empty() {
        let mut own = Table::new(&["CONTAINER", "ITS OWN RULES"]);
        for one in &view.containers {
            let mut rules = if one.rules.is_empty() { "none".into() } else { one.rules.join(",") };
            if one.strict {
                rules.push_str(" (strict)");
            }
            if let Some(until) = &one.learning_until {
                rules.push_str(&format!(" (learns until {until})"));
            }
            own.row([format!("{}/{}", one.runtime, one.container), rules]);
        }
        text.push('\n');
        text.push_str(&own.text());
    }
    if !view.open.is_empty() {
        let mut open = Table::new(&["CONTAINER", "OPEN", "BECAUSE OF", "SECONDS"]);
        for one in &view.open {
            let service = format!("{}/{}", one.port, one.protocol);
            let to = match one.address {
                IpAddr::V4(v4) => format!("{v4}:{service}"),
                IpAddr::V6(v6) => format!("[{v6}]:{service}"),
            };
            let seconds = one.seconds.to_string();
            open.row([one.source.to_string(), to, one.names.join(","), seconds]);
        }
        text.push('\n');
        text.push_str(&open.text());
    }
    text
}

/// Whether a rule allows all of another one.
fn allows(rule: &EgressRule, target: &EgressRule) -> bool {
    let (ours, theirs) = (&rule.service, &target.service);
    let has_ports =
        ours.protocol == theirs.protocol && ours.first <= theirs.first && theirs.last <= ours.last;
    has_ports
        && match (&rule.target, &target.target) {
            (EgressTarget::Net(net), EgressTarget::Net(one)) => {
                model::is_meant(*net, one.network()) && model::is_meant(*net, one.broadcast())
            }
            (EgressTarget::Below(domain), EgressTarget::Name(name)) => name.is_below(domain),
            (one, other) => one == other,
        }
}

fn suggest(wanted: &SuggestArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let (fence, denied) = match (&wanted.container, &wanted.network) {
        (Some(container), network) => {
            let one = own::learner(&engine, container, network.as_ref(), context)?;
            let mut denied = denied::all(Some(&one.id.network), context);
            denied.retain(|it| it.by_own_rules && own::is_of(&one, it));
            (one.wiring.own_fence.unwrap_or_default(), denied)
        }
        (None, Some(network)) => {
            let network = engine.records.network(network)?;
            let mut denied = denied::all(Some(&network.name), context);
            denied.retain(|one| !one.by_own_rules);
            (fenced(&engine, &network)?.fence, denied)
        }
        (None, None) => return Err(Error::invalid(ONE_OF_BOTH)),
    };
    let mut rules = suggested(&denied);
    rules.retain(|rule| !fence.rules.iter().any(|known| allows(known, rule)));
    if wanted.all {
        rules = fence.rules.iter().cloned().chain(rules).collect();
    }
    let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
    Ok(Answer::text(names(output, &rules)?))
}

/// Names with the ports that were used of them, and addresses that no name led to. A name whose ports are
/// not known was asked for and not used. What was refused before something was learned is no use: of that only
/// what has been refused since counts.
fn suggested(all: &[Denied]) -> Vec<EgressRule> {
    let mut rules: BTreeMap<String, EgressRule> = BTreeMap::new();
    let mut named: BTreeMap<DomainName, bool> = BTreeMap::new();
    let since = all.iter().rposition(|it| it.act == Act::Learned);
    let has_learned = |(place, it): &(usize, &Denied)| {
        it.act == Act::Learned || since.is_none_or(|last| *place > last)
    };
    for (_, denied) in all.iter().enumerate().filter(has_learned) {
        let name = denied.name.as_deref().and_then(|name| name.parse::<DomainName>().ok());
        let protocol = denied.protocol.as_deref().and_then(|it| it.parse::<Protocol>().ok());
        let is_packet = matches!(denied.act, Act::PacketDropped | Act::Learned);
        match (name, denied.address, protocol, denied.port) {
            (name, Some(address), Some(protocol), Some(port)) if is_packet && port > 0 => {
                let target = match name {
                    Some(name) => {
                        named.insert(name.clone(), true);
                        EgressTarget::Name(name)
                    }
                    None => EgressTarget::Net(address.into()),
                };
                let rule = EgressRule { target, service: Service::one(protocol, port) };
                rules.insert(rule.to_string(), rule);
            }
            // What was asked for and not used while it was learned is no use either.
            (Some(name), None, _, _) if denied.act != Act::Learned => {
                named.entry(name).or_insert(false);
            }
            _ => {}
        }
    }
    // Refused names were never connected to. Most are web servers.
    for (name, _) in named.iter().filter(|(_, is_used)| !**is_used) {
        let target = EgressTarget::Name(name.clone());
        let rule = EgressRule { target, service: Service::one(Protocol::Tcp, 443) };
        rules.insert(rule.to_string(), rule);
    }
    // What is asked for need not be a name that rules know, and no option is meant by it where it is set.
    rules.retain(|text, rule| {
        !text.starts_with('-') && text.parse().is_ok_and(|read: Fence| read.rules == [rule.clone()])
    });
    rules.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(act: Act, name: Option<&str>, to: Option<(&str, u16, &str)>) -> Denied {
        let mut one = Denied::new(Timestamp(1), "a".into(), [10, 0, 0, 2].into(), act);
        one.name = name.map(str::to_owned);
        if let Some((address, port, protocol)) = to {
            one.address = Some(address.parse().unwrap());
            (one.port, one.protocol) = (Some(port), Some(protocol.to_owned()));
        }
        one
    }

    #[test]
    fn what_was_used_is_suggested() {
        let all = [
            denied(Act::Learned, Some("git.example"), None),
            denied(Act::Learned, Some("git.example"), Some(("203.0.113.7", 443, "tcp"))),
            denied(Act::Learned, Some("unused.example"), None),
            denied(Act::Learned, None, Some(("203.0.113.9", 53, "udp"))),
            denied(Act::Learned, None, Some(("203.0.113.9", 0, "icmp"))),
            denied(Act::NameRefused, Some("bad name"), None),
            denied(Act::NameRefused, Some("-.example"), None),
            denied(Act::NameRefused, Some("0x32000042"), None),
            denied(Act::Learned, Some("-.example"), Some(("203.0.113.7", 443, "tcp"))),
        ];
        let rules: Vec<String> = suggested(&all).iter().map(ToString::to_string).collect();
        assert_eq!(rules, ["203.0.113.9:53/udp", "git.example:443"]);
        let refused = [denied(Act::NameRefused, Some("x.example"), None)];
        assert_eq!(suggested(&refused)[0].to_string(), "x.example:443");
    }

    /// Refusals from before are what the learning was to be rid of; those since are news.
    #[test]
    fn what_is_refused_after_learning_is_suggested() {
        let to = |address: &'static str| Some((address, 443, "tcp"));
        let all = [
            denied(Act::PacketDropped, None, to("203.0.113.1")),
            denied(Act::NameRefused, Some("before.example"), None),
            denied(Act::Learned, Some("used.example"), to("203.0.113.2")),
            denied(Act::Learned, Some("asked.example"), None),
            denied(Act::NameRefused, Some("since.example"), None),
            denied(Act::PacketDropped, None, to("203.0.113.3")),
        ];
        let rules: Vec<String> = suggested(&all).iter().map(ToString::to_string).collect();
        assert_eq!(rules, ["203.0.113.3:443", "since.example:443", "used.example:443"]);
    }

    #[test]
    fn a_rule_covers_what_is_asked() {
        let rule = |text: &str| text.parse::<EgressRule>().unwrap();
        for (one, other, expected) in [
            ("*.a.example:443", "b.a.example:443", true),
            ("*.a.example:443", "a.example:443", false),
            ("*.a.example:1-500", "b.a.example:443", false),
            ("10.0.0.0/8:1-1000", "10.9.0.7:22", true),
            ("10.0.0.0/8:1-1000", "10.9.0.7:22/udp", false),
        ] {
            let Ok(one) = one.parse::<EgressRule>() else { continue };
            assert_eq!(allows(&one, &rule(other)), expected, "{one} {other}");
        }
    }

    /// As versions before this one wrote it.
    #[test]
    fn learning_by_the_time_of_day_is_over() {
        let read = |text: &str| serde_json::from_str::<Fence>(text).unwrap().learning;
        assert_eq!(read(r#"{"rules":[],"learning":1764100000}"#), None);
        assert_eq!(read(r#"{"rules":[]}"#), None);
        let known = read(r#"{"rules":[],"learning":{"boot":"a","seconds":9}}"#).unwrap();
        assert_eq!((known.boot.as_str(), known.seconds), ("a", 9));
    }
}
