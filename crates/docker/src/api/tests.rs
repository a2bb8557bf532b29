//! An engine's API as a test wants it to be, on a socket of its own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use model::Kind;

use super::*;

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
    /// With events.
    Events,
}

#[derive(Default)]
struct State {
    answers: BTreeMap<String, Answer>,
    asked: Vec<String>,
    open: Vec<UnixStream>,
    events: Vec<UnixStream>,
    is_over: bool,
}

/// The engine; everything it began ends with it.
pub(crate) struct Fake {
    pub(crate) socket: PathBuf,
    state: Arc<Mutex<State>>,
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
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        let serving = std::thread::spawn(move || serve(&listener, &shared));
        let socket = socket.to_owned();
        let fake = Self { socket, state, serving: Some(serving), _directory: None };
        fake.answer("/version", Answer::Length(recorded("20.10/version.json")));
        fake.answer("/networks", Answer::Chunks("[]".into()));
        fake.answer("/containers/json", Answer::Chunks("[]".into()));
        fake.answer("/events", Answer::Events);
        fake
    }

    pub(crate) fn answer(&self, path: &str, answer: Answer) {
        self.state.lock().unwrap().answers.insert(path.into(), answer);
    }

    /// Tells everybody who listens that something happened.
    pub(crate) fn happen(&self) {
        for stream in &mut self.state.lock().unwrap().events {
            let _ = stream.write_all(b"3\r\n{}\n\r\n");
        }
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.state.lock().unwrap().asked.clone()
    }

    pub(crate) fn api(&self) -> Api {
        Api::new(self.socket.clone(), Duration::from_secs(10))
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap();
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

fn serve(listener: &UnixListener, state: &Arc<Mutex<State>>) {
    for stream in listener.incoming() {
        let stream = stream.unwrap();
        let mut locked = state.lock().unwrap();
        if locked.is_over {
            return;
        }
        locked.open.push(stream.try_clone().unwrap());
        drop(locked);
        let state = state.clone();
        std::thread::spawn(move || answer(stream, &state));
    }
}

fn answer(mut stream: UnixStream, state: &Mutex<State>) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let request = lines.next()?.ok()?;
    lines.find(|line| line.as_ref().is_ok_and(String::is_empty))?.ok()?;
    let path = request.split([' ', '?']).nth(1).unwrap().to_owned();
    let mut locked = state.lock().unwrap();
    locked.asked.push(path.clone());
    let answer = locked.answers.get(&path).cloned();
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
        Some(Answer::Hang) => return Some(()),
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

fn id(text: &str) -> AliasId {
    text.parse().unwrap()
}

const BOTH: &str = "8daf3e133fe29f5ba2cd4efe18c576a48cdeef0f7018dfcf3401d349dc4bfb2f";
const NULLS: &str = "2680992121a818c782a65db64147fdb9b80e1cae2885bab15b1dc8efd7505102";

#[test]
fn reads_what_an_engine_of_20_10_lists() {
    let fake = Fake::new();
    fake.answer("/networks", Answer::Chunks(recorded("20.10/networks-swarm.json")));
    let networks = fake.api().networks().unwrap();
    let both = networks.iter().find(|network| network.id == id(BOTH)).unwrap();
    let subnet = |net: &str| Subnet { net: net.parse().unwrap(), part: None };
    assert_eq!(
        *both,
        Network {
            id: id(BOTH),
            name: Some("both".parse().unwrap()),
            driver: "spoke".into(),
            ipam: "spoke".into(),
            reach: Reach::Local,
            subnets: vec![subnet("10.252.0.0/24"), subnet("fd00:1::/64")],
        }
    );
    let reach = |name: &str| {
        let found = networks.iter().find(|n| n.name.as_ref().is_some_and(|n| n.as_str() == name));
        found.unwrap().reach
    };
    assert_eq!(reach("ingress"), Reach::Swarm);
    assert_eq!(reach("conf"), Reach::Template);
    assert_eq!(fake.api().version().unwrap(), "20.10.24+dfsg1");
}

#[test]
fn reads_the_endpoints_of_a_network() {
    let fake = Fake::new();
    fake.answer(&format!("/networks/{BOTH}"), Answer::Length(recorded("20.10/network-both.json")));
    fake.answer(
        &format!("/networks/{NULLS}"),
        Answer::Chunks(recorded("20.10/network-nulls.json")),
    );
    let endpoints = fake.api().endpoints(&id(BOTH)).unwrap().unwrap();
    let addresses = |endpoint: &Endpoint| -> Vec<String> {
        endpoint.addresses.iter().map(ToString::to_string).collect()
    };
    let names: Vec<_> = endpoints.iter().map(|e| e.name.as_ref().unwrap().as_str()).collect();
    assert_eq!(names, ["dual", "web"]);
    assert_eq!(addresses(&endpoints[0]), ["10.252.0.3", "fd00:1::3"]);
    assert!(endpoints[0].id.as_str().starts_with("e397d4993018"));
    let none = fake.api().endpoints(&id(NULLS)).unwrap().unwrap();
    assert_eq!(addresses(&none[0]), [""; 0]);
    assert_eq!(fake.api().endpoints(&id("gone")).unwrap(), None);
}

#[test]
fn reads_running_containers_of_both_ages() {
    let fake = Fake::new();
    for (version, endpoints) in [("20.10", 6), ("28.5", 3)] {
        let json = recorded(&format!("{version}/containers.json"));
        fake.answer("/containers/json", Answer::Chunks(json));
        let running = fake.api().running().unwrap();
        assert_eq!(running.len(), endpoints, "{version}");
        let of_web = running.iter().filter(|(_, e)| e.name == Some("web".parse().unwrap()));
        let addresses: Vec<usize> = of_web.map(|(_, e)| e.addresses.len()).collect();
        assert_eq!(addresses, [2, 1], "{version}");
    }
}

#[test]
fn says_the_same_of_a_container_in_both_lists() {
    let fake = Fake::new();
    for (version, network) in [
        ("20.10", BOTH),
        ("28.5", &"86b4f343d70a2ac0bdec1a9ce3bbba154381e3a109685a6615721098623671e6"),
    ] {
        let file = |name: &str| Answer::Chunks(recorded(&format!("{version}/{name}.json")));
        fake.answer("/containers/json", file("containers"));
        fake.answer(&format!("/networks/{network}"), file("network-both"));
        let running = fake.api().running().unwrap();
        let mut there: Vec<Endpoint> = running
            .into_iter()
            .filter(|(of, _)| *of == Some(id(network)))
            .map(|(_, endpoint)| endpoint)
            .collect();
        let mut here = fake.api().endpoints(&id(network)).unwrap().unwrap();
        there.sort_by(|a, b| a.id.cmp(&b.id));
        here.sort_by(|a, b| a.id.cmp(&b.id));
        assert_eq!(there, here, "{version}");
    }
}

#[test]
fn takes_null_for_nothing_and_passes_over_what_it_does_not_know() {
    let fake = Fake::new();
    let lists = r#"[{"Id":"n1","Name":null,"IPAM":null,"Containers":null,"New":[{"a":[1]}]},
        {"ID":"n2","IPAM":{"Config":[null,{"Subnet":""},{"Subnet":"10.1.2.3/16","IPRange":"10.1.4.9/24"}]}}]"#;
    fake.answer("/networks", Answer::Chunks(lists.into()));
    let networks = fake.api().networks().unwrap();
    assert_eq!((networks[0].name.as_ref(), networks[0].reach), (None, Reach::Local));
    let (net, part) = ("10.1.0.0/16".parse().unwrap(), "10.1.4.0/24".parse().ok());
    assert_eq!(networks[1].subnets, [Subnet { net, part }]);
    let detail =
        r#"{"Id":"n1","Containers":{"a":null,"b":{"EndpointID":""},"ep-c":{"EndpointID":"c"}}}"#;
    fake.answer("/networks/n1", Answer::Chunks(detail.into()));
    let endpoints = fake.api().endpoints(&id("n1")).unwrap().unwrap();
    assert_eq!(endpoints.len(), 1);
}

