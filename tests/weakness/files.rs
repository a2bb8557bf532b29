//! Files that are named by a caller or an operator, and are none: a FIFO without a writer,
//! and `/dev/zero`, which never ends. They are refused at once by a sentence that names them.

use serde_json::json;
use tests::{Cni, Output, Plugins, World};

/// More than any of these calls takes, in seconds; who reads the whole never ends.
const BOUND: u32 = 20;
const FIFO: &str = "/tmp/fifo.conflist";
const ENDLESS: &str = "/tmp/endless.conflist";

fn world() -> World {
    let world = World::new(&Plugins::subject());
    world.sh(&format!("mkfifo {FIFO}; ln -s /dev/zero {ENDLESS}; mkdir -p /tmp/layout"));
    world
}

/// What `script` says with at most 256 MiB of memory.
fn refused(world: &World, script: &str, named: &str) -> Output {
    let bounded = format!("ulimit -v 262144; timeout {BOUND} {script}");
    let said = world.try_sh(&bounded);
    let words = format!("{}{}", said.stdout, said.stderr);
    assert!(said.status != 0 && said.status < 124, "{script}: {said:?}");
    assert!(words.contains(named), "{script} does not name {named}: {said:?}");
    assert!(words.contains("not a regular file"), "{script} does not say why: {said:?}");
    said
}

#[test]
fn what_the_operator_names() {
    let world = world();
    let spoke = "/opt/cni/bin/spoke";
    for path in [FIFO, ENDLESS] {
        refused(&world, &format!("env SPOKE_CONFIG={path} {spoke} ps"), path);
        refused(&world, &format!("{spoke} kurma validate {path}"), path);
        refused(&world, &format!("{spoke} kurma pull docker-archive:{path}"), path);
        refused(&world, &format!("{spoke} kurma pull file://{path}"), path);
        world.sh(&format!("ln -sf {path} /tmp/layout/index.json"));
        refused(&world, &format!("{spoke} kurma pull oci:/tmp/layout"), "/tmp/layout");
        refused(&world, &format!("{spoke} plugin replay {path} --socket /tmp/s.sock"), path);
    }
}

#[test]
fn what_a_configuration_names() {
    let world = world();
    let cni = Cni::new(&world);
    for path in [FIFO, ENDLESS] {
        let config = json!({"cniVersion": "1.0.0", "name": "n", "type": "bridge", "bridge": "br0",
            "ipam": {"type": "host-local", "subnet": "10.9.0.0/24", "resolvConf": path}});
        let limited = ["prlimit", "--as=268435456", "timeout", "20"];
        let answer = cni.execute_under(&limited, "bridge", "ADD", &config.to_string());
        let error = answer.json().unwrap_or_else(|| panic!("no error object: {answer:?}"));
        let words = error["msg"].as_str().unwrap_or_default();
        assert!(words.contains(path) && words.contains("not a regular file"), "{answer:?}");
    }
}
