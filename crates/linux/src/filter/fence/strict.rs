//! Strict networks: of what comes in by their bridge nothing is routed without a mark, which the fence's table
//! gives. It is a rule of routing, which a flush of the packet filter leaves there, and which no container can
//! remove. A container with strict rules of its own makes its network's bridge such a one: with its port's check it
//! would lose what keeps it from sending in the name of a neighbour, and so the rule is for all of them. Those of a
//! strict network send in no other name either.
//!
//! The element that lets packets be marked comes with the first rule of routing. Once that is there it comes back
//! only by [`complete`]: who attaches one container after a flush does not know what all others may.

use model::{Attachment, Error, Family, IfName, Result};
use netlink::nft::{self, Element, Transaction, Tuple};
use netlink::wire::Batch;
use netlink::{At, Errno, Socket, Unmarked};

use super::sets::{STRICT, TABLE};
use super::{ATTEMPTS, Fenced, Own, calmly};
use crate::filter::ruleset::{is_raced, settled};
use crate::filter::spoof::{self, Sender, sender};
use crate::sources::{self, StrictBy};

/// The port of a container that has rules, or whose network has: by it the container sends from its own addresses
/// only, for which these rules hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundPort(Sender);

impl BoundPort {
    /// That of an attachment; `None` where nothing says where it may go.
    ///
    /// # Errors
    /// Where the kernel cannot be asked for its gateway.
    pub fn of(attachment: &Attachment) -> Result<Option<Self>> {
        match attachment.fence() {
            Some(_) => Ok(sender(attachment)?.filter(Sender::is_bound).map(Self)),
            None => Ok(None),
        }
    }

    /// The bridge that it is a port of.
    pub fn bridge(&self) -> &IfName {
        &self.0.bridge
    }

    /// Whether this host has the port.
    ///
    /// # Errors
    /// Where the kernel cannot be asked.
    pub fn is_there(&self) -> Result<bool> {
        Ok(Socket::route()?.link(At::Name(&self.0.port))?.is_some())
    }
}

/// Has these ports checked again, one after the other. Returns the bridges with ports that could not be, each with
/// the reason: behind these a container may send in a neighbour's name.
pub(super) fn bind(socket: &mut Socket, ports: &[BoundPort]) -> Vec<(IfName, Error)> {
    let mut unbound = Vec::new();
    for BoundPort(sender) in ports {
        if let Err(error) = calmly(socket, |socket| spoof::restore(socket, sender)) {
            unbound.push((sender.bridge.clone(), error));
        }
    }
    unbound
}

/// Behind the rule of this host's own addresses, which is the first, and before all others.
const PRIORITY: u32 = 1;

/// Of the families that this host has: it may be booted without IPv6.
fn rules(bridge: &IfName) -> impl Iterator<Item = Unmarked> {
    let there = |family: &Family| netlink::probe::has_family(*family);
    let rule = |family| Unmarked { family, input: bridge.clone(), priority: PRIORITY };
    [Family::V4, Family::V6].into_iter().filter(there).map(rule)
}

fn there(socket: &mut Socket) -> Result<Vec<Unmarked>> {
    let mut all = socket.unmarked(Family::V4)?;
    all.extend(socket.unmarked(Family::V6)?);
    Ok(all)
}

/// The element that lets packets of a bridge be marked.
pub(super) fn element(bridge: &IfName) -> Element {
    Element::of(Tuple::new().interface(bridge))
}

/// Whether a bridge has its rules of routing among these.
fn has_all(there: &[Unmarked], bridge: &IfName) -> bool {
    rules(bridge).all(|rule| there.contains(&rule))
}

/// The bridges that have rules of routing, whatever their networks and containers are now.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn strict_bridges() -> Result<Vec<IfName>> {
    let there = there(&mut Socket::route()?)?;
    let mut all: Vec<IfName> =
        there.into_iter().filter(|it| it.priority == PRIORITY).map(|it| it.input).collect();
    all.sort();
    all.dedup();
    Ok(all)
}

/// Whether a bridge has rules of routing.
pub(super) fn is_ruled(bridge: &IfName) -> Result<bool> {
    Ok(strict_bridges()?.contains(bridge))
}

/// Whether those of these networks that are strict have their rules. Another one may have a container that is.
///
/// # Errors
/// Where the kernel cannot be asked.
pub(super) fn is_kept(all: &[Fenced]) -> Result<bool> {
    if !all.iter().any(|it| it.fence.strict) {
        return Ok(true);
    }
    let there = there(&mut Socket::route()?)?;
    Ok(all.iter().filter(|it| it.fence.strict).all(|it| has_all(&there, &it.bridge)))
}

/// Makes the rules of a bridge. It comes after the table: what is marked is routed.
///
/// # Errors
/// Where the process may not change rules.
pub(super) fn keep(bridge: &IfName) -> Result<()> {
    change(bridge, true)
}

