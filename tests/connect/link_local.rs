//! Addresses that no pool has.

use crate::bed::Bed;

#[test]
fn an_interface_has_them_besides() {
    let bed = Bed::new(&["web", "db"]);
    bed.spoke("network connect --link-local-ip 169.254.7.1 --link-local-ip fe80::7 front web");
    bed.spoke("network connect --link-local-ip 169.254.7.2 front db");
    let has = bed.world.sh("ip -n web -o address show dev eth0");
    assert!(has.contains("169.254.7.1/16") && has.contains("fe80::7/64"), "{has}");
    bed.world.sh("ip netns exec web ping -c 1 -W 5 -I 169.254.7.1 169.254.7.2");
    let shown = bed.json("ps front -o json");
    let shown: Vec<_> = shown.as_array().unwrap().iter().map(|it| &it["link_local"]).collect();
    assert_eq!(
        shown,
        [&serde_json::json!(["169.254.7.2"]), &serde_json::json!(["169.254.7.1", "fe80::7"])]
    );
    // They have no names.
    assert!(!bed.world.sh("cat /etc/netns/*/hosts").contains("169.254"));
    bed.spoke("network disconnect front web");
    assert!(!bed.world.sh("ip -n web -o address show").contains("169.254"));
    bed.spoke("network disconnect front db");
    assert_eq!(bed.files(), "");
}

#[test]
fn one_on_a_parents_segment_has_them_too() {
    let bed = Bed::new(&["web"]);
    bed.world.sh("ip link add lan0 type veth peer name far0; ip link set lan0 up");
    bed.spoke("network create -d macvlan --parent lan0 --subnet 10.72.0.0/24 lan");
    bed.spoke("network connect --link-local-ip 169.254.7.1 lan web");
    let has = bed.world.sh("ip -n web -o -4 address show");
    assert!(has.contains("169.254.7.1/16"), "{has}");
    bed.spoke("network disconnect lan web");
    assert_eq!(bed.files(), "");
}
