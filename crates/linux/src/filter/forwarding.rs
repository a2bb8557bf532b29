//! Rules in iptables for a host that drops what it forwards (Docker's and ufw's policy), and so the
//! packets of containers too. They have the form that iptables itself would give them, so that it
//! shows them and can remove them as any other rule.
//!
//! One rule of `FORWARD`, behind all of Docker's, leads to a chain of Spoke's with two rules for all of
//! its bridges. Two more are for a bridge that a user made or named, and one for each opening of a network.
//! Docker's rules and the administrator's chain `DOCKER-USER` decide about a packet before it reaches that
//! rule, and Docker's own packets never reach it.

mod members;
mod policy;
mod rules;

use std::collections::BTreeSet;

use model::{Error, Family, IfName, Result};
use netlink::nft::{self, Chain, Hook, Policy, RulePosition, Shape, Table, Transaction, Verdict};
use netlink::{Errno, Socket, xtables};

use self::members::Members;
pub(crate) use self::policy::forget_policy;
pub use self::policy::left_open;
use self::rules::{Rule, interface_of, is, is_about, rule};
use super::name_of;
use super::ruleset::settled;

/// Each attempt but the last one found the ruleset changed in between.
const ATTEMPTS: usize = 64;
const FORWARD: &str = "FORWARD";
/// Our rules.
const OURS: &str = "SPOKE-FORWARD";
/// The chain for packets from Spoke's containers that Docker's rules did not refuse.
const SENT: &str = "SPOKE-SENT";
/// Docker's administrators' chain, where our rules stood before they had a chain of their own.
const DOCKER_USER: &str = "DOCKER-USER";
/// Docker's chains have names that begin so.
const DOCKER: &str = "DOCKER";
/// Up to version 27 Docker drops here what goes to its own bridges, and keeps unpublished ports shut
/// by nothing but the host's policy.
const DOCKER_ISOLATION: &str = "DOCKER-ISOLATION-STAGE-2";
/// What the firewall plugin's iptables back end isolates networks by.
const CNI_ISOLATION: &str = "CNI-ISOLATION-STAGE-1";
/// Changes of other programs in these chains may concern Spoke's rules.
pub(crate) const CHAINS: [&str; 5] = [DOCKER_USER, FORWARD, OURS, SENT, DOCKER_ISOLATION];

/// The programs on this host that drop what it forwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    /// Families in which iptables does, and now accepts the containers' packets.
    pub accepted: Vec<Family>,
    /// Families in which the old iptables, which netlink does not change, has a filter table that may drop what
    /// is forwarded: the caller has to execute it.
    pub legacy: Vec<Family>,
    /// Whether anything was missing.
    pub changed: bool,
}

/// Which clients reach the addresses behind a bridge by routes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open<'a> {
    /// Everybody, by packets of these families.
    pub direct: &'a [Family],
    /// Who comes by one of these interfaces; `inet spoke` judges what he reaches.
    pub trusted: &'a [IfName],
}

/// Makes the host's iptables accept what the containers behind an interface send, and what they are
/// sent: answers, and connections to published ports. What Docker or the administrator's rules in
/// Docker's chain drop stays dropped. What is `open` is sent everything from there. Where iptables accepts all, and
/// Docker's containers are open by that in one of the families that are `ours` ([`left_open`]), it drops from then on.
///
/// # Errors
/// Where the process may not change the rules; [`model::Kind::TryAgain`] if others keep changing
/// the ruleset.
pub fn allow_forwarding(
    socket: &mut Socket,
    interface: &IfName,
    open: Open<'_>,
    ours: &[Family],
) -> Result<Forwarding> {
    let mut found = Forwarding { legacy: legacy(), ..Forwarding::default() };
    let mut tables = Vec::new();
    for (family, table) in TABLES {
        let forward = nft::chain(socket, table, FORWARD)?;
        let is_left_open =
            ours.contains(&family) && policy::open(socket, table, forward.as_ref())?.is_some();
        if is_left_open || forward.as_ref().is_some_and(drops) {
            tables.push((family, table, is_left_open));
        }
    }
    if tables.is_empty() {
        return Ok(found);
    }
    let members = Members::of_name(interface)?;
    for (family, table, is_left_open) in tables {
        let is_direct = open.direct.contains(&family);
        let allowed = Allowed { interface, is_direct, open };
        found.changed |= allow_in(socket, table, members, allowed)?;
        if is_left_open {
            // First, so that no packet of a container meets the policy without the rules.
            allow_others(socket, table, interface)?;
            found.changed |= policy::close(socket, table)?;
        }
        found.accepted.push(family);
    }
    Ok(found)
}