#[test]
fn what_cannot_be_read_is_an_error_and_not_an_empty_list() {
    let fake = Fake::new();
    let ok = b"HTTP/1.1 200 OK\r\n";
    let raw = |rest: &[u8]| Answer::Raw([ok, rest].concat());
    for bad in [
        Answer::Chunks(r#"[{"Id":"n1","IPAM":{"Config":[{"Subnet":"10.0.0.0/99"}]}}]"#.into()),
        Answer::Chunks(r#"[{"Id":"../x"}]"#.into()),
        Answer::Chunks(r#"[{"Name":"n"}]"#.into()),
        Answer::Chunks(r#"{"message":"no"}"#.into()),
        Answer::Chunks(r#"[{"Id":["n1"]}]"#.into()),
        Answer::Chunks("[".repeat(100_000)),
        Answer::Chunks("[] []".into()),
        raw(b"Transfer-Encoding: chunked\r\n\r\n1\r\n[\r\n"),
        raw(b"Transfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n"),
        raw(b"Content-Length: 3\r\n\r\n[]"),
        raw(b"\r\n[{}"),
        raw(b"Content-Length: 0\r\n\r\n"),
        Answer::Raw(b"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n[]".to_vec()),
        Answer::Raw(b"HTTP/1.1 301 Moved\r\nLocation: /x\r\n\r\n".to_vec()),
        Answer::Raw(vec![]),
        Answer::Raw(vec![b'x'; 100_000]),
    ] {
        fake.answer("/networks", bad);
        let error = fake.api().networks().unwrap_err();
        assert_eq!(error.kind(), Kind::TryAgain, "{error}");
        assert!(error.to_string().contains("docker.sock"), "{error}");
    }
}

#[test]
fn an_engine_that_hangs_costs_no_more_than_its_time() {
    let fake = Fake::new();
    let api = Api::new(fake.socket.clone(), Duration::from_millis(100));
    for bad in [Answer::Hang, Answer::Drip] {
        fake.answer("/networks", bad.clone());
        fake.answer("/events", bad);
        let begin = Instant::now();
        assert!(api.networks().is_err());
        assert!(api.events().is_err());
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }
}

#[test]
fn an_engine_that_accepts_nobody_keeps_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("full.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let api = Api::new(socket.clone(), Duration::from_millis(50));
    for _ in 0..4 {
        assert!(api.networks().is_err());
    }
    drop(listener);
    assert!(api.networks().is_err());
    std::fs::remove_file(&socket).unwrap();
    assert_eq!(api.networks().unwrap_err().kind(), Kind::TryAgain);
}

#[test]
fn hears_events_and_the_end() {
    let fake = Fake::new();
    let mut events = fake.api().events().unwrap();
    assert_eq!(events.drain(), News::None);
    fake.happen();
    assert_eq!(events.drain(), News::Some);
    assert_eq!(events.drain(), News::None);
    drop(fake);
    assert_eq!(events.drain(), News::End);
}

#[test]
fn asks_for_no_container_by_itself() {
    let fake = Fake::new();
    let api = fake.api();
    let _ = (api.networks(), api.running(), api.version(), api.events(), api.endpoints(&id("n")));
    let asked = fake.asked();
    let inspects = |path: &String| path.starts_with("/containers/") && path != "/containers/json";
    assert!(!asked.iter().any(inspects), "{asked:?}");
}
