//! Rules in iptables for a host that drops what it forwards (Docker's and ufw's policy), and so the
//! packets of containers too. They have the form that iptables itself would give them, so that it
//! shows them and can remove them as any other rule.
//!
//! One rule of `FORWARD`, behind all of Docker's, leads to a chain of Spoke's with two rules for
//! each of its bridges. Docker's rules and the administrator's chain `DOCKER-USER` decide about a
//! packet before it reaches that rule, and Docker's own packets never reach it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;

use model::{Error, Family, IfName, Result};
use netlink::nft::{
    self, Chain, Expression, Hook, Meta, Place, Policy, Register, Shape, Table, Transaction,
    Verdict,
};
use netlink::{Errno, Socket};

use super::ruleset::settled;

/// Each attempt but the last one found the ruleset changed in between.
const ATTEMPTS: usize = 64;
const FORWARD: &str = "FORWARD";
/// Our rules, two for each bridge.
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
/// Changes of other programs in these chains may concern Spoke's rules.
pub(crate) const CHAINS: [&str; 5] = [DOCKER_USER, FORWARD, OURS, SENT, DOCKER_ISOLATION];
/// The comment of our rules, by which they are known.
const COMMENT: &str = "spoke";

/// The programs on this host that drop what it forwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    /// Families in which iptables does, and now accepts the containers' packets.
    pub accepted: Vec<Family>,
    /// Families in which the old iptables, which netlink does not reach, has a filter table: the
    /// caller has to execute it.
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

/// Makes the host's iptables accept what the containers behind `bridge` send, and what they are
/// sent: answers, and connections to published ports. What Docker or the administrator's rules in
/// Docker's chain drop stays dropped. What is `open` is sent everything from there.
///
/// # Errors
/// Where the process may not change the rules; [`model::Kind::TryAgain`] if others keep changing
/// the ruleset.
pub fn allow_forwarding(
    socket: &mut Socket,
    bridge: &IfName,
    open: Open<'_>,
) -> Result<Forwarding> {
    let mut found = Forwarding { legacy: legacy(), ..Forwarding::default() };
    for (family, table) in TABLES {
        if dropping(socket, table)? {
            let edited = edit(socket, table, |socket, change| {
                let direct = open.direct.contains(&family);
                allow(socket, table, change, &rules(bridge, direct, open.trusted), bridge)
            });
            found.changed |= edited?;
            found.accepted.push(family);
        }
    }
    Ok(found)
}

/// Takes out what [`allow_forwarding`] put in, wherever it is.
///
/// # Errors
/// As [`allow_forwarding`].
pub fn disallow_forwarding(socket: &mut Socket, bridge: &IfName) -> Result<()> {
    for (_, table) in TABLES {
        edit(socket, table, |socket, change| disallow(socket, table, change, bridge))?;
    }
    Ok(())
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
    /// The bridges whose packets Spoke's rules accept.
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

/// The bridges whose packets Spoke's rules accept in both directions.
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
    Ok(from.intersection(&to).cloned().collect())
}

fn accepted(rule: &nft::Rule, way: &Shape) -> Option<String> {
    let [first, Shape::Equal(name), .., Shape::Accept | Shape::Jump(_)] = rule.shape.as_slice()
    else {
        return None;
    };
    let is_ours = first == way && rule.shape.contains(&Shape::of(&comment()));
    let name = String::from_utf8_lossy(name);
    is_ours.then(|| name.trim_end_matches('\0').to_owned())
}

/// Families whose filter table the old iptables made.
fn legacy() -> Vec<Family> {
    let names = [(Family::V4, "ip_tables_names"), (Family::V6, "ip6_tables_names")];
    let has_filter = |name: &str| {
        let names = fs::read_to_string(format!("/proc/thread-self/net/{name}"));
        names.is_ok_and(|names| names.lines().any(|table| table == "filter"))
    };
    names.into_iter().filter(|(_, name)| has_filter(name)).map(|(family, _)| family).collect()
}

