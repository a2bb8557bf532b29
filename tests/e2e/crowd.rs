//! Many attachments, at once and altogether.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tests::{Cni, Plugins, Snapshot, World};

fn network() -> Value {
    json!({"name": "crowd", "cniVersion": "1.0.0", "plugins": [{
        "type": "bridge", "bridge": "crowd0", "isGateway": true,
        "ipam": {"type": "host-local", "subnet": "10.92.0.0/16"},
    }]})
}

/// Runs `work` for each of `containers`, `at_once` of them at a time.
fn each(containers: &mut [Cni<'_>], at_once: usize, work: impl Fn(&mut Cni<'_>) + Sync) {
    let share = containers.len().div_ceil(at_once);
    std::thread::scope(|threads| {
        for part in containers.chunks_mut(share) {
            threads.spawn(|| part.iter_mut().for_each(&work));
        }
    });
}

fn crowd(count: usize, at_once: usize) {
    let plugins = Plugins::subject();
    let world = World::new(&plugins);
    let mut containers: Vec<_> =
        (0..count).map(|n| Cni::container(&world, &format!("c{n}"))).collect();
    let before = world.sh("ip -o link | wc -l");
    let list = network();

    each(&mut containers, at_once, |cni| {
        let answers = cni.add(&list);
        assert!(answers.iter().all(tests::Answer::ok), "{answers:?}");
    });
    let addresses: BTreeSet<_> = containers.iter().map(address).collect();
    assert_eq!(addresses.len(), count, "everybody has an address of their own");
    each(&mut containers, at_once, |cni| {
        let answers = cni.del(&list);
        assert!(answers.iter().all(tests::Answer::ok), "{answers:?}");
    });

    world.sh("ip link del crowd0");
    assert_eq!(world.sh("ip -o link | wc -l"), before);
    let left = world.sh("ls /var/lib/cni/networks/crowd");
    assert_eq!(left.lines().filter(|file| file.starts_with("10.")).count(), 0, "{left}");
}

fn address(cni: &Cni<'_>) -> String {
    let result = cni.result.as_ref().expect("a result");
    result["ips"][0]["address"].as_str().expect("an address").to_owned()
}

#[test]
fn eight_at_once() {
    crowd(8, 8);
}

#[test]
fn sixty_four_at_once() {
    crowd(64, 64);
}

#[test]
fn a_thousand() {
    crowd(1000, 16);
}

/// What one container does is not seen by the next.
#[test]
fn the_same_again_and_again() {
    let world = World::new(&Plugins::subject());
    let list = network();
    let mut cni = Cni::new(&world);
    let mut states = Vec::new();
    for _ in 0..3 {
        assert!(cni.add(&list).iter().all(tests::Answer::ok));
        assert!(cni.del(&list).iter().all(tests::Answer::ok));
        let mut snapshot = Snapshot::of(&world);
        snapshot.lines.retain(|line| {
            !line.contains("last_reserved_ip") && !line.starts_with("file /run/spoke/")
        });
        states.push(snapshot);
    }
    assert_eq!(states[1].changes(&states[0]), Vec::<String>::new());
    assert_eq!(states[2].changes(&states[0]), Vec::<String>::new());
}
