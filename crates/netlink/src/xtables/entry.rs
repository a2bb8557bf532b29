//! The entries of a table: each is a rule, the beginning of a chain, or its end.

use std::collections::BTreeMap;

use model::Family;

use super::{HOOKS, Info};
use crate::nft::{AnyChain, AnyRule, Decision, Header, Register32, Step};
use crate::wire::array;

/// Where the parts of an entry are, of each family.
struct Layout {
    address: usize,
    interfaces: usize,
    protocol: usize,
    flags: usize,
    inverted: usize,
    target: usize,
    next: usize,
    length: usize,
    /// The source in the packet's header; the destination stands behind it.
    in_header: usize,
}

/// `struct ipt_entry`.
const V4: Layout = Layout {
    address: 4,
    interfaces: 16,
    protocol: 80,
    flags: 82,
    inverted: 83,
    target: 88,
    next: 90,
    length: 112,
    in_header: 12,
};
/// `struct ip6t_entry`.
const V6: Layout = Layout {
    address: 16,
    interfaces: 64,
    protocol: 128,
    flags: 131,
    inverted: 132,
    target: 140,
    next: 142,
    length: 168,
    in_header: 8,
};

/// `IPT_F_GOTO`, and `IPT_INV_*`.
const GOTO: u8 = 2;
const NOT_IN: u8 = 1;
const NOT_OUT: u8 = 2;
const NOT_SOURCE: u8 = 8;
const NOT_DESTINATION: u8 = 0x10;
const NOT_PROTOCOL: u8 = 0x40;
/// Length of `struct xt_entry_match` and of its sibling, without data.
const PART: usize = 32;
/// Where conditions are loaded.
const REGISTER: Register32 = Register32(4);
/// `NFT_META_IIFNAME`, `_OIFNAME`, `_L4PROTO`.
const INPUT: u32 = 6;
const OUTPUT: u32 = 7;
const PROTOCOL: u32 = 16;

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    array(bytes, at).map(u16::from_ne_bytes).map(usize::from)
}

/// The chains of a table and their rules; `None` if the bytes are not what they should be.
pub(super) fn read(
    family: Family,
    table: &str,
    info: &Info,
    bytes: &[u8],
) -> Option<(Vec<AnyChain>, Vec<AnyRule>)> {
    let layout = if family == Family::V4 { &V4 } else { &V6 };
    let number = if family == Family::V4 { 2 } else { 10 };
    let entries = split(layout, bytes)?;
    let names = names(layout, info, &entries);
    let (mut chains, mut rules) = (Vec::new(), Vec::new());
    let mut current: Option<(String, u64)> = None;
    for (at, entry) in &entries {
        if let Some((name, hook)) = names.get(at) {
            let drops = |policy: usize| {
                let last = entries.iter().find(|(at, _)| *at == policy);
                last.is_some_and(|(_, entry)| verdict(layout, entry) == Some(-1))
            };
            let hook = hook.map(|(number, policy, priority)| {
                info.hook((number, priority), table, drops(policy))
            });
            let (table, name) = (table.to_owned(), name.clone());
            current = Some((name.clone(), 0));
            chains.push(AnyChain { family: number, table, name, hook });
        }
        let is_policy = info.hooks.iter().any(|(_, _, policy, _)| policy == at);
        if is_policy || target_name(layout, entry)? == "ERROR" {
            continue;
        }
        let Some((chain, count)) = &mut current else { continue };
        *count += 1;
        let steps = steps(layout, entry, &names, at + entry.len())?;
        let (table, chain) = (table.to_owned(), chain.clone());
        rules.push(AnyRule { family: number, table, chain, handle: *count, steps, comment: None });
    }
    Some((chains, rules))
}

fn split<'a>(layout: &Layout, bytes: &'a [u8]) -> Option<Vec<(usize, &'a [u8])>> {
    let (mut at, mut entries) = (0, Vec::new());
    while at < bytes.len() {
        let length = half(bytes, at + layout.next)?;
        if length < layout.length {
            return None;
        }
        entries.push((at, bytes.get(at..at.checked_add(length)?)?));
        at += length;
    }
    Some(entries)
}

/// What begins a chain: its hook with the policy's place and the priority.
type Names = BTreeMap<usize, (String, Option<(usize, usize, i32)>)>;

/// The chains by the place of their first rule. A chain of its own begins with an entry that names it.
fn names(layout: &Layout, info: &Info, entries: &[(usize, &[u8])]) -> Names {
    let mut names = Names::new();
    for (hook, first, policy, priority) in &info.hooks {
        let name = HOOKS.get(*hook).map_or_else(String::new, ToString::to_string);
        names.insert(*first, (name, Some((*hook, *policy, *priority))));
    }
    for (at, entry) in entries {
        let text = || {
            let data = entry.get(half(entry, layout.target)? + PART..)?;
            let end = data.iter().position(|byte| *byte == 0)?;
            std::str::from_utf8(data.get(..end)?).ok().map(str::to_owned)
        };
        if target_name(layout, entry) == Some("ERROR")
            && let Some(name) = text()
            // The last one of a table is called that itself.
            && name != "ERROR"
        {
            names.insert(at + entry.len(), (name, None));
        }
    }
    names
}

