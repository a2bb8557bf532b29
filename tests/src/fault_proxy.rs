//! An HTTP server in front of a real one that loses, delays and refuses as a test says, and counts.
//!
//! It can listen in the network of a [`World`](crate::World), and is then that world's way to a
//! service of the host outside.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use crate::http::{self, Request};
use crate::inside;

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The connection is cut, and the service never hears of the request.
    Cut,
    /// The service does the work; the connection is cut before its answer.
    DropReply,
    /// The service hears of it only after so long.
    Delay(Duration),
    /// This status instead of the service's work.
    Answer(u16),
    /// The service does the work, and this status is what it seems to answer.
    AnswerAfter(u16),
    /// [`Fault::Answer`] with nothing that says when to come back, as of a proxy without a server.
    Bare(u16),
    /// [`Fault::AnswerAfter`] with nothing that says when to come back.
    BareAfter(u16),
    /// The service hears of it when the test lets it.
    Hold(Gate),
    /// The service does the work; its answer comes when the test lets it.
    HoldReply(Gate),
}

/// Where a request waits.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Debug, Default)]
struct GateState {
    reached: bool,
    open: bool,
}

impl Gate {
    /// Waits until a request is there.
    ///
    /// # Panics
    /// When none comes for a minute.
    #[track_caller]
    pub fn reached(&self) {
        let (state, changed) = &*self.0;
        let state = changed.wait_timeout_while(locked(state), MINUTE, |state| !state.reached);
        let (state, _) = state.unwrap_or_else(PoisonError::into_inner);
        assert!(state.reached, "no request came to the gate");
    }

    /// Lets it go on, and whatever comes after it.
    pub fn open(&self) {
        locked(&self.0.0).open = true;
        self.0.1.notify_all();
    }

    pub(crate) fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut waiting = locked(state);
        waiting.reached = true;
        changed.notify_all();
        drop(changed.wait_timeout_while(waiting, MINUTE, |state| !state.open));
    }
}

/// Longer than any test waits, unless it hangs.
const MINUTE: Duration = Duration::from_secs(60);

/// One request that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// GET, POST, …
    pub method: String,
    /// Path and query.
    pub target: String,
    /// What was answered; none where the connection was cut, or while it is under way.
    pub status: Option<u16>,
    /// What was sent.
    pub body: String,
}

impl Call {
    /// The path without the query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

/// Which requests a fault is for.
#[derive(Clone, Debug)]
struct Rule {
    method: String,
    prefix: String,
    /// So many matching ones are let through before.
    before: usize,
    /// Whether it stays in force after the first.
    stays: bool,
    fault: Fault,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    calls: Vec<Call>,
    connections: usize,
    open: Vec<TcpStream>,
}

/// Where the requests go, and what is added to them.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The service itself.
    pub address: SocketAddr,
    /// Headers that replace those of the client.
    pub headers: Vec<(String, String)>,
}

/// The proxy; it ends when dropped, and cuts all connections.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    end: Arc<OwnedFd>,
    listening: Option<thread::JoinHandle<()>>,
}

impl FaultProxy {
    /// A proxy at some port of this process's loopback.
    #[track_caller]
    pub fn start(upstream: Upstream) -> Self {
        Self::on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port"), upstream)
    }

    /// A proxy at a port of the loopback of the network namespace at `netns`.
    #[track_caller]
    pub fn inside(netns: &Path, port: u16, upstream: Upstream) -> Self {
        let netns = File::open(netns).expect("a network namespace");
        let listener = inside::listen(netns, port);
        Self::on(listener, upstream)
    }

