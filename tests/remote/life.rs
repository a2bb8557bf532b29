//! A container's life on a network of a plugin's: the calls in their order, and what comes of them.

use serde_json::{Value, json};
use tests::remote_driver::{Asked, HANDSHAKE, Manners, Route};

use crate::bed::{Bed, CREATE};
use crate::driver::LIFE;

/// The body of the only call of this method.
#[track_caller]
fn body<'c>(asked: &'c [Asked], method: &str) -> &'c Value {
    let mut found = asked.iter().filter(|call| call.method == method);
    let only = found.next().unwrap_or_else(|| panic!("no {method}: {asked:?}"));
    assert!(found.next().is_none(), "{method} twice");
    &only.body
}

#[test]
fn the_calls_come_in_dockers_order() {
    let bed = Bed::new(Manners::default());
    bed.world.netns("one");
    bed.spoke(&format!("{CREATE} net"));
    assert_eq!(bed.order(), LIFE[0]);
    bed.spoke("network connect net one");
    assert_eq!(bed.order(), LIFE[1]);
    assert_eq!(bed.driver.holds().len(), 5, "{:?}", bed.driver.holds());
    bed.refused("network rm net", &["net"]);
    assert_eq!(bed.order(), "");
    bed.spoke("network disconnect net one");
    let asked = bed.driver.take();
    let order = asked.iter().map(|call| call.method.as_str());
    let order: Vec<&str> = order.filter(|method| !HANDSHAKE.contains(method)).collect();
    assert_eq!(order.join(" "), LIFE[2]);
    let home = |method: &str| asked.iter().find(|call| call.method == method).unwrap().at_home;
    assert!(!home("Leave"), "the interface is in the container until Leave was said");
    assert!(home("DeleteEndpoint"), "the interface is back before DeleteEndpoint");
    bed.spoke("network rm net");
    assert_eq!(bed.order(), LIFE[3]);
    bed.is_clean();
}

#[test]
fn the_calls_say_what_dockers_say() {
    let bed = Bed::new(Manners { makes_mac: false, ..Manners::default() });
    bed.world.netns("one");
    bed.spoke(&format!(
        "{CREATE} --subnet 10.61.0.0/16 --ip-range 10.61.7.0/24 --gateway 10.61.7.1 \
         --aux-address router=10.61.9.9 --ipam-opt color=blue --opt size=9 net"
    ));
    let asked = bed.driver.take();
    let pool = body(&asked, "RequestPool");
    assert_eq!(pool["Pool"], "10.61.0.0/16");
    assert_eq!(pool["SubPool"], "10.61.7.0/24");
    assert_eq!(pool["AddressSpace"], "here");
    assert_eq!((&pool["Options"], &pool["V6"]), (&json!({"color": "blue"}), &json!(false)));
    let addresses: Vec<&Value> = asked
        .iter()
        .filter(|call| call.method == "RequestAddress")
        .map(|call| &call.body)
        .collect();
    assert_eq!(addresses[0]["Address"], "10.61.7.1");
    let kind = &addresses[0]["Options"]["RequestAddressType"];
    assert_eq!(kind, "com.docker.network.gateway");
    assert_eq!((&addresses[1]["Address"], addresses.len()), (&json!("10.61.9.9"), 2));
    let network = body(&asked, "CreateNetwork");
    assert_eq!(network["NetworkID"].as_str().unwrap().len(), 64);
    assert_eq!(network["Options"]["com.docker.network.generic"], json!({"size": "9"}));
    assert_eq!(network["Options"]["com.docker.network.enable_ipv6"], false);
    let data = &network["IPv4Data"][0];
    assert_eq!((&data["Pool"], &data["Gateway"]), (&json!("10.61.0.0/16"), &json!("10.61.7.1/16")));
    assert_eq!(data["AuxAddresses"], json!({"router": "10.61.9.9/16"}));
    bed.spoke("network connect --mac-address 02:00:00:00:00:11 --publish 8080:80 net one");
    let asked = bed.driver.take();
    let endpoint = body(&asked, "CreateEndpoint");
    assert_eq!(endpoint["Interface"]["Address"], "10.61.7.0/16");
    assert_eq!(endpoint["Interface"]["MacAddress"], "02:00:00:00:00:11");
    let ports =
        &body(&asked, "ProgramExternalConnectivity")["Options"]["com.docker.network.portmap"];
    assert_eq!((&ports[0]["HostPort"], &ports[0]["Port"]), (&json!(8080), &json!(80)));
    let join = body(&asked, "Join");
    let key = join["SandboxKey"].as_str().unwrap();
    let name = key.strip_prefix("/var/run/docker/netns/").unwrap();
    assert!(name.len() == 12 && name.bytes().all(|digit| digit.is_ascii_hexdigit()), "{key}");
    assert_eq!(bed.world.sh(&format!("readlink {key}")).trim(), "/run/netns/one");
    assert_eq!(join["EndpointID"], endpoint["EndpointID"]);
    assert!(bed.spoke("ports").contains("8080"), "what a plugin publishes is shown");
    bed.spoke("network disconnect net one");
    bed.spoke("network rm net");
    bed.is_clean();
}

