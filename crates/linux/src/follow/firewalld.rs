//! firewalld's table, as the kernel lists it.

mod concatenated;

use std::collections::BTreeMap;
use std::net::IpAddr;

use model::Result;
use netlink::Socket;
use netlink::nft::{self, AnyRule, AnySet, Decision, Header, Register32, Step};

use super::rules::{Chains, Match, Outcome, Rule, Test, Then};
use super::ufw::product;
use super::{Followed, Judgement, State};
use crate::firewalld::TABLE;

/// Where it judges what is delivered to this host.
const ENTRY: &str = "filter_INPUT";
/// `NFPROTO_INET`.
const INET: u8 = 1;
/// More alternatives of one rule than this are not written out.
const MOST: usize = 2048;
/// More exceptions of one rule than this are not written out: each takes two of the 128 expressions that the
/// kernel lets a rule have (`NFT_RULE_MAXEXPRS`).
const EXCEPTIONS: usize = 50;
/// `NF_CT_STATE_BIT` of a new connection.
const NEW: u32 = 8;

/// Whether its table is there.
pub(super) fn is_loaded(socket: &mut Socket) -> Result<bool> {
    nft::chain_exists(socket, TABLE, ENTRY)
}

/// The judgement of firewalld; unknown where its table is missing, or is being made.
pub(super) fn read(socket: &mut Socket) -> Result<Judgement> {
    let is_its = |family: u8, table: &str| family == INET && table == TABLE.name;
    let mut rules = nft::all_rules(socket)?;
    rules.retain(|rule| is_its(rule.family, &rule.table));
    let mut sets = nft::all_sets(socket)?;
    sets.retain(|set| is_its(set.family, &set.table));
    let mut by_chain: BTreeMap<&str, Vec<&AnyRule>> = BTreeMap::new();
    for rule in &rules {
        by_chain.entry(&rule.chain).or_default().push(rule);
    }
    let ends = |rule: &&AnyRule| refuses(rule);
    // The rule that refuses what no zone accepts is the last that it makes.
    if !by_chain.get(ENTRY).and_then(|rules| rules.last()).is_some_and(ends) {
        let why = "firewalld's rules are not there".to_owned();
        return Ok(Judgement::unknown(Followed::Firewalld, why));
    }
    let mut notes = Vec::new();
    let mut of = |is_v4: bool| -> Result<Chains> {
        let mut all = BTreeMap::new();
        let mut next = vec![ENTRY.to_owned()];
        while let Some(chain) = next.pop() {
            if all.contains_key(&chain) {
                continue;
            }
            let mut read = Vec::new();
            for rule in by_chain.get(chain.as_str()).into_iter().flatten() {
                read.extend(Reader::new(is_v4, &sets, socket).read(rule, &mut notes)?);
            }
            next.extend(read.iter().filter_map(|rule: &Rule| match &rule.then {
                Then::Jump(to) | Then::Goto(to) => Some(to.clone()),
                Then::Decide(_) | Then::Return => None,
            }));
            all.insert(chain, read);
        }
        Ok(Chains { entry: ENTRY.to_owned(), policy: Outcome::Accept, all })
    };
    let (v4, v6) = (of(true)?, of(false)?);
    notes.sort();
    notes.dedup();
    Ok(Judgement { by: Followed::Firewalld, state: State::On, v4, v6, notes })
}

fn refuses(rule: &AnyRule) -> bool {
    matches!(rule.steps.last(), Some(Step::Reject | Step::Decision(Decision::Drop)))
}

/// What a register holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RegisterValue {
    Family,
    Protocol,
    Input,
    /// The beginning of the source, or of the destination.
    Source,
    Destination,
    SourcePort,
    Port,
    /// The same with only these bits.
    Masked(Box<RegisterValue>, Vec<u8>),
    State,
    Status,
}

/// What follows from a comparison.
enum Condition {
    /// One of these must hold.
    Any(Vec<Match>),
    Always,
    Never,
    Unclear,
}

struct Reader<'a> {
    is_v4: bool,
    sets: &'a [AnySet],
    socket: &'a mut Socket,
    registers: BTreeMap<usize, RegisterValue>,
    /// Of each list one group must hold, whole.
    tests: Vec<Vec<Vec<Test>>>,
    unclear: Option<String>,
    /// How the rule ends.
    accepts: bool,
    refuses: bool,
}

