//! Ports of bridges whose containers may send from their own hardware address only, and take nobody's
//! IPv4 address: a table of its own, because only the family of bridges sees frames. A container is
//! one element of the first sets, and one for each address of the others.
//!
//! `spoof.nft` is what is to be read.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use model::{Error, IfName, Mac, Result};
use netlink::nft::{
    self, Base, ChainKind, Comment, Element, Expression, Family, Field, Hook, Meta, Policy,
    Register, Set, Table, Transaction, Tuple, Verdict,
};
use netlink::{Errno, Socket};

use super::owner::Owner;
use super::rules::{DROP, NAME_WORDS, R, Steps};
use super::ruleset::{Ruleset, set, settled};

/// The table.
pub(crate) const TABLE: Table<'static> = Table { family: Family::Bridge, name: "spoke" };
/// The version, as in `inet spoke`.
const STAMP: &str = "spoof_2";
const CHAIN: &str = "prerouting";
const CHECK: &str = "check";
const CHECKED: Set<'static> = set("checked", &[Field::Interface]);
const SENDERS: Set<'static> = set("senders", &[Field::Interface, Field::Ethernet]);
const HOLDERS: Set<'static> = set("holders", &[Field::Interface, Field::Ipv4]);
const HELD: Set<'static> = set("held", &[Field::Ipv4]);
/// Those whose elements have owners.
const OWNED: [Set<'static>; 4] = [CHECKED, SENDERS, HOLDERS, HELD];
const ATTEMPTS: usize = 16;

/// A container's port, and from which addresses it may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) owner: Owner,
    pub(crate) port: IfName,
    pub(crate) mac: Mac,
    /// The container's addresses.
    pub(crate) addresses: Vec<Ipv4Addr>,
    /// The host's addresses there.
    pub(crate) gateways: Vec<Ipv4Addr>,
}

impl Sender {
    /// What is the container's.
    fn elements(&self) -> Result<Vec<(&'static str, Element)>> {
        let port = Tuple::new().interface(&self.port);
        let comment: Comment = self.owner.as_str().parse()?;
        let element = |key| Element { key, data: None, comment: Some(comment.clone()) };
        let sender = element(port.clone().mac(self.mac));
        let mut elements = vec![(CHECKED.name, element(port.clone())), (SENDERS.name, sender)];
        for address in &self.addresses {
            let address = IpAddr::V4(*address);
            elements.push((HOLDERS.name, element(port.clone().address(address))));
            elements.push((HELD.name, element(Tuple::new().address(address))));
        }
        Ok(elements)
    }

    /// What is everybody's on the bridge: it stays as long as the table.
    fn shared(&self) -> impl Iterator<Item = (&'static str, Element)> {
        let element = |key| Element { key, data: None, comment: None };
        let gateways = self.gateways.iter().map(|gateway| IpAddr::V4(*gateway));
        gateways.map(move |gateway| (HELD.name, element(Tuple::new().address(gateway))))
    }

    fn about(&self, doing: &str) -> String {
        format!("{doing} the check of what {} sends as {} ({TABLE})", self.port, self.mac)
    }
}

