//! Counters of links that have no end in the host, and of whole networks.

use serde_json::Value;
use tests::{Plugins, World};

use crate::bed::{SPOKE, counted, is_counted, json, row, until};

#[test]
fn a_link_without_an_end_in_the_host_is_counted_inside() {
    let world = World::new(&Plugins::subject());
    world.sh("ip link add lan0 type veth peer name lan1; ip link set lan0 up; ip link set lan1 up");
    world.sh(&format!("{SPOKE} network create -d macvlan --parent lan0 --subnet 10.76.3.0/24 lan"));
    world.sh(&format!("{SPOKE} network create --subnet 10.76.4.0/24 front"));
    for name in ["a", "b"] {
        world.netns(name);
        world.sh(&format!("{SPOKE} network connect lan {name}"));
    }
    world.netns("c");
    world.sh(&format!("{SPOKE} network connect front c"));
    let to = row(&json(&world, "ps lan"), "name", "b")["addresses"][0].clone();
    let to = to.as_str().expect("an address").split('/').next().expect("it").to_owned();
    world.sh(&format!("ip netns exec a ping -c 3 -i 0.2 -W 5 {to}"));
    for name in ["a", "b"] {
        is_counted(&world, name, &format!("/run/netns/{name}"), "eth0");
    }
    networks_are_sums(&world);
    the_live_table_is_drawn(&world);
    let refused = world.try_sh(&format!("{SPOKE} top nobody"));
    assert!(refused.status == 3 && refused.stderr.contains("'nobody'"), "{refused:?}");
}

#[track_caller]
fn networks_are_sums(world: &World) {
    until("a quiet moment", || {
        let before: Vec<_> = ["a", "b"].map(|name| counted(world, name)).into();
        let rows = json(world, "top --by network lan");
        let after: Vec<_> = ["a", "b"].map(|name| counted(world, name)).into();
        let lan = row(&rows, "network", "lan");
        let sum = before[0][0] + before[1][0];
        (before == after).then(|| {
            assert_eq!(lan["receive_bytes"].as_u64(), Some(sum), "{lan}");
            assert_eq!((&lan["interfaces"], &lan["name"]), (&2.into(), &Value::Null));
        })
    });
}

/// A terminal is drawn anew until it is interrupted; what is new is on it.
#[track_caller]
fn the_live_table_is_drawn(world: &World) {
    let live =
        format!("script -qfc 'stty rows 10 cols 60; exec {SPOKE} top' /run/drawn >/dev/null");
    world.sh(&format!(
        "{live} & pid=$!
        timeout 60 sh -c 'until grep -q lan /run/drawn 2>/dev/null; do sleep 0.05; done'
        ip netns add d; {SPOKE} network connect front d
        timeout 60 sh -c \"until grep -q '4 interfaces' /run/drawn; do sleep 0.05; done\"
        kill $pid; wait $pid || true"
    ));
    let drawn = world.sh("cat /run/drawn");
    let (_, page) = drawn.rsplit_once("\u{1b}[H").expect("a page");
    let (page, _) = page.split_once("\u{1b}[J").expect("a whole page");
    assert!(page.contains("RX/S"), "{page:?}");
    for line in page.lines().map(|line| line.replace("\u{1b}[K", "")) {
        assert!(line.trim_end().chars().count() <= 60, "{line:?}");
    }
}
