//! A store that takes nothing more: full, or read-only.

use serde_json::{Value, json};
use tests::{Answer, Cni, Plugins, World};

use crate::bed::{Bed, chain, whole, world};

/// `/run/spoke` on a disk of its own, small enough to be filled.
const OWN_DISK: &str = "mkdir -p /run/spoke; mount -t tmpfs -o size=256k own /run/spoke";
const FILL: &str = "cat /dev/zero >/run/spoke/ballast 2>/dev/null || true";
const EMPTY: &str = "rm /run/spoke/ballast";
const SHUT: &str = "mount -o remount,ro /run/spoke";
const OPEN: &str = "mount -o remount,rw /run/spoke";

#[test]
fn a_full_store() {
    full(whole());
}

#[test]
fn a_full_store_and_a_chain() {
    full(chain());
}

#[test]
fn a_store_that_is_read_only() {
    read_only(whole());
}

#[test]
fn a_store_that_is_read_only_and_a_chain() {
    read_only(chain());
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
                let reported =
                    error["msg"].as_str().is_some_and(|msg| msg.contains("/data/full/10.94"));
                assert!(error["code"] == 11 && reported, "{answer:?}");
            }
        }
        world.sh("mount -o remount,rw /data");
        let answer = cni.execute("host-local", "DEL", &config);
        assert!(answer.ok() && held() == "0", "{answer:?}");
    }
}

/// What is taken away needs no space.
fn full(list: Value) {
    let world = world();
    world.sh(OWN_DISK);
    let bed = Bed::new(&world, list);
    refused(&world, &bed, FILL, EMPTY);
    bed.add(bed.len());
    world.sh(FILL);
    bed.del(bed.len(), "DEL where there is no space");
    bed.del(bed.len(), "the second DEL where there is no space");
    world.sh(EMPTY);
    bed.is_clean("DEL where there is no space");
}

fn read_only(list: Value) {
    let world = world();
    world.sh(OWN_DISK);
    let bed = Bed::new(&world, list);
    refused(&world, &bed, SHUT, OPEN);
    removed(&world, &bed);
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

/// DEL cleans the kernel, so that the container can go. It fails all the same, and says which file cannot be
/// written: the record stays, and with it the address. Both go with the DEL that the runtime repeats, or
/// with `spoke gc`.
fn removed(world: &World, bed: &Bed<'_>) {
    for mended in [repeated, collected] {
        bed.add(bed.len());
        world.sh(SHUT);
        for _ in 0..2 {
            for at in (0..bed.len()).rev() {
                kept(&bed.call(&[], at, "DEL", None));
            }
        }
        let left = bed.left();
        let records = |line: &String| line.starts_with("+ /run/spoke/");
        assert!(left.iter().all(records), "more than records is left: {left:#?}");
        assert!(left.iter().any(|line| line.contains("/leases/")), "{left:#?}");
        world.sh(OPEN);
        mended(world, bed);
        bed.is_clean("where everything can be written again");
    }
    bed.add(bed.len());
    bed.del(bed.len(), "as if nothing had been");
    bed.is_clean("as if nothing had been");
}

/// The answer of a DEL after which something is still taken.
#[track_caller]
fn kept(answer: &Answer) {
    let error = answer.json().expect("an error object");
    let msg = error["msg"].as_str().expect("a sentence");
    let is_reported = msg.contains("still taken") && msg.contains("/run/spoke/");
    assert!(!answer.ok() && error["code"] == 11 && is_reported, "{answer:?}");
}

fn repeated(_: &World, bed: &Bed<'_>) {
    bed.del(bed.len(), "the runtime comes again");
}

/// The runtime is done with the container; that it is gone is what `gc` can prove.
fn collected(world: &World, _: &Bed<'_>) {
    world.sh("ip netns del c1");
    println!("{}", world.sh("/opt/cni/bin/spoke gc"));
    world.sh("ip netns add c1");
}

/// Other callers hear of what is removed, too: `spoke network disconnect`, Podman's teardown, and
/// a plugin that has addresses of host-local alone.
#[test]
fn everybody_hears_that_something_is_still_taken() {
    let world = world();
    world.sh(OWN_DISK);
    let cni = Cni::container(&world, "c1");
    world.netns("c2");
    world.sh("spoke=/opt/cni/bin/spoke; $spoke network create --subnet 10.95.0.0/24 front
        $spoke network connect front /run/netns/c2");
    let alone = json!({"cniVersion": "1.0.0", "name": "alone", "type": "host-local",
        "ipam": {"type": "host-local", "subnet": "10.96.0.0/24"}})
    .to_string();
    assert!(cni.execute("host-local", "ADD", &alone).ok());
    let podman = podman("c3");
    let third = world.netns("c3");
    let plugin = |verb: &str| {
        world.try_sh(&format!("/opt/cni/bin/spoke {verb} {third} <<'END'\n{podman}\nEND"))
    };
    let setup = plugin("setup");
    assert_eq!(setup.status, 0, "{setup:?}");
    world.sh(SHUT);
    kept(&cni.execute("host-local", "DEL", &alone));
    let disconnect = "/opt/cni/bin/spoke network disconnect front c2";
    for reported in [world.try_sh(disconnect), plugin("teardown")] {
        let said = format!("{}{}", reported.stdout, reported.stderr);
        assert!(reported.status != 0 && said.contains("still taken"), "{reported:?}");
        assert!(said.contains("/run/spoke/") && said.contains("read-only"), "{reported:?}");
    }
    world.sh(OPEN);
    assert!(cni.execute("host-local", "DEL", &alone).ok());
    world.sh(disconnect);
    let teardown = plugin("teardown");
    assert_eq!(teardown.status, 0, "{teardown:?}");
    let leases = world.sh("find /run/spoke -path '*/leases/*' -type f -size +0");
    assert_eq!(leases, "");
}

/// What Podman says of a container on a network of its own.
fn podman(container: &str) -> Value {
    json!({
        "container_id": container, "container_name": container,
        "network": {"name": "pod", "id": "00", "driver": "spoke",
            "network_interface": "pod0", "subnets": [{"subnet": "10.97.0.0/24", "gateway": "10.97.0.1"}],
            "ipv6_enabled": false, "internal": false, "dns_enabled": false,
            "ipam_options": {"driver": "spoke"}, "options": {"sticky": "false"}},
        "network_options": {"interface_name": "eth0", "static_ips": ["10.97.0.2"]},
    })
}
