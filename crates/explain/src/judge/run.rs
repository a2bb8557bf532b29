//! One base chain: its rules one after the other, and the chains that they call.
//!
//! Where it is not known whether a rule matches, both ways are followed. Only if they end differently
//! the end is not known.

use std::net::IpAddr;

use netlink::nft::{AnyChain, AnyRule, Datum, Decision, Register32, Step};

use super::xt;
use crate::packet::Packet;
use crate::port::{Kernel, Space};
use crate::rules::{Filter, RuleLocation, Rules, Translation};
use crate::tri::Tri;

mod load;

/// How a chain ends for a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChainEnd {
    Accept,
    Drop(RuleLocation),
    Destination(Translation),
    Source(Translation),
    Unknown(RuleLocation),
}

impl ChainEnd {
    /// Whether both are the same for the packet.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Accept, Self::Accept) | (Self::Drop(_), Self::Drop(_)) => true,
            (Self::Destination(one), Self::Destination(two))
            | (Self::Source(one), Self::Source(two)) => {
                (one.address, one.port) == (two.address, two.port)
            }
            _ => false,
        }
    }
}

/// How deep the kernel lets chains call each other, and more rules are not followed than these.
const DEEPEST: usize = 16;
const LONGEST: usize = 50_000;

/// Where a map of decisions puts what it finds.
const VERDICT: Register32 = Register32(0);

/// Statements of nftables that take the packet, or may.
const TAKES: [&str; 4] = ["fwd", "queue", "synproxy", "tproxy"];

/// Matches of iptables that are mostly understood: another part of the rule is not.
const UNDERSTOOD: [&str; 6] = ["comment", "conntrack", "addrtype", "devgroup", "tcp", "udp"];

/// What is not understood otherwise, and writes no register: limits, and sets that learn who sent.
const WRITE_NOTHING: [&str; 5] = ["limit", "connlimit", "quota", "dynset", "objref"];

/// The ends that are possible, and whether it may also go on behind the chain.
#[derive(Default)]
struct Ends {
    ends: Vec<ChainEnd>,
    goes_on: bool,
}

impl Ends {
    fn add(&mut self, end: ChainEnd) {
        if !self.ends.iter().any(|there| there.is_like(&end)) {
            self.ends.push(end);
        }
    }
}

/// The packet on its way through a base chain.
pub(super) struct Run<'a> {
    rules: &'a Rules,
    filter: Filter,
    base: &'a AnyChain,
    packet: &'a mut Packet,
    path: Vec<String>,
    /// The first rule of which it is not known whether it matches and that decides something.
    doubt: Option<RuleLocation>,
    count: usize,
    kernel: &'a mut dyn Kernel,
    space: Space,
}

/// The registers of a rule; `None` is what is not known.
pub(super) type Registers = [Option<[u8; 4]>; Register32::COUNT];

