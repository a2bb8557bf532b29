//! Connections by the names of both ends.

use std::io::{BufRead as _, BufReader};

use serde_json::Value;
use tests::{Engine, World};

use crate::bed::{Beside, SPOKE, fetch, json};

/// Of a published port, from outside: the client's address, the container's name, and the port that was
/// asked for.
#[track_caller]
pub(crate) fn name_both_ends(world: &World, web: &str) {
    world.sh("echo 1 >/proc/sys/net/netfilter/nf_conntrack_acct");
    fetch(world, "client", "192.0.2.1", 8080);
    let flows = json(world, "flows");
    let all = flows.as_array().expect("a list");
    let is_meant = |flow: &&Value| {
        flow["source"]["address"] == "192.0.2.2" && flow["sent_bytes"].as_u64().is_some()
    };
    let flow = all.iter().find(is_meant).unwrap_or_else(|| panic!("{flows:#}"));
    assert_eq!(flow["source"]["kind"], "outside");
    let to = &flow["destination"];
    assert_eq!(
        (&to["name"], &to["network"], &to["port"]),
        (&web.into(), &"front".into(), &80.into())
    );
    assert_eq!((&to["kind"], &to["runtime"]), (&"container".into(), &"docker".into()));
    assert_eq!((&flow["published"], &flow["protocol"]), (&"192.0.2.1:8080".into(), &"tcp".into()));
    assert!(flow["answered_bytes"].as_u64().expect("counted") > 100, "{flow:#}");
    let text = world.sh(&format!("{SPOKE} flows {web}"));
    let line = text.lines().find(|line| line.contains("192.0.2.2:")).expect(&text);
    assert!(line.contains("(front):80") && line.contains("192.0.2.1:8080"), "{text}");
    let refused = world.try_sh(&format!("{SPOKE} flows nobody"));
    assert!(refused.status == 3 && refused.stderr.contains("'nobody'"), "{refused:?}");
}

/// A container on a network that is Docker's own is known by its name, too.
#[track_caller]
pub(crate) fn name_dockers_own(engine: &Engine) {
    engine.docker("run -d --name plain busybox sleep 3600");
    engine.docker("exec plain ping -c 1 -W 10 192.0.2.2");
    let flows = json(engine.world(), "flows plain");
    let all = flows.as_array().expect("a list");
    let is_meant = |flow: &&Value| flow["source"]["name"] == "plain";
    let flow = all.iter().find(is_meant).unwrap_or_else(|| panic!("{flows:#}"));
    assert_eq!((&flow["protocol"], &flow["masqueraded"]), (&"icmp".into(), &"192.0.2.1".into()));
    engine.docker("rm -f plain");
}

/// What begins is reported while it is there, as a document on a line.
#[track_caller]
pub(crate) fn are_followed(world: &World, web: &str) {
    let mut followed = Beside::spoke(world, &format!("flows -f {web} -o json"));
    let mut lines = BufReader::new(followed.child.stdout.take().expect("piped")).lines();
    // It listens at some time after its start: until then its beginning is missed.
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        if let Some(Ok(line)) = lines.next() {
            let _ = sender.send(line);
        }
    });
    let line = crate::bed::until("an event", || {
        fetch(world, "client", "192.0.2.1", 8080);
        receiver.try_recv().ok()
    });
    let event: Value = serde_json::from_str(&line).expect(&line);
    assert!(event["event"] == "began" || event["event"] == "ended", "{line}");
    assert_eq!(event["destination"]["name"], web, "{line}");
    drop(followed);
    reader.join().expect("it ends");
}