impl<'a> Reader<'a> {
    fn new(is_v4: bool, sets: &'a [AnySet], socket: &'a mut Socket) -> Self {
        let registers = BTreeMap::new();
        let (tests, unclear) = (Vec::new(), None);
        Self { is_v4, sets, socket, registers, tests, unclear, accepts: false, refuses: false }
    }

    /// The rules that say the same; none where it never matches, or decides nothing.
    fn read(mut self, rule: &AnyRule, notes: &mut Vec<String>) -> Result<Vec<Rule>> {
        let mut then = None;
        self.accepts = matches!(rule.steps.last(), Some(Step::Decision(Decision::Accept)));
        self.refuses = refuses(rule);
        for step in &rule.steps {
            match self.step(step)? {
                Went::On => {}
                Went::Never => return Ok(Vec::new()),
                Went::Ends(end) => {
                    then = Some(end);
                    break;
                }
            }
        }
        let Some(then) = then else { return Ok(Vec::new()) };
        if self.tests.iter().map(Vec::len).try_fold(1_usize, usize::checked_mul).unwrap_or(MOST + 1)
            > MOST
        {
            self.unclear.get_or_insert_with(|| "a set with many elements".to_owned());
            self.tests.clear();
        }
        let Some(unclear) = &self.unclear else { return Ok(self.rules(&then)) };
        let (instead, then) = match then {
            Then::Decide(Outcome::Accept) => ("it accepts nothing", None),
            refusal @ Then::Decide(_) => ("it refuses without that condition", Some(refusal)),
            Then::Return | Then::Jump(_) | Then::Goto(_) => {
                ("it refuses", Some(Then::Decide(Outcome::Drop)))
            }
        };
        let chain = &rule.chain;
        notes.push(format!("a rule of {chain} has {unclear}, which is not understood: {instead}"));
        Ok(then.map_or(Vec::new(), |then| self.rules(&then)))
    }

    fn rules(&self, then: &Then) -> Vec<Rule> {
        let of = |groups: Vec<Vec<Test>>| Rule { tests: groups.concat(), then: then.clone() };
        product(&self.tests).into_iter().map(of).collect()
    }

    fn unclear(&mut self, what: &str) -> Went {
        self.unclear.get_or_insert_with(|| model::text::shown(what));
        Went::On
    }

    fn step(&mut self, step: &Step) -> Result<Went> {
        Ok(match step {
            Step::Neutral => Went::On,
            Step::Decision(Decision::Continue) => Went::On,
            Step::Decision(Decision::Accept) => Went::Ends(Then::Decide(Outcome::Accept)),
            Step::Decision(Decision::Drop) => Went::Ends(Then::Decide(Outcome::Drop)),
            Step::Decision(Decision::Return) => Went::Ends(Then::Return),
            Step::Decision(Decision::Jump(to)) => Went::Ends(Then::Jump(to.clone())),
            Step::Decision(Decision::Goto(to)) => Went::Ends(Then::Goto(to.clone())),
            Step::Decision(Decision::Queue) => {
                self.unclear("queue");
                Went::Ends(Then::Decide(Outcome::Accept))
            }
            Step::Reject => Went::Ends(Then::Decide(Outcome::Reject)),
            Step::Meta(..) | Step::Payload { .. } | Step::Conntrack(..) => self.load(step),
            Step::Bitwise { from, into, mask, xor } => {
                match self.registers.get(&from.0).cloned().filter(|_| xor.iter().all(|it| *it == 0))
                {
                    Some(held) => {
                        self.registers
                            .insert(into.0, RegisterValue::Masked(Box::new(held), mask.clone()));
                        Went::On
                    }
                    None => self.unclear("bitwise"),
                }
            }
            Step::Compare(at, operator @ (0 | 1), value) => {
                let one = [(value.clone(), value.clone())];
                self.compare(*at, &one, *operator == 1, true)
            }
            // A range of ports: at most, at least.
            Step::Compare(at, operator @ (3 | 5), value) if self.is_ordered(*at) => {
                let one = match operator {
                    3 => [(vec![0; value.len()], value.clone())],
                    _ => [(value.clone(), vec![0xff; value.len()])],
                };
                self.compare(*at, &one, false, false)
            }
            Step::Range(at, first, last, outside) => {
                let one = [(first.clone(), last.clone())];
                self.compare(*at, &one, *outside, false)
            }
            Step::Lookup { set, key, into: None, inverted } => {
                let set = self.sets.iter().find(|it| it.name == *set);
                match set {
                    Some(set) => self.lookup(set, *key, *inverted)?,
                    None => self.unclear("a set"),
                }
            }
            Step::Lookup { .. } => self.unclear("a map"),
            Step::Other(name) | Step::Match(name, ..) | Step::Target(name, ..) => {
                self.unclear(name)
            }
            Step::SetConnectionMark(_) => self.unclear("ct"),
            _ => self.unclear("a step"),
        })
    }

