//! An engine's API as a test wants it to be, on a socket of its own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use docker::api::Api;

/// Recorded from Docker Engines 20.10.24 and 28.5.2.
pub(crate) fn recorded(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// How a path is answered.
#[derive(Clone)]
pub(crate) enum Answer {
    /// With this JSON, in chunks.
    Chunks(String),
    /// With this JSON, and its length.
    Length(String),
    /// With these bytes, and no more.
    Raw(Vec<u8>),
    /// A byte each few milliseconds, for ever.
    Drip,
    /// Never.
    Hang,
    /// With this, so much later.
    Late(Duration, Box<Answer>),
    /// With events.
    Events,
    /// With the first of these once, and with the second from then on.
    Then(Box<[Answer; 2]>),
}

#[derive(Default)]
struct State {
    answers: BTreeMap<String, Answer>,
    asked: Vec<String>,
    open: Vec<UnixStream>,
    events: Vec<UnixStream>,
    is_over: bool,
}

impl State {
    fn times(&self, path: &str) -> usize {
        self.asked.iter().filter(|asked| *asked == path).count()
    }

    /// The answer to the next request for a path.
    fn next(&mut self, path: &str) -> Option<Answer> {
        let answer = self.answers.get(path).cloned()?;
        let Answer::Then(both) = answer else { return Some(answer) };
        let [first, then] = *both;
        self.answers.insert(path.to_owned(), then);
        Some(first)
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    asked: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// The engine; everything it began ends with it.
pub(crate) struct Fake {
    pub(crate) socket: PathBuf,
    state: Arc<Shared>,
    serving: Option<std::thread::JoinHandle<()>>,
    _directory: Option<tempfile::TempDir>,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut fake = Self::at(&directory.path().join("docker.sock"));
        fake._directory = Some(directory);
        fake
    }

    pub(crate) fn at(socket: &Path) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        let state = Arc::new(Shared::default());
        let shared = state.clone();
        let serving = std::thread::spawn(move || serve(&listener, &shared));
        let socket = socket.to_owned();
        let fake = Self { socket, state, serving: Some(serving), _directory: None };
        fake.answer("/version", Answer::Length(recorded("20.10/version.json")));
        fake.answer("/info", Answer::Length(r#"{"LiveRestoreEnabled":false}"#.into()));
        fake.answer("/networks", Answer::Chunks("[]".into()));
        fake.answer("/containers/json", Answer::Chunks("[]".into()));
        fake.answer("/events", Answer::Events);
        fake
    }

    pub(crate) fn answer(&self, path: &str, answer: Answer) {
        self.state.lock().answers.insert(path.into(), answer);
    }

    /// Tells everybody who listens that something happened.
    pub(crate) fn happen(&self) {
        self.report("{}");
    }

    /// Tells everybody who listens of this event.
    pub(crate) fn report(&self, event: &str) {
        let chunk = format!("{:x}\r\n{event}\n\r\n", event.len() + 1);
        for stream in &mut self.state.lock().events {
            let _ = stream.write_all(chunk.as_bytes());
        }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.state.lock().asked.clone()
    }

    /// How often a path has been asked for.
    pub(crate) fn times(&self, path: &str) -> usize {
        self.state.lock().times(path)
    }

    /// Waits until a path has been asked for so many times more.
    pub(crate) fn wait(&self, path: &str, times: usize) {
        self.wait_in_all(path, self.times(path) + times);
    }

    /// Waits until a path has been asked for so many times since the engine began.
    pub(crate) fn wait_in_all(&self, path: &str, times: usize) {
        let limit = Duration::from_secs(30);
        let missing = |state: &mut State| state.times(path) < times;
        let state = self.state.lock();
        let (_state, waited) = self.state.asked.wait_timeout_while(state, limit, missing).unwrap();
        assert!(!waited.timed_out(), "no request for {path}");
    }

    pub(crate) fn api(&self) -> Api {
        Api::new(self.socket.clone(), Duration::from_secs(10))
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.is_over = true;
        for stream in &state.open {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        let _ = UnixStream::connect(&self.socket);
        let _ = std::fs::remove_file(&self.socket);
        let _ = self.serving.take().unwrap().join();
    }
}

fn serve(listener: &UnixListener, state: &Arc<Shared>) {
    for stream in listener.incoming() {
        let stream = stream.unwrap();
        let mut locked = state.lock();
        if locked.is_over {
            return;
        }
        locked.open.push(stream.try_clone().unwrap());
        drop(locked);
        let state = state.clone();
        std::thread::spawn(move || answer(stream, &state));
    }
}

fn answer(mut stream: UnixStream, state: &Shared) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let request = lines.next()?.ok()?;
    lines.find(|line| line.as_ref().is_ok_and(String::is_empty))?.ok()?;
    let path = request.split([' ', '?']).nth(1).unwrap().to_owned();
    let mut locked = state.lock();
    locked.asked.push(path.clone());
    state.asked.notify_all();
    let answer = match locked.next(&path) {
        Some(Answer::Late(pause, answer)) => {
            drop(locked);
            std::thread::sleep(pause);
            locked = state.lock();
            Some(*answer)
        }
        answer => answer,
    };
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let whole = match answer {
        None => "HTTP/1.1 404 Not Found\r\nContent-Length: 16\r\n\r\n{\"message\":\"no\"}".into(),
        Some(Answer::Length(json)) => {
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{json}", json.len()).into()
        }
        Some(Answer::Chunks(json)) => {
            let parts = json
                .as_bytes()
                .chunks(1000)
                .map(|part| format!("{:x}\r\n{}\r\n", part.len(), String::from_utf8_lossy(part)));
            format!("{chunked}{}0\r\n\r\n", parts.collect::<String>()).into()
        }
        Some(Answer::Raw(bytes)) => bytes,
        Some(Answer::Events) => {
            stream.write_all(chunked.as_bytes()).ok()?;
            locked.events.push(stream);
            return Some(());
        }
        // None of those that come in turn, or late, does so itself.
        Some(Answer::Hang | Answer::Then(_) | Answer::Late(..)) => return Some(()),
        Some(Answer::Drip) => {
            drop(locked);
            while stream.write_all(b"H").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
            return None;
        }
    };
    drop(locked);
    stream.write_all(&whole).ok()?;
    stream.shutdown(Shutdown::Both).ok()
}