fn target_name<'a>(layout: &Layout, entry: &'a [u8]) -> Option<&'a str> {
    name(entry.get(half(entry, layout.target)?..)?)
}

fn name(part: &[u8]) -> Option<&str> {
    let name = part.get(2..31)?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    std::str::from_utf8(name.get(..end)?).ok()
}

/// The number of a standard target.
fn verdict(layout: &Layout, entry: &[u8]) -> Option<i32> {
    let at = half(entry, layout.target)?;
    let is_standard = target_name(layout, entry)?.is_empty();
    is_standard.then(|| word(entry, at + PART)).flatten().map(u32::cast_signed)
}

fn steps(layout: &Layout, entry: &[u8], names: &Names, next: usize) -> Option<Vec<Step>> {
    let mut steps = conditions(layout, entry)?;
    let target = half(entry, layout.target)?;
    let mut at = layout.length;
    while at < target {
        let length = half(entry, at)?;
        let part = entry.get(at..at.checked_add(length)?)?;
        let revision = u32::from(*part.get(31)?);
        steps.push(Step::Match(name(part)?.to_owned(), revision, part.get(PART..)?.to_vec()));
        at += length;
    }
    let part = entry.get(target..)?;
    steps.push(match verdict(layout, entry) {
        Some(-1) => Step::Decision(Decision::Drop),
        Some(-2) => Step::Decision(Decision::Accept),
        Some(-5) => Step::Decision(Decision::Return),
        Some(number) if number < 0 => Step::Decision(Decision::Queue),
        Some(number) if number as usize == next => Step::Neutral,
        Some(number) => {
            let (chain, _) = names.get(&(number as usize))?;
            let is_goto = entry.get(layout.flags)? & GOTO != 0;
            Step::Decision(match is_goto {
                true => Decision::Goto(chain.clone()),
                false => Decision::Jump(chain.clone()),
            })
        }
        None => {
            let revision = u32::from(*part.get(31)?);
            Step::Target(name(part)?.to_owned(), revision, part.get(PART..)?.to_vec())
        }
    });
    Some(steps)
}

/// Addresses, interfaces and the protocol.
fn conditions(layout: &Layout, entry: &[u8]) -> Option<Vec<Step>> {
    let inverted = *entry.get(layout.inverted)?;
    let mut steps = Vec::new();
    let mut compare = |load: Step, value: &[u8], mask: &[u8], not: bool| {
        if mask.iter().all(|byte| *byte == 0) && !not {
            return;
        }
        let (mask, xor) = (mask.to_vec(), vec![0; mask.len()]);
        let value = value.iter().zip(&mask).map(|(value, mask)| value & mask).collect();
        steps.push(load);
        steps.push(Step::Bitwise { from: REGISTER, into: REGISTER, mask, xor });
        steps.push(Step::Compare(REGISTER, u32::from(not), value));
    };
    let part = |number: usize| entry.get(number * layout.address..(number + 1) * layout.address);
    let addresses = [NOT_SOURCE, NOT_DESTINATION];
    for (number, not) in addresses.into_iter().enumerate() {
        let load = Step::Payload {
            base: Header::Network,
            offset: layout.in_header + number * layout.address,
            length: layout.address,
            into: REGISTER,
        };
        compare(load, part(number)?, part(number + 2)?, inverted & not != 0);
    }
    let name = |number: usize| {
        let at = layout.interfaces + 16 * number;
        entry.get(at..at + 16)
    };
    for (number, (key, not)) in [(INPUT, NOT_IN), (OUTPUT, NOT_OUT)].into_iter().enumerate() {
        let load = Step::Meta(key, REGISTER);
        compare(load, name(number)?, name(number + 2)?, inverted & not != 0);
    }
    let protocol = half(entry, layout.protocol)?;
    if protocol != 0 {
        let not = u32::from(inverted & NOT_PROTOCOL != 0);
        steps.push(Step::Meta(PROTOCOL, REGISTER));
        steps.push(Step::Compare(REGISTER, not, vec![u8::try_from(protocol).ok()?]));
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_table_is_survived(
            header in proptest::collection::vec(any::<u8>(), 84),
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            let info = Info::of(&header.try_into().unwrap(), [0; 5]);
            let _ = read(Family::V4, "filter", &info, &bytes);
            let _ = read(Family::V6, "filter", &info, &bytes);
        }
    }
}
