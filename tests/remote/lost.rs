//! Answers that never come, plugins that die, and their pending cleanups.

use std::time::{Duration, Instant};

use tests::Serve;
use tests::remote_driver::{Fault, Manners};

use crate::bed::{Bed, CREATE};

/// The calls that a container's and a network's life consists of.
const CONNECT: [&str; 4] =
    ["RequestAddress", "CreateEndpoint", "Join", "ProgramExternalConnectivity"];
const DISCONNECT: [&str; 4] =
    ["RevokeExternalConnectivity", "Leave", "DeleteEndpoint", "ReleaseAddress"];

/// Whatever came of it: the same again works, and pending cleanups are done.
#[test]
fn a_lost_answer_loses_nothing() {
    let bed = Bed::with_network(Manners::default(), "");
    for method in CONNECT.iter().chain(&DISCONNECT) {
        for fault in [Fault::DropReply, Fault::Cut] {
            // The address of a request whose answer is lost cannot be known.
            if *method == "RequestAddress" && matches!(fault, Fault::DropReply) {
                continue;
            }
            bed.driver.fail(method, 1, fault.clone());
            let first = bed.try_spoke("network connect net one");
            if first.status != 0 {
                bed.spoke("network connect net one");
            }
            bed.world.sh("ip netns exec one busybox ping -c 1 -W 3 10.200.1.1");
            let _ = bed.try_spoke("network disconnect net one");
            bed.spoke("gc");
            assert_eq!(bed.driver.pending(), 0, "{method} {fault:?}");
            assert_eq!(bed.driver.complaints(), Vec::<String>::new(), "{method} {fault:?}");
            assert_eq!(bed.driver.holds().len(), 3, "{method} {fault:?} {:?}", bed.driver.holds());
        }
    }
    bed.spoke("network rm net");
    bed.is_clean();
}

#[test]
fn pending_cleanups_are_shown_and_done() {
    // Whose endpoint is deleted has left, too.
    for method in ["DeleteEndpoint", "ReleaseAddress"] {
        let bed = Bed::with_network(Manners::default(), "");
        bed.spoke("network connect net one");
        bed.driver.fail_always(method, Fault::Refuse("not today".into()));
        let _ = bed.try_spoke("network disconnect net one");
        assert!(!bed.ip("one", "-o link").contains("eth0"), "{method}: it is off the network");
        assert!(!bed.spoke("ps").contains("10.200.1.2"), "{method}");
        let pending = bed.try_spoke("gc --dry-run");
        assert!(
            pending.stdout.contains(method) && pending.stdout.contains("probe"),
            "{method}: {pending:?}"
        );
        let _ = bed.try_spoke("gc");
        assert!(bed.try_spoke("gc --dry-run").stdout.contains(method), "{method}: still pending");
        bed.driver.heal();
        bed.spoke("gc");
        bed.spoke("network rm net");
        bed.is_clean();
    }
}

#[test]
fn a_network_that_was_removed_is_pending() {
    for method in ["ReleaseAddress", "ReleasePool", "DeleteNetwork"] {
        let bed = Bed::with_network(Manners::default(), "");
        bed.driver.fail_always(method, Fault::Refuse("not today".into()));
        let _ = bed.try_spoke("network rm net");
        assert!(!bed.spoke("network ls").contains("10.200.1.0"), "{method}");
        assert!(bed.try_spoke("gc --dry-run").stdout.contains(method), "{method}");
        bed.driver.heal();
        bed.spoke("gc");
        bed.is_clean();
    }
}

/// What a plugin will never do need not be asked of it for ever.
#[test]
fn what_is_refused_for_ever_is_forgotten_by_force() {
    let bed = Bed::with_network(Manners::default(), "");
    bed.spoke("network connect net one");
    bed.driver.fail_always("DeleteEndpoint", Fault::Refuse("not today".into()));
    let _ = bed.try_spoke("network disconnect net one");
    // Not yet: it was refused once, and is tried before it is judged.
    for _ in 0..3 {
        let said = bed.try_spoke("gc --force").stdout;
        assert!(said.contains("DeleteEndpoint") && !said.contains("forgotten"), "{said}");
    }
    let said = bed.try_spoke("gc --dry-run").stdout;
    assert!(!said.contains("--force"), "{said}");
    let said = bed.spoke("gc --force");
    let words =
        ["DeleteEndpoint", "forgotten", "left in the hands of probe: endpoint ", "not today"];
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
    assert_eq!(bed.spoke("gc --dry-run -o json").trim(), "[]");
    // It is the plugin's own now.
    assert!(
        bed.driver.holds().iter().any(|held| held.contains("endpoint")),
        "{:?}",
        bed.driver.holds()
    );
}