impl<'a> Run<'a> {
    pub(super) fn new(
        rules: &'a Rules,
        filter: Filter,
        base: &'a AnyChain,
        packet: &'a mut Packet,
        (kernel, space): (&'a mut dyn Kernel, Space),
    ) -> Self {
        let path = Vec::new();
        Self { rules, filter, base, packet, path, doubt: None, count: 0, kernel, space }
    }

    pub(super) fn end(mut self) -> ChainEnd {
        let mut ends = self.chain(&self.base.name.clone());
        if ends.goes_on {
            let drops = self.base.hook.as_ref().is_some_and(|hook| hook.drops);
            self.path = vec![self.base.name.clone()];
            ends.add(match drops {
                true => ChainEnd::Drop(self.place(&self.base.name.clone(), None)),
                false => ChainEnd::Accept,
            });
        }
        match (ends.ends.len(), self.doubt.take()) {
            (1, _) | (_, None) => ends.ends.swap_remove(0),
            (_, Some(doubt)) => ChainEnd::Unknown(doubt),
        }
    }

    fn place(&self, chain: &str, rule: Option<&AnyRule>) -> RuleLocation {
        RuleLocation {
            filter: self.filter,
            family: self.base.family,
            table: self.base.table.clone(),
            chain: chain.to_owned(),
            path: self.path.clone(),
            rule: rule.map(|rule| rule.handle),
            comment: rule.and_then(|rule| rule.comment.clone()),
            rejects: false,
            unclear: None,
        }
    }

    fn chain(&mut self, name: &str) -> Ends {
        let rules = self.rules;
        let key = (self.filter, self.base.family, self.base.table.clone(), name.to_owned());
        let list = rules.rules.get(&key).map_or(&[][..], Vec::as_slice);
        self.path.push(name.to_owned());
        let mut all = Ends { goes_on: true, ..Ends::default() };
        for rule in list {
            self.count += 1;
            let (before, may_be_over) = (self.packet.is_untracked, !all.ends.is_empty());
            let (mark, of_connection) = (self.packet.mark, self.packet.connection_mark);
            let (matches, then) = self.rule(name, rule);
            let is_sure = matches != Tri::Unknown && !may_be_over;
            if !is_sure && self.packet.is_untracked != before {
                self.packet.is_untracked = Tri::Unknown;
            }
            let marks = (self.packet.mark, self.packet.connection_mark);
            if !is_sure && marks != (mark, of_connection) {
                self.packet.mark = None;
            }
            if matches == Tri::No {
                continue;
            }
            let decides = !then.ends.is_empty() || !then.goes_on;
            if matches == Tri::Unknown && decides && self.doubt.is_none() {
                self.doubt = Some(self.unclear(name, rule));
            }
            then.ends.into_iter().for_each(|end| all.add(end));
            all.goes_on = then.goes_on || matches == Tri::Unknown;
            if !all.goes_on {
                break;
            }
        }
        self.path.pop();
        // `return` of a rule is noted as an end that no other chain sees.
        let (returned, count) = (self.returned(), all.ends.len());
        all.ends.retain(|end| *end != returned);
        all.goes_on |= all.ends.len() < count;
        all
    }

    /// The mark of a `return`: no rule can be it.
    fn returned(&self) -> ChainEnd {
        ChainEnd::Unknown(RuleLocation { path: Vec::new(), ..self.place("", None) })
    }

    fn unclear(&self, chain: &str, rule: &AnyRule) -> RuleLocation {
        let what = rule.steps.iter().find_map(|step| match step {
            Step::Match(name, ..) if UNDERSTOOD.contains(&name.as_str()) => None,
            Step::Other(name) | Step::Match(name, ..) | Step::Target(name, ..) => {
                Some(name.clone())
            }
            _ => None,
        });
        let mut place = self.place(chain, Some(rule));
        place.unclear = Some(what.unwrap_or_else(|| "a value that is not known".to_owned()));
        place
    }

    /// Whether a rule matches, and what it does then.
    fn rule(&mut self, chain: &str, rule: &AnyRule) -> (Tri, Ends) {
        let mut registers: Registers = [None; Register32::COUNT];
        let mut matches = Tri::Yes;
        let goes_on = || Ends { goes_on: true, ..Ends::default() };
        for step in &rule.steps {
            if let Some(then) = self.effect(step, (chain, rule), &registers) {
                return (matches, then);
            }
            let (holds, decision) = self.step(step, &mut registers);
            if holds == Tri::Unknown && decides(step) {
                let end = ChainEnd::Unknown(self.unclear(chain, rule));
                return (matches, Ends { ends: vec![end], goes_on: true });
            }
            matches = matches.and(holds);
            if matches == Tri::No {
                return (Tri::No, goes_on());
            }
            if let Some(decision) = decision {
                return (matches, self.decide(&decision, (chain, rule)));
            }
        }
        (matches, goes_on())
    }

    /// What a step does that ends a rule.
    fn effect(
        &mut self,
        step: &Step,
        (chain, rule): (&str, &AnyRule),
        registers: &Registers,
    ) -> Option<Ends> {
        let only = |end: ChainEnd| Some(Ends { ends: vec![end], goes_on: false });
        let translation =
            |address, port| Translation { address, port, place: self.place(chain, Some(rule)) };
        match step {
            Step::Decision(decision) => Some(self.decide(decision, (chain, rule))),
            Step::Reject => only(self.rejected(chain, rule)),
            Step::Other(name) if TAKES.contains(&name.as_str()) => {
                only(ChainEnd::Unknown(self.unclear(chain, rule)))
            }
            Step::Object { map, key } if self.set(map).is_some_and(|set| set.leads_to_proxies) => {
                match self.look_up((map, *key), registers) {
                    Some(None) => None,
                    Some(Some(_)) | None => only(ChainEnd::Unknown(self.unclear(chain, rule))),
                }
            }
            Step::Nat { family, .. } if !self.is_of(*family) => None,
            Step::Nat { is_destination, address, port, .. } => {
                let to = address.and_then(|at| self.address(registers, at));
                let port = port.and_then(|at| port_of(registers, at));
                match (is_destination, to) {
                    (true, Some(to)) => only(ChainEnd::Destination(translation(Some(to), port))),
                    (false, Some(to)) => only(ChainEnd::Source(translation(Some(to), None))),
                    (_, None) => only(ChainEnd::Unknown(self.unclear(chain, rule))),
                }
            }
            Step::Masquerade => only(ChainEnd::Source(translation(None, None))),
            Step::Redirect(port) => {
                let port = port.and_then(|at| port_of(registers, at));
                only(ChainEnd::Destination(translation(None, port)))
            }
            Step::Target(name, revision, info) => match xt::target(name, *revision, info) {
                xt::Target::GoesOn => None,
                xt::Target::Mark(change) => {
                    let now = self.packet.mark.zip(change);
                    self.packet.mark = now.map(|(mark, (value, mask))| (mark & !mask) ^ value);
                    None
                }
                xt::Target::Untracked => {
                    self.packet.is_untracked = Tri::Yes;
                    None
                }
                xt::Target::Rejects => only(self.rejected(chain, rule)),
                xt::Target::Source(to) => only(ChainEnd::Source(translation(to, None))),
                xt::Target::Destination(to, port) => {
                    only(ChainEnd::Destination(translation(to, port)))
                }
                xt::Target::Unknown => only(ChainEnd::Unknown(self.unclear(chain, rule))),
            },
            _ => None,
        }
    }

    fn rejected(&self, chain: &str, rule: &AnyRule) -> ChainEnd {
        ChainEnd::Drop(RuleLocation { rejects: true, ..self.place(chain, Some(rule)) })
    }

    fn decide(&mut self, decision: &Decision, (chain, rule): (&str, &AnyRule)) -> Ends {
        let only = |end: ChainEnd| Ends { ends: vec![end], goes_on: false };
        match decision {
            Decision::Accept => only(ChainEnd::Accept),
            Decision::Drop => only(ChainEnd::Drop(self.place(chain, Some(rule)))),
            Decision::Queue => only(ChainEnd::Unknown(RuleLocation {
                unclear: Some("a program decides".to_owned()),
                ..self.place(chain, Some(rule))
            })),
            Decision::Continue => Ends { goes_on: true, ..Ends::default() },
            Decision::Return => only(self.returned()),
            Decision::Jump(_) | Decision::Goto(_)
                if self.path.len() >= DEEPEST || self.count >= LONGEST =>
            {
                only(ChainEnd::Unknown(self.unclear(chain, rule)))
            }
            Decision::Jump(to) => self.chain(to),
            Decision::Goto(to) => {
                let mut ends = self.chain(to);
                if ends.goes_on {
                    ends.goes_on = false;
                    ends.add(self.returned());
                }
                ends
            }
        }
    }

    /// Whether the packet is of this family; `NFPROTO_INET` is both.
    fn is_of(&self, family: u8) -> bool {
        let own = if self.packet.destination.is_ipv4() { 2 } else { 10 };
        family == 1 || family == own
    }

    fn address(&self, registers: &Registers, at: Register32) -> Option<IpAddr> {
        let words = |count: usize| -> Option<Vec<u8>> {
            let words = registers.get(at.0..at.0 + count)?;
            words.iter().copied().collect::<Option<Vec<_>>>().map(|words| words.concat())
        };
        match self.packet.destination {
            IpAddr::V4(_) => <[u8; 4]>::try_from(words(1)?).ok().map(IpAddr::from),
            IpAddr::V6(_) => <[u8; 16]>::try_from(words(4)?).ok().map(IpAddr::from),
        }
    }

    /// Whether a step holds, and the decision that a map of decisions leads to.
    fn step(&mut self, step: &Step, registers: &mut Registers) -> (Tri, Option<Decision>) {
        match step {
            Step::Lookup { set, key, into, inverted } => {
                let found = self.look_up((set, *key), registers);
                match (found, into) {
                    (None, Some(_)) => {
                        // How much a map writes is not known here: what was there is not either.
                        *registers = [None; Register32::COUNT];
                        (Tri::Unknown, None)
                    }
                    (None, None) => (Tri::Unknown, None),
                    (Some(None), _) => (Tri::No.flipped(*inverted), None),
                    (Some(Some(Some(Datum::Decision(decision)))), Some(_)) => {
                        (Tri::Yes, Some(decision))
                    }
                    (Some(Some(Some(Datum::Bytes(bytes)))), Some(into)) => {
                        store(registers, *into, &bytes);
                        (Tri::Yes, None)
                    }
                    (Some(Some(_)), _) => (Tri::Yes.flipped(*inverted), None),
                }
            }
            Step::Object { map, key } => (self.by_object((map, *key), registers), None),
            Step::Match(name, revision, info) => {
                let (kernel, space) = (&mut *self.kernel, self.space);
                let mut ask = |address| load::address_type(kernel, space, address);
                (xt::matches((name, *revision, info), self.packet, &mut ask), None)
            }
            Step::Other(name) => {
                if !WRITE_NOTHING.contains(&name.as_str()) {
                    *registers = [None; Register32::COUNT];
                }
                if name == "meta" || name == "ct" {
                    self.packet.mark = None;
                }
                (Tri::Unknown, None)
            }
            Step::SetMark(from) => {
                let word = registers.get(from.0).copied().flatten();
                self.packet.mark = word.map(u32::from_ne_bytes);
                (Tri::Yes, None)
            }
            Step::SetConnectionMark(from) => {
                match registers.get(from.0).copied().flatten() {
                    Some(word) => self.packet.connection_mark = u32::from_ne_bytes(word),
                    None => self.packet.mark = None,
                }
                (Tri::Yes, None)
            }
            Step::NotTracked => {
                self.packet.is_untracked = Tri::Yes;
                (Tri::Yes, None)
            }
            _ => (load::load(step, self.packet, registers, (self.kernel, self.space)), None),
        }
    }

    /// What the object says that a map leads to, if it is a quota. Of others it is not known.
    fn by_object(&mut self, (map, key): (&str, Register32), registers: &Registers) -> Tri {
        match self.look_up((map, key), registers) {
            Some(None) => Tri::No,
            Some(Some(Some(Datum::Object(name)))) => {
                let matches =
                    self.set(map).map(|map| self.kernel.quota_matches(self.space, map, &name));
                match matches {
                    Some(Ok(Some(true))) => Tri::Yes,
                    Some(Ok(Some(false))) => Tri::No,
                    Some(Ok(None) | Err(_)) | None => Tri::Unknown,
                }
            }
            Some(Some(_)) | None => Tri::Unknown,
        }
    }

    fn set(&self, name: &str) -> Option<&'a netlink::nft::AnySet> {
        let is = |it: &&netlink::nft::AnySet| {
            (it.family, it.table.as_str(), it.name.as_str())
                == (self.base.family, self.base.table.as_str(), name)
        };
        self.rules.sets.iter().find(is)
    }

