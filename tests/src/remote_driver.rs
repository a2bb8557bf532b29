//! A network driver and IPAM driver of Docker's for tests: it does the work, with
//! real devices in its world, and fails, lies, hangs and dies as a test says.
//!
//! Written from the protocol's description alone (libnetwork/docs/remote.md and ipam.md), so that
//! it shares no mistake with what it tests. It notes every call, what it still holds, and what the
//! engine did that the description does not allow.

mod data;
mod foreign;
mod ipam;
mod listen;
mod manners;
mod network;
mod ovn;
mod range;
mod translation;

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::World;
use crate::fault_proxy::Gate;
use crate::http::Request;
pub use foreign::Kuryr;
pub use listen::{Certificates, Tls};
use listen::{Listening, Place};
pub use manners::{Manners, Route};
pub use ovn::OvnDocker;

/// What becomes of a call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing is done, and this is why.
    Refuse(String),
    /// Nothing is done; this status and this body are answered.
    Status(u16, String),
    /// It is done, and this body is answered.
    Say(String),
    /// Nothing is done, and the connection ends.
    Cut,
    /// It is done, and the connection ends.
    DropReply,
    /// It is done after so long.
    Delay(Duration),
    /// It is done when the test lets it.
    Hold(Gate),
    /// It is done; the answer comes when the test lets it.
    HoldReply(Gate),
    /// The driver dies before it is done.
    Die,
    /// The driver dies when it is done.
    DieAfter,
}

/// A call that came.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Without the interface: `Join`, `RequestPool`, …
    pub method: String,
    /// What was sent; null for nothing.
    pub body: Value,
    /// What was answered; null where the connection ended before.
    pub answer: Value,
    /// Whether the endpoint's interface was in the host's network namespace when the call came.
    pub at_home: bool,
}

/// What an engine asks once of every plugin, whenever it likes.
pub const HANDSHAKE: [&str; 3] = ["Activate", "GetCapabilities", "GetDefaultAddressSpaces"];

#[derive(Debug)]
struct Rule {
    method: String,
    before: usize,
    stays: bool,
    fault: Fault,
}

#[derive(Debug)]
struct State {
    manners: Manners,
    rules: Vec<Rule>,
    asked: Vec<Asked>,
    data: data::Data,
}

/// What the threads of a driver share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The first process of its world.
    pid: u32,
    listening: Mutex<Vec<Listening>>,
}

/// A driver that answers; it ends when dropped.
#[derive(Debug)]
pub struct RemoteDriver {
    shared: Arc<Shared>,
    netns: PathBuf,
    places: Vec<Place>,
}

impl RemoteDriver {
    /// The driver `name` where every plugin of `world` is: in `/run/docker/plugins`.
    #[track_caller]
    pub fn start(world: &World, name: &str, manners: Manners) -> Self {
        let mut driver = Self::silent(world, manners);
        driver.listen(world, &format!("/run/docker/plugins/{name}.sock"));
        driver
    }

    /// A driver that listens nowhere yet.
    pub fn silent(world: &World, manners: Manners) -> Self {
        let data = data::Data::default();
        let state = State { manners, rules: Vec::new(), asked: Vec::new(), data };
        let (state, listening) = (Mutex::new(state), Mutex::new(Vec::new()));
        let shared = Arc::new(Shared { state, pid: world.pid(), listening });
        let netns = PathBuf::from(format!("/proc/{}/ns/net", world.pid()));
        Self { shared, netns, places: Vec::new() }
    }

    /// Listens at a unix socket of `world` too.
    #[track_caller]
    pub fn listen(&mut self, world: &World, path: &str) {
        self.open(Place::Unix(world.path(path)));
    }

    /// Listens at a TCP port of its world's loopback too, with TLS if so given.
    #[track_caller]
    pub fn listen_tcp(&mut self, port: u16, tls: Option<Tls>) {
        let netns = File::open(&self.netns).expect("a network namespace");
        self.open(Place::Tcp { netns: Arc::new(netns), port, tls });
    }

    #[track_caller]
    fn open(&mut self, place: Place) {
        locked(&self.shared.listening).push(place.listen(&self.shared));
        self.places.push(place);
    }

    /// The `nth` call of this method (any, if empty) from now on, counted from 1, meets this fault.
    pub fn fail(&self, method: &str, nth: usize, fault: Fault) {
        let before = nth.saturating_sub(1);
        self.add(Rule { method: method.into(), before, stays: false, fault });
    }

    /// Every such call meets this fault until [`RemoteDriver::heal`].
    pub fn fail_always(&self, method: &str, fault: Fault) {
        self.add(Rule { method: method.into(), before: 0, stays: true, fault });
    }

    fn add(&self, rule: Rule) {
        self.state().rules.push(rule);
    }

    /// No more faults.
    pub fn heal(&self) {
        self.state().rules.clear();
    }

    /// How many faults have not happened yet.
    pub fn pending(&self) -> usize {
        self.state().rules.len()
    }

    /// Becomes another kind of driver.
    pub fn behave(&self, manners: Manners) {
        self.state().manners = manners;
    }

    /// Dies as a process does: its sockets' files stay, what it holds is remembered.
    pub fn die(&self) {
        self.shared.die();
    }

    /// Listens again where it did.
    #[track_caller]
    pub fn come_back(&self) {
        let mut listening = locked(&self.shared.listening);
        listening.clear();
        listening.extend(self.places.iter().map(|place| place.listen(&self.shared)));
    }

    /// Forgets addresses and pools, as one that keeps them in memory only; its devices stay.
    pub fn forget_addresses(&self) {
        self.state().data.pools.clear();
    }