/// Changes `table` by `plan`, if the ruleset does not change between the read and the write.
/// Returns whether there was anything to change.
fn edit(
    socket: &mut Socket,
    table: Table<'_>,
    plan: impl Fn(&mut Socket, &mut Transaction) -> Result<()>,
) -> Result<bool> {
    for _ in 0..ATTEMPTS {
        let mut change = Transaction::of_generation(nft::generation(socket)?);
        plan(socket, &mut change)?;
        let changes = !change.is_empty();
        if settled(change.commit(socket), |failure| failure.errno == Errno::RESTART)? {
            return Ok(changes);
        }
    }
    Err(Error::try_again(format!("{table} keeps being changed by others")))
}

fn allow(
    socket: &mut Socket,
    table: Table<'_>,
    change: &mut Transaction,
    wanted: &[Vec<Expression<'_>>],
    bridge: &IfName,
) -> Result<()> {
    let forward = nft::rules(socket, table, FORWARD)?;
    remove_former(socket, table, &forward, change, bridge)?;
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
    let about = there.iter().filter(|rule| is_about(rule, bridge)).collect::<Vec<_>>();
    replace(change, (table, OURS), &about, wanted);
    let others: Vec<_> = forward.iter().filter(|rule| !is_about(rule, bridge)).collect();
    lead_to_ours(change, table, &others);
    Ok(())
}

/// Makes the rules that are `there` the `wanted` ones, unless they are.
fn replace(
    change: &mut Transaction,
    (table, chain): (Table<'_>, &str),
    there: &[&nft::Rule],
    wanted: &[Vec<Expression<'_>>],
) {
    if there.len() == wanted.len() && there.iter().zip(wanted).all(|(there, rule)| is(there, rule))
    {
        return;
    }
    there.iter().for_each(|rule| change.delete_rule(table, chain, rule.handle));
    wanted.iter().for_each(|rule| change.add_rule(table, chain, Place::Tail, rule));
}

fn is(there: &nft::Rule, rule: &[Expression<'_>]) -> bool {
    rule.iter().map(Shape::of).eq(there.shape.iter().cloned())
}

/// Makes `FORWARD` jump to Spoke's chain once, and behind Docker's rules. Without Docker's rules
/// the jump is first, because the host may refuse everything at the end.
fn lead_to_ours(change: &mut Transaction, table: Table<'_>, forward: &[&nft::Rule]) {
    let gateway_role = rule(Vec::new(), Verdict::Jump(OURS));
    let bridges = docker_bridges(forward);
    let behind = forward.iter().rposition(|rule| is_dockers(rule, &bridges)).map_or(0, |at| at + 1);
    let is_gateway: Vec<usize> = (0..forward.len())
        .filter(|at| forward.get(*at).is_some_and(|rule| jumps(rule, OURS)))
        .collect();
    if let [at] = is_gateway[..]
        && at >= behind
        && forward.get(at).is_some_and(|there| is(there, &gateway_role))
    {
        return;
    }
    let next = forward.iter().skip(behind).find(|rule| !jumps(rule, OURS));
    let place = next.map_or(Place::Tail, |next| Place::Before(next.handle));
    change.add_rule(table, FORWARD, place, &gateway_role);
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
    let jumps = matches!(rule.shape.last(), Some(Shape::Jump(to)) if to.starts_with(DOCKER));
    jumps || interface_of(rule).is_some_and(|name| bridges.contains(name))
}

/// The interface that a rule begins with.
fn interface_of(rule: &nft::Rule) -> Option<&[u8]> {
    match rule.shape.as_slice() {
        [Shape::InputName | Shape::OutputName, Shape::Equal(name), ..] => Some(name),
        _ => None,
    }
}

/// The rules of earlier versions, which stood among the administrator's.
fn remove_former(
    socket: &mut Socket,
    table: Table<'_>,
    forward: &[nft::Rule],
    change: &mut Transaction,
    bridge: &IfName,
) -> Result<()> {
    let user = nft::rules(socket, table, DOCKER_USER)?;
    for (chain, rules) in [(FORWARD, forward), (DOCKER_USER, user.as_slice())] {
        for there in rules.iter().filter(|rule| is_about(rule, bridge)) {
            change.delete_rule(table, chain, there.handle);
        }
    }
    Ok(())
}

/// With the last bridge the chains go too.
fn disallow(
    socket: &mut Socket,
    table: Table<'_>,
    change: &mut Transaction,
    bridge: &IfName,
) -> Result<()> {
    let forward = nft::rules(socket, table, FORWARD)?;
    remove_former(socket, table, &forward, change, bridge)?;
    let there = nft::rules(socket, table, OURS)?;
    let (about, others): (Vec<_>, Vec<_>) = there.iter().partition(|rule| is_about(rule, bridge));
    about.iter().for_each(|rule| change.delete_rule(table, OURS, rule.handle));
    if !others.is_empty() || !nft::chain_exists(socket, table, OURS)? {
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

fn is_about(rule: &nft::Rule, bridge: &IfName) -> bool {
    let is_meant = interface_of(rule) == Some(terminated(bridge).as_slice());
    is_meant && rule.shape.contains(&Shape::of(&comment()))
}

/// `-o BRIDGE -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -m comment --comment spoke -j ACCEPT`
/// and `-i BRIDGE -m comment --comment spoke -j SPOKE-SENT`; to what is direct without a state,
/// and so from each trusted interface.
fn rules(bridge: &IfName, direct: bool, trusted: &[IfName]) -> Vec<Vec<Expression<'static>>> {
    let own = terminated(bridge);
    let states = (!direct).then(known_or_published);
    let to = interface(Meta::OutputName, &own).into_iter().chain(states).collect();
    let from = interface(Meta::InputName, &own);
    let trusted = trusted.iter().map(|name| {
        let from = interface(Meta::InputName, &terminated(name));
        rule([interface(Meta::OutputName, &own), from].concat(), Verdict::Accept)
    });
    let every = [rule(to, Verdict::Accept), rule(from, Verdict::Jump(SENT))];
    every.into_iter().chain(trusted).collect()
}

fn rule(
    conditions: Vec<Expression<'static>>,
    verdict: Verdict<'static>,
) -> Vec<Expression<'static>> {
    let end = [comment(), Expression::Counter, Expression::Verdict(verdict)];
    conditions.into_iter().chain(end).collect()
}

fn interface(which: Meta, name: &[u8]) -> Vec<Expression<'static>> {
    let register = Register::FIRST;
    let name = Cow::Owned(name.to_vec());
    vec![Expression::Meta(which, register), Expression::Equal(register, name)]
}

fn terminated(name: &IfName) -> Vec<u8> {
    [name.as_str().as_bytes(), &[0]].concat()
}

fn comment() -> Expression<'static> {
    extension("comment", 0, padded(COMMENT.as_bytes(), COMMENT_LENGTH))
}

/// `XT_MAX_COMMENT_LEN`.
const COMMENT_LENGTH: usize = 256;
/// `struct xt_conntrack_mtinfo3`: its length, and where `match_flags` and `state_mask` are.
const CONNTRACK_LENGTH: usize = 168;
const CONNTRACK_FLAGS: usize = 146;
const CONNTRACK_STATES: usize = 150;
/// `XT_CONNTRACK_STATE`.
const BY_STATE: u16 = 1;
/// `XT_CONNTRACK_STATE_BIT` of established and related, `XT_CONNTRACK_STATE_DNAT`.
const STATES: u16 = 0x02 | 0x04 | 0x80;

fn known_or_published() -> Expression<'static> {
    let mut info = vec![0; CONNTRACK_LENGTH];
    for (at, value) in [(CONNTRACK_FLAGS, BY_STATE), (CONNTRACK_STATES, STATES)] {
        for (place, byte) in info.iter_mut().skip(at).zip(value.to_ne_bytes()) {
            *place = byte;
        }
    }
    extension("conntrack", 3, info)
}

fn extension(name: &'static str, revision: u32, info: Vec<u8>) -> Expression<'static> {
    Expression::Extension { name, revision, info: Cow::Owned(info) }
}

fn padded(bytes: &[u8], length: usize) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(length, 0);
    padded
}
