//! What kuryr-libnetwork does wrong with an engine, done right: each test names a defect of its.

use serde_json::{Value, json};
use tests::Release;
use tests::neutron::id;

use crate::bed::{Bed, text};

#[test]
fn a_container_of_both_families_starts() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.network(
        "--ipv6 --subnet 10.80.0.0/24 --gateway 10.80.0.1 --subnet 2001:db8:80::/64 \
         --gateway 2001:db8:80::1 net",
    );
    bed.run("--name one --network net");
    assert_eq!(bed.end("one", "net", "IPv6Gateway"), "2001:db8:80::1");
    let (v4, v6) = (bed.end("one", "net", "IPAddress"), bed.end("one", "net", "GlobalIPv6Address"));
    let port = bed.port("one", "net");
    assert_eq!(port["fixed_ips"].as_array().map(Vec::len), Some(2), "one port has both: {port}");
    let has = bed.inside("one", "ip -o address show eth0; ip -6 route");
    for word in [format!("{v4}/24"), format!("{v6}/64"), "default via 2001:db8:80::1".to_owned()] {
        assert!(has.contains(&word), "{word}: {has}");
    }
    bed.run("--name two --network net");
    bed.engine.ping("two", &v4);
    bed.remove("one two");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn exposed_ports_are_let_in_by_a_group_of_the_ports() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.network("--subnet 10.81.0.0/24 --gateway 10.81.0.1 net");
    bed.run("--name one --network net --expose 80-82 --expose 53/udp");
    let port = bed.port("one", "net");
    let name = format!("{}-exposed_ports", id(&port));
    let group = bed.host.project.only("security-groups", &format!("name={name}"));
    let groups = port["security_groups"].as_array().unwrap();
    assert!(groups.contains(&group["id"]), "{port}");
    let rules = group["security_group_rules"].as_array().unwrap();
    let range = |protocol: &str, low: u16, high: u16| {
        rules.iter().any(|rule| {
            rule["direction"] == "ingress"
                && rule["protocol"] == protocol
                && rule["port_range_min"] == low
                && rule["port_range_max"] == high
        })
    };
    assert!(range("tcp", 80, 82) && range("udp", 53, 53), "{rules:#?}");
    bed.remove("one");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn the_address_of_a_running_container_is_refused_and_its_port_untouched() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.network("--subnet 10.82.0.0/24 --gateway 10.82.0.1 net");
    bed.run("--name one --network net --ip 10.82.0.50");
    bed.run("--name other --network net");
    let before = bed.host.project.everything();
    bed.refused("run --name two --network net --ip 10.82.0.50 busybox true", &["10.82.0.50"]);
    bed.docker("rm -f two");
    let changes = bed.host.project.everything().changes(&before);
    assert!(changes.is_empty(), "{changes:#?}");
    bed.engine.ping("other", "10.82.0.50");
    bed.remove("one other");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn the_address_of_a_virtual_machine_is_refused_and_its_port_untouched() {
    let Some(mut bed) = Bed::new(Release::V20_10) else { return };
    let (network, subnet) = bed.host.project.network("operators", "10.83.0.0/24");
    let machine = json!({
        "network_id": network,
        "device_owner": "compute:nova",
        "device_id": "a-machine",
        "binding:host_id": "ovs-elsewhere",
        "fixed_ips": [{"subnet_id": subnet, "ip_address": "10.83.0.20"}],
    });
    bed.host.project.create("port", machine);
    bed.host.start_from_here();
    bed.network(&format!(
        "--subnet 10.83.0.0/24 --gateway 10.83.0.1 -o neutron.net.uuid={network} net"
    ));
    bed.refused("run --name one --network net --ip 10.83.0.20 busybox true", &["10.83.0.20"]);
    bed.docker("rm -f one");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn a_network_without_a_subnet_takes_the_default_pool_which_stays() {
    let Some(mut bed) = Bed::new(Release::V20_10) else { return };
    let pool = json!({"name": "kuryr", "prefixes": ["10.84.0.0/24"], "default_prefixlen": 24});
    bed.host.project.create("subnetpool", pool);
    bed.host.start_from_here();
    bed.network("net");
    bed.run("--name one --network net");
    assert!(bed.end("one", "net", "IPAddress").starts_with("10.84.0."));
    bed.remove("one");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn a_network_without_a_gateway_gets_the_first_address() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    let docker = bed.network("--subnet 10.85.0.0/24 net");
    let network = id(&bed.host.network(&docker));
    let subnet = bed.host.project.only("subnets", &format!("network_id={network}"));
    assert_eq!(subnet["gateway_ip"], "10.85.0.1");
    bed.run("--name one --network net");
    assert!(bed.inside("one", "ip route").contains("default via 10.85.0.1"));
    bed.remove("one");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn two_networks_of_one_prefix_are_apart() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    let docker = ["a", "b"]
        .map(|name| bed.network(&format!("--subnet 10.86.0.0/24 --gateway 10.86.0.1 {name}")));
    let networks = [0, 1].map(|n| bed.host.network(&docker[n]));
    assert_ne!(networks[0]["id"], networks[1]["id"]);
    for name in ["a", "b"] {
        bed.run(&format!("--name in-{name} --network {name} --ip 10.86.0.10"));
    }
    assert_eq!(networks.each_ref().map(|network| bed.host.ports(network).len()), [1, 1]);
    bed.remove("in-b");
    bed.docker("network rm b");
    assert_eq!(bed.host.ports(&networks[0]).len(), 1, "the first one's is untouched");
    bed.run("--name again --network a");
    bed.engine.ping("again", "10.86.0.10");
    bed.remove("in-a again");
    bed.docker("network rm a");
    bed.is_clean();
}

#[test]
fn auxiliary_addresses_are_not_handed_out() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.network(
        "--subnet 10.87.0.0/29 --gateway 10.87.0.1 --aux-address a=10.87.0.2 \
         --aux-address b=10.87.0.3 net",
    );
    let names = ["one", "two", "three"];
    for name in names {
        bed.run(&format!("--name {name} --network net"));
    }
    let mut got = names.map(|name| bed.end(name, "net", "IPAddress"));
    got.sort();
    assert_eq!(got, ["10.87.0.4", "10.87.0.5", "10.87.0.6"]);
    bed.remove("one two three");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn dockers_own_address_management_works_too() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.docker("network create -d kuryr --subnet 10.88.0.0/24 --gateway 10.88.0.1 net");
    bed.run("--name one --network net");
    bed.run("--name two --network net");
    let address = bed.end("one", "net", "IPAddress");
    assert_eq!(bed.port("one", "net")["fixed_ips"][0]["ip_address"], address);
    bed.engine.ping("two", &address);
    bed.remove("one two");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn a_network_that_is_shared_otherwise_than_asked_is_not_touched() {
    let Some(mut bed) = Bed::new(Release::V20_10) else { return };
    let (network, _) = bed.host.project.network("operators", "10.89.0.0/24");
    bed.host.start_from_here();
    let options = format!("-o neutron.net.uuid={network} -o neutron.net.shared=true");
    let ours = "network create -d kuryr --ipam-driver kuryr";
    bed.refused(
        &format!("{ours} --subnet 10.89.0.0/24 --gateway 10.89.0.1 {options} net"),
        &["shared"],
    );
    bed.is_clean();
}

#[test]
fn a_container_that_neutron_refuses_leaves_nothing() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.network("--subnet 10.90.0.0/30 --gateway 10.90.0.1 net");
    bed.run("--name one --network net");
    let before = bed.host.project.everything();
    let links = bed.world().sh("ip -o link | wc -l");
    bed.refused("run --name two --network net busybox true", &["address"]);
    bed.docker("rm -f two");
    assert_eq!(bed.host.project.everything().changes(&before), Vec::<String>::new());
    assert_eq!(bed.world().sh("ip -o link | wc -l"), links);
    bed.remove("one");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn the_engine_says_what_became_of_a_port() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.network("--subnet 10.91.0.0/24 --gateway 10.91.0.1 net");
    bed.run("--name one --network net");
    let container = bed.engine.container("one");
    assert_eq!(text(&container["State"], "Status"), "running");
    assert_eq!(bed.end("one", "net", "Gateway"), "10.91.0.1");
    assert_eq!(container["State"]["Error"], Value::from(""));
    bed.remove("one");
    bed.docker("network rm net");
    bed.is_clean();
}
