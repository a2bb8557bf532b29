//! Answers a process of this host that starts a container of a name for which other hosts keep addresses.

use std::net::IpAddr;
use std::time::Instant;

use cluster::book;
use cluster::{Cluster, Etcd, Revision};
use host::hosts::Reply;
use model::{Error, HostName, NetworkName, OwnerName, PinState, Result};

use super::pin::{ANSWER, taken};
use crate::Daemon;
use crate::hosts::addresses::address_lock::NetworkAddress;
use crate::hosts::{Hosts, State};

/// So many addresses that other hosts keep for one name are asked for.
const MOST_ASKED: usize = 4;

impl Hosts {
    /// Has the addresses given to this host that others keep for a name: one of each family.
    pub(in crate::hosts) fn follow(
        &self,
        daemon: &Daemon,
        network: &NetworkName,
        name: &OwnerName,
    ) -> Result<Reply> {
        // A daemon that has just started does not know yet what others keep.
        self.wait_for_begin();
        let kept = kept_elsewhere(&self.lock(), (network, name));
        if kept.is_empty() {
            return Ok(Reply::Done);
        }
        let (member, etcd) = self.heard()?;
        let mut given: Vec<IpAddr> = Vec::new();
        // A container waits: hosts that do not answer are not waited for one after the other.
        let since = Instant::now();
        let asked = kept.into_iter().take(MOST_ASKED).take_while(|_| since.elapsed() < ANSWER);
        for address in asked {
            if given.iter().any(|it| it.is_ipv4() == address.is_ipv4()) {
                continue;
            }
            let (host, by) = (&member.name, name.as_str());
            let wanted = book::PinRequest { network, address, host, by, name: Some(name) };
            // One that is held where it was is no reason to ask for no other one.
            if self.obtain(daemon, &etcd, &wanted).is_ok() {
                given.push(address);
            }
        }
        Ok(Reply::Done)
    }

    /// Waits for the host that keeps an address to hand it over; `asked` is the record that asks for it.
    pub(in crate::hosts) fn hear_kept(
        &self,
        etcd: &Etcd,
        wanted: &book::PinRequest<'_>,
        (host, asked): (&HostName, Revision),
    ) -> Result<()> {
        let key = (wanted.network.clone(), wanted.address);
        self.wait(ANSWER, |state| is_answered(state, &key, asked));
        let view = etcd.read()?;
        let Some((pin, at)) = view.pins.get(&key) else { return Err(changes(wanted)) };
        if pin.host == *wanted.host {
            return self.hear_handed(etcd, wanted, &view);
        }
        if pin.wanted.as_ref() != Some(wanted.host) {
            return Err(taken(wanted, &pin.host, &pin.by));
        }
        // What etcd has decides: a request that is withdrawn here is not heeded any more.
        let place = (wanted.network, wanted.address);
        match book::answer_kept(etcd, &view, place, (pin, *at), false)? {
            Some(_) => Err(Error::try_again(format!(
                "host {host}, which keeps address {} of network {} for {}, does not answer",
                wanted.address, wanted.network, wanted.by
            ))),
            // It has answered after all.
            None => self.hear_handed(etcd, wanted, &etcd.read()?),
        }
    }

    /// Where this host has it by now; the host of its block may have to agree.
    fn hear_handed(
        &self,
        etcd: &Etcd,
        wanted: &book::PinRequest<'_>,
        view: &cluster::View,
    ) -> Result<()> {
        let (network, address) = (wanted.network, wanted.address);
        let pin = view.pins.get(&(network.clone(), address)).map(|(pin, _)| pin);
        let pin = pin.filter(|pin| pin.host == *wanted.host).ok_or_else(|| changes(wanted))?;
        match (&pin.state, view.block_with(network, address)) {
            (PinState::Granted, _) => Ok(()),
            (_, Some((holder, _))) => self.hear_answer(etcd, wanted, holder),
            (_, None) => Err(changes(wanted)),
        }
    }
}

fn changes(wanted: &book::PinRequest<'_>) -> Error {
    Error::try_again(format!("address {} changes right now", wanted.address))
}

/// What other hosts keep for a name, where the network keeps addresses for names.
fn kept_elsewhere(state: &State, (network, name): (&NetworkName, &OwnerName)) -> Vec<IpAddr> {
    let (Some(view), Some(member)) = (&state.view, &state.member) else { return Vec::new() };
    match view.networks.get(network).is_some_and(|network| network.sticky) {
        true => book::kept_elsewhere(view, (network, name), &member.name),
        false => Vec::new(),
    }
}

fn is_answered(state: &State, key: &NetworkAddress, asked: Revision) -> bool {
    state.view.as_ref().is_some_and(|view| match view.pins.get(key) {
        Some((_, at)) => *at > asked,
        None => view.revision > asked,
    })
}
