//! Another program removes what the daemon puts back, whenever it is there again.

use std::process::Child;

use serde_json::json;
use tests::{Cni, Serve, World};

use crate::bed::{ok, whole, world};

/// When it was there to be removed, in microseconds, a line each.
const RIVAL: &str = "
    until [ -e /tmp/enough ]; do
        sleep 0.02
        nft delete table inet spoke 2>/dev/null || continue
        echo ${EPOCHREALTIME/./} >>/tmp/removed
    done";

/// A process of the world that ends when the file is there: who enters a world forks, and to kill that one does
/// not end the other.
struct Rival(Child);

impl Rival {
    fn start(world: &World) -> Self {
        Self(world.command("/bin/bash").args(["-c", RIVAL]).spawn().unwrap())
    }

    fn end(mut self, world: &World) {
        world.sh("touch /tmp/enough");
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_rival_is_answered_less_and_less_often() {
    let world = world();
    let _serve = Serve::start(&world, &[]);
    // One record, which is one object: its parts come back together.
    let list = whole();
    let mut cni = Cni::container(&world, "c1");
    cni.runtime =
        json!({"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]});
    ok(&cni.add(&list));
    world.sh("nft list table inet spoke | grep -q 8080");
    let rival = Rival::start(&world);
    // The first one was there before; five come back at once, then after 1, 2 and 4 seconds. A table
    // that is removed while it is made anew is there twice.
    world.sh("timeout 60 sh -c 'until [ $(wc -l </tmp/removed) -ge 9 ]; do sleep 0.1; done'");
    let removed = world.sh("head -9 /tmp/removed");
    let removed: Vec<u64> = removed.lines().map(|line| line.parse().unwrap()).collect();
    assert!(removed[8] - removed[0] > 2_900_000, "{removed:?}");
    rival.end(&world);
    // It is put back once more, and stays.
    world.sh(
        "timeout 60 sh -c 'until nft list table inet spoke 2>/dev/null | grep -q 8080; do sleep 0.05; done'",
    );
    let events = world.sh("/opt/cni/bin/spoke events");
    let reported: Vec<_> = events.lines().filter(|line| line.contains(" contested ")).collect();
    assert_eq!(reported.len(), 1, "{events}");
    assert!(
        reported[0].contains("something keeps removing the packet filter of container c1"),
        "{reported:?}"
    );
    let report = world.try_sh("/opt/cni/bin/spoke doctor").stdout;
    assert!(report.contains("warn  something keeps removing"), "{report}");
    ok(&cni.del(&list));
}
