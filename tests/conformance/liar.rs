//! A driver that is wrong in one way at a time: the one that Spoke serves, with a program in between
//! that lies. Each lie must be found by the case that is about it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use tests::http::{self, Reply};
use tests::{Plugins, Serve, World};

use crate::{names, plugin, test};

/// What was asked, and what the honest driver answers.
struct Said {
    method: String,
    body: String,
    /// The same was asked before.
    again: bool,
    reply: Reply,
}

impl Said {
    fn is(&self, method: &str) -> bool {
        self.method.ends_with(method)
    }

    fn asked(&self, key: &str) -> String {
        let asked: Value = serde_json::from_str(&self.body).unwrap_or_default();
        asked.pointer(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    fn is_error(&self) -> bool {
        self.reply.status != 200 || self.reply.json()["Err"].as_str().is_some_and(|e| !e.is_empty())
    }

    /// The answer with something else in it.
    fn with(&self, key: &str, value: Value) -> Reply {
        let mut answer = self.reply.json();
        answer[key] = value;
        ok(&answer)
    }

    /// The answered address with another last number.
    fn address(&self, last: &str) -> Value {
        let answer = self.reply.json();
        let address = answer["Address"].as_str().unwrap_or_default();
        json!(format!("{}.{last}", address.rsplit_once('.').map_or("", |(net, _)| net)))
    }
}

fn ok(answer: &Value) -> Reply {
    Reply { status: 200, body: answer.to_string().into_bytes() }
}

fn error() -> Reply {
    ok(&json!({"Err": "no", "Error": "no"}))
}

/// What is said instead; `None` for the truth.
type Lie = fn(&Said) -> Option<Reply>;

/// Each lie with the case that finds it.
const LIES: &[(&str, Lie)] = &[
    ("handshake", |s| s.is("Activate").then(|| ok(&json!({"Implements": ["VolumeDriver"]})))),
    ("unknown-url", |s| (s.reply.status == 404).then(|| ok(&json!({})))),
    ("undecodable", |s| (s.reply.status == 400).then(error)),
    ("empty-body", |s| (s.body.is_empty() && s.is_error()).then(|| ok(&json!({})))),
    ("capabilities", |s| {
        s.is("NetworkDriver.GetCapabilities").then(|| s.with("Scope", json!("here")))
    }),
    ("network-life", |s| s.is("CreateNetwork").then(|| Reply { status: 200, body: Vec::new() })),
    ("unknown-keys", |s| s.body.contains("Unheard").then(error)),
    ("nulls", |s| s.body.contains("null").then(error)),
    ("interface-rule", |s| {
        let reported = json!({"Address": s.asked("/Interface/Address")});
        s.is("CreateEndpoint").then(|| s.with("Interface", reported))
    }),
    ("endpoint-life", |s| s.is("Join").then(|| s.with("Gateway", json!("10.0.0.1/24")))),
    ("endpoint-life", |s| {
        let routes = json!([{"Destination": "10.0.0.0/8", "RouteType": 0, "NextHop": ""}]);
        s.is("Join").then(|| s.with("StaticRoutes", routes))
    }),
    ("join-interface", |s| {
        s.is("Join").then(|| s.with("InterfaceName", json!({"SrcName": "no0", "DstPrefix": "eth"})))
    }),
    ("join-repeated", |s| {
        let other = json!({"SrcName": "no0", "DstPrefix": "eth"});
        (s.again && s.is("Join")).then(|| s.with("InterfaceName", other))
    }),
    ("leave-repeated", |s| (s.again && s.is("Leave")).then(error)),
    ("oper-info", |s| s.is("EndpointOperInfo").then(|| s.with("Value", json!([])))),
    ("unknown-network", |s| (s.is_error() && s.is("CreateEndpoint")).then(|| ok(&json!({})))),
    ("unknown-endpoint", |s| (s.is_error() && s.is("Join")).then(|| ok(&json!({})))),
    ("external-connectivity", |s| (s.again && s.is("RevokeExternalConnectivity")).then(error)),
    ("external-connectivity", |s| {
        (s.is("ProgramExternalConnectivity") && !s.body.contains("6to4")).then(error)
    }),
    ("gateway-check", |s| s.is("GwAllocCheck").then(|| s.with("SkipIPv4", json!("no")))),
    ("ipam-capabilities", |s| {
        s.is("IpamDriver.GetCapabilities").then(|| s.with("RequiresMACAddress", json!("yes")))
    }),
    ("address-spaces", |s| {
        (s.again && s.is("AddressSpaces")).then(|| s.with("LocalDefaultAddressSpace", json!("x")))
    }),
    ("pool-preferred", |s| s.is("RequestPool").then(|| s.with("Pool", json!("10.9.0.0/24")))),
    ("pool-any-twice", |s| s.is("RequestPool").then(|| s.with("Pool", json!("10.9.0.0/24")))),
    ("pool-repeated", |s| {
        (s.again && s.is("RequestPool"))
            .then(|| ok(&json!({"PoolID": "another", "Pool": s.asked("/Pool"), "Data": {}})))
    }),
    ("sub-pool", |s| s.is("RequestAddress").then(|| s.with("Address", s.address("2/24")))),
    ("sub-pool-without-pool", |s| {
        (s.is_error() && s.is("RequestPool"))
            .then(|| ok(&json!({"PoolID": "x", "Pool": "10.9.0.0/24"})))
    }),
    ("pool-malformed", |s| {
        (s.is_error() && s.is("RequestPool"))
            .then(|| ok(&json!({"PoolID": "x", "Pool": "10.9.0.0/24"})))
    }),
    ("pool-unknown", |s| {
        (s.is_error() && s.is("RequestAddress")).then(|| ok(&json!({"Address": "10.0.0.1/24"})))
    }),
    ("address-life", |s| s.is("RequestAddress").then(|| s.with("Address", s.address("7")))),
    ("address-life", |s| s.is("RequestAddress").then(|| s.with("Address", s.address("255/24")))),
    ("address-life", |s| s.is("RequestAddress").then(|| s.with("Address", s.address("7/24")))),
    ("address-exact", |s| {
        let taken = json!(format!("{}/24", s.asked("/Address")));
        (s.is_error() && s.is("RequestAddress")).then(|| ok(&json!({"Address": taken})))
    }),
    ("address-outside", |s| {
        (s.is_error() && s.is("RequestAddress")).then(|| ok(&json!({"Address": "192.0.2.7/24"})))
    }),
    ("address-malformed", |s| {
        (s.is_error() && s.is("RequestAddress")).then(|| ok(&json!({"Address": "10.0.0.7/24"})))
    }),
    ("gateway-any", |s| s.is("RequestAddress").then(|| s.with("Address", s.address("0/24")))),
    ("release-repeated", |s| (s.again && s.is("ReleaseAddress")).then(error)),
    ("exhaustion", |s| {
        (s.is_error() && s.is("RequestAddress")).then(|| ok(&json!({"Address": "10.213.0.1/29"})))
    }),
    ("addresses-at-once", |s| s.is("RequestAddress").then(|| s.with("Address", s.address("9/24")))),
    // What is not carried out stays: these come last.
    ("endpoint-life", |s| s.is("DeleteEndpoint").then(error)),
];

/// Calls that the liar keeps to itself, with the case that finds it.
const KEPT: [(&str, &str); 4] = [
    ("release-pool", "IpamDriver.ReleasePool"),
    ("release-pool-repeated", "IpamDriver.ReleasePool"),
    ("sandbox-gone", "NetworkDriver.DeleteEndpoint"),
    ("network-life", "NetworkDriver.DeleteNetwork"),
];

/// A program between the kit and the driver.
struct Liar {
    driver: PathBuf,
    lie: Mutex<(Option<Lie>, Option<&'static str>)>,
    /// The driver never hears of a hardware address, nor tells one: setting it is left to the engine.
    is_silent_of_macs: AtomicBool,
    asked: Mutex<BTreeSet<(String, String)>>,
}

impl Liar {
    fn start(world: &World) -> Arc<Self> {
        let driver = world.path("/run/docker/plugins/spoke.sock");
        let liar = Arc::new(Self {
            driver,
            lie: Mutex::default(),
            is_silent_of_macs: AtomicBool::new(false),
            asked: Mutex::default(),
        });
        let listener = UnixListener::bind(world.path("/run/liar.sock")).expect("a socket");
        let serving = Arc::clone(&liar);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let liar = Arc::clone(&serving);
                thread::spawn(move || liar.answer(stream));
            }
        });
        liar
    }

