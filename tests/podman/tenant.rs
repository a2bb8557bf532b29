//! Two tenants with one subnet.

use tests::Podman5;

fn two_tenants(podman: &Podman5) {
    podman.podman("network create -d spoke --subnet 10.89.7.0/24 front");
    for name in ["red", "blue"] {
        podman.podman(&format!(
            "network create -d spoke -o address_space={name} --subnet 10.0.0.0/24 {name}"
        ));
        podman.run(&format!("{name}1"), &format!("--network {name}"), "");
        // The second network leads out, and publishes.
        let port = if name == "red" { 18080 } else { 18081 };
        let both = format!("--network {name}:ip=10.0.0.9 --network front -p {port}:80");
        podman.serve(&format!("{name}2"), &both);
    }
    let first = ["red", "blue"].map(|name| {
        podman.endpoint(&format!("{name}1"), name)["IPAddress"].as_str().unwrap().to_owned()
    });
    assert_eq!(first[0], first[1]);
    for name in ["red", "blue"] {
        podman.podman(&format!("exec {name}1 /bin/ping -c 1 -W 3 10.0.0.9"));
        let mac = podman.endpoint(&format!("{name}2"), name)["MacAddress"].clone();
        let seen = podman.podman(&format!("exec {name}1 /bin/busybox cat /proc/net/arp"));
        assert!(seen.contains(mac.as_str().unwrap()), "{name}: {seen}");
        podman.podman(&format!("exec {name}2 /bin/ping -c 1 -W 3 10.89.7.1"));
    }
    let page = podman.world.sh("busybox wget -T 5 -qO- http://127.0.0.1:18081/");
    assert_eq!(page, "a page\n");
    podman.run("red3", "--network red:ip=10.0.0.8", "");
    podman.podman("exec red1 /bin/ping -c 1 -W 3 10.0.0.8");
    let lost = podman.world.try_sh("/run/stage/podman exec blue1 /bin/ping -c 1 -W 1 10.0.0.8");
    assert_ne!(lost.status, 0, "{lost:?}");
    for (options, word) in [
        ("-o address_space=red -o direct=true", "direct"),
        ("-o address_space=red -o mode=dhcp", "is of bridges"),
        ("-o address_space=red --subnet 10.7.0.0/24 --gateway 10.7.0.1", "--gateway"),
        ("-o address_space=red --subnet 10.0.0.0/25", "red"),
    ] {
        let said = podman.refused(&format!("network create -d spoke {options} no"));
        assert!(said.contains(word), "{options}: {said}");
    }
    podman.podman("rm -f -t 0 red1 red2 red3 blue1 blue2");
    podman.podman("network rm red blue front");
    podman.is_empty();
}

with_each_podman!(two_tenants);
