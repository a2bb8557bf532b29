//! `spoke host check`: asks the other hosts over the networks that this one shares with them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cluster::View;
use host::hosts::{HostCheck, Reply};
use model::{ClusterHost, HostName, NetworkName, Result, SharedNetwork, Transport};
use netlink::ping::{self, Answer, Ask, Question};

use crate::hosts::Hosts;
use crate::hosts::local::{self, Local};
use crate::hosts::member::Member;

/// How long a host may take to answer.
const LIMIT: Duration = Duration::from_secs(1);
/// The same for each packet with which the largest one that arrives is sought.
const SEEK: Duration = Duration::from_millis(200);
/// A packet that arrives if any does, in bytes (RFC 791 §3.2).
pub(in crate::hosts) const SMALL: u32 = 68;
/// So many clocks are asked for at once: what is asked later waits for what is not answered, and would seem ahead.
const CLOCKS: usize = 100;
/// Clocks that differ by more are reported, in milliseconds: certificates and tokens depend on them.
const SKEW: i64 = 2000;
/// No more paths are asked by: the first network of each host comes first, then the second.
const MOST: usize = 512;
/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

/// A host, and the path to it that is checked.
pub(in crate::hosts) struct HostPath<'a> {
    pub(in crate::hosts) name: &'a HostName,
    host: &'a ClusterHost,
    pub(in crate::hosts) network: &'a NetworkName,
    pub(in crate::hosts) mtu: u32,
    transport: Transport,
    pub(in crate::hosts) from: IpAddr,
    pub(in crate::hosts) to: IpAddr,
}

impl Hosts {
    pub(in crate::hosts) fn check(&self) -> Result<Reply> {
        let (member, view) = {
            let state = self.lock();
            let member = state.member.clone().ok_or_else(super::no_member)?;
            (member, state.view.clone().unwrap_or_default())
        };
        let made = local::made(&self.place)?;
        let mut checks = Vec::new();
        let mut all = Vec::new();
        for (name, host) in view.hosts.iter().filter(|(name, _)| **name != member.name) {
            let mut of_host = paths(&view, &made, (name, host)).enumerate().peekable();
            if of_host.peek().is_none() {
                checks.push(unchecked(&view, &made, (name, host)));
            }
            all.extend(of_host);
        }
        all.sort_by_key(|(at, _)| *at);
        let paths: Vec<HostPath<'_>> = all.into_iter().take(MOST).map(|(_, path)| path).collect();
        checks.extend(checked(&member, &view, &paths)?);
        checks.sort_by(|one, other| (&one.name, &one.network).cmp(&(&other.name, &other.network)));
        say_once(&mut checks);
        Ok(Reply::Checks(checks))
    }
}

/// By the first network that both hosts have.
pub(in crate::hosts) fn host_path<'a>(
    view: &'a View,
    made: &BTreeMap<NetworkName, Local>,
    host: (&'a HostName, &'a ClusterHost),
) -> Option<HostPath<'a>> {
    paths(view, made, host).next()
}

/// By each network that both hosts have.
fn paths<'a>(
    view: &'a View,
    made: &BTreeMap<NetworkName, Local>,
    (name, host): (&'a HostName, &'a ClusterHost),
) -> impl Iterator<Item = HostPath<'a>> {
    view.networks.iter().filter_map(move |(network, shared)| {
        let here = made.get(network).filter(|made| made.network.is_same(shared));
        // Of a network with egress rules a host takes no questions.
        let is_asked = !shared.is_unknown() && shared.rules.egress.is_none();
        let here = here.filter(|_| is_asked)?;
        let mut gateways =
            view.blocks_of(network, name).map(|block| SharedNetwork::gateway(&block));
        let to = gateways.find(|gateway| {
            view.endpoints.contains_key(&(name.clone(), network.clone(), *gateway))
        })?;
        let from = SharedNetwork::gateway(&here.block);
        let transport = shared.transport;
        Some(HostPath { name, host, network, mtu: shared.mtu.bytes(), transport, from, to })
    })
}

