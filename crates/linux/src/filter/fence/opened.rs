//! What answers for allowed names have opened, and what of it ends when rules change.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use model::{DomainName, Protocol, Result};
use netlink::conntrack::{self, Outgoing};
use netlink::nft::{self, Comment, Element, Expiring, Transaction, Tuple};
use netlink::{Errno, Socket};

use super::sets::{OPEN, OPENED, TABLE, of};
use super::{Fenced, NAMES_PORT};
use crate::filter::ruleset::settled;

/// How long it is known what a name led to.
const KNOWN: Duration = Duration::from_secs(24 * 3600);
const ATTEMPTS: usize = 16;

/// A way for one container to one port of an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Opening {
    /// The container's address.
    pub source: IpAddr,
    /// Where to.
    pub destination: IpAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
}

impl Opening {
    fn key(&self) -> Tuple {
        let addresses = Tuple::new().address(self.source).address(self.destination);
        addresses.protocol(self.protocol.number()).service(self.port)
    }

    fn read(key: &Tuple) -> Option<Self> {
        let bytes = key.bytes();
        let width = if bytes.len() == 16 { 4 } else { 16 };
        let address = |at: usize| {
            let part = bytes.get(at..at + width)?;
            match width {
                4 => Some(IpAddr::from(<[u8; 4]>::try_from(part).ok()?)),
                _ => Some(IpAddr::from(<[u8; 16]>::try_from(part).ok()?)),
            }
        };
        let rest = bytes.get(2 * width..)?;
        let number = *rest.first()?;
        let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
        Some(Self {
            source: address(0)?,
            destination: address(width)?,
            protocol: all.into_iter().find(|it| it.number() == number)?,
            port: u16::from_be_bytes(rest.get(4..6)?.try_into().ok()?),
        })
    }

    fn of_flow(flow: &Outgoing) -> Option<Self> {
        let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
        Some(Self {
            source: flow.source,
            destination: flow.destination,
            protocol: all.into_iter().find(|it| it.number() == flow.protocol)?,
            port: flow.port,
        })
    }
}

/// Opens these for so long, because `names` led there. All of them, or none.
///
/// # Errors
/// Where the table is not there, or has no room.
pub fn open(
    socket: &mut Socket,
    all: &[(Opening, Vec<DomainName>)],
    limit: Duration,
) -> Result<()> {
    let mut transaction = Transaction::new();
    for (opening, names) in all {
        let comment = Some(comment(names)?);
        let element = Element { comment, ..Element::of(opening.key()) };
        let about = format!("opening {} for {} ({TABLE})", opening.destination, opening.source);
        let sets = [(of(&OPEN, opening.source), limit), (of(&OPENED, opening.source), KNOWN)];
        for (set, limit) in sets {
            transaction.put_expiring((TABLE, set), &element, limit, &about);
        }
    }
    transaction.apply(socket)
}

/// As many of the names as fit, the latest first. One that is too long stands for none.
fn comment(names: &[DomainName]) -> Result<Comment> {
    let mut text = String::new();
    for name in names {
        if text.len() + 1 + name.as_str().len() < Comment::LONGEST {
            text = format!("{text}{}{name}", if text.is_empty() { "" } else { " " });
        }
    }
    if text.is_empty() { "-".parse() } else { text.parse() }
}

fn names(element: &Element) -> Vec<DomainName> {
    let text = element.comment.as_ref().map_or("", Comment::as_str);
    text.split(' ').filter_map(|name| name.parse().ok()).collect()
}

/// What is open, with how long it stays, and what was within a day.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn opened(socket: &mut Socket) -> Result<HashMap<Opening, (Vec<DomainName>, Duration)>> {
    let mut all = HashMap::new();
    for (set, is_open) in [OPENED, OPEN]
        .iter()
        .zip([false, true])
        .flat_map(|(pair, is_open)| pair.iter().map(move |set| (set.name, is_open)))
    {
        for Expiring { element, remaining } in nft::expiring(socket, TABLE, set)? {
            let Some(opening) = Opening::read(&element.key) else { continue };
            let remaining = if is_open { remaining } else { Duration::ZERO };
            all.insert(opening, (names(&element), remaining));
        }
    }
    Ok(all)
}

/// Closes what names opened that the network's rules allow no more, and ends flows that nothing allows.
///
/// # Errors
/// Where the kernel cannot be asked, or the process may not change it.
pub fn prune(socket: &mut Socket, fenced: &Fenced) -> Result<()> {
    remove(socket, &|opening, element| {
        fenced.contains(opening.source) && !fenced.allows_by_name(opening, &names(element))
    })?;
    let remaining: HashSet<Opening> = opened(socket)?.into_keys().collect();
    end_flows(socket, fenced, &|opening| remaining.contains(opening))
}

/// Ends the flows from a network's containers to elsewhere that neither its rules nor `is_opened` allow.
///
/// # Errors
/// As [`prune`].
pub fn end_flows(
    socket: &mut Socket,
    fenced: &Fenced,
    is_opened: &dyn Fn(&Opening) -> bool,
) -> Result<()> {
    let is_ended = |flow: &Outgoing| {
        if !fenced.contains(flow.source) {
            return false;
        }
        let is_gateway = fenced.gateways.iter().any(|net| net.addr() == flow.destination);
        if fenced.contains(flow.destination) && !is_gateway {
            return false;
        }
        if is_gateway && flow.port == NAMES_PORT {
            return false;
        }
        Opening::of_flow(flow).is_none_or(|opening| {
            let fence = &fenced.fence;
            let by_rule = fence.allows(opening.destination, opening.protocol, opening.port);
            !by_rule && !is_opened(&opening)
        })
    };
    conntrack::end(socket, is_ended).map(drop)
}

/// Forgets that these were opened. What is gone is no error.
///
/// # Errors
/// Where the process may not change it.
pub fn forget_opened(socket: &mut Socket, all: &[Opening]) -> Result<()> {
    let mut transaction = Transaction::new();
    for opening in all {
        let element = Element::of(opening.key());
        let about = format!("forgetting what a name opened ({TABLE})");
        let set = of(&OPENED, opening.source);
        // It is there for the one that is removed.
        transaction.put_expiring((TABLE, set), &element, Duration::from_secs(1), &about);
        transaction.delete_element(TABLE, set, &element, about);
    }
    transaction.apply(socket)
}

/// Closes everything that is open for these addresses, whose container ends, and ends its flows: another
/// container may get the address.
///
/// # Errors
/// As [`prune`].
pub fn forget_source(socket: &mut Socket, addresses: &[IpAddr]) -> Result<()> {
    remove(socket, &|opening, _| addresses.contains(&opening.source))?;
    conntrack::end(socket, |flow| addresses.contains(&flow.source)).map(drop)
}

fn remove(socket: &mut Socket, unwanted: &dyn Fn(&Opening, &Element) -> bool) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let mut transaction = Transaction::new();
        for set in OPEN.iter().chain(&OPENED) {
            for Expiring { element, .. } in nft::expiring(socket, TABLE, set.name)? {
                if Opening::read(&element.key).is_none_or(|it| unwanted(&it, &element)) {
                    let about = format!("closing what a name opened ({TABLE})");
                    transaction.delete_element(TABLE, set.name, &element, about);
                }
            }
        }
        // It may have expired since it was listed.
        if settled(transaction.commit(socket), |failure| failure.errno == Errno::NOENT)? {
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
        assert_eq!(comment(&[long]).unwrap().as_str(), "-");
    }
}
