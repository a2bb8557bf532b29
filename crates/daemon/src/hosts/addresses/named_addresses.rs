//! Addresses that names keep, on whichever host their containers are.
//!
//! The store says what names keep on this host; the pins say it to the others. Where a container of such a name starts on
//! another host, that asks here: the name ceases to keep the address on this host in a transaction that finds no lease
//! of it, and the pin is the other host's after that.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::book;
use cluster::{Etcd, Revision, View};
use engine::InUse;
use model::{AddressPin, HostName, Kind, OwnerName, PinState, Result};

use super::address_lock::NetworkAddress;
use super::pins::disproved;
use crate::hosts::Attached;
use crate::hosts::keep::Keeper;
use crate::hosts::member::Member;

/// For so many names a host keeps addresses outside its blocks: those that came first go first. Of those of its blocks
/// it keeps as many.
const MOST_KEPT: usize = 1024;
/// So many requests of others are answered before everything else is looked at again: the lease is renewed in between.
const MOST_ANSWERED: usize = 64;

/// What names keep on this host.
pub(in crate::hosts) type Names = BTreeMap<NetworkAddress, OwnerName>;

impl Keeper<'_> {
    /// What names keep on this host, of networks that keep addresses for names.
    pub(in crate::hosts) fn names(&self, view: &View, member: &Member) -> Result<Names> {
        let sticky = view.networks_of(&member.name).filter(|(_, network)| network.sticky);
        let networks = sticky.map(|(name, _)| name);
        let kept = self
            .daemon
            .context_pool
            .with(|host_context| host_context.engine().addresses.kept_for_names(networks))?;
        Ok(kept.into_iter().map(|(network, at, name)| ((network, at), name)).collect())
    }

    /// Hands over what other hosts ask for, unless a container of this one has it.
    pub(in crate::hosts) fn answer_wanted(
        &mut self,
        etcd: &Etcd,
        view: &mut View,
        member: &Member,
    ) -> Result<()> {
        let asked = view.pins.iter().filter(|(_, (pin, _))| {
            pin.host == member.name && pin.state == PinState::Granted && pin.wanted.is_some()
        });
        let asked: Vec<(NetworkAddress, (AddressPin, Revision))> =
            asked.take(MOST_ANSWERED).map(|(place, it)| (place.clone(), it.clone())).collect();
        let hosts = self.hosts;
        for (place, (pin, at)) in asked {
            // A process of this host that asks for it now is answered first.
            let Some(_lock) = hosts.lock_address(&place, Duration::ZERO) else { continue };
            let is_given = match self.is_handed_over(view, member, (&place, &pin)) {
                Err(error) if error.kind() == Kind::TryAgain => continue,
                is_given => is_given?,
            };
            let of = (&place.0, place.1);
            let answered = book::answer_kept(etcd, view, of, (&pin, at), is_given);
            if let Some(Some(answer)) = self.unless_refused(answered)? {
                // The watch says so later, and what is kept for that host is taken back meanwhile otherwise.
                view.pins.insert(place, answer);
            }
        }
        Ok(())
    }

    /// Whether this host's store has nothing of an address any more that another host wants for a name.
    fn is_handed_over(
        &self,
        view: &View,
        member: &Member,
        (place, pin): (&NetworkAddress, &AddressPin),
    ) -> Result<bool> {
        let (Some(name), Some(host)) = (&pin.name, &pin.wanted) else { return Ok(false) };
        let is_sticky = view.networks.get(&place.0).is_some_and(|network| network.sticky);
        // One that is gone would note nothing of it.
        if !is_sticky || !view.hosts.contains_key(host) || !view.alive.contains(host) {
            return Ok(false);
        }
        let in_the_way = self.hand_over(view, member, (place, name), host)?;
        Ok(in_the_way.is_none())
    }

    fn hand_over(
        &self,
        view: &View,
        member: &Member,
        (place, name): (&NetworkAddress, &OwnerName),
        host: &HostName,
    ) -> Result<Option<InUse>> {
        let block = view.block_with(&place.0, place.1);
        // It is kept for that host where it is of a block of this one.
        let to = block.filter(|(holder, _)| **holder == member.name).map(|_| host);
        self.end_name(place, name, to)
    }

    /// The name ceases to keep an address here, which is `to`'s then; what is in the way.
    fn end_name(
        &self,
        place: &NetworkAddress,
        name: &OwnerName,
        to: Option<&HostName>,
    ) -> Result<Option<InUse>> {
        self.daemon.context_pool.with(|host_context| {
            host_context.engine().addresses.hand_over((&place.0, place.1), name, to)
        })
    }

    /// Forgets what names kept here and other hosts have by now: no container of this host has it any more.
    pub(in crate::hosts) fn forget_names(
        &self,
        view: &View,
        member: &Member,
        names: &Names,
    ) -> Result<()> {
        for (place, name) in names {
            let pin = view.pins.get(place).map(|(pin, _)| pin);
            let other = pin.filter(|pin| {
                pin.host != member.name && matches!(pin.state, PinState::Granted | PinState::Other)
            });
            let is_disproved = disproved(view, member, place, self.alive).is_some();
            let Some(pin) = other.filter(|_| !is_disproved && !self.is_fresh(place)) else {
                continue;
            };
            match self.hand_over(view, member, (place, name), &pin.host) {
                Err(error) if error.kind() == Kind::TryAgain => {}
                done => drop(done?),
            }
        }
        Ok(())
    }

    /// What has come back to the host of its block is kept as any other address of it: it is forgotten where the block is
    /// full, and an operator can end it. Not where the block is about to be given back.
    pub(in crate::hosts) fn return_names(
        &self,
        view: &View,
        member: &Member,
        (noted, names): (&[NetworkAddress], &Names),
    ) -> Result<()> {
        for place in noted.iter().filter(|place| !self.is_fresh(place)) {
            let block = view.taken_block(&place.0, place.1);
            let Some(((block, holder, _), name)) = block.zip(names.get(place)) else { continue };
            let is_own = [Some(holder), view.pinned(&place.0, place.1)] == [Some(&member.name); 2];
            if !is_own || self.resting.has(&(place.0.clone(), block)) {
                continue;
            }
            let kept = (place.1, name.clone());
            let returned = self
                .daemon
                .context_pool
                .with(|host_context| host_context.engine().addresses.keep_within(&place.0, &kept));
            match returned {
                Err(error) if error.kind() == Kind::TryAgain => {}
                returned => returned?,
            }
        }
        Ok(())
    }

    /// Tells the others what names keep here.
    pub(in crate::hosts) fn publish_names(
        &mut self,
        etcd: &Etcd,
        view: &mut View,
        member: &Member,
        names: Names,
    ) -> Result<()> {
        let kept: Vec<book::KeptAddress> =
            names.into_iter().map(|((of, at), name)| (of, at, name)).collect();
        let written = book::publish_kept(etcd, view, &member.name, &kept);
        view.pins.extend(self.unless_refused(written)?.unwrap_or_default());
        Ok(())
    }

    /// Forgets what names kept outside this host's blocks for longest, where these are too many.
    pub(in crate::hosts) fn bound_names(
        &self,
        view: &View,
        member: &Member,
        (attached, names): (&Attached, &mut Names),
    ) -> Result<()> {
        for (place, name) in surplus(view, member, (attached, names)) {
            match self.end_name(&place, &name, None) {
                Err(error) if error.kind() == Kind::TryAgain => {}
                Ok(None) => drop(names.remove(&place)),
                over => drop(over?),
            }
        }
        Ok(())
    }
}

fn surplus(
    view: &View,
    member: &Member,
    (attached, names): (&Attached, &Names),
) -> Vec<(NetworkAddress, OwnerName)> {
    let is_beyond = |place: &NetworkAddress| {
        let block = view.block_with(&place.0, place.1);
        block.is_none_or(|(holder, _)| *holder != member.name) && !attached.leases.contains(place)
    };
    let beyond = names.iter().filter(|(place, _)| is_beyond(place));
    let since = |place: &NetworkAddress| view.pins.get(place).map(|(_, at)| *at);
    let mut beyond: Vec<_> = beyond.filter_map(|(at, name)| Some((since(at)?, at, name))).collect();
    beyond.sort_unstable();
    let surplus = beyond.len().saturating_sub(MOST_KEPT);
    beyond.into_iter().take(surplus).map(|(_, at, name)| (at.clone(), name.clone())).collect()
}