    /// All calls since the last time.
    pub fn take(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state().asked)
    }

    /// So many calls of this kind, when they have come.
    ///
    /// # Panics
    /// Where they do not come within the time.
    #[track_caller]
    pub fn wait_for(&self, method: &str, count: usize, within: Duration) -> Vec<Asked> {
        let deadline = Instant::now() + within;
        let mut reported = Vec::new();
        while reported.len() < count {
            assert!(Instant::now() < deadline, "{method}: {reported:?}");
            reported.extend(self.take().into_iter().filter(|call| call.method == method));
            crate::glance();
        }
        reported
    }

    /// The methods of the calls since the last time, without those of the handshake.
    pub fn order(&self) -> Vec<String> {
        let asked = self.take().into_iter().map(|call| call.method);
        asked.filter(|method| !HANDSHAKE.contains(&method.as_str())).collect()
    }

    /// What is held in it: networks, endpoints, pools and addresses, one line each.
    pub fn holds(&self) -> Vec<String> {
        self.state().data.holds()
    }

    /// What was done to it that an engine must not do.
    pub fn complaints(&self) -> Vec<String> {
        self.state().data.complaints.clone()
    }

    /// That it has nothing to complain of, and that nothing is held in it.
    ///
    /// # Panics
    /// When there is.
    #[track_caller]
    pub fn is_empty(&self) {
        assert_eq!(self.complaints(), Vec::<String>::new());
        assert_eq!(self.holds(), Vec::<String>::new());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.shared.state)
    }
}

impl Drop for RemoteDriver {
    fn drop(&mut self) {
        self.die();
    }
}

impl Shared {
    fn die(&self) {
        locked(&self.listening).clear();
    }

    /// The answer to a request, none where the connection is to end.
    fn answer(&self, request: &Request) -> Option<(u16, String)> {
        let path = request.target.trim_start_matches('/');
        let (interface, method) = path.split_once('.').unwrap_or((path, ""));
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let at_home = self.is_at_home(&body);
        let (number, fault) = self.noted(method, &body, at_home);
        let reply = self.meet(fault, || self.work(interface, method, &body, &request.body));
        let said = reply.as_ref().map_or(Value::Null, |(_, text)| {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        });
        if let Some(asked) = locked(&self.state).asked.get_mut(number) {
            asked.answer = said;
        }
        reply
    }

    fn meet(
        &self,
        fault: Option<Fault>,
        work: impl FnOnce() -> (u16, String),
    ) -> Option<(u16, String)> {
        match fault {
            None => Some(work()),
            Some(Fault::Refuse(text)) => Some((200, json!({"Err": text}).to_string())),
            Some(Fault::Status(status, body)) => Some((status, body)),
            Some(Fault::Say(body)) => {
                work();
                Some((200, body))
            }
            Some(Fault::Cut) => None,
            Some(Fault::DropReply) => {
                work();
                None
            }
            Some(Fault::Delay(time)) => {
                std::thread::sleep(time);
                Some(work())
            }
            Some(Fault::Hold(gate)) => {
                gate.pass();
                Some(work())
            }
            Some(Fault::HoldReply(gate)) => {
                let reply = work();
                gate.pass();
                Some(reply)
            }
            Some(Fault::Die) => {
                self.die();
                None
            }
            Some(Fault::DieAfter) => {
                work();
                self.die();
                None
            }
        }
    }

    /// Does what is asked for.
    fn work(&self, interface: &str, method: &str, body: &Value, raw: &[u8]) -> (u16, String) {
        let mut state = locked(&self.state);
        let State { manners, data, .. } = &mut *state;
        let bodyless = ["Activate", "GetCapabilities", "GetDefaultAddressSpaces"];
        if !bodyless.contains(&method) && !body.is_object() {
            data.complain(format!("{method}: no object: {}", String::from_utf8_lossy(raw)));
            return (400, json!({"Err": "this is no JSON object"}).to_string());
        }
        let done = match interface {
            "Plugin" => (method == "Activate").then(|| Ok(manners.activate())),
            "NetworkDriver" if manners.network => {
                network::call(manners, data, self.pid, method, body)
            }
            "IpamDriver" if manners.ipam => ipam::call(manners, data, method, body),
            _ => None,
        };
        match done {
            None => (404, "404 page not found\n".into()),
            Some(Ok(answer)) => (200, answer.to_string()),
            Some(Err(text)) if interface == "IpamDriver" => {
                (200, json!({"Error": text}).to_string())
            }
            Some(Err(text)) => (200, json!({"Err": text}).to_string()),
        }
    }

    /// Notes a call; its number, and the fault that it meets.
    fn noted(&self, method: &str, body: &Value, at_home: bool) -> (usize, Option<Fault>) {
        let mut state = locked(&self.state);
        let (method, body) = (method.to_owned(), body.clone());
        let fits = |rule: &Rule| rule.method.is_empty() || rule.method == method;
        let mut met = None;
        let mut kept = VecDeque::new();
        for mut rule in std::mem::take(&mut state.rules) {
            match fits(&rule) {
                true if met.is_none() && rule.before == 0 => {
                    met = Some(rule.fault.clone());
                    if rule.stays {
                        kept.push_back(rule);
                    }
                }
                true => {
                    rule.before = rule.before.saturating_sub(1);
                    kept.push_back(rule);
                }
                false => kept.push_back(rule),
            }
        }
        state.rules = kept.into();
        state.asked.push(Asked { method, body, answer: Value::Null, at_home });
        (state.asked.len() - 1, met)
    }

    fn is_at_home(&self, body: &Value) -> bool {
        let Some(endpoint) = body["EndpointID"].as_str() else { return false };
        network::devices(self.pid).contains(&network::source(endpoint))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
