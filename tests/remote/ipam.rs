//! Addresses: plugins', Spoke's own, and none.

use serde_json::json;
use tests::remote_driver::{Manners, RemoteDriver};

use crate::bed::{Bed, CREATE};

/// With Docker a full pool of a plugin's fails, whatever other pools the network has.
#[test]
fn a_full_pool_overflows_into_the_next() {
    for exhausted in [
        "no available IPv4 addresses on this pool",
        "No available addresses on this pool",
        "no available addresses on this pool",
    ] {
        let manners = Manners { exhausted: exhausted.into(), ..Manners::default() };
        let pools = "--subnet 10.61.0.0/30 --subnet 10.62.0.0/24 --gateway 10.62.0.1";
        let bed = Bed::with_network(manners, pools);
        bed.spoke("network connect net one");
        bed.spoke("network connect net two");
        assert!(bed.ip("one", "-o address show dev eth0").contains("10.61.0.2/30"));
        let shown = bed.ip("two", "-o address show dev eth0");
        assert!(shown.contains("10.62.0.2/24"), "{shown}");
        bed.spoke("network disconnect net one");
        bed.spoke("network disconnect net two");
        bed.spoke("network rm net");
        bed.is_clean();
    }
}

#[test]
fn all_pools_full_is_said() {
    let bed = Bed::with_network(Manners::default(), "--subnet 10.61.0.0/30");
    bed.spoke("network connect net one");
    let said = bed.refused("network connect net two", &["no available"]);
    assert_eq!(said.status, 4, "taken or exhausted");
    bed.spoke("network disconnect net one");
    bed.spoke("network rm net");
    bed.is_clean();
}

#[test]
fn a_wanted_address_is_had_or_refused() {
    let bed = Bed::with_network(Manners::default(), "--subnet 10.61.0.0/24");
    bed.spoke("network connect --ip 10.61.0.77 net one");
    assert!(bed.ip("one", "-o address show dev eth0").contains("10.61.0.77/24"));
    bed.refused("network connect --ip 10.61.0.77 net two", &["10.61.0.77"]);
    bed.refused("network connect --ip 10.99.0.7 net two", &["10.99.0.7"]);
    bed.spoke("network disconnect net one");
    bed.spoke("network rm net");
    bed.is_clean();
}

#[test]
fn who_needs_the_hardware_address_gets_it() {
    let bed = Bed::with_network(Manners { requires_mac: true, ..Manners::default() }, "");
    bed.spoke("network connect net one");
    bed.spoke("network connect --mac-address 02:00:00:00:00:07 net two");
    let asked = bed.driver.take();
    let reported: Vec<String> = asked
        .iter()
        .filter(|call| call.method == "RequestAddress")
        .map(|call| call.body["Options"]["com.docker.network.endpoint.macaddress"].to_string())
        .collect();
    assert_eq!(reported[1], "\"02:00:00:00:00:07\"");
    let link = bed.ip("one", "-o link show dev eth0");
    assert!(link.contains(reported[0].trim_matches('"')), "{reported:?}: {link}");
    bed.spoke("network disconnect net one");
    bed.spoke("network disconnect net two");
    bed.spoke("network rm net");
    bed.is_clean();
}

/// A driver that keeps its pools in memory gets them again.
#[test]
fn a_forgetful_plugin_is_reminded() {
    let bed = Bed::with_network(Manners { replay: true, ..Manners::default() }, "");
    bed.spoke("network connect net one");
    bed.driver.die();
    bed.driver.forget_addresses();
    bed.driver.come_back();
    bed.spoke("network connect net two");
    let shown = bed.ip("two", "-o address show dev eth0");
    assert!(shown.contains("10.200.1.3/24"), "the first address is not free: {shown}");
    bed.spoke("network disconnect net one");
    bed.spoke("network disconnect net two");
    bed.spoke("network rm net");
    bed.is_clean();
}

#[test]
fn spokes_own_addresses_on_a_plugins_network() {
    let bed = Bed::new(Manners { ipam: false, ..Manners::default() });
    bed.world.netns("one");
    bed.spoke("network create --driver probe net");
    let asked = bed.driver.take();
    let network = asked.iter().find(|call| call.method == "CreateNetwork").unwrap();
    assert_eq!(network.body["IPv4Data"][0]["AddressSpace"], "LocalDefault");
    let gateway = network.body["IPv4Data"][0]["Gateway"].as_str().unwrap().to_owned();
    bed.spoke("network connect net one");
    let gateway = gateway.split('/').next().unwrap();
    bed.world.sh(&format!("ip netns exec one busybox ping -c 1 -W 3 {gateway}"));
    bed.spoke("network disconnect net one");
    bed.spoke("network rm net");
    bed.is_clean();
}

#[test]
fn nobodys_addresses_are_the_drivers() {
    let own = vec!["10.77.0.5/24".to_owned()];
    let bed = Bed::new(Manners { own, ..Manners::default() });
    for name in ["one", "two"] {
        bed.world.netns(name);
    }
    bed.spoke("network create --driver probe --ipam-driver null net");
    let asked = bed.driver.take();
    let network = asked.iter().find(|call| call.method == "CreateNetwork").unwrap();
    let data = json!([{"AddressSpace": "null", "Pool": "0.0.0.0/0"}]);
    assert_eq!(network.body["IPv4Data"], data);
    bed.spoke("network connect net one");
    assert!(bed.ip("one", "-o address show dev eth0").contains("10.77.0.5/24"));
    bed.spoke("network connect net two");
    assert_eq!(bed.ip("two", "-4 -o address show dev eth0"), "", "it has no second one");
    bed.spoke("network disconnect net one");
    bed.spoke("network disconnect net two");
    bed.spoke("network rm net");
    let left = bed.spoke("network ls");
    if left.contains("gwbridge") {
        bed.spoke("network rm gwbridge");
    }
    bed.is_clean();
}