#[test]
fn pending_cleanups_of_a_plugin_that_is_gone_are_forgotten_by_force() {
    let bed = Bed::with_network(Manners::default(), "");
    bed.spoke("network connect net one");
    bed.driver.die();
    let _ = bed.try_spoke("network disconnect net one");
    bed.world.sh("rm -f /run/docker/plugins/probe.sock /etc/docker/plugins/probe.*");
    let said = bed.try_spoke("gc").stdout;
    assert!(said.contains("--force") && !said.contains("forgotten"), "{said}");
    let said = bed.try_spoke("gc --dry-run --force").stdout;
    assert!(said.contains("left in the hands of probe: address 10.200.1.2 of pool"), "{said}");
    let said = bed.spoke("gc --force");
    assert!(said.contains("forgotten") && said.contains("DeleteEndpoint"), "{said}");
    assert_eq!(bed.spoke("gc --dry-run -o json").trim(), "[]");
}

/// The daemon settles by itself, also what it found when it started.
#[test]
fn the_daemon_settles_when_the_plugin_is_back() {
    let bed = Bed::with_network(Manners::default(), "");
    bed.spoke("network connect net one");
    bed.driver.die();
    let _ = bed.try_spoke("network disconnect net one");
    let serve = Serve::start(&bed.world, &[]);
    serve.kill();
    let serve = Serve::start(&bed.world, &[]);
    bed.driver.come_back();
    let settled = "[ \"$(/opt/cni/bin/spoke gc --dry-run -o json)\" = [] ]";
    let done =
        bed.world.try_sh(&format!("timeout 20 bash -c 'until {settled}; do sleep 0.05; done'"));
    assert_eq!(done.status, 0, "{}\n{}", serve.log(), bed.try_spoke("gc --dry-run").stdout);
    assert_eq!(bed.driver.holds().len(), 3, "{:?}", bed.driver.holds());
    // What the plugin never heard of it did not get.
    let reported = bed.driver.order().join(" ");
    let events = bed.spoke("events -n 1000");
    for method in DISCONNECT {
        let of_method = format!("plugin probe: {method} ");
        let is_done =
            |line: &str| line.contains(&of_method) && line.trim_end().ends_with("is done");
        assert_eq!(events.lines().any(is_done), reported.contains(method), "{events}");
    }
    serve.stop();
    bed.spoke("network rm net");
    bed.is_clean();
}

#[test]
fn a_killed_command_is_gone_on_with() {
    let bed = Bed::with_network(Manners::default(), "");
    for method in CONNECT.iter().skip(1).chain(&DISCONNECT) {
        let gate = tests::fault_proxy::Gate::default();
        bed.driver.fail(method, 1, Fault::HoldReply(gate.clone()));
        let commands = ["connect", "disconnect"];
        let at = usize::from(DISCONNECT.contains(method));
        for command in &commands[..at] {
            bed.spoke(&format!("network {command} net one"));
        }
        let script = format!("/opt/cni/bin/spoke network {} net one", commands[at]);
        let mut child = bed.world.command("/bin/bash").args(["-c", &script]).spawn().unwrap();
        gate.reached();
        bed.world.sh("pkill -9 -x spoke");
        child.wait().unwrap();
        gate.open();
        let _ = bed.try_spoke("gc");
        if at == 0 {
            let again = bed.try_spoke("network connect net one");
            let is_on = again.stderr.contains("already exists");
            assert!(again.status == 0 || is_on, "{method}: {}", again.stderr);
        }
        let gone = bed.try_spoke("network disconnect net one");
        assert!(gone.status == 0 || at == 1, "{method}: {}", gone.stderr);
        bed.spoke("gc");
        assert_eq!(bed.driver.complaints(), Vec::<String>::new(), "{method}");
        assert_eq!(bed.driver.holds().len(), 3, "{method} {:?}", bed.driver.holds());
        assert_eq!(bed.ip("one", "-o link").lines().count(), 1, "{method}");
    }
    bed.spoke("network rm net");
    bed.is_clean();
}

/// Docker waits 15 s for each call. No time is judged here that a busy machine could exceed.
#[test]
fn a_dead_plugin_fails_fast() {
    let bed = Bed::with_network(Manners::default(), "");
    bed.spoke("network connect net one");
    bed.driver.die();
    let began = Instant::now();
    bed.refused("network connect net two", &["probe"]);
    let _ = bed.try_spoke("network disconnect net one");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(!bed.ip("one", "-o link").contains("eth0"));
    bed.refused(&format!("{CREATE} other"), &["probe"]);
    bed.driver.come_back();
    bed.spoke("gc");
    bed.spoke("network connect net two");
    bed.spoke("network disconnect net two");
    bed.spoke("network rm net");
    bed.is_clean();
}

#[test]
fn a_plugin_that_dies_amid_a_call_is_waited_for_no_longer_than_it_takes() {
    for fault in [Fault::Die, Fault::DieAfter] {
        let bed = Bed::with_network(Manners::default(), "");
        bed.driver.fail("Join", 1, fault.clone());
        bed.refused("network connect net one", &["probe"]);
        assert_eq!(bed.ip("one", "-o link").lines().count(), 1);
        bed.driver.come_back();
        bed.spoke("gc");
        assert_eq!(bed.driver.complaints(), Vec::<String>::new(), "{fault:?}");
        assert_eq!(bed.driver.holds().len(), 3, "{fault:?} {:?}", bed.driver.holds());
        bed.spoke("network connect net one");
        bed.spoke("network disconnect net one");
        bed.spoke("network rm net");
        bed.is_clean();
    }
}