    fn on(listener: TcpListener, upstream: Upstream) -> Self {
        let address = listener.local_addr().expect("it listens");
        let state = Arc::new(Mutex::new(State::default()));
        let end = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
        let (shared, ended) = (Arc::clone(&state), Arc::clone(&end));
        let listening = thread::spawn(move || accept(&listener, &ended, &shared, &upstream));
        Self { address, state, end, listening: Some(listening) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The `nth` request from now on, counted from 1, with this method (any, if empty) and whose
    /// path begins so meets this fault.
    pub fn fail(&self, method: &str, prefix: &str, nth: usize, fault: Fault) {
        let before = nth.saturating_sub(1);
        self.add(Rule {
            method: method.into(),
            prefix: prefix.into(),
            before,
            stays: false,
            fault,
        });
    }

    /// Every such request meets this fault until [`FaultProxy::heal`].
    pub fn fail_always(&self, method: &str, prefix: &str, fault: Fault) {
        self.add(Rule {
            method: method.into(),
            prefix: prefix.into(),
            before: 0,
            stays: true,
            fault,
        });
    }

    /// No more faults.
    pub fn heal(&self) {
        locked(&self.state).rules.clear();
    }

    /// How many faults have not happened yet.
    pub fn pending(&self) -> usize {
        locked(&self.state).rules.len()
    }

    /// The requests since the last time, in the order in which they came.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut locked(&self.state).calls)
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        locked(&self.state).connections
    }

    fn add(&self, rule: Rule) {
        locked(&self.state).rules.push(rule);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.end, &1_u64.to_ne_bytes());
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
        for stream in &locked(&self.state).open {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, end: &OwnedFd, state: &Arc<Mutex<State>>, upstream: &Upstream) {
    while inside::is_asked(listener, end) {
        let Ok((stream, _)) = listener.accept() else { continue };
        let _ = stream.set_nodelay(true);
        {
            let mut state = locked(state);
            state.connections += 1;
            state.open.extend(stream.try_clone());
        }
        let (state, upstream) = (Arc::clone(state), upstream.clone());
        thread::spawn(move || {
            // A client that goes away is no failure of the proxy's.
            let _ = serve(&stream, &state, &upstream);
            let _ = stream.shutdown(Shutdown::Both);
        });
    }
}

/// The requests of one connection, until it ends or is cut.
fn serve(stream: &TcpStream, state: &Mutex<State>, upstream: &Upstream) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(request) = http::request(&mut reader)? {
        let (number, fault) = noted(state, &request);
        let reply = match fault {
            None => forward(&request, upstream)?,
            Some(Fault::Cut) => return Ok(()),
            Some(Fault::Answer(status)) => made_up(status),
            Some(Fault::Bare(status)) => bare(status),
            Some(Fault::BareAfter(status)) => {
                forward(&request, upstream)?;
                bare(status)
            }
            Some(Fault::DropReply) => {
                forward(&request, upstream)?;
                return Ok(());
            }
            Some(Fault::AnswerAfter(status)) => {
                forward(&request, upstream)?;
                made_up(status)
            }
            Some(Fault::Delay(time)) => {
                thread::sleep(time);
                forward(&request, upstream)?
            }
            Some(Fault::Hold(gate)) => {
                gate.pass();
                forward(&request, upstream)?
            }
            Some(Fault::HoldReply(gate)) => {
                let reply = forward(&request, upstream)?;
                gate.pass();
                reply
            }
        };
        if let Some(call) = locked(state).calls.get_mut(number) {
            call.status = Some(reply.status);
        }
        (&*stream).write_all(&reply.bytes())?;
    }
    Ok(())
}

/// Records a request; its number, and the fault that it meets.
fn noted(state: &Mutex<State>, request: &Request) -> (usize, Option<Fault>) {
    let mut state = locked(state);
    state.calls.push(Call {
        method: request.method.clone(),
        target: request.target.clone(),
        status: None,
        body: String::from_utf8_lossy(&request.body).into_owned(),
    });
    let number = state.calls.len() - 1;
    let is_for = |rule: &Rule| {
        (rule.method.is_empty() || rule.method == request.method)
            && request.target.starts_with(&rule.prefix)
    };
    let mut met = None;
    for (place, rule) in state.rules.iter_mut().enumerate().filter(|(_, rule)| is_for(rule)) {
        if rule.before == 0 {
            met = met.or(Some(place));
        }
        rule.before = rule.before.saturating_sub(1);
    }
    let fault = met.map(|place| match state.rules[place].stays {
        true => state.rules[place].fault.clone(),
        false => state.rules.remove(place).fault,
    });
    (number, fault)
}

struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Reply {
    fn bytes(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Said\r\n", self.status);
        for (name, value) in &self.headers {
            if !["connection", "content-length", "transfer-encoding"].contains(&name.as_str()) {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        if self.status != 204 {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        [head.as_bytes(), b"\r\n", &self.body].concat()
    }
}

/// An error as OpenStack's services write it.
fn made_up(status: u16) -> Reply {
    let body = format!(
        r#"{{"NeutronError": {{"type": "Injected", "message": "injected {status}", "detail": ""}}}}"#
    );
    let mut headers = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        ("x-openstack-request-id".to_owned(), "req-injected".to_owned()),
    ];
    if matches!(status, 429 | 503) {
        headers.push(("retry-after".to_owned(), "0".to_owned()));
    }
    Reply { status, headers, body: body.into_bytes() }
}

fn bare(status: u16) -> Reply {
    let mut reply = made_up(status);
    reply.headers.retain(|(name, _)| name != "retry-after");
    reply
}

fn forward(request: &Request, upstream: &Upstream) -> io::Result<Reply> {
    let replaced = |name: &str| {
        let ours = ["connection", "content-length", "transfer-encoding", "expect"];
        ours.contains(&name)
            || upstream.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
    };
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.target);
    let kept = request.headers.iter().filter(|(name, _)| !replaced(name));
    for (name, value) in kept.chain(&upstream.headers) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let length = request.body.len();
    head.push_str(&format!("connection: close\r\ncontent-length: {length}\r\n\r\n"));
    let stream = TcpStream::connect(upstream.address)?;
    stream.set_read_timeout(Some(2 * MINUTE))?;
    let (status, mut said) = http::exchange(stream, &[head.as_bytes(), &request.body].concat())?;
    let headers = said.headers().to_vec();
    let mut body = Vec::new();
    said.read_to_end(&mut body)?;
    Ok(Reply { status, headers, body })
}
