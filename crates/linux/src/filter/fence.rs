//! The fence of a network: where the packets of its containers may go. A table of its own, which is there
//! before the first container's interface is, and goes with the last fenced network.
//!
//! `fence.nft` is the readable form. Rules by address are ranges in sets, keyed by the bridge; what answers
//! for allowed names open is elements that expire.

mod opened;
mod rules;
mod sets;

use model::{DomainName, Fence, IfName, IpNet, Ipam, NetworkName, Result, Timestamp, Wiring};
use netlink::nft::{self, Between, Comment, Element, Transaction, Tuple};
use netlink::{Errno, Socket};
use std::net::IpAddr;
use std::time::Duration;

pub use opened::{Opening, end_flows, forget_opened, forget_source, open, opened, prune};
pub use rules::{LOG_GROUP, NAMES_PORT};
pub(crate) use sets::TABLE;
use sets::{FENCED, LEARNING, WITHIN, range_sets};

use super::ruleset::settled;
use crate::identity::digest_of;

/// Others may change the ruleset between the read and the write.
const ATTEMPTS: usize = 16;

/// A network with a fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fenced {
    /// The network.
    pub network: NetworkName,
    /// Its bridge.
    pub bridge: IfName,
    /// Its gateways, with the lengths of their subnets.
    pub gateways: Vec<IpNet>,
    /// What is allowed.
    pub fence: Fence,
}

impl Fenced {
    /// The fence of a network; `None` where it has none.
    ///
    /// # Errors
    /// [`Wiring::refuse_fence`].
    pub fn of(network: &NetworkName, wiring: &Wiring, ipam: &Ipam) -> Result<Option<Self>> {
        wiring.refuse_fence(network, ipam)?;
        let bridge = wiring.link.as_ref().and_then(|link| link.kind.bridge());
        let (Some(fence), Some(bridge)) = (&wiring.fence, bridge) else { return Ok(None) };
        Ok(Some(Self {
            network: network.clone(),
            bridge: bridge.name.clone(),
            gateways: wiring.name_servers(ipam),
            fence: fence.clone(),
        }))
    }

    /// Whether an address is one of the network's.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.gateways.iter().any(|net| net.contains(&address))
    }

    /// Whether the rules of one of these names allow what it opened.
    pub fn allows_by_name(&self, opening: &Opening, names: &[DomainName]) -> bool {
        let mut services = names.iter().flat_map(|name| self.fence.services_of(name));
        services.any(|service| service.has(opening.protocol, opening.port))
    }

    /// The element that says that the bridge is fenced, and by which rules.
    fn mark(&self) -> Result<Element> {
        let text = format!("{:?} {}", self.gateways, self.fence);
        let comment: Comment = format!("{} {}", self.network, digest_of(&text)).parse()?;
        Ok(Element { comment: Some(comment), ..Element::of(self.key()) })
    }

    fn key(&self) -> Tuple {
        Tuple::new().interface(&self.bridge)
    }

    fn ranges(&self) -> Vec<(&'static str, Between)> {
        let mut all = sets::sources(&self.bridge, &self.gateways);
        all.extend(sets::allowed(&self.bridge, &self.fence.rules));
        all
    }

    fn about(&self, doing: &str) -> String {
        format!("{doing} the fence of network {} ({TABLE})", self.network)
    }
}

/// Makes the fence, unless it is there with these rules: for each container that is attached. The chains are
/// compared, too: a flush of the table leaves its sets.
///
/// # Errors
/// Where the kernel lacks something, or the process may not change it. Nothing may be attached then.
pub fn ensure(socket: &mut Socket, fenced: &Fenced) -> Result<()> {
    let mark = fenced.mark()?;
    let found = nft::find(socket, TABLE, &[(FENCED.name, &mark)])?;
    match found.first() {
        Some((_, there))
            if there.comment == mark.comment && rules::ruleset().verify(socket).is_ok() =>
        {
            Ok(())
        }
        Some(_) | None => keep(socket, fenced, None),
    }
}

/// Drops everything that comes in by the bridge, where it is not fenced yet: for what was attached before
/// a loss. The network's rules come with [`keep`].
///
/// # Errors
/// As [`ensure`].
pub fn close(socket: &mut Socket, fenced: &Fenced) -> Result<bool> {
    let mark = Element::of(fenced.key());
    if !nft::find(socket, TABLE, &[(FENCED.name, &mark)])?.is_empty() {
        return Ok(false);
    }
    let fence = Fence { rules: Vec::new(), learning: None };
    keep(socket, &Fenced { fence, ..fenced.clone() }, None).map(|()| true)
}

