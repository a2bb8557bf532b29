//! A client's side of the protocol (RFC 2131 §4.4), as a state machine: received messages and the
//! time are the input, steps are the output.

mod speak;
#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;
use std::time::Duration;

use model::{Dhcp, Mac};

use crate::packet::{Kind, Message, Terms, code, terms};
use crate::{Lease, Subject, Time};

/// How long a client waits, and how often it repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long an answer is waited for at most, before the question is repeated.
    pub timeout: Duration,
    /// The longest delay from one question to the next; the first is a second, and each twice the one
    /// before.
    pub resend_max: Duration,
    /// For how long a first address is asked for at most.
    pub give_up: Duration,
    /// Whether servers are asked to broadcast their answers.
    pub broadcast: bool,
}

impl Default for Pace {
    /// As the reference's daemon, but that gives up after 208 s.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            resend_max: Duration::from_secs(62),
            give_up: Duration::from_secs(60),
            broadcast: false,
        }
    }
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading {
    /// All hosts on the link.
    Everybody,
    /// To the server with this address, from the client's own; and over which station of the link,
    /// should that not work by itself.
    Server(Ipv4Addr, Option<Mac>),
}

/// A step to take.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send this, and listen for answers.
    Send(Box<Message>, Heading),
    /// Probe for this address on the link, and report with [`Client::probed`].
    Probe(Ipv4Addr),
    /// This is the lease from now on: store it before it is used.
    Keep(Box<Terms>),
    /// This may not be used any more, because of that. Another address is asked for from now on.
    Lose(Box<Terms>, &'static str),
    /// There will be no address, because of this.
    Fail(String),
}

/// The first delay.
const FIRST: Duration = Duration::from_secs(1);
/// After a conflict: RFC 2131 §3.1 asks for ten seconds against loops, which the number of tries
/// prevents here.
const AFTER_DECLINE: Duration = Duration::from_secs(1);
/// How many addresses may turn out to be in use.
const DECLINES: u32 = 3;
/// How often a server is asked after a restart whether the lease still stands.
const REBOOTS: u32 = 3;
/// The shortest delay between two renewals (RFC 2131 §4.4.5) of a lease of hours.
const RENEWALS: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
enum State {
    Selecting,
    Requesting(Box<Message>),
    Probing(Box<Terms>),
    Rebooting,
    Bound,
    Renewing,
    Rebinding,
    Ended,
}

/// A client's lease.
#[derive(Clone, Debug)]
struct ClientLease {
    terms: Terms,
    since: Time,
}

/// One client, for one link.
#[derive(Clone, Debug)]
pub struct Client {
    subject: Subject,
    mac: Mac,
    pace: Pace,
    state: State,
    held: Option<ClientLease>,
    exchange: u32,
    started: Time,
    tries: u32,
    declines: u32,
    /// Whether it had an address and lost it: then it asks for as long as it takes.
    lost: bool,
    deadline: Time,
    /// The text of the last refusal.
    refusal: Option<String>,
    random: u64,
}

impl Client {
    /// One without an address, on the link with this hardware address. `random` is another number for
    /// every client.
    pub fn new(mut subject: Subject, mac: Mac, pace: Pace, now: Time, random: u64) -> Self {
        // An identifier that is configured is the identifier, from the first message to the last.
        let own = subject.dhcp.provide.iter().find(|option| option.code == code::CLIENT);
        if let Some(own) = own {
            subject.client = own.value.clone();
        }
        let mut client = Self {
            subject,
            mac,
            pace,
            state: State::Selecting,
            held: None,
            exchange: 0,
            started: now,
            tries: 0,
            declines: 0,
            lost: false,
            deadline: now,
            refusal: None,
            random: random | 1,
        };
        client.renew_exchange();
        client
    }

    /// One that had an address before it was restarted, which it asks to keep (RFC 2131 §3.2). Where that was
    /// lost, it seeks another one: what a server refused may not be used.
    pub fn resume(mut self, lease: &Lease) -> Self {
        if lease.lost {
            self.lost = true;
            return self;
        }
        self.held = Some(ClientLease { terms: lease.terms.clone(), since: lease.since });
        self.state = State::Rebooting;
        self
    }

    /// When there is something to do by itself.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// How long after a question its answer is listened for.
    pub fn timeout(&self) -> Duration {
        self.pace.timeout
    }

    /// Whether an answer can come.
    pub fn listens(&self) -> bool {
        !matches!(self.state, State::Bound | State::Ended | State::Probing(_))
    }

    /// Whether it has no address and asks for none.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// The terms that may be used.
    pub fn terms(&self) -> Option<&Terms> {
        self.held.as_ref().map(|held| &held.terms)
    }

    /// When that ends.
    pub fn expiry(&self) -> Option<Time> {
        self.held.as_ref().map(|held| held.since.after_seconds(held.terms.lease))
    }

