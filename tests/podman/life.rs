//! A container's life on networks of its own.

use serde_json::json;
use tests::{Podman5, Serve};

fn page(podman: &Podman5, url: &str) -> String {
    podman.world.sh(&format!("busybox wget -T 5 -qO- http://{url}/"))
}

fn serves_and_leaves_nothing(podman: &Podman5) {
    podman.podman(
        "network create -d spoke --subnet 10.89.7.0/24 --ip-range 10.89.7.128/25 -o mtu=1400 \
         --route 10.9.0.0/24,10.89.7.9 front",
    );
    podman.serve(
        "web",
        "--network front:ip=10.89.7.77,mac=c2:11:22:33:44:55,interface_name=lan0 \
         -p 18080-18081:80-81 -p 127.0.0.1:15353:53/udp",
    );
    let recorded = podman.spoke("network inspect front");
    assert!(
        recorded.contains("\"sticky\": true"),
        "of the network, not of one container: {recorded}"
    );
    podman.run("other", "--network front", "");

    for url in ["127.0.0.1:18080", "10.89.7.1:18080", "10.89.7.77"] {
        assert_eq!(page(podman, url), "a page\n", "through {url}");
    }
    podman.podman("exec other /bin/ping -c 1 -W 3 10.89.7.77");
    podman.podman("exec other /bin/ping -c 1 -W 3 10.89.7.1");
    podman.world.sh("busybox ping -c 1 -W 3 10.89.7.77");
    let page_of_host = podman.podman("exec web wget -T 5 -qO- http://10.89.7.1:18080/");
    assert_eq!(page_of_host, "a page\n", "its own port");

    let seen = podman.endpoint("web", "front");
    assert_eq!(seen["IPAddress"], "10.89.7.77");
    assert_eq!((&seen["Gateway"], &seen["IPPrefixLen"]), (&json!("10.89.7.1"), &json!(24)));
    assert_eq!(seen["MacAddress"], "c2:11:22:33:44:55");
    let link = podman.podman("exec web ip addr show lan0");
    assert!(link.contains("mtu 1400") && link.contains("10.89.7.77/24"), "{link}");
    let routes = podman.podman("exec web ip route");
    assert!(
        routes.contains("default via 10.89.7.1") && routes.contains("10.9.0.0/24 via 10.89.7.9")
    );
    let first = podman.endpoint("other", "front")["IPAddress"].clone();
    assert_eq!(first, "10.89.7.129", "the range's first host, as Podman has it");

    podman.podman("restart -t 0 other");
    assert_eq!(podman.endpoint("other", "front")["IPAddress"], first);
    podman.podman("rm -f -t 0 other");
    podman.run("third", "--network front", "");
    podman.run("other", "--network front", "");
    assert_eq!(podman.endpoint("other", "front")["IPAddress"], first, "kept for the name");

    let ports = podman.spoke("ports");
    assert!(ports.contains("18081/tcp") && ports.contains("15353/udp"), "{ports}");
    podman.podman("rm -f -t 0 web other third");
    assert!(!podman.spoke("ps").contains("podman"));
    podman.podman("network rm front");
    podman.is_empty();
}

fn several_networks(podman: &Podman5) {
    podman.podman("network create -d spoke back");
    podman.podman(
        "network create -d spoke --internal --ipv6 --subnet 10.89.3.0/24 --subnet 10.89.4.0/24 \
         -o isolate=true vault",
    );
    podman.podman(
        "network create -d spoke --ipam-driver none -o mode=unmanaged -o bridge=sw0 switch",
    );
    podman.run("one", "--network back", "");
    podman.podman("network connect vault one");
    podman.podman("network connect switch one");
    let inside = podman.endpoint("one", "vault");
    assert_eq!(inside["IPAddress"], "10.89.3.2");
    assert_eq!(inside["SecondaryIPAddresses"][0]["Addr"], "10.89.4.2");
    assert!(inside["GlobalIPv6Address"].as_str().is_some_and(|six| six.starts_with("fd")));
    podman.run("two", "--network vault:ip=10.89.3.9", "");
    podman.podman("exec two /bin/ping -c 1 -W 3 10.89.4.2");
    let routes = podman.podman("exec two ip route");
    assert!(!routes.contains("default"), "internal: {routes}");
    let links = podman.podman("exec one ip -o link");
    assert!(links.contains("eth2"), "{links}");
    podman.podman("network disconnect vault one");
    assert!(!podman.podman("exec one ip -o addr").contains("10.89.3."));
    podman.podman("network connect vault one");
    podman.podman("exec one /bin/ping -c 1 -W 3 10.89.3.9");
    podman.podman("rm -f -t 0 one two");
    podman.podman("network rm back vault switch");
    podman.is_empty();
}

