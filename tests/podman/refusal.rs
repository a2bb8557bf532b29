//! What Podman's user reads where Spoke refuses.

use tests::Podman5;

#[track_caller]
fn refused(podman: &Podman5, arguments: &str, sentence: &str) {
    let said = podman.refused(arguments);
    assert!(said.contains(sentence), "podman {arguments}: {said}");
}

fn the_reason_is_told(podman: &Podman5) {
    podman.podman("network create -d spoke --subnet 10.89.7.0/24 front");
    for (arguments, sentence) in [
        ("-o colour=red x", "-o colour: no such option; Spoke has bridge, mtu"),
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
    assert!(said.status != 0 && said.stdout.contains("root's Podman"), "{said:?}");
    podman.podman("rm -f -t 0 web");
    podman.podman("network rm front");
    podman.is_empty();
}

with_each_podman!(the_reason_is_told);