/// Takes out what [`allow_forwarding`] put in for the interface that is `leaving`, wherever it is, and the
/// rules for many of which none is there any more.
///
/// # Errors
/// As [`allow_forwarding`].
pub fn disallow_forwarding(socket: &mut Socket, leaving: Option<&IfName>) -> Result<()> {
    for (_, table) in TABLES {
        let stay = match nft::chain_exists(socket, table, OURS)? {
            true => Members::there(leaving)?,
            false => BTreeSet::new(),
        };
        let plan = |socket: &mut Socket, change: &mut Transaction| {
            disallow(socket, table, change, leaving, &stay)
        };
        if edit(socket, table, plan)?.done()? && dropping(socket, table)? {
            let came = Members::there(leaving)?;
            allow_again(socket, table, came.difference(&stay).copied())?;
        }
    }
    Ok(())
}

/// Another process may have made the first interface of some after they were counted, and have found their
/// rules there.
fn allow_again(
    socket: &mut Socket,
    table: Table<'_>,
    came: impl Iterator<Item = Members>,
) -> Result<()> {
    for members in came {
        let plan = |socket: &mut Socket, change: &mut Transaction| {
            allow(socket, table, change, Some(members), None)
        };
        // Where the kernel lacks what they need, nothing went.
        let _: Edited = edit(socket, table, plan)?;
    }
    Ok(())
}

/// An interface, and who reaches what is behind it without a published port.
#[derive(Clone, Copy)]
struct Allowed<'a> {
    interface: &'a IfName,
    is_direct: bool,
    open: Open<'a>,
}

/// The same for all others of Spoke's that are there: nothing was needed for them so far. Who reaches them by routes is
/// learned when they are restored.
fn allow_others(socket: &mut Socket, table: Table<'_>, interface: &IfName) -> Result<()> {
    for (other, members) in Members::leading()?.into_iter().filter(|(it, _)| it != interface) {
        let (is_direct, open) = (false, Open::default());
        allow_in(socket, table, members, Allowed { interface: &other, is_direct, open })?;
    }
    Ok(())
}

/// By the rules for many, where the kernel has what they need (`xt_devgroup`).
fn allow_in(
    socket: &mut Socket,
    table: Table<'_>,
    members: Option<Members>,
    allowed: Allowed<'_>,
) -> Result<bool> {
    let edited =
        edit(socket, table, |socket, change| allow(socket, table, change, members, Some(allowed)))?;
    match (edited, members) {
        (Edited::Lacking(_), Some(_)) => {
            let alone = |socket: &mut Socket, change: &mut Transaction| {
                allow(socket, table, change, None, Some(allowed))
            };
            edit(socket, table, alone)?.done()
        }
        (edited, _) => edited.done(),
    }
}

const TABLES: [(Family, Table<'static>); 2] = [
    (Family::V4, Table { family: nft::Family::Ipv4, name: "filter" }),
    (Family::V6, Table { family: nft::Family::Ipv6, name: "filter" }),
];

fn dropping(socket: &mut Socket, table: Table<'_>) -> Result<bool> {
    Ok(nft::chain(socket, table, FORWARD)?.is_some_and(|chain| drops(&chain)))
}

fn drops(chain: &Chain) -> bool {
    chain.base.is_some_and(|base| base.hook == Hook::Forward && base.policy == Policy::Drop)
}

/// A chain whose policy is to drop what is forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropping {
    /// Which, as `family table chain`.
    pub chain: String,
    /// The interfaces whose packets Spoke's rules accept.
    pub passing: BTreeSet<String>,
}

