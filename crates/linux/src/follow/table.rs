//! The table `inet spoke_follow`, which does with connections to published ports what a firewall does with
//! those to the host's own.
//!
//! ```text
//! table inet spoke_follow {
//!     set behind { type ifname }          # interfaces to containers that Spoke did not make
//!     set often4 { type ipv4_addr; flags dynamic,timeout }
//!     set often6 { type ipv6_addr; flags dynamic,timeout }
//!     chain forward {
//!         type filter hook forward priority filter - 11; policy accept;
//!         ct status dnat ct state new oifgroup 1936748395 jump judge
//!         ct status dnat ct state new oifname @behind jump judge
//!     }
//!     chain judge {
//!         meta nfproto ipv4 goto v4
//!         meta nfproto ipv6 goto v6
//!     }
//!     chain v4 { jump v4_INPUT; drop }    # the policy of the firewall
//!     chain v4_INPUT { … }                # its chains, by the port and address that the client called
//! }
//! ```

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{Error, IfName, Result};
use netlink::nft::{
    self, Answer, Base, ChainKind, Comment, Conntrack, Expression, Family, Hook, Lookup, Meta,
    Original, Policy, RulePosition, Set, Shape, Table, Transaction, Verdict,
};
use netlink::{Errno, Socket};

use super::behind::behind;
use super::rules::{Chains, Match, Outcome, Rule, Test, Then};
use super::{Judgement, State};
use crate::identity::{GROUP, digest_of};

/// The table.
pub const TABLE: Table<'static> = Table { family: Family::Inet, name: "spoke_follow" };
const COMMENT: &str = "made by Spoke";
pub(super) const BEHIND: Set<'static> = Set {
    name: "behind",
    key: &[nft::Field::Interface],
    data: &[],
    objects: None,
    lookup: Lookup::Exact,
};
const OFTEN: [Set<'static>; 2] = [
    Set { name: "often4", key: &[nft::Field::Ipv4], lookup: Lookup::Counting, ..BEHIND },
    Set { name: "often6", key: &[nft::Field::Ipv6], lookup: Lookup::Counting, ..BEHIND },
];
pub(super) const BASE: Base =
    Base { kind: ChainKind::Filter, hook: Hook::Forward, priority: -11, policy: Policy::Accept };
const R: nft::Register = nft::Register::FIRST;
/// `NF_CT_STATE_BIT` of a new connection.
const NEW: u32 = 8;
/// `IPS_DST_NAT`.
const TRANSLATED: u32 = 0x20;
/// Others may change the ruleset between the read and the write.
pub(super) const ATTEMPTS: usize = 16;

pub(super) type Steps = Vec<Expression<'static>>;

/// A chain with its rules, as they are written to the kernel.
#[derive(Debug)]
struct Chain {
    name: String,
    base: Option<Base>,
    rules: Vec<(Steps, Option<String>)>,
}

/// Makes the table do this, whatever is there, also with what goes out by the interfaces `known`.
///
/// # Errors
/// Where the kernel lacks something, or the process may not change it.
pub fn keep(socket: &mut Socket, judgement: &Judgement, known: &BTreeSet<IfName>) -> Result<()> {
    let chains = chains(judgement);
    let comment = mark(&chains)?;
    for _ in 0..ATTEMPTS {
        let mut transaction = Transaction::of_generation(nft::generation(socket)?);
        let behind = behind(socket, known)?;
        transaction.replace_table(TABLE, Some(&comment));
        for set in [BEHIND, OFTEN[0], OFTEN[1]] {
            transaction.add_set(TABLE, &set);
        }
        for element in &behind {
            let about = format!("adding an interface to {TABLE}");
            transaction.ensure_element(TABLE, BEHIND.name, element, about);
        }
        for chain in &chains {
            transaction.add_chain(TABLE, &chain.name, chain.base.as_ref(), false);
        }
        for chain in &chains {
            for (rule, to) in &chain.rules {
                add(&mut transaction, &chain.name, rule, to.as_deref());
            }
        }
        let outcome = transaction.commit(socket)?;
        if outcome.failures().first().is_some_and(|failure| failure.errno == Errno::RESTART) {
            continue;
        }
        return outcome.into_result();
    }
    Err(Error::try_again(format!("{TABLE} keeps being changed by others")))
}