/// What Spoke's commands made and CNI's containers are on, Podman's containers join.
fn one_network_for_all(podman: &Podman5) {
    podman.spoke("network create --subnet 10.89.9.0/24 front");
    let refused = podman.refused("network create -d spoke front");
    assert!(refused.contains("-o network=front joins it"), "{refused}");
    let refused = podman.refused("network create -d spoke --subnet 10.89.9.0/25 other");
    assert!(refused.contains("overlaps 10.89.9.0/24 (spoke network front)"), "{refused}");

    podman.podman("network create -d spoke -o network=front common");
    podman.serve("web", "--network common");
    let list = json!({"name": "front", "cniVersion": "1.0.0", "plugins": [{"type": "spoke"}]});
    let mut cni = tests::Cni::container(&podman.world, "pod");
    assert!(cni.add(&list).iter().all(tests::Answer::ok));
    podman.world.sh("ip netns exec pod busybox ping -c 1 -W 3 10.89.9.2");
    podman.podman("exec web /bin/ping -c 1 -W 3 10.89.9.3");
    let seen = podman.spoke("ps front");
    assert!(seen.contains("podman") && seen.contains("cni"), "{seen}");

    let refused = podman.run_refused("--network common --ip 10.89.9.3");
    assert!(refused.contains("is held by container pod (eth0) on network front"), "{refused}");
    assert!(cni.del(&list).iter().all(tests::Answer::ok));
    podman.podman("rm -f -t 0 web");
    podman.podman("network rm common");
    podman.spoke("network rm front");
    podman.world.sh("ip netns del pod");
    podman.is_empty();
}

/// Podman binds what it publishes once the network is made: the daemon is not there before it.
fn publishes_beside_the_daemon(podman: &Podman5) {
    let serve = Serve::start(&podman.world, &[]);
    podman.podman("network create -d spoke --subnet 10.89.7.0/24 front");
    for round in 0..2 {
        podman.serve("web", "--network front -p 18080:80");
        assert_eq!(page(podman, "127.0.0.1:18080"), "a page\n", "round {round}");
        podman.podman("restart -t 0 web");
        podman.podman("rm -f -t 0 web");
    }
    podman.podman("network rm front");
    serve.stop();
    podman.is_empty();
}

/// An idle network of Podman's stays where containers.conf(5) says that networks are elsewhere, and where a file
/// of a network cannot be read; the address that is kept for a name stays with it.
fn networks_may_be_elsewhere(podman: &Podman5) {
    podman.world.sh("printf '[network]\nnetwork_config_dir = \"/run/stage/elsewhere\"\n' \
         >/etc/containers/containers.conf.d/20-elsewhere.conf");
    podman.podman("network create -d spoke --subnet 10.89.7.0/24 front");
    podman.world.sh("test -e /run/stage/elsewhere/front.json");
    podman.run("first", "--network front", "");
    podman.run("kept", "--network front", "");
    let address = podman.endpoint("kept", "front")["IPAddress"].clone();
    podman.podman("rm -f -t 0 first kept");
    podman.podman("network create -d spoke --subnet 10.89.8.0/24 other");
    podman.spoke("gc");
    podman.run("first", "--network front", "");
    podman.run("third", "--network front", "");
    podman.run("kept", "--network front", "");
    assert_eq!(podman.endpoint("kept", "front")["IPAddress"], address);
    podman.podman("rm -f -t 0 first third kept");

    podman.world.sh("echo { >/run/stage/elsewhere/broken.json");
    podman.podman("network rm front");
    let said = podman.world.try_sh("/opt/cni/bin/spoke gc");
    assert!(said.stderr.contains("elsewhere/broken.json"), "{said:?}");
    assert!(podman.spoke("network ls -q").contains("front"));
    podman.world.sh("rm /run/stage/elsewhere/broken.json");
    podman.spoke("gc");
    assert!(!podman.spoke("network ls -q").contains("front"));
    podman.podman("network rm other");
    podman.world.sh("rm /etc/containers/containers.conf.d/20-elsewhere.conf");
    podman.is_empty();
}

/// Podman tells them when a network is made, and options with every call.
fn labels_are_found(podman: &Podman5) {
    podman.podman(
        "network create -d spoke --label tier=db -o label.team=net --subnet 10.89.7.0/24 front",
    );
    podman.run("one", "--network front", "");
    let found = podman.spoke("network ls -q --filter label=tier=db --filter label=team=net");
    assert_eq!(found.trim(), "front");
    assert_eq!(podman.spoke("network ls -q --filter label=tier=web").trim(), "");
    podman.podman("rm -f -t 0 one");
    podman.podman("network rm front");
    podman.is_empty();
}

with_each_podman!(
    labels_are_found,
    networks_may_be_elsewhere,
    publishes_beside_the_daemon,
    serves_and_leaves_nothing,
    several_networks,
    one_network_for_all
);
