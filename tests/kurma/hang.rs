//! A16: calls that do not end.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tests::kurma::Kurma;

use crate::{U, uuid};

/// Leaves a process that has gone away from its parents, and one that has not, and stays.
const HANG: &str = "echo before >&2; setsid sh -c 'sleep 4321 & sleep 4321' & sleep 4321";

/// A host whose calls may take so long.
#[track_caller]
fn hanging(seconds: u32) -> Kurma {
    let network = |name| Kurma::spy(name, &json!({}));
    let kurma = Kurma::new(&json!([network("hangs"), network("works")]));
    kurma.configure(&format!("call_seconds = {seconds}"));
    kurma.instruct("hangs", "add", HANG);
    kurma
}

/// How many processes hang.
fn hanging_processes(kurma: &Kurma) -> usize {
    kurma.world.sh("ps -e -o args= | grep -c '^sleep 4321' || true").trim().parse().unwrap()
}

/// The whole tree is gone within a second of the limit, and no other call has waited.
#[test]
fn a16_a_hanging_add_ends_at_the_limit() {
    let kurma = hanging(10);
    kurma.kurma("up");
    let before = kurma.plugin("hangs");
    let began = Instant::now();
    let mut call = kurma.command(&["provision", U, "hangs"]);
    let mut call = call.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while hanging_processes(&kurma) < 3 {}
    kurma.kurma(&format!("provision {} works", uuid(1)));
    assert!(call.try_wait().unwrap().is_none(), "the other one was waited for");
    let done = call.wait_with_output().unwrap();
    let took = began.elapsed();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success(), "{said}");
    assert!(said.contains("hangs") && said.contains("10 s"), "{said}");
    assert!(Duration::from_secs(10) <= took && took < Duration::from_secs(20), "{took:?}");
    assert_eq!(hanging_processes(&kurma), 0, "the whole tree");
    // The plugin itself is not torn down, and del was called.
    assert_eq!(kurma.plugin("hangs"), before);
    assert_eq!(kurma.order().last().map(String::as_str), Some("del hangs"));
    kurma.kurma(&format!("deprovision {}", uuid(1)));
    kurma.is_clean();
}

/// Neither a plugin that reads nothing, nor one that says too much, holds anybody.
#[test]
fn a16_a_plugin_that_never_stops_talking() {
    let kurma = hanging(30);
    kurma.instruct(
        "hangs",
        "add",
        "while :; do cat /proc/self/environ; cat /proc/self/environ >&2; done",
    );
    let began = Instant::now();
    kurma.refused(&format!("provision {U} hangs"), &["hangs"]);
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    kurma.is_clean();
}

/// What a plugin leaves running behind a success is its own affair, and holds no caller.
#[test]
fn a16_a_child_that_stays_behind_a_success() {
    let kurma = hanging(30);
    kurma.instruct("works", "add", "sleep 4321 & echo '{}'");
    let began = Instant::now();
    kurma.kurma(&format!("provision {U} works"));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(hanging_processes(&kurma), 1, "it is the plugin's own");
    kurma.kurma(&format!("deprovision {U}"));
    kurma.kurma("down");
    assert_eq!(hanging_processes(&kurma), 0, "it goes with its plugin");
    kurma.is_clean();
}

/// A del that hangs is a failing one: pending, and the others are called.
#[test]
fn a16_a_hanging_del() {
    let kurma = hanging(2);
    kurma.forget("hangs", "add");
    kurma.instruct("hangs", "del", HANG);
    kurma.kurma(&format!("provision {U} works hangs"));
    kurma.try_kurma(&format!("deprovision {U}"));
    assert_eq!(kurma.order()[2..], ["del hangs", "del works"]);
    assert_eq!(kurma.json("pods")[0]["pending"], json!(["hangs"]));
    assert_eq!(hanging_processes(&kurma), 0);
    kurma.forget("hangs", "del");
    kurma.kurma("gc");
    kurma.is_clean();
}
