//! Listening at the gateways of networks.
//!
//! Each gateway has sockets of its own, so that the socket by which a query comes says on which network
//! the asker is: the packet filter leads to it what comes in by the bridge of that network, and nothing
//! else (`linux/src/filter/names.rs`).

mod answer;
mod enter;
#[cfg(test)]
mod tests;
mod work;

use std::collections::{BTreeSet, HashMap};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use model::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::decide::Decision;
use crate::fenced_answer::FenceHost;
use crate::listening::{At, Listening, Socket, name_of};
use crate::opener::{Answer, Running};
use crate::pending::{All, From};
use crate::question::Transport;
use crate::refusal::Why;
use crate::results::Results;
use crate::sandbox::{Door, Sandboxes};
use crate::table::Sandbox;
use crate::table::{ServedGateway, Table};
use crate::tcp::Shared;
use crate::upstream::Host;
use work::Works;

/// How often it is looked after what no event reports: the packet filter, and the end of the daemon.
const GLANCE: Duration = Duration::from_millis(250);
/// So many datagrams are read from one socket before it is another one's turn.
const AT_ONCE: usize = 64;
/// A longer query is none, in bytes.
const LONGEST: usize = 4096;
/// So many bytes of queries may wait at a gateway; the kernel allows twice that for what it needs itself. It drops what
/// has no room, of every asker: with the usual 208 KiB one container's few hundred queries at once cost others theirs.
const WAITING: usize = 4 << 20;
/// What the sockets of servers that are asked have before their number.
const ASKED: u64 = 1 << 63;
/// The descriptor that says that the book has changed, and the one that says that it is over.
const BOOK: u64 = 0;
const STOP: u64 = 1;
/// The one that says that answers are open.
const OPENED: u64 = 2;
/// The one that says that work in sandboxes is done.
const WORKED: u64 = 3;
const FIRST: u64 = 4;

/// The records, and the host.
pub trait NameSource {
    /// Puts what has changed into the table, which is locked for nothing else: connections are answered by it.
    ///
    /// # Errors
    /// Where the records cannot be watched.
    fn refresh(&mut self, table: &RwLock<Table>) -> Result<()>;

    /// Becomes readable when something has changed.
    fn wakes(&self) -> BorrowedFd<'_>;

    /// Leads the queries of these networks to these sockets' port. It is called when they change, and
    /// otherwise now and then.
    ///
    /// # Errors
    /// Where the packet filter cannot be changed.
    fn keep(&mut self, places: &[ServedGateway], port: u16) -> Result<()>;

    /// By what sandboxes are entered.
    fn door(&self) -> Arc<dyn Door>;

    /// The socket of this name that another process left behind for this one.
    fn take(&mut self, name: &str) -> Option<OwnedFd>;

