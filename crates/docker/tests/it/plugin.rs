//! A plugin that only records, a server for it, and clients that mind no manners.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use docker::server::{
    Answered, InFlight, Limits, Listener, Observe, Outcome, Plugin, Server, Stopper,
};
use libnetwork::{
    AddressSpaces, Answer, Call, IpamCapabilities, NetworkCapabilities, Profile, Scope,
};
use tempfile::TempDir;

/// Longer than anything here takes; only a failing test waits so long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

const SINCE_BOOT: Duration = Duration::from_secs(1);

pub(crate) struct Recorder {
    profile: Profile,
    seen: Mutex<CallCounts>,
    changed: Condvar,
}

#[derive(Default)]
pub(crate) struct CallCounts {
    /// Calls that were begun and ended.
    pub(crate) begun: usize,
    pub(crate) ended: usize,
    /// The most that were at work at the same time.
    pub(crate) most: usize,
    /// Calls do not end as long as this is so.
    held: bool,
    /// Calls that begin with this wait for a third party, and do not end as long as this is so.
    third_party: Option<&'static str>,
    pub(crate) outcomes: Vec<(Option<&'static str>, Outcome)>,
    pub(crate) troubles: Vec<String>,
}

impl Recorder {
    fn new(held: bool) -> Self {
        let profile = Profile {
            network: Some(NetworkCapabilities {
                scope: Scope::Local,
                connectivity: Scope::Local,
                checks_gateways: false,
            }),
            ipam: Some(IpamCapabilities { requires_mac: true, requires_replay: false }),
            spaces: Some(AddressSpaces {
                local: "here".parse().unwrap(),
                global: "everywhere".parse().unwrap(),
            }),
        };
        let seen = Mutex::new(CallCounts { held, ..CallCounts::default() });
        Self { profile, seen, changed: Condvar::new() }
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut CallCounts) -> T) -> T {
        let result = change(&mut self.seen.lock().unwrap());
        self.changed.notify_all();
        result
    }

    pub(crate) fn release(&self) {
        self.change(|seen| seen.held = false);
    }

    pub(crate) fn wait(&self, until: impl Fn(&CallCounts) -> bool) {
        let seen = self.seen.lock().unwrap();
        let waited = self.changed.wait_timeout_while(seen, TIMEOUT, |seen| !until(seen));
        assert!(!waited.unwrap().1.timed_out(), "it did not happen");
    }
}

impl Plugin for Recorder {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn call(&self, call: Call) -> model::Result<Answer> {
        self.change(|seen| {
            seen.begun += 1;
            seen.most = seen.most.max(seen.begun - seen.ended);
        });
        let asks = self.asks_others(&call);
        self.wait(|seen| !(seen.held || asks && seen.third_party.is_some()));
        self.change(|seen| seen.ended += 1);
        match call.subject() {
            Some("conflict") => Err(model::Error::conflict("\"conflict\" is taken by web")),
            Some("bug") => Err(model::Error::bug("a broken invariant")),
            Some("panic") => panic!("the plugin panics"),
            _ => Ok(Answer::Done {}),
        }
    }

    fn asks_others(&self, call: &Call) -> bool {
        let third_party = self.change(|seen| seen.third_party);
        third_party.zip(call.subject()).is_some_and(|(begin, subject)| subject.starts_with(begin))
    }
}

impl Recorder {
    /// From now on a third party does not answer to calls about what begins so; with `None` it does again.
    pub(crate) fn silence(&self, third_party: Option<&'static str>) {
        self.change(|seen| seen.third_party = third_party);
    }
}

impl Observe for Recorder {
    fn answered(&self, request: &Answered<'_>) {
        let name = request.method.map(libnetwork::Method::name);
        assert_eq!(request.error.is_none(), request.outcome == Outcome::Done);
        self.change(|seen| seen.outcomes.push((name, request.outcome)));
    }

    fn trouble(&self, what: &str) {
        self.change(|seen| seen.troubles.push(what.to_owned()));
    }
}

/// A server on a unix socket, and on what else it is given.
pub(crate) struct Stand {
    dir: TempDir,
    pub(crate) recorder: Arc<Recorder>,
    stopper: Stopper,
    running: Option<JoinHandle<model::Result<()>>>,
}

impl Stand {
    pub(crate) fn start() -> Self {
        Self::with(Limits::default(), false, Vec::new())
    }

    pub(crate) fn limited(limits: Limits) -> Self {
        Self::with(limits, false, Vec::new())
    }

    /// As the daemon does it; other connections are kept here, to see what becomes of them.
    pub(crate) fn one_request() -> Self {
        Self::in_place(TempDir::new().unwrap(), Limits::default(), Recorder::new(false), Vec::new())
    }

