//! Addresses that this host has apart from its blocks, and those of its blocks that others have.
//!
//! The store decides who has an address on this host: an address is given back, or kept for another host,
//! only in a transaction that finds no lease of it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use cluster::book::{self, Pinning};
use cluster::{Etcd, Revision, View, is_refusal};
use engine::InUse;
use host::event::{Event, What};
use host::time;
use model::{AddressPin, Error, Holder, HostName, NetworkName, PinState, Result, Space};

use super::address_lock::NetworkAddress;
use crate::hosts::Attached;
use crate::hosts::keep::Keeper;
use crate::hosts::member::Member;

/// How long an address is this host's without a container that has it: one is being made.
const FRESH: Duration = Duration::from_secs(10);

impl Keeper<'_> {
    /// Keeps the addresses of this host's blocks for other hosts that have them or ask for them, and answers.
    pub(in crate::hosts) fn keep_for_others(
        &mut self,
        etcd: &Etcd,
        view: &View,
        member: &Member,
        name: &NetworkName,
    ) -> Result<()> {
        let theirs: Vec<_> = view
            .pins
            .iter()
            .filter(|((of, address), (pin, _))| {
                // Also of a block that rests: a process may still get an address of it.
                let is_ours = |(holder, _): (&HostName, _)| *holder == member.name;
                of == name
                    && pin.host != member.name
                    && view.block_with(of, *address).is_some_and(is_ours)
            })
            .collect();
        // What goes from one of them to another is not free in between, nor what goes from this host to one of them:
        // whether etcd has taken the answer is known by the next record. The same holds of what comes back to this host.
        let is_on_its_way = |address: IpAddr| {
            let place = (name.clone(), address);
            let pin = view.pins.get(&place);
            pin.is_some_and(|(pin, _)| pin.wanted.is_some()) || self.is_fresh(&place)
        };
        self.take_back(name, |address| {
            let pin = theirs.iter().find(|((_, of), _)| *of == address);
            pin.is_some_and(|(_, (pin, _))| !matches!(pin.state, PinState::Held(_)))
                || is_on_its_way(address)
        })?;
        for ((_, address), (pin, at)) in theirs {
            match pin.state {
                PinState::Asked => self.answer(etcd, view, (name, *address), (pin, *at))?,
                PinState::Granted => self.give(etcd, (name, *address), (pin, *at))?,
                PinState::Held(_) | PinState::Other => {}
            }
        }
        Ok(())
    }

    /// Ends what is kept for other hosts on a network and is not `wanted` any more.
    fn take_back(&self, name: &NetworkName, wanted: impl Fn(IpAddr) -> bool) -> Result<()> {
        self.daemon.context_pool.with(|host_context| {
            let engine = host_context.engine();
            let given = engine.addresses.given_to_hosts()?.into_iter();
            let mut over = given.filter(|(of, address, _)| of == name && !wanted(*address));
            over.try_for_each(|(_, address, _)| engine.addresses.take_from_host(address).map(drop))
        })
    }

    fn answer(
        &mut self,
        etcd: &Etcd,
        view: &View,
        (name, address): (&NetworkName, IpAddr),
        (pin, at): (&AddressPin, Revision),
    ) -> Result<()> {
        let in_use = self.daemon.context_pool.with(|host_context| {
            host_context.engine().addresses.give_to_host(name, address, &pin.host)
        })?;
        let state = match in_use {
            None => PinState::Granted,
            Some(InUse::Held(holder)) => PinState::Held(self.shown(&holder)),
            Some(InUse::Reserved(by)) => PinState::Held(format!("no container: it is {by}")),
        };
        // What etcd does not take keeps no other address from its host.
        let answered = book::answer_pin(etcd, view, (name, address), (pin, at), state);
        self.unless_refused(answered).map(drop)
    }

    /// Keeps an address for the host to which it was given while this one was not heard of, whatever this host kept it
    /// for. What another one wrote since, without having asked, is taken back. One that this host had from the others is
    /// passed on when their addresses are settled, in the same round.
    fn give(
        &mut self,
        etcd: &Etcd,
        (name, address): (&NetworkName, IpAddr),
        (pin, at): (&AddressPin, Revision),
    ) -> Result<()> {
        let (host, pool) = (&pin.host, &self.daemon.context_pool);
        if book::asked_at(pin, at) > self.alive {
            let in_use = pool.with(|host_context| {
                host_context.engine().addresses.give_to_host(name, address, host)
            })?;
            // A process of this host may have it by now, of which etcd's record is heard in a moment.
            return match in_use.is_some() && !self.is_fresh(&(name.clone(), address)) {
                true => self.disprove(etcd, (name, address), host, at),
                false => Ok(()),
            };
        }
        let give = || {
            pool.with(|host_context| {
                host_context.engine().addresses.yield_to_host((name, address), host)
            })
        };
        if let Some(InUse::Held(holder)) = give()? {
            self.evict((name, address), &holder, host)?;
            give()?;
        }
        Ok(())
    }

    /// Deletes a pin that no host can have made as the layout says.
    pub(in crate::hosts) fn disprove(
        &mut self,
        etcd: &Etcd,
        (name, address): (&NetworkName, IpAddr),
        host: &HostName,
        at: Revision,
    ) -> Result<()> {
        let unpinned = book::unpin(etcd, (name, address), at);
        if self.unless_refused(unpinned)?.is_some() {
            let why = Error::conflict(format!(
                "etcd had address {address} of network {name} as host {host}'s, which never asked this host for \
                 it: that record was deleted"
            ));
            self.daemon.journal.failed("the cluster of hosts", &why);
        }
        Ok(())
    }

    /// Detaches a container from a network where another host has its address by now.
    pub(in crate::hosts) fn evict(
        &self,
        (name, address): (&NetworkName, IpAddr),
        holder: &Holder,
        host: &HostName,
    ) -> Result<()> {
        let shown = self.shown(holder);
        let evicted = self
            .daemon
            .context_pool
            .with(|host_context| host_context.engine().repair.evict(holder));
        let what = format!(
            "{shown} was detached from network {name}: host {host} has its address {address} by now, because \
             this host was not heard of for too long"
        );
        self.daemon.journal.report(&Event::new(What::LeaseLost, time::now(), what));
        evicted
    }

    /// Gives back what no container of this host has any more, and detaches what another host has by now.
    pub(in crate::hosts) fn settle_pins(
        &mut self,
        etcd: &Etcd,
        view: &mut View,
        member: &Member,
        attached: &Attached,
    ) -> Result<()> {
        self.hosts.set(|state| state.fresh.retain(|_, since| since.elapsed() < FRESH));
        self.answer_wanted(etcd, view, member)?;
        let mut names = self.names(view, member)?;
        self.bound_names(view, member, (attached, &mut names))?;
        let own = view.pins.iter().filter(|(_, (pin, _))| pin.host == member.name);
        let own: Vec<(NetworkAddress, Revision, PinState)> =
            own.map(|(name, (pin, at))| (name.clone(), *at, pin.state.clone())).collect();
        for (name, at, state) in own {
            // A name that keeps it needs no container.
            let is_kept = state == PinState::Granted && names.contains_key(&name);
            if !is_kept || attached.leases.contains(&name) {
                self.settle_own(etcd, view, (name, at, state), attached)?;
            }
        }
        self.sweep(view, member)?;
        let noted =
            self.daemon.context_pool.with(|host_context| host_context.engine().addresses.pins())?;
        for place in &noted {
            if view.pinned(&place.0, place.1) != Some(&member.name) {
                self.settle_lost(etcd, view, member, place)?;
            }
        }
        self.return_names(view, member, (&noted, &names))?;
        self.forget_names(view, member, &names)?;
        self.publish_names(etcd, view, member, names)
    }

    /// Ends what is kept for other hosts on networks that this host has no more.
    fn sweep(&self, view: &View, member: &Member) -> Result<()> {
        let is_here = |name: &NetworkName| {
            view.networks.get(name).is_some_and(|network| view.is_on(network, &member.name))
        };
        self.daemon.context_pool.with(|host_context| {
            let engine = host_context.engine();
            let mut over =
                engine.addresses.given_to_hosts()?.into_iter().filter(|(of, _, _)| !is_here(of));
            over.try_for_each(|(_, address, _)| engine.addresses.take_from_host(address).map(drop))
        })
    }

    pub(in crate::hosts) fn is_fresh(&self, name: &NetworkAddress) -> bool {
        self.hosts.lock().fresh.contains_key(name)
    }

    fn settle_own(
        &mut self,
        etcd: &Etcd,
        view: &mut View,
        (name, at, state): (NetworkAddress, Revision, PinState),
        attached: &Attached,
    ) -> Result<()> {
        let is_used = attached.leases.contains(&name);
        if is_used {
            // From now on it goes with its container.
            self.hosts.set(|state| {
                state.fresh.remove(&name);
            });
            // It is for sentences: the others' addresses do not wait for it.
            let called = self.call_by_name(etcd, view, &name, attached);
            self.unless_refused(called)?;
        }
        if is_used || self.is_fresh(&name) || state == PinState::Other {
            return Ok(());
        }
        // A process of this host may ask for it again.
        let hosts = self.hosts;
        let Some(_lock) = hosts.lock_address(&name, Duration::ZERO) else { return Ok(()) };
        let is_over = state != PinState::Granted
            || self
                .daemon
                .context_pool
                .with(|host_context| host_context.engine().addresses.end_pin(name.1))?;
        if is_over {
            // What etcd does not take keeps no other address from being released.
            let unpinned = book::unpin(etcd, (&name.0, name.1), at);
            if self.unless_refused(unpinned)?.is_some() {
                view.pins.remove(&name);
            }
        }
        Ok(())
    }

    /// An address that this host had from the others, and that etcd does not give it any more.
    fn settle_lost(
        &mut self,
        etcd: &Etcd,
        view: &View,
        member: &Member,
        name: &NetworkAddress,
    ) -> Result<()> {
        if self.is_fresh(name) {
            return Ok(());
        }
        let (network, address) = (&name.0, name.1);
        if let Some((pin, at)) = disproved(view, member, name, self.alive) {
            return self.disprove(etcd, (network, address), &pin.host, at);
        }
        let holder = self
            .daemon
            .context_pool
            .with(|host_context| host_context.engine().records.holder(&Space::Host, address))?;
        if let Some(holder) = holder {
            let Some(other) = ask_again(etcd, view, member, (name, &self.shown(&holder)))? else {
                return Ok(());
            };
            self.evict((network, address), &holder, &other)?;
        }
        self.daemon.context_pool.with(|host_context| match kept_for(view, member, name) {
            Some(other) => host_context.engine().addresses.pass_pin(address, other).map(drop),
            None => host_context.engine().addresses.end_pin(address).map(drop),
        })
    }
}