    /// What a set says of a key: `None` if that is not known.
    fn look_up(
        &mut self,
        (set, key): (&str, Register32),
        registers: &Registers,
    ) -> Option<Option<Option<Datum>>> {
        let set = self.set(set)?;
        let key = bytes(registers, key, set.key_length)?;
        self.kernel.seek(self.space, set, &key).ok()
    }
}

/// Whether a step leads to a decision by what it looks up.
fn decides(step: &Step) -> bool {
    matches!(step, Step::Lookup { into: Some(into), .. } if *into == VERDICT)
}

fn port_of(registers: &Registers, at: Register32) -> Option<u16> {
    let [a, b, ..] = (*registers.get(at.0)?)?;
    Some(u16::from_be_bytes([a, b]))
}

/// The first bytes from a register on; `None` if one of them is not known.
pub(super) fn bytes(registers: &Registers, at: Register32, length: usize) -> Option<Vec<u8>> {
    let words = registers.get(at.0..at.0.checked_add(length.div_ceil(4))?)?;
    let known = words.iter().copied().collect::<Option<Vec<[u8; 4]>>>()?;
    let mut bytes = known.concat();
    bytes.truncate(length);
    Some(bytes)
}

/// Puts bytes into registers; the rest of the last is zero.
pub(super) fn store(registers: &mut Registers, at: Register32, bytes: &[u8]) {
    for (number, chunk) in bytes.chunks(4).enumerate() {
        let mut word = [0; 4];
        for (to, from) in word.iter_mut().zip(chunk) {
            *to = *from;
        }
        if let Some(register) = registers.get_mut(at.0 + number) {
            *register = Some(word);
        }
    }
}