    /// Whether what a register holds is in network order, and so comes before or behind another value.
    fn is_ordered(&self, at: Register32) -> bool {
        use RegisterValue::{Destination, Port, Source, SourcePort};
        let held = self.registers.get(&at.0);
        matches!(held, Some(Port | SourcePort | Source | Destination))
    }

    fn load(&mut self, step: &Step) -> Went {
        let (source, destination) = if self.is_v4 { (12, 16) } else { (8, 24) };
        let (held, into) = match step {
            Step::Meta(15, into) => (RegisterValue::Family, into),
            Step::Meta(16, into) => (RegisterValue::Protocol, into),
            Step::Meta(6, into) => (RegisterValue::Input, into),
            Step::Conntrack(0, _, into) => (RegisterValue::State, into),
            Step::Conntrack(2, _, into) => (RegisterValue::Status, into),
            Step::Payload { base: Header::Network, offset, into, .. } if *offset == source => {
                (RegisterValue::Source, into)
            }
            Step::Payload { base: Header::Network, offset, into, .. } if *offset == destination => {
                (RegisterValue::Destination, into)
            }
            Step::Payload { base: Header::Transport, offset: 0, length: 2, into } => {
                (RegisterValue::SourcePort, into)
            }
            Step::Payload { base: Header::Transport, offset: 2, length: 2, into } => {
                (RegisterValue::Port, into)
            }
            Step::Meta(key, into) => {
                self.registers.remove(&into.0);
                return self.unclear(&format!("meta {key}"));
            }
            Step::Payload { into, .. } | Step::Conntrack(_, _, into) => {
                self.registers.remove(&into.0);
                return self.unclear("a field of the packet");
            }
            _ => return self.unclear("a step"),
        };
        self.registers.insert(into.0, held);
        Went::On
    }

    fn compare(
        &mut self,
        at: Register32,
        ranges: &[(Vec<u8>, Vec<u8>)],
        not: bool,
        is_one: bool,
    ) -> Went {
        let Some(held) = self.registers.get(&at.0).cloned() else {
            return self.unclear("a comparison");
        };
        match self.found(&held, ranges, is_one) {
            Condition::Unclear => self.unclear("a comparison"),
            Condition::Always => {
                if not {
                    Went::Never
                } else {
                    Went::On
                }
            }
            Condition::Never => {
                if not {
                    Went::On
                } else {
                    Went::Never
                }
            }
            Condition::Any(any) if not && self.tests.len() + any.len() > EXCEPTIONS => {
                self.unclear("many exceptions")
            }
            Condition::Any(any) => {
                match not {
                    true => self
                        .tests
                        .extend(any.into_iter().map(|what| vec![vec![Test { what, not: true }]])),
                    false => {
                        self.tests.push(any.into_iter().map(|what| vec![what.holds()]).collect());
                    }
                }
                Went::On
            }
        }
    }