#[test]
fn both_families_without_waiting() {
    let bed = Bed::with_network(Manners::default(), "--ipv6");
    bed.spoke("network connect net one");
    bed.spoke("network connect net two");
    let shown = bed.ip("one", "-6 -o address show dev eth0");
    assert!(shown.contains("fd00:200:2::2/64") && shown.contains("nodad"), "{shown}");
    assert!(!shown.contains("fd00:200:2::2/64 scope global tentative"), "{shown}");
    for to in ["10.200.1.1", "10.200.1.3", "fd00:200:2::1", "fd00:200:2::3"] {
        bed.world.sh(&format!("ip netns exec one busybox ping -c 1 -W 3 {to}"));
    }
    let routes = bed.ip("one", "route") + &bed.ip("one", "-6 route");
    assert!(routes.contains("default via 10.200.1.1 dev eth0"), "{routes}");
    assert!(routes.contains("default via fd00:200:2::1 dev eth0"), "{routes}");
    bed.driver.take();
    bed.spoke("network disconnect net one");
    let released: Vec<String> = bed
        .driver
        .take()
        .into_iter()
        .filter(|call| call.method == "ReleaseAddress")
        .map(|call| call.body["Address"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(released, ["10.200.1.2", "fd00:200:2::2"], "IPv4 before IPv6");
    bed.spoke("network disconnect net two");
    bed.spoke("network rm net");
    bed.is_clean();
}

#[test]
fn names_take_the_lowest_free_number() {
    let bed = Bed::with_network(Manners { prefix: "lan".into(), ..Manners::default() }, "");
    for name in ["b", "c"] {
        bed.spoke(&format!("{CREATE} {name}"));
    }
    for (network, link) in [("net", "lan0"), ("b", "lan1"), ("c", "lan2")] {
        bed.spoke(&format!("network connect {network} one"));
        bed.ip("one", &format!("link show dev {link}"));
    }
    bed.spoke("network disconnect b one");
    bed.ip("one", "link add lan0x type veth peer name lan1");
    bed.spoke("network connect b one");
    assert!(bed.ip("one", "-o address show dev lan3").contains("10.200.2.2/24"));
    bed.ip("one", "link del lan0x");
    for network in ["net", "b", "c"] {
        bed.spoke(&format!("network disconnect {network} one"));
        bed.spoke(&format!("network rm {network}"));
    }
    bed.is_clean();
}

#[test]
fn routes_with_and_without_a_next_hop() {
    let routes = vec![
        Route { destination: "10.9.0.0/24".into(), next_hop: Some("10.200.1.1".into()) },
        Route { destination: "10.8.0.0/24".into(), next_hop: None },
    ];
    let bed = Bed::with_network(Manners { routes, ..Manners::default() }, "");
    bed.spoke("network connect net one");
    let shown = bed.ip("one", "route");
    assert!(shown.contains("10.9.0.0/24 via 10.200.1.1 dev eth0"), "{shown}");
    assert!(shown.contains("10.8.0.0/24 dev eth0"), "{shown}");
    bed.spoke("network disconnect net one");
    bed.spoke("network rm net");
    bed.is_clean();
}

/// Docker 28 and 29 refuse the first kind, 20.10 and 24 the second.
#[test]
fn default_routes_may_be_static() {
    for next_hop in [Some("10.200.1.1".to_owned()), None] {
        let routes = vec![Route { destination: "0.0.0.0/0".into(), next_hop: next_hop.clone() }];
        let bed = Bed::with_network(Manners { gateway: false, routes, ..Manners::default() }, "");
        bed.spoke("network connect net one");
        let shown = bed.ip("one", "route show default");
        match next_hop {
            Some(_) => assert!(shown.contains("default via 10.200.1.1 dev eth0"), "{shown}"),
            None => assert!(shown.contains("default dev eth0"), "{shown}"),
        }
        assert_eq!(bed.ip("one", "-o link").lines().count(), 2, "no further interface");
        bed.spoke("network disconnect net one");
        bed.spoke("network rm net");
        bed.is_clean();
    }
}

#[test]
fn a_container_goes_without_its_namespace() {
    let bed = Bed::with_network(Manners::default(), "");
    bed.spoke("network connect net one");
    bed.world.sh("ip netns del one");
    bed.driver.take();
    bed.spoke("network disconnect net one");
    assert_eq!(bed.order(), LIFE[2]);
    bed.refused("network disconnect net one", &["not connected"]);
    assert_eq!(bed.order(), "");
    bed.spoke("network rm net");
    bed.is_clean();
}

#[test]
fn the_plugin_says_what_it_is() {
    let bed = Bed::with_network(Manners::default(), "");
    let shown = bed.spoke("network inspect net");
    assert!(shown.contains("probe") && shown.contains("10.200.1.0/24"), "{shown}");
    assert!(bed.spoke("network ls").contains("probe"));
    bed.spoke("network connect net one");
    let listed = bed.spoke("ps");
    assert!(listed.contains("10.200.1.2/24") && listed.contains("probe"), "{listed}");
    bed.spoke("network disconnect net one");
    bed.spoke("network rm net");
    bed.is_clean();
}

#[test]
fn a_plugins_container_has_names_and_more_addresses() {
    let bed = Bed::with_network(Manners::default(), "");
    bed.spoke("network connect --dns 192.0.2.53 --alias www --link-local-ip 169.254.7.1 net one");
    bed.spoke("network connect net two");
    let asked = bed.driver.take();
    let made = asked.iter().find(|call| call.method == "CreateEndpoint").unwrap();
    let reported = &made.body["Options"]["com.docker.network.endpoint.dnsservers"];
    assert_eq!(reported, &json!(["192.0.2.53"]));
    let has = bed.ip("one", "-o -4 address show");
    assert!(has.contains("169.254.7.1/16"), "{has}");
    assert_eq!(
        bed.world.sh("ip netns exec one grep ^nameserver /etc/resolv.conf"),
        "nameserver 192.0.2.53\n"
    );
    assert!(bed.world.sh("ip netns exec two getent hosts www").contains("one"));
    bed.world.sh("ip netns exec one ping -c 1 -W 5 two");
    bed.spoke("network disconnect net one");
    bed.spoke("network disconnect net two");
    assert_eq!(bed.world.try_sh("ls -A /etc/netns").stdout, "");
    bed.spoke("network rm net");
    bed.is_clean();
}
