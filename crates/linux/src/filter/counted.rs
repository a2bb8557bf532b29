//! Counters of published ports: how much connections over each carry, as the kernel counts it. They belong
//! to the ports' elements in `inet spoke`, and come and go with them.
//!
//! `counted.nft` is the readable form.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::{Error, Protocol, Result};
use netlink::nft::{
    self, Base, ChainKind, Comment, Conntrack, Count, Element, Expression, Family, Field, Hook,
    Meta, ObjectKind, Original, Policy, Set, Table, Transaction, Tuple, Verdict,
};
use netlink::{Errno, Socket};

use super::Elements;
use super::entry::Entry;
use super::rules::{R, RETURN, Steps};
use super::ruleset::{Ruleset, set, settled, unload_while};

/// The table.
pub(crate) const TABLE: Table<'static> = Table { family: Family::Inet, name: "spoke_ports" };
/// The version, as in `inet spoke`.
const STAMP: &str = "counted_1";
const ATTEMPTS: usize = 16;
/// `IP_CT_DIR_ORIGINAL` and `IP_CT_DIR_REPLY`.
const ORIGINAL: u8 = 0;
const REPLY: u8 = 1;
/// `NFPROTO_IPV4` and `NFPROTO_IPV6`.
const IPV4: u8 = 2;
const IPV6: u8 = 10;
/// `IPS_DST_NAT`.
const TRANSLATED: [u8; 4] = 0x20u32.to_ne_bytes();