    /// Leaves a socket to the next process, under a name that no other one has.
    fn leave(&mut self, name: &str, socket: BorrowedFd<'_>);

    /// Keeps it no longer.
    fn discard(&mut self, name: &str);

    /// What was left behind and is not taken by now is not needed.
    fn discard_rest(&mut self);

    /// Reports a container that took away in its sandbox what leads its queries here. That is back.
    fn restored(&mut self, container: Option<&str>, sandbox: &Sandbox);

    /// Reports what failed, and what is tried again.
    fn failed(&mut self, doing: &str, error: &Error);
}

/// How many queries came to which end.
#[derive(Debug, Default)]
pub struct Counters {
    /// Answered from the records.
    pub answered: AtomicU64,
    /// Sent to another server.
    pub forwarded: AtomicU64,
    /// Neither.
    pub refused: AtomicU64,
    /// Sent to another server, which did not answer.
    pub failed: AtomicU64,
    /// How often containers took away in their sandboxes what leads their queries here.
    pub restored: AtomicU64,
}

impl Counters {
    pub(crate) fn count(&self, decision: &Decision) {
        let counter = match decision {
            Decision::Answer(_) => &self.answered,
            Decision::Forward(_) | Decision::Ask(..) | Decision::Learn(..) => &self.forwarded,
            Decision::Refuse(_) | Decision::Deny(..) | Decision::Drop => &self.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn fail(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Answers queries.
pub struct Server<'a> {
    book: &'a mut dyn NameSource,
    port: u16,
    epoll: OwnedFd,
    shared: Shared,
    host: Host,
    counters: Arc<Counters>,
    listening: HashMap<u64, Listening>,
    next: u64,
    generation: Option<u64>,
    places: Vec<ServedGateway>,
    kept: Option<Instant>,
    /// When the records were read.
    refreshed: Option<Instant>,
    asked: All,
    sandboxes: Sandboxes,
    works: Works,
    /// Since when it is waited for what the life before has left behind in sandboxes.
    taking: Option<Instant>,
    answers: Arc<Results<Answer>>,
    /// It ends with the server.
    _opener: Running,
}

impl<'a> Server<'a> {
    /// On `port` of each gateway. `host` is where this host's servers are named.
    ///
    /// # Errors
    /// Where the process may not open more files, or have more threads.
    pub fn new(
        book: &'a mut dyn NameSource,
        port: u16,
        host: &Path,
        (counters, gate): (Arc<Counters>, Arc<dyn FenceHost>),
    ) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(|cause| Error::os("making an epoll descriptor", cause.into()))?;
        let table = Arc::new(RwLock::new(Table::default()));
        let works = Works::new(book.door())?;
        let running = Running::start(Arc::clone(&gate))?;
        let shared = (Arc::clone(&counters), gate, running.opener());
        let shared = Shared::new(table, shared, host.to_owned());
        let (host, asked, listening) = (Host::new(host), All::default(), HashMap::new());
        let (next, generation, places, kept) = (FIRST, None, Vec::new(), None);
        Ok(Self {
            book,
            port,
            epoll,
            shared,
            host,
            counters,
            listening,
            next,
            generation,
            places,
            kept,
            refreshed: None,
            asked,
            sandboxes: Sandboxes::default(),
            works,
            taking: None,
            answers: Arc::new(Results::new()?),
            _opener: running,
        })
    }

    /// What is known, for who looks up more in it.
    pub fn table(&self) -> Arc<RwLock<Table>> {
        Arc::clone(&self.shared.table)
    }

    /// Answers until `stop` becomes readable.
    ///
    /// # Errors
    /// Where the records or the sockets cannot be watched any more.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> Result<()> {
        let done = self.answer_until(stop);
        // However it ended: nothing is led to sockets that are closed, but where nothing may leave.
        self.leave_sandboxes();
        done
    }

    fn answer_until(&mut self, stop: BorrowedFd<'_>) -> Result<()> {
        self.watch(stop, STOP)?;
        let book = self.book.wakes().try_clone_to_owned();
        let book = book.map_err(|cause| Error::os("watching the records", cause))?;
        self.watch(book.as_fd(), BOOK)?;
        self.watch(self.answers.as_fd(), OPENED)?;
        self.watch(self.works.as_fd(), WORKED)?;
        self.taking = Some(Instant::now());
        self.refresh(true)?;
        loop {
            self.discard_rest();
            let ready = self.wait()?;
            if ready.contains(&STOP) {
                return Ok(());
            }
            // What has changed before a query came is known when it is answered: the records were ready
            // before the query was, unless there was no room to say so.
            self.refresh(ready.contains(&BOOK) || ready.len() >= AT_ONCE)?;
            for number in ready {
                self.serve(number)?;
            }
            self.expire();
        }
    }

    fn watch(&self, what: BorrowedFd<'_>, number: u64) -> Result<()> {
        let data = epoll::EventData::new_u64(number);
        epoll::add(&self.epoll, what, data, epoll::EventFlags::IN)
            .map_err(|cause| Error::os("watching a socket", cause.into()))
    }

    fn wait(&self) -> Result<Vec<u64>> {
        let now = Instant::now();
        let due = self.asked.deadline().map(|due| due.saturating_duration_since(now));
        let limit = due.map_or(GLANCE, |due| due.min(GLANCE));
        let limit = self.sandboxes.pause(now).map_or(limit, |pause| limit.min(pause));
        let limit = Timespec::try_from(limit).ok();
        let mut events = Vec::with_capacity(AT_ONCE);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), limit.as_ref())
        {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(cause) => return Err(Error::os("waiting for queries", cause.into())),
        }
        Ok(events.iter().map(|event: &epoll::Event| event.data.u64()).collect())
    }

