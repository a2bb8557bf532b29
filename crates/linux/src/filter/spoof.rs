//! Ports of bridges whose containers may send only from their own hardware address and IP
//! addresses. This is a table of its own, because only the family of bridges sees frames. A
//! container is one element of the first sets, and one for each address of the others.
//!
//! `spoof.nft` is the readable form.

mod rules;
mod sender;
pub(super) mod shut;
mod subnets;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{Error, IfName, IpNet, Mac, Result};
use netlink::nft::{
    self, Base, ChainKind, Comment, Element, Family, Field, Hook, Lookup, Policy, Set, Table,
    Transaction, Tuple,
};
use netlink::{Errno, Socket};
use sha2::{Digest, Sha256};

use super::owner::Owner;
use super::ruleset::{Ruleset, is_raced, set, settled, unload_while};
use crate::identity::link_local;
pub(crate) use sender::{bound, is_apart, sender};

/// The table.
pub(crate) const TABLE: Table<'static> = Table { family: Family::Bridge, name: "spoke" };
/// The version, as in `inet spoke`.
const STAMP: &str = "spoof_13";
const CHAIN: &str = "prerouting";
const OUTWARDS: &str = "forward";
const CHECKED: Set<'static> = set("checked", &[Field::Interface]);
const SENDERS: Set<'static> = set("senders", &[Field::Interface, Field::Ethernet]);
const NAMED: Set<'static> =
    set("named", &[Field::Interface, Field::Transport { offset: 10, length: 6 }]);
/// Where a neighbour's address stands in its discovery.
const TARGET: Field = Field::Transport { offset: 8, length: 16 };
/// Of IPv4 and of IPv6.
const HOLDERS: [Set<'static>; 2] = [
    set("holders", &[Field::Interface, Field::Ipv4]),
    set("holders6", &[Field::Interface, TARGET]),
];
/// Addresses of each segment.
const HELD: [Set<'static>; 2] =
    [set("taken", &[Field::Mark, Field::Ipv4]), set("taken6", &[Field::Mark, TARGET])];
/// The segment of each port: its bridge, as a number. Other bridges may have the same addresses.
/// Not the map `segments` of older versions: nft(8) read its numbers in another order than it had listed them.
const SEGMENTS: Set<'static> =
    Set { data: &[Field::Mark], ..set("segment_of", &[Field::Interface]) };
/// Ports whose containers send from their own addresses only, whatever others have.
const BOUND: Set<'static> = set("bound", &[Field::Interface]);
const SOURCES: [Set<'static>; 2] = [
    set("sources4", &[Field::Interface, Field::Ipv4]),
    set("sources6", &[Field::Interface, Field::Ipv6]),
];
/// Those of them whose containers reach their neighbours by addresses of the link, too.
const LINKED: Set<'static> = set("linked", &[Field::Interface]);
/// Ports of containers that others do not reach: what they send is in no neighbour's name.
const APART: Set<'static> = set("apart", &[Field::Interface]);
/// Hardware addresses of each segment.
const ETHERS: Set<'static> = set("ethers", &[Field::Mark, Field::Ethernet]);
/// Those of them that send nothing at all.
const SHUT: Set<'static> = set("shut", &[Field::Interface]);
/// Ports of virtual machines.
const MACHINES: Set<'static> = set("machines", &[Field::Interface]);
/// Ports that come with addresses that no container has, of IPv4 and of IPv6.
const STRANGERS: [Set<'static>; 2] = [
    Set { lookup: Lookup::Counting, ..set("strangers4", &[Field::Interface]) },
    Set { lookup: Lookup::Counting, ..set("strangers6", &[Field::Interface]) },
];
/// The subnets of each segment. Each goes with its bridge.
const SUBNETS: [Set<'static>; 2] = [
    Set { lookup: Lookup::Ranges, ..set("subnets4", &[Field::Mark, Field::Ipv4]) },
    Set { lookup: Lookup::Ranges, ..set("subnets6", &[Field::Mark, Field::Ipv6]) },
];
/// Ports, and the addresses of no container there that they have sent to.
const SOUGHT: [Set<'static>; 2] = [
    Set { lookup: Lookup::Counting, ..set("sought4", &[Field::Interface, Field::Ipv4]) },
    Set { lookup: Lookup::Counting, ..set("sought6", &[Field::Interface, Field::Ipv6]) },
];
/// Those whose elements have owners.
const OWNED: [Set<'static>; 16] = [
    CHECKED, SENDERS, NAMED, HOLDERS[0], HOLDERS[1], SEGMENTS, HELD[0], HELD[1], BOUND, SOURCES[0],
    SOURCES[1], LINKED, APART, ETHERS, SHUT, MACHINES,
];
const ATTEMPTS: usize = 16;

/// From which addresses a container sends packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// From any that no other container of the segment has.
    No,
    /// From its own and those of the link: its network has rules, which judge the latter, too.
    ToOwnAndLink,
    /// From its own.
    ToOwn,
}

