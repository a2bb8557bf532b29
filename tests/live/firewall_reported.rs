//! What `spoke firewall status` tells of firewalls that contradict each other or are away, what `spoke explain`
//! says to open, and that a table that is contested leaves nothing open.

use std::collections::BTreeMap;

use serde_json::Value;
use tests::Serve;

use crate::bed::Live;
use crate::firewall::{FIREWALLD, IS_READY, PUBLISHED, Wall};

/// Removes the table as soon as it is there, until the file is gone. The monitor tells of it without delay.
const RIVAL: &str = "
: >/rival
(
    exec </dev/null >/dev/null 2>&1
    while [ -e /rival ]; do nft delete table inet spoke_follow && echo >>/removed || :; done
) &
";

#[test]
fn what_contradicts_or_is_away_is_reported() {
    let wall = Wall::new();
    wall.world.netns("here");
    wall.spoke("network connect --publish 127.0.0.1:8090:80 front here");
    a_port_for_this_host_alone(&wall);
    wall.world.sh("ufw default deny >/dev/null; ufw --force enable >/dev/null");
    let serve = Serve::start(&wall.world, &[]);
    wall.spoke("firewall follow ufw");
    explained_and_opened(&wall, &["8001", "8002"]);
    // What a rule of the operator's refuses is let in before it.
    wall.world.sh("ufw deny 8003/tcp >/dev/null");
    wall.until_follows("8003 drop");
    let fix = explained_and_opened(&wall, &["8003", "8002"]);
    assert!(fix.starts_with("ufw prepend allow proto tcp from 192.0.2.2"), "{fix}");
    rules_of_ufw_that_are_gone(&wall);
    let serve = what_the_kernel_holds_is_shown(&wall, serve);
    let serve = a_contested_table_leaves_nothing_open(&wall, serve);

    wall.world.sh(FIREWALLD);
    wall.world.sh("firewall-offline-cmd -q --zone=public --add-interface=up0; firewalld --nopid");
    wall.world.sh(IS_READY);
    let status = wall.status();
    assert!(warnings(&status).contains("ufw and firewalld are both on"), "{status}");
    wall.world.sh("ufw disable >/dev/null");
    wall.spoke("firewall follow firewalld");
    let status = wall.status();
    assert!(!warnings(&status).contains("both on"), "{status}");
    explained_and_opened(&wall, &["8001", "8002"]);
    wall.world.sh("firewall-cmd -q --add-port=8003/tcp");
    wall.world.sh("firewall-cmd -q --add-rich-rule='rule port port=8003 protocol=tcp drop'");
    wall.until_follows("8003 drop");
    explained_and_opened(&wall, &["8003", "8002"]);

    wall.world.sh("firewall-cmd -q --panic-on");
    assert_eq!(state(&wall), "panic");
    let text = wall.spoke("firewall status");
    assert!(text.contains("firewalld is in panic mode: "), "{text}");
    wall.world.sh("firewall-cmd -q --panic-off");
    assert_eq!(state(&wall), "on");
    wall.world.sh("nft delete table inet firewalld");
    assert_eq!(state(&wall), "away");
    let text = wall.spoke("firewall status");
    assert!(text.contains("systemctl restart firewalld"), "{text}");
    assert!(text.contains("obey the rules that firewalld had last"), "{text}");
    wall.spoke("firewall follow none");
    assert_eq!(
        state(&wall),
        "away",
        "it runs, and networks that do not follow it say that it does not judge"
    );
    // A reload alone does not bring them back.
    wall.world
        .sh("pkill -x firewalld; timeout 20 sh -c 'while pgrep -x firewalld; do sleep 0.05; done'");
    wall.world.sh("firewalld --nopid");
    wall.world.sh(IS_READY);
    assert_eq!(state(&wall), "on");
    serve.stop();
}

/// As after `nft flush ruleset`, of which ufw itself says nothing.
fn rules_of_ufw_that_are_gone(wall: &Wall) {
    assert_eq!(state_of(wall, "ufw"), "on");
    wall.world.sh("nft delete table ip filter; nft delete table ip6 filter");
    assert_eq!(state_of(wall, "ufw"), "away");
    assert!(warnings(&wall.status()).contains("does not guard this host's own ports"));
    let doctor = wall.try_spoke("doctor").stdout;
    assert!(doctor.contains("ufw is away: ") && doctor.contains("fix: ufw reload"), "{doctor}");
    wall.world.sh("ufw reload >/dev/null");
    assert_eq!(state_of(wall, "ufw"), "on");
}

