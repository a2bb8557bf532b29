//! Answers a process of this host that wants an address outside this host's blocks.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use cluster::book::{self, Pinning};
use cluster::{Cluster, Etcd, is_refusal};
use host::hosts::Reply;
use model::{AddressPin, Error, HostName, NetworkName, OwnerName, PinState, Result};

use crate::Daemon;
use crate::hosts::{Hosts, State};

/// How long a host has to answer for an address of its block.
pub(in crate::hosts) const ANSWER: Duration = Duration::from_secs(5);
/// How long to wait for a host to give an address back: its container may have gone a moment ago.
const GIVEN_BACK: Duration = Duration::from_secs(2);

impl Hosts {
    /// Has an address given to this host.
    pub(in crate::hosts) fn pin(
        &self,
        daemon: &Daemon,
        (network, address): (&NetworkName, IpAddr),
        by: &str,
    ) -> Result<Reply> {
        let (member, etcd) = self.heard()?;
        let kept = self.kept_by(network, address);
        let host = &member.name;
        let name = kept.as_ref().map(|(name, _)| name).filter(|name| name.as_str() == by);
        let wanted = book::PinRequest { network, address, host, by, name };
        match &kept {
            // What another name keeps elsewhere is refused with the record of that.
            Some((other, keeper)) if name.is_none() && keeper == host => {
                Err(taken(&wanted, host, other.as_str()))
            }
            _ => self.obtain(daemon, &etcd, &wanted).map(|()| Reply::Done),
        }
    }

    /// The name that keeps an address, and on which host.
    fn kept_by(&self, network: &NetworkName, address: IpAddr) -> Option<(OwnerName, HostName)> {
        let state = self.lock();
        let view = state.view.as_ref()?;
        let is_sticky = view.networks.get(network)?.sticky;
        let (pin, _) = view.pins.get(&(network.clone(), address))?;
        Some((pin.name.clone().filter(|_| is_sticky)?, pin.host.clone()))
    }

    /// Has an address given to this host, and notes it.
    pub(in crate::hosts) fn obtain(
        &self,
        daemon: &Daemon,
        etcd: &Etcd,
        wanted: &book::PinRequest<'_>,
    ) -> Result<()> {
        let key = (wanted.network.clone(), wanted.address);
        let locked = self.lock_address(&key, ANSWER).ok_or_else(|| {
            Error::try_again(format!(
                "address {} of network {} is being asked for by another process of this host",
                wanted.address, wanted.network
            ))
        })?;
        // The keeper gives back what no container has.
        self.set(|state| {
            state.fresh.insert(key.clone(), Instant::now());
        });
        let noted = self.ask_for(etcd, wanted).and_then(|()| note(daemon, wanted));
        self.set(|state| {
            match &noted {
                Ok(()) => state.fresh.insert(key, Instant::now()),
                Err(_) => state.fresh.remove(&key),
            };
        });
        drop(locked);
        self.nudge();
        noted
    }

    fn ask_for(&self, etcd: &Etcd, wanted: &book::PinRequest<'_>) -> Result<()> {
        let gone = self.lock().gone.clone();
        let pinning = match book::pin(etcd, wanted, &gone)? {
            Pinning::Taken(..) => {
                let is_mine =
                    |state: &State| seen(state, wanted).is_none_or(|pin| pin.host == *wanted.host);
                self.wait(GIVEN_BACK, is_mine);
                book::pin(etcd, wanted, &gone)?
            }
            other => other,
        };
        match pinning {
            Pinning::Granted => Ok(()),
            Pinning::Taken(host, by) => Err(taken(wanted, &host, &by)),
            Pinning::Asked(host) => self.hear_answer(etcd, wanted, &host),
            Pinning::Wanted(host, at) => self.hear_kept(etcd, wanted, (&host, at)),
        }
    }

    /// Waits for the host in whose block the address is.
    pub(in crate::hosts) fn hear_answer(
        &self,
        etcd: &Etcd,
        wanted: &book::PinRequest<'_>,
        host: &HostName,
    ) -> Result<()> {
        let is_answered = |state: &State| {
            seen(state, wanted)
                .is_some_and(|pin| pin.host == *wanted.host && pin.state != PinState::Asked)
        };
        self.wait(ANSWER, is_answered);
        // What etcd has decides: a request that is withdrawn here cannot be granted any more.
        let key = (wanted.network.clone(), wanted.address);
        let (pin, at) =
            etcd.read()?.pins.remove(&key).filter(|(pin, _)| pin.host == *wanted.host).ok_or_else(
                || {
                    Error::try_again(format!(
                        "the request for address {} was withdrawn",
                        wanted.address
                    ))
                },
            )?;
        if pin.state == PinState::Granted {
            return Ok(());
        }
        match book::unpin(etcd, (wanted.network, wanted.address), at) {
            // The next comparison withdraws it.
            Err(error) if is_refusal(&error) => {}
            withdrawn => withdrawn?,
        }
        match pin.state {
            PinState::Held(by) => Err(taken(wanted, host, &by)),
            PinState::Asked | PinState::Granted | PinState::Other => {
                Err(Error::try_again(format!(
                    "host {host}, in whose block address {} of network {} is, does not answer",
                    wanted.address, wanted.network
                )))
            }
        }
    }
}

/// What the others gave is in the store before a container has it, also what its name keeps: a process that is killed in
/// between takes nothing from the name.
fn note(daemon: &Daemon, wanted: &book::PinRequest<'_>) -> Result<()> {
    let (network, address) = (wanted.network, wanted.address);
    daemon.context_pool.with(|host_context| {
        let engine = host_context.engine();
        engine.addresses.note_pin(network, address)?;
        match wanted.name {
            Some(name) => engine.addresses.note_name((network, address), name),
            None => Ok(()),
        }
    })
}

fn seen<'s>(state: &'s State, wanted: &book::PinRequest<'_>) -> Option<&'s AddressPin> {
    let key = (wanted.network.clone(), wanted.address);
    state.view.as_ref()?.pins.get(&key).map(|(pin, _)| pin)
}

pub(in crate::hosts) fn taken(wanted: &book::PinRequest<'_>, host: &HostName, by: &str) -> Error {
    Error::conflict(format!(
        "address {} of network {} is held by {by} on host {host}",
        wanted.address, wanted.network
    ))
}