const KEYS: [&[Field]; 2] = [
    &[Field::Protocol, Field::Service, Field::Ipv4],
    &[Field::Protocol, Field::Service, Field::Ipv6],
];
/// Of what goes to the container, and of what comes from it; each of IPv4 and of IPv6.
const TO: [Set<'static>; 2] = [counters("to4", 0), counters("to6", 1)];
const FROM: [Set<'static>; 2] = [counters("from4", 0), counters("from6", 1)];

const fn counters(name: &'static str, family: usize) -> Set<'static> {
    Set { objects: Some(ObjectKind::Counter), ..set(name, KEYS[family]) }
}

/// What has gone over a published port since it was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The attachment, as [`crate::identity::Identity::digits`] names it.
    pub digits: String,
    /// The port of the host.
    pub protocol: Protocol,
    /// Its number.
    pub port: u16,
    /// Packets, and bytes from the network header on, to the container.
    pub received: (u64, u64),
    /// The same of the answers.
    pub sent: (u64, u64),
}

/// The counters of all published ports of this host; none where there are none.
///
/// # Errors
/// Where the kernel does not list them.
pub fn read(socket: &mut Socket) -> Result<Vec<Counted>> {
    let mut all: BTreeMap<(String, Protocol, u16), Counted> = BTreeMap::new();
    for (name, Count { packets, bytes }) in nft::counters(socket, TABLE)? {
        let Some((is_to, digits, protocol, port)) = meaning(&name) else { continue };
        let counted = all.entry((digits.to_owned(), protocol, port)).or_insert_with(|| {
            let digits = digits.to_owned();
            Counted { digits, protocol, port, received: (0, 0), sent: (0, 0) }
        });
        *(if is_to { &mut counted.received } else { &mut counted.sent }) = (packets, bytes);
    }
    Ok(all.into_values().collect())
}

/// A counter's name: nft(8) reads names that begin with a letter.
fn name(is_to: bool, digits: &str, protocol: Protocol, port: u16) -> String {
    format!("{}-{digits}-{protocol}-{port}", if is_to { "to" } else { "from" })
}

fn meaning(name: &str) -> Option<(bool, &str, Protocol, u16)> {
    let mut words = name.split('-');
    let is_to = match words.next()? {
        "to" => true,
        "from" => false,
        _ => return None,
    };
    Some((is_to, words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// An element, and its map.
type Led = (&'static str, Element);

/// The elements of the ports among these.
fn wanted(elements: &Elements) -> Result<Vec<Led>> {
    let owner = elements.owner();
    let digits = owner.as_str().split('/').next().unwrap_or_default();
    let comment: Comment = owner.as_str().parse()?;
    let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
    for entry in elements.entries() {
        let Entry::Port { protocol, host_port, to, .. } = entry else { continue };
        // A port at two addresses of the host is counted as one.
        if !seen.insert((*protocol, *host_port, *to)) {
            continue;
        }
        let family = usize::from(matches!(to, IpAddr::V6(_)));
        let key = Tuple::new().protocol(protocol.number()).service(*host_port).address(*to);
        for (is_to, maps) in [(true, &TO), (false, &FROM)] {
            let element = Element {
                counter: Some(name(is_to, digits, *protocol, *host_port)),
                comment: Some(comment.clone()),
                ..Element::of(key.clone())
            };
            all.push((maps[family].name, element));
        }
    }
    Ok(all)
}

/// Those of these that are there, by their indexes.
fn found(socket: &mut Socket, wanted: &[Led]) -> Result<BTreeMap<usize, Element>> {
    let keys: Vec<_> = wanted.iter().map(|(map, element)| (*map, element)).collect();
    Ok(nft::find(socket, TABLE, &keys)?.into_iter().collect())
}

/// Counts the ports among these elements, where they are not counted yet; whether any was not.
pub(crate) fn keep(socket: &mut Socket, elements: &Elements) -> Result<bool> {
    let wanted = wanted(elements)?;
    if wanted.is_empty() {
        return Ok(false);
    }
    for attempt in 0..ATTEMPTS {
        let there = found(socket, &wanted)?;
        let is_there = |index: usize, element: &Element| there.get(&index) == Some(element);
        if wanted.iter().enumerate().all(|(index, (_, element))| is_there(index, element)) {
            return Ok(attempt > 0);
        }
        ruleset().ensure(socket)?;
        let mut transaction = Transaction::new();
        for (index, (map, element)) in wanted.iter().enumerate() {
            if is_there(index, element) {
                continue;
            }
            // Of a container that had the address before.
            if let Some(former) = there.get(&index) {
                transaction.delete_element(TABLE, map, former, about("replacing", elements));
            }
            let Some(counter) = &element.counter else { continue };
            transaction.ensure_counter(TABLE, counter);
            transaction.add_element(TABLE, map, element, about("adding", elements));
        }
        settled(transaction.commit(socket), |failure| {
            matches!(failure.errno, Errno::EXIST | Errno::NOENT)
        })?;
    }
    Err(Error::try_again(about("others keep changing", elements)))
}

/// Takes the counters of the ports among these out, but for those of the `rest` that stays, and the table with
/// the last.
pub(crate) fn drop(
    socket: &mut Socket,
    elements: &Elements,
    rest: Option<&Elements>,
) -> Result<()> {
    let unwanted = without(elements, rest)?;
    if unwanted.is_empty() {
        return Ok(());
    }
    take_out(socket, (elements, &unwanted), |_, _| Ok(()))
}

/// As [`drop`], and what leads to the ports with them, in one transaction: a process that is killed leaves both or none.
pub(crate) fn drop_with_elements(
    socket: &mut Socket,
    elements: &Elements,
    rest: Option<&Elements>,
) -> Result<()> {
    match without(elements, rest)?.as_slice() {
        [] => super::remove(socket, elements),
        unwanted => take_out(socket, (elements, unwanted), |socket, transaction| {
            super::elements::plan_removal(socket, elements, transaction)
        }),
    }
}

fn take_out(
    socket: &mut Socket,
    (elements, unwanted): (&Elements, &[Led]),
    also: impl Fn(&mut Socket, &mut Transaction) -> Result<()>,
) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let mut users: BTreeMap<_, _> =
            nft::users_of_counters(socket, TABLE)?.into_iter().collect();
        let mut transaction = Transaction::new();
        for (index, there) in found(socket, unwanted)? {
            let Some((map, element)) = unwanted.get(index).filter(|it| it.1 == there) else {
                continue;
            };
            transaction.delete_element(TABLE, map, &there, about("removing", elements));
            let users = element.counter.as_ref().and_then(|counter| users.get_mut(counter));
            users.into_iter().for_each(|users| *users = users.saturating_sub(1));
        }
        let is_last = forget(&mut transaction, unwanted, users);
        also(socket, &mut transaction)?;
        // BUSY: another process has led to a counter meanwhile.
        if settled(transaction.commit(socket), |failure| {
            matches!(failure.errno, Errno::NOENT | Errno::BUSY)
        })? {
            // Those that were there may have gone in the same moment, each seeing the others.
            let is_unused = is_last || nft::users_of_counters(socket, TABLE)?.is_empty();
            return if is_unused { unload_unused(socket) } else { Ok(()) };
        }
    }
    Err(Error::try_again(about("others keep changing", elements)))
}

/// The elements of the ports among these, but for those that ports of the rest have too: at another address of
/// the host.
fn without(elements: &Elements, rest: Option<&Elements>) -> Result<Vec<Led>> {
    let mut unwanted = wanted(elements)?;
    let rest = rest.map_or_else(|| Ok(Vec::new()), wanted)?;
    let rest: BTreeSet<_> = rest.iter().map(|(map, element)| (*map, &element.key)).collect();
    unwanted.retain(|(map, element)| !rest.contains(&(*map, &element.key)));
    Ok(unwanted)
}

/// Removes the counters of these elements to which none leads any more: the port's element of the other family
/// may. Whether no counter is left.
fn forget(transaction: &mut Transaction, gone: &[Led], mut users: BTreeMap<String, u32>) -> bool {
    for counter in gone.iter().filter_map(|(_, element)| element.counter.as_ref()) {
        if users.get(counter) == Some(&0) {
            transaction.delete_counter(TABLE, counter);
            users.remove(counter);
        }
    }
    users.is_empty()
}

/// Removes the table where it counts nothing, and nothing comes meanwhile.
pub(crate) fn unload_unused(socket: &mut Socket) -> Result<()> {
    unload_while(socket, TABLE, |socket| {
        for map in &TO {
            if !nft::elements(socket, TABLE, map.name)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

/// Makes the chains what they should be, where there is the table. Whether they were not.
pub(crate) fn mend(socket: &mut Socket) -> Result<bool> {
    ruleset().mend(socket)
}

fn about(doing: &str, elements: &Elements) -> String {
    format!("{doing} the counters of {}'s ports ({TABLE})", elements.owner())
}

fn ruleset() -> Ruleset {
    let base = |hook, priority| {
        Some(Base { kind: ChainKind::Filter, hook, priority, policy: Policy::Accept })
    };
    Ruleset {
        table: TABLE,
        stamp: STAMP,
        sets: TO.into_iter().chain(FROM).collect(),
        chains: vec![
            (STAMP, None),
            ("postrouting", base(Hook::Postrouting, 300)),
            ("prerouting", base(Hook::Prerouting, -150)),
            ("to", None),
            ("from", None),
        ],
        rules: rules(),
    }
}

fn rules() -> Vec<(&'static str, Steps)> {
    let mut rules =
        vec![("postrouting", published(ORIGINAL, "to")), ("prerouting", published(REPLY, "from"))];
    for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
        for (chain, maps, offsets) in [("to", &TO, [16, 24]), ("from", &FROM, [12, 8])] {
            let [v4, v6] = maps;
            rules.push((chain, counts(protocol, (IPV4, offsets[0], 4), v4)));
            rules.push((chain, counts(protocol, (IPV6, offsets[1], 16), v6)));
        }
    }
    rules
}

/// Of connections over published ports, what goes in one direction.
fn published(direction: u8, chain: &'static str) -> Steps {
    vec![
        Expression::Conntrack(Conntrack::Status, R),
        Expression::Mask(R, Cow::Owned(TRANSLATED.to_vec())),
        Expression::Unequal(R, Cow::Borrowed(&[0; 4])),
        Expression::Conntrack(Conntrack::Direction, R),
        Expression::Equal(R, Cow::Owned(vec![direction])),
        Expression::Verdict(Verdict::Jump(chain)),
    ]
}

/// Of one family, with where the container's address stands in its header, and of one protocol.
fn counts(
    protocol: Protocol,
    (family, offset, length): (u8, u32, u32),
    map: &Set<'static>,
) -> Steps {
    let equal = |byte: u8| Expression::Equal(R, Cow::Owned(vec![byte]));
    vec![
        Expression::Meta(Meta::Family, R),
        equal(family),
        Expression::Meta(Meta::Protocol, R),
        equal(protocol.number()),
        Expression::Meta(Meta::Protocol, R),
        Expression::Original(Original::Port, R.behind(1)),
        Expression::Network { offset, length, into: R.behind(2) },
        Expression::CountBy { map: map.name, key: R },
        RETURN,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_they_count() {
        let digits = "0123456789abcdef0123456789abcdef";
        let name = name(false, digits, Protocol::Udp, 53);
        assert_eq!(meaning(&name), Some((false, digits, Protocol::Udp, 53)));
        for other in ["", "to", "to-x", "to-x-tcp", "to-x-tcp-x", "x-y-tcp-1"] {
            assert_eq!(meaning(other), None, "{other}");
        }
    }
}
