//! What was there before: ports that may be used, ports that may not, what kuryr-libnetwork made.

use engine::port::{Cloud, CloudNetwork, PoolSpec};
use model::{Kind, ResourceRef};
use neutron::contract;
use serde_json::{Value, json};

use crate::bed::{Bed, CreatedNetwork, id, mac, none, plan, pool, subnet};

/// A network of an operator's, and one of an engine's on it.
fn joined(bed: &mut Bed, net: &str) -> (String, CreatedNetwork) {
    let (network, _) = bed.project.network("operators", net);
    bed.start_from_here();
    let made = join(bed, &network, net);
    (network, made)
}

fn join(bed: &Bed, network: &str, net: &str) -> CreatedNetwork {
    let pool = bed.pool(net);
    let gateway = bed.gateway(&pool, None).unwrap().addr();
    let id = id();
    let plan = CloudNetwork {
        existing: Some(network.parse().unwrap()),
        subnets: vec![subnet(net, gateway)],
        ..plan(&id)
    };
    let network = bed.cloud.create_network(&plan).unwrap();
    CreatedNetwork { id, pool, gateway, plan, network }
}

fn port(bed: &Bed, network: &str, address: &str, with: Value) -> String {
    let mut port = json!({ "network_id": network, "fixed_ips": [{ "ip_address": address }] });
    port.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
    bed.project.create("port", port)["id"].as_str().unwrap().to_owned()
}

fn show(bed: &Bed, port: &str) -> Value {
    bed.project.get(&format!("/ports/{port}"))["port"].clone()
}

#[test]
fn an_existing_network_is_joined_and_left_as_it_was() {
    let mut bed = Bed::new();
    let (network, made) = joined(&mut bed, "10.110.0.0/24");
    let tags = bed.project.get(&format!("/networks/{network}"))["network"]["tags"].to_string();
    assert!(tags.contains(&format!("kuryr.net.existing:{}", &made.id.as_str()[..12])), "{tags}");
    let address = bed.any(&made.pool, Some(mac())).unwrap().addr().to_string();
    bed.cloud.create_network(&made.plan).unwrap();
    bed.release(&made.pool, &address);
    bed.remove(&made);
    bed.is_clean();
}

#[test]
fn two_hosts_share_a_network() {
    let mut one = Bed::new();
    let (network, first) = joined(&mut one, "10.111.0.0/24");
    let two = Bed::of(one.project.clone(), &format!("{}-b", one.host));
    let second = join(&two, &network, "10.111.0.0/24");
    one.remove(&first);
    let address = two.any(&second.pool, Some(mac())).unwrap().addr().to_string();
    two.release(&second.pool, &address);
    two.remove(&second);
    one.is_clean();
}

#[test]
fn the_last_host_removes_what_the_first_made() {
    let one = Bed::new();
    let first = one.network("10.112.0.0/24");
    let network = one.project.only("networks", "")["id"].as_str().unwrap().to_owned();
    let two = Bed::of(one.project.clone(), &format!("{}-b", one.host));
    let second = join(&two, &network, "10.112.0.0/24");
    one.remove(&first);
    let address = two.any(&second.pool, Some(mac())).unwrap().addr().to_string();
    two.release(&second.pool, &address);
    two.remove(&second);
    one.is_clean();
}

#[test]
fn a_port_without_a_binding_is_borrowed() {
    let mut bed = Bed::new();
    let (network, _) = bed.project.network("operators", "10.113.0.0/24");
    let port = port(&bed, &network, "10.113.0.50", json!({ "device_id": "zun" }));
    bed.start_from_here();
    let made = join(&bed, &network, "10.113.0.0/24");
    let mac = mac();
    bed.exactly(&made.pool, "10.113.0.50", Some(mac)).unwrap();
    assert!(show(&bed, &port)["tags"].to_string().contains("kuryr.port.existing"));
    let again = bed.exactly(&made.pool, "10.113.0.50", Some(mac)).unwrap();
    assert_eq!(again.to_string(), "10.113.0.50/24");
    let other = bed.exactly(&made.pool, "10.113.0.50", Some(crate::bed::mac())).unwrap_err();
    assert_eq!(other.kind(), Kind::Conflict, "{other}");
    bed.release(&made.pool, "10.113.0.50");
    bed.release(&made.pool, "10.113.0.50");
    bed.remove(&made);
    bed.is_clean();
}

#[test]
fn a_port_that_is_bound_to_this_host_is_borrowed_with_its_hardware_address() {
    let mut bed = Bed::new();
    let (network, made) = joined(&mut bed, "10.114.0.0/24");
    let mac = mac();
    let bound = json!({
        "binding:host_id": bed.host, "device_owner": "compute:kuryr", "device_id": "zun",
        "mac_address": mac.to_string(),
    });
    let port = port(&bed, &network, "10.114.0.50", bound);
    let strange = bed.exactly(&made.pool, "10.114.0.50", Some(crate::bed::mac())).unwrap_err();
    assert_eq!(strange.kind(), Kind::Conflict, "{strange}");
    bed.exactly(&made.pool, "10.114.0.50", Some(mac)).unwrap();
    bed.restart();
    bed.release(&made.pool, "10.114.0.50");
    let left = show(&bed, &port);
    assert_eq!((&left["binding:host_id"], &left["tags"]), (&json!(""), &json!([])), "{left}");
    bed.remove(&made);
    bed.project.delete(&format!("/ports/{port}"));
    bed.is_clean();
}

