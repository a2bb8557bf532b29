//! Addresses that a host has apart from its blocks.
//!
//! An address in a block that no host has is given by the record alone. One in the block of another host is asked of
//! that host, which leases from its block without asking anybody: it keeps the address for the other one, or
//! says what has it. A host that is gone is not asked. The host of the block asks as others do for what it has given
//! away. One that a name keeps is asked of the host that has it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::{
    AddressPin, Error, HostName, NetworkName, OwnerName, PinState, Result, SharedNetwork, text,
};

use super::RACES;
use super::kept_address::written_again;
use super::unanswered::Unanswered;
use crate::port::{Cluster, Expect, Outcome, Txn, is_refusal};
use crate::record::{Key, Record, Revision};
use crate::view::View;

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pinning {
    /// The host has the address.
    Granted,
    /// This host was asked, in whose block the address is; it answers in the record.
    Asked(HostName),
    /// This host was asked, which keeps the address for the name, by the record of this revision; it answers in the record.
    Wanted(HostName, Revision),
    /// This host has it, for what the text says.
    Taken(HostName, String),
}

/// A transaction, what the record says then, and which host was asked, if one was; or what is decided without one.
type Decided = std::result::Result<(Txn, AddressPin, Option<HostName>), Pinning>;

/// Which address, and who asks for it.
#[derive(Clone, Copy, Debug)]
pub struct PinRequest<'a> {
    /// On which network.
    pub network: &'a NetworkName,
    /// The address.
    pub address: IpAddr,
    /// The host that asks.
    pub host: &'a HostName,
    /// What will have it there, for sentences.
    pub by: &'a str,
    /// The name of its container, where the network keeps addresses for names.
    pub name: Option<&'a OwnerName>,
}

/// Asks for an address. `gone` are hosts that were not heard of for so long that their addresses may be
/// taken over.
///
/// # Errors
/// `NotFound` where there is no such network; `Invalid` where no container can have the address; `TryAgain`
/// where the host that has it is lost, and not for long enough.
pub fn pin(
    cluster: &impl Cluster,
    wanted: &PinRequest<'_>,
    gone: &BTreeSet<HostName>,
) -> Result<Pinning> {
    let mut unanswered = Unanswered::default();
    for _ in 0..RACES {
        let view = cluster.read()?;
        let (txn, pin, asked) = match wanted.proposed(&view, gone)? {
            Ok(proposed) => proposed,
            Err(decided) => return Ok(decided),
        };
        let is_kept = pin.wanted.is_some();
        let txn = txn.put(wanted.key(), Record::Pin(pin));
        let committed = match cluster.commit(&txn) {
            // What it has it has also while nothing can be written.
            Err(refused) if is_refusal(&refused) && wanted.is_had(&view) => {
                return Ok(Pinning::Granted);
            }
            committed => committed,
        };
        if let Outcome::Done(at) = unanswered.heed(committed)? {
            return Ok(match asked {
                None => Pinning::Granted,
                Some(host) if is_kept => Pinning::Wanted(host, at),
                Some(host) => Pinning::Asked(host),
            });
        }
    }
    Err(Error::try_again(format!(
        "others ask for address {} of network {} all the time",
        wanted.address, wanted.network
    )))
}