fn add(transaction: &mut Transaction, chain: &str, rule: &Steps, to: Option<&str>) {
    let mut steps: Vec<Expression<'_>> = rule.clone();
    if let Some(to) = to {
        steps.push(Expression::Verdict(verdict_to(to)));
    }
    transaction.add_rule(TABLE, chain, RulePosition::Tail, &steps);
}

/// A jump, or what begins with `>`: a goto.
fn verdict_to(to: &str) -> Verdict<'_> {
    to.strip_prefix('>').map_or(Verdict::Jump(to), Verdict::Goto)
}

/// Whether the table does this already.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn is_kept(socket: &mut Socket, judgement: &Judgement) -> Result<bool> {
    let chains = chains(judgement);
    let mark = Some(mark(&chains)?);
    let is_marked =
        |(name, comment): &(String, Option<Comment>)| name == TABLE.name && *comment == mark;
    if !nft::tables(socket, TABLE.family)?.iter().any(is_marked) {
        return Ok(false);
    }
    let there = nft::chains(socket, TABLE.family)?;
    let mut there: Vec<_> = there.into_iter().filter(|it| it.table == TABLE.name).collect();
    if there.len() != chains.len() {
        return Ok(false);
    }
    for chain in &chains {
        let Some(place) = there.iter().position(|it| it.name == chain.name) else {
            return Ok(false);
        };
        if there.swap_remove(place).base != chain.base {
            return Ok(false);
        }
        let wanted = chain.rules.iter().map(|(steps, to)| {
            let mut steps: Vec<Expression<'_>> = steps.clone();
            steps.extend(to.as_deref().map(|to| Expression::Verdict(verdict_to(to))));
            steps.iter().map(Shape::of).collect::<Vec<_>>()
        });
        let rules = nft::rules(socket, TABLE, &chain.name)?;
        if !rules.into_iter().map(|rule| rule.shape).eq(wanted) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Says which rules the table has: the kernel lists ranges, and what is not equal, without their values.
fn mark(chains: &[Chain]) -> Result<Comment> {
    format!("{COMMENT} {}", digest_of(&format!("{chains:?}"))).parse()
}

/// Whether there is such a table, whatever it does.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn is_loaded(socket: &mut Socket) -> Result<bool> {
    nft::chain_exists(socket, TABLE, "judge")
}

/// Removes the table. What is gone is no error.
///
/// # Errors
/// Where the process may not change it.
pub fn unload(socket: &mut Socket) -> Result<()> {
    nft::remove_table(socket, TABLE)
}

fn chains(judgement: &Judgement) -> Vec<Chain> {
    let verdict = |verdict| Expression::Verdict(verdict);
    let family = |number: u8, chain: &str| {
        let steps =
            vec![Expression::Meta(Meta::Family, R), Expression::Equal(R, vec![number].into())];
        (steps, Some(format!(">{chain}")))
    };
    let forward = entering().map(|steps| (steps, Some("judge".to_owned()))).into();
    let mut all = vec![
        Chain { name: "forward".to_owned(), base: Some(BASE), rules: forward },
        Chain {
            name: "judge".to_owned(),
            base: None,
            rules: vec![family(2, "v4"), family(10, "v6")],
        },
    ];
    for (prefix, chains) in [("v4", &judgement.v4), ("v6", &judgement.v6)] {
        let mut rules = Vec::new();
        if !chains.all.is_empty() && judgement.state == State::On {
            rules.push((Vec::new(), Some(name(prefix, chains, &chains.entry))));
            all.extend(chains.all.iter().map(|(of, rules)| Chain {
                name: name(prefix, chains, of),
                base: None,
                rules: rules.iter().map(|rule| emitted(prefix, chains, rule)).collect(),
            }));
        }
        if chains.policy != Outcome::Accept {
            rules.push((vec![decided(chains.policy)], None));
        } else {
            rules.push((vec![verdict(Verdict::Accept)], None));
        }
        all.push(Chain { name: prefix.to_owned(), base: None, rules });
    }
    all
}

