//! Queries over connections (RFC 7766): few, each with a thread of its own.

mod connections;
mod exchanges;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::decide::Decision;
use crate::exchange::{Key, is_answer, is_unable, restored};
use crate::fenced_answer::{self, FenceHost, Ready};
use crate::holder::{Client, Holder};
use crate::listening::Origin;
use crate::opener::Opener;
use crate::outside_query;
use crate::question::Transport;
use crate::refusal::{Refusal, Why};
use crate::server::Counters;
use crate::table::{Asker, Table};
use crate::upstream::{Host, Servers, Upstream};
use crate::write;
use connections::Connections;
use domain::base::Message;
use domain::base::iana::Rcode;
use exchanges::Exchanges;

/// How long a connection may say nothing, and how long one lives.
const IDLE: Duration = Duration::from_secs(5);
const LIFE: Duration = Duration::from_secs(60);
/// How long a server has for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// What a thread needs, in bytes.
const STACK: usize = 256 << 10;

/// What every connection needs.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) table: Arc<RwLock<Table>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) host: PathBuf,
    pub(crate) gate: Arc<dyn FenceHost>,
    pub(crate) opener: Opener,
    open: Arc<Connections>,
    exchanges: Arc<Exchanges>,
}

impl Shared {
    pub(crate) fn new(
        table: Arc<RwLock<Table>>,
        (counters, gate, opener): (Arc<Counters>, Arc<dyn FenceHost>, Opener),
        host: PathBuf,
    ) -> Self {
        Self {
            table,
            counters,
            host,
            gate,
            opener,
            open: Arc::default(),
            exchanges: Arc::default(),
        }
    }

    /// Reports a name that was refused.
    pub(crate) fn refused(&self, asker: &Asker<'_>, name: String, why: Why) {
        let (network, source) = (asker.network.clone(), asker.address);
        self.gate.refused(&Refusal { network, source, name, why });
    }

    /// What a container gets of a server's answer.
    pub(crate) fn judged(
        &self,
        whose: (&Asker<'_>, Option<&Holder>),
        exchange: (&[u8], Vec<u8>),
        by: Transport,
    ) -> Ready {
        fenced_answer::judged(&*self.gate, &self.table, whose, exchange, by)
    }

    /// Serves a connection, or closes it where its container has too many.
    pub(crate) fn accept(&self, stream: TcpStream, origin: Origin<'static>) {
        let client = Client::new(origin.holder.as_ref(), origin.address);
        let Some(counted) = self.open.count(client, &stream) else { return };
        let shared = self.clone();
        let thread = std::thread::Builder::new().name("names-tcp".into()).stack_size(STACK);
        // Without a thread it is closed, and the asker comes again.
        let _ = thread.spawn(move || {
            let _counted = counted;
            let _ = shared.serve(stream, &origin);
        });
    }

    fn serve(&self, mut stream: TcpStream, origin: &Origin<'_>) -> io::Result<()> {
        let end = Instant::now() + LIFE;
        let mut host = Host::new(&self.host);
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(IDLE))?;
        while Instant::now() < end {
            let query = read(&mut stream, Instant::now() + IDLE)?;
            let asker = origin.asker();
            // The attachment of now: on a connection that stays open the address may go to the next one.
            let (decision, holder) = {
                let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
                let holder = table.holder_of(&asker).cloned();
                (origin.decide(&table, &query, Transport::Tcp), holder)
            };
            let whose = (&asker, holder.as_ref());
            self.counters.count(&decision);
            let answer = match decision {
                Decision::Answer(answer) | Decision::Refuse(answer) => answer,
                Decision::Deny(answer, name) => {
                    self.refused(&asker, name, Why::NoRule);
                    answer
                }
                Decision::Learn(asked, given, refusal) => {
                    self.gate.refused(&refusal);
                    self.ask(
                        whose,
                        (&query, asked),
                        &origin.upstream(&mut host, given, &*self.gate),
                    )
                }
                Decision::Ask(asked, given) => self.ask(
                    whose,
                    (&query, asked),
                    &origin.upstream(&mut host, given, &*self.gate),
                ),
                Decision::Forward(given) => {
                    let asked = query.clone();
                    self.ask(
                        whose,
                        (&query, asked),
                        &origin.upstream(&mut host, given, &*self.gate),
                    )
                }
                Decision::Drop => return Ok(()),
            };
            write(&mut stream, &answer)?;
        }
        Ok(())
    }

    /// The answer of the first server that gives one to the second message, for the first one. An equal question that
    /// another connection waits with has the same answer.
    pub(crate) fn ask(
        &self,
        whose: (&Asker<'_>, Option<&Holder>),
        (query, mut asked): (&[u8], Vec<u8>),
        upstream: &Upstream,
    ) -> Vec<u8> {
        let joined = self.exchanges.join(Key::new(&asked, upstream.clone()));
        let end = Instant::now() + time_of(upstream);
        let answered = joined.answer(end, || {
            outside_query::number(&mut asked).ok()?;
            match upstream {
                Upstream::Servers(servers) => first_able(servers, &asked, end),
                Upstream::Inside(inside) => ask(&asked, end, |limit| inside.tcp(limit)).ok(),
            }
        });
        let given = |answer| {
            let exchange = (query, restored(answer, query));
            match self.judged(whose, exchange, Transport::Tcp) {
                Ready::Now(message) => message,
                Ready::Unopened(unopened) => self.opener.open(unopened),
            }
        };
        answered.map(given).unwrap_or_else(|| {
            self.counters.fail();
            let message = Message::from_octets(query).ok();
            message.and_then(|query| write::failure(&query, Rcode::SERVFAIL)).unwrap_or_default()
        })
    }
}

/// How long one waits for an answer, whichever of its equals asks: each server has [`TIMEOUT`].
fn time_of(upstream: &Upstream) -> Duration {
    let servers = match upstream {
        Upstream::Servers(servers) => servers.all.len().max(1),
        Upstream::Inside(_) => 1,
    };
    TIMEOUT.saturating_mul(u32::try_from(servers).unwrap_or(u32::MAX))
}

/// The answer of the first server that can give one, or else what the last one says that it cannot.
fn first_able(servers: &Servers, asked: &[u8], end: Instant) -> Option<Vec<u8>> {
    let mut last = None;
    for server in &servers.all {
        match ask(asked, end, |limit| servers.tcp(*server, limit)) {
            Ok(answer) if is_unable(&answer) => last = Some(answer),
            Ok(answer) => return Some(answer),
            Err(_) => {}
        }
    }
    last
}

/// Asks one server, until the end of all of it at the latest.
fn ask(
    asked: &[u8],
    end: Instant,
    open: impl FnOnce(Duration) -> io::Result<TcpStream>,
) -> io::Result<Vec<u8>> {
    let limit = TIMEOUT.min(end.saturating_duration_since(Instant::now()));
    if limit.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let deadline = Instant::now() + limit;
    let mut stream = open(limit)?;
    stream.set_write_timeout(Some(limit))?;
    write(&mut stream, asked)?;
    let given = read(&mut stream, deadline)?;
    if is_answer(&given, asked) { Ok(given) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// A message behind its length; all of it has to be there in time.
fn read(stream: &mut TcpStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    fill(stream, &mut length, deadline)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    fill(stream, &mut message, deadline)?;
    Ok(message)
}

fn fill(stream: &mut TcpStream, mut room: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !room.is_empty() {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(remaining))?;
        match stream.read(room) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => room = room.get_mut(read..).unwrap_or_default(),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

fn write(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    let mut whole = length.to_be_bytes().to_vec();
    whole.extend_from_slice(message);
    stream.write_all(&whole)
}