    /// Learns what has changed, if anything has, and now and then what time it is; and listens where it has to
    /// be.
    fn refresh(&mut self, is_changed: bool) -> Result<()> {
        let table = Arc::clone(&self.shared.table);
        let now = Instant::now();
        let is_recent = |at: Instant| now.saturating_duration_since(at) < GLANCE;
        if is_changed || !self.refreshed.is_some_and(is_recent) {
            self.refreshed = Some(now);
            self.book.refresh(&table)?;
            let table = table.read().unwrap_or_else(PoisonError::into_inner);
            if self.generation != Some(table.generation()) {
                self.generation = Some(table.generation());
                self.places = table.places();
                self.kept = None;
            }
        }
        self.enter_sandboxes(now);
        if self.kept.is_some_and(is_recent) {
            return Ok(());
        }
        self.kept = Some(now);
        let held = self.listen();
        let kept = self.book.keep(&held, self.port);
        kept.unwrap_or_else(|error| self.book.failed("leading queries for names here", &error));
        Ok(())
    }

    /// Listens at each gateway, and at no other. The places that have their sockets: another process may
    /// have the port at one, which is led no queries then.
    fn listen(&mut self) -> Vec<ServedGateway> {
        let mut held = self.places.clone();
        let wanted: BTreeSet<ServedGateway> = held.iter().map(ServedGateway::unnamed).collect();
        let gone = |here: &Listening| here.place().is_some_and(|it| !wanted.contains(it));
        for (_, here) in self.listening.extract_if(|_, here| gone(here)) {
            here.name().into_iter().for_each(|name| self.book.discard(&name));
        }
        let there: BTreeSet<ServedGateway> =
            self.listening.values().filter_map(|socket| socket.place().cloned()).collect();
        held.retain(|place| {
            let opened = if there.contains(&place.unnamed()) { Ok(()) } else { self.open(place) };
            let failed = |error| self.book.failed("answering queries for names", &error);
            opened.map_err(failed).is_ok()
        });
        held
    }

    fn open(&mut self, place: &ServedGateway) -> Result<()> {
        let doing = format!("listening at {}, port {}", place.address(), self.port);
        let failed = |cause: io::Error| Error::os(doing.clone(), cause);
        let udp = self.socket(place, SocketType::DGRAM).map_err(failed)?;
        make_room(&udp);
        let tcp = self.socket(place, SocketType::STREAM).map_err(failed)?;
        rustix::net::listen(&tcp, 64).map_err(|cause| failed(cause.into()))?;
        self.add(&At::Gateway(place.unnamed()), udp.into(), tcp.into())
    }

    /// The one of the process before, in which queries wait, or a new one.
    fn socket(&mut self, place: &ServedGateway, kind: SocketType) -> io::Result<OwnedFd> {
        let name = name_of(place.address(), kind == SocketType::STREAM);
        let expected = SocketAddr::from((place.address(), self.port));
        let is_it = |socket: &OwnedFd| is_at(socket, kind, expected);
        if let Some(left) = self.book.take(&name) {
            if is_it(&left) {
                return Ok(left);
            }
            // Otherwise the next process is left that one again.
            self.book.discard(&name);
        }
        let socket = bind(place.address(), self.port, kind)?;
        self.book.leave(&name, socket.as_fd());
        Ok(socket)
    }

    /// Both, or neither: where one is, the other counts as there.
    fn add(&mut self, at: &At, udp: UdpSocket, tcp: TcpListener) -> Result<()> {
        let sockets = [Socket::Udp(udp), Socket::Tcp(tcp)];
        let sockets = sockets.map(|socket| Listening { at: at.clone(), socket });
        for (number, socket) in (self.next..).zip(&sockets) {
            self.watch(socket.as_fd(), number)?;
        }
        for socket in sockets {
            self.listening.insert(self.next, socket);
            self.next += 1;
        }
        Ok(())
    }

    fn serve(&mut self, number: u64) -> Result<()> {
        match number {
            OPENED => self.send_opened(),
            WORKED => self.finish_works(),
            _ if number & ASKED != 0 => self.hear(number & !ASKED),
            _ => return self.serve_asker(number),
        }
        Ok(())
    }