    /// The first packet of a connection to the host's own port is new, and not translated.
    fn found(
        &self,
        held: &RegisterValue,
        ranges: &[(Vec<u8>, Vec<u8>)],
        is_one: bool,
    ) -> Condition {
        let always = |is: bool| if is { Condition::Always } else { Condition::Never };
        let any = |what: Option<Vec<Match>>| what.map_or(Condition::Unclear, Condition::Any);
        let has = |value: &[u8]| {
            ranges.iter().any(|(first, last)| first.as_slice() <= value && value <= last.as_slice())
        };
        match held {
            RegisterValue::Family => always(has(&[if self.is_v4 { 2 } else { 10 }])),
            RegisterValue::State => always(has(&NEW.to_ne_bytes())),
            RegisterValue::Status => always(has(&0_u32.to_ne_bytes())),
            RegisterValue::Masked(of, mask) => match of.as_ref() {
                RegisterValue::State => {
                    let masked = NEW.to_ne_bytes().into_iter().zip(mask).map(|(a, b)| a & b);
                    always(has(&masked.collect::<Vec<u8>>()))
                }
                RegisterValue::Status => always(has(&vec![0; mask.len()])),
                RegisterValue::Source | RegisterValue::Destination if is_one => {
                    any(self.addresses(of, ranges, Some(mask)))
                }
                _ => Condition::Unclear,
            },
            // No port is published of these, and their fields say nothing of packets to ports.
            RegisterValue::Protocol if ranges.iter().all(|range| !has_ports(range)) => {
                Condition::Never
            }
            RegisterValue::Protocol => any(ranges
                .iter()
                .map(protocols)
                .collect::<Option<Vec<_>>>()
                .map(|all| all.concat())),
            RegisterValue::Port => {
                any(ranges.iter().map(|range| ports(range, Match::Port)).collect())
            }
            RegisterValue::SourcePort => {
                any(ranges.iter().map(|range| ports(range, Match::SourcePort)).collect())
            }
            RegisterValue::Input => any(ranges.iter().map(input).collect()),
            RegisterValue::Source | RegisterValue::Destination => {
                any(self.addresses(held, ranges, None))
            }
        }
    }

    fn addresses(
        &self,
        held: &RegisterValue,
        ranges: &[(Vec<u8>, Vec<u8>)],
        mask: Option<&[u8]>,
    ) -> Option<Vec<Match>> {
        let length = if self.is_v4 { 4 } else { 16 };
        let address = |bytes: &[u8]| -> Option<IpAddr> {
            match self.is_v4 {
                true => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
                false => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
            }
        };
        let what: fn(IpAddr, IpAddr) -> Match = match held {
            RegisterValue::Source => Match::Source,
            _ => Match::Destination,
        };
        let one = |(first, last): &(Vec<u8>, Vec<u8>)| {
            let (mut first, mut last) = (first.clone(), last.clone());
            if let Some(mask) = mask {
                last.iter_mut().zip(mask).for_each(|(byte, mask)| *byte |= !mask);
                // Only the beginning of an address can be compared.
                let ones: u32 = mask.iter().map(|byte| byte.leading_ones()).sum();
                let all: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
                let whole = mask.iter().skip_while(|byte| **byte == 0xff).skip(1);
                if ones != all || whole.clone().any(|byte| *byte != 0) {
                    return None;
                }
            }
            first.resize(length, 0);
            last.resize(length, 0xff);
            Some(what(address(&first)?, address(&last)?))
        };
        ranges.iter().map(one).collect()
    }
}

enum Went {
    On,
    Never,
    Ends(Then),
}

fn protocols((first, last): &(Vec<u8>, Vec<u8>)) -> Option<Vec<Match>> {
    let (first, last) = (*first.first()?, *last.first()?);
    Some((first..=last).map(Match::Protocol).collect())
}

/// Whether a protocol of these has ports that are published: TCP, UDP, SCTP.
fn has_ports((first, last): &(Vec<u8>, Vec<u8>)) -> bool {
    let bounds = first.first().zip(last.first());
    bounds.is_none_or(|(first, last)| [6, 17, 132].iter().any(|it| (first..=last).contains(&it)))
}

fn ports((first, last): &(Vec<u8>, Vec<u8>), what: fn(u16, u16) -> Match) -> Option<Match> {
    let number = |bytes: &[u8]| Some(u16::from_be_bytes(bytes.get(..2)?.try_into().ok()?));
    Some(what(number(first)?, number(last)?))
}

/// A whole name is compared with the zeros behind it, and only its beginning without any.
fn input((first, last): &(Vec<u8>, Vec<u8>)) -> Option<Match> {
    let name = first.split(|byte| *byte == 0).next().unwrap_or_default();
    let is_whole = first.len() > name.len();
    let text = String::from_utf8(name.to_vec()).ok()?;
    (first == last).then_some(Match::Input { name: text, is_whole })
}
