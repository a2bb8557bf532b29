//! Containers of Podman on a segment of a real Open vSwitch.

use tests::Podman5;
use tests::neutron_switch::Switch;

fn on_a_segment(podman: &Podman5) {
    let switch = Switch::start(&podman.world);
    for (name, vlan) in [("ten", 10), ("twenty", 20)] {
        podman.spoke(&format!(
            "network create -d ovs --opt bridge=br-int --opt vlan={vlan} --subnet 10.85.{vlan}.0/24 {name}"
        ));
        podman.podman(&format!("network create -d spoke -o network={name} {name}"));
    }
    podman.run("one", "--network ten", "");
    podman.run("two", "--network ten:ip=10.85.10.9", "");
    podman.run("three", "--network twenty:ip=10.85.20.9", "");
    assert_eq!(switch.ports().len(), 3);
    podman.podman("exec one /bin/ping -c 1 -W 5 10.85.10.9");
    for to in ["10.85.20.9", "10.85.10.8"] {
        let lost =
            podman.world.try_sh(&format!("/run/stage/podman exec one /bin/ping -c 1 -W 1 {to}"));
        assert_ne!(lost.status, 0, "{to}: {lost:?}");
    }
    // A network that Podman itself describes.
    podman.podman(
        "network create -d spoke -o driver=ovs -o ovs.bridge=br-int -o ovs.vlan=30 -o no_default_route=true \
         --subnet 10.85.30.0/24 thirty",
    );
    podman.run("four", "--network thirty:ip=10.85.30.9", "");
    podman.run("five", "--network thirty", "");
    podman.podman("exec five /bin/ping -c 1 -W 5 10.85.30.9");
    let routes = podman.podman("exec five /bin/ip route");
    assert!(!routes.contains("default"), "there is no router: {routes}");
    podman.podman("rm -f -t 0 one two three four five");
    assert_eq!(switch.ports(), Vec::<String>::new());
    podman.podman("network rm ten twenty thirty");
    podman.spoke("network rm ten twenty");
}

with_each_podman!(on_a_segment);
