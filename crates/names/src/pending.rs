//! A query that another server is asked.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use domain::base::Message;
use domain::base::iana::Rcode;

use crate::holder::{Client, Holder, who_has_most};
use crate::outside_query;
use crate::upstream::Upstream;
use crate::write;

/// How long one has for an answer.
const TIMEOUT: Duration = Duration::from_millis(2000);
/// How often each is asked.
const ROUNDS: usize = 2;
/// More are not pending at once, of everybody and of one container.
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

/// The query that is asked, and who waits for it.
pub(crate) struct Pending {
    /// To the server that is asked now.
    socket: Option<UdpSocket>,
    from: From,
    /// As it came.
    query: Vec<u8>,
    /// As it is asked, with the number under which it is.
    asked: Vec<u8>,
    upstream: Upstream,
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

/// Everything that is asked at once.
#[derive(Default)]
pub(crate) struct All {
    pending: HashMap<u64, Pending>,
    of_one: HashMap<Client, usize>,
    next: u64,
    /// Those that gave way to others, and are not answered yet.
    displaced: Vec<Done>,
    /// What is received, one message after the other.
    buffer: Vec<u8>,
}

impl Pending {
    fn new((query, asked): (&[u8], &[u8]), upstream: Upstream, from: From) -> io::Result<Self> {
        let mut asked = asked.to_vec();
        outside_query::number(&mut asked)?;
        let (tries, deadline) = (0, Instant::now());
        let query = query.to_vec();
        let (socket, wrong, last) = (None, 0, None);
        Ok(Self { socket, from, query, asked, upstream, tries, deadline, wrong, last })
    }

    /// Asks the next server; `false` where all were asked often enough: once, where one has said something.
    fn ask(&mut self, now: Instant) -> bool {
        self.socket = None;
        self.wrong = 0;
        let rounds = if self.last.is_some() { 1 } else { ROUNDS };
        while self.tries < self.upstream.count() * rounds {
            let connected = self.upstream.connect(self.tries);
            self.tries += 1;
            self.deadline = now + TIMEOUT;
            let sent = connected.and_then(|socket| {
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
            if let Some(answer) = restored(given, &self.asked, &self.query) {
                return Ok(Some(answer));
            }
        }
        Err(ErrorKind::InvalidData.into())
    }

    /// That no server answered.
    fn failed(&self) -> Vec<u8> {
        let query = Message::from_octets(self.query.as_slice()).ok();
        query.and_then(|query| write::failure(&query, Rcode::SERVFAIL)).unwrap_or_default()
    }
}

/// Whether a server says that it cannot answer: another one may (as resolvers of the C library take it).
pub(crate) fn is_unable(answer: &[u8]) -> bool {
    let unable = [Rcode::SERVFAIL, Rcode::REFUSED, Rcode::NOTIMP];
    Message::from_octets(answer).is_ok_and(|answer| unable.contains(&answer.header().rcode()))
}

/// The answer with the number of the query that came; `None` where it is none.
pub(crate) fn restored(given: &[u8], asked: &[u8], query: &[u8]) -> Option<Vec<u8>> {
    let (answer, to) = (Message::from_octets(given).ok()?, Message::from_octets(asked).ok()?);
    if !answer.is_answer(&to) {
        return None;
    }
    let mut answer = given.to_vec();
    answer.get_mut(..2)?.copy_from_slice(query.get(..2)?);
    Some(answer)
}

impl All {
    /// Asks the first server. `Err` with what the asker gets where no server can be asked. The new socket is
    /// given with its number. Where as many are pending as may be, the oldest query of the container that has
    /// most gives way.
    pub(crate) fn begin(
        &mut self,
        (query, asked): (&[u8], &[u8]),
        upstream: Upstream,
        from: From,
    ) -> Result<u64, Box<Done>> {
        let refusal = || {
            let parsed = Message::from_octets(query).ok();
            let message = parsed.and_then(|query| write::failure(&query, Rcode::SERVFAIL));
            let (message, query) = (message.unwrap_or_default(), query.to_vec());
            Box::new(Done { from: from.clone(), query, message, has_failed: true })
        };
        let client = from.client();
        let count = self.of_one.get(&client).copied().unwrap_or_default();
        if count >= MOST_OF_ONE || self.pending.len() >= MOST && !self.displace(count) {
            return Err(refusal());
        }
        let made = Pending::new((query, asked), upstream, from.clone());
        let mut pending = made.map_err(|_| refusal())?;
        if !pending.ask(Instant::now()) {
            return Err(refusal());
        }
        self.next += 1;
        self.pending.insert(self.next, pending);
        *self.of_one.entry(client).or_default() += 1;
        Ok(self.next)
    }

    /// Ends the oldest query of who has most, if that is more than the newcomer has; whether one has ended.
    fn displace(&mut self, newcomer: usize) -> bool {
        let counts = self.of_one.iter().map(|(client, count)| (client, *count));
        let Some(most) = who_has_most(counts, newcomer) else { return false };
        let own = self.pending.iter().filter(|(_, pending)| pending.from.client() == most);
        let oldest = own.map(|(number, _)| *number).min();
        let done = oldest.and_then(|number| self.end(number, None));
        let is_ended = done.is_some();
        self.displaced.extend(done);
        is_ended
    }

    /// The socket of one.
    pub(crate) fn socket(&self, number: u64) -> Option<&UdpSocket> {
        self.pending.get(&number)?.socket.as_ref()
    }

    /// What came of one whose socket is readable. `Ok(None)`: nothing yet. `Err`: another server is asked,
    /// by another socket.
    pub(crate) fn hear(&mut self, number: u64) -> Result<Option<Done>, u64> {
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

    /// What gave way, and what is overdue: those that failed, and those of which another server is asked.
    pub(crate) fn expire(&mut self, now: Instant) -> (Vec<Done>, Vec<u64>) {
        let is_late = |pending: &Pending| pending.deadline <= now;
        let late = self.pending.iter().filter(|(_, it)| is_late(it)).map(|(number, _)| *number);
        let (mut done, mut again) = (std::mem::take(&mut self.displaced), Vec::new());
        for number in late.collect::<Vec<_>>() {
            let is_asked = self.pending.get_mut(&number).is_some_and(|pending| pending.ask(now));
            if is_asked {
                again.push(number);
            } else {
                done.extend(self.end(number, None));
            }
        }
        (done, again)
    }

    /// When the next one is overdue.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.pending.values().map(|pending| pending.deadline).min()
    }

    fn end(&mut self, number: u64, answer: Option<Vec<u8>>) -> Option<Done> {
        let mut pending = self.pending.remove(&number)?;
        let client = pending.from.client();
        if let Some(count) = self.of_one.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.of_one.remove(&client);
            }
        }
        let answer = answer.or(pending.last.take());
        let has_failed = answer.is_none();
        let message = answer.unwrap_or_else(|| pending.failed());
        let Pending { from, query, .. } = pending;
        Some(Done { from, query, message, has_failed })
    }
}

#[cfg(test)]
mod tests;
