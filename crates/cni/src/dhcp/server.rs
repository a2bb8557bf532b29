//! The daemon's end of the DHCP daemon's protocol.

use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use model::{Error, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::call::{ALLOCATE, CHECK, COLLECT, NOTHING, RELEASE, RESPONSE, RESULT, result};
use super::call::{structure, text};
use super::callers::{Callers, Slot};
use super::client::unknown;
use super::gob::{Record, Value};
use super::rpc::{CONNECT, CONNECTED, Line};
use super::{Service, spec};

/// How long a connection may be idle.
pub(super) const IDLE: Duration = Duration::from_secs(30);
/// More callers than this at once are sent away, the silent ones first.
const CALLERS: usize = 256;
/// How long no connection is accepted after a failure.
const PAUSE: Duration = Duration::from_millis(50);
/// The stack of a thread that answers, in bytes; only what it uses is allocated.
const STACK: usize = 256 << 10;

/// Answers every client.
pub struct Server {
    service: Arc<dyn Service>,
    callers: Arc<Callers>,
}

/// Why a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl Server {
    /// Does for callers what `service` does.
    pub fn new(service: Arc<dyn Service>) -> Self {
        Self { service, callers: Arc::new(Callers::new(CALLERS)) }
    }

    /// Serves at `listener` until `stop`, a thread for each connection.
    ///
    /// # Errors
    /// Where the kernel does not let it wait.
    pub fn run(&self, listener: &UnixListener, stop: &netlink::Stop) -> Result<Stopped> {
        let doing = |cause| Error::os("listening for DHCP's callers", cause);
        listener.set_nonblocking(true).map_err(doing)?;
        loop {
            let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) if !fds[0].revents().is_empty() => return Ok(Stopped),
                Ok(_) | Err(Errno::INTR) => {}
                Err(cause) => return Err(doing(cause.into())),
            }
            match listener.accept() {
                Ok((stream, _)) => self.welcome(stream),
                // The client has disconnected, or there is no free descriptor: then it still waits
                // in a moment, when there may be one.
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    fn welcome(&self, stream: UnixStream) {
        // Without a descriptor it is closed, too.
        let Ok(Some(place)) = self.callers.welcome(&stream) else { return };
        let service = Arc::clone(&self.service);
        let answer = move || {
            // A client that breaks the protocol or disconnects is dropped.
            let _ = converse(stream, &place, &*service);
        };
        // Without a thread the connection is closed, and the caller says so.
        let _ = thread::Builder::new().name("dhcp-call".into()).stack_size(STACK).spawn(answer);
    }
}

fn converse(stream: UnixStream, place: &Slot, service: &dyn Service) -> Result<()> {
    let broken = |cause| Error::os("answering a caller", cause);
    stream.set_nonblocking(false).map_err(broken)?;
    stream.set_write_timeout(Some(IDLE)).map_err(broken)?;
    let mut line = Line::new(stream);
    let asked = line.head(Instant::now() + IDLE)?;
    if asked != CONNECT {
        return line.say(
            "HTTP/1.0 405 Method Not Allowed\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n\
             405 must CONNECT\n",
        );
    }
    line.say(&format!("{CONNECTED}\n\n"))?;
    while let Some(request) = line.receive(Instant::now() + IDLE)? {
        let Some(arguments) = line.receive(Instant::now() + IDLE)? else { return Ok(()) };
        place.asks();
        let method = request.text("ServiceMethod");
        let (record, answered) = answer(&method, &arguments, service);
        let (record, body, error) = match answered {
            Ok(body) => (record, body, String::new()),
            Err(error) => (&NOTHING, structure([]), error),
        };
        let sequence = request.field("Seq").cloned().unwrap_or(Value::Uint(0));
        let header = structure([
            ("ServiceMethod", text(&method)),
            ("Seq", sequence),
            ("Error", text(error)),
        ]);
        line.send([(&RESPONSE, &header), (record, &body)])?;
    }
    Ok(())
}

fn answer(
    method: &str,
    arguments: &Value,
    service: &dyn Service,
) -> (&'static Record, std::result::Result<Value, String>) {
    let shown = |error: Error| error.to_string();
    let nothing = |()| structure([]);
    match method {
        ALLOCATE | CHECK => {
            let given = spec::read(arguments).and_then(|subject| match method {
                CHECK => service.check(&subject),
                _ => service.allocate(&subject),
            });
            (&RESULT, given.map(|given| result(&given)).map_err(shown))
        }
        RELEASE => {
            let done = spec::read(arguments).and_then(|subject| service.release(&subject));
            (&NOTHING, done.map(nothing).map_err(shown))
        }
        COLLECT => {
            let done = spec::read_members(arguments)
                .and_then(|(network, valid)| service.collect(&network, &valid));
            (&NOTHING, done.map(nothing).map_err(shown))
        }
        _ => (&NOTHING, Err(unknown(method))),
    }
}
