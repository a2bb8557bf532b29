//! Answers a process of this host that wants an address outside this host's blocks.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use cluster::book::{self, Pinning};
use cluster::{Cluster, Etcd};
use model::{AddressPin, Error, HostName, NetworkName, PinState, Result};

use super::{Hosts, State};
use crate::hosts::Reply;
use crate::serve::Daemon;

/// How long a host has to answer for an address of its block.
const ANSWER: Duration = Duration::from_secs(5);
/// How long to wait for a host to give an address back: its container may have gone a moment ago.
const GIVEN_BACK: Duration = Duration::from_secs(2);

impl Hosts {
    /// Has an address given to this host.
    pub(super) fn pin(
        &self,
        daemon: &Daemon,
        (network, address): (&NetworkName, IpAddr),
        by: &str,
    ) -> Result<Reply> {
        let (member, etcd) = self.heard()?;
        let wanted = book::Wanted { network, address, host: &member.name, by };
        let key = (network.clone(), address);
        // The keeper gives back what no container has.
        self.set(|state| {
            state.fresh.insert(key.clone(), Instant::now());
        });
        let pinned = self.ask_for(&etcd, &wanted);
        let noted = pinned.and_then(|()| {
            daemon
                .context_pool
                .with(|host_context| host_context.engine().addresses.note_pin(network, address))
        });
        self.set(|state| {
            match &noted {
                Ok(()) => state.fresh.insert(key, Instant::now()),
                Err(_) => state.fresh.remove(&key),
            };
        });
        self.nudge();
        noted.map(|()| Reply::Done)
    }

    fn ask_for(&self, etcd: &Etcd, wanted: &book::Wanted<'_>) -> Result<()> {
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
        }
    }

    fn hear_answer(&self, etcd: &Etcd, wanted: &book::Wanted<'_>, host: &HostName) -> Result<()> {
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
        book::unpin(etcd, (wanted.network, wanted.address), at)?;
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

fn seen<'s>(state: &'s State, wanted: &book::Wanted<'_>) -> Option<&'s AddressPin> {
    let key = (wanted.network.clone(), wanted.address);
    state.view.as_ref()?.pins.get(&key).map(|(pin, _)| pin)
}

fn taken(wanted: &book::Wanted<'_>, host: &HostName, by: &str) -> Error {
    Error::conflict(format!(
        "address {} of network {} is held by {by} on host {host}",
        wanted.address, wanted.network
    ))
}
