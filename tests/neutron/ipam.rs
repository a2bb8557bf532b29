//! Pools, subnets, addresses and ports that were there before.

use serde_json::{Value, json};
use tests::Release;
use tests::neutron::id;

use crate::bed::{Bed, id_tags, tags};

#[test]
fn a_pool_comes_with_its_network_and_goes_with_it() {
    let Some(bed) = Bed::new(Release::V20_10) else { return };
    bed.network("--subnet 10.70.0.0/16 --ip-range 10.70.0.0/24 --gateway 10.70.0.1 net");
    let named = "name=kuryrPool-10.70.0.0/16";
    assert_eq!(bed.host.project.list("subnetpools", named).len(), 1);
    bed.run("--name one --network net");
    let address = bed.end("one", "net", "IPAddress");
    assert!(address.starts_with("10.70.0."), "{address}");
    bed.docker("network disconnect net one");
    bed.remove("one");
    bed.docker("network rm net");
    assert_eq!(bed.host.project.list("subnetpools", named), Vec::<Value>::new());
    bed.is_clean();
}

#[test]
fn an_existing_subnet_pool_is_used_and_stays_as_it_was() {
    let Some(mut bed) = Bed::new(Release::V20_10) else { return };
    let pool = json!({"name": "operators", "prefixes": ["10.71.0.0/24"], "default_prefixlen": 24});
    let pool = id(&bed.host.project.create("subnetpool", pool));
    bed.host.start_from_here();
    for option in [format!("neutron.pool.uuid={pool}"), "neutron.pool.name=operators".to_owned()] {
        let docker = bed.network(&format!(
            "--subnet 10.71.0.0/24 --gateway 10.71.0.1 -o {option} --ipam-opt {option} net"
        ));
        let network = id(&bed.host.network(&docker));
        let subnet = bed.host.project.only("subnets", &format!("network_id={network}"));
        assert_eq!(subnet["subnetpool_id"], pool, "{option}");
        bed.run("--name one --network net");
        bed.remove("one");
        bed.docker("network rm net");
        bed.is_clean();
    }
}

#[test]
fn an_existing_subnet_is_used_and_stays_as_it_was() {
    let Some(mut bed) = Bed::new(Release::V20_10) else { return };
    let (network, subnet) = bed.host.project.network("operators", "10.72.0.0/24");
    bed.host.start_from_here();
    for option in
        [format!("neutron.subnet.uuid={subnet}"), "neutron.subnet.name=operators".to_owned()]
    {
        bed.network(&format!(
            "--subnet 10.72.0.0/24 --gateway 10.72.0.1 -o neutron.net.uuid={network} \
             -o {option} --ipam-opt {option} net"
        ));
        bed.run("--name one --network net");
        assert_eq!(bed.port("one", "net")["fixed_ips"][0]["subnet_id"], subnet, "{option}");
        bed.remove("one");
        bed.docker("network rm net");
        bed.is_clean();
    }
}

#[test]
fn existing_subnets_of_both_families_are_used_and_stay_as_they_were() {
    let Some(mut bed) = Bed::new(Release::V20_10) else { return };
    let (network, v4) = bed.host.project.network("four", "10.73.0.0/24");
    // By itself Neutron takes the network's own address for the gateway of IPv6.
    let v6 = json!({
        "network_id": network, "name": "six", "ip_version": 6, "cidr": "2001:db8:73::/64",
        "gateway_ip": "2001:db8:73::1",
    });
    let v6 = id(&bed.host.project.create("subnet", v6));
    bed.host.start_from_here();
    let options: String = ["-o", "--ipam-opt"]
        .map(|flag| format!("{flag} neutron.subnet.name=four {flag} neutron.subnet.v6.name=six "))
        .concat();
    bed.network(&format!(
        "--ipv6 --subnet 10.73.0.0/24 --gateway 10.73.0.1 --subnet 2001:db8:73::/64 \
         --gateway 2001:db8:73::1 -o neutron.net.uuid={network} {options} net"
    ));
    bed.run("--name one --network net");
    let port = bed.port("one", "net");
    let mut subnets: Vec<_> = port["fixed_ips"]
        .as_array()
        .unwrap()
        .iter()
        .map(|ip| ip["subnet_id"].as_str().unwrap())
        .collect();
    let mut both = [v4.as_str(), v6.as_str()];
    subnets.sort_unstable();
    both.sort_unstable();
    assert_eq!(subnets, both);
    bed.remove("one");
    bed.docker("network rm net");
    bed.is_clean();
}

#[test]
fn an_existing_port_is_used_by_its_address_and_is_unbound_afterwards() {
    let Some(mut bed) = Bed::new(Release::V20_10) else { return };
    let (network, subnet) = bed.host.project.network("operators", "10.74.0.0/24");
    let with = json!({
        "network_id": network,
        "name": "the operator's",
        "fixed_ips": [{"subnet_id": subnet, "ip_address": "10.74.0.99"}],
    });
    let port = bed.host.project.create("port", with);
    bed.host.start_from_here();
    bed.network(&format!(
        "--subnet 10.74.0.0/24 --gateway 10.74.0.1 -o neutron.net.uuid={network} net"
    ));
    bed.run("--name one --network net --ip 10.74.0.99");
    let used = bed.port("one", "net");
    assert_eq!(used["id"], port["id"]);
    assert_eq!(used["name"], "the operator's");
    assert_eq!(used["binding:host_id"], bed.host.name);
    assert_eq!(used["device_owner"], "compute:kuryr");
    assert!(tags(&used).contains(&"kuryr.port.existing".to_owned()), "{used}");
    assert_eq!(used["mac_address"], bed.end("one", "net", "MacAddress"));
    let endpoint = bed.end("one", "net", "EndpointID");
    assert_eq!(
        bed.host.project.only("ports", &format!("tags={}", id_tags(&endpoint)))["id"],
        port["id"]
    );
    bed.remove("one");
    let after = bed.host.project.get(&format!("/ports/{}", id(&port)))["port"].clone();
    assert_eq!((&after["binding:host_id"], &after["device_owner"]), (&json!(""), &json!("")));
    assert_eq!(tags(&after), Vec::<String>::new());
    // Engines choose a hardware address where the user does not, and take no other one for an answer.
    let mac = json!({"port": {"mac_address": port["mac_address"]}});
    bed.host.project.put(&format!("/ports/{}", id(&port)), &mac);
    bed.docker("network rm net");
    bed.is_clean();
}