/// Of new connections to published ports, by the group of the container's interface and by its name.
pub(super) fn entering() -> [Steps; 2] {
    let group = vec![
        Expression::Meta(Meta::OutputGroup, R),
        Expression::Equal(R, GROUP.to_ne_bytes().to_vec().into()),
    ];
    let named = vec![Expression::Meta(Meta::OutputName, R), Expression::In(BEHIND.name, R)];
    [group, named].map(|steps| [fresh(), steps].concat())
}

/// Of a new connection whose destination was translated.
fn fresh() -> Steps {
    let has = |what, bit: u32| {
        [
            Expression::Conntrack(what, R),
            Expression::Mask(R, bit.to_ne_bytes().to_vec().into()),
            Expression::Unequal(R, vec![0; 4].into()),
        ]
    };
    [has(Conntrack::Status, TRANSLATED), has(Conntrack::State, NEW)].concat()
}

/// What a chain of the firewall is called in the table: names that nft(8) cannot read get a number.
fn name(prefix: &str, chains: &Chains, chain: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    match chain.len() <= 60 && chain.chars().all(is_plain) {
        true => format!("{prefix}_{chain}"),
        false => {
            let number = chains.all.keys().position(|name| name == chain).unwrap_or_default();
            format!("{prefix}_chain.{number}")
        }
    }
}

fn emitted(prefix: &str, chains: &Chains, rule: &Rule) -> (Steps, Option<String>) {
    let mut steps: Steps = rule.tests.iter().flat_map(tested).collect();
    let to = |chain: &str| name(prefix, chains, chain);
    match &rule.then {
        Then::Decide(outcome) => steps.push(decided(*outcome)),
        Then::Return => steps.push(Expression::Verdict(Verdict::Return)),
        Then::Jump(chain) => return (steps, Some(to(chain))),
        Then::Goto(chain) => return (steps, Some(format!(">{}", to(chain)))),
    }
    (steps, None)
}

fn decided(outcome: Outcome) -> Expression<'static> {
    match outcome {
        Outcome::Accept => Expression::Verdict(Verdict::Accept),
        Outcome::Drop => Expression::Verdict(Verdict::Drop),
        Outcome::Reject => Expression::Reject(Answer::Unreachable),
        Outcome::Reset => Expression::Reject(Answer::Reset),
    }
}

fn tested(test: &Test) -> Steps {
    let equal = |value: Vec<u8>| match test.not {
        true => Expression::Unequal(R, value.into()),
        false => Expression::Equal(R, value.into()),
    };
    let between = |first: Vec<u8>, last: Vec<u8>| match first == last {
        true => equal(first),
        false => {
            Expression::Range { at: R, first: first.into(), last: last.into(), outside: test.not }
        }
    };
    let ports =
        |first: u16, last: u16| between(first.to_be_bytes().to_vec(), last.to_be_bytes().to_vec());
    match &test.what {
        Match::Input { name, is_whole } => {
            let mut bytes = name.as_bytes().to_vec();
            if *is_whole {
                bytes.resize(16, 0);
            }
            vec![Expression::Meta(Meta::InputName, R), equal(bytes)]
        }
        Match::Source(first, last) => {
            vec![source(*first), between(octets(*first), octets(*last))]
        }
        Match::Destination(first, last) => vec![
            Expression::Original(Original::Destination, R),
            between(octets(*first), octets(*last)),
        ],
        Match::Protocol(number) => {
            vec![Expression::Meta(Meta::Protocol, R), equal(vec![*number])]
        }
        Match::SourcePort(first, last) => {
            vec![Expression::Transport { offset: 0, length: 2, into: R }, ports(*first, *last)]
        }
        Match::Port(first, last) => {
            vec![Expression::Original(Original::Port, R), ports(*first, *last)]
        }
        Match::Often { is_v4, times, seconds } => {
            let (set, any) = match is_v4 {
                true => (OFTEN[0].name, IpAddr::from([0; 4])),
                false => (OFTEN[1].name, IpAddr::from([0; 16])),
            };
            let (times, seconds) = (*times, *seconds);
            let often = Expression::Often { set, key: R, times, seconds, burst: times };
            vec![source(any), often]
        }
    }
}

/// Loads the source, of the family of this address.
fn source(address: IpAddr) -> Expression<'static> {
    match address {
        IpAddr::V4(_) => Expression::Network { offset: 12, length: 4, into: R },
        IpAddr::V6(_) => Expression::Network { offset: 8, length: 16, into: R },
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}