    /// Does what is due.
    pub fn wake(&mut self, now: Time) -> Vec<Step> {
        if now < self.deadline || self.is_over() {
            return Vec::new();
        }
        if self.expiry().is_some_and(|expiry| now >= expiry) {
            return self.lose("its time is over and no server renewed it", now);
        }
        match &self.state {
            State::Selecting | State::Requesting(_) => self.select(now),
            State::Rebooting => self.reboot(now),
            State::Bound | State::Renewing | State::Rebinding => self.renew(now),
            State::Probing(_) | State::Ended => {
                self.deadline = Time::NEVER;
                Vec::new()
            }
        }
    }

    /// The link is not there now, so what was to be sent was not.
    pub fn unheard(&mut self, now: Time) {
        self.deadline = self.deadline.min(now.after(self.pace.timeout)).max(now.after(FIRST));
        if let Some(expiry) = self.expiry() {
            self.deadline = self.deadline.min(expiry);
        }
    }

    /// Processes a message that `station` sent.
    pub fn hear(&mut self, message: &Message, station: Option<Mac>, now: Time) -> Vec<Step> {
        let is_ours = message.reply
            && message.exchange == self.exchange
            && message.mac == self.mac
            && message.options.get(&code::CLIENT).is_none_or(|id| *id == self.subject.client);
        let server = message.address(code::SERVER);
        let (Some(kind), Some(server), true) = (message.kind(), server, is_ours) else {
            return Vec::new();
        };
        match (&self.state, kind) {
            (State::Selecting, Kind::Offer) => self.choose(message, now),
            (State::Requesting(offer), Kind::Ack | Kind::Nak)
                if offer.address(code::SERVER) == Some(server) =>
            {
                match kind {
                    Kind::Ack => self.consider(message, station, now),
                    _ => self.refused(message, now),
                }
            }
            (State::Rebooting | State::Renewing | State::Rebinding, Kind::Ack) => {
                self.renewed(message, station, now)
            }
            (State::Rebooting | State::Renewing | State::Rebinding, Kind::Nak) => {
                self.lose("the server says that it may not be used", now)
            }
            _ => Vec::new(),
        }
    }

    /// Processes the result of a probe.
    pub fn probed(&mut self, holder: Option<Mac>, now: Time) -> Vec<Step> {
        let State::Probing(terms) = &self.state else { return Vec::new() };
        let terms = terms.clone();
        match holder {
            None => self.bind(*terms, now),
            Some(holder) => self.decline(&terms, holder, now),
        }
    }

    /// Gives the address back, and ends.
    pub fn release(&mut self) -> Vec<Step> {
        let held = self.held.take();
        self.end();
        self.renew_exchange();
        held.map(|held| self.releasing(&held.terms)).into_iter().collect()
    }

    /// Ends: the address is no longer needed.
    pub fn abandon(&mut self) {
        self.held = None;
        self.end();
    }

    fn end(&mut self) {
        self.state = State::Ended;
        self.deadline = Time::NEVER;
    }

    fn select(&mut self, now: Time) -> Vec<Step> {
        if !self.lost && now.since(self.started) >= self.pace.give_up {
            self.end();
            return vec![Step::Fail(self.silence())];
        }
        // An offer whose request gets no answer is dropped, after some tries.
        if let State::Requesting(offer) = &self.state
            && self.tries < REBOOTS
        {
            let offer = offer.clone();
            let step = self.requesting(&offer, now);
            self.again(now);
            return vec![step];
        }
        if matches!(self.state, State::Requesting(_)) {
            self.tries = 0;
            self.state = State::Selecting;
        }
        let step = self.discovering(now);
        self.again(now);
        vec![step]
    }

    fn silence(&self) -> String {
        let (seconds, words) = (self.pace.give_up.as_secs_f32(), Dhcp::GAVE_UP);
        match &self.refusal {
            Some(refusal) => {
                format!("{words}: no DHCP server gave an address within {seconds} s: {refusal}")
            }
            None => format!(
                "{words}: no DHCP server answered within {seconds} s: none is on this link, or none \
                 has an address left"
            ),
        }
    }

    fn choose(&mut self, offer: &Message, now: Time) -> Vec<Step> {
        if terms(offer, None).is_none() {
            return Vec::new();
        }
        self.state = State::Requesting(Box::new(offer.clone()));
        self.tries = 0;
        let step = self.requesting(offer, now);
        self.again(now);
        vec![step]
    }

    fn consider(&mut self, ack: &Message, station: Option<Mac>, now: Time) -> Vec<Step> {
        let Some(terms) = terms(ack, station) else {
            return self.refused(ack, now);
        };
        let address = terms.address.addr();
        self.started = self.started.min(now);
        self.state = State::Probing(Box::new(terms));
        self.deadline = Time::NEVER;
        vec![Step::Probe(address)]
    }