/// Every such chain.
///
/// # Errors
/// As [`nft::chains`].
pub fn dropping_chains(socket: &mut Socket) -> Result<Vec<Dropping>> {
    let mut found = Vec::new();
    for family in [nft::Family::Inet, nft::Family::Ipv4, nft::Family::Ipv6] {
        for Chain { table, name, .. } in nft::chains(socket, family)?.iter().filter(|c| drops(c)) {
            let known = TABLES.iter().map(|(_, known)| *known);
            let mut at = known.filter(|known| known.family == family && known.name == *table);
            let passing = match at.next() {
                Some(at) if name == FORWARD => passing(socket, at)?,
                Some(_) | None => BTreeSet::new(),
            };
            found.push(Dropping { chain: format!("{family} {table} {name}"), passing });
        }
    }
    Ok(found)
}

/// The interfaces whose packets Spoke's rules accept in both directions.
fn passing(socket: &mut Socket, table: Table<'_>) -> Result<BTreeSet<String>> {
    let forward = nft::rules(socket, table, FORWARD)?;
    if !forward.iter().any(|rule| jumps(rule, OURS)) {
        return Ok(BTreeSet::new());
    }
    let rules = nft::rules(socket, table, OURS)?;
    let accepted = |way: &Shape| -> BTreeSet<String> {
        rules.iter().filter_map(|rule| accepted(rule, way)).collect()
    };
    let (from, to) = (accepted(&Shape::InputName), accepted(&Shape::OutputName));
    let is_there = |rule: &Rule| rules.iter().any(|there| is(there, rule));
    let both = |members: &Members| rules::common(*members).iter().all(is_there);
    let mut passing = Members::names(&Vec::from_iter(Members::ALL.into_iter().filter(both)))?;
    passing.extend(from.intersection(&to).cloned());
    Ok(passing)
}

fn accepted(rule: &nft::Rule, way: &Shape) -> Option<String> {
    let [first, Shape::Equal(name), .., Shape::Accept | Shape::Jump(_)] = rule.shape.as_slice()
    else {
        return None;
    };
    let name = String::from_utf8_lossy(name.strip_suffix(&[0])?);
    (first == way && rules::is_ours(rule)).then(|| name.trim_end_matches('\0').to_owned())
}

/// Families in which the old iptables may drop what is forwarded. One that lists its rules makes the table, which
/// accepts all then.
fn legacy() -> Vec<Family> {
    // What cannot be read may drop everything.
    let judges = |family: &Family| xtables::judges_forwarded(*family).unwrap_or(true);
    [Family::V4, Family::V6].into_iter().filter(judges).collect()
}

/// What became of a change.
enum Edited {
    Same,
    Changed,
    /// The kernel does not have what a rule needs.
    Lacking(Error),
}

impl Edited {
    /// Whether there was anything to change.
    fn done(self) -> Result<bool> {
        match self {
            Edited::Same => Ok(false),
            Edited::Changed => Ok(true),
            Edited::Lacking(error) => Err(error),
        }
    }
}

/// Changes `table` by `plan`, if the ruleset does not change between the read and the write.
fn edit(
    socket: &mut Socket,
    table: Table<'_>,
    plan: impl Fn(&mut Socket, &mut Transaction) -> Result<()>,
) -> Result<Edited> {
    for _ in 0..ATTEMPTS {
        let mut change = Transaction::of_generation(nft::generation(socket)?);
        plan(socket, &mut change)?;
        if change.is_empty() {
            return Ok(Edited::Same);
        }
        let outcome = change.commit(socket);
        if let Ok(outcome) = &outcome
            && let Some(lacking) = outcome.failures().iter().find(|it| it.errno == Errno::NOENT)
        {
            return Ok(Edited::Lacking(lacking.clone().into_error()));
        }
        if settled(outcome, |failure| failure.errno == Errno::RESTART)? {
            return Ok(Edited::Changed);
        }
    }
    Err(Error::try_again(format!("{table} keeps being changed by others")))
}

