//! One lease that the thread renews.

use std::net::Ipv4Addr;
use std::sync::mpsc::Sender;
use std::time::Duration;

use model::{Error, Ipv4Net, Mac, Result};
use netlink::packet::arp::{Arp, claimed};
use netlink::packet::{EVERYBODY, PacketSocket};

use super::News;
use super::run::Surroundings;
use crate::link::{self, LocatedLink, Sockets};
use crate::packet::{Message, Terms};
use crate::{Client, Heading, Lease, LeaseStore, Step, Subject, Time};

/// How often the link is probed for an address, and how long each answer is waited for. RFC 5227
/// §1.1 is made for radio; here a container waits.
const PROBES: u32 = 2;
const PROBE: Duration = Duration::from_millis(100);
/// The interval of checks of a link that was just set up, and for how long before it is used as it
/// is.
const GLANCE: Duration = Duration::from_millis(10);
const CARRIER: Duration = Duration::from_secs(3);
/// How many messages one lease processes before the next lease.
const MESSAGES: usize = 32;

/// A question about an address, on its way.
struct Probe {
    socket: PacketSocket,
    address: Ipv4Addr,
    remaining: u32,
    until: Time,
}

/// A lease, or the way to it.
pub(super) struct Task {
    pub(super) subject: Subject,
    client: Client,
    mac: Mac,
    mtu: u32,
    /// Its name in the lease store.
    name: String,
    sockets: Option<(Sockets, Time)>,
    probe: Option<Probe>,
    waiting: Vec<Sender<Result<Terms>>>,
    /// The deadline for its link's carrier, and the time of the next check.
    carrier: Option<(Time, Time)>,
    since: Time,
    lost_sight: bool,
    /// The address that was given first.
    first: Option<Ipv4Net>,
    /// Whether the lease ended by itself, and none is on the link since.
    lost: bool,
    /// What may not be used and may still be on the link.
    refused: Option<Terms>,
}

impl Task {
    pub(super) fn new(subject: Subject, client: Client, found: &LocatedLink, name: String) -> Self {
        Self { mtu: found.mtu(), ..Self::known(subject, client, found.mac, name) }
    }

    /// A task whose link is searched later.
    pub(super) fn known(subject: Subject, client: Client, mac: Mac, name: String) -> Self {
        Self {
            subject,
            client,
            mac,
            mtu: u32::MAX,
            name,
            sockets: None,
            probe: None,
            waiting: Vec::new(),
            carrier: None,
            since: Time::default(),
            lost_sight: false,
            first: None,
            lost: false,
            refused: None,
        }
    }

    pub(super) fn resumed(self, lease: &Lease) -> Self {
        let refused = lease.lost.then(|| lease.terms.clone());
        Self { since: lease.since, first: Some(lease.first), lost: lease.lost, refused, ..self }
    }

    /// Whether it had an address and has none now.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Answers at once where there is an address, and later where there is none.
    pub(super) fn wait(&mut self, answer: Sender<Result<Terms>>) {
        match self.reported() {
            Some(terms) => drop(answer.send(Ok(terms))),
            None => self.waiting.push(answer),
        }
    }

    /// The terms that may be used: they are on disk.
    pub(super) fn reported(&self) -> Option<Terms> {
        if self.lost {
            return None;
        }
        let mut terms = self.client.terms()?.clone();
        // An MTU above the link's is meaningless.
        terms.mtu = terms.mtu.filter(|mtu| u32::from(*mtu) < self.mtu);
        Some(terms)
    }

