//! RequestAddress and ReleaseAddress.

use engine::port::{Cloud, CloudNetwork};
use model::Kind;

use crate::bed::{Bed, id, mac, none, plan, subnet};

#[test]
fn an_address_is_one_post_and_its_release_one_delete() {
    let bed = Bed::new();
    let made = bed.network("10.100.0.0/24");
    let mac = mac();
    let (address, calls) = bed.calls(|| bed.any(&made.pool, Some(mac)).unwrap());
    assert_eq!(calls, ["POST ports"]);
    assert_eq!(address.prefix_len(), 24);
    let port = &bed.ports()[0];
    assert_eq!(port["name"], "kuryr-unbound-port");
    assert_eq!(port["device_owner"], "compute:kuryr");
    assert_eq!(port["binding:host_id"], bed.host);
    assert_eq!(port["mac_address"], mac.to_string());
    let text = address.addr().to_string();
    let ((), calls) = bed.calls(|| bed.release(&made.pool, &text));
    assert_eq!(calls, ["DELETE ports"]);
    bed.release(&made.pool, &text);
    let ((), calls) = bed.calls(|| bed.release(&made.pool, &made.gateway.to_string()));
    assert!(calls.is_empty(), "no port is the gateway's: {calls:?}");
    bed.remove(&made);
    bed.is_clean();
}

#[test]
fn another_life_releases_what_an_earlier_one_handed_out() {
    let mut bed = Bed::new();
    let made = bed.network("10.101.0.0/24");
    let address = bed.any(&made.pool, Some(mac())).unwrap().addr().to_string();
    bed.restart();
    let second = bed.any(&made.pool, Some(mac())).unwrap().addr().to_string();
    bed.restart();
    for address in [address, second] {
        bed.release(&made.pool, &address);
    }
    bed.remove(&made);
    bed.is_clean();
}

#[test]
fn the_first_address_is_the_gateway_where_none_is_named() {
    let bed = Bed::new();
    for (net, first) in [("10.102.0.0/24", "10.102.0.1/24"), ("fd00:102::/64", "fd00:102::1/64")] {
        let pool = bed.pool(net);
        assert_eq!(bed.gateway(&pool, None).unwrap().to_string(), first);
        bed.cloud.release_pool(&pool, &none).unwrap();
        let pool = bed.pool(net);
        let bad = bed.gateway(&pool, Some("192.0.2.1")).unwrap_err();
        assert_eq!(bad.kind(), Kind::Invalid);
        bed.cloud.release_pool(&pool, &none).unwrap();
    }
    bed.is_clean();
}

#[test]
fn the_gateway_of_a_subnet_that_is_there_is_its_own() {
    let bed = Bed::new();
    let made = bed.network("10.103.0.0/24");
    let is = |address| bed.gateway(&made.pool, address).map(|given| given.to_string());
    assert_eq!(is(None).unwrap(), "10.103.0.1/24");
    assert_eq!(is(Some("10.103.0.1")).unwrap(), "10.103.0.1/24");
    assert_eq!(is(Some("10.103.0.9")).unwrap_err().kind(), Kind::Conflict);
    bed.remove(&made);
    bed.is_clean();
}

#[test]
fn auxiliary_addresses_are_kept_back() {
    let bed = Bed::new();
    let pool = bed.pool("10.104.0.0/29");
    bed.gateway(&pool, None).unwrap();
    for address in ["10.104.0.2", "10.104.0.4"] {
        assert_eq!(bed.exactly(&pool, address, None).unwrap().prefix_len(), 29);
    }
    let id = id();
    let mut part = subnet("10.104.0.0/29", "10.104.0.1".parse().unwrap());
    part.auxiliary = vec!["10.104.0.2".parse().unwrap(), "10.104.0.4".parse().unwrap()];
    bed.cloud.create_network(&CloudNetwork { subnets: vec![part], ..plan(&id) }).unwrap();
    let mut given: Vec<_> =
        (0..3).map(|_| bed.any(&pool, Some(mac())).unwrap().addr().to_string()).collect();
    given.sort();
    assert_eq!(given, ["10.104.0.3", "10.104.0.5", "10.104.0.6"]);
    let refused = bed.exactly(&pool, "10.104.0.2", Some(mac())).unwrap_err();
    assert_eq!(refused.kind(), Kind::Conflict, "{refused}");
    assert!(refused.to_string().contains("kept back"), "{refused}");
    for address in given.iter().map(String::as_str).chain(["10.104.0.2", "10.104.0.4"]) {
        bed.release(&pool, address);
    }
    assert!(bed.ports().is_empty());
    bed.cloud.release_pool(&pool, &none).unwrap();
    bed.cloud.delete_network(&id, &none).unwrap();
    bed.is_clean();
}

#[test]
fn both_families_have_one_port() {
    let bed = Bed::new();
    let pools = ["10.105.0.0/24", "fd00:105::/64"].map(|net| (net, bed.pool(net)));
    let subnets =
        pools.each_ref().map(|(net, pool)| subnet(net, bed.gateway(pool, None).unwrap().addr()));
    let id = id();
    bed.cloud.create_network(&CloudNetwork { subnets: subnets.to_vec(), ..plan(&id) }).unwrap();
    for mac in [Some(mac()), None] {
        let four = bed.any(&pools[0].1, mac).unwrap();
        let six = bed.any(&pools[1].1, mac).unwrap();
        let ports = bed.ports();
        assert_eq!(ports.len(), 1, "{ports:#?}");
        let has = ports[0]["fixed_ips"].to_string();
        for address in [four, six] {
            assert!(has.contains(&address.addr().to_string()), "{has}");
        }
        bed.release(&pools[0].1, &four.addr().to_string());
        bed.release(&pools[1].1, &six.addr().to_string());
        assert!(bed.ports().is_empty());
    }
    for (_, pool) in &pools {
        bed.cloud.release_pool(pool, &none).unwrap();
    }
    bed.cloud.delete_network(&id, &none).unwrap();
    bed.is_clean();
}

#[test]
fn addresses_of_no_network_are_refused() {
    let bed = Bed::new();
    let pool = bed.pool("10.106.0.0/24");
    let early = bed.any(&pool, Some(mac())).unwrap_err();
    assert_eq!(early.kind(), Kind::NotFound, "{early}");
    bed.cloud.release_pool(&pool, &none).unwrap();
    assert_eq!(bed.any(&pool, None).unwrap_err().kind(), Kind::NotFound);
    bed.release(&pool, "10.106.0.5");
    bed.is_clean();
}

#[test]
fn many_get_addresses_at_once() {
    let bed = Bed::new();
    let made = bed.network("10.107.0.0/24");
    let mut given: Vec<_> = std::thread::scope(|scope| {
        let one = || bed.any(&made.pool, Some(mac())).unwrap().addr();
        let many: Vec<_> = (0..16).map(|_| scope.spawn(one)).collect();
        many.into_iter().map(|one| one.join().unwrap()).collect()
    });
    given.sort();
    given.dedup();
    assert_eq!(given.len(), 16);
    for address in given {
        bed.release(&made.pool, &address.to_string());
    }
    bed.remove(&made);
    bed.is_clean();
}
