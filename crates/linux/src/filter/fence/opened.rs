//! What answers for allowed names have opened, and what of it ends when rules change.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use model::{DomainName, Fence, IfName, IpNet, Kind, Protocol, Result};
use netlink::conntrack::{self, Outgoing};
use netlink::nft::{self, Comment, Element, Expiring, Transaction, Tuple};
use netlink::{Errno, Socket};

use super::calm::{self, calmly};
use super::learning;
use super::own::{Own, own_sources};
use super::sets::{OPENINGS, RECENT, TABLE, of};
use super::{Fenced, NAMES_PORT};
use crate::filter::name_of;
use crate::filter::ruleset::{is_raced, settled};

/// How long it is known what a name led to.
const KNOWN: Duration = Duration::from_secs(24 * 3600);
/// Others may change the ruleset between the read and the write.
const ATTEMPTS: usize = 8;
/// So many elements are changed at once.
const AT_ONCE: usize = 256;

/// A way for one container to one port of an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Opening {
    /// The bridge of the container's network: others may have its address behind another one.
    pub bridge: IfName,
    /// The container's address.
    pub source: IpAddr,
    /// Where to.
    pub destination: IpAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
}

/// Length of the name of an interface in a key, in bytes (`IFNAMSIZ`).
pub(super) const NAME: usize = 16;

impl Opening {
    fn key(&self) -> Tuple {
        let from = Tuple::new().interface(&self.bridge).address(self.source);
        from.address(self.destination).protocol(self.protocol.number()).service(self.port)
    }

    pub(super) fn read(key: &Tuple) -> Option<Self> {
        let (name, rest) = key.bytes().split_at_checked(NAME)?;
        let width = if rest.len() == 16 { 4 } else { 16 };
        let address = |at: usize| {
            let part = rest.get(at..at + width)?;
            match width {
                4 => Some(IpAddr::from(<[u8; 4]>::try_from(part).ok()?)),
                _ => Some(IpAddr::from(<[u8; 16]>::try_from(part).ok()?)),
            }
        };
        let service = rest.get(2 * width..)?;
        Some(Self {
            bridge: name_of(name)?,
            source: address(0)?,
            destination: address(width)?,
            protocol: protocol(*service.first()?)?,
            port: u16::from_be_bytes(service.get(4..6)?.try_into().ok()?),
        })
    }

    fn of_flow(flow: &Outgoing, bridge: &IfName) -> Option<Self> {
        Some(Self {
            bridge: bridge.clone(),
            source: flow.source,
            destination: flow.destination,
            protocol: protocol(flow.protocol)?,
            port: flow.port,
        })
    }
}

/// The bridge with which a key begins.
pub(in crate::filter) fn bridge(key: &Tuple) -> Option<IfName> {
    name_of(key.bytes().get(..NAME)?)
}

/// The interface and the address of a key that has only these.
pub(in crate::filter) fn bridge_and_address(key: &Tuple) -> Option<(IfName, IpAddr)> {
    of_bytes(key.bytes())
}

/// The same of the beginning of a longer key.
pub(super) fn of_bytes(bytes: &[u8]) -> Option<(IfName, IpAddr)> {
    let (name, rest) = bytes.split_at_checked(NAME)?;
    let name = name_of(name)?;
    let v4 = <[u8; 4]>::try_from(rest).map(IpAddr::from);
    Some((name, v4.or_else(|_| <[u8; 16]>::try_from(rest).map(IpAddr::from)).ok()?))
}

fn protocol(number: u8) -> Option<Protocol> {
    let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    all.into_iter().find(|it| it.number() == number)
}

/// Opens these for so long, because `names` led there, and forgets `gone`, open or not: all of it, or nothing.
/// `false` where the ruleset is no longer what it was at this generation ([`nft::generation`]): whatever the caller
/// has checked since may hold no more. The same after it has waited for a change of rules that the openings
/// before this one kept from being made.
///
/// # Errors
/// Where the table is not there, or has no room.
pub fn open(
    socket: &mut Socket,
    generation: u32,
    (all, limit): (&[(Opening, Vec<DomainName>)], Duration),
    gone: &[Opening],
) -> Result<bool> {
    let all = all.iter().map(|(opening, names)| (opening, names.as_slice(), limit));
    put(socket, generation, all, gone)
}

/// Opens these, each for a time of its own: all of them, or none. `false` as [`open`].
///
/// # Errors
/// As [`open`].
pub fn open_each(
    socket: &mut Socket,
    generation: u32,
    all: &[(Opening, Vec<DomainName>, Duration)],
) -> Result<bool> {
    let all = all.iter().map(|(opening, names, limit)| (opening, names.as_slice(), *limit));
    put(socket, generation, all, &[])
}

