//! Docker's engine dies, with and without its containers.

use std::collections::BTreeSet;

use serde_json::json;
use tests::{Release, Serve};

use crate::bed::Bed;

#[track_caller]
fn killed(release: Release, live: bool) {
    let arguments: &[&str] = if live { &["--live-restore"] } else { &[] };
    let Some(mut bed) = Bed::with(release, "", arguments) else { return };
    bed.network("--subnet 10.82.0.0/24 front");
    bed.network("--subnet 10.82.1.0/24 back");
    bed.run("--name one --stop-timeout 0 --network front --ip 10.82.0.50 -p 8082:80");
    bed.run("--name two --stop-timeout 0 --network front");
    let first = bed.engine.container("one")["State"]["Pid"].clone();
    let reported = bed.spoke("ps -o json");

    bed.engine.kill();
    assert_eq!(addresses(&bed.spoke("ps -o json")), addresses(&reported), "no call was made");
    bed.engine.start(arguments);
    let now = bed.engine.container("one")["State"].clone();
    match live {
        true => {
            assert_eq!(now["Pid"], first, "it goes on");
            bed.engine.ping("two", "one");
            assert_eq!(addresses(&bed.spoke("ps -o json")), addresses(&reported));
            assert!(bed.spoke("ports").contains("8082"));
            bed.docker("network connect back one");
            bed.truth("one", "back");
            bed.docker("network disconnect back one");
        }
        false => {
            assert_eq!(now["Running"], false);
            assert!(addresses(&bed.spoke("ps -o json")).is_empty(), "{}", bed.spoke("ps"));
            assert!(!bed.spoke("ports").contains("8082"));
            bed.docker("start one two");
        }
    }
    assert_eq!(bed.address("one", "front"), "10.82.0.50");
    bed.truth("one", "front");
    bed.truth("two", "front");
    bed.engine.ping("two", "one");
    bed.run("--name three --network front");
    bed.engine.ping("three", "one");
    bed.remove("one two three");
    bed.docker("network rm front back");
    bed.is_clean();
}

/// In no order: rows are in that of names, which are unknown while the engine is away.
fn addresses(reported: &str) -> BTreeSet<String> {
    let reported: serde_json::Value = serde_json::from_str(reported).expect("JSON");
    let all = reported.as_array().into_iter().flatten();
    all.map(|one| one["addresses"].to_string()).collect()
}

#[test]
fn killed_20_10() {
    killed(Release::V20_10, false);
}

#[test]
fn killed_28_5() {
    killed(Release::V28_5, false);
}

#[test]
fn killed_with_live_restore_20_10() {
    killed(Release::V20_10, true);
}

#[test]
fn killed_with_live_restore_28_5() {
    killed(Release::V28_5, true);
}

/// Docker's own test DriverUngracefulRestart: the engine cannot give anything back, because the
/// plugin is away too when it starts again.
#[track_caller]
fn without_the_plugin(release: Release) {
    let Some(mut bed) = Bed::new(release) else { return };
    bed.network("--subnet 10.82.2.0/24 front");
    bed.run("--name one --network front --ip 10.82.2.20");
    bed.engine.kill();
    bed.serve.stop();
    bed.engine.start(&[]);
    bed.serve = Serve::start(bed.engine.world(), &[]);
    bed.run("--name two --network front --ip 10.82.2.20");
    bed.truth("two", "front");
    bed.engine.ping("two", "10.82.2.1");
    bed.remove("one two");
    bed.docker("network rm front");
    bed.is_clean();
}

#[test]
fn without_the_plugin_20_10() {
    without_the_plugin(Release::V20_10);
}

#[test]
fn without_the_plugin_28_5() {
    without_the_plugin(Release::V28_5);
}

/// What a host's end takes with it: every process and interface, the packet filter, and the boot's
/// own id.
const REBOOT: &str = "
for shim in $(pidof containerd-shim-runc-v2); do kill -9 $shim; done
for cgroup in /sys/fs/cgroup/*/$CGROUP /sys/fs/cgroup/$CGROUP; do [ -d $cgroup ] || continue
    find $cgroup -name cgroup.procs -exec cat {} + | while read -r pid; do kill -9 $pid || true; done
done
cat /proc/sys/kernel/random/uuid >/world/boot_id
mount --bind /world/boot_id /proc/sys/kernel/random/boot_id
for link in $(ls /sys/class/net); do [ $link = lo ] || ip link del $link || true; done
nft flush ruleset";

#[track_caller]
fn reboot(release: Release) {
    let Some(mut bed) = Bed::new(release) else { return };
    bed.network("--ipv6 --subnet 10.82.3.0/24 --subnet fd82:3::/64 front");
    bed.network("--internal --subnet 10.82.4.0/24 closed");
    let always = json!({"HostConfig": {"RestartPolicy": {"Name": "always"}}});
    bed.engine.run("one", "front", always.clone());
    bed.engine.run("two", "front", always);
    bed.run("--name three --network closed");

    bed.engine.kill();
    bed.serve.kill();
    let cgroup = bed.engine.cgroup().to_owned();
    bed.engine.world().sh(&format!("CGROUP={cgroup}{REBOOT}"));
    bed.serve = Serve::start(bed.engine.world(), &[]);
    // Docker never says again what its networks are: they are there before it is answered.
    assert_eq!(bed.serve.call("Plugin.Activate", "").expect("an answer").status, 200);
    for (bridge, address) in [("sp-10-82-3", "10.82.3.1/24"), ("sp-10-82-4", "10.82.4.1/24")] {
        let there = bed.world().sh(&format!("ip -o address show dev {bridge}"));
        assert!(there.contains(address), "{bridge}: {there}");
    }
    bed.engine.start(&[]);
    let mut events = bed.engine.events();
    for name in ["one", "two"] {
        while bed.engine.container(name)["State"]["Running"] != true {
            events.until(|event| event["Action"] == "start");
        }
        bed.truth(name, "front");
    }
    bed.engine.ping("one", "two");
    bed.engine.ping("one", "fd82:3::1");
    bed.docker("start three");
    bed.truth("three", "closed");
    bed.engine.ping("three", "10.82.4.1");
    bed.remove("one two three");
    bed.docker("network rm front closed");
    assert_eq!(bed.spoke("gc --dry-run -o json").trim(), "[]");
}

#[test]
fn reboot_20_10() {
    reboot(Release::V20_10);
}

#[test]
fn reboot_28_5() {
    reboot(Release::V28_5);
}