impl PinRequest<'_> {
    fn key(&self) -> Key {
        Key::Pin(self.network.clone(), self.address)
    }

    /// The record, where it is written for this host.
    pub(super) fn pin(&self, state: PinState, over: Option<HostName>) -> AddressPin {
        AddressPin {
            host: self.host.clone(),
            by: shortened(self.by),
            state,
            over,
            asked: None,
            name: self.name.cloned(),
            wanted: None,
        }
    }

    /// Whether this host has it already.
    fn is_had(&self, view: &View) -> bool {
        view.pinned(self.network, self.address) == Some(self.host)
    }

    /// Whether another host keeps the address for this name, and is there to hand it over.
    fn is_kept(&self, view: &View, pin: &AddressPin) -> bool {
        self.name.is_some()
            && pin.name.as_ref() == self.name
            && pin.state == PinState::Granted
            && view.alive.contains(&pin.host)
    }

    /// The record once more, as one whose address this host wants of the host that is asked, or else has.
    fn again(
        &self,
        view: &View,
        record: (&AddressPin, Revision),
        mut txn: Txn,
        asked: Option<&HostName>,
    ) -> (Txn, AddressPin, Option<HostName>) {
        let (expect, again) = written_again(view, self.key(), record);
        txn.expect.extend(expect);
        let wanted = asked.map(|_| self.host.clone());
        (txn, AddressPin { wanted, ..again }, asked.cloned())
    }

    /// The transaction that writes the record, with its conditions, the record, and the host that is asked to release the
    /// address; or the answer where no transaction is needed.
    fn proposed(&self, view: &View, gone: &BTreeSet<HostName>) -> Result<Decided> {
        let network = view.networks.get(self.network).ok_or_else(|| {
            Error::not_found(format!("the cluster has no network {}", self.network))
        })?;
        self.refuse_unusable(network)?;
        let mut over = None;
        let mut txn = Txn::default()
            .require(Key::Host(self.host.clone()), Expect::Present)
            .require(Key::Network(self.network.clone()), Expect::Present);
        txn = match view.pins.get(&(self.network.clone(), self.address)) {
            None => txn.require(self.key(), Expect::Absent),
            Some((pin, at)) if pin.host == *self.host => match &pin.state {
                // What it wrote before and had no answer to, as that it gives the address back, may reach etcd later, and
                // then finds another record.
                PinState::Granted => return Ok(Ok(self.again(view, (pin, *at), txn, None))),
                PinState::Other => {
                    return Ok(Err(Pinning::Taken(pin.host.clone(), pin.by.clone())));
                }
                PinState::Asked | PinState::Held(_) => txn.require(self.key(), Expect::At(*at)),
            },
            Some((pin, at)) if self.is_kept(view, pin) => {
                return Ok(Ok(self.again(view, (pin, *at), txn, Some(&pin.host))));
            }
            Some((pin, at)) if is_gone(view, gone, &pin.host) => {
                over = Some(pin.host.clone());
                txn.require(Key::Alive(pin.host.clone()), Expect::Absent)
                    .require(self.key(), Expect::At(*at))
            }
            Some((pin, _)) => {
                self.refuse_lost(view, &pin.host)?;
                return Ok(Err(Pinning::Taken(pin.host.clone(), pin.by.clone())));
            }
        };
        let block = network.block_with(self.address).ok_or_else(|| self.unusable(network))?;
        let key = Key::Block(self.network.clone(), block);
        let is_taken_over = over.is_some();
        match view.blocks.get(&(self.network.clone(), block)) {
            None => {
                Ok(Ok((txn.require(key, Expect::Absent), self.pin(PinState::Granted, over), None)))
            }
            // This host had given it to one that is gone.
            Some((holder, at)) if holder == self.host && is_taken_over => {
                Ok(Ok((txn.require(key, Expect::At(*at)), self.pin(PinState::Granted, over), None)))
            }
            Some((holder, _)) if holder == self.host => Err(Error::try_again(format!(
                "address {} is in a block that this host has only just taken, or was released a moment ago",
                self.address
            ))),
            // A block that changes hands meanwhile is another question: its new host leases from it.
            Some((holder, at)) if is_gone(view, gone, holder) => {
                let txn = txn.require(Key::Alive(holder.clone()), Expect::Absent);
                let over = over.or_else(|| Some(holder.clone()));
                Ok(Ok((txn.require(key, Expect::At(*at)), self.pin(PinState::Granted, over), None)))
            }
            Some((holder, at)) => {
                self.refuse_lost(view, holder)?;
                let (asked, pin) = (holder.clone(), self.pin(PinState::Asked, over));
                Ok(Ok((txn.require(key, Expect::At(*at)), pin, Some(asked))))
            }
        }
    }

    /// A host that is lost cannot be asked, and it may be there all the same.
    fn refuse_lost(&self, view: &View, host: &HostName) -> Result<()> {
        match view.alive.contains(host) {
            true => Ok(()),
            false => Err(Error::try_again(format!(
                "address {} of network {} is host {host}'s, which is lost; when that has lasted for some \
                 time its addresses can be taken over (`takeover_seconds`), or at once by `spoke host remove \
                 {host}`",
                self.address, self.network
            ))),
        }
    }

    fn refuse_unusable(&self, network: &SharedNetwork) -> Result<()> {
        let block = network.block_with(self.address);
        let is_gateway = network.is_gateway(self.address);
        match block.is_none() || is_gateway || network.is_edge(self.address) {
            true => Err(self.unusable(network)),
            false => Ok(()),
        }
    }

    fn unusable(&self, network: &SharedNetwork) -> Error {
        Error::invalid(format!(
            "no container has address {} of network {} ({}): it is a host's, or the subnet's own",
            self.address,
            self.network,
            network.subnets()
        ))
    }
}