fn put<'a>(
    socket: &mut Socket,
    generation: u32,
    all: impl Iterator<Item = (&'a Opening, &'a [DomainName], Duration)>,
    gone: &[Opening],
) -> Result<bool> {
    if calm::wait(socket)? {
        return Ok(false);
    }
    let mut transaction = Transaction::of_generation(generation);
    for opening in gone {
        for set in [of(&OPENINGS, opening.source), of(&RECENT, opening.source)] {
            let about = format!("forgetting what a name opened ({TABLE})");
            learning::put_for(&mut transaction, (set, opening.key()), Duration::ZERO, about);
        }
    }
    for (opening, names, limit) in all {
        let comment = Some(comment(names)?);
        let element = Element { comment, ..Element::of(opening.key()) };
        let about = format!("opening {} for {} ({TABLE})", opening.destination, opening.source);
        let sets = [(of(&OPENINGS, opening.source), limit), (of(&RECENT, opening.source), KNOWN)];
        for (set, limit) in sets {
            transaction.put_expiring((TABLE, set), &element, limit, &about);
        }
    }
    settled(transaction.commit(socket), |failure| failure.errno == Errno::RESTART)
}

/// Where a container sends to: its address, the other one, the protocol and the port.
pub type Sent = (IpAddr, IpAddr, Protocol, u16);

/// Where flows lead that go on.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn flows(socket: &mut Socket) -> Result<HashSet<Sent>> {
    let all = conntrack::list(socket, |flow| {
        Some((flow.source, flow.destination, protocol(flow.protocol)?, flow.port))
    })?;
    Ok(all.into_iter().collect())
}

/// Whether all of these are open, and the kernel has noted of each that this name led there.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn is_open(socket: &mut Socket, all: &[&Opening], name: &DomainName) -> Result<bool> {
    let elements: Vec<Element> = all.iter().map(|opening| Element::of(opening.key())).collect();
    let sets = all.iter().map(|opening| of(&OPENINGS, opening.source));
    let keys: Vec<(&str, &Element)> = sets.zip(&elements).collect();
    let found = nft::find(socket, TABLE, &keys)?;
    let is_there = |(_, element): &&(usize, Element)| names(element).contains(name);
    Ok(found.iter().filter(is_there).count() == all.len())
}

/// As many of the names as fit, the latest first. Where nft(8) takes none that long it does not show them. One of
/// 253 bytes, which the kernel does not take either, stands for none.
fn comment(names: &[DomainName]) -> Result<Comment> {
    let latest = names.first().map_or(0, |name| name.as_str().len());
    let longest =
        if latest > Comment::LONGEST { Comment::LONGEST_UNSEEN } else { Comment::LONGEST };
    let mut text = String::new();
    for name in names {
        let separator = if text.is_empty() { "" } else { " " };
        if text.len() + separator.len() + name.as_str().len() <= longest {
            text = format!("{text}{separator}{name}");
        }
    }
    if text.is_empty() { "-".parse() } else { Comment::unseen(&text) }
}

fn names(element: &Element) -> Vec<DomainName> {
    let text = element.comment.as_ref().map_or("", Comment::as_str);
    text.split(' ').filter_map(|name| name.parse().ok()).collect()
}

/// What is open, with how long it stays, and what was within a day. What another program added for ever is
/// not among it.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn opened(socket: &mut Socket) -> Result<HashMap<Opening, (Vec<DomainName>, Duration)>> {
    let mut all = HashMap::new();
    for (set, is_open) in sets() {
        for Expiring { element, remaining } in nft::expiring(socket, TABLE, set)? {
            let Some(opening) = Opening::read(&element.key) else { continue };
            let Some(remaining) = remaining else { continue };
            let remaining = if is_open { remaining } else { Duration::ZERO };
            all.insert(opening, (names(&element), remaining));
        }
    }
    Ok(all)
}

/// The same for a change of rules, which has to know.
pub(super) fn opened_calmly(
    socket: &mut Socket,
) -> Result<HashMap<Opening, (Vec<DomainName>, Duration)>> {
    calmly(socket, opened)
}

/// The sets of recent openings and of those that are open, and whether they are.
pub(super) fn sets() -> impl Iterator<Item = (&'static str, bool)> {
    let pairs = [RECENT, OPENINGS].into_iter().zip([false, true]);
    pairs.flat_map(|(pair, is_open)| pair.map(|set| (set.name, is_open)))
}