/// Without the daemon ports obey the rules that the kernel has, whatever ufw says since; and nothing once these are gone.
fn what_the_kernel_holds_is_shown(wall: &Wall, serve: Serve) -> Serve {
    let port = |status: &Value| {
        let all = status["ports"].as_array().unwrap();
        all.iter().find(|it| it["host_port"] == 8005).unwrap().clone()
    };
    let shown = || {
        let text = wall.spoke("firewall status");
        text.lines().find(|line| line.starts_with("8005/tcp")).unwrap().to_owned()
    };
    assert!(shown().contains("nowhere"), "{}", shown());
    serve.stop();
    wall.world.sh("ufw disable >/dev/null");
    assert_eq!(wall.probe(&[PUBLISHED + 5])[&("lan".to_owned(), PUBLISHED + 5)], "silent");
    assert!(shown().contains(" ? ") && !shown().contains("anywhere"), "{}", shown());
    let status = wall.status();
    assert_eq!(
        (&port(&status)["obeys"], port(&status)["allowed"].get("ufw")),
        (&"ufw".into(), None)
    );
    assert!(warnings(&status).contains("other rules than ufw has now"), "{status}");

    wall.world.sh("ufw --force enable >/dev/null; nft delete table inet spoke_follow");
    assert_eq!(wall.probe(&[PUBLISHED + 5])[&("lan".to_owned(), PUBLISHED + 5)], "open");
    let status = wall.status();
    assert_eq!(port(&status)["obeys"], Value::Null);
    assert!(warnings(&status).contains("do not obey ufw"), "{status}");
    assert!(status["otherwise"].to_string().contains("8005/tcp of web is reached"), "{status}");
    Serve::start(&wall.world, &[])
}

fn state(wall: &Wall) -> String {
    state_of(wall, "firewalld")
}

fn state_of(wall: &Wall, name: &str) -> String {
    let status = wall.status();
    let all = status["firewalls"].as_array().unwrap();
    let of = |it: &&Value| it["name"] == name;
    all.iter().find(of).map(|it| it["state"].as_str().unwrap().to_owned()).unwrap_or_default()
}

fn warnings(status: &Value) -> String {
    status["warnings"].to_string()
}

/// Before a firewall is there, too.
fn a_port_for_this_host_alone(wall: &Wall) {
    let status = wall.status();
    let port = status["ports"].as_array().unwrap().iter().find(|it| it["host_port"] == 8090);
    assert_eq!(port.unwrap()["reach"], "local");
    let listed = wall.spoke("port ls");
    let line = listed.lines().find(|line| line.starts_with("8090/tcp")).unwrap();
    assert!(line.contains("local"), "{listed}");
}

/// The command that `explain` names opens the port to the source that asked, and nothing else.
fn explained_and_opened(wall: &Wall, [port, other]: &[&str; 2]) -> String {
    let of = |found: &BTreeMap<(String, u16), String>, way: &str, port: &str| {
        found[&(way.to_owned(), port.parse().unwrap())].clone()
    };
    let ports = [*port, *other].map(|port| port.parse().unwrap());
    let before = wall.probe(&ports);
    assert_ne!(of(&before, "lan", port), "open");
    let asked = wall.try_spoke(&format!("explain -o json 192.0.2.2 host {port}"));
    let explained: Value =
        serde_json::from_str(&asked.stdout).unwrap_or_else(|_| panic!("{asked:?}"));
    let hop = explained["hops"].as_array().unwrap().last().unwrap();
    let fix = hop["fix"].as_str().unwrap().to_owned();
    wall.world.sh(&format!("{fix} >/dev/null"));
    wall.until(&format!(
        "ip netns exec lan timeout 1 bash -c \"</dev/tcp/192.0.2.1/{port}\" 2>/dev/null"
    ));
    let after = wall.probe(&ports);
    let mut wanted = before;
    wanted.insert(("lan".to_owned(), port.parse().unwrap()), "open".to_owned());
    assert_eq!(after, wanted, "{fix}");
    fix
}

/// Port 8004 is allowed; while its table is contested it is shut, and the ones that are refused never open.
fn a_contested_table_leaves_nothing_open(wall: &Wall, serve: Serve) -> Serve {
    wall.world.sh("ufw allow 8004/tcp >/dev/null");
    wall.until_follows("8004 accept");
    wall.world.sh(RIVAL);
    wall.until("nft list table inet spoke_shut >/dev/null 2>&1");
    let found = wall.probe(&[PUBLISHED + 4, PUBLISHED + 5]);
    for way in ["any", "lan", "any6", "lan6"] {
        for port in [PUBLISHED + 4, PUBLISHED + 5] {
            assert_eq!(found[&(way.to_owned(), port)], "silent", "{way} {port}");
        }
    }
    let status = wall.status();
    assert_eq!(status["withdrawn"], true);
    assert!(warnings(&status).contains("published ports are withdrawn"), "{status}");
    let asked = wall.try_spoke("explain 192.0.2.2 host 8004").stdout;
    assert!(asked.contains("published ports are withdrawn"), "{asked}");
    let serve = a_restart_brings_nothing_back(wall, serve);
    wall.world.sh("rm /rival");
    wall.until("! nft list table inet spoke_shut >/dev/null 2>&1");
    let found = wall.probe(&[PUBLISHED + 4, PUBLISHED + 5]);
    let at = |port| found[&("lan".to_owned(), port)].as_str();
    assert_eq!((at(PUBLISHED + 4), at(PUBLISHED + 5)), ("open", "silent"));
    assert_eq!(wall.status()["withdrawn"], false);
    serve
}

/// A daemon that starts while the table is contested leaves what withdraws the ports where it is: one that was
/// made again would have another handle.
fn a_restart_brings_nothing_back(wall: &Wall, serve: Serve) -> Serve {
    let handle = "nft -a list table inet spoke_shut | grep -m1 '# handle'";
    let before = wall.world.sh(handle);
    serve.stop();
    wall.world.sh(": >/removed");
    let serve = Serve::start(&wall.world, &[]);
    wall.until("[ $(wc -l </removed) -ge 2 ]");
    assert_eq!(wall.world.try_sh(handle).stdout.trim(), before.trim());
    serve
}