/// The other host that has an address of a block of this one: it is not free when it is lost.
fn kept_for<'v>(
    view: &'v View,
    member: &Member,
    (network, address): &NetworkAddress,
) -> Option<&'v HostName> {
    let (holder, _) = view.block_with(network, *address)?;
    let other = view.pinned(network, *address)?;
    (*holder == member.name && *other != member.name).then_some(other)
}

/// What says that another host has an address of this one, and cannot be: this host was heard of when it was asked for.
pub(in crate::hosts) fn disproved<'v>(
    view: &'v View,
    member: &Member,
    name: &NetworkAddress,
    alive: Revision,
) -> Option<(&'v AddressPin, Revision)> {
    let (pin, at) = view.pins.get(name)?;
    let is_theirs = pin.host != member.name && book::asked_at(pin, *at) > alive;
    is_theirs.then_some((pin, *at))
}

/// Asks for an address that a container of this host has, and that etcd does not give it: etcd may have been restored
/// from a state without it. The host that has it instead; none where this one has it, or is to hear of it, or where the
/// network is gone, which ends by itself.
fn ask_again(
    etcd: &Etcd,
    view: &View,
    member: &Member,
    (name, by): (&NetworkAddress, &str),
) -> Result<Option<HostName>> {
    let (network, address) = (&name.0, name.1);
    let asked = view.pins.get(name).filter(|(pin, _)| pin.host == member.name);
    if let Some((pin, _)) = asked
        && let Some((holder, _)) = view.block_with(network, address)
        && view.hosts.contains_key(holder)
    {
        let is_held = matches!(pin.state, PinState::Held(_));
        return Ok(is_held.then(|| holder.clone()));
    }
    let wanted = book::PinRequest { network, address, host: &member.name, by, name: None };
    match book::pin(etcd, &wanted, &BTreeSet::new()) {
        Ok(Pinning::Taken(host, _)) => Ok(Some(host)),
        Ok(Pinning::Granted | Pinning::Asked(_) | Pinning::Wanted(..)) => Ok(None),
        Err(error) if error.kind() == model::Kind::TryAgain || is_refusal(&error) => {
            Ok(view.pinned(network, address).cloned())
        }
        Err(error) if error.kind() == model::Kind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_another_has_of_an_own_block_is_kept_for_it() {
        let (member, name): (_, NetworkAddress) =
            (member(), ("front".parse().unwrap(), [10, 8, 9, 9].into()));
        let kept = |holder: &str, of: &str| {
            let pin = AddressPin {
                host: of.parse().unwrap(),
                by: "db".to_owned(),
                state: PinState::Granted,
                over: None,
                asked: None,
                name: None,
                wanted: None,
            };
            let mut view = View::default();
            let network =
                r#"{"vni":7,"subnet":"10.8.0.0/16","block":24,"mtu":1450,"hosts":"all","since":1}"#;
            view.networks.insert(name.0.clone(), serde_json::from_str(network).unwrap());
            let block = (name.0.clone(), "10.8.9.0/24".parse().unwrap());
            view.blocks.insert(block, (holder.parse().unwrap(), Revision(3)));
            view.pins.insert(name.clone(), (pin, Revision(9)));
            kept_for(&view, &member, &name).map(ToString::to_string)
        };
        assert_eq!(kept("a", "b").as_deref(), Some("b"));
        assert_eq!((kept("a", "a"), kept("c", "b")), (None, None));
    }

    fn member() -> Member {
        Member {
            name: "a".parse().unwrap(),
            address: [192, 0, 2, 1].into(),
            etcd: Vec::new(),
            access: cluster::Access::default(),
            own_etcd: false,
        }
    }

    #[test]
    fn only_what_was_asked_of_a_host_that_was_heard_of_is_disproved() {
        let member = member();
        let name: NetworkAddress = ("front".parse().unwrap(), [10, 8, 9, 9].into());
        let is_disproved = |host: &str, state: PinState, asked: Option<u64>| {
            let (host, by) = (host.parse().unwrap(), "db".to_owned());
            let pin = AddressPin { host, by, state, over: None, asked, name: None, wanted: None };
            let mut view = View::default();
            view.pins.insert(name.clone(), (pin, Revision(9)));
            disproved(&view, &member, &name, Revision(5)).is_some()
        };
        assert!(is_disproved("b", PinState::Granted, None));
        // This host was lost when b asked for it, and back when the third one answered.
        assert!(!is_disproved("b", PinState::Granted, Some(4)));
        assert!(is_disproved("b", PinState::Granted, Some(6)));
        // Its own request is answered, not deleted.
        assert!(!is_disproved("a", PinState::Asked, None));
        assert!(!is_disproved("a", PinState::Held("b".to_owned()), Some(8)));
    }
}