#[test]
fn a_foreign_port_is_refused_and_stays_as_it_is() {
    let mut bed = Bed::new();
    let (network, made) = joined(&mut bed, "10.115.0.0/24");
    let vm = json!({ "device_owner": "compute:nova", "device_id": "vm" });
    let elsewhere = json!({ "binding:host_id": "ovs-elsewhere", "device_owner": "compute:kuryr" });
    let container = json!({ "device_owner": "compute:kuryr", "device_id": "f00d" });
    let all = [vm, elsewhere, container];
    let ports: Vec<String> = (50..)
        .zip(all)
        .map(|(last, with)| port(&bed, &network, &format!("10.115.0.{last}"), with))
        .collect();
    let tags = json!({ "tags": contract::id_tags(id().as_str()) });
    bed.project.put(&format!("/ports/{}/tags", ports[2]), &tags);
    let before: Vec<Value> = ports.iter().map(|port| show(&bed, port)).collect();
    for (last, port) in (50..).zip(&ports) {
        let address = format!("10.115.0.{last}");
        let refused = bed.exactly(&made.pool, &address, Some(mac())).unwrap_err();
        assert_eq!(refused.kind(), Kind::Conflict, "{refused}");
        assert!(refused.to_string().contains(port), "{refused}");
        bed.release(&made.pool, &address);
    }
    assert_eq!(ports.iter().map(|port| show(&bed, port)).collect::<Vec<_>>(), before);
    for port in ports {
        bed.project.delete(&format!("/ports/{port}"));
    }
    bed.remove(&made);
    bed.is_clean();
}

#[test]
fn a_running_containers_address_is_refused_and_it_keeps_it() {
    let bed = Bed::new();
    let made = bed.network("10.116.0.0/24");
    let address = bed.any(&made.pool, Some(mac())).unwrap().addr().to_string();
    for mac in [Some(mac()), None] {
        let refused = bed.exactly(&made.pool, &address, mac).unwrap_err();
        assert_eq!(refused.kind(), Kind::Conflict, "{refused}");
    }
    assert_eq!(bed.ports().len(), 1);
    bed.release(&made.pool, &address);
    bed.remove(&made);
    bed.is_clean();
}

#[test]
fn a_named_subnet_is_used() {
    let mut bed = Bed::new();
    let (network, subnet_id) = bed.project.network("operators", "10.117.0.0/24");
    bed.start_from_here();
    let which: ResourceRef = subnet_id.parse().unwrap();
    let spec = PoolSpec { net: None, subnet: Some(which.clone()), ..pool("10.117.0.0/24") };
    let requested = bed.cloud.request_pool(&spec).unwrap();
    assert_eq!(requested.net.to_string(), "10.117.0.0/24");
    let gateway = bed.gateway(&requested.id, None).unwrap().addr();
    let id = id();
    let mut part = subnet("10.117.0.0/24", gateway);
    part.subnet = Some(which);
    let existing = Some(network.parse().unwrap());
    bed.cloud.create_network(&CloudNetwork { existing, subnets: vec![part], ..plan(&id) }).unwrap();
    bed.restart();
    let address = bed.any(&requested.id, Some(mac())).unwrap().addr().to_string();
    bed.release(&requested.id, &address);
    bed.cloud.delete_network(&id, &none).unwrap();
    bed.cloud.release_pool(&requested.id, &none).unwrap();
    bed.is_clean();
    let wrong = PoolSpec { subnet: Some(subnet_id.parse().unwrap()), ..pool("10.118.0.0/24") };
    assert_eq!(bed.cloud.request_pool(&wrong).unwrap_err().kind(), Kind::Invalid);
}

/// A network with a container, as kuryr-libnetwork makes it.
fn kuryrs(bed: &Bed, id: &str, net: &str) -> (String, String) {
    let name = format!("kuryr-net-{}", &id[..8]);
    let network = bed.project.create("network", json!({ "name": name }))["id"].clone();
    let network = network.as_str().unwrap().to_owned();
    let tags = json!({ "tags": contract::id_tags(id) });
    bed.project.put(&format!("/networks/{network}/tags"), &tags);
    let with = json!({
        "name": format!("kuryrPool-{net}"), "prefixes": [net], "default_prefixlen": 24
    });
    let pool = bed.project.create("subnetpool", with)["id"].as_str().unwrap().to_owned();
    let with = json!({
        "network_id": network, "name": format!("kuryr-subnet-{net}"), "cidr": net, "ip_version": 4,
        "subnetpool_id": pool,
    });
    let subnet = bed.project.create("subnet", with)["id"].as_str().unwrap().to_owned();
    bed.project.put(&format!("/subnets/{subnet}/tags"), &json!({ "tags": [pool] }));
    (network, pool)
}

#[test]
fn what_kuryr_made_is_adopted_and_goes() {
    let bed = Bed::new();
    let id = id();
    let (network, pool) = kuryrs(&bed, id.as_str(), "10.119.0.0/24");
    let with = json!({ "name": "kuryr-unbound-port", "device_owner": "compute:kuryr" });
    let old = port(&bed, &network, "10.119.0.77", with);
    bed.project.put(&format!("/ports/{old}/tags"), &json!({ "tags": ["compute:kuryr"] }));
    let template = bed.cloud.network(&id).unwrap().unwrap();
    assert!(template.name.as_str().starts_with("kuryr-"));
    assert!(format!("{:?}", template.wiring.link).contains(&network));
    let pool = pool.parse().unwrap();
    let address = bed.any(&pool, Some(mac())).unwrap().addr().to_string();
    for address in [address.as_str(), "10.119.0.77"] {
        bed.release(&pool, address);
    }
    assert!(bed.ports().is_empty());
    bed.cloud.release_pool(&pool, &none).unwrap();
    bed.cloud.delete_network(&id, &none).unwrap();
    bed.is_clean();
    assert!(bed.cloud.network(&id).unwrap().is_none());
}
