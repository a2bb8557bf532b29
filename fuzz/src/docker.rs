//! What Docker Engines say: conversations with the plugin, over a store in memory and a dataplane
//! that does nothing.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;

use docker::driver::{Backstage, Docker, Sandboxes, Settings, Within};
use docker::server::Plugin;
use doubles::Memory;
use engine::Engine;
use libnetwork::{Call, EndpointRef, Method, Refusal, Request, Scope};
use model::{Backend, Kind, Result, Space, SubnetId, Tenant, Timestamp};
use serde_json::{Value, json};

use crate::nothing::Nothing;

/// Each line is a method and a body. Whatever it is, the call is the same when it is written and read
/// again, an answer is one JSON object and the same when the call is repeated, an error is not our
/// bug, and what an engine gives back is gone.
pub fn docker(bytes: &[u8]) {
    let talk = Talk::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        talk.hear(line);
    }
    talk.end();
}

/// A conversation, and the book that remembers it.
#[derive(Default)]
struct Talk {
    store: Arc<Memory>,
}

/// How a call went.
type Answered = std::result::Result<Value, Refusal>;

impl Talk {
    /// Says a line twice; how that went the first time.
    fn hear(&self, line: &[u8]) -> Option<Answered> {
        let at = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let (method, body) = line.split_at(at);
        let method = Method::from_path(&format!("/{}", String::from_utf8_lossy(method)))?;
        let answered = self.say(method, body);
        judge(method, &answered);
        let again = self.say(method, body);
        judge(method, &again);
        if let (true, Ok(first)) = (is_repeatable(method), &answered) {
            assert_eq!(again.ok().as_ref(), Some(first), "{} repeated", method.name());
        }
        Some(answered)
    }

    fn say(&self, method: Method, body: &[u8]) -> Answered {
        match libnetwork::decode(method, body)? {
            Request::Do(call) => {
                let again = libnetwork::decode(method, &call.encode());
                assert!(matches!(again, Ok(Request::Do(other)) if other == call), "{call:?}");
                Ok(self.call(*call)?)
            }
            Request::Ask(question) => {
                let answer = self.plugin()?.profile().answer(question);
                let answer = answer.expect("an answer is JSON");
                Ok(serde_json::from_slice(&answer).expect("our own words are JSON"))
            }
        }
    }

    fn call(&self, call: Call) -> Result<Value> {
        let answer = self.plugin()?.call(call)?;
        Ok(serde_json::to_value(answer).expect("an answer is JSON"))
    }

    /// That of a process that starts for one call: only the book remembers anything.
    fn plugin(&self) -> Result<Docker<Stage>> {
        Docker::new(Stage(Arc::clone(&self.store)), settings())
    }

    /// Everything is given back, in the engine's order. That never fails, and leaves nothing.
    fn end(&self) {
        let engine = self.engine();
        let records = engine.records.attachments().expect("memory does not fail");
        let endpoints: BTreeSet<_> = records
            .into_iter()
            .filter_map(|record| Some((record.alias?, record.id.container)))
            .collect();
        for (network, endpoint) in endpoints {
            let at = || EndpointRef {
                network: network.as_str().parse().expect("an id"),
                endpoint: endpoint.as_str().parse().expect("an id"),
            };
            for call in
                [Call::RevokeConnectivity(at()), Call::Leave(at()), Call::DeleteEndpoint(at())]
            {
                self.call(call).expect("what is deleted is gone");
            }
        }
        for holder in engine.records.holders().expect("memory does not fail") {
            let Tenant::Request { subnet, .. } = &holder.tenant else { continue };
            let address = holder.lease.address.addr().to_string();
            self.give_back("ReleaseAddress", json!({"PoolID": key(subnet), "Address": address}));
        }
        while let Some(subnet) = engine.records.subnets().expect("memory does not fail").first() {
            self.give_back("ReleasePool", json!({"PoolID": key(&subnet.id)}));
        }
        for alias in engine.records.aliases().expect("memory does not fail") {
            let id = alias.id.as_str().parse().expect("an id");
            self.call(Call::DeleteNetwork(id)).expect("what is deleted is gone");
        }
        assert_eq!(self.left(), Vec::<String>::new());
    }

    fn give_back(&self, method: &str, body: Value) {
        let line = format!("IpamDriver.{method} {body}");
        match self.hear(line.as_bytes()) {
            Some(Ok(_)) => {}
            other => panic!("{line}: {other:?}"),
        }
    }

    fn left(&self) -> Vec<String> {
        let engine = self.engine();
        let mut left: Vec<String> = Vec::new();
        left.extend(
            engine.records.networks().unwrap().iter().map(|n| format!("network {}", n.name)),
        );
        left.extend(engine.records.aliases().unwrap().iter().map(|a| format!("alias {}", a.id)));
        left.extend(engine.records.subnets().unwrap().iter().map(|s| format!("subnet {}", s.id)));
        left.extend(engine.records.attachments().unwrap().iter().map(|a| format!("{a:?}")));
        left.extend(engine.records.holders().unwrap().iter().map(|h| format!("{h:?}")));
        left.extend(engine.records.ports().unwrap().iter().map(|port| format!("{port:?}")));
        left
    }

    fn engine(&self) -> Engine<'_> {
        Engine::new(&*self.store, &Nothing, &Nothing, &Nothing)
    }
}

/// What says by itself which object it is about.
fn is_repeatable(method: Method) -> bool {
    !matches!(method, Method::RequestPool | Method::ReleasePool | Method::RequestAddress)
}

fn judge(method: Method, answered: &Answered) {
    match answered {
        Ok(answer) => assert!(answer.is_object(), "{}: {answer}", method.name()),
        Err(Refusal::Syntax(what)) => assert!(!what.is_empty()),
        Err(Refusal::Value(error)) => {
            assert!(error.kind() != Kind::Bug, "{}: {error}", method.name());
            assert!(error.to_string().len() < 8192, "{}: a long story", method.name());
        }
    }
}

fn key(subnet: &SubnetId) -> String {
    let space = if subnet.space == Space::Global { "global" } else { "local" };
    match &subnet.part {
        Some(part) => format!("{space}/{}/{part}", subnet.net),
        None => format!("{space}/{}", subnet.net),
    }
}

fn settings() -> Settings {
    let port = |port: u16| NonZeroU16::new(port).expect("a port");
    Settings {
        scope: Scope::Local,
        requires_mac: false,
        backend: Backend::Nftables,
        ephemeral: port(32_768)..=port(60_999),
    }
}

/// What stands behind the plugin.
struct Stage(Arc<Memory>);

impl Sandboxes for Stage {
    fn inspect(&self, path: &Path) -> Result<Option<Within>> {
        Nothing.inspect(path)
    }
}

impl Backstage for Stage {
    fn with_engine<T>(&self, work: impl FnOnce(&Engine<'_>) -> Result<T>) -> Result<T> {
        work(&Engine::new(&*self.0, &Nothing, &Nothing, &Nothing))
    }

    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise what is made from them gets no further either.
    #[test]
    fn real_conversations_go_well() {
        for input in crate::corpus("docker") {
            let talk = Talk::default();
            for line in input.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let answered = talk.hear(line).expect("a method");
                assert!(answered.is_ok(), "{}: {answered:?}", line.escape_ascii());
            }
            talk.end();
        }
    }
}