/// A container's port, and from which addresses it may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) owner: Owner,
    pub(crate) port: IfName,
    pub(crate) bridge: IfName,
    pub(crate) mac: Mac,
    /// The container's addresses.
    pub(crate) addresses: Vec<IpAddr>,
    /// Those of its link that it was given besides. Rules of its own know it by none of these.
    pub(crate) of_link: Vec<IpAddr>,
    /// The host's addresses there.
    pub(crate) gateways: Vec<IpAddr>,
    /// The subnets in which this host looks for the destination of what is sent to it.
    pub(crate) subnets: Vec<IpNet>,
    /// Whether it sends packets from its own addresses only.
    pub(crate) bound: Bound,
    /// Whether it sends frames from its own hardware address only, and tells others the truth.
    pub(crate) is_checked: bool,
    /// Whether others do not reach the container: it sends nothing in the name of a neighbour, whom these would answer.
    pub(crate) is_apart: bool,
    /// Whether it is a virtual machine, whose interface only the daemon configures.
    pub(crate) is_machine: bool,
}

/// Of a pair of sets the one for the address.
fn of(sets: &[Set<'static>; 2], address: IpAddr) -> &'static str {
    let [v4, v6] = sets;
    match address {
        IpAddr::V4(_) => v4.name,
        IpAddr::V6(_) => v6.name,
    }
}

/// A bridge as a number of 32 bits: two bridges have the same one by chance only, and then keep as much from each
/// other as two networks of one bridge.
fn number_of(bridge: &IfName) -> u32 {
    let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(bridge.as_str()));
    u32::from_ne_bytes([a, b, c, d]).max(1)
}

fn segment_of(bridge: &IfName) -> Tuple {
    Tuple::new().mark(number_of(bridge))
}

impl Sender {
    /// Whether the container sends packets from no address of others, whatever these are.
    pub(crate) fn is_bound(&self) -> bool {
        self.bound != Bound::No
    }

    /// Whether the port is checked before it is there, and until it is gone.
    pub(crate) fn is_checked_from_the_start(&self) -> bool {
        self.is_bound() || self.is_apart
    }

    /// The container's elements.
    fn elements(&self) -> Result<Vec<(&'static str, Element)>> {
        let port = Tuple::new().interface(&self.port);
        let comment: Comment = self.owner.as_str().parse()?;
        let element = |key| Element { comment: Some(comment.clone()), ..Element::of(key) };
        let sender = element(port.clone().mac(self.mac));
        let segment = Some(segment_of(&self.bridge));
        let mut elements = vec![
            (SENDERS.name, sender.clone()),
            (SEGMENTS.name, Element { data: segment, ..element(port.clone()) }),
        ];
        if self.is_checked {
            elements.extend([(CHECKED.name, element(port.clone())), (NAMED.name, sender)]);
        }
        if self.is_apart {
            elements.push((APART.name, element(port.clone())));
        }
        // A neighbour that is apart has another one.
        elements.push((ETHERS.name, element(segment_of(&self.bridge).mac(self.mac))));
        // The kernel gives the interface one of its link by itself.
        let own = IpAddr::V6(link_local(self.mac));
        for address in self.addresses.iter().chain(&self.of_link).copied().chain([own]) {
            elements.push((of(&HOLDERS, address), element(port.clone().address(address))));
            elements.push((of(&HELD, address), element(segment_of(&self.bridge).address(address))));
        }
        let source =
            |address: &IpAddr| (of(&SOURCES, *address), element(port.clone().address(*address)));
        if self.is_bound() {
            elements.push((BOUND.name, element(port.clone())));
            elements.extend(self.addresses.iter().map(source));
        }
        if self.bound == Bound::ToOwnAndLink {
            elements.push((LINKED.name, element(port.clone())));
            elements.extend(self.of_link.iter().map(source));
        }
        if self.is_machine {
            elements.push((MACHINES.name, element(port)));
        }
        // An address of the link may have been asked for that is also the kernel's.
        let mut seen = BTreeSet::new();
        elements.retain(|its| seen.insert(its.clone()));
        Ok(elements)
    }

    /// The elements for all containers of the bridge: they stay as long as it does.
    fn shared(&self) -> impl Iterator<Item = (&'static str, Element)> {
        let key = |gateway| segment_of(&self.bridge).address(gateway);
        self.gateways.iter().map(move |gateway| (of(&HELD, *gateway), Element::of(key(*gateway))))
    }

    fn about(&self, doing: &str) -> String {
        format!("{doing} the check of what {} sends as {} ({TABLE})", self.port, self.mac)
    }
}

/// Drops what the port sends from another address. What exists is left.
pub(crate) fn install(socket: &mut Socket, sender: &Sender) -> Result<()> {
    let wanted: Vec<_> = sender.elements()?.into_iter().chain(sender.shared()).collect();
    let mut subnets = subnets::wanted(sender);
    let mut other: Vec<(&'static str, Element)> = Vec::new();
    for _ in 0..ATTEMPTS {
        if !nft::chain_exists(socket, TABLE, STAMP)? {
            // What a bridge does not judge, because it is the port's own, is dropped there.
            super::ensure(socket)?;
            ruleset().ensure(socket)?;
        }
        let mut transaction = Transaction::new();
        for (set, element) in &other {
            transaction.delete_element(TABLE, set, element, sender.about("correcting"));
        }
        for (set, element) in &wanted {
            transaction.ensure_element(TABLE, set, element, sender.about("adding"));
        }
        let first = transaction.next_index();
        for (set, range) in &subnets {
            transaction.add_between(TABLE, set, range, sender.about("adding"));
        }
        let (overlaps, differs) = (Cell::new(false), Cell::new(false));
        // The table is gone again, another network has a subnet that is in this one or has it, or the port is called
        // one of another segment.
        let is_done = settled(transaction.commit(socket), |failure| {
            let exists = failure.errno == Errno::EXIST;
            overlaps.set(exists && failure.index >= first);
            differs.set(exists && failure.index < first);
            exists || failure.errno == Errno::NOENT
        })?;
        if is_done {
            return Ok(());
        }
        if overlaps.get() {
            subnets = subnets::make_room(socket, sender)?;
        }
        other = match differs.get() {
            true => differing(socket, &wanted)?,
            false => Vec::new(),
        };
    }
    Err(Error::try_again(sender.about("others keep removing")))
}

/// As [`install`], for what mostly is there. Whether anything was missing.
pub(crate) fn restore(socket: &mut Socket, sender: &Sender) -> Result<bool> {
    if missing(socket, sender)? {
        return install(socket, sender).map(|()| true);
    }
    Ok(false)
}

/// Makes the table anew with all that is in it, and so the last one: a flush of the packet filter removes tables one
/// after the other, in the order in which they were made. At no time are frames not checked. `false` where the ruleset
/// is no longer what it was at this generation.
pub(crate) fn make_last(socket: &mut Socket, generation: u32) -> Result<bool> {
    let mut transaction = Transaction::of_generation(generation);
    ruleset().write_anew(&mut transaction)?;
    for set in OWNED {
        for element in nft::elements(socket, TABLE, set.name)? {
            let about = format!("making {TABLE} anew");
            transaction.add_element(TABLE, set.name, &element, about);
        }
    }
    subnets::keep(socket, &mut transaction)?;
    settled(transaction.commit(socket), is_raced)
}

/// Whether frames are checked as they should be.
pub(crate) fn verify(socket: &mut Socket, sender: &Sender) -> Result<()> {
    ruleset().verify(socket)?;
    match missing(socket, sender)? {
        true => Err(Error::not_found(sender.about("missing:"))),
        false => Ok(()),
    }
}

/// Whether these ports send from their containers' addresses only.
pub(crate) fn are_bound(socket: &mut Socket, senders: &[&Sender]) -> Result<bool> {
    for sender in senders {
        if !sender.is_bound() || missing(socket, sender)? {
            return Ok(false);
        }
    }
    Ok(senders.is_empty() || ruleset().verify(socket).is_ok())
}

/// Those of the elements whose keys are in the table, as they are there, by their places in `elements`.
fn find(
    socket: &mut Socket,
    elements: &[(&'static str, Element)],
) -> Result<Vec<(usize, Element)>> {
    let keys: Vec<_> = elements.iter().map(|(set, element)| (*set, element)).collect();
    nft::find(socket, TABLE, &keys)
}

/// Those of the elements that lead to something else than is wanted.
fn differing(
    socket: &mut Socket,
    wanted: &[(&'static str, Element)],
) -> Result<Vec<(&'static str, Element)>> {
    let there = find(socket, wanted)?.into_iter();
    let differs = |(index, there): (usize, Element)| {
        let (set, wanted) = wanted.get(index)?;
        (wanted.data != there.data).then_some((*set, there))
    };
    Ok(there.filter_map(differs).collect())
}

fn missing(socket: &mut Socket, sender: &Sender) -> Result<bool> {
    let wanted: Vec<_> = sender.elements()?.into_iter().chain(sender.shared()).collect();
    let there = find(socket, &wanted)?;
    let is_as_wanted = |(index, there): &(usize, Element)| {
        wanted.get(*index).is_some_and(|(_, wanted)| wanted.data == there.data)
    };
    let is_there = there.len() == wanted.len() && there.iter().all(is_as_wanted);
    Ok(!is_there || !subnets::are_there(socket, sender)?)
}

/// Removes a port whose address is known, without reading the others.
pub(crate) fn remove(socket: &mut Socket, sender: &Sender) -> Result<()> {
    take_out(socket, sender, &sender.elements()?)
}

/// Removes of `before` what `now`, the same port, has not.
pub(crate) fn withdraw(socket: &mut Socket, before: &Sender, now: Option<&Sender>) -> Result<()> {
    let rest = now.map(Sender::elements).transpose()?.unwrap_or_default();
    let mut gone = before.elements()?;
    gone.retain(|element| !rest.contains(element));
    take_out(socket, before, &gone)
}

fn take_out(
    socket: &mut Socket,
    sender: &Sender,
    unwanted: &[(&'static str, Element)],
) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let mut transaction = Transaction::new();
        for (index, there) in find(socket, unwanted)? {
            if let Some((set, element)) = unwanted.get(index)
                && there.comment == element.comment
            {
                transaction.delete_element(TABLE, set, &there, sender.about("removing"));
            }
        }
        if settled(transaction.commit(socket), |failure| failure.errno == Errno::NOENT)? {
            return Ok(());
        }
    }
    Err(Error::try_again(sender.about("others keep changing")))
}

/// The owners of all elements. It reads the whole table.
pub(crate) fn owners(socket: &mut Socket) -> Result<BTreeSet<String>> {
    let mut owners = BTreeSet::new();
    for set in OWNED {
        let elements = nft::elements(socket, TABLE, set.name)?;
        let comments = elements.into_iter().filter_map(|element| element.comment);
        owners.extend(comments.map(|comment| comment.as_str().to_owned()));
    }
    Ok(owners)
}

/// Removes what bears this mark. It reads the whole table.
pub(crate) fn remove_owned(socket: &mut Socket, owner: &Owner) -> Result<()> {
    remove_from(socket, owner, &OWNED)
}

/// Takes from a port that is not bound what it had as one that was.
pub(crate) fn unbind(socket: &mut Socket, sender: &Sender) -> Result<()> {
    let bound = Sender { bound: Bound::ToOwnAndLink, is_checked: true, ..sender.clone() };
    withdraw(socket, &bound, Some(sender))
}

/// Takes from a port what [`Bound::ToOwnAndLink`] has beyond [`Bound::ToOwn`].
pub(crate) fn unlink(socket: &mut Socket, sender: &Sender) -> Result<()> {
    let linked = Sender { bound: Bound::ToOwnAndLink, ..sender.clone() };
    withdraw(socket, &linked, Some(sender))
}

fn remove_from(socket: &mut Socket, owner: &Owner, sets: &[Set<'static>]) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let mut transaction = Transaction::new();
        for set in sets {
            for element in nft::elements(socket, TABLE, set.name)? {
                let by = element.comment.as_ref().map(Comment::as_str);
                if by == Some(owner.as_str()) {
                    let about = format!("removing an element of {owner} ({TABLE})");
                    transaction.delete_element(TABLE, set.name, &element, about);
                }
            }
        }
        if settled(transaction.commit(socket), |failure| failure.errno == Errno::NOENT)? {
            return Ok(());
        }
    }
    Err(Error::try_again(format!("the elements of {owner} in {TABLE} keep changing")))
}

/// Removes what the containers of a bridge shared.
pub(crate) fn forget_bridge(socket: &mut Socket, bridge: &IfName) -> Result<()> {
    let segment = number_of(bridge).to_ne_bytes();
    let mut transaction = Transaction::new();
    for set in HELD {
        for element in nft::elements(socket, TABLE, set.name)? {
            let fields = element.key.fields(set.key).unwrap_or_default();
            if element.comment.is_none() && fields.first().is_some_and(|its| **its == segment) {
                let about = format!("removing a gateway of {bridge} ({TABLE})");
                transaction.delete_element(TABLE, set.name, &element, about);
            }
        }
    }
    subnets::forget(socket, &mut transaction, bridge)?;
    transaction.commit(socket)?.except(Errno::NOENT).into_result()
}

/// Makes the chains what they should be, where there is the table. Whether they were not.
pub(crate) fn mend(socket: &mut Socket) -> Result<bool> {
    // Most hosts have no such checks.
    let is_there = nft::tables(socket, TABLE.family)?.iter().any(|(name, _)| name == TABLE.name);
    if is_there { ruleset().mend(socket) } else { Ok(false) }
}

/// Removes the table, if it has no owned elements, no port that is shut, and no process adds one meanwhile.
pub(crate) fn unload_unowned(socket: &mut Socket) -> Result<()> {
    unload_while(socket, TABLE, |socket| {
        Ok(owners(socket)?.is_empty() && shut::ports(socket)?.is_empty())
    })
}

fn ruleset() -> Ruleset {
    let base =
        |hook| Some(Base { kind: ChainKind::Filter, hook, priority: -300, policy: Policy::Accept });
    let own = [(STAMP, None), (CHAIN, base(Hook::Prerouting)), (OUTWARDS, base(Hook::Forward))];
    Ruleset {
        table: TABLE,
        stamp: STAMP,
        sets: OWNED.into_iter().chain(STRANGERS).chain(SUBNETS).chain(SOUGHT).collect(),
        chains: own.into_iter().chain(rules::CHAINS).collect(),
        rules: rules::rules(),
    }
}
