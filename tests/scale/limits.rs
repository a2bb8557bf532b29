//! What a bridge and a pool cannot take any more.

use serde_json::json;
use tests::{Plugins, Remains, World};

use crate::crowd::{add, containers, del, network};

/// The kernel numbers the ports of a bridge with ten bits, from one (linux/net/bridge, `BR_PORT_BITS`).
const PORTS: usize = 1023;

#[test]
fn a_bridge_without_a_free_port() {
    let world = World::new(&Plugins::subject());
    let list = network(&["10.95.0.0/16"]);
    let mut all = containers(&world, 2);
    add(&mut all[0], &list);
    // One port is the container's; the others are pairs with both ends in the bridge.
    let fill = format!(
        "for at in $(seq {}); do
            echo link add d$at master scale0 type veth peer name e$at
            echo link set e$at master scale0
        done | ip -batch -",
        PORTS / 2
    );
    world.sh(&fill);
    let before = Remains::of(&world);
    let answer = all[1].add(&list).pop().expect("an answer");
    let error = answer.json().expect("an error");
    assert_eq!((&error["code"], &error["cniVersion"]), (&json!(102), &json!("1.1.0")), "{error}");
    let msg = error["msg"].as_str().expect("a sentence");
    assert!(msg.contains("scale0") && msg.contains("1023"), "{msg}");
    let changes = Remains::of(&world).changes(&before);
    assert!(changes.is_empty(), "{changes:#?}");
    world.sh("ip link del d2");
    add(&mut all[1], &list);
    all.iter().for_each(|cni| del(cni, &list));
}
