//! Whole conversations with real engines, recorded with a plugin that made everything and said
//! yes to everything. Pools and addresses that the plugin chose are replaced by those that we
//! choose, as the engine would.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::rig::World;

/// Options of the recording plugin, and what they are here. The others say nothing.
const OPTIONS: [(&str, (&str, &str)); 2] =
    [("nogw", ("ports", "docker")), ("com.docker.network.driver.mtu", ("mtu", "1400"))];

#[derive(Default)]
struct Talk {
    world: Arc<World>,
    /// What the recorded plugin said, and what we say instead.
    ours: BTreeMap<String, String>,
    /// Calls that went well in the recording and fail here.
    failures: Vec<String>,
}

impl Talk {
    fn replay(recording: &str, sandboxes_exist: bool) -> Self {
        let mut talk = Self::default();
        for line in recording.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            talk.say(&line, sandboxes_exist);
        }
        talk
    }

    fn say(&mut self, line: &Value, sandboxes_exist: bool) {
        let method = line["m"].as_str().unwrap();
        if method == "NetworkDriver.CreateNetwork" && line["failed"] == true {
            // The engine forgets the network and says no more of it; here it would be made.
            return;
        }
        let mut body = line["b"].clone();
        self.translate(&mut body);
        if let (true, Some(path)) = (sandboxes_exist, body["SandboxKey"].as_str()) {
            let mut kernel = self.world.kernel.lock().unwrap();
            kernel.sandboxes.entry(path.to_owned()).or_default();
        }
        match self.world.call(method, &body) {
            Ok(answer) => self.learn(line, &answer),
            Err(_) if line["failed"] == true => {}
            Err(error) => self.failures.push(format!("{method} {body}: {error}")),
        }
    }

    fn translate(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(ours) = self.ours.get(text) {
                    ours.clone_into(text);
                } else if text.starts_with("lnw") {
                    let is_global = text.ends_with("global");
                    *text = if is_global { "spoke-global" } else { "spoke-local" }.to_owned();
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.translate(value)),
            Value::Object(map) => {
                translate_options(map);
                map.values_mut().for_each(|value| self.translate(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn learn(&mut self, line: &Value, answer: &Value) {
        for key in ["PoolID", "Pool", "Address"] {
            if let (Some(theirs), Some(ours)) = (line["r"][key].as_str(), answer[key].as_str()) {
                self.ours.insert(theirs.to_owned(), ours.to_owned());
                let plain = |net: &str| net.split('/').next().unwrap().to_owned();
                if key == "Address" {
                    self.ours.insert(plain(theirs), plain(ours));
                }
            }
        }
    }
}

fn translate_options(map: &mut Map<String, Value>) {
    if let Some(Value::Object(generic)) = map.get_mut("com.docker.network.generic") {
        let said = OPTIONS.iter().filter(|(key, _)| generic.contains_key(*key));
        *generic = said.map(|(_, (key, value))| ((*key).to_owned(), (*value).into())).collect();
    }
    for key in ["io1", "k", "dk1"] {
        map.remove(key);
    }
}

/// What Docker forgot to give back in a conversation is not ours to lose.
fn assert_clean(talk: &Talk, leaks: &[&str]) {
    assert_eq!(talk.failures, Vec::<String>::new());
    let left = talk.world.left();
    let unexpected: Vec<&String> =
        left.iter().filter(|left| !leaks.iter().any(|leak| left.contains(leak))).collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
}

#[test]
fn docker_20_10() {
    assert_clean(&Talk::replay(include_str!("talks/20.10.jsonl"), false), &[]);
}

/// The same pool for a second network, and the pools that an engine requested again when it
/// started because the recording plugin asked for that: we ask for nothing of the kind.
#[test]
fn docker_20_10_scenarios() {
    let mut talk = Talk::replay(include_str!("talks/20.10-scenarios.jsonl"), false);
    let again = |failure: &String| {
        failure.starts_with("IpamDriver.RequestPool") && failure.contains("overlaps")
    };
    let refused: Vec<String> = talk.failures.extract_if(.., |failure| again(failure)).collect();
    assert_eq!(refused.len(), 3, "{refused:#?}");
    // The engine was killed, and never released these three: the reconciler's work.
    assert_clean(&talk, &["10.200.0.2/24 of a request", "10.200.1.2/24 of", "10.200.1.3/24 of"]);
}

#[test]
fn docker_24() {
    assert_clean(&Talk::replay(include_str!("talks/24.0.jsonl"), false), &[]);
}

#[test]
fn docker_28() {
    assert_clean(&Talk::replay(include_str!("talks/28.5.jsonl"), true), &[]);
}

#[test]
fn docker_29() {
    assert_clean(&Talk::replay(include_str!("talks/29.jsonl"), true), &[]);
}

#[test]
fn docker_29_without_gateways() {
    assert_clean(&Talk::replay(include_str!("talks/29-gateways.jsonl"), true), &[]);
}

#[test]
fn docker_29_swarm() {
    assert_clean(&Talk::replay(include_str!("talks/29-swarm.jsonl"), true), &[]);
}
