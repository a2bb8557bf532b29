//! The manager killed (`kill -9`) wherever it is: what comes after leaves nothing.

use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::json;
use tests::kurma::Kurma;

use crate::seed::{network, ours};
use crate::{U, uuid};

/// Kills a provisioning after each share of the time that it takes, and calls `then`.
#[track_caller]
fn each(kurma: &Kurma, cold: bool, then: impl Fn(&str)) {
    let begin = || {
        if cold {
            drop(kurma.kurma("down"))
        }
    };
    // The first time an image is unpacked, which is not to be measured.
    let times = [0, 1].map(|_| {
        begin();
        let began = Instant::now();
        kurma.kurma(&format!("provision {U}"));
        let took = began.elapsed();
        kurma.kurma(&format!("deprovision {U}"));
        took
    });
    let whole = times[1];
    let attempt = |number: u32, after: Duration| {
        begin();
        let uuid = uuid(number as usize);
        let doomed = kurma.start(&["provision", &uuid]);
        // No synchronisation: any moment will do.
        thread::sleep(after);
        let was_in_time = doomed.kill();
        then(&uuid);
        kurma.is_clean();
        u32::from(was_in_time)
    };
    let mut killed: u32 = (0..24).map(|part| attempt(part, whole * part / 22)).sum();
    // It may be faster than when it was measured.
    for part in 0..24 {
        if killed <= 5 {
            killed += attempt(24 + part, whole * part / 400);
        }
    }
    assert!(killed > 5, "it was mostly too late: {killed} in {whole:?}");
}

#[test]
fn in_the_middle_of_provision_with_warm_plugins() {
    let kurma = ours(&json!([network("one", 10), network("two", 11)]));
    kurma.kurma("up");
    each(&kurma, false, |uuid| drop(kurma.kurma(&format!("deprovision {uuid}"))));
}

#[test]
fn in_the_middle_of_provision_with_cold_plugins() {
    let kurma = ours(&json!([network("one", 10), network("two", 11)]));
    each(&kurma, true, |uuid| drop(kurma.kurma(&format!("deprovision {uuid}"))));
}

/// The same pod comes again, as a runtime tries again.
#[test]
fn in_the_middle_of_provision_and_again() {
    let kurma = ours(&json!([network("one", 10), network("two", 11)]));
    kurma.kurma("up");
    each(&kurma, false, |uuid| {
        let pod = kurma.try_kurma(&format!("provision {uuid}"));
        kurma.kurma(&format!("deprovision {uuid}"));
        if pod.status != 0 {
            // It must be undone first, and the error says so.
            assert!(pod.stderr.contains("deprovision"), "{pod:?}");
            kurma.kurma(&format!("provision {uuid}"));
            kurma.kurma(&format!("deprovision {uuid}"));
        }
    });
}

#[test]
fn in_the_middle_of_deprovision() {
    let kurma = ours(&json!([network("one", 10), network("two", 11)]));
    for part in 0..12_u32 {
        let uuid = uuid(part as usize);
        kurma.kurma(&format!("provision {uuid}"));
        let doomed = kurma.start(&["deprovision", &uuid]);
        thread::sleep(Duration::from_millis(6) * part);
        doomed.kill();
        kurma.kurma(&format!("deprovision {uuid}"));
        kurma.is_clean();
    }
}

/// The call goes with its caller: no process would know what it does.
#[test]
fn a_call_goes_with_its_caller() {
    let kurma = Kurma::new(&json!([Kurma::spy("one", &json!({}))]));
    kurma.instruct("one", "add", "setsid sleep 4321 & sleep 4321");
    let doomed = kurma.start(&["provision", U, "one"]);
    let count = || kurma.world.sh("ps -e -o args= | grep -c '^sleep 4321' || true");
    while count().trim() != "2" {}
    doomed.kill();
    while count().trim() != "0" {}
    kurma.kurma(&format!("deprovision {U}"));
    assert_eq!(kurma.order(), ["add one", "del one"]);
    kurma.is_clean();
}

/// A call may outlive its dead caller for a moment. What undoes the pod waits for its end: else the
/// plugin adds again what was just undone.
#[test]
fn a_pod_is_not_undone_while_a_dead_callers_call_runs() {
    let kurma = Kurma::new(&json!([Kurma::spy("one", &json!({}))]));
    kurma.instruct("one", "add", "sleep 4321");
    let doomed = kurma.start(&["provision", U, "one"]);
    let count = |script: &str| kurma.world.sh(&format!("{script} || true")).trim() == "1";
    while !count("ps -e -o args= | grep -c '^sleep 4321'") {
        tests::glance();
    }
    // Who ends what a dead caller began is kept from it.
    kurma.world.sh("pkill -STOP -f '^spoke-plugin: call'");
    doomed.kill();
    let mut undoes = kurma.command(&["deprovision", U]).spawn().unwrap();
    while !waits_for_a_lock(undoes.id()) {
        assert_eq!(undoes.try_wait().unwrap(), None, "it waits for the call");
        tests::glance();
    }
    assert_eq!(kurma.order(), ["add one"]);
    kurma.world.sh("pkill -CONT -f '^spoke-plugin: call'");
    assert!(undoes.wait().unwrap().success());
    assert_eq!(kurma.order(), ["add one", "del one"]);
    kurma.is_clean();
}

/// Whether a child of this process waits for a lock of a file (proc_locks(5)).
fn waits_for_a_lock(parent: u32) -> bool {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let children = children.unwrap_or_default();
    let locks = fs::read_to_string("/proc/locks").unwrap();
    let mut waiting = locks.lines().filter(|line| line.contains("-> FLOCK"));
    waiting.any(|line| {
        line.split_whitespace().any(|word| children.split_whitespace().any(|pid| pid == word))
    })
}
