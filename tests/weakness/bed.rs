//! Scenarios in two worlds.

use serde_json::{Value, json};
use tests::{Answer, Cni, Plugins, Remains, World};

/// Looks at what is wrong in ours, and that it is wrong in the reference's.
#[track_caller]
pub(crate) fn compare(scenario: impl Fn(&World) -> Vec<String>) {
    let theirs = scenario(&World::new(&Plugins::reference()));
    ours(&scenario);
    assert!(!theirs.is_empty(), "the reference is without fault: the scenario proves nothing");
}

/// The same where the reference is not asked.
#[track_caller]
pub(crate) fn ours(scenario: impl Fn(&World) -> Vec<String>) {
    let wrong = scenario(&World::new(&Plugins::subject()));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A list of the newest version.
pub(crate) fn list(plugins: &Value) -> Value {
    json!({"name": "net", "cniVersion": "1.1.0", "plugins": plugins})
}

/// One address for containers.
pub(crate) fn single() -> Value {
    json!({"type": "host-local", "subnet": "10.9.0.0/29",
        "rangeStart": "10.9.0.5", "rangeEnd": "10.9.0.5"})
}

pub(crate) fn many() -> Value {
    json!({"type": "host-local", "subnet": "10.9.0.0/24"})
}

pub(crate) fn bridge(more: &Value) -> Value {
    let mut bridge = json!({"type": "bridge", "bridge": "br9", "isGateway": true, "ipam": many()});
    for (key, value) in more.as_object().expect("fields") {
        bridge[key] = value.clone();
    }
    bridge
}

/// What is there of a network that has been used before, and of no container.
pub(crate) fn used(cni: &mut Cni<'_>, list: &Value) -> Remains {
    ok(&cni.add(list));
    ok(&cni.del(list));
    cni.result = None;
    Remains::of(cni.world)
}

/// What came since then and did not go.
pub(crate) fn left(cni: &Cni<'_>, base: &Remains) -> Vec<String> {
    let mut changes = Remains::of(cni.world).changes(base);
    changes.retain(|line| line.starts_with('+'));
    changes
}

/// What a refusal says.
pub(crate) fn refused(what: &str, answers: &[Answer]) -> Vec<String> {
    let failed = answers.iter().filter(|answer| !answer.ok());
    failed
        .map(|answer| format!("{what}: {}{}", answer.output.stdout, answer.output.stderr))
        .collect()
}

/// That something was accepted which should not have been.
pub(crate) fn accepted(what: &str, answers: &[Answer]) -> Vec<String> {
    match answers.iter().all(Answer::ok) {
        true => vec![format!("{what} succeeds")],
        false => Vec::new(),
    }
}

#[track_caller]
pub(crate) fn ok(answers: &[Answer]) {
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
}