    /// A server whose calls do not end until they are released.
    pub(crate) fn held(limits: Limits) -> Self {
        Self::with(limits, true, Vec::new())
    }

    /// How many requests are kept.
    pub(crate) fn in_flight(&self) -> usize {
        let slots = std::fs::read_dir(self.dir.path().join("calls")).unwrap();
        let slots = slots.map(|slot| std::fs::read(slot.unwrap().path()).unwrap());
        slots.filter(|slot| slot.first().is_some_and(|byte| *byte != 0)).count()
    }

    /// What a new process finds if this one is killed now.
    pub(crate) fn killed(&self) -> Self {
        self.killed_beside(None)
    }

    /// The same where a third party does not answer.
    pub(crate) fn killed_beside(&self, third_party: Option<&'static str>) -> Self {
        let dir = TempDir::new().unwrap();
        std::fs::create_dir(dir.path().join("calls")).unwrap();
        for slot in std::fs::read_dir(self.dir.path().join("calls")).unwrap() {
            let slot = slot.unwrap();
            std::fs::copy(slot.path(), dir.path().join("calls").join(slot.file_name())).unwrap();
        }
        let limits = Limits { one_request: false, ..Limits::default() };
        let recorder = Recorder::new(false);
        recorder.silence(third_party);
        Self::in_place(dir, limits, recorder, Vec::new())
    }

    pub(crate) fn with(limits: Limits, held: bool, listeners: Vec<Listener>) -> Self {
        let limits = Limits { one_request: false, ..limits };
        Self::in_place(TempDir::new().unwrap(), limits, Recorder::new(held), listeners)
    }

    fn in_place(
        dir: TempDir,
        limits: Limits,
        recorder: Recorder,
        mut listeners: Vec<Listener>,
    ) -> Self {
        listeners.push(Listener::Unix(UnixListener::bind(dir.path().join("s")).unwrap()));
        let recorder = Arc::new(recorder);
        let calls = dir.path().join("calls");
        let server = Server {
            plugin: recorder.clone(),
            observe: recorder.clone(),
            limits,
            in_flight: Some(InFlight::open(&calls, SINCE_BOOT).unwrap()),
        };
        let (stopper, stop) = Stopper::pair();
        let running = Some(std::thread::spawn(move || server.run(listeners, stop)));
        Self { dir, recorder, stopper, running }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    pub(crate) fn connect(&self) -> Client<UnixStream> {
        let stream = UnixStream::connect(self.path()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        Client(BufReader::new(stream))
    }

    pub(crate) fn outcomes(&self) -> Vec<(Option<&'static str>, Outcome)> {
        self.recorder.change(|seen| seen.outcomes.clone())
    }

    pub(crate) fn stop(&self) {
        self.stopper.stop();
    }

    pub(crate) fn finish(&mut self) -> model::Result<()> {
        self.stop();
        self.running.take().unwrap().join().unwrap()
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.recorder.silence(None);
        self.recorder.release();
        if self.running.is_some() {
            self.finish().unwrap();
        }
    }
}

pub(crate) struct Client<S>(pub(crate) BufReader<S>);

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.0.get_mut().write_all(bytes.as_ref())?;
        self.0.get_mut().flush()
    }

    pub(crate) fn post(&mut self, method: &str, body: &str) -> Response {
        self.send(request(method, body)).unwrap();
        self.receive()
    }

    pub(crate) fn try_post(&mut self, method: &str) -> io::Result<u16> {
        self.send(request(method, ""))?;
        Ok(self.try_receive()?.status)
    }

    pub(crate) fn receive(&mut self) -> Response {
        self.try_receive().unwrap()
    }

    pub(crate) fn try_receive(&mut self) -> io::Result<Response> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let head = head.to_ascii_lowercase();
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let length = field("content-length:").map_or(0, |text| text.trim().parse().unwrap());
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(Response { status, head, body: String::from_utf8(body).unwrap() })
    }

    /// The server has closed the connection and sent nothing more.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }
}

/// A request as 20.10 sends it.
pub(crate) fn request(method: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /{method} HTTP/1.1\r\nHost: \r\nUser-Agent: Go-http-client/1.1\r\n\
         Content-Length: {length}\r\nAccept: application/vnd.docker.plugins.v1.2+json\r\n\r\n{body}"
    )
}

pub(crate) const LEAVE: &str = "NetworkDriver.Leave";

pub(crate) fn endpoint(id: &str) -> String {
    format!("{{\"NetworkID\":\"n\",\"EndpointID\":\"{id}\"}}\n")
}