/// Removes the rules of a bridge. It comes before the table: what is not marked any more is routed.
///
/// # Errors
/// As [`keep`].
pub(super) fn forget(bridge: &IfName) -> Result<()> {
    change(bridge, false)
}

/// Whether the table lets packets of the bridge be marked.
pub(super) fn is_marked(socket: &mut Socket, bridge: &IfName) -> Result<bool> {
    Ok(!nft::find(socket, TABLE, &[(STRICT.name, &element(bridge))])?.is_empty())
}

/// Whether each of these bridges has all that a strict one needs.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn is_complete(socket: &mut Socket, bridges: &[IfName]) -> Result<bool> {
    if bridges.is_empty() {
        return Ok(true);
    }
    let there = there(&mut Socket::route()?)?;
    for bridge in bridges {
        if !has_all(&there, bridge) || !is_marked(socket, bridge)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lets what the fence lets pass be routed out of a strict network again. It comes after the rules of all its
/// containers, and has their `ports` checked. While one is not nothing is routed, because its container could send in
/// the name of a neighbour, nor while the rules are not all there (`is_kept`); `false` then.
///
/// # Errors
/// Where the process may not change it.
pub fn complete(
    socket: &mut Socket,
    (bridge, ports): (&IfName, &[BoundPort]),
    is_kept: impl Fn(&mut Socket) -> Result<bool>,
) -> Result<bool> {
    let senders = ports.iter().map(|port| &port.0).filter(|it| it.bridge == *bridge);
    let senders: Vec<&Sender> = senders.collect();
    let is_done = calmly(socket, |socket| mark(socket, (bridge, &senders), &is_kept))?;
    if is_done { keep(bridge).map(|()| true) } else { Ok(false) }
}

/// Another flush may come at any time, and others make a part of the table again: the element is added to the
/// ruleset that was looked at, or not at all.
fn mark(
    socket: &mut Socket,
    (bridge, senders): (&IfName, &[&Sender]),
    is_kept: &impl Fn(&mut Socket) -> Result<bool>,
) -> Result<bool> {
    for _ in 0..ATTEMPTS {
        for sender in senders {
            spoof::restore(socket, sender)?;
        }
        be_first(socket)?;
        let generation = nft::generation(socket)?;
        if !is_first(socket)? {
            continue;
        }
        if !spoof::are_bound(socket, senders)? || !is_kept(socket)? {
            return Ok(false);
        }
        let mut transaction = Transaction::of_generation(generation);
        let about = format!("letting strict bridge {bridge} be routed ({TABLE})");
        transaction.ensure_element(TABLE, STRICT.name, &element(bridge), about);
        if settled(transaction.commit(socket), is_raced)? {
            return Ok(true);
        }
    }
    Err(Error::try_again(format!("{TABLE} keeps being changed by others")))
}

/// Whether the table goes before the one that checks what ports send. A flush of the packet filter removes tables one
/// after the other, in the order in which they were made, and the chains of one so, too. What is marked until a moment
/// after its port's check was removed would leave in the name of a neighbour.
pub(super) fn is_first(socket: &mut Socket) -> Result<bool> {
    let frames = nft::table_handle(socket, spoof::TABLE)?;
    let marking = nft::table_handle(socket, TABLE)?;
    Ok(marking.zip(frames).is_none_or(|(marking, frames)| marking < frames))
}

/// Makes it so: the other one is made anew, with all that is in it.
pub(super) fn be_first(socket: &mut Socket) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let generation = nft::generation(socket)?;
        if is_first(socket)? || spoof::make_last(socket, generation)? {
            return Ok(());
        }
    }
    Err(Error::try_again(format!("{} keeps being changed by others", spoof::TABLE)))
}

/// Whether the container sends from its own addresses only.
pub(super) fn has_bound_port(socket: &mut Socket, own: &Own) -> Result<bool> {
    match &own.sender {
        Some(sender) => spoof::are_bound(socket, &[sender]),
        None => Ok(false),
    }
}

/// Ends the strictness of bridges that had it (`there`), of which neither a network nor a container asks for it. What
/// fails for one keeps no other.
///
/// # Errors
/// Where the rules of routing or of the packet filter cannot be changed: the first.
pub fn relax(socket: &mut Socket, there: &[IfName], wanted: &[IfName]) -> Result<()> {
    let others = there.iter().filter(|bridge| !wanted.contains(bridge));
    others.map(|bridge| relax_one(socket, bridge)).fold(Ok(()), Result::and)
}

fn relax_one(socket: &mut Socket, bridge: &IfName) -> Result<()> {
    forget(bridge)?;
    if is_marked(socket, bridge)? {
        let mut transaction = Transaction::new();
        let about = format!("ending the strictness of bridge {bridge} ({TABLE})");
        transaction.delete_element(TABLE, STRICT.name, &element(bridge), about);
        transaction.commit(socket)?.except(Errno::NOENT).into_result()?;
    }
    Ok(())
}