/// Closes what names opened that the network's rules allow no more, and ends flows that nothing allows.
/// Containers with rules of their own are left alone.
///
/// # Errors
/// Where the kernel cannot be asked, or the process may not change it.
pub fn prune(socket: &mut Socket, fenced: &Fenced) -> Result<()> {
    let own = calmly(socket, own_sources)?;
    close(socket, &fenced.bridge, &|opening, names| {
        opening.bridge == fenced.bridge
            && !own.contains(&(opening.bridge.clone(), opening.source))
            && !fenced.allows_by_name(opening, names)
    })?;
    let remaining: HashSet<Opening> = opened_calmly(socket)?.into_keys().collect();
    end_flows(socket, fenced, &|opening| remaining.contains(opening))
}

/// [`prune`] and its like (`prune`), and no packet passes any more that they end when this returns. One that was judged
/// by the former rules may still be on its way when the present ones hold: what it begins is tracked behind the look at
/// what is tracked, and goes on. One of a flow that was ended passes, too, which it still belongs to.
///
/// # Errors
/// As `prune`.
pub fn end_packets(
    socket: &mut Socket,
    prune: impl FnOnce(&mut Socket) -> Result<()>,
) -> Result<()> {
    conntrack::let_pass();
    prune(socket)?;
    conntrack::let_pass();
    Ok(())
}

/// Closes what a name opened and is unwanted.
pub(super) fn close(
    socket: &mut Socket,
    bridge: &IfName,
    is_unwanted: &dyn Fn(&Opening, &[DomainName]) -> bool,
) -> Result<()> {
    remove(socket, bridge, &|opening, element| is_unwanted(opening, &names(element)))
}

/// Ends the flows from a network's containers to elsewhere that neither its rules nor `is_opened` allow.
/// Containers with rules of their own are left alone.
///
/// # Errors
/// As [`prune`].
pub fn end_flows(
    socket: &mut Socket,
    fenced: &Fenced,
    is_opened: &dyn Fn(&Opening) -> bool,
) -> Result<()> {
    let own = calmly(socket, own_sources)?;
    let ends = Ends { bridge: &fenced.bridge, gateways: &fenced.gateways, fence: &fenced.fence };
    let is_judged =
        |source| fenced.contains(source) && !own.contains(&(fenced.bridge.clone(), source));
    end(socket, &ends, &is_judged, is_opened)
}

/// By what it is judged whether a flow goes on.
pub(super) struct Ends<'a> {
    pub(super) bridge: &'a IfName,
    pub(super) gateways: &'a [IpNet],
    pub(super) fence: &'a Fence,
}

/// Ends those of the judged containers that lead elsewhere, and that neither rules nor `is_opened` allow.
pub(super) fn end(
    socket: &mut Socket,
    ends: &Ends<'_>,
    is_judged: &dyn Fn(IpAddr) -> bool,
    is_opened: &dyn Fn(&Opening) -> bool,
) -> Result<()> {
    let is_ended = |flow: &Outgoing| {
        if !is_judged(flow.source) {
            return false;
        }
        let is_gateway = ends.gateways.iter().any(|net| net.addr() == flow.destination);
        let is_within = ends.gateways.iter().any(|net| net.contains(&flow.destination));
        if is_within && !is_gateway || is_gateway && flow.port == NAMES_PORT {
            return false;
        }
        Opening::of_flow(flow, ends.bridge).is_none_or(|opening| {
            let by_rule = ends.fence.allows(opening.destination, opening.protocol, opening.port);
            !by_rule && !is_opened(&opening)
        })
    };
    conntrack::end(socket, is_ended).map(drop)
}

/// Notes again that flows which go on were opened by a name: what is known is forgotten after a day.
///
/// # Errors
/// As [`prune`].
pub fn keep_known(socket: &mut Socket, fenced: &[Fenced], own: &[Own]) -> Result<()> {
    let known = opened_calmly(socket)?;
    let again: RefCell<HashMap<Opening, Vec<DomainName>>> = RefCell::default();
    conntrack::end(socket, |flow| {
        let of = fenced.iter().filter(|fenced| fenced.contains(flow.source));
        let own = own.iter().filter(|own| own.sources.contains(&flow.source));
        let bridges = of.map(|fenced| &fenced.bridge).chain(own.map(|own| &own.bridge));
        for opening in bridges.filter_map(|bridge| Opening::of_flow(flow, bridge)) {
            if let Some((names, _)) = known.get(&opening) {
                again.borrow_mut().insert(opening, names.clone());
            }
        }
        false
    })?;
    let again: Vec<_> = again.into_inner().into_iter().collect();
    for some in again.chunks(AT_ONCE) {
        match calmly(socket, |socket| note(socket, some)) {
            // It is done the next time.
            Err(error) if error.kind() == Kind::TryAgain => {}
            noted => noted?,
        }
    }
    Ok(())
}