/// Whether a host cannot be asked: it was not heard of for long enough, or is no member any more. One whose record
/// cannot be read is a member.
fn is_gone(view: &View, gone: &BTreeSet<HostName>, host: &HostName) -> bool {
    let is_removed = !view.hosts.contains_key(host) && !view.is_damaged(host);
    !view.alive.contains(host) && (gone.contains(host) || is_removed)
}

/// Answers for an address of a block that this host has in `view`; `at` is the request. Nothing happens where
/// that was withdrawn, or where another host has the block by now: it answers then.
///
/// # Errors
/// As the cluster's.
pub fn answer_pin(
    cluster: &impl Cluster,
    view: &View,
    (network, address): (&NetworkName, IpAddr),
    (pin, at): (&AddressPin, Revision),
    state: PinState,
) -> Result<()> {
    let Some((block, _, taken)) = view.taken_block(network, address) else { return Ok(()) };
    let state = match state {
        PinState::Held(by) => PinState::Held(shortened(&by)),
        other => other,
    };
    let key = Key::Pin(network.clone(), address);
    let (expect, again) = written_again(view, key.clone(), (pin, at));
    let txn = Txn { expect, ..Txn::default() }
        .require(Key::Block(network.clone(), block), Expect::At(taken));
    cluster.commit(&txn.put(key, Record::Pin(AddressPin { state, ..again }))).map(|_| ())
}

/// Has the record of a host that has its address say of what it is; `at` is the record. What is written: nothing where it
/// says that, or is another one by now.
///
/// # Errors
/// As the cluster's.
pub fn call_pin(
    cluster: &impl Cluster,
    view: &View,
    (network, address): (&NetworkName, IpAddr),
    (pin, at): (&AddressPin, Revision),
    by: &str,
) -> Result<Option<(AddressPin, Revision)>> {
    if is_called(pin, by) {
        return Ok(None);
    }
    let key = Key::Pin(network.clone(), address);
    let (expect, again) = written_again(view, key.clone(), (pin, at));
    let called = AddressPin { by: shortened(by), ..again };
    let txn = Txn { expect, ..Txn::default() };
    Ok(match cluster.commit(&txn.put(key, Record::Pin(called.clone())))? {
        Outcome::Done(at) => Some((called, at)),
        Outcome::Lost => None,
    })
}

/// Whether a record says of an address that it is of this, as far as there is room for it.
pub fn is_called(pin: &AddressPin, by: &str) -> bool {
    pin.by == shortened(by)
}

/// Gives an address back, or withdraws a request; `at` is the record. Nothing happens where another one has
/// it by now.
///
/// # Errors
/// As the cluster's.
pub fn unpin(
    cluster: &impl Cluster,
    (network, address): (&NetworkName, IpAddr),
    at: Revision,
) -> Result<()> {
    let key = Key::Pin(network.clone(), address);
    cluster.commit(&Txn::default().require(key.clone(), Expect::At(at)).delete(key)).map(|_| ())
}

/// Since when a record gives its address to the host that asked for it, or would: where another host has answered, since
/// the request. `at` is the record.
pub fn asked_at(pin: &AddressPin, at: Revision) -> Revision {
    pin.asked.map_or(at, |asked| at.min(Revision(asked)))
}

fn shortened(by: &str) -> String {
    let mut by = text::shown(by);
    while by.len() > AddressPin::LONGEST {
        by.pop();
    }
    by
}
