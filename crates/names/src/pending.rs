//! Queries that wait for other servers.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::exchange::{Key, is_answer, is_unable, restored};
use crate::holder::{Client, Holder, who_has_most};
use crate::outside_query;
use crate::upstream::Upstream;
use crate::write;

/// How long one has for an answer.
const TIMEOUT: Duration = Duration::from_millis(2000);
/// How often each is asked.
const ROUNDS: usize = 2;
/// Who has less time left than this is not asked for anew.
const LEAST: Duration = Duration::from_millis(500);
/// More queries do not wait at once, of everybody and of one container: for one exchange, or for several.
const MOST: usize = 512;
const MOST_OF_ONE: usize = 64;
/// No message is longer, in bytes.
const LARGEST: usize = 65535;
/// So many messages that are no answer end a try: they come from who guesses, or from who keeps the one thread
/// busy that serves all networks.
const WRONG: usize = 24;

/// Who waits for an answer.
#[derive(Clone, Debug)]
pub(crate) struct From {
    /// Where it goes to.
    pub(crate) asker: SocketAddr,
    /// By which of our sockets.
    pub(crate) listener: u64,
    /// The container's address.
    pub(crate) container: IpAddr,
    /// The attachment that had the address when it asked.
    pub(crate) holder: Option<Holder>,
}

/// One of those who wait for an exchange.
#[derive(Debug)]
struct Waiting {
    /// Who came before has a lower one.
    turn: u64,
    /// Until when: all servers have their time from when it came on.
    end: Instant,
    from: From,
    /// As it came.
    query: Vec<u8>,
}

/// What is asked, and who waits for it.
pub(crate) struct Pending {
    /// To the server that is asked now.
    socket: Option<UdpSocket>,
    key: Key,
    /// In the order in which they came.
    waiting: Vec<Waiting>,
    /// As it is asked, with the number under which it is.
    asked: Vec<u8>,
    tries: usize,
    deadline: Instant,
    /// How many messages that are no answer came in this try.
    wrong: usize,
    /// What a server said that could not answer, for when no other one can.
    last: Option<Vec<u8>>,
}

impl From {
    /// Whose query it is.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.holder.as_ref(), self.container)
    }
}

/// An answer, or the news that there is none, and where it goes to.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) from: From,
    /// The query that it answers, as it came.
    pub(crate) query: Vec<u8>,
    pub(crate) message: Vec<u8>,
    pub(crate) has_failed: bool,
}

/// An exchange that is over, for all who wait for it.
#[derive(Debug)]
pub(crate) struct Ended {
    waiting: Vec<Waiting>,
    /// What a server said; `None` where none did.
    message: Option<Vec<u8>>,
}

/// Everything that is asked at once.
#[derive(Default)]
pub(crate) struct All {
    pending: HashMap<u64, Pending>,
    by_key: HashMap<Key, u64>,
    /// How many wait, of each and of all.
    of_one: HashMap<Client, usize>,
    count: usize,
    next: u64,
    turn: u64,
    /// Those that gave way to others, and are not answered yet.
    displaced: Vec<Ended>,
    /// What is received, one message after the other.
    buffer: Vec<u8>,
}

impl Waiting {
    /// What it gets of what a server said.
    fn done(self, message: Option<&[u8]>) -> Done {
        let Self { from, query, .. } = self;
        let has_failed = message.is_none();
        let message = match message {
            Some(message) => restored(message.to_vec(), &query),
            None => write::server_failure(&query),
        };
        Done { from, query, message, has_failed }
    }
}

impl Ended {
    /// What each of them gets, one after the other: an answer may be long.
    pub(crate) fn done(self) -> impl Iterator<Item = Done> {
        let Self { waiting, message } = self;
        waiting.into_iter().map(move |it| it.done(message.as_deref()))
    }
}

impl Pending {
    fn new(asked: &[u8], key: Key) -> io::Result<Self> {
        let asked = asked.to_vec();
        let (tries, deadline) = (0, Instant::now());
        let (socket, waiting, wrong, last) = (None, Vec::new(), 0, None);
        Ok(Self { socket, key, waiting, asked, tries, deadline, wrong, last })
    }

