//! What Podman's user reads where Spoke refuses.

use serde_json::json;
use tests::{Plugins, Podman5, World};

use crate::common::{call, exec};

#[track_caller]
fn refused(podman: &Podman5, arguments: &str, sentence: &str) {
    let said = podman.refused(arguments);
    assert!(said.contains(sentence), "podman {arguments}: {said}");
}

fn the_reason_is_reported(podman: &Podman5) {
    podman.podman("network create -d spoke --subnet 10.89.7.0/24 front");
    for (arguments, sentence) in [
        ("-o colour=red x", "-o colour=…: no such option; Spoke has bridge, mtu"),
        ("-o mtu=12 x", "-o mtu=12: an MTU is a number from 68 to 65535"),
        ("--subnet 10.89.7.128/25 x", "overlaps 10.89.7.0/24 (Podman network front)"),
        ("--subnet 10.1.0.0/24 --subnet 10.1.0.0/25 x", "overlap"),
        ("-o network=nowhere x", "no network nowhere; `spoke network ls` lists them"),
        ("-o mode=dhcp -o bridge=b x", "-o bridge is of bridges"),
        ("-o parent=eth0 x", "--subnet"),
    ] {
        refused(podman, &format!("network create -d spoke {arguments}"), sentence);
    }
    podman.run("web", "--network front --ip 10.89.7.77 -p 18080:80", "");
    for (options, sentence) in [
        ("--network front --ip 10.89.7.77", "10.89.7.77 is held by container "),
        ("--network front -p 18080:80", "18080"),
        ("--network front --ip 10.89.7.1", "is the gateway of network front"),
        ("--network front --ip 10.90.0.1", "10.90.0.1"),
    ] {
        let said = podman.run_refused(options);
        assert!(said.contains(sentence), "{options}: {said}");
    }
    // A user's Podman is root in a user namespace, and says so.
    let rootless = "echo '{}' | _CONTAINERS_ROOTLESS_UID=1000 unshare -Ur bash -c \
        'exec -a spoke /opt/cni/bin/spoke create'";
    let said = podman.world.try_sh(rootless);
    assert!(said.status != 0 && said.stdout.contains("run the runtime as root"), "{said:?}");
    podman.podman("rm -f -t 0 web");
    podman.podman("network rm front");
    podman.is_empty();
}

/// A range as servers of calls have it is published; what the store cannot hold is refused by its cause.
#[test]
fn so_many_ports_are_published() {
    let world = World::new(&Plugins::subject());
    let mut document = exec("c1");
    let mut range = document["port_mappings"][0].clone();
    range["range"] = json!(20_000);
    range["protocol"] = json!("udp");
    range["container_port"] = json!(10_000);
    range["host_port"] = json!(10_000);
    document["port_mappings"] = json!([range]);
    let netns = world.netns("c1");
    let made = call(&world, "", &format!("setup {netns}"), &document);
    assert_eq!(made.status, 0, "{made:?}");
    let ports = world.sh("/opt/cni/bin/spoke ports");
    assert!(ports.contains("10000/udp") && ports.contains("29999/udp"), "{}", ports.len());
    assert_eq!(call(&world, "", &format!("teardown {netns}"), &document).status, 0);
    assert!(!world.sh("/opt/cni/bin/spoke ports").contains("udp"));

    let every = |protocol: &str| {
        let mut every = range.clone();
        every["range"] = json!(65_535);
        every["container_port"] = json!(1);
        every["host_port"] = json!(1);
        every["protocol"] = json!(protocol);
        every
    };
    document["port_mappings"] = json!(["tcp", "udp", "sctp"].map(every));
    let refused = call(&world, "", &format!("setup {netns}"), &document);
    let why = "publish fewer ports in one container";
    assert!(refused.status != 0 && refused.stdout.contains(why), "{refused:?}");
    assert!(!world.sh("/opt/cni/bin/spoke ports").contains("udp"));
}

with_each_podman!(the_reason_is_reported);