fn change(bridge: &IfName, is_strict: bool) -> Result<()> {
    let mut socket = Socket::route()?;
    let there = there(&mut socket)?;
    let mut batch = Batch::new();
    for rule in rules(bridge) {
        match (is_strict, there.contains(&rule)) {
            (true, false) => drop(batch.drop_unmarked(&rule)),
            (false, true) => drop(batch.route_unmarked(&rule)),
            (true, true) | (false, false) => {}
        }
    }
    if batch.count() > 0 {
        let outcome = socket.send(&mut batch)?;
        outcome.except(Errno::EXIST).except(Errno::NOENT).into_result()?;
    }
    sources::settle(bridge, StrictBy::Unknown)
}

#[cfg(test)]
impl From<Sender> for BoundPort {
    fn from(sender: Sender) -> Self {
        Self(sender)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::rules::ruleset;
    use super::*;
    use crate::filter::spoof::{Bound, Sender};
    use crate::filter::tests::space::Space;

    pub(in super::super) fn sender() -> Sender {
        Sender {
            owner: "attachment-a".parse().unwrap(),
            port: "port0".parse().unwrap(),
            bridge: "br0".parse().unwrap(),
            mac: "02:00:00:00:00:02".parse().unwrap(),
            addresses: vec!["10.1.2.7".parse().unwrap(), "fd00::7".parse().unwrap()],
            of_link: vec!["169.254.7.1".parse().unwrap()],
            gateways: vec!["10.1.2.1".parse().unwrap()],
            subnets: vec!["10.1.2.0/24".parse().unwrap(), "fd00::/64".parse().unwrap()],
            bound: Bound::ToOwn,
            is_checked: true,
            is_apart: false,
            is_machine: false,
        }
    }

    /// A flush removes them in this order.
    #[test]
    fn what_marks_is_older_than_what_checks_ports() {
        const LISTS: &str =
            "nft list map bridge spoke segment_of; nft list set bridge spoke sources4;
            nft list set bridge spoke sources6; nft list set bridge spoke checked";
        let (space, sender) = (Space::new(), sender());
        let mut socket = space.netns.enter(Socket::netfilter).unwrap().unwrap();
        spoof::install(&mut socket, &sender).unwrap();
        ruleset().ensure(&mut socket).unwrap();
        let before = space.run(LISTS);
        be_first(&mut socket).unwrap();
        let tables = space.run("nft list tables");
        assert!(tables.find("inet spoke_fence") < tables.find("bridge spoke"), "{tables}");
        assert_eq!(space.run(LISTS), before);
        assert!(spoof::are_bound(&mut socket, &[&sender]).unwrap());
        let generation = nft::generation(&mut socket).unwrap();
        be_first(&mut socket).unwrap();
        assert_eq!(nft::generation(&mut socket).unwrap(), generation);
    }

    /// By an address of the link a container reaches its neighbours, where the rules are its network's.
    #[test]
    fn rules_of_its_own_take_a_containers_addresses_of_the_link() {
        let (space, own) = (Space::new(), sender());
        let mut socket = space.netns.enter(Socket::netfilter).unwrap().unwrap();
        let of_network = Sender { bound: Bound::ToOwnAndLink, ..own.clone() };
        spoof::install(&mut socket, &of_network).unwrap();
        let sources = || space.run("nft list set bridge spoke sources4");
        assert!(sources().contains("\"port0\" . 169.254.7.1"), "{}", sources());
        spoof::install(&mut socket, &own).unwrap();
        spoof::unlink(&mut socket, &own).unwrap();
        assert!(!sources().contains("169.254.7.1"), "{}", sources());
        assert!(sources().contains("\"port0\" . 10.1.2.7"), "{}", sources());
    }

    #[test]
    fn ports_are_checked_again_after_a_flush() {
        let (space, sender) = (Space::new(), sender());
        let mut socket = space.netns.enter(Socket::netfilter).unwrap().unwrap();
        spoof::install(&mut socket, &sender).unwrap();
        space.run("nft flush ruleset");
        assert!(!spoof::are_bound(&mut socket, &[&sender]).unwrap());
        let port = BoundPort(sender.clone());
        assert!(bind(&mut socket, std::slice::from_ref(&port)).is_empty());
        assert!(spoof::are_bound(&mut socket, &[&sender]).unwrap());
        let is_there = || space.netns.enter(|| port.is_there()).unwrap().unwrap();
        assert!(!is_there());
        space.run("ip link add port0 type veth peer peer0");
        assert!(is_there());
    }

    #[test]
    fn the_chain_that_marks_goes_first_and_the_one_that_judges_last() {
        let bases = ruleset().chains.into_iter().filter(|(_, base)| base.is_some());
        let bases: Vec<&str> = bases.map(|(name, _)| name).collect();
        assert_eq!((bases.first(), bases.last()), (Some(&"marking"), Some(&"forward")));
    }
}