    /// Asks the next server, by a number that the others do not know; `false` where all were asked often enough: once,
    /// where one has said something.
    fn ask(&mut self, now: Instant) -> bool {
        self.socket = None;
        self.wrong = 0;
        let rounds = if self.last.is_some() { 1 } else { ROUNDS };
        while self.tries < self.key.upstream().count() * rounds {
            let connected = self.key.upstream().connect(self.tries);
            self.tries += 1;
            self.deadline = now + TIMEOUT;
            let sent = connected.and_then(|socket| {
                outside_query::number(&mut self.asked)?;
                socket.send(&self.asked)?;
                Ok(socket)
            });
            if let Ok(socket) = sent {
                self.socket = Some(socket);
                return true;
            }
        }
        false
    }

    /// The same from the beginning, for who came while these were asked; `false` where all who wait have had their time,
    /// or a server has said something.
    fn ask_anew(&mut self, now: Instant) -> bool {
        if self.last.is_some() || self.waiting.iter().all(|it| it.end < now + LEAST) {
            return false;
        }
        self.tries = 0;
        self.ask(now)
    }

    /// The answer, if one has come; what is no answer to this query is passed over.
    ///
    /// # Errors
    /// Where this try has failed: the server does not listen, or too much of what came is no answer.
    fn hear(&mut self, buffer: &mut [u8]) -> io::Result<Option<Vec<u8>>> {
        let socket = self.socket.as_ref().ok_or(ErrorKind::NotConnected)?;
        while self.wrong < WRONG {
            self.wrong += 1;
            let length = match socket.recv(buffer) {
                Ok(length) => length,
                Err(cause) if cause.kind() == ErrorKind::WouldBlock => {
                    self.wrong -= 1;
                    return Ok(None);
                }
                Err(cause) if cause.kind() == ErrorKind::Interrupted => continue,
                Err(cause) => return Err(cause),
            };
            let given = buffer.get(..length).unwrap_or_default();
            if is_answer(given, &self.asked) {
                return Ok(Some(given.to_vec()));
            }
        }
        Err(ErrorKind::InvalidData.into())
    }
}

impl All {
    /// Asks the first server, and gives the number of the new socket; `None` where an equal question waits for an
    /// answer already, which is for this one, too. `Err` with what the asker gets where no server can be asked.
    /// Where as many wait as may, the oldest query of the container that has most gives way.
    pub(crate) fn begin(
        &mut self,
        (query, asked): (&[u8], &[u8]),
        upstream: Upstream,
        from: From,
    ) -> Result<Option<u64>, Box<Done>> {
        self.turn += 1;
        let tries = u32::try_from(upstream.count() * ROUNDS).unwrap_or(u32::MAX);
        let end = Instant::now() + TIMEOUT.saturating_mul(tries);
        let waiting = Waiting { turn: self.turn, end, from, query: query.to_vec() };
        let client = waiting.from.client();
        let count = self.of_one.get(&client).copied().unwrap_or_default();
        if count >= MOST_OF_ONE || self.count >= MOST && !self.displace(count) {
            return Err(Box::new(waiting.done(None)));
        }
        let key = Key::new(asked, upstream);
        let under_way = self.by_key.get(&key).and_then(|number| self.pending.get_mut(number));
        let started = match under_way {
            Some(pending) => {
                pending.waiting.push(waiting);
                None
            }
            None => Some(self.start(asked, key, waiting)?),
        };
        *self.of_one.entry(client).or_default() += 1;
        self.count += 1;
        Ok(started)
    }

    fn start(&mut self, asked: &[u8], key: Key, waiting: Waiting) -> Result<u64, Box<Done>> {
        let started = Pending::new(asked, key).ok();
        let started = started.and_then(|mut it| it.ask(Instant::now()).then_some(it));
        let Some(mut pending) = started else { return Err(Box::new(waiting.done(None))) };
        pending.waiting.push(waiting);
        self.next += 1;
        self.by_key.insert(pending.key.clone(), self.next);
        self.pending.insert(self.next, pending);
        Ok(self.next)
    }

