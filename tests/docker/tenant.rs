//! Networks of two address spaces with one subnet, under a real engine.

use tests::Release;

use crate::bed::Bed;
use crate::neighbours::{NEIGHBOURS, NO_NEIGHBOURS};

/// What makes a network `NAME` of the space `NAME`.
fn of(name: &str) -> String {
    format!(
        "--ipam-opt address_space={name} -o address_space={name} --subnet 10.0.0.0/24 \
         -o network={name} --ipam-opt network={name} {name}"
    )
}

#[track_caller]
fn two_tenants(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    bed.world().sh(NEIGHBOURS);
    for (name, port) in [("red", 18500), ("blue", 18501)] {
        bed.network(&of(name));
        bed.serve(&format!("--name {name}1 --network {name} -p {port}:80"));
        bed.run(&format!("--name {name}2 --network {name}"));
    }
    for number in [1, 2] {
        let had = ["red", "blue"].map(|name| bed.address(&format!("{name}{number}"), name));
        assert_eq!(had[0], had[1]);
        bed.truth(&format!("red{number}"), "red");
    }
    let first = bed.address("red1", "red");
    for (name, port) in [("red", 18500), ("blue", 18501)] {
        let second = format!("{name}2");
        let mac = bed.end(&format!("{name}1"), name, "MacAddress");
        bed.engine.ping(&second, &first);
        let seen = bed.inside(&second, &format!("arp -n {first}"));
        assert!(seen.contains(&mac), "{name}: {seen}");
        // Out, and in by a published port, through Docker's own network.
        bed.engine.ping(&second, "192.0.2.2");
        bed.asked("lan", "192.0.2.1", port);
    }
    bed.run("--name red3 --network red");
    bed.no_ping("blue2", &bed.address("red3", "red"));
    let routes = bed.world().sh("ip route");
    assert!(!routes.contains("10.0.0."), "{routes}");

    for (options, words) in [
        (
            "-o address_space=red --ipam-opt address_space=red --subnet 10.0.0.0/25 no",
            "network red",
        ),
        ("-o address_space=green --subnet 10.7.0.0/24 no", "--ipam-opt address_space=green"),
        ("--ipam-opt address_space=green --subnet 10.7.0.0/24 no", "-o"),
        ("-o address_space=green -o gateway=default no", "contradict"),
        ("-o address_space=green -o ports=spoke no", "contradict"),
        ("-o address_space=green -o direct=true no", "contradict"),
    ] {
        bed.no_network(options, &[words]);
    }
    // A daemon that starts anew knows which is which.
    bed.remove("red1");
    bed.serve("--name red1 --network red -p 18500:80");
    assert_eq!(bed.address("red1", "red"), first);
    bed.remove("red1 red2 red3 blue1 blue2");
    bed.docker("network rm red blue docker_gwbridge");
    bed.world().sh(NO_NEIGHBOURS);
    bed.is_clean();
}

#[test]
fn two_tenants_20_10() {
    two_tenants(Release::V20_10);
}

#[test]
fn two_tenants_28_5() {
    two_tenants(Release::V28_5);
}
