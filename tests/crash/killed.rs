//! SIGKILL before each system call that touches anything.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tests::{Answer, Moment, Remains, World};

use crate::bed::{Bed, chain, iptables, whole, world};

/// 128 + SIGKILL.
const KILLED: i32 = 137;

#[test]
fn add_of_a_chain() {
    each_add(chain(), again);
}

#[test]
fn add_of_a_chain_then_del() {
    each_add(chain(), |_, _, _, _| {});
}

#[test]
fn add_of_the_whole() {
    each_add(whole(), again);
}

#[test]
fn add_of_the_whole_then_del() {
    each_add(whole(), |_, _, _, _| {});
}

#[test]
fn add_to_several_networks() {
    let world = world();
    each_add_in(&world, joined(&world), again);
}

#[test]
fn add_with_iptables() {
    each_add(iptables(), again);
}

#[test]
fn add_with_iptables_then_del() {
    each_add(iptables(), |_, _, _, _| {});
}

#[test]
fn del_with_iptables() {
    each_del(iptables(), |_, _, _| {});
}

#[test]
fn del_of_a_chain() {
    each_del(chain(), |_, _, _| {});
}

#[test]
fn del_of_the_whole() {
    each_del(whole(), |_, _, _| {});
}

#[test]
fn del_of_a_chain_then_add() {
    each_del(chain(), anew);
}

#[test]
fn del_of_the_whole_then_add() {
    each_del(whole(), anew);
}

/// Two networks of the world's, joined by one call.
fn joined(world: &World) -> Value {
    for (name, subnet) in [("front", "10.93.1.0/24"), ("back", "10.93.2.0/24")] {
        world.sh(&format!("/opt/cni/bin/spoke network create --subnet {subnet} {name}"));
    }
    json!({"name": "crash", "cniVersion": "1.0.0", "plugins": [{
        "type": "spoke", "networks": ["front", "back"], "capabilities": {"portMappings": true},
    }]})
}

