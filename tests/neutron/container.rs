//! What becomes of a container in Neutron and in the switch.

use serde_json::json;
use tests::Release;

use crate::bed::{Bed, tags, text, verbs};

#[track_caller]
fn life(release: Release) {
    let Some(bed) = Bed::new(release) else { return };
    let docker = bed.network("--subnet 10.64.0.0/24 --gateway 10.64.0.1 net");
    let network = bed.host.network(&docker);
    let empty = bed.host.project.everything();
    for name in ["one", "two"] {
        bed.run(&format!("--name {name} --network net"));
    }
    assert_eq!(bed.host.ports(&network).len(), 2);
    bed.named();
    let port = bed.port("one", "net");
    let endpoint = bed.end("one", "net", "EndpointID");
    let (id, mac) = (text(&port, "id"), text(&port, "mac_address"));
    assert_eq!(port["name"], "kuryr-unbound-port");
    assert_eq!(port["device_id"], endpoint);
    assert_eq!(port["binding:host_id"], bed.host.name);
    assert_eq!(port["status"], "ACTIVE");
    let (lower, upper) = endpoint.split_at(32);
    for tag in [
        "compute:kuryr".to_owned(),
        format!("kuryr.net.uuid.lh:{lower}"),
        format!("kuryr.net.uuid.uh:{upper}"),
    ] {
        assert!(tags(&port).contains(&tag), "{tag}: {port}");
    }
    assert_eq!(bed.end("one", "net", "MacAddress"), mac);

    let link = bed.inside("one", "ip -o link show eth0");
    assert!(link.contains(&mac) && link.contains("mtu 1442"), "{link}");
    let addresses = bed.inside("one", "ip -o -4 address show eth0");
    assert!(addresses.contains("/24 "), "the subnet's prefix: {addresses}");
    assert!(bed.inside("one", "ip route").contains("default via 10.64.0.1"));
    let tap = format!("tap{}", &id[..11]);
    assert!(bed.host.switch.ports().contains(&tap), "{:?}", bed.host.switch.ports());
    assert_eq!(bed.host.switch.external_id(&tap, "iface-id"), id);
    assert_eq!(bed.host.switch.external_id(&tap, "attached-mac"), mac);
    let outside = bed.world().sh(&format!("ip -o address show dev {tap}; ip route"));
    assert!(!outside.contains("10.64.0."), "no address or route on the host: {outside}");

    let other = bed.end("two", "net", "IPAddress");
    bed.engine.ping("one", &other);
    // A whole segment with its checksum: the switch is in userspace.
    bed.inside("two", "echo all of it >/tmp/page; (nc -l -p 80 </tmp/page >/dev/null 2>&1 &)");
    assert_eq!(bed.inside("one", &format!("nc -w 3 {other} 80 </dev/null")), "all of it");

    bed.docker("stop -t 0 one");
    assert_eq!(bed.host.ports(&network).len(), 1, "a stopped container has no port");
    bed.docker("start one");
    bed.engine.ping("two", &bed.end("one", "net", "IPAddress"));
    bed.remove("one two");
    let changes = bed.host.project.everything().changes(&empty);
    assert!(changes.is_empty(), "{changes:#?}");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn a_container_comes_goes_and_speaks_20_10() {
    life(Release::V20_10);
}

#[test]
fn a_container_comes_goes_and_speaks_28_5() {
    life(Release::V28_5);
}

#[test]
fn a_container_is_connected_and_disconnected_while_it_runs() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    let docker = bed.network("--subnet 10.65.0.0/24 --gateway 10.65.0.1 net");
    let network = bed.host.network(&docker);
    bed.run("--name one --network none");
    bed.docker("network disconnect none one");
    bed.docker("network connect net one");
    assert_eq!(bed.host.ports(&network).len(), 1);
    bed.inside("one", "ip link show eth0");
    bed.docker("network disconnect net one");
    assert_eq!(bed.host.ports(&network).len(), 0);
    bed.remove("one");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn a_start_costs_at_most_three_calls_and_an_end_one() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.network("--subnet 10.66.0.0/24 --gateway 10.66.0.1 net");
    // What the daemon learns of this network once.
    bed.run("--name first --network net");
    bed.named();
    bed.host.proxy.take();
    bed.run("--name one --network net");
    bed.named();
    let start = bed.host.proxy.take();
    assert!(start.len() <= 3, "{:#?}", verbs(&start));
    assert_eq!(verbs(&start)[0], "POST ports");
    bed.remove("one");
    let end = bed.host.proxy.take();
    assert_eq!(verbs(&end), ["DELETE ports"]);
    assert_eq!(bed.host.proxy.connections(), 1, "the connection is kept");
    bed.remove("first");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn a_chosen_hardware_address_is_the_ports() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.network("--subnet 10.67.0.0/24 --gateway 10.67.0.1 net");
    let mac = "02:11:22:33:44:55";
    // The command line's word for it depends on its version.
    let address = json!({"IPAMConfig": {"IPv4Address": "10.67.0.77"}});
    let with =
        json!({"MacAddress": mac, "NetworkingConfig": {"EndpointsConfig": {"net": address}}});
    bed.engine.run("one", "net", with);
    let port = bed.port("one", "net");
    assert_eq!(port["mac_address"], mac);
    assert_eq!(port["fixed_ips"][0]["ip_address"], "10.67.0.77");
    assert!(bed.inside("one", "ip link show eth0").contains(mac));
    bed.remove("one");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn routes_of_the_subnet_are_the_containers() {
    let Some(mut bed) = Bed::new(Release::V20_10) else { return };
    let (network, subnet) = bed.host.project.network("operators", "10.68.0.0/24");
    let route = json!({"destination": "192.0.2.0/24", "nexthop": "10.68.0.9"});
    bed.host
        .project
        .put(&format!("/subnets/{subnet}"), &json!({"subnet": {"host_routes": [route]}}));
    bed.host.start_from_here();
    bed.network(&format!(
        "--subnet 10.68.0.0/24 --gateway 10.68.0.1 -o neutron.net.uuid={network} net"
    ));
    bed.run("--name one --network net");
    assert!(bed.inside("one", "ip route").contains("192.0.2.0/24 via 10.68.0.9"));
    bed.remove("one");
    bed.docker("network rm net");
    bed.is_clean();
}
