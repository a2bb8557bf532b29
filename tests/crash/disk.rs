//! A store that takes nothing more: full, or read-only.

use serde_json::{Value, json};
use tests::{Cni, Plugins, World};

use crate::bed::{Bed, chain, whole, world};

/// `/run/spoke` on a disk of its own, small enough to be filled.
const OWN_DISK: &str = "mkdir -p /run/spoke; mount -t tmpfs -o size=256k own /run/spoke";
const FILL: &str = "cat /dev/zero >/run/spoke/ballast 2>/dev/null || true";
const EMPTY: &str = "rm /run/spoke/ballast";
const SHUT: &str = "mount -o remount,ro /run/spoke";
const OPEN: &str = "mount -o remount,rw /run/spoke";

#[test]
fn a_full_store() {
    each(whole(), FILL, EMPTY);
}

#[test]
fn a_full_store_and_a_chain() {
    each(chain(), FILL, EMPTY);
}

#[test]
fn a_store_that_is_read_only() {
    each(whole(), SHUT, OPEN);
}

#[test]
fn a_store_that_is_read_only_and_a_chain() {
    each(chain(), SHUT, OPEN);
}

/// The directories of `host-local`, which Spoke shares with others. The reference says that it gave an
/// address back that stays taken for ever; ours is to be called again.
#[test]
fn a_directory_of_addresses_that_is_read_only() {
    for plugins in [Plugins::reference(), Plugins::subject()] {
        let world = World::new(&plugins);
        world.sh("mkdir -p /data; mount -t tmpfs own /data");
        let config = json!({"cniVersion": "1.0.0", "name": "full", "type": "host-local",
            "ipam": {"type": "host-local", "dataDir": "/data", "subnet": "10.94.0.0/24"}});
        let (cni, config) = (Cni::new(&world), config.to_string());
        let held = || world.sh("ls /data/full | grep -c ^10 || true").trim().to_owned();
        assert!(cni.execute("host-local", "ADD", &config).ok());
        world.sh("mount -o remount,ro /data");
        for _ in 0..2 {
            let answer = cni.execute("host-local", "DEL", &config);
            assert_eq!((answer.ok(), held()), (!plugins.are_ours(), "1".to_owned()), "{answer:?}");
            if plugins.are_ours() {
                let error = answer.json().expect("an error object");
                let told =
                    error["msg"].as_str().is_some_and(|msg| msg.contains("/data/full/10.94"));
                assert!(error["code"] == 11 && told, "{answer:?}");
            }
        }
        world.sh("mount -o remount,rw /data");
        let answer = cni.execute("host-local", "DEL", &config);
        assert!(answer.ok() && held() == "0", "{answer:?}");
    }
}

fn each(list: Value, shut: &str, open: &str) {
    let world = world();
    world.sh(OWN_DISK);
    let bed = Bed::new(&world, list);
    refused(&world, &bed, shut, open);
    removed(&world, &bed, shut, open);
}

/// ADD says one thing on standard output, and nothing is left.
fn refused(world: &World, bed: &Bed<'_>, shut: &str, open: &str) {
    world.sh(shut);
    let answer = bed.call(&[], 0, "ADD", None);
    let error = answer.json().expect("an error object");
    assert!(!answer.ok() && error["code"].is_u64(), "{answer:?}");
    assert_eq!(error["cniVersion"], "1.0.0", "{answer:?}");
    assert!(error["msg"].as_str().is_some_and(|msg| msg.contains("/run/spoke")), "{answer:?}");
    println!("{error}");
    bed.del(bed.len(), "a refused ADD");
    world.sh(open);
    bed.is_clean("ADD where nothing can be written");
}

/// DEL succeeds and cleans the kernel, so that the container can go. The record stays, and with it the
/// address; both go with the next `spoke gc`, so that nothing is lost.
fn removed(world: &World, bed: &Bed<'_>, shut: &str, open: &str) {
    bed.add(bed.len());
    world.sh(shut);
    bed.del(bed.len(), "DEL where nothing can be written");
    bed.del(bed.len(), "the second DEL where nothing can be written");
    let left = bed.left();
    let records = |line: &String| line.starts_with("+ /run/spoke/");
    assert!(left.iter().all(records), "more than records is left: {left:#?}");
    world.sh(open);
    // The runtime is done with the container; that it is gone is what `gc` can prove.
    world.sh("ip netns del c1");
    println!("{}", world.sh("/opt/cni/bin/spoke gc"));
    world.sh("ip netns add c1");
    bed.is_clean("spoke gc where everything can be written again");
    bed.add(bed.len());
    bed.del(bed.len(), "as if nothing had been");
    bed.is_clean("as if nothing had been");
}
