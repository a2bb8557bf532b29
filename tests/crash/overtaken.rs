//! A DEL that comes while the ADD is still under way, which then dies; and a DEL whose child dies.

use std::fs;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tests::{Answer, Moment, Running, output};

use crate::bed::{Bed, chain, whole, world};

/// Where the tracer tells what it did.
const LOG: &str = "/world/stopped";
/// poll, nanosleep, flock, ppoll, clock_nanosleep (asm/unistd_64.h): what waits for another process.
const WAITING: [u32; 5] = [7, 35, 73, 271, 230];

#[test]
fn add_of_the_whole_by_del() {
    each_overtaken(whole());
}

#[test]
fn add_of_a_bridge_by_del() {
    let mut bridge = chain();
    bridge["plugins"].as_array_mut().expect("a list").truncate(1);
    each_overtaken(bridge);
}

/// Stops ADD at each moment, lets DEL begin, kills ADD once DEL waits or has ended.
fn each_overtaken(list: Value) {
    let world = world();
    let bed = Bed::new(&world, list);
    let moments = bed.moments(0, "ADD", None);
    bed.del(bed.len(), "a trace");
    let (mut stopped, mut waited) = (0, 0);
    for moment in &moments {
        let after = format!("DEL overtakes ADD stopped at {moment:?}");
        let _ = fs::remove_file(bed.cni.world.path(LOG));
        let mut add = start(&bed, "ADD", &stop_at(moment));
        if let Some(pid) = add.when(|_| is_stopped(&bed)) {
            stopped += 1;
            let mut del = start(&bed, "DEL", &[]);
            waited += usize::from(del.when(waits).is_some());
            kill_process(Pid::from_raw(pid).expect("a pid"), Signal::KILL).expect("it is killed");
            let del = del.end();
            assert!(del.ok(), "{after}: {del:?}");
            add.end();
        } else {
            add.end();
            bed.del(1, &after);
        }
        bed.is_clean(&after);
    }
    println!("{stopped} stops in {} moments, DEL waited {waited} times", moments.len());
    assert!(stopped * 10 > moments.len() * 9 && waited > 0);
}

/// In the child: before the link is deleted, after it, and at the end.
#[test]
fn the_child_of_del() {
    let world = world();
    let bed = Bed::new(&world, whole());
    for name in ["setsid", "close_range", "write", "exit_group"] {
        bed.add(1);
        let after = format!("DEL's child killed at {name}");
        let moment = Moment { name: name.into(), nth: 1 };
        let (only, inject) = (format!("trace={name}"), moment.inject("KILL"));
        let over = ["/usr/bin/strace", "-f", "-qq", "-o", "/dev/null", "-e", &only, "-e", &inject];
        let answer = on_a_host_that_reaps(&bed, &over);
        if name == "setsid" {
            let code = answer.json().map(|error| error["code"].clone());
            assert_eq!(code, Some(11.into()), "{after}, so the link stays: {answer:?}");
        }
        bed.del(1, &after);
        bed.is_clean(&after);
    }
}

/// DEL leaves a child behind only among the host's first processes, and where the first of all is
/// known to reap: the call stands outside of the world's namespace of processes, and sees such a one.
fn on_a_host_that_reaps(bed: &Bed<'_>, over: &[&str]) -> Answer {
    const SEEN: &str = "mount -t proc proc /proc
        echo systemd >/world/comm
        mount --bind /world/comm /proc/1/comm
        exec \"$@\"";
    let before = ["unshare", "--mount", "bash", "-euc", SEEN, "host"];
    let over: Vec<&str> = before.iter().chain(over).copied().collect();
    let (plugin, config) = bed.said(0, "DEL", None);
    let inside = bed.cni.command(&over, &plugin, "DEL");
    let mut outside = Command::new(inside.get_program());
    outside.args(inside.get_args().filter(|arg| *arg != "--pid")).env_clear();
    outside.envs(inside.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Answer { output: output(&mut outside, &config) }
}

fn stop_at(moment: &Moment) -> [String; 9] {
    let (only, inject) = (format!("trace={}", moment.name), moment.inject("STOP"));
    ["/usr/bin/strace", "-f", "-qq", "-o", LOG, "-e", &only, "-e", &inject].map(str::to_owned)
}

fn start(bed: &Bed<'_>, verb: &str, over: &[String]) -> Running {
    let (plugin, config) = bed.said(0, verb, None);
    let over: Vec<&str> = over.iter().map(String::as_str).collect();
    Running::start(&bed.cni, &over, &plugin, verb, &config)
}

/// A traced process is in a tracer's stop at every call: that it stays there, only the tracer knows.
fn is_stopped(bed: &Bed<'_>) -> bool {
    let said = fs::read_to_string(bed.cni.world.path(LOG)).unwrap_or_default();
    said.contains("stopped by SIGSTOP")
}

fn waits(pid: i32) -> bool {
    let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let number = call.split(' ').next().and_then(|number| number.parse().ok());
    number.is_some_and(|number| WAITING.contains(&number))
}