    fn report(&self, lie: Option<Lie>, kept: Option<&'static str>) {
        *self.lie.lock().unwrap() = (lie, kept);
        self.asked.lock().unwrap().clear();
    }

    /// One call a connection.
    fn answer(&self, stream: UnixStream) -> Option<()> {
        let mut from = BufReader::new(stream);
        let (mut first, mut length) = (String::new(), 0);
        from.read_line(&mut first).ok()?;
        loop {
            let mut header = String::new();
            from.read_line(&mut header).ok().filter(|read| *read > 0)?;
            let header = header.trim().to_ascii_lowercase();
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if header.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body).ok()?;
        let method = first.split([' ', '/']).nth(2)?.to_owned();
        let reply = self.reply(method, String::from_utf8(body).ok()?)?;
        let head = format!(
            "HTTP/1.1 {} x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            reply.status,
            reply.body.len()
        );
        from.get_mut().write_all(&[head.as_bytes(), &reply.body].concat()).ok()
    }

    fn reply(&self, method: String, body: String) -> Option<Reply> {
        let again = !self.asked.lock().unwrap().insert((method.clone(), body.clone()));
        let (lie, kept) = *self.lie.lock().unwrap();
        if kept == Some(method.as_str()) {
            return Some(ok(&json!({})));
        }
        let is_silent = self.is_silent_of_macs.load(Ordering::Relaxed);
        let is_silent = is_silent && method == "NetworkDriver.CreateEndpoint";
        let said = if is_silent { without_mac(body.as_bytes()) } else { body.clone().into_bytes() };
        let mut reply = http::call(&self.driver, "POST", &format!("/{method}"), &said).ok()?;
        if is_silent {
            reply.body = without_mac(&reply.body);
        }
        let said = Said { method, body, again, reply };
        Some(lie.and_then(|lie| lie(&said)).unwrap_or(said.reply))
    }
}

