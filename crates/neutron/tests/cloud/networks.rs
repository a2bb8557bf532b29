//! CreateNetwork and DeleteNetwork.

use engine::port::{Cloud, CloudNetwork};
use model::{Kind, LinkKind};

use crate::bed::{Bed, id, mac, none, plan, subnet};

#[test]
fn a_network_has_kuryrs_names_and_tags() {
    let bed = Bed::new();
    let made = bed.network("10.120.0.0/24");
    let (short, id) = (&made.id.as_str()[..8], made.id.as_str());
    let network = bed.project.only("networks", "");
    assert_eq!(network["name"], format!("kuryr-net-{short}"));
    let tags = network["tags"].to_string();
    assert!(tags.contains(&format!("kuryr.net.uuid.lh:{}", &id[..32])), "{tags}");
    assert!(tags.contains(&format!("kuryr.net.uuid.uh:{}", &id[32..])), "{tags}");
    let subnet = bed.project.only("subnets", "");
    assert_eq!(subnet["name"], "kuryr-subnet-10.120.0.0/24");
    assert_eq!(subnet["gateway_ip"], "10.120.0.1");
    assert_eq!(subnet["subnetpool_id"], made.pool.as_str());
    assert!(subnet["tags"].to_string().contains(made.pool.as_str()), "{subnet}");
    let link = made.network.wiring.link.as_ref().unwrap();
    let LinkKind::Neutron(kind) = &link.kind else { panic!("{link:?}") };
    assert_eq!(kind.network.to_string(), network["id"].as_str().unwrap());
    assert_eq!(link.mtu.unwrap().bytes(), u32::try_from(network["mtu"].as_u64().unwrap()).unwrap());
    let again = bed.cloud.network(&made.id).unwrap().unwrap();
    assert_eq!((&again.name, &again.wiring), (&made.network.name, &made.network.wiring));
    bed.remove(&made);
    bed.is_clean();
}

#[test]
fn a_repeated_create_changes_nothing() {
    let mut bed = Bed::new();
    let made = bed.network("10.121.0.0/24");
    let before = bed.project.everything();
    assert_eq!(bed.cloud.create_network(&made.plan).unwrap().wiring, made.network.wiring);
    bed.restart();
    assert_eq!(bed.cloud.create_network(&made.plan).unwrap().wiring, made.network.wiring);
    let changes = bed.project.everything().changes(&before);
    assert!(changes.is_empty(), "{changes:#?}");
    bed.cloud.delete_network(&made.id, &none).unwrap();
    bed.cloud.delete_network(&made.id, &none).unwrap();
    bed.cloud.release_pool(&made.pool, &none).unwrap();
    bed.is_clean();
}

#[test]
fn ids_of_swarms_are_short() {
    let bed = Bed::new();
    let id = format!("{:0>25}", bed.host.trim_start_matches("ovs-")).parse().unwrap();
    let pool = bed.pool("10.122.0.0/24");
    let subnets = vec![subnet("10.122.0.0/24", "10.122.0.1".parse().unwrap())];
    bed.cloud.create_network(&CloudNetwork { subnets, ..plan(&id) }).unwrap();
    assert!(bed.cloud.network(&id).unwrap().is_some());
    bed.cloud.release_pool(&pool, &none).unwrap();
    bed.cloud.delete_network(&id, &none).unwrap();
    bed.is_clean();
}

#[test]
fn engines_may_have_their_own_addresses() {
    let bed = Bed::new();
    let id = id();
    let subnets = vec![subnet("10.123.0.0/24", "10.123.0.1".parse().unwrap())];
    let plan = CloudNetwork { subnets, foreign_addresses: true, ..plan(&id) };
    bed.cloud.create_network(&plan).unwrap();
    let subnet = bed.project.only("subnets", "");
    assert_eq!(subnet["cidr"], "10.123.0.0/24");
    assert!(subnet["subnetpool_id"].is_null());
    bed.cloud.delete_network(&id, &none).unwrap();
    bed.is_clean();
}

#[test]
fn what_is_shared_must_be_shared() {
    let mut bed = Bed::new();
    let (network, _) = bed.project.network("operators", "10.124.0.0/24");
    bed.start_from_here();
    let existing = Some(network.parse().unwrap());
    let plan = CloudNetwork { existing, shared: Some(true), ..plan(&id()) };
    assert_eq!(bed.cloud.create_network(&plan).unwrap_err().kind(), Kind::Conflict);
    bed.is_clean();
}

#[test]
fn a_network_that_cannot_be_made_leaves_nothing() {
    let bed = Bed::new();
    let pool = bed.pool("10.125.0.0/24");
    let wrong = subnet("10.125.0.0/24", "10.125.0.255".parse().unwrap());
    let plan = CloudNetwork { subnets: vec![wrong], ..plan(&id()) };
    let refused = bed.cloud.create_network(&plan).unwrap_err();
    assert_eq!(refused.status(), Some(409), "{refused}");
    assert!(bed.project.list("networks", "").is_empty());
    bed.cloud.release_pool(&pool, &none).unwrap();
    bed.is_clean();
}

#[test]
fn what_a_dead_engine_requested_goes_with_the_network() {
    let mut bed = Bed::new();
    let made = bed.network("10.126.0.0/24");
    bed.any(&made.pool, Some(mac())).unwrap();
    bed.restart();
    bed.remove(&made);
    bed.is_clean();
}

#[test]
fn a_network_goes_before_or_after_its_pool() {
    let bed = Bed::new();
    for pool_first in [true, false] {
        let made = bed.network("10.127.0.0/24");
        if pool_first {
            bed.cloud.release_pool(&made.pool, &none).unwrap();
        }
        bed.cloud.delete_network(&made.id, &none).unwrap();
        bed.cloud.release_pool(&made.pool, &none).unwrap();
        bed.is_clean();
    }
}