/// What is wrong with a host itself, and not with a network, is reported of it once.
fn say_once(checks: &mut [HostCheck]) {
    let mut reported = BTreeSet::new();
    for check in checks {
        let name = &check.name;
        check.problems.retain(|why| reported.insert((name.clone(), why.clone())));
    }
}

/// A network with egress rules takes no questions: that nothing else leads there is no fault.
fn unchecked(
    view: &View,
    made: &BTreeMap<NetworkName, Local>,
    (name, host): (&HostName, &ClusterHost),
) -> HostCheck {
    let is_fenced = |(network, shared): (&NetworkName, &SharedNetwork)| {
        shared.rules.egress.is_some()
            && made.contains_key(network)
            && view.blocks_of(network, name).next().is_some()
    };
    let why = "it has no network with this host by which it could be checked".to_owned();
    let problems = if view.networks.iter().any(is_fenced) { Vec::new() } else { vec![why] };
    HostCheck {
        name: name.to_string(),
        address: host.address.to_string(),
        problems,
        ..HostCheck::default()
    }
}

fn checked(member: &Member, view: &View, paths: &[HostPath<'_>]) -> Result<Vec<HostCheck>> {
    let ask = |ask| move |path: &HostPath<'_>| Question { from: path.from, to: path.to, ask };
    let small: Vec<Question> = paths.iter().map(ask(Ask::Echo(SMALL))).collect();
    let whole: Vec<Question> = paths.iter().map(|path| ask(Ask::Echo(path.mtu))(path)).collect();
    let answers = ping::ask(&[small, whole].concat(), LIMIT)?;
    let skews = skews(paths)?;
    let of = |which: usize, at: usize| answers.get(which * paths.len() + at).copied().flatten();
    let narrow =
        paths.iter().enumerate().filter(|(at, _)| of(0, *at).is_some() && of(1, *at).is_none());
    let narrow = largest(narrow.collect())?;
    let mut checks = Vec::new();
    for (at, path) in paths.iter().enumerate() {
        let of = |which| of(which, at);
        let fits = match (of(0), of(1)) {
            (_, Some(_)) => Some(path.mtu),
            (Some(_), None) => narrow.get(&at).copied(),
            (None, None) => None,
        };
        let mut check = HostCheck {
            name: path.name.to_string(),
            address: path.host.address.to_string(),
            network: Some(path.network.to_string()),
            microseconds: of(0).map(|answer| answer.took.as_micros()),
            mtu: fits,
            clock_milliseconds: skews.get(at).copied().flatten(),
            problems: Vec::new(),
        };
        check.problems = problems(member, view.alive.contains(path.name), path, &check);
        checks.push(check);
    }
    Ok(checks)
}

/// The largest packet that arrives on each of some paths, on which some do and whole ones do not. All are asked at once:
/// a wrong MTU is wrong for many hosts.
fn largest(paths: Vec<(usize, &HostPath<'_>)>) -> Result<BTreeMap<usize, u32>> {
    let mut sought: Vec<_> =
        paths.into_iter().map(|(at, path)| (at, path, SMALL, path.mtu)).collect();
    let is_open =
        |(_, _, fits, fails): &(usize, &HostPath<'_>, u32, u32)| fails.saturating_sub(*fits) > 1;
    while sought.iter().any(is_open) {
        let middle = |fits: u32, fails: u32| fits + (fails - fits) / 2;
        let asked: Vec<_> = sought.iter_mut().filter(|it| is_open(it)).collect();
        let question = |(_, path, fits, fails): &(usize, &HostPath<'_>, u32, u32)| Question {
            from: path.from,
            to: path.to,
            ask: Ask::Echo(middle(*fits, *fails)),
        };
        let questions: Vec<Question> = asked.iter().map(|it| question(it)).collect();
        let answers = ping::ask(&questions, SEEK)?;
        let mut answers = answers.iter();
        for (_, _, fits, fails) in asked {
            match answers.next() {
                Some(Some(_)) => *fits = middle(*fits, *fails),
                Some(None) | None => *fails = middle(*fits, *fails),
            }
        }
    }
    Ok(sought.into_iter().map(|(at, _, fits, _)| (at, fits)).collect())
}

/// By how much the clocks at the other ends of paths are ahead, in milliseconds, where they are asked for.
fn skews(paths: &[HostPath<'_>]) -> Result<Vec<Option<i64>>> {
    let mut skews = vec![None; paths.len()];
    let mut asked: Vec<_> =
        paths.iter().zip(&mut skews).filter(|(path, _)| path.to.is_ipv4()).collect();
    for some in asked.chunks_mut(CLOCKS) {
        let question = |(path, _): &(&HostPath<'_>, _)| Question {
            from: path.from,
            to: path.to,
            ask: Ask::Clock,
        };
        let questions: Vec<Question> = some.iter().map(question).collect();
        let begin = milliseconds();
        for ((_, ahead), answer) in some.iter_mut().zip(ping::ask(&questions, LIMIT)?) {
            **ahead = answer.and_then(|answer| skew(answer, begin));
        }
    }
    Ok(skews)
}

/// By how much the other clock is ahead, in milliseconds; `begin` is this one's at the question.
fn skew(answer: Answer, begin: i64) -> Option<i64> {
    // RFC 792: with the highest bit set it is no time of day.
    let theirs = answer.clock.filter(|clock| i64::from(*clock) < DAY)?;
    let now = begin + i64::try_from(answer.took.as_millis()).unwrap_or(0);
    let ahead = (i64::from(theirs) - now).rem_euclid(DAY);
    Some(if ahead > DAY / 2 { ahead - DAY } else { ahead })
}

/// Milliseconds since midnight in UTC.
fn milliseconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_millis()).unwrap_or(0).rem_euclid(DAY)
}

fn problems(
    member: &Member,
    is_alive: bool,
    path: &HostPath<'_>,
    check: &HostCheck,
) -> Vec<String> {
    let mut problems = Vec::new();
    if !is_alive {
        problems.push("it is lost: its daemon does not renew its lease".to_owned());
    }
    match check.mtu {
        None if path.transport == Transport::Route => problems.push(format!(
            "it does not answer on network {}, whose packets go as they are from {} to {}: nothing on the segment may \
             drop those of the network's addresses",
            path.network, member.address, path.host.address
        )),
        None => problems.push(format!(
            "it does not answer on network {}: UDP port {} must be open between {} and {}, both ways",
            path.network,
            overlay::PORT,
            member.address,
            path.host.address
        )),
        Some(fits) if fits < path.mtu => problems.push(format!(
            "packets of {} bytes of network {} do not arrive, and those of {fits} do: raise the MTU between \
             the hosts to {}, or make the network again with --mtu {fits}",
            path.mtu,
            path.network,
            path.mtu + if path.transport == Transport::Route { 0 } else { overlay::overhead(member.address, false) }
        )),
        Some(_) => {}
    }
    if let Some(skew) = check.clock_milliseconds.filter(|skew| skew.abs() > SKEW) {
        let side = if skew > 0 { "ahead of" } else { "behind" };
        problems.push(format!("its clock is {} ms {side} this host's", skew.abs()));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_host_is_said_once() {
        let of = |network: &str, problems: &[&str]| HostCheck {
            name: "b".to_owned(),
            network: Some(network.to_owned()),
            problems: problems.iter().map(|why| (*why).to_owned()).collect(),
            ..HostCheck::default()
        };
        let mut checks =
            [of("one", &["it is lost", "one is cut"]), of("two", &["it is lost", "two is cut"])];
        say_once(&mut checks);
        assert_eq!(checks[0].problems, ["it is lost", "one is cut"]);
        assert_eq!(checks[1].problems, ["two is cut"]);
    }

    #[test]
    fn clocks_differ_over_midnight_too() {
        let at = |clock| Answer { took: Duration::ZERO, clock: Some(clock) };
        assert_eq!(skew(at(5), DAY - 5), Some(10));
        assert_eq!(skew(at(86_399_995), 5), Some(-10));
        assert_eq!(skew(at(1000), 1000), Some(0));
        assert_eq!(skew(at(u32::MAX), 0), None);
    }
}