fn allow(
    socket: &mut Socket,
    table: Table<'_>,
    change: &mut Transaction,
    members: Option<Members>,
    allowed: Option<Allowed<'_>>,
) -> Result<()> {
    let forward = nft::rules(socket, table, FORWARD)?;
    let interface = allowed.map(|allowed| allowed.interface);
    remove_former(socket, table, &forward, change, interface)?;
    let isolates = nft::chain_exists(socket, table, DOCKER_ISOLATION)?;
    for chain in [OURS, SENT] {
        if !nft::chain_exists(socket, table, chain)? {
            change.add_chain(table, chain, None, false);
        }
    }
    let isolated = isolates.then(|| rule(Vec::new(), Verdict::Jump(DOCKER_ISOLATION)));
    let sent: Vec<_> = isolated.into_iter().chain([rule(Vec::new(), Verdict::Accept)]).collect();
    let there = nft::rules(socket, table, SENT)?;
    replace(change, (table, SENT), &Vec::from_iter(&there), &sent);
    let there = nft::rules(socket, table, OURS)?;
    if let Some(members) = members {
        let wanted = rules::common(members);
        let is_one = |there: &&nft::Rule| wanted.iter().any(|rule| is(there, rule));
        replace(change, (table, OURS), &Vec::from_iter(there.iter().filter(is_one)), &wanted);
    }
    if let Some(Allowed { interface, is_direct, open }) = allowed {
        let about: Vec<_> = there.iter().filter(|rule| is_about(rule, interface)).collect();
        let wanted = match members {
            Some(_) => rules::besides(interface, is_direct, open),
            None => rules::alone(interface, is_direct, open),
        };
        replace(change, (table, OURS), &about, &wanted);
        if members == Some(Members::Pairs) {
            let others = there.iter().filter(|rule| !is_about(rule, interface));
            remove_pairs(change, table, others);
        }
    }
    let is_about = |rule: &nft::Rule| interface.is_some_and(|name| is_about(rule, name));
    let others: Vec<_> = forward.iter().filter(|rule| !is_about(rule)).collect();
    lead_to_ours(change, table, &others);
    Ok(())
}

/// Earlier versions had two rules for each end of a pair, also after it was gone.
fn remove_pairs<'a>(
    change: &mut Transaction,
    table: Table<'_>,
    there: impl Iterator<Item = &'a nft::Rule>,
) {
    for there in there {
        let name = interface_of(there).and_then(name_of);
        let is_former = |name: &IfName| {
            Members::is_pair(name) && rules::plain(name).iter().any(|rule| is(there, rule))
        };
        if name.as_ref().is_some_and(is_former) {
            change.delete_rule(table, OURS, there.handle);
        }
    }
}

