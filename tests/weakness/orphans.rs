//! No process outlives a call: the first process of a pod may not reap, or may end with the first
//! death that it hears of.

use serde_json::json;
use tests::{Cni, World};

use crate::bed::{bridge, list, many, ok, ours};

/// A namespace of processes with this first process, by its number in the world. The pod says that it
/// is up by a pipe.
fn pod(world: &World, first: &str) -> u32 {
    let said = world.sh(&format!(
        "mkfifo /run/up
         unshare --mount --pid --fork --mount-proc python3 -c '{first}' >/dev/null 2>&1 &
         read -r _ </run/up
         rm /run/up
         pgrep -P $! python3"
    ));
    said.trim().parse().expect("the pod's first process")
}

const UP: &str = "open(\"/run/up\", \"w\").write(\"up\\n\")";

/// Calls every verb in the pod, and looks each time who is there besides its first process.
fn calls(cni: &Cni<'_>, pod: u32) -> Vec<String> {
    let (world, target) = (cni.world, pod.to_string());
    let over = ["nsenter", "--target", &target, "--mount", "--pid", "--"];
    let plugin = bridge(&json!({"ipam": many(), "ipMasq": true}));
    let list = list(&json!([plugin]));
    let mut wrong = Vec::new();
    for _ in 0..4 {
        let config = cni.config(&list, &list["plugins"][0], "ADD", None);
        ok(&[cni.execute_under(&over, "bridge", "ADD", &config.to_string())]);
        let config = cni.config(&list, &list["plugins"][0], "DEL", None);
        ok(&[cni.execute_under(&over, "bridge", "DEL", &config.to_string())]);
        let there = world.try_sh(&format!("ps -o pid=,stat=,comm= --ppid {pod}"));
        if !there.stdout.trim().is_empty() {
            wrong.push(format!("left to the first process: {}", there.stdout.trim()));
        }
    }
    let alive = world.try_sh(&format!("kill -0 {pod}"));
    wrong.extend((alive.status != 0).then(|| "the pod has ended".to_owned()));
    wrong
}

#[test]
fn of_a_first_process_that_does_not_reap() {
    ours(|world| {
        let first = format!("import signal; {UP}\nwhile True: signal.pause()");
        // The pod sees the mounts that there are when it begins.
        let cni = Cni::new(world);
        calls(&cni, pod(world, &first))
    });
}

/// As that of kurmad's networking pod.
#[test]
fn of_a_first_process_that_ends_with_the_first_death() {
    ours(|world| {
        let first = format!(
            "import signal, os; signal.signal(signal.SIGCHLD, lambda *_: None)\n\
             {UP}\nsignal.pause(); os._exit(0)"
        );
        // The pod sees the mounts that there are when it begins.
        let cni = Cni::new(world);
        calls(&cni, pod(world, &first))
    });
}