/// Makes the fence what it should be: the chains, and the elements of this bridge. `now` says for how long
/// it learns; without it, that stays as it is.
///
/// # Errors
/// As [`ensure`].
pub fn keep(socket: &mut Socket, fenced: &Fenced, now: Option<Timestamp>) -> Result<()> {
    let (ruleset, mark, wanted) = (rules::ruleset(), fenced.mark()?, fenced.ranges());
    for _ in 0..ATTEMPTS {
        ruleset.ensure(socket)?;
        if ruleset.verify(socket).is_err() {
            ruleset.reload(socket)?;
        }
        let mut transaction = Transaction::of_generation(nft::generation(socket)?);
        renew(socket, &mut transaction, fenced, &wanted)?;
        transaction.ensure_element(
            TABLE,
            FENCED.name,
            &Element::of(fenced.key()),
            fenced.about("making"),
        );
        transaction.delete_element(TABLE, FENCED.name, &mark, fenced.about("making"));
        transaction.add_element(TABLE, FENCED.name, &mark, fenced.about("making"));
        let within = Element::of(Tuple::new().interface(&fenced.bridge).interface(&fenced.bridge));
        transaction.ensure_element(TABLE, WITHIN.name, &within, fenced.about("making"));
        if let Some(now) = now {
            learn(&mut transaction, fenced, now);
        }
        let is_raced =
            |failure: &netlink::Failure| matches!(failure.errno, Errno::RESTART | Errno::NOENT);
        if settled(transaction.commit(socket), is_raced)? {
            return Ok(());
        }
    }
    Err(model::Error::try_again(fenced.about("others keep changing")))
}

/// Removes ranges that are wanted no more, and adds those that are missing.
fn renew(
    socket: &mut Socket,
    transaction: &mut Transaction,
    fenced: &Fenced,
    wanted: &[(&'static str, Between)],
) -> Result<()> {
    for set in range_sets() {
        let there = of_bridge(socket, set.name, &fenced.bridge)?;
        let is_of = |(name, _): &&(&'static str, Between)| *name == set.name;
        let wanted: Vec<&Between> = wanted.iter().filter(is_of).map(|(_, range)| range).collect();
        for range in there.iter().filter(|range| !wanted.contains(range)) {
            transaction.delete_between(TABLE, set.name, range, fenced.about("renewing"));
        }
        for range in wanted.into_iter().filter(|range| !there.contains(range)) {
            transaction.add_between(TABLE, set.name, range, fenced.about("renewing"));
        }
    }
    Ok(())
}

fn of_bridge(socket: &mut Socket, set: &str, bridge: &IfName) -> Result<Vec<Between>> {
    let name = Tuple::new().interface(bridge);
    let mut there = nft::between(socket, TABLE, set)?;
    there.retain(|range| range.first.bytes().starts_with(name.bytes()));
    Ok(there)
}

fn learn(transaction: &mut Transaction, fenced: &Fenced, now: Timestamp) {
    let element = Element::of(fenced.key());
    let about = fenced.about("learning beside");
    let remaining = fenced.fence.learning.map_or(0, |until| until.0.saturating_sub(now.0));
    let limit = Duration::from_secs(remaining.max(1));
    transaction.put_expiring((TABLE, LEARNING.name), &element, limit, &about);
    if remaining == 0 {
        transaction.delete_element(TABLE, LEARNING.name, &element, about);
    }
}

/// Whether the table is as these fences make it.
///
/// # Errors
/// Where the kernel cannot be asked.
pub fn is_kept(socket: &mut Socket, all: &[Fenced]) -> Result<bool> {
    let marks = all.iter().map(Fenced::mark).collect::<Result<Vec<_>>>()?;
    let keys: Vec<(&str, &Element)> = marks.iter().map(|mark| (FENCED.name, mark)).collect();
    let found = nft::find(socket, TABLE, &keys)?;
    let is_there = |mark: &Element| found.iter().any(|(_, there)| there.comment == mark.comment);
    if !marks.iter().all(is_there) || rules::ruleset().verify(socket).is_err() {
        return Ok(false);
    }
    for fenced in all {
        let wanted = fenced.ranges();
        for set in range_sets() {
            let mut there = of_bridge(socket, set.name, &fenced.bridge)?;
            let is_of = |(name, _): &&(&'static str, Between)| *name == set.name;
            let mut of: Vec<_> = wanted.iter().filter(is_of).map(|(_, it)| it.clone()).collect();
            there.sort();
            of.sort();
            if there != of {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Removes the fence of a bridge that is gone or has none any more, and the table with the last one. What
/// is gone is no error.
///
/// # Errors
/// Where the process may not change it.
pub fn forget_bridge(socket: &mut Socket, bridge: &IfName) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let generation = nft::generation(socket)?;
        let fenced = nft::elements(socket, TABLE, FENCED.name)?;
        let key = Tuple::new().interface(bridge);
        if !fenced.iter().any(|element| element.key == key) {
            return Ok(());
        }
        let mut transaction = Transaction::of_generation(generation);
        if fenced.len() == 1 {
            transaction.delete_table(TABLE);
        } else {
            let about = || format!("removing the fence of bridge {bridge} ({TABLE})");
            transaction.delete_element(TABLE, FENCED.name, &Element::of(key.clone()), about());
            let within = Element::of(key.clone().interface(bridge));
            transaction.ensure_element(TABLE, WITHIN.name, &within, about());
            transaction.delete_element(TABLE, WITHIN.name, &within, about());
            let limit = Duration::from_secs(1);
            let own = Element::of(key);
            transaction.put_expiring((TABLE, LEARNING.name), &own, limit, &about());
            transaction.delete_element(TABLE, LEARNING.name, &own, about());
            for set in range_sets() {
                for range in of_bridge(socket, set.name, bridge)? {
                    transaction.delete_between(TABLE, set.name, &range, about());
                }
            }
        }
        let is_raced =
            |failure: &netlink::Failure| matches!(failure.errno, Errno::RESTART | Errno::NOENT);
        if settled(transaction.commit(socket), is_raced)? {
            return Ok(());
        }
    }
    Err(model::Error::try_again(format!("{TABLE} keeps being changed by others")))
}
