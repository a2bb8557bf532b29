//! A network that loses its way, or gets another one.

use serde_json::json;
use tests::{Answer, Cni, Serve, World};

use crate::bed::{TUNNEL_UP, count, outside, prepare, remains, subject, until};

/// The administrator removes "via" from a configuration while a pod of before is there.
#[test]
fn a_way_that_is_removed_stays_away() {
    let world = World::new(&subject());
    prepare(&world);
    outside(&world, "vpn");
    let before = remains(&world);
    let serve = Serve::start(&world, &[]);
    world.sh(TUNNEL_UP);
    let led = json!({"cniVersion": "1.0.0", "name": "pods", "plugins": [{
        "type": "spoke", "bridge": "br-pods", "via": "wg0",
        "ipam": {"ranges": [[{"subnet": "10.80.7.0/24"}]]},
    }]});
    let mut former = Cni::container(&world, "former");
    let answers = former.add(&led);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
    let sends = |name: &str, to: &str| {
        let ping = format!("ip netns exec {name} ping -c1 -W1 198.51.100.7");
        let seen = count(&world, to, "four");
        world.try_sh(&ping);
        count(&world, to, "four") > seen
    };
    assert!(sends("former", "vpn"));

    let mut free = led.clone();
    free["plugins"][0].as_object_mut().expect("an object").remove("via");
    let mut late = Cni::container(&world, "late");
    let answers = late.add(&free);
    assert!(answers.iter().all(Answer::ok), "{answers:?}");
    until(&world, "! nft list tables | grep -q spoke_via");
    assert_eq!(remains(&world), before);
    // What is put back is not the way by which the former one was attached.
    let held = former.result.as_ref().expect("a result")["ips"][0]["address"].clone();
    let held = held.as_str().and_then(|it| it.split('/').next()).expect("an address");
    for _ in 0..2 {
        world.sh("nft delete table inet spoke");
        until(&world, &format!("nft list table inet spoke 2>/dev/null | grep -q '{held} '"));
    }
    assert_eq!(remains(&world), before);
    assert!(sends("late", "uplink") && sends("former", "uplink"));
    // An earlier life of the daemon has left rules, though the pod of before still names the way.
    serve.kill();
    world.sh("ip rule add priority 155 iif br-pods unreachable");
    assert!(!sends("late", "uplink"));
    let _serve = Serve::start(&world, &[]);
    until(&world, "! ip rule | grep -q '^155:'");
    assert!(sends("late", "uplink"));
    let ended = [late.del(&free), former.del(&led)];
    assert!(ended.iter().flatten().all(Answer::ok), "{ended:?}");
}