    fn refused(&mut self, message: &Message, now: Time) -> Vec<Step> {
        let reason = crate::packet::text(message, code::MESSAGE).unwrap_or_default();
        self.refusal = Some(format!("the server took its offer back: {reason:?}"));
        self.start_over(now, FIRST);
        Vec::new()
    }

    fn decline(&mut self, terms: &Terms, holder: Mac, now: Time) -> Vec<Step> {
        let step = self.declining(terms);
        let address = terms.address.addr();
        self.refusal = Some(format!("{address} was given, which {holder} on the link already has"));
        self.declines += 1;
        if self.declines < DECLINES {
            self.start_over(now, AFTER_DECLINE);
            return vec![step];
        }
        if self.lost {
            self.declines = 0;
            self.start_over(now, self.pace.resend_max);
            return vec![step];
        }
        self.end();
        vec![step, Step::Fail(self.silence())]
    }

    fn start_over(&mut self, now: Time, delay: Duration) {
        self.state = State::Selecting;
        self.tries = 0;
        self.renew_exchange();
        self.deadline = now.after(delay);
    }

    fn bind(&mut self, terms: Terms, now: Time) -> Vec<Step> {
        self.lost = false;
        self.declines = 0;
        self.held = Some(ClientLease { terms: terms.clone(), since: now });
        self.rest(now);
        vec![Step::Keep(Box::new(terms))]
    }

    fn renewed(&mut self, ack: &Message, station: Option<Mac>, now: Time) -> Vec<Step> {
        let Some(given) = terms(ack, station) else { return Vec::new() };
        let held = self.terms().map(|held| held.address.addr());
        match held == Some(given.address.addr()) {
            true => self.bind(given, now),
            // It is the answer to another client's request.
            false => Vec::new(),
        }
    }

    fn rest(&mut self, now: Time) {
        self.state = State::Bound;
        self.tries = 0;
        self.deadline = self.held.as_ref().map_or(now, |held| {
            held.since.after_seconds(match held.terms.lease {
                u32::MAX => u32::MAX,
                _ => held.terms.renewal,
            })
        });
    }

    fn reboot(&mut self, now: Time) -> Vec<Step> {
        let Some(held) = self.held.clone() else { return Vec::new() };
        if self.tries >= REBOOTS {
            // Without an answer the lease stands for as long as it was given (RFC 2131 §3.2).
            self.rest(now);
            return match self.deadline <= now {
                true => self.renew(now),
                false => Vec::new(),
            };
        }
        let step = self.rebooting(&held.terms, now);
        self.again(now);
        self.cap(held.since.after_seconds(held.terms.lease));
        vec![step]
    }

    fn renew(&mut self, now: Time) -> Vec<Step> {
        let Some(held) = self.held.clone() else { return Vec::new() };
        let rebinding = held.since.after_seconds(held.terms.rebinding);
        let expiry = held.since.after_seconds(held.terms.lease);
        if !matches!(self.state, State::Renewing | State::Rebinding) {
            self.started = now;
            self.renew_exchange();
        }
        let (state, end) = match now < rebinding {
            true => (State::Renewing, rebinding),
            false => (State::Rebinding, expiry),
        };
        self.state = state;
        let least = RENEWALS.min(Duration::from_secs(u64::from(held.terms.lease)) / 16);
        self.deadline = now.after((end.since(now) / 2).max(least).max(Duration::from_millis(200)));
        self.cap(end);
        vec![self.renewing(&held.terms, now)]
    }

    fn cap(&mut self, end: Time) {
        self.deadline = self.deadline.min(end);
    }

    /// Begins again (RFC 2131 §4.4.5), at once: its user needs an address.
    fn lose(&mut self, why: &'static str, now: Time) -> Vec<Step> {
        let held = self.held.take();
        self.lost = true;
        self.started = now;
        self.declines = 0;
        self.start_over(now, Duration::ZERO);
        held.map(|held| Step::Lose(Box::new(held.terms), why)).into_iter().collect()
    }

    /// Sets when to ask again: after twice as long as before, and not together with others.
    fn again(&mut self, now: Time) {
        let longest = self.pace.resend_max.min(self.pace.timeout.max(FIRST) * 8);
        let delay = FIRST.saturating_mul(1 << self.tries.min(10)).min(longest);
        self.tries += 1;
        let tenth = delay / 10;
        let late = tenth.mul_f64(f64::from(self.next_random() as u16) / f64::from(u16::MAX) * 2.0);
        let end = self.started.after(self.pace.give_up);
        self.deadline = now.after(delay - tenth + late);
        if self.held.is_none() && !self.lost {
            self.cap(end);
        }
    }

    fn renew_exchange(&mut self) {
        self.exchange = (self.next_random() >> 16) as u32;
    }

    /// xorshift64*: what must only differ, not be secret.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
