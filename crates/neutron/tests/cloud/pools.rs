//! RequestPool and ReleasePool.

use engine::port::{Cloud, CloudNetwork, PoolSpec};
use model::{Family, Kind};
use serde_json::json;

use crate::bed::{Bed, id, mac, no_pool, none, plan, pool, reported, subnet};

#[test]
fn every_request_gets_a_pool_of_its_own() {
    let bed = Bed::new();
    let pools: Vec<_> = std::thread::scope(|scope| {
        let many: Vec<_> = (0..8).map(|_| scope.spawn(|| bed.pool("10.80.0.0/24"))).collect();
        many.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let listed = bed.project.list("subnetpools", "name=kuryrPool-10.80.0.0/24");
    assert_eq!(listed.len(), 8);
    for pool in pools {
        bed.cloud.release_pool(&pool, &none).unwrap();
        bed.cloud.release_pool(&pool, &none).unwrap();
    }
    bed.is_clean();
}

#[test]
fn networks_with_one_subnet_are_apart() {
    let bed = Bed::new();
    let (one, two) = (bed.network("10.81.0.0/24"), bed.network("10.81.0.0/24"));
    let first = bed.any(&one.pool, Some(mac())).unwrap();
    let second = bed.any(&two.pool, Some(mac())).unwrap();
    let networks: Vec<_> = bed.ports().iter().map(|port| port["network_id"].clone()).collect();
    assert_ne!(networks[0], networks[1]);
    bed.release(&one.pool, &first.addr().to_string());
    bed.remove(&one);
    assert_eq!(bed.ports().len(), 1, "the other's");
    bed.release(&two.pool, &second.addr().to_string());
    bed.remove(&two);
    bed.is_clean();
}

#[test]
fn networks_with_one_subnet_may_be_made_at_the_same_moment() {
    let bed = Bed::new();
    let made: Vec<_> = std::thread::scope(|scope| {
        let many: Vec<_> = (0..4).map(|_| scope.spawn(|| bed.network("10.82.0.0/24"))).collect();
        many.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for one in &made {
        let address = bed.any(&one.pool, Some(mac())).unwrap();
        let network = format!("{:?}", one.network.wiring.link);
        let port = &bed.ports()[0];
        assert!(network.contains(port["network_id"].as_str().unwrap()), "{port} {network}");
        bed.release(&one.pool, &address.addr().to_string());
    }
    for one in &made {
        bed.remove(one);
    }
    bed.is_clean();
}

#[test]
fn default_pools_are_divided_and_stay() {
    let mut bed = Bed::new();
    let short = bed.project.id()[..8].to_owned();
    for (name, net, length) in [("four", "10.83.0.0/23", 24), ("six", "fd00:83::/48", 64)] {
        let name = format!("{name}-{short}");
        let with = json!({"name": name, "prefixes": [net], "default_prefixlen": length});
        bed.project.create("subnetpool", with);
    }
    bed.start_from_here();
    let mut made = Vec::new();
    for _ in 0..2 {
        let four = bed.cloud.request_pool(&no_pool(Family::V4)).unwrap();
        let six = bed.cloud.request_pool(&no_pool(Family::V6)).unwrap();
        let id = id();
        let subnets = [&four, &six]
            .map(|pool| subnet(&reported(pool), bed.gateway(&pool.id, None).unwrap().addr()));
        let plan = CloudNetwork { subnets: subnets.to_vec(), ..plan(&id) };
        bed.cloud.create_network(&plan).unwrap();
        made.push((id, four, six));
    }
    let nets: Vec<_> =
        made.iter().flat_map(|(_, four, six)| [reported(four), reported(six)]).collect();
    assert_eq!(nets, ["10.83.0.0/24", "fd00:83::/64", "10.83.1.0/24", "fd00:83:0:1::/64"]);
    let four = bed.project.only("subnetpools", &format!("name=four-{short}"));
    let taken = format!("subnetpool_id={}", four["id"].as_str().unwrap());
    assert_eq!(bed.project.list("subnets", &taken).len(), 2);
    let full = bed.cloud.request_pool(&no_pool(Family::V4)).unwrap_err();
    assert_eq!(full.kind(), Kind::Exhausted, "{full}");
    for (id, four, six) in made {
        for pool in [four, six] {
            bed.cloud.release_pool(&pool.id, &none).unwrap();
        }
        bed.cloud.delete_network(&id, &none).unwrap();
    }
    bed.is_clean();
}

#[test]
fn an_operators_pool_is_shared_and_stays() {
    let mut bed = Bed::new();
    let prefixes =
        json!({"name": "operators", "prefixes": ["10.84.0.0/24"], "default_prefixlen": 24});
    let operators = bed.project.create("subnetpool", prefixes);
    let operators = operators["id"].as_str().unwrap();
    bed.start_from_here();
    let spec = PoolSpec { pool: Some(operators.parse().unwrap()), ..pool("10.84.0.0/24") };
    let requested: Vec<_> = (0..2).map(|_| bed.cloud.request_pool(&spec).unwrap().id).collect();
    assert!(requested.iter().all(|id| id.as_str() == operators));
    bed.cloud.release_pool(&requested[0], &none).unwrap();
    let tags = bed.project.only("subnetpools", &format!("id={operators}"))["tags"].clone();
    assert!(tags.to_string().contains("kuryr.subnetpool.existing"), "{tags}");
    bed.cloud.release_pool(&requested[1], &none).unwrap();
    bed.is_clean();
    let elsewhere = PoolSpec { net: Some("10.85.0.0/24".parse().unwrap()), ..spec };
    assert_eq!(bed.cloud.request_pool(&elsewhere).unwrap_err().kind(), Kind::Invalid);
    bed.is_clean();
}

#[test]
fn what_is_not_ours_is_not_deleted() {
    let mut bed = Bed::new();
    let with = json!({"name": "operators", "prefixes": ["10.86.0.0/24"], "default_prefixlen": 24});
    let pool = bed.project.create("subnetpool", with);
    bed.start_from_here();
    bed.cloud.release_pool(&pool["id"].as_str().unwrap().parse().unwrap(), &none).unwrap();
    bed.cloud
        .release_pool(&"0f2c8d5e-6a1b-4c3d-9e8f-7a6b5c4d3e2f".parse().unwrap(), &none)
        .unwrap();
    bed.is_clean();
}

#[test]
fn any_address_is_of_the_part() {
    let bed = Bed::new();
    let spec = PoolSpec { part: Some("10.87.4.0/30".parse().unwrap()), ..pool("10.87.0.0/16") };
    let requested = bed.cloud.request_pool(&spec).unwrap();
    assert_eq!(reported(&requested), "10.87.0.0/16");
    let gateway = bed.gateway(&requested.id, Some("10.87.4.2")).unwrap();
    let id = id();
    let subnets = vec![subnet("10.87.0.0/16", gateway.addr())];
    bed.cloud.create_network(&CloudNetwork { subnets, ..plan(&id) }).unwrap();
    let mut given: Vec<_> =
        (0..3).map(|_| bed.any(&requested.id, Some(mac())).unwrap().addr().to_string()).collect();
    given.sort();
    assert_eq!(given, ["10.87.4.0", "10.87.4.1", "10.87.4.3"]);
    let full = bed.any(&requested.id, Some(mac())).unwrap_err();
    assert_eq!(full.status(), Some(409), "{full}");
    for address in given {
        bed.release(&requested.id, &address);
    }
    bed.cloud.delete_network(&id, &none).unwrap();
    bed.cloud.release_pool(&requested.id, &none).unwrap();
    bed.is_clean();
    let outside = PoolSpec { part: Some("10.90.0.0/24".parse().unwrap()), ..pool("10.87.0.0/16") };
    assert_eq!(bed.cloud.request_pool(&outside).unwrap_err().kind(), Kind::Invalid);
}
