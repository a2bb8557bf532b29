//! A container as the way of the network that it is on, and how messages call a network.

use serde_json::json;
use tests::{Answer, Cni, Serve, World};

use crate::bed::{SPOKE, TUNNEL_UP, outside, prepare, subject, until};

/// A configuration that names one of its own containers is refused to the next one, until that is on another network.
#[test]
fn no_configuration_has_its_own_container_as_the_way() {
    let world = World::new(&subject());
    prepare(&world);
    let list = |name: &str, subnet: &str| {
        json!({"cniVersion": "1.0.0", "name": name, "plugins": [{
            "type": "spoke", "ipam": {"ranges": [[{"subnet": subnet}]]},
        }]})
    };
    let (pods, side) = (list("pods", "10.80.7.0/24"), list("side", "10.80.8.0/24"));
    let mut former = Cni::container(&world, "former");
    let answers = former.add(&pods);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");

    let mut led = pods.clone();
    led["plugins"][0]["via"] = json!(format!("container:cni/{}", former.container));
    let mut late = Cni::container(&world, "late");
    let answers = late.add(&led);
    let said = answers.last().expect("an answer").json().expect("JSON").to_string();
    assert!(said.contains("is on network pods itself"), "{said}");
    assert!(!world.sh("nft list tables").contains("spoke_via"));

    let mut other = Cni { ifname: "eth1".into(), ..former.clone() };
    let answers = other.add(&side);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
    let answers = late.add(&led);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
    world.sh("nft list table inet spoke_via");
}

/// What the daemon says of a renamed network has the name that it has now.
#[test]
fn events_of_a_renamed_network_have_its_name() {
    let world = World::new(&subject());
    prepare(&world);
    outside(&world, "vpn");
    world.sh(TUNNEL_UP);
    world.netns("box");
    let _serve = Serve::start(&world, &[]);
    world.sh(&format!(
        "{SPOKE} network create --via wg0 --subnet 10.80.0.0/24 vpn
        {SPOKE} network connect vpn box
        {SPOKE} network rename vpn front"
    ));
    until(&world, "nft list set inet spoke_via links 2>/dev/null | grep -q wg0");
    until(&world, "ip rule | grep -q ^155:");
    world.sh("ip link delete wg0");
    until(&world, &format!("{SPOKE} events | grep -q 'no IPv4 leaves network front: '"));
    world.sh(TUNNEL_UP);
    until(&world, &format!("{SPOKE} events | grep -q 'network front leaves by wg0 again (IPv4)'"));
}