#[test]
fn each_lie_is_found() {
    let world = World::new(&Plugins::subject());
    let _serve = Serve::start(&world, &[]);
    let liar = Liar::start(&world);
    let verdict = |case: &str| {
        let verdicts = test(&world, &format!("/run/liar.sock --only {case}"));
        verdicts.get(case).cloned().unwrap_or_else(|| panic!("no case {case}"))
    };
    let mut missed = Vec::new();
    for (number, (case, lie)) in LIES.iter().enumerate() {
        liar.report(None, None);
        let honest = verdict(case);
        if !["pass", "warn"].contains(&honest.0.as_str()) {
            missed.push(format!("{case} ({number}): honestly {honest:?}"));
        }
        liar.report(Some(*lie), None);
        let found = verdict(case);
        if found.0 != "fail" && (found.0 != "warn" || honest.0 != "pass") {
            missed.push(format!("{case} ({number}): {found:?}"));
        }
    }
    for (case, kept) in KEPT {
        liar.report(None, Some(kept));
        let found = verdict(case);
        if found.0 != "fail" {
            missed.push(format!("{case}, {kept} is not carried out: {found:?}"));
        }
    }
    assert_eq!(missed, Vec::<String>::new());
}

fn without_mac(body: &[u8]) -> Vec<u8> {
    let mut body: Value = serde_json::from_slice(body).unwrap_or_default();
    if let Some(mac) = body.pointer_mut("/Interface/MacAddress") {
        *mac = json!("");
    }
    body.to_string().into_bytes()
}

/// libnetwork sets the hardware address when it has moved an interface: a driver need not.
#[test]
fn who_leaves_hardware_addresses_to_the_engine_violates_nothing() {
    let world = World::new(&Plugins::subject());
    let _serve = Serve::start(&world, &[]);
    let liar = Liar::start(&world);
    liar.is_silent_of_macs.store(true, Ordering::Relaxed);
    let cases = "--only supplied-mac --only endpoint-life --only two-endpoints --only rejoin";
    let verdicts = test(&world, &format!("/run/liar.sock {cases}"));
    assert_eq!(names(&verdicts, "pass").len(), 4, "{verdicts:#?}");
}

/// A driver whose Leave always fails has one fault, in however many cases it shows.
#[test]
fn one_cause_is_one_failure() {
    let world = World::new(&Plugins::subject());
    let _serve = Serve::start(&world, &[]);
    let liar = Liar::start(&world);
    liar.report(Some(|s| s.is("Leave").then(error)), None);
    let verdicts = test(&world, "/run/liar.sock");
    assert_eq!(names(&verdicts, "fail"), ["endpoint-life"], "{verdicts:#?}");
    let (verdict, why) = &verdicts["two-endpoints"];
    assert!(verdict == "skipped" && why.contains("as endpoint-life: "), "{verdict}: {why}");
    assert!(names(&verdicts, "pass").len() > 40, "{verdicts:#?}");
}

#[test]
fn who_does_not_answer_is_no_plugin() {
    let world = World::new(&Plugins::subject());
    let absent = plugin(&world, "test /run/absent.sock");
    assert_eq!(absent.status, 75, "{}", absent.stderr);
    let unknown = plugin(&world, "test nobody");
    assert_eq!(unknown.status, 3, "{}", unknown.stderr);
    let listed = plugin(&world, "test --list").stdout;
    for (case, _) in LIES {
        assert!(listed.lines().any(|line| line.split(' ').next() == Some(case)), "{case}");
    }
}
