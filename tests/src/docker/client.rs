//! The Engine API, as far as tests call it: without a version in the path, so in each engine's own.

use std::io::{BufRead, BufReader, Lines};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{Engine, image};
use crate::Output;
use crate::http::{self, Body, Reply};

impl Engine {
    /// One call; `body` is sent unless it is null.
    ///
    /// # Panics
    /// When the daemon does not answer at all, with its log.
    #[track_caller]
    pub fn call(&self, method: &str, target: &str, body: &Value) -> Reply {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.send(method, target, text.as_bytes())
    }

    /// The object of a GET.
    #[track_caller]
    pub fn get(&self, target: &str) -> Value {
        self.done("GET", target, &Value::Null)
    }

    /// What a POST answers, which has to succeed.
    #[track_caller]
    pub fn post(&self, target: &str, body: &Value) -> Value {
        self.done("POST", target, body)
    }

    /// What a DELETE answers, which has to succeed.
    #[track_caller]
    pub fn delete(&self, target: &str) -> Value {
        self.done("DELETE", target, &Value::Null)
    }

    /// A new network; `with` is the body of the call besides the name. Returns its id.
    #[track_caller]
    pub fn create_network(&self, name: &str, with: Value) -> String {
        let body = merged(json!({"Name": name, "CheckDuplicate": true}), with);
        id(&self.post("/networks/create", &body))
    }

    /// Removes a network.
    #[track_caller]
    pub fn remove_network(&self, name: &str) {
        self.delete(&format!("/networks/{name}"));
    }

    /// A new container that sleeps on `network`, not started; `with` is merged into the body of
    /// the call. Returns its id.
    #[track_caller]
    pub fn create(&self, name: &str, network: &str, with: Value) -> String {
        let body = json!({
            "Image": "busybox",
            "Cmd": ["/bin/sleep", "3600"],
            "HostConfig": {"NetworkMode": network},
        });
        id(&self.post(&format!("/containers/create?name={name}"), &merged(body, with)))
    }

    /// The same, started.
    #[track_caller]
    pub fn run(&self, name: &str, network: &str, with: Value) -> String {
        let id = self.create(name, network, with);
        self.post(&format!("/containers/{name}/start"), &Value::Null);
        id
    }

    /// Kills and removes a container.
    #[track_caller]
    pub fn remove(&self, name: &str) {
        self.delete(&format!("/containers/{name}?force=true"));
    }

    /// The container as the engine sees it.
    #[track_caller]
    pub fn container(&self, name: &str) -> Value {
        self.get(&format!("/containers/{name}/json"))
    }

    /// What the engine says of a container's end on a network.
    #[track_caller]
    pub fn endpoint(&self, name: &str, network: &str) -> Value {
        self.container(name)["NetworkSettings"]["Networks"][network].clone()
    }

    /// How a command in a container ends.
    #[track_caller]
    pub fn exec(&self, name: &str, command: &[&str]) -> Output {
        let body = json!({"AttachStdout": true, "AttachStderr": true, "Cmd": command});
        let exec = id(&self.post(&format!("/containers/{name}/exec"), &body));
        let start = json!({"Detach": false, "Tty": false});
        let said = self.call("POST", &format!("/exec/{exec}/start"), &start);
        said.ok();
        let (stdout, stderr) = streams(&said.body);
        let status = self.get(&format!("/exec/{exec}/json"))["ExitCode"].as_i64();
        let status = status.and_then(|status| i32::try_from(status).ok()).expect("it has ended");
        Output { status, stdout, stderr }
    }

    /// That one container reaches an address or a name, with one ping of 3 s.
    #[track_caller]
    pub fn ping(&self, from: &str, to: &str) {
        let done = self.exec(from, &["ping", "-c", "1", "-W", "3", to]);
        assert_eq!(done.status, 0, "{from} to {to}: {}{}", done.stdout, done.stderr);
    }

    /// Everything that happens from now on.
    #[track_caller]
    pub fn events(&self) -> Events {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let target = format!("/events?since={}.{:09}", now.as_secs(), now.subsec_nanos());
        let (status, body) = http::open(&self.socket(), "GET", &target, b"")
            .unwrap_or_else(|error| panic!("{target}: {error}\n{}", self.log()));
        assert_eq!(status, 200, "{target}");
        Events(BufReader::new(body).lines())
    }

    /// Imports the image `busybox`.
    #[track_caller]
    pub fn import(&self) {
        let target = "/images/create?fromSrc=-&repo=busybox&tag=latest";
        let said = self.send("POST", target, image::archive());
        said.ok();
        assert!(!said.text().contains("errorDetail"), "{}", said.text());
    }

    /// What a call answers that has to succeed, or else what was said, and by which daemon.
    #[track_caller]
    fn done(&self, method: &str, target: &str, body: &Value) -> Value {
        let reply = self.call(method, target, body);
        let (status, done) = (reply.status, (200..300).contains(&reply.status));
        assert!(done, "{status}: {method} {target}: {}\n{}", reply.text(), self.world.logs());
        reply.json()
    }

    #[track_caller]
    fn send(&self, method: &str, target: &str, body: &[u8]) -> Reply {
        http::call(&self.socket(), method, target, body)
            .unwrap_or_else(|error| panic!("{method} {target}: {error}\n{}", self.world.logs()))
    }
}

/// The engine's events, as they come.
#[derive(Debug)]
pub struct Events(Lines<BufReader<Body>>);

impl Events {
    /// The next one that `is` is true of; the others are passed over.
    ///
    /// # Panics
    /// When there is none for two minutes, or the engine ends.
    #[track_caller]
    pub fn until(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        let events = self.0.by_ref().map(|line| line.expect("another event"));
        let mut events = events.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        events.find(is).expect("another event before the engine ends")
    }
}

#[track_caller]
fn id(answer: &Value) -> String {
    answer["Id"].as_str().unwrap_or_else(|| panic!("no Id: {answer}")).to_owned()
}

/// `base` with everything of `with` in it, object by object.
fn merged(mut base: Value, with: Value) -> Value {
    match with {
        Value::Object(with) if base.is_object() => {
            for (key, value) in with {
                base[&key] = merged(base[&key].take(), value);
            }
            base
        }
        Value::Null => base,
        with => with,
    }
}

/// Standard output and error of a process without a terminal: frames of one stream's number, three
/// zeros, a length of four bytes, and so many bytes (Engine API, "Attach to a container").
fn streams(mut frames: &[u8]) -> (String, String) {
    let mut said = [Vec::new(), Vec::new()];
    while let Some((head, rest)) = frames.split_first_chunk::<8>() {
        let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (part, rest) = rest.split_at(length.min(rest.len()));
        said[usize::from(head[0] == 2)].extend_from_slice(part);
        frames = rest;
    }
    let [stdout, stderr] = said.map(|said| String::from_utf8_lossy(&said).into_owned());
    (stdout, stderr)
}