/// Drops what the port sends from another address. What is there is left.
pub(crate) fn install(socket: &mut Socket, sender: &Sender) -> Result<()> {
    let wanted: Vec<_> = sender.elements()?.into_iter().chain(sender.shared()).collect();
    for _ in 0..ATTEMPTS {
        if !nft::chain_exists(socket, TABLE, STAMP)? {
            ruleset().ensure(socket)?;
        }
        let mut transaction = Transaction::new();
        for (set, element) in &wanted {
            transaction.ensure_element(TABLE, set, element, sender.about("adding"));
        }
        // The table is gone again.
        if settled(transaction.commit(socket), |failure| failure.errno == Errno::NOENT)? {
            return Ok(());
        }
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

/// Whether frames are checked as they should be.
pub(crate) fn verify(socket: &mut Socket, sender: &Sender) -> Result<()> {
    ruleset().verify(socket)?;
    match missing(socket, sender)? {
        true => Err(Error::not_found(sender.about("missing:"))),
        false => Ok(()),
    }
}

fn missing(socket: &mut Socket, sender: &Sender) -> Result<bool> {
    let wanted: Vec<_> = sender.elements()?.into_iter().chain(sender.shared()).collect();
    let keys: Vec<_> = wanted.iter().map(|(set, element)| (*set, element)).collect();
    Ok(nft::find(socket, TABLE, &keys)?.len() < wanted.len())
}

/// Forgets a port whose address is known, without a look at the others.
pub(crate) fn remove(socket: &mut Socket, sender: &Sender) -> Result<()> {
    let unwanted = sender.elements()?;
    for _ in 0..ATTEMPTS {
        let keys: Vec<_> = unwanted.iter().map(|(set, element)| (*set, element)).collect();
        let mut transaction = Transaction::new();
        for (index, there) in nft::find(socket, TABLE, &keys)? {
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

/// Everybody who has elements. It reads the whole table.
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
    for _ in 0..ATTEMPTS {
        let mut transaction = Transaction::new();
        for set in OWNED {
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

/// Makes the chains what they should be, where there is the table. Whether they were not.
pub(crate) fn mend(socket: &mut Socket) -> Result<bool> {
    // Most hosts check nobody.
    let is_there = nft::tables(socket, TABLE.family)?.iter().any(|(name, _)| name == TABLE.name);
    if is_there { ruleset().mend(socket) } else { Ok(false) }
}

/// Removes the table, if nobody has anything in it and nobody changes that on the way.
pub(crate) fn unload_unowned(socket: &mut Socket) -> Result<()> {
    let generation = nft::generation(socket)?;
    if !owners(socket)?.is_empty() {
        return Ok(());
    }
    let mut transaction = Transaction::of_generation(generation);
    transaction.delete_table(TABLE);
    let outcome = transaction.commit(socket)?;
    outcome.except(Errno::NOENT).except(Errno::RESTART).into_result()
}

fn ruleset() -> Ruleset {
    let base = Base {
        kind: ChainKind::Filter,
        hook: Hook::Prerouting,
        priority: -300,
        policy: Policy::Accept,
    };
    Ruleset {
        table: TABLE,
        stamp: STAMP,
        sets: OWNED.to_vec(),
        chains: vec![(STAMP, None), (CHAIN, Some(base)), (CHECK, None)],
        rules: vec![
            (CHAIN, checked()),
            (CHECK, frames()),
            (CHECK, news_of_others()),
            (CHECK, news_of_held()),
        ],
    }
}

/// Behind an interface's name.
const BEHIND: Register = R.behind(NAME_WORDS);
/// `ETH_P_ARP`, where the Ethernet header has it.
const ARP: [Expression<'static>; 2] =
    [Expression::EtherType(R), Expression::Equal(R, Cow::Borrowed(&[8, 6]))];
/// Where an ARP packet has its sender (RFC 826): the hardware address, and the IPv4 address.
const SENDER: u32 = 8;
const SENDER_IP: u32 = 14;

fn checked() -> Steps {
    let check = Expression::Verdict(Verdict::Jump(CHECK));
    vec![Expression::Meta(Meta::InputName, R), Expression::In(CHECKED.name, R), check]
}

fn frames() -> Steps {
    let source = Expression::EthernetSource(BEHIND);
    vec![Expression::Meta(Meta::InputName, R), source, NO_SENDER, DROP]
}

fn news_of_others() -> Steps {
    let sender = Expression::Network { offset: SENDER, length: 6, into: BEHIND };
    let port = Expression::Meta(Meta::InputName, R);
    ARP.into_iter().chain([port, sender, NO_SENDER, DROP]).collect()
}

fn news_of_held() -> Steps {
    let address = |into| Expression::Network { offset: SENDER_IP, length: 4, into };
    let held = [address(R), Expression::In(HELD.name, R)];
    let port = Expression::Meta(Meta::InputName, R);
    let no_holder = Expression::NotIn(HOLDERS.name, R);
    ARP.into_iter().chain(held).chain([port, address(BEHIND), no_holder, DROP]).collect()
}

const NO_SENDER: Expression<'static> = Expression::NotIn(SENDERS.name, R);