#[test]
fn a_plugins_addresses_on_spokes_own_bridge() {
    let bed = Bed::new(Manners { network: false, ..Manners::default() });
    for name in ["one", "two"] {
        bed.world.netns(name);
    }
    bed.spoke("network create --ipam-driver probe --subnet 10.61.0.0/24 net");
    bed.spoke("network connect net one");
    bed.spoke("network connect net two");
    bed.world.sh("ip netns exec one busybox ping -c 1 -W 3 10.61.0.3");
    bed.world.sh("ip netns exec one busybox ping -c 1 -W 3 10.61.0.1");
    bed.spoke("network disconnect net one");
    bed.spoke("network disconnect net two");
    bed.spoke("network rm net");
    bed.is_clean();
}

#[test]
fn a_gateway_that_comes_with_the_pool_is_not_asked_for() {
    let pool_data = json!({"com.docker.network.gateway": "10.61.0.254/24"});
    let pools = vec!["10.61.0.0/24".to_owned()];
    let bed = Bed::new(Manners { pool_data, pools, ..Manners::default() });
    bed.spoke(&format!("{CREATE} net"));
    let asked = bed.driver.take();
    let network = asked.iter().find(|call| call.method == "CreateNetwork").unwrap();
    assert_eq!(network.body["IPv4Data"][0]["Gateway"], "10.61.0.254/24");
    assert!(!asked.iter().any(|call| call.method == "RequestAddress"));
    bed.spoke("network rm net");
    bed.is_clean();
}

#[test]
fn a_driver_that_needs_no_gateway_gets_none() {
    let bed = Bed::new(Manners { gateway_check: Some((true, false)), ..Manners::default() });
    bed.spoke(&format!("{CREATE} net"));
    let asked = bed.driver.take();
    let network = asked.iter().find(|call| call.method == "CreateNetwork").unwrap();
    assert!(network.body["IPv4Data"][0]["Gateway"].is_null(), "{}", network.body);
    assert!(!asked.iter().any(|call| call.method == "RequestAddress"));
    assert!(asked.iter().any(|call| call.method == "GwAllocCheck"));
    bed.spoke("network rm net");
    bed.is_clean();
}

#[test]
fn configurations_are_kept_and_copied() {
    let bed = Bed::new(Manners::default());
    bed.world.netns("one");
    bed.spoke("network create --config-only --subnet 10.61.0.0/24 --ipam-driver probe kept");
    assert_eq!(bed.order(), "", "no plugin is called");
    bed.refused("network connect kept one", &["kept"]);
    bed.spoke("network create --driver probe --config-from kept net");
    bed.spoke("network connect net one");
    assert!(bed.ip("one", "-o address show dev eth0").contains("10.61.0.2/24"));
    bed.spoke("network disconnect net one");
    bed.spoke("network rm net");
    bed.spoke("network rm kept");
    bed.is_clean();
}

/// A tenant's space is reported as it is called, to the maker of the link, and a pool that this host has
/// already is no clash there.
#[test]
fn a_named_space_is_reported() {
    let bed = Bed::new(Manners::default());
    bed.spoke("network create --subnet 10.61.0.0/24 host");
    for (name, driver) in [("plugged", "--driver probe"), ("bridged", "--driver bridge")] {
        let pool = "--ipam-driver probe --address-space red --subnet 10.61.0.0/24";
        bed.spoke(&format!("network create {driver} {pool} {name}"));
        let asked = bed.driver.take();
        let pool = asked.iter().find(|call| call.method == "RequestPool").unwrap();
        assert_eq!(pool.body["AddressSpace"], "red", "{name}");
        bed.world.netns(name);
        bed.spoke(&format!("network connect {name} {name}"));
        let shown = bed.ip(name, "-o -4 address show dev eth0");
        assert!(shown.contains("10.61.0."), "{name}: {shown}");
        bed.spoke(&format!("network disconnect {name} {name}"));
        bed.spoke(&format!("network rm {name}"));
    }
    bed.refused(
        "network create --driver probe --address-space red --subnet 10.61.0.0/24 no",
        &["--ipam-driver"],
    );
    bed.spoke("network rm host");
    if bed.spoke("network ls").contains("gwbridge") {
        bed.spoke("network rm gwbridge");
    }
    bed.is_clean();
}

#[test]
fn scopes_are_not_downgraded() {
    let bed = Bed::new(Manners { scope: "global".into(), ..Manners::default() });
    bed.refused(&format!("{CREATE} --scope local net"), &["scope"]);
    bed.spoke(&format!("{CREATE} net"));
    let asked = bed.driver.take();
    let pool = asked.iter().find(|call| call.method == "RequestPool").unwrap();
    assert_eq!(pool.body["AddressSpace"], "everywhere");
    bed.spoke("network rm net");
    bed.is_clean();
}

#[test]
fn two_plugins_share_the_work() {
    let bed = Bed::new(Manners { ipam: false, ..Manners::default() });
    let book =
        RemoteDriver::start(&bed.world, "book", Manners { network: false, ..Manners::default() });
    bed.world.netns("one");
    bed.spoke("network create --driver probe --ipam-driver book net");
    bed.spoke("network connect net one");
    assert!(bed.ip("one", "-o address show dev eth0").contains("10.200.1.2/24"));
    bed.spoke("network disconnect net one");
    bed.spoke("network rm net");
    book.is_empty();
    drop(book);
    bed.world.sh("rm /run/docker/plugins/book.sock");
    bed.is_clean();
}