    fn serve_asker(&mut self, number: u64) -> Result<()> {
        match self.listening.get(&number) {
            Some(Listening { socket: Socket::Udp(_), .. }) => return self.receive(number),
            Some(here @ Listening { socket: Socket::Tcp(listener), .. }) => {
                for _ in 0..AT_ONCE {
                    let Ok((stream, peer)) = listener.accept() else { break };
                    let table = self.shared.table.read().unwrap_or_else(PoisonError::into_inner);
                    // Others are closed: what counts connections counts addresses.
                    if let Some(origin) = here.origin(&table, peer.ip()) {
                        self.shared.accept(stream, origin.into_owned());
                    }
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Whether the records say that they have changed.
    fn is_outdated(&self) -> bool {
        let mut book = [PollFd::from_borrowed_fd(self.book.wakes(), PollFlags::IN)];
        poll(&mut book, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    fn receive(&mut self, number: u64) -> Result<()> {
        let mut buffer = [0; LONGEST];
        for turn in 0..AT_ONCE {
            let Some(Socket::Udp(socket)) = self.listening.get(&number).map(|it| &it.socket) else {
                return Ok(());
            };
            let (length, peer) = match socket.recv_from(&mut buffer) {
                Ok(received) => received,
                Err(cause) if cause.kind() == ErrorKind::Interrupted => continue,
                // What an earlier answer met is reported here, too.
                Err(cause) if cause.kind() == ErrorKind::ConnectionRefused => continue,
                Err(_) => return Ok(()),
            };
            // The first one was there when the records were read. Later ones may know of later records.
            if turn > 0 && self.is_outdated() {
                self.refresh(true)?;
            }
            let Some(here) = self.listening.get(&number) else { return Ok(()) };
            let Socket::Udp(socket) = &here.socket else { return Ok(()) };
            let message = buffer.get(..length).unwrap_or_default();
            let (origin, decision) = {
                let table = self.shared.table.read().unwrap_or_else(PoisonError::into_inner);
                let Some(origin) = here.origin(&table, peer.ip()) else {
                    self.counters.count(&Decision::Drop);
                    continue;
                };
                let decision = origin.decide(&table, message, Transport::Udp);
                (origin, decision)
            };
            let from = From {
                asker: peer,
                listener: number,
                container: origin.address,
                holder: origin.holder.clone(),
            };
            self.counters.count(&decision);
            match decision {
                Decision::Answer(answer) | Decision::Refuse(answer) => {
                    let _ = socket.send_to(&answer, peer);
                }
                Decision::Deny(answer, name) => {
                    let _ = socket.send_to(&answer, peer);
                    self.shared.refused(&origin.asker(), name, Why::NoRule);
                }
                Decision::Learn(asked, given, refusal) => {
                    self.shared.gate.refused(&refusal);
                    let upstream = origin.upstream(&mut self.host, given, &*self.shared.gate);
                    self.forward((message, &asked), upstream, from);
                }
                Decision::Ask(asked, given) => {
                    let upstream = origin.upstream(&mut self.host, given, &*self.shared.gate);
                    self.forward((message, &asked), upstream, from);
                }
                Decision::Forward(given) => {
                    let upstream = origin.upstream(&mut self.host, given, &*self.shared.gate);
                    self.forward((message, message), upstream, from);
                }
                Decision::Drop => {}
            }
        }
        Ok(())
    }
}

/// Whether it is of this kind and at this address.
fn is_at(socket: &OwnedFd, kind: SocketType, expected: SocketAddr) -> bool {
    let address = rustix::net::getsockname(socket).and_then(SocketAddr::try_from);
    sockopt::socket_type(socket) == Ok(kind) && address == Ok(expected)
}

/// Without the right to more than the host's `rmem_max`, that has to do.
fn make_room(socket: &OwnedFd) {
    let forced = sockopt::set_socket_recv_buffer_size_force(socket, WAITING);
    let _ = forced.or_else(|_| sockopt::set_socket_recv_buffer_size(socket, WAITING));
}

/// A socket at an address that need not be there yet: bridges come with their first container.
fn bind(address: IpAddr, port: u16, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, kind, flags, None)?;
    match address {
        IpAddr::V4(_) => sockopt::set_ip_freebind(&socket, true)?,
        IpAddr::V6(_) => sockopt::set_ipv6_freebind(&socket, true)?,
    }
    if kind == SocketType::STREAM {
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    rustix::net::bind(&socket, &SocketAddr::from((address, port)))?;
    Ok(socket)
}
