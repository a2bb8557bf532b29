//! The IPAM flow (moby `libnetwork/docs/ipam.md`; libnetwork.md §2.2, §3.2).

use std::collections::BTreeMap;

use libnetwork::{Answer, Call, PoolGiven, Skip};
use model::{Family, IpNet, Ipam, Kind, Network, RemotePool};

use crate::model::Fault;
use crate::rig::{Rig, bare, container, network, pool, said, wanting};

fn given(network: &Network) -> Vec<String> {
    let pools = &network.ipam.remote().unwrap().pools;
    pools.iter().map(|pool| pool.given.as_ref().unwrap().net.to_string()).collect()
}

fn created(rig: &Rig) -> libnetwork::CreateNetwork {
    let state = rig.plugin.state();
    let mut calls = state.calls.iter().rev();
    calls
        .find_map(|call| match call {
            Call::CreateNetwork(create) => Some(create.clone()),
            _ => None,
        })
        .unwrap()
}

#[test]
fn a_full_pool_overflows_into_the_next() {
    let rig = Rig::new();
    let mut network = network("n1", vec![pool("10.1.0.0/30"), pool("10.2.0.0/30")]);
    rig.make(&mut network).unwrap();
    let names = ["c1", "c2", "c3"];
    let mut all: Vec<_> = names.iter().map(|name| container(&network, name)).collect();
    let mut got = Vec::new();
    for one in &mut all[..2] {
        rig.attach(one).unwrap();
        got.push(one.addresses[0].address.to_string());
    }
    assert_eq!(got, ["10.1.0.2/30", "10.2.0.2/30"]);
    let full = rig.attach(&mut all[2]).unwrap_err();
    assert_eq!(full.kind(), Kind::Exhausted, "{full}");
    all.iter().for_each(|one| rig.detach(one));
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn a_wanted_address_is_of_the_pool_that_contains_it() {
    let rig = Rig::new();
    let mut network = network("n1", vec![pool("10.1.0.0/24"), pool("10.2.0.0/24")]);
    rig.make(&mut network).unwrap();
    rig.plugin.log();
    let mut one = wanting(container(&network, "c1"), "10.2.0.99");
    rig.attach(&mut one).unwrap();
    assert_eq!(rig.plugin.log()[0], "RequestAddress 10.2.0.99 Endpoint");
    let mut same = wanting(container(&network, "c2"), "10.2.0.99");
    assert_eq!(rig.attach(&mut same).unwrap_err().kind(), Kind::Conflict);
    // The refused call released nothing.
    assert!(rig.plugin.state().pools.values().any(|pool| pool.addresses.len() == 2));
    let mut none = wanting(container(&network, "c3"), "10.3.0.1");
    assert_eq!(rig.attach(&mut none).unwrap_err().kind(), Kind::Invalid);
    rig.detach(&one);
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn pools_that_overlap_with_the_host_are_held_until_a_good_one_is_found() {
    let rig = Rig::new();
    let mut network = network("n1", vec![RemotePool::any(Family::V4)]);
    let busy: Vec<IpNet> = vec!["10.9.0.0/23".parse().unwrap()];
    network.ipam = rig.remote.request(&network, &|| Ok(busy.clone())).unwrap();
    assert_eq!(given(&network), ["10.9.2.0/24"]);
    let expected = [
        "RequestPool v4",
        "RequestPool v4",
        "RequestPool v4",
        "ReleasePool 10.9.0.0/24",
        "ReleasePool 10.9.1.0/24",
        "RequestAddress Gateway",
    ];
    assert_eq!(rig.plugin.log(), expected);
    // The operator ends a pool that he named.
    let mut named = crate::rig::network("n2", vec![pool("10.9.0.0/24")]);
    named.ipam = rig.remote.request(&named, &|| panic!("asked")).unwrap();
    for network in [&network, &named] {
        rig.remote.remove_pools(network).unwrap();
    }
    rig.is_clean();
}

#[test]
fn a_driver_that_offers_nothing_else_is_refused() {
    let rig = Rig::new();
    let network = network("n1", vec![RemotePool::any(Family::V4)]);
    rig.plugin.answer(|call| match call {
        Call::RequestPool(_) => Some(Answer::Pool(PoolGiven {
            key: "local|10.9.0.0/24|10.9.0.0/24".parse().unwrap(),
            pool: "10.9.0.0/24".parse().unwrap(),
            data: BTreeMap::new(),
        })),
        _ => None,
    });
    let busy: Vec<IpNet> = vec!["10.0.0.0/8".parse().unwrap()];
    let refused = rig.remote.request(&network, &|| Ok(busy.clone())).unwrap_err();
    assert_eq!(refused.kind(), Kind::Conflict, "{refused}");
}

#[test]
fn a_driver_may_name_the_gateway() {
    for (text, gateway) in [("10.1.0.33/24", "10.1.0.33/24"), ("10.1.0.33", "10.1.0.33/24")] {
        let rig = Rig::new();
        let reported = text.to_owned();
        rig.plugin.answer(move |call| match call {
            Call::RequestPool(_) => Some(Answer::Pool(PoolGiven {
                key: "local|10.1.0.0/24|10.1.0.0/24".parse().unwrap(),
                pool: "10.1.0.0/24".parse().unwrap(),
                data: BTreeMap::from([("com.docker.network.gateway".into(), reported.clone())]),
            })),
            _ => None,
        });
        let mut reported = network("n1", vec![pool("10.1.0.0/24")]);
        rig.make(&mut reported).unwrap();
        assert_eq!(created(&rig).ipv4[0].gateway.unwrap().to_string(), gateway);
        rig.delete(&reported);
        // It is given back, though it was never asked for.
        let log = rig.plugin.log();
        let expected = [
            "RequestPool 10.1.0.0/24",
            "CreateNetwork",
            "ReleaseAddress 10.1.0.33",
            "ReleasePool 10.1.0.0/24",
            "DeleteNetwork",
        ];
        assert_eq!(log, expected);
        // The user's comes before it.
        let mut own = pool("10.1.0.0/24");
        own.gateway = Some("10.1.0.44".parse().unwrap());
        let mut network = network("n2", vec![own]);
        rig.make(&mut network).unwrap();
        assert!(rig.plugin.log().contains(&"RequestAddress 10.1.0.44 Gateway".to_owned()));
        rig.delete(&network);
        rig.is_clean();
    }
}

#[test]
fn a_driver_may_need_no_gateways() {
    let rig = Rig::new();
    {
        let mut state = rig.plugin.state();
        state.skip = Skip { ipv4: true, ipv6: false };
        state.profile.as_mut().unwrap().network.as_mut().unwrap().checks_gateways = true;
    }
    let mut network = network("n1", vec![pool("10.1.0.0/24"), pool("fd01::/64")]);
    rig.make(&mut network).unwrap();
    let expected = [
        "GwAllocCheck",
        "RequestPool 10.1.0.0/24",
        "RequestPool fd01::/64",
        "RequestAddress Gateway",
        "CreateNetwork",
    ];
    assert_eq!(rig.plugin.log(), expected);
    let created = created(&rig);
    assert!(created.ipv4[0].gateway.is_none() && created.ipv6[0].gateway.is_some());
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn nonsense_is_refused_before_anybody_is_asked() {
    let rig = Rig::new();
    let mut outside = pool("10.1.0.0/24");
    outside.auxiliary.insert("a".into(), "10.2.0.1".parse().unwrap());
    let mut part = RemotePool::any(Family::V4);
    part.part = Some("10.1.0.0/25".parse().unwrap());
    for bad in [outside, part] {
        let error = rig.make(&mut network("n1", vec![bad])).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
    }
    assert!(rig.plugin.log().is_empty());
    let downgraded = libnetwork::parameters::NetworkParameters {
        scope: Some(libnetwork::parameters::ScopeParameter::Local),
        ..said()
    };
    rig.plugin.state().profile.as_mut().unwrap().network.as_mut().unwrap().scope =
        libnetwork::Scope::Global;
    let error = rig.remote.create(&bare("n1", &downgraded, Ipam::None)).unwrap_err();
    assert!(error.to_string().contains("cannot downgrade network scope"), "{error}");
    rig.is_clean();
}

#[test]
fn hardware_addresses_come_before_addresses_where_they_are_required() {
    let rig = Rig::new();
    rig.plugin.state().profile.as_mut().unwrap().ipam.as_mut().unwrap().requires_mac = true;
    let mut network = network("n1", vec![pool("10.1.0.0/24")]);
    rig.make(&mut network).unwrap();
    let mut one = container(&network, "c1");
    rig.attach(&mut one).unwrap();
    let mac = one.wiring.link.as_ref().unwrap().mac.unwrap();
    let state = rig.plugin.state();
    let asked = state.calls.iter().rev().find_map(|call| match call {
        Call::RequestAddress(request) => Some(request.mac),
        _ => None,
    });
    assert_eq!(asked.unwrap(), Some(mac));
    let created = state.calls.iter().find_map(|call| match call {
        Call::CreateEndpoint(create) => Some((create.interface.mac, create.options.mac)),
        _ => None,
    });
    // It is no choice of the user's.
    assert_eq!(created.unwrap(), (Some(mac), None));
    drop(state);
    rig.detach(&one);
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn without_a_source_of_addresses_the_driver_chooses() {
    let rig = Rig::new();
    let network = bare("n1", &said(), Ipam::None);
    rig.remote.create(&network).unwrap();
    let created = created(&rig);
    assert_eq!(created.ipv4[0].pool.to_string(), "0.0.0.0/0");
    assert_eq!(created.ipv4[0].space.as_ref().unwrap().as_str(), "null");
    assert!(created.ipv4[0].gateway.is_none() && created.ipv6.is_empty());
    rig.plugin.answer(|call| match call {
        Call::CreateEndpoint(_) => Some(Answer::Endpoint {
            interface: libnetwork::EndpointGiven {
                ipv4: "10.7.0.5/16".parse().ok(),
                ipv6: "fd07::5/64".parse().ok(),
                mac: "02:00:00:00:00:05".parse().ok(),
            },
        }),
        _ => None,
    });
    let mut one = container(&network, "c1");
    rig.attach(&mut one).unwrap();
    let addresses: Vec<String> = one.addresses.iter().map(|a| a.address.to_string()).collect();
    assert_eq!(addresses, ["10.7.0.5/16", "fd07::5/64"]);
    assert!(rig.remote.hardware_address(&one).is_some());
    rig.detach(&one);
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn a_driver_that_forgets_is_asked_again() {
    let rig = Rig::new();
    rig.plugin.state().profile.as_mut().unwrap().ipam.as_mut().unwrap().requires_replay = true;
    let mut network = network("n1", vec![pool("10.1.0.0/24")]);
    rig.make(&mut network).unwrap();
    let mut one = container(&network, "c1");
    rig.attach(&mut one).unwrap();
    rig.plugin.log();
    // It is started anew and knows nothing.
    {
        let mut state = rig.plugin.state();
        state.life += 1;
        state.pools.clear();
    }
    let mut two = container(&network, "c2");
    rig.attach(&mut two).unwrap();
    let replayed = &rig.plugin.log()[..4];
    assert_eq!(replayed[0], "RequestPool 10.1.0.0/24");
    assert!(replayed[1..3].contains(&"RequestAddress 10.1.0.1 Auxiliary".to_owned()));
    assert!(replayed[1..3].contains(&"RequestAddress 10.1.0.2 Auxiliary".to_owned()));
    assert_eq!(replayed[3], "RequestAddress Endpoint");
    assert_eq!(two.addresses[0].address.to_string(), "10.1.0.3/24");
    // One that remembers says that all of it is taken, and loses nothing for it.
    rig.plugin.state().life += 1;
    rig.plugin.log();
    rig.plugin.fail(|n, _| (n < 3).then_some(Fault::Refused));
    let mut three = container(&network, "c3");
    rig.attach(&mut three).unwrap();
    assert!(rig.plugin.log().iter().all(|call| !call.starts_with("Release")));
    rig.plugin.work();
    [&one, &two, &three].into_iter().for_each(|one| rig.detach(one));
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn a_pool_with_another_name_after_a_restart_stops_its_own_network_alone() {
    let rig = Rig::new();
    rig.plugin.state().profile.as_mut().unwrap().ipam.as_mut().unwrap().requires_replay = true;
    let [mut n1, mut n2] = [("n1", "10.1.0.0/24"), ("n2", "10.2.0.0/24")]
        .map(|(name, net)| network(name, vec![pool(net)]));
    rig.make(&mut n1).unwrap();
    rig.make(&mut n2).unwrap();
    let mut held = [container(&n1, "c1"), container(&n2, "c2")];
    held.iter_mut().for_each(|one| drop(rig.attach(one).unwrap()));
    {
        let mut state = rig.plugin.state();
        state.life += 1;
        state.pools.clear();
        state.prefixes.insert("10.1.0.0/24".parse().unwrap(), "other-");
    }
    rig.plugin.log();
    let mut three = container(&n2, "c3");
    rig.attach(&mut three).unwrap();
    assert_eq!(three.addresses[0].address.to_string(), "10.2.0.3/24");
    assert_eq!(rig.plugin.state().pools.len(), 1, "the other pool is given back");
    let requests = |rig: &Rig| {
        rig.plugin.log().into_iter().filter(|call| call.starts_with("RequestPool")).count()
    };
    assert_eq!(requests(&rig), 2);
    for _ in 0..2 {
        let refused = rig.try_attach(&mut container(&n1, "c4")).unwrap_err();
        assert!(
            refused.kind() == Kind::Conflict && refused.to_string().contains("n1"),
            "{refused}"
        );
    }
    assert_eq!(requests(&rig), 0, "once for each life");
    held.iter().chain([&three]).for_each(|one| rig.detach(one));
    rig.delete(&n1);
    rig.delete(&n2);
    rig.is_clean();
}

/// Each of the drivers is asked for what it has itself.
#[test]
fn what_a_driver_forgot_stays_so_when_another_is_asked_again() {
    let rig = Rig::new();
    rig.plugin.state().profile.as_mut().unwrap().ipam.as_mut().unwrap().requires_replay = true;
    let [mut n1, mut n2] = [("n1", "10.1.0.0/24"), ("n2", "10.2.0.0/24")]
        .map(|(name, net)| network(name, vec![pool(net)]));
    let Ipam::Remote(ipam) = &mut n2.ipam else { panic!() };
    ipam.driver = "plug-2".parse().unwrap();
    rig.make(&mut n1).unwrap();
    rig.make(&mut n2).unwrap();
    {
        let mut state = rig.plugin.state();
        state.life += 1;
        state.pools.clear();
        state.prefixes.insert("10.1.0.0/24".parse().unwrap(), "other-");
    }
    let refused = || rig.try_attach(&mut container(&n1, "c1")).unwrap_err();
    assert_eq!(refused().kind(), Kind::Conflict);
    let mut two = container(&n2, "c2");
    rig.attach(&mut two).unwrap();
    assert_eq!(refused().kind(), Kind::Conflict);
    rig.detach(&two);
    rig.delete(&n1);
    rig.delete(&n2);
    rig.is_clean();
}

#[test]
fn another_address_than_the_one_that_is_replayed_is_given_back() {
    let rig = Rig::new();
    rig.plugin.state().profile.as_mut().unwrap().ipam.as_mut().unwrap().requires_replay = true;
    let mut network = network("n1", vec![pool("10.1.0.0/24")]);
    rig.make(&mut network).unwrap();
    let mut one = container(&network, "c1");
    rig.attach(&mut one).unwrap();
    {
        let mut state = rig.plugin.state();
        state.life += 1;
        state.pools.clear();
    }
    rig.plugin.log();
    rig.plugin.answer(|call| match call {
        Call::RequestAddress(request) if request.address == "10.1.0.2".parse().ok() => {
            let address = "10.1.0.77/24".parse().unwrap();
            Some(Answer::Address { address, data: BTreeMap::new() })
        }
        _ => None,
    });
    let mut two = container(&network, "c2");
    rig.attach(&mut two).unwrap();
    let log = rig.plugin.log();
    assert!(log.contains(&"ReleaseAddress 10.1.0.77".to_owned()), "{log:?}");
    [&one, &two].into_iter().for_each(|one| rig.detach(one));
    rig.delete(&network);
    rig.is_clean();
}