    /// Ends the waiting of the oldest query of who has most, if that is more than the newcomer has; whether one has
    /// ended. Others wait on for the same answer.
    fn displace(&mut self, newcomer: usize) -> bool {
        let counts = self.of_one.iter().map(|(client, count)| (client, *count));
        let Some(most) = who_has_most(counts, newcomer) else { return false };
        let own = self.pending.iter().filter_map(|(number, pending)| {
            let at = pending.waiting.iter().position(|it| it.from.client() == most)?;
            Some((pending.waiting.get(at)?.turn, *number, at))
        });
        let Some((_, number, at)) = own.min() else { return false };
        let Some(pending) = self.pending.get_mut(&number) else { return false };
        let ended = if pending.waiting.len() > 1 {
            let (waiting, message) = (vec![pending.waiting.remove(at)], pending.last.clone());
            self.leave(&most);
            Some(Ended { waiting, message })
        } else {
            self.end(number, None)
        };
        self.displaced.extend(ended);
        true
    }

    /// The socket of one.
    pub(crate) fn socket(&self, number: u64) -> Option<&UdpSocket> {
        self.pending.get(&number)?.socket.as_ref()
    }

    /// What came of one whose socket is readable. `Ok(None)`: nothing yet. `Err`: another server is asked,
    /// by another socket.
    pub(crate) fn hear(&mut self, number: u64) -> Result<Option<Ended>, u64> {
        let Some(pending) = self.pending.get_mut(&number) else { return Ok(None) };
        self.buffer.resize(LARGEST, 0);
        match pending.hear(&mut self.buffer) {
            Ok(Some(message)) if is_unable(&message) => {
                pending.last = Some(message);
                if pending.ask(Instant::now()) { Err(number) } else { Ok(self.end(number, None)) }
            }
            Ok(Some(message)) => Ok(self.end(number, Some(message))),
            Ok(None) => Ok(None),
            // It does not listen there, is out of reach, or sends something else.
            Err(_) if pending.ask(Instant::now()) => Err(number),
            Err(_) => Ok(self.end(number, None)),
        }
    }

    /// What gave way, and what is overdue: those that failed, and those of which another server is asked. For who came
    /// later than others all are asked once more, as long as it has time left.
    pub(crate) fn expire(&mut self, now: Instant) -> (Vec<Ended>, Vec<u64>) {
        let is_late = |pending: &Pending| pending.deadline <= now;
        let late = self.pending.iter().filter(|(_, it)| is_late(it)).map(|(number, _)| *number);
        let (mut ended, mut again) = (std::mem::take(&mut self.displaced), Vec::new());
        for number in late.collect::<Vec<_>>() {
            ended.extend(self.end_overdue(number, now));
            let is_asked = |pending: &mut Pending| pending.ask(now) || pending.ask_anew(now);
            if self.pending.get_mut(&number).is_some_and(is_asked) {
                again.push(number);
            } else {
                ended.extend(self.end(number, None));
            }
        }
        (ended, again)
    }

    /// When the next one is overdue.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.pending.values().map(|pending| pending.deadline).min()
    }

    fn end(&mut self, number: u64, answer: Option<Vec<u8>>) -> Option<Ended> {
        let Pending { key, waiting, last, .. } = self.pending.remove(&number)?;
        self.by_key.remove(&key);
        waiting.iter().for_each(|it| self.leave(&it.from.client()));
        Some(Ended { waiting, message: answer.or(last) })
    }

    /// Ends the waiting of those whose own time is over, where others wait on.
    fn end_overdue(&mut self, number: u64, now: Instant) -> Option<Ended> {
        let pending = self.pending.get_mut(&number)?;
        let is_over = |it: &Waiting| it.end < now + LEAST;
        if pending.waiting.iter().all(is_over) || !pending.waiting.iter().any(is_over) {
            return None;
        }
        let (over, remaining) = std::mem::take(&mut pending.waiting).into_iter().partition(is_over);
        pending.waiting = remaining;
        let ended: Ended = Ended { waiting: over, message: pending.last.clone() };
        ended.waiting.iter().for_each(|it| self.leave(&it.from.client()));
        Some(ended)
    }

    /// One of these waits no more.
    fn leave(&mut self, client: &Client) {
        self.count -= 1;
        if let Some(count) = self.of_one.get_mut(client) {
            *count -= 1;
            if *count == 0 {
                self.of_one.remove(client);
            }
        }
    }
}

#[cfg(test)]
mod tests;