/// Notes these, but not what is removed meanwhile: that must not come back.
fn note(socket: &mut Socket, some: &[(Opening, Vec<DomainName>)]) -> Result<()> {
    let generation = nft::generation(socket)?;
    let still = opened(socket)?;
    let mut transaction = Transaction::of_generation(generation);
    for (opening, names) in some.iter().filter(|(opening, _)| still.contains_key(opening)) {
        let comment = Some(comment(names)?);
        let element = Element { comment, ..Element::of(opening.key()) };
        let set = of(&RECENT, opening.source);
        let about = format!("noting a flow that goes on ({TABLE})");
        transaction.put_expiring((TABLE, set), &element, KNOWN, &about);
    }
    match settled(transaction.commit(socket), |failure| failure.errno == Errno::RESTART)? {
        true => Ok(()),
        false => Err(model::Error::try_again(format!("the elements of {TABLE} keep changing"))),
    }
}

/// Closes everything that is open for these addresses behind the bridge, whose container ends, and ends its
/// flows: another container may get the address.
///
/// # Errors
/// As [`prune`].
pub fn forget_source(socket: &mut Socket, bridge: &IfName, addresses: &[IpAddr]) -> Result<()> {
    remove(socket, bridge, &|opening, _| {
        opening.bridge == *bridge && addresses.contains(&opening.source)
    })?;
    conntrack::selected::end_sent_by(socket, addresses)
}

/// Removes what is unwanted. It always changes the ruleset: who has checked before that something may be
/// opened, and opens it now, learns that it has to check again ([`open`]).
fn remove(
    socket: &mut Socket,
    bridge: &IfName,
    unwanted: &dyn Fn(&Opening, &Element) -> bool,
) -> Result<()> {
    calmly(socket, |socket| try_to_remove(socket, bridge, unwanted))
}

fn try_to_remove(
    socket: &mut Socket,
    bridge: &IfName,
    unwanted: &dyn Fn(&Opening, &Element) -> bool,
) -> Result<()> {
    let nothing = IpAddr::from([0; 4]);
    let mark = Opening {
        bridge: bridge.clone(),
        source: nothing,
        destination: nothing,
        protocol: Protocol::Tcp,
        port: 0,
    };
    for _ in 0..ATTEMPTS {
        let mut transaction = Transaction::of_generation(nft::generation(socket)?);
        let about = || format!("closing what a name opened ({TABLE})");
        let element = (of(&OPENINGS, nothing), mark.key());
        learning::put_for(&mut transaction, element, Duration::ZERO, about());
        let others = transaction.next_index();
        for (set, _) in sets() {
            for there in nft::expiring(socket, TABLE, set)? {
                let element = &there.element;
                let is_unwanted = |it: Opening| unwanted(&it, element);
                if !calm::is_request(&there) && Opening::read(&element.key).is_none_or(is_unwanted)
                {
                    transaction.delete_element(TABLE, set, element, about());
                }
            }
        }
        let is_gone = Cell::new(false);
        let done = settled(transaction.commit(socket), |failure| {
            // Without the table nothing is open; another element may have expired since it was listed.
            is_gone.set(failure.errno == Errno::NOENT && failure.index < others);
            is_raced(failure)
        })?;
        if done || is_gone.get() {
            return Ok(());
        }
    }
    Err(model::Error::try_again(format!("the elements of {TABLE} keep changing")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openings_are_read_again() {
        for (source, destination) in [("10.0.0.2", "1.1.1.1"), ("fd00::2", "2606:4700::1")] {
            let opening = Opening {
                bridge: "a-bridge-of-ours".get(..15).unwrap().parse().unwrap(),
                source: source.parse().unwrap(),
                destination: destination.parse().unwrap(),
                protocol: Protocol::Udp,
                port: 443,
            };
            assert_eq!(Opening::read(&opening.key()), Some(opening));
        }
    }

    #[test]
    fn a_comment_has_the_names_that_fit() {
        let name = |text: &str| text.parse::<DomainName>().unwrap();
        let long = name(&["a".repeat(60), "b".repeat(60), "c".repeat(60)].join("."));
        let all = [name("a.example"), long.clone(), name("b.example")];
        assert_eq!(comment(&all).unwrap().as_str(), "a.example b.example");
        let last_first = [long.clone(), name("b.example")];
        assert_eq!(comment(&last_first).unwrap().as_str(), format!("{long} b.example"));
        let longest = name(&format!(
            "{}.{}",
            ["a".repeat(63), "b".repeat(63), "c".repeat(63)].join("."),
            "d".repeat(60)
        ));
        assert_eq!(longest.as_str().len(), 252);
        assert_eq!(comment(std::slice::from_ref(&longest)).unwrap().as_str(), longest.as_str());
    }
}
