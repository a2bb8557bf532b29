//! The page: views of this host's networks for a browser, at a socket that only the superuser may
//! connect to, and at a loopback address where one is configured.

mod live;

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use config::{Level, WebConfig};
use flate2::Compression;
use flate2::write::GzEncoder;
use host::facts::HostFacts;
use host::host_context::HostContext;
use host::hosts;
use host::time;
use host::views::{Filled, Outside};
use host::web::http::{Connection, HttpListener};
use host::web::{self, Refusal, Request};
use model::{Error, Kind, Result};
use page::{Frame, View};

use super::Daemon;
use crate::sockets::{self, SocketFile};

/// What this host is called.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// A smaller body is not compressed, in bytes.
const SMALL: usize = 1400;

/// For how long checks hold: they take seconds on a host with many containers, and may wait for
/// plugins.
const FRESH: Duration = Duration::from_secs(5);

/// For how long the kernel's description of this host is used.
const FACTS: Duration = Duration::from_secs(5);

const NOT_FOUND: &str = "404 Not Found";

const HTML: &str = "text/html; charset=utf-8";

/// The loopback address that the configuration names.
pub(super) fn loopback(config: &WebConfig) -> Result<Option<HttpListener>> {
    let address = config.listen.filter(|_| config.enabled);
    address.map(|address| sockets::bind_tcp(address).map(HttpListener::Tcp)).transpose()
}

/// What the threads that answer share.
#[derive(Default)]
struct Shared {
    /// How many browsers listen to changes.
    listening: AtomicUsize,
    /// The last checks, and when they were made, also in UTC.
    checks: Mutex<Option<(Instant, String, Filled)>>,
    /// What the kernel says of this host: with a thousand devices that takes longer than all else.
    facts: Mutex<Option<(Instant, HostFacts)>>,
    /// Whether a thread makes checks.
    is_checking: AtomicBool,
    /// Whether a thread explains.
    is_explaining: AtomicBool,
}

impl Shared {
    fn facts(&self) -> Result<HostFacts> {
        let known = || self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, facts)) = known().clone().filter(|(made, _)| made.elapsed() < FACTS) {
            return Ok(facts);
        }
        let facts = host::facts::read()?;
        *known() = Some((Instant::now(), facts.clone()));
        Ok(facts)
    }
}

/// An answer with its body.
struct Reply {
    status: &'static str,
    kind: &'static str,
    body: String,
}

impl Daemon {
    /// Serves the page; the rest of the daemon works without.
    pub(super) fn serve_web(
        self: &Arc<Self>,
        loopback: Option<HttpListener>,
    ) -> Option<SocketFile> {
        let config = self.context_pool.config();
        if !config.web.enabled {
            return None;
        }
        let shared = Arc::new(Shared::default());
        let bound =
            sockets::bind(&web::socket(&config.store.runtime)).and_then(|(socket, made)| {
                self.serve_page("web", HttpListener::Unix(socket), &shared)?;
                loopback.map_or(Ok(()), |door| self.serve_page("web-tcp", door, &shared))?;
                Ok(made)
            });
        bound
            .map_err(|error| {
                let what = format!("the page is not served: {error}");
                self.journal.log.say(Level::Warn, &what, &[]);
            })
            .ok()
    }

    fn serve_page(
        self: &Arc<Self>,
        name: &str,
        door: HttpListener,
        shared: &Arc<Shared>,
    ) -> Result<()> {
        let shared = Arc::clone(shared);
        let is_loopback = matches!(door, HttpListener::Tcp(_));
        let work = move |daemon: &Daemon| {
            door.serve(&|connection, has_asked| {
                daemon.answer(connection, has_asked, is_loopback, &shared)
            });
        };
        self.spawn(name, work).map(drop)
    }

    fn answer(
        &self,
        connection: &mut dyn Connection,
        has_asked: &AtomicBool,
        is_loopback: bool,
        shared: &Shared,
    ) -> io::Result<()> {
        let Some(head) = web::head_of(connection)? else { return Ok(()) };
        let judged = Request::read(&head).and_then(|request| {
            if is_loopback {
                request.check_loopback()?;
            }
            Ok(request)
        });
        let request = match judged {
            Ok(request) => request,
            Err(refusal) => return web::refuse(connection, &refusal),
        };
        has_asked.store(true, Ordering::Release);
        match page::view(&request.target) {
            Some(View::Live) if request.is_get => self.live(connection, &shared.listening),
            Some(view) => send(connection, &request, self.reply(&view, shared)),
            None if is_flat(&request.target) => {
                let error = Error::not_found("there is no such view; choose one above");
                send(connection, &request, self.failure(&error))
            }
            // Its links would not lead to the views.
            None => {
                let sentence = "there is no such view";
                web::refuse(connection, &Refusal { status: NOT_FOUND, sentence })
            }
        }
    }

