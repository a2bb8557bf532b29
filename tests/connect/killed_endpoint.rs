//! SIGKILL before each system call of an endpoint's steps; then the same step again, and the rest.

use tests::{Remains, Trace};

use crate::bed::{Bed, SPOKE};

const STEPS: [&str; 4] = [
    "endpoint create --ip 10.71.1.9 --alias www front ep",
    "endpoint join front ep web",
    "endpoint leave front ep",
    "endpoint rm front ep",
];

#[test]
fn create() {
    each(0);
}

#[test]
fn join() {
    each(1);
}

#[test]
fn leave() {
    each(2);
}

#[test]
fn rm() {
    each(3);
}

fn each(step: usize) {
    let bed = Bed::new(&["web", "db"]);
    bed.spoke("network connect --ip 10.71.1.7 front db");
    for step in STEPS {
        bed.spoke(step);
    }
    let base = Remains::of(&bed.world);
    STEPS[..step].iter().for_each(|before| drop(bed.spoke(before)));
    let trace = Trace::of_command(&bed.world, &format!("{SPOKE} {}", STEPS[step]));
    STEPS[step + 1..].iter().for_each(|after| drop(bed.spoke(after)));
    let mut killed = 0;
    let moments = trace.moments();
    for (number, moment) in moments.iter().enumerate() {
        STEPS[..step].iter().for_each(|before| drop(bed.spoke(before)));
        let line = format!("{} {SPOKE} {}", moment.kill().join(" "), STEPS[step]);
        let answer = bed.world.try_sh(&line);
        killed += usize::from(answer.status == 137);
        // Every other time a repair runs in between.
        if number % 2 == 0 {
            bed.spoke("gc");
        }
        let at = format!("{}, killed before {moment}: {answer:?}", STEPS[step]);
        let answer = bed.world.try_sh(&format!("{SPOKE} {}", STEPS[step]));
        // It may have been done before it was reported.
        let is_done = step == 0 && answer.status == 4 || step == 3 && answer.status == 3;
        assert!(answer.status == 0 || is_done, "{at}; then {answer:?}");
        is_so(&bed, step, &at);
        STEPS[step + 1..].iter().for_each(|after| drop(bed.spoke(after)));
        let changes = Remains::of(&bed.world).changes(&base);
        assert!(changes.is_empty(), "{at}: {changes:#?}");
    }
    println!("{killed} kills in {} moments", moments.len());
    assert!(killed * 10 > moments.len() * 8, "{killed} of {moments:?}");
    bed.spoke("network disconnect front db");
    assert_eq!(bed.files(), "");
}

/// After a step.
#[track_caller]
fn is_so(bed: &Bed, step: usize, at: &str) {
    let shown = bed.json("endpoint ls front -o json");
    let shown = shown.as_array().unwrap().iter().find(|it| it["container"] == "ep");
    let state =
        shown.map(|it| (it["state"].as_str().unwrap(), it["addresses"][0].as_str().unwrap()));
    let expected = match step {
        0 | 2 => Some(("reserved", "10.71.1.9/24")),
        1 => Some(("attached", "10.71.1.9/24")),
        _ => None,
    };
    assert_eq!(state, expected, "{at}");
    let known = bed.hosts("db").contains(&"10.71.1.9 ep www".to_owned());
    assert_eq!(known, step == 1, "{at}");
    let has = bed.world.sh("ip -n web -o -4 address").contains("10.71.1.9/24");
    assert_eq!(has, step == 1, "{at}");
}