    fn as_lease(&self, terms: &Terms) -> Lease {
        Lease {
            subject: self.subject.clone(),
            mac: self.mac,
            terms: terms.clone(),
            since: self.since,
            first: self.first.unwrap_or(terms.address),
            lost: self.lost,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.client.is_over()
    }

    /// The sockets to listen to.
    pub(super) fn sockets(&self) -> impl Iterator<Item = &PacketSocket> {
        let sockets = self.sockets.as_ref().map(|(sockets, _)| &sockets.packets);
        sockets.into_iter().chain(self.probe.as_ref().map(|probe| &probe.socket))
    }

    /// When there is something to do.
    pub(super) fn due(&self) -> Time {
        let own = self.carrier.map_or(self.client.deadline(), |(_, glance)| glance);
        let deaf = self.sockets.as_ref().map_or(Time::NEVER, |(_, until)| *until);
        let probe = self.probe.as_ref().map_or(Time::NEVER, |probe| probe.until);
        own.min(deaf).min(probe)
    }

    /// Does the work that is due, and reads what arrived.
    pub(super) fn run_once(
        &mut self,
        now: Time,
        lease_store: &LeaseStore,
        surroundings: &Surroundings,
    ) {
        if let Err(error) = self.listen(now, lease_store, surroundings) {
            // The link is down or gone; it is searched again before the next message.
            self.sockets = None;
            self.probe = None;
            surroundings.trouble(&self.subject, &error);
            self.client.unheard(now);
        }
        if self.sockets.as_ref().is_some_and(|(_, until)| now >= *until) {
            self.sockets = None;
        }
        let due = self.carrier.map_or(self.client.deadline(), |(_, glance)| glance);
        if now >= due && self.has_carrier(now, lease_store, surroundings) {
            self.strip_refused(surroundings);
            let steps = self.client.wake(now);
            self.perform(steps, now, lease_store, surroundings);
        }
    }

    /// Whether it is for the interface that is meant: another one of the same name and container
    /// has another hardware address.
    pub(super) fn is_of(&self, subject: &Subject) -> bool {
        subject.mac.is_none_or(|mac| mac == self.mac)
    }

    fn listen(
        &mut self,
        now: Time,
        lease_store: &LeaseStore,
        surroundings: &Surroundings,
    ) -> Result<()> {
        // A neighbour that sends without pause must not delay the other leases: the rest is read in
        // the next round.
        for _ in 0..MESSAGES {
            let Some((sockets, _)) = &self.sockets else { break };
            let Some((message, station)) = sockets.hear()? else { break };
            let steps = self.client.hear(&message, station, now);
            if !self.client.listens() {
                self.sockets = None;
            }
            self.perform(steps, now, lease_store, surroundings);
        }
        let Some(probe) = &mut self.probe else { return Ok(()) };
        let holder = claimed(&probe.socket, self.mac, probe.address)?;
        if holder.is_none() && now < probe.until {
            return Ok(());
        }
        if holder.is_none() && probe.remaining > 0 {
            probe.remaining -= 1;
            probe.until = now.after(PROBE);
            return probe.ask(self.mac);
        }
        self.probe = None;
        let steps = self.client.probed(holder, now);
        self.perform(steps, now, lease_store, surroundings);
        Ok(())
    }

    /// Whether the link carries packets, or was given the time to.
    fn has_carrier(
        &mut self,
        now: Time,
        lease_store: &LeaseStore,
        surroundings: &Surroundings,
    ) -> bool {
        let found = link::find(&self.subject, Some(self.mac), &*surroundings.places);
        if self.lost && matches!(found, Ok(None)) {
            self.abandon(now, lease_store, surroundings);
            return false;
        }
        let ready = match found {
            Ok(Some(found)) => found.is_ready().unwrap_or(true),
            // That is found out when something is to be sent.
            _ => true,
        };
        let (until, _) = self.carrier.unwrap_or((now.after(CARRIER), now));
        let done = ready || now >= until;
        self.carrier = (!done).then(|| (until, now.after(GLANCE)));
        done
    }

    pub(super) fn release(
        &mut self,
        now: Time,
        lease_store: &LeaseStore,
        surroundings: &Surroundings,
    ) -> Result<()> {
        for answer in self.waiting.drain(..) {
            // The caller may have stopped waiting.
            let _ = answer.send(Err(Error::try_again("the address was released meanwhile")));
        }
        // A lease that is still on disk is kept, so that its release can be repeated.
        lease_store.remove(&self.name)?;
        let steps = self.client.release();
        // Docker sets a link down when it takes it back from a container.
        if let Ok(found) = self.find(surroundings) {
            let _ = found.is_ready();
        }
        self.perform(steps, now, lease_store, surroundings);
        self.sockets = None;
        Ok(())
    }

    fn perform(
        &mut self,
        steps: Vec<Step>,
        now: Time,
        lease_store: &LeaseStore,
        surroundings: &Surroundings,
    ) {
        for step in steps {
            match step {
                Step::Send(message, heading) => {
                    let sent = self.send(&message, heading, now, surroundings);
                    self.note(sent, now, surroundings);
                }
                Step::Probe(address) => {
                    let started = self.ask_link(address, now, surroundings);
                    if started.is_err() {
                        // Without a probe the address is taken.
                        let steps = self.client.probed(None, now);
                        self.perform(steps, now, lease_store, surroundings);
                    }
                }
                Step::Keep(terms) => self.keep(*terms, now, lease_store, surroundings),
                Step::Lose(terms, why) => self.lose(&terms, why, lease_store, surroundings),
                Step::Fail(why) => self.fail(&Error::try_again(why)),
            }
        }
    }

    /// A link that cannot be used is reported once, until it can.
    fn note(&mut self, sent: Result<()>, now: Time, surroundings: &Surroundings) {
        match sent {
            Ok(()) => self.lost_sight = false,
            Err(error) => {
                self.client.unheard(now);
                if !std::mem::replace(&mut self.lost_sight, true) {
                    surroundings.trouble(&self.subject, &error);
                }
            }
        }
    }

    fn send(
        &mut self,
        message: &Message,
        heading: Heading,
        now: Time,
        surroundings: &Surroundings,
    ) -> Result<()> {
        let held = self.client.terms().map(|terms| terms.address);
        if self.sockets.is_none() {
            let found = self.find(surroundings)?;
            let own = held.map(|net| net.addr()).or(Some(message.client));
            let sockets = found.listen(own.filter(|own| !own.is_unspecified()))?;
            self.sockets = Some((sockets, now));
        }
        let Some((sockets, until)) = &mut self.sockets else { return Ok(()) };
        *until = now.after(self.client.timeout());
        let on_link = match heading {
            Heading::Server(server, _) => held.is_none_or(|net| net.contains(&server)),
            Heading::Everybody => true,
        };
        sockets.send(message, heading, on_link)
    }

    fn find(&self, surroundings: &Surroundings) -> Result<LocatedLink> {
        let found = link::find(&self.subject, Some(self.mac), &*surroundings.places)?;
        found.ok_or_else(|| {
            Error::try_again(format!(
                "the interface {} of {} is in no namespace that is known",
                self.mac, self.subject.id
            ))
        })
    }

    fn ask_link(
        &mut self,
        address: Ipv4Addr,
        now: Time,
        surroundings: &Surroundings,
    ) -> Result<()> {
        let socket = self.find(surroundings)?.listen_to_arp()?;
        let probe = Probe { socket, address, remaining: PROBES - 1, until: now.after(PROBE) };
        probe.ask(self.mac)?;
        self.probe = Some(probe);
        Ok(())
    }

    fn keep(
        &mut self,
        terms: Terms,
        now: Time,
        lease_store: &LeaseStore,
        surroundings: &Surroundings,
    ) {
        let is_new = self.first.is_none();
        self.since = now;
        self.sockets = None;
        self.first = self.first.or(Some(terms.address));
        if let Err(error) = lease_store.write(&self.name, &self.as_lease(&terms)) {
            surroundings.trouble(&self.subject, &error);
            if is_new {
                // A lease that a restart would lose must not be used.
                let steps = self.client.release();
                self.perform(steps, now, lease_store, surroundings);
                self.fail(&error);
            }
            return;
        }
        if self.lost {
            return self.regain(terms, lease_store, surroundings);
        }
        let reported = self.reported().unwrap_or_else(|| terms.clone());
        for answer in self.waiting.drain(..) {
            // The caller may have stopped waiting.
            let _ = answer.send(Ok(reported.clone()));
        }
        let id = self.subject.id.clone();
        (surroundings.report)(if is_new {
            News::Bound(id, terms)
        } else {
            News::Renewed(id, terms)
        });
    }

    /// There is no caller for an address after a loss, so the daemon puts it on the link. If that
    /// fails it is still lost, and tried again with the next renewal.
    fn regain(&mut self, terms: Terms, lease_store: &LeaseStore, surroundings: &Surroundings) {
        let priority = self.subject.dhcp.priority;
        let dressed = self.find(surroundings).and_then(|found| found.dress(&terms, priority));
        if let Err(error) = dressed {
            return surroundings.trouble(&self.subject, &error);
        }
        (self.lost, self.refused) = (false, None);
        let lease = self.as_lease(&terms);
        if let Err(error) = lease_store.write(&self.name, &lease) {
            surroundings.trouble(&self.subject, &error);
        }
        (surroundings.report)(News::Regained(self.subject.id.clone(), terms, lease.first));
    }

    fn lose(
        &mut self,
        terms: &Terms,
        why: &'static str,
        lease_store: &LeaseStore,
        surroundings: &Surroundings,
    ) {
        self.sockets = None;
        self.probe = None;
        self.refused = Some(terms.clone());
        self.strip_refused(surroundings);
        if !std::mem::replace(&mut self.lost, true) {
            (surroundings.report)(News::Lost(self.subject.id.clone(), terms.clone(), why));
        }
        if let Err(error) = lease_store.write(&self.name, &self.as_lease(terms)) {
            surroundings.trouble(&self.subject, &error);
        }
    }

    /// Takes off the link what may not be used; what fails is tried again before the next message.
    fn strip_refused(&mut self, surroundings: &Surroundings) {
        let Some(terms) = self.refused.take() else { return };
        let stripped = self.find(surroundings).and_then(|found| found.strip(&terms));
        if let Err(error) = stripped {
            self.refused = Some(terms);
            surroundings.trouble(&self.subject, &error);
        }
    }

    /// Ends the search for another address where the link no longer exists: its container is gone
    /// without a release. What is still on disk is removed later.
    fn abandon(&mut self, now: Time, lease_store: &LeaseStore, surroundings: &Surroundings) {
        self.sockets = None;
        self.carrier = None;
        match lease_store.remove(&self.name) {
            Ok(()) => self.client.abandon(),
            Err(error) => self.note(Err(error), now, surroundings),
        }
    }

    fn fail(&mut self, error: &Error) {
        for answer in self.waiting.drain(..) {
            let again = Error::new(error.kind(), error.to_string());
            // The caller may have stopped waiting.
            let _ = answer.send(Err(again.context(&self.subject.id)));
        }
        self.sockets = None;
    }
}

impl Probe {
    fn ask(&self, own: Mac) -> Result<()> {
        self.socket.send(EVERYBODY, &Arp::probe(own, self.address).encode())
    }
}