    fn reply(&self, view: &View, shared: &Shared) -> Reply {
        let fixed = |kind, body: &str| Reply { status: "200 OK", kind, body: body.to_owned() };
        match view {
            View::Style => return fixed("text/css; charset=utf-8", page::STYLE),
            View::Script => return fixed("text/javascript; charset=utf-8", page::SCRIPT),
            View::Icon => return fixed("image/svg+xml", page::ICON),
            _ => {}
        }
        let mut frame = self.frame();
        let content = match view {
            View::Checks => self.checks(shared, &mut frame),
            View::Explain(_) => self.explained(view, shared),
            _ => self.content(view, shared),
        };
        match content {
            Ok(Some((content, notes))) => {
                frame.notes = notes;
                Reply { status: "200 OK", kind: HTML, body: page::document(&frame, &content) }
            }
            Ok(None) => Reply { status: "204 No Content", kind: HTML, body: String::new() },
            Err(error) => self.failure(&error),
        }
    }

    fn failure(&self, error: &Error) -> Reply {
        let status = match error.kind() {
            Kind::NotFound => NOT_FOUND,
            _ => "503 Service Unavailable",
        };
        Reply { status, kind: HTML, body: page::failure(&self.frame(), &error.to_string()) }
    }

    /// The checks of a few seconds ago, or new ones; the document says as of when.
    fn checks(&self, shared: &Shared, frame: &mut Frame) -> Result<Option<Filled>> {
        let known = || shared.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = known().clone().filter(|(made, ..)| made.elapsed() < FRESH);
        if let Some((_, time, filled)) = fresh {
            frame.time = time;
            return Ok(Some(filled));
        }
        let busy = "this host is being checked already; look again soon";
        let filled = alone(&shared.is_checking, busy, || self.content(&View::Checks, shared));
        if let Ok(Some(filled)) = &filled {
            *known() = Some((Instant::now(), frame.time.clone(), filled.clone()));
        }
        filled
    }

    /// One at a time: every browser with the token may ask.
    fn explained(&self, view: &View, shared: &Shared) -> Result<Option<Filled>> {
        let busy = "another way is being explained; ask again";
        alone(&shared.is_explaining, busy, || self.content(view, shared))
    }

    fn content(&self, view: &View, shared: &Shared) -> Result<Option<Filled>> {
        let pool = &self.context_pool;
        let config = pool.config();
        let is_neutron = config.kuryr.enabled || config.neutron.is_some();
        let outside = Outside {
            facts: &|| shared.facts(),
            running: &|| host::engines::running(&config.docker),
            runs: &|name| host::engines::runs(&config.docker, name),
            foreign: &|| pool.foreign(),
            neutron: &|| is_neutron.then(|| pool.neutron()).transpose(),
            listed: &|| host::cloud::listed(&config.docker, host::engines::TIMEOUT),
        };
        pool.with(|host_context: &HostContext| {
            (self.views.content)(view, &|| Ok(host_context.engine()), config, &outside)
        })
    }

    fn frame(&self) -> Frame {
        let name = std::fs::read_to_string(HOSTNAME).unwrap_or_default();
        Frame {
            host: name.trim().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            time: time::rfc3339(time::now()),
            is_member: hosts::is_member(&hosts::place(&self.context_pool.config().store.state)),
            asks_again: false,
            notes: Vec::new(),
        }
    }
}

/// What only one thread does at a time; `busy` is what another one hears meanwhile.
fn alone<T>(is_busy: &AtomicBool, busy: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    if is_busy.swap(true, Ordering::AcqRel) {
        return Err(Error::try_again(busy));
    }
    let done = work();
    is_busy.store(false, Ordering::Release);
    done
}

/// Whether a target has no directories, so that relative links hold there.
fn is_flat(target: &str) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    path.matches('/').count() == 1
}

fn send(connection: &mut dyn Connection, request: &Request, reply: Reply) -> io::Result<()> {
    let (mut body, mut more) = (reply.body.into_bytes(), "Vary: Accept-Encoding\r\n");
    if request.accepts_gzip && body.len() > SMALL {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&body)?;
        body = gzip.finish()?;
        more = "Vary: Accept-Encoding\r\nContent-Encoding: gzip\r\n";
    }
    let mut answer = web::head(reply.status, reply.kind, Some(body.len()), more).into_bytes();
    if request.is_get {
        answer.extend_from_slice(&body);
    }
    web::write(connection, &answer)
}
