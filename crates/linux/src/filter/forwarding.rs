//! A host whose iptables drops what it forwards (Docker's and ufw's policy) drops our containers'
//! packets too. What is added there is what iptables itself would have added, so that it shows
//! and can be removed as any other rule.

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
/// Where Docker lets the administrator's rules be; it is called first and survives Docker.
const DOCKER_USER: &str = "DOCKER-USER";
const FORWARD: &str = "FORWARD";
/// Where our rules may be.
pub(crate) const CHAINS: [&str; 2] = [DOCKER_USER, FORWARD];
/// Where Docker lets pass what goes out through its own bridges, and refuses the rest: the first up
/// to version 27, with the host's policy, the other since.
const DOCKER_BRIDGES: [&str; 2] = [FORWARD, "DOCKER-BRIDGE"];
const DOCKER: &str = "DOCKER";
/// The comment of our rules, by which they are known.
const COMMENT: &str = "spoke";

/// Who on this host drops what it forwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    /// Families in which iptables does, and now accepts the containers' packets.
    pub accepted: Vec<Family>,
    /// Families in which the old iptables, which netlink does not reach, has a filter table: the
    /// caller has to execute it.
    pub legacy: Vec<Family>,
}

/// Makes the host's iptables accept what the containers behind `bridge` send, and what they are
/// sent: answers, and connections to published ports. What goes into Docker's own networks is left
/// to Docker, and the administrator's rules in Docker's chain come first.
///
/// # Errors
/// Where the process may not change the rules; [`model::Kind::TryAgain`] if others keep changing
/// the ruleset.
pub fn allow_forwarding(socket: &mut Socket, bridge: &IfName) -> Result<Forwarding> {
    let mut found = Forwarding { legacy: legacy(), ..Forwarding::default() };
    for (family, table) in TABLES {
        if dropping(socket, table)? {
            edit(socket, table, |socket, chain, change| {
                allow(socket, (table, chain), change, bridge)
            })?;
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
        edit(socket, table, |socket, _, change| {
            for chain in CHAINS {
                disallow(socket, (table, chain), change, bridge)?;
            }
            Ok(())
        })?;
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
    /// The bridges whose packets rules of ours let pass all the same.
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

/// The bridges that rules of ours let pass both ways, where packets come by them.
fn passing(socket: &mut Socket, table: Table<'_>) -> Result<BTreeSet<String>> {
    let mut rules = nft::rules(socket, table, FORWARD)?;
    let to_docker = Shape::Jump(DOCKER_USER.to_owned());
    if rules.iter().any(|rule| rule.shape.contains(&to_docker)) {
        rules.extend(nft::rules(socket, table, DOCKER_USER)?);
    }
    let accepted = |way: &Shape| -> BTreeSet<String> {
        rules.iter().filter_map(|rule| accepted(rule, way)).collect()
    };
    let (from, to) = (accepted(&Shape::InputName), accepted(&Shape::OutputName));
    Ok(from.intersection(&to).cloned().collect())
}

fn accepted(rule: &nft::Rule, way: &Shape) -> Option<String> {
    let [first, Shape::Equal(name), .., Shape::Accept] = rule.shape.as_slice() else { return None };
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

/// Changes `table` as `plan` says for the chain of its rules, if nobody changes the ruleset
/// between the look and the change.
fn edit(
    socket: &mut Socket,
    table: Table<'_>,
    plan: impl Fn(&mut Socket, &'static str, &mut Transaction) -> Result<()>,
) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let mut change = Transaction::of_generation(nft::generation(socket)?);
        let docker = nft::chain_exists(socket, table, DOCKER_USER)?;
        plan(socket, if docker { DOCKER_USER } else { FORWARD }, &mut change)?;
        if settled(change.commit(socket), |failure| failure.errno == Errno::RESTART)? {
            return Ok(());
        }
    }
    Err(Error::try_again(format!("{table} keeps being changed by others")))
}

fn allow(
    socket: &mut Socket,
    (table, chain): (Table<'_>, &str),
    change: &mut Transaction,
    bridge: &IfName,
) -> Result<()> {
    let present = nft::rules(socket, table, chain)?;
    let wanted = rules(bridge, &docker_bridges(socket, table)?);
    let ours: Vec<&nft::Rule> = present.iter().filter(|rule| is_ours(rule, bridge)).collect();
    let is_wanted = |(there, rule): (&&nft::Rule, &Vec<Expression<'_>>)| {
        rule.iter().map(Shape::of).eq(there.shape.iter().cloned())
    };
    if ours.len() == wanted.len() && ours.iter().zip(&wanted).all(is_wanted) {
        return Ok(());
    }
    for rule in ours {
        change.delete_rule(table, chain, rule.handle);
    }
    match chain {
        DOCKER_USER => {
            let place = behind_all(&present);
            wanted.iter().for_each(|rule| change.add_rule(table, chain, place, rule));
        }
        _ => wanted.iter().rev().for_each(|rule| change.add_rule(table, chain, Place::Head, rule)),
    }
    Ok(())
}

/// Docker up to 27 ends its chain for the administrator with a return.
fn behind_all(present: &[nft::Rule]) -> Place {
    match present.last() {
        Some(last) if last.shape == [Shape::Counter, Shape::Return] => Place::Before(last.handle),
        Some(_) | None => Place::Tail,
    }
}

fn disallow(
    socket: &mut Socket,
    (table, chain): (Table<'_>, &str),
    change: &mut Transaction,
    bridge: &IfName,
) -> Result<()> {
    for there in nft::rules(socket, table, chain)?.iter().filter(|rule| is_ours(rule, bridge)) {
        change.delete_rule(table, chain, there.handle);
    }
    Ok(())
}

/// The names of Docker's bridges: `-o BRIDGE -j DOCKER`.
fn docker_bridges(socket: &mut Socket, table: Table<'_>) -> Result<BTreeSet<Vec<u8>>> {
    let mut bridges = BTreeSet::new();
    for chain in DOCKER_BRIDGES {
        for rule in nft::rules(socket, table, chain)? {
            if let [Shape::OutputName, Shape::Equal(name), Shape::Counter, Shape::Jump(to)] =
                rule.shape.as_slice()
                && to == DOCKER
            {
                bridges.insert(name.clone());
            }
        }
    }
    Ok(bridges)
}

fn is_ours(rule: &nft::Rule, bridge: &IfName) -> bool {
    let name = Shape::Equal(terminated(bridge));
    let is_about = match rule.shape.as_slice() {
        [Shape::InputName | Shape::OutputName, about, ..] => *about == name,
        _ => false,
    };
    is_about && rule.shape.contains(&Shape::of(&comment()))
}

/// For each of Docker's bridges `-i BRIDGE -o DOCKERS -m comment --comment spoke -j RETURN`; then
/// `-o BRIDGE -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -m comment --comment spoke -j ACCEPT`
/// and `-i BRIDGE -m comment --comment spoke -j ACCEPT`.
fn rules(bridge: &IfName, docker: &BTreeSet<Vec<u8>>) -> Vec<Vec<Expression<'static>>> {
    let own = terminated(bridge);
    let rule = |conditions: Vec<Expression<'static>>, verdict| {
        let end = [comment(), Expression::Counter, Expression::Verdict(verdict)];
        conditions.into_iter().chain(end).collect()
    };
    let from = || interface(Meta::InputName, &own);
    let others = docker
        .iter()
        .filter(|other| **other != own)
        .map(|other| rule([from(), interface(Meta::OutputName, other)].concat(), Verdict::Return));
    let to = [interface(Meta::OutputName, &own), vec![known_or_published()]].concat();
    others.chain([rule(to, Verdict::Accept), rule(from(), Verdict::Accept)]).collect()
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