/// Kills ADD of each plugin at each moment, does `then`, and looks whether DEL leaves nothing.
fn each_add(list: Value, then: fn(&Bed<'_>, usize, Option<&Value>, &str)) {
    each_add_in(&world(), list, then);
}

fn each_add_in(world: &World, list: Value, then: fn(&Bed<'_>, usize, Option<&Value>, &str)) {
    let bed = Bed::new(world, list);
    for at in 0..bed.len() {
        let last = bed.add(at);
        let moments = bed.moments(at, "ADD", last.as_ref());
        bed.del(bed.len(), "a trace");
        let mut killed = 0;
        for moment in &moments {
            let last = bed.add(at);
            let after = format!("ADD of plugin {at} killed at {moment:?}");
            killed += usize::from(kill(&bed, at, "ADD", last.as_ref(), moment));
            then(&bed, at, last.as_ref(), &after);
            bed.del(bed.len(), &after);
            bed.is_clean(&after);
            bed.del(bed.len(), &format!("{after}, second DEL"));
        }
        bed.is_clean("the second DEL of each");
        println!("plugin {at}: {killed} kills of ADD in {} moments", moments.len());
        assert!(killed * 10 > moments.len() * 9, "{killed} of {moments:?}");
    }
}

/// Also what all containers share can be half made: the store, the bridge, the nftables table.
#[test]
fn the_first_add_of_all() {
    let world = world();
    let bed = Bed::new(&world, whole());
    let fresh = || {
        let removed = world.try_sh("/opt/cni/bin/spoke network rm --force crash");
        assert_eq!(removed.status, 0, "{removed:?}");
        let left = Remains::of(&world);
        world.sh("rm -rf /run/spoke /var/lib/spoke /var/lib/cni");
        left
    };
    let before = fresh();
    let moments = bed.moments(0, "ADD", None);
    bed.del(1, "a trace");
    let mut killed = 0;
    for moment in &moments {
        let changes = fresh().changes(&before);
        assert!(changes.is_empty(), "the network is gone: {changes:#?}");
        let after = format!("the first ADD killed at {moment:?}");
        killed += usize::from(kill(&bed, 0, "ADD", None, moment));
        again(&bed, 0, None, &after);
        bed.del(1, &after);
    }
    let changes = fresh().changes(&before);
    assert!(changes.is_empty(), "the last one: {changes:#?}");
    println!("{killed} kills of the first ADD in {} moments", moments.len());
    assert!(killed * 10 > moments.len() * 9);
}

/// The same ADD once more. It is refused only where the result was reported, however complete all is.
fn again(bed: &Bed<'_>, at: usize, last: Option<&Value>, after: &str) {
    let held = bed.held();
    let attached = attached(bed);
    let complete = attached > 0 && unreported(bed) < attached;
    let answer = bed.call(&[], at, "ADD", last);
    if complete && at == 0 {
        let code = answer.json().map(|error| error["code"].clone());
        assert_eq!(code, Some(json!(101)), "{after}, a complete attachment: {answer:?}");
        return;
    }
    assert!(answer.ok(), "{after}: {answer:?}");
    let got = addresses(&answer);
    let lost: Vec<_> = held.iter().filter(|held| !got.contains(held)).collect();
    assert!(lost.is_empty(), "{after}: begun with {held:?}, got {got:?}");
    assert_eq!(bed.held(), got, "{after}: more is held than was given");
    bed.add_from(at + 1, bed.len(), answer.json());
}

/// How many links' records say that all is made.
fn attached(bed: &Bed<'_>) -> usize {
    let shown = bed.cni.world.sh("/opt/cni/bin/spoke ps -o json");
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    shown.as_array().expect("a list").iter().filter(|one| one["state"] == "attached").count()
}

/// How many records say that their caller has yet to hear of them.
fn unreported(bed: &Bed<'_>) -> usize {
    let world = bed.cni.world;
    let is_one = |path: &String| {
        let file = fs::metadata(world.path(path));
        file.is_ok_and(|file| file.permissions().mode() & 0o7777 == 0o700)
    };
    world.files("/run/spoke").iter().filter(|path| is_one(path)).count()
}

fn addresses(answer: &Answer) -> Vec<String> {
    let result = answer.json().expect("a result");
    let ips = result["ips"].as_array().expect("addresses").iter();
    let bare = |ip: &Value| ip["address"].as_str().unwrap().split('/').next().unwrap().to_owned();
    let mut addresses: Vec<String> = ips.map(bare).collect();
    addresses.sort();
    addresses
}

/// Kills DEL of each plugin at each moment, does `then`, and looks whether DEL leaves nothing.
fn each_del(list: Value, then: fn(&Bed<'_>, usize, &str)) {
    let world = world();
    let bed = Bed::new(&world, list);
    for at in (0..bed.len()).rev() {
        bed.add(bed.len());
        let moments = bed.moments(at, "DEL", None);
        bed.del(bed.len(), "a trace");
        let mut killed = 0;
        for moment in &moments {
            bed.add(bed.len());
            for later in (at + 1..bed.len()).rev() {
                assert!(bed.call(&[], later, "DEL", None).ok());
            }
            let after = format!("DEL of plugin {at} killed at {moment:?}");
            killed += usize::from(kill(&bed, at, "DEL", None, moment));
            then(&bed, at, &after);
            bed.del(bed.len(), &after);
            bed.is_clean(&after);
            bed.del(bed.len(), &format!("{after}, second DEL"));
        }
        bed.is_clean("the second DEL of each");
        println!("plugin {at}: {killed} kills of DEL in {} moments", moments.len());
        // How often it asks for notifications is not ours to say.
        assert!(killed * 10 > moments.len() * 8, "{killed} of {moments:?}");
    }
}

/// A new container under the old name.
fn anew(bed: &Bed<'_>, at: usize, after: &str) {
    if at > 0 {
        return;
    }
    let answer = bed.call(&[], 0, "ADD", None);
    if answer.ok() {
        assert_eq!(bed.held(), addresses(&answer), "{after}: more is held than was given");
        bed.add_from(1, bed.len(), answer.json());
        return;
    }
    // It died before it had begun: the attachment is as complete as before.
    let code = answer.json().map(|error| error["code"].clone());
    assert_eq!(code, Some(json!(101)), "{after}: {answer:?}");
    assert!(attached(bed) > 0, "{after}: {answer:?}");
}

/// Kills the only plugin of a list before each of these system calls of ADD or DEL, and looks at what one
/// DEL leaves: how often it died, of which moments.
pub(crate) fn kill_at_each(
    bed: &Bed<'_>,
    verb: &str,
    steps: &[&str],
    look: impl Fn(&str),
) -> (usize, Vec<Moment>) {
    let ready = || {
        if verb == "DEL" {
            bed.add(1);
        }
    };
    ready();
    let mut moments = bed.moments(0, verb, None);
    moments.retain(|moment| steps.contains(&moment.name.as_str()));
    bed.del(1, "a trace");
    let mut killed = 0;
    for moment in &moments {
        ready();
        let after = format!("{verb} killed at {moment:?}");
        killed += usize::from(kill(bed, 0, verb, None, moment));
        bed.del(1, &after);
        look(&after);
    }
    (killed, moments)
}

/// Whether the plugin died: a call may come less often the next time.
pub(crate) fn kill(
    bed: &Bed<'_>,
    at: usize,
    verb: &str,
    last: Option<&Value>,
    moment: &Moment,
) -> bool {
    let over = moment.kill();
    let over: Vec<&str> = over.iter().map(String::as_str).collect();
    let answer = bed.call(&over, at, verb, last);
    assert!(answer.ok() || answer.output.status == KILLED, "{moment:?}: {answer:?}");
    answer.output.status == KILLED
}