/// Makes the rules that are `there` the `wanted` ones, unless they are.
fn replace(
    change: &mut Transaction,
    (table, chain): (Table<'_>, &str),
    there: &[&nft::Rule],
    wanted: &[Rule],
) {
    if there.len() == wanted.len() && there.iter().zip(wanted).all(|(there, rule)| is(there, rule))
    {
        return;
    }
    there.iter().for_each(|rule| change.delete_rule(table, chain, rule.handle));
    wanted.iter().for_each(|rule| change.add_rule(table, chain, RulePosition::Tail, rule));
}

/// Makes `FORWARD` jump to Spoke's chain once, and behind Docker's rules and those that isolate networks of
/// the iptables back end. Without any the jump is first, because the host may refuse everything at the end.
fn lead_to_ours(change: &mut Transaction, table: Table<'_>, forward: &[&nft::Rule]) {
    let lead = rule(Vec::new(), Verdict::Jump(OURS));
    let bridges = docker_bridges(forward);
    let behind = forward.iter().rposition(|rule| is_dockers(rule, &bridges)).map_or(0, |at| at + 1);
    let leads: Vec<usize> = (0..forward.len())
        .filter(|at| forward.get(*at).is_some_and(|rule| jumps(rule, OURS)))
        .collect();
    if let [at] = leads[..]
        && at >= behind
        && forward.get(at).is_some_and(|there| is(there, &lead))
    {
        return;
    }
    let next = forward.iter().skip(behind).find(|rule| !jumps(rule, OURS));
    let place = next.map_or(RulePosition::Tail, |next| RulePosition::Before(next.handle));
    change.add_rule(table, FORWARD, place, &lead);
    for there in forward.iter().filter(|rule| jumps(rule, OURS)) {
        change.delete_rule(table, FORWARD, there.handle);
    }
}

fn jumps(rule: &nft::Rule, to: &str) -> bool {
    matches!(rule.shape.last(), Some(Shape::Jump(chain)) if chain == to)
}

/// The bridges that Docker up to 27 has rules for in `FORWARD`: `-o BRIDGE -j DOCKER`.
fn docker_bridges<'a>(forward: &[&'a nft::Rule]) -> BTreeSet<&'a [u8]> {
    let leads_there = forward.iter().filter(|rule| jumps(rule, DOCKER));
    leads_there.filter_map(|rule| interface_of(rule)).collect()
}

fn is_dockers(rule: &nft::Rule, bridges: &BTreeSet<&[u8]>) -> bool {
    let is_first = |to: &str| to.starts_with(DOCKER) || to == CNI_ISOLATION;
    let jumps = matches!(rule.shape.last(), Some(Shape::Jump(to)) if is_first(to));
    jumps || interface_of(rule).is_some_and(|name| bridges.contains(name))
}

/// The rules of earlier versions, which stood among the administrator's.
fn remove_former(
    socket: &mut Socket,
    table: Table<'_>,
    forward: &[nft::Rule],
    change: &mut Transaction,
    interface: Option<&IfName>,
) -> Result<()> {
    let Some(interface) = interface else { return Ok(()) };
    let user = nft::rules(socket, table, DOCKER_USER)?;
    for (chain, rules) in [(FORWARD, forward), (DOCKER_USER, user.as_slice())] {
        for there in rules.iter().filter(|rule| is_about(rule, interface)) {
            change.delete_rule(table, chain, there.handle);
        }
    }
    Ok(())
}

/// With the last rule the chains go too.
fn disallow(
    socket: &mut Socket,
    table: Table<'_>,
    change: &mut Transaction,
    leaving: Option<&IfName>,
    stay: &BTreeSet<Members>,
) -> Result<()> {
    let forward = nft::rules(socket, table, FORWARD)?;
    remove_former(socket, table, &forward, change, leaving)?;
    let there = nft::rules(socket, table, OURS)?;
    if there.is_empty() && !nft::chain_exists(socket, table, OURS)? {
        return Ok(());
    }
    let gone = Members::ALL.into_iter().filter(|members| !stay.contains(members));
    let unused: Vec<Rule> = gone.flat_map(rules::common).collect();
    let (unused, others): (Vec<_>, Vec<_>) = there.iter().partition(|there| {
        leaving.is_some_and(|name| is_about(there, name))
            || unused.iter().any(|rule| is(there, rule))
    });
    unused.iter().for_each(|rule| change.delete_rule(table, OURS, rule.handle));
    if !others.is_empty() {
        return Ok(());
    }
    for there in forward.iter().filter(|rule| jumps(rule, OURS)) {
        change.delete_rule(table, FORWARD, there.handle);
    }
    change.delete_chain(table, OURS);
    if nft::chain_exists(socket, table, SENT)? {
        for there in nft::rules(socket, table, SENT)? {
            change.delete_rule(table, SENT, there.handle);
        }
        change.delete_chain(table, SENT);
    }
    Ok(())
}
