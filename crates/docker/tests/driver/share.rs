//! Networks that others have too, and networks whose addresses others hand out.

use std::sync::Arc;

use docker::server::Plugin;
use engine::Request;
use model::*;
use serde_json::{Value, json};

use crate::life::{
    ENDPOINT, NETWORK, SANDBOX, address, at, create, endpoint, gateway, join, open, pool,
    without_interface,
};
use crate::rig::World;

const OTHER: &str = "1c40fe623fee087ade5c44f64d48fc112089f9005652aaae89f5429fcc12c43a";

/// A network as the command line makes it.
fn front(world: &World, egress: EgressPolicy) {
    let name: NetworkName = "front".parse().unwrap();
    let subnet: IpNet = "10.9.0.0/24".parse().unwrap();
    let range = Range::of_hosts(subnet, None, "10.9.0.1".parse().ok()).unwrap();
    let bridge = Bridge {
        name: "sp-front".parse().unwrap(),
        gateway: Gateway::Default,
        host_absent: model::Absence::default(),
        force_address: false,
        hairpin: true,
        promiscuous: false,
        port: model::BridgePort::default(),
    };
    let network = Network {
        routes: vec![Route::new("10.99.0.0/16".parse().unwrap(), None)],
        ..Network::new(
            name.clone(),
            Runtime::Spoke,
            Timestamp(1),
            Wiring {
                link: Some(Link {
                    kind: LinkKind::Bridge(bridge),
                    name: None,
                    mac: None,
                    mtu: Mtu::new(1400),
                }),
                firewall: Some(Firewall { egress, ..Firewall::open(Backend::Nftables) }),
                ..Wiring::default()
            },
            Ipam::Book {
                pools: vec![Pool {
                    id: PoolId { network: name, index: 0 },
                    space: Space::Host,
                    ranges: vec![range],
                    order: Order::NextAfterLast,
                }],
            },
        )
    };
    world.engine().networks.create(&network).unwrap();
}

fn share(world: &Arc<World>) -> Value {
    pool(world, "", &json!({"network": "front"}))
}

#[test]
fn a_network_of_the_command_line_is_joined_by_name() {
    let world = Arc::new(World::default());
    front(&world, EgressPolicy::Open);
    let shared = share(&world);
    assert_eq!(shared["Pool"], "10.9.0.0/24");
    assert_eq!(shared["Data"], json!({"com.docker.network.gateway": "10.9.0.1/24"}));
    let call = create(&[(&shared, Some("10.9.0.1/24".into()))], &json!({}), false);
    world.twice("NetworkDriver.CreateNetwork", &call);
    let address = address(&world, &shared, "");
    assert!(address.ends_with("/24") && address != "10.9.0.1/24", "{address}");
    world.twice("NetworkDriver.CreateEndpoint", &endpoint(&address, "", &json!({})));
    let joined = world.twice("NetworkDriver.Join", &join());
    assert_eq!(joined["Gateway"], "10.9.0.1");
    let route = json!({"Destination": "10.99.0.0/16", "RouteType": 0, "NextHop": "10.9.0.1"});
    assert_eq!(joined["StaticRoutes"], json!([route]));
    let record = world.engine().records.attachments().unwrap().remove(0);
    assert_eq!(record.id.network.as_str(), "front");
    world.twice("NetworkDriver.Leave", &at());
    world.twice("NetworkDriver.DeleteEndpoint", &at());
    for given in [address.split('/').next().unwrap(), "10.9.0.1"] {
        let call = json!({"PoolID": shared["PoolID"], "Address": given});
        world.twice("IpamDriver.ReleaseAddress", &call);
    }
    world.call("IpamDriver.ReleasePool", &json!({"PoolID": shared["PoolID"]})).unwrap();
    world.twice("NetworkDriver.DeleteNetwork", &json!({"NetworkID": NETWORK}));
    let left = world.left();
    assert_eq!(left.iter().filter(|left| !left.contains("bridge")).count(), 1, "{left:?}");
    assert_eq!(left[0], "network front");
}

/// An address in none of this host's blocks is another host's to give: the cluster is asked.
#[test]
fn a_call_that_asks_other_hosts_is_known_before() {
    let world = Arc::new(World::default());
    front(&world, EgressPolicy::Open);
    let mut network = world.engine().records.network(&"front".parse().unwrap()).unwrap();
    let Ipam::Book { pools } = &mut network.ipam else { panic!("{network:?}") };
    pools[0].ranges[0].last = "10.9.0.127".parse().unwrap();
    world.engine().networks.remove(&network.name, false).unwrap();
    world.engine().networks.create(&network).unwrap();
    let shared = share(&world);
    let asks = |address: &str, kind: Option<&str>| {
        let options = kind.map(|kind| json!({"RequestAddressType": kind}));
        let options = options.unwrap_or_else(|| json!({"com.docker.network.endpoint.name": "c"}));
        let body = json!({"PoolID": shared["PoolID"], "Address": address, "Options": options});
        let body = body.to_string();
        let method = libnetwork::Method::RequestAddress;
        let Ok(libnetwork::Request::Do(call)) = libnetwork::decode(method, body.as_bytes()) else {
            panic!("{body}")
        };
        world.plugin().asks_others(&call)
    };
    assert!(!asks("10.9.0.200", None), "the network is this host's alone");
    world.many.lock().unwrap().insert(network.name.clone());
    assert!(asks("10.9.0.200", None));
    assert!(!asks("10.9.0.100", None), "it is in this host's block");
    assert!(!asks("", None), "any is of this host's block");
    assert!(!asks("10.9.0.200", Some("com.docker.network.gateway")));
}

/// Docker 29 says names, and has no limit for them.
#[test]
fn a_long_name_is_refused_only_where_an_address_is_kept_for_it() {
    let world = Arc::new(World::default());
    let name = "n".repeat(201);
    let ask = |pool: &Value| {
        let options = json!({"com.docker.network.endpoint.name": name});
        let call = json!({"PoolID": pool["PoolID"], "Address": "", "Options": options});
        world.call("IpamDriver.RequestAddress", &call)
    };
    ask(&pool(&world, "10.9.1.0/24", &json!({}))).unwrap();
    let refused = ask(&pool(&world, "10.9.2.0/24", &json!({"sticky": "name"}))).unwrap_err();
    assert!(refused.to_string().contains("longer than 200 bytes"), "{refused}");
    assert_eq!(refused.kind(), Kind::Invalid);
}

#[test]
fn what_contradicts_the_network_is_refused() {
    let world = Arc::new(World::default());
    front(&world, EgressPolicy::Open);
    let shared = share(&world);
    let create = |generic: Value, internal| {
        let call = create(&[(&shared, Some("10.9.0.1/24".into()))], &generic, internal);
        world.call("NetworkDriver.CreateNetwork", &call)
    };
    for (generic, internal, words) in [
        (json!({"mtu": "1500"}), false, ["-o mtu", "MTU 1400"]),
        (json!({"bridge": "br7"}), false, ["-o bridge", "bridge sp-front"]),
        (json!({"isolation": "container"}), false, ["-o isolation", "front"]),
        (json!({"masquerade": "true"}), false, ["-o masquerade", "no masquerading"]),
        (json!({"hairpin": "false"}), false, ["-o hairpin", "hairpin true"]),
        (json!({"publish": "lan"}), false, ["-o publish", "any"]),
        (json!({"gateway": "address"}), false, ["-o gateway", "front"]),
        (json!({}), true, ["front", "not internal"]),
        (json!({"network": "back"}), false, ["network=back", "front"]),
    ] {
        let error = create(generic.clone(), internal).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{generic}: {error}");
    }
    assert_eq!(world.engine().records.aliases().unwrap(), []);
    create(json!({"mtu": "1400", "network": "front", "ports": "docker"}), false).unwrap();
}

#[test]
fn an_internal_network_is_joined_as_one() {
    let world = Arc::new(World::default());
    front(&world, EgressPolicy::Internal);
    let shared = share(&world);
    let pools = [(&shared, Some("10.9.0.1/24".to_owned()))];
    let error =
        world.call("NetworkDriver.CreateNetwork", &create(&pools, &json!({}), false)).unwrap_err();
    assert!(error.to_string().contains("add --internal"), "{error}");
    world.twice("NetworkDriver.CreateNetwork", &create(&pools, &json!({}), true));
}

/// Nothing leaves it, so that nothing leaves it masqueraded: as true when it is joined.
#[test]
fn an_internal_network_that_asks_for_masquerading_is_the_same_when_repeated() {
    let world = Arc::new(World::default());
    let subnet = pool(&world, "10.1.0.0/16", &json!({}));
    let gateway = gateway(&world, &subnet);
    let asks = json!({"masquerade": "true"});
    world.twice("NetworkDriver.CreateNetwork", &create(&[(&subnet, Some(gateway))], &asks, true));
}

#[test]
fn a_network_is_made_under_the_name_that_is_given() {
    for (ipam, generic) in [
        (json!({"network": "back"}), json!({})),
        (json!({}), json!({"network": "back"})),
        (json!({"network": "back"}), json!({"network": "back"})),
    ] {
        let world = Arc::new(World::default());
        let subnet = pool(&world, "10.1.0.0/16", &ipam);
        let gateway = gateway(&world, &subnet);
        let call = create(&[(&subnet, Some(gateway))], &generic, false);
        world.twice("NetworkDriver.CreateNetwork", &call);
        let network = world.engine().records.networks().unwrap().remove(0);
        assert_eq!(network.name.as_str(), "back");
        assert_eq!(world.engine().records.subnets().unwrap()[0].network.as_str(), "back");
    }
}

#[test]
fn several_subnets_are_one_network_and_overflow() {
    let world = Arc::new(World::default());
    let pools: Vec<Value> = ["10.1.0.0/30", "10.2.0.0/24", "fd01::/64"]
        .into_iter()
        .map(|subnet| pool(&world, subnet, &json!({})))
        .collect();
    let with_gateways: Vec<(&Value, Option<String>)> =
        pools.iter().map(|pool| (pool, Some(gateway(&world, pool)))).collect();
    world.twice("NetworkDriver.CreateNetwork", &create(&with_gateways, &json!({}), false));
    let network = world.engine().records.networks().unwrap().remove(0);
    let ranges: Vec<usize> = network.ipam.pools().iter().map(|pool| pool.ranges.len()).collect();
    assert_eq!(ranges, [2, 1]);
    assert_eq!(address(&world, &pools[0], ""), "10.1.0.2/30");
    let overflow = address(&world, &pools[0], "");
    assert_eq!(overflow, "10.2.0.2/24");
    let v6 = address(&world, &pools[2], "");
    world.twice("NetworkDriver.CreateEndpoint", &endpoint(&overflow, &v6, &json!({})));
    let joined = world.twice("NetworkDriver.Join", &join());
    assert_eq!(
        (&joined["Gateway"], &joined["GatewayIPv6"]),
        (&json!("10.2.0.1"), &json!("fd01::1"))
    );
}

#[test]
fn a_bridge_belongs_to_one_network() {
    let world = Arc::new(World::default());
    front(&world, EgressPolicy::Open);
    let subnet = pool(&world, "10.1.0.0/16", &json!({}));
    let call = create(&[(&subnet, None)], &json!({"bridge": "sp-front"}), false);
    let error = world.call("NetworkDriver.CreateNetwork", &call).unwrap_err();
    assert!(error.to_string().contains("network=front"), "{error}");
}

/// CreateNetwork with Docker's own IPAM.
fn with_docker_s_ipam(id: &str, generic: &Value) -> Value {
    json!({"NetworkID": id, "IPv6Data": [], "IPv4Data": [{"AddressSpace": "LocalDefault",
        "Pool": "172.18.0.0/16", "Gateway": "172.18.0.1/16"}],
        "Options": {"com.docker.network.enable_ipv4": true, "com.docker.network.generic": generic}})
}

#[test]
fn docker_s_own_addresses_are_in_the_book_too() {
    let world = Arc::new(World::default());
    let call = with_docker_s_ipam(NETWORK, &json!({}));
    world.twice("NetworkDriver.CreateNetwork", &call);
    world.twice("NetworkDriver.CreateEndpoint", &endpoint("172.18.0.2/16", "", &json!({})));
    let holder = world.engine().records.holders().unwrap().remove(0);
    assert!(matches!(holder.tenant, Tenant::Attachment { .. }));
    let joined = without_interface(world.twice("NetworkDriver.Join", &join()));
    assert_eq!(joined, json!({"Gateway": "172.18.0.1"}));
    let other = json!({"NetworkID": NETWORK, "EndpointID": OTHER, "Options": {},
        "Interface": {"Address": "172.18.0.2/16"}});
    let error = world.call("NetworkDriver.CreateEndpoint", &other).unwrap_err();
    assert!(error.kind() == Kind::Conflict && error.to_string().contains(ENDPOINT), "{error}");
    world.twice("NetworkDriver.Leave", &at());
    world.twice("NetworkDriver.DeleteEndpoint", &at());
    world.twice("NetworkDriver.DeleteNetwork", &json!({"NetworkID": NETWORK}));
    assert_eq!(world.left(), Vec::<String>::new());
}

/// No engine requests them from us, and a container that joins by CNI must not get them.
#[test]
fn auxiliary_addresses_of_docker_s_own_subnets_are_kept_from_others() {
    let world = Arc::new(World::default());
    let mut call = with_docker_s_ipam(NETWORK, &json!({}));
    call["IPv4Data"][0]["AuxAddresses"] = json!({"printer": "172.18.128.0/16"});
    world.twice("NetworkDriver.CreateNetwork", &call);
    let engine = world.engine();
    let network = engine.records.networks().unwrap().remove(0);
    let pod = Request {
        layer: Layer::Address,
        wiring: Wiring::default(),
        ..doubles::request(&network, "pod-of-cni")
    };
    let joined = engine.attachments.attach(&pod).unwrap();
    assert_eq!(joined.leases[0].address.to_string(), "172.18.128.1/16");
    let mut other = with_docker_s_ipam(OTHER, &json!({"network": network.name.as_str()}));
    other["IPv4Data"][0]["AuxAddresses"] = json!({"router": "172.18.128.1/16"});
    let error = world.call("NetworkDriver.CreateNetwork", &other).unwrap_err();
    assert!(error.kind() == Kind::Conflict && error.to_string().contains("pod-of-cni"), "{error}");
    assert_eq!(engine.records.aliases().unwrap().len(), 1);
    engine.links.detach(&pod).unwrap();
    world.twice("NetworkDriver.DeleteNetwork", &json!({"NetworkID": NETWORK}));
    assert_eq!(engine.records.reservations().unwrap(), []);
    assert_eq!(world.left(), Vec::<String>::new());
}

#[test]
fn docker_s_own_subnet_is_shared_only_on_purpose() {
    let world = Arc::new(World::default());
    world.twice("NetworkDriver.CreateNetwork", &with_docker_s_ipam(NETWORK, &json!({})));
    let call = with_docker_s_ipam(OTHER, &json!({}));
    let error = world.call("NetworkDriver.CreateNetwork", &call).unwrap_err().to_string();
    assert!(error.contains("172.18.0.0/16") && error.contains("-o network="), "{error}");
    let call = with_docker_s_ipam(OTHER, &json!({"network": "docker-172.18.0.0-16"}));
    world.twice("NetworkDriver.CreateNetwork", &call);
    assert_eq!(world.engine().records.networks().unwrap().len(), 1);
}

#[test]
fn a_network_without_ipam_has_no_addresses() {
    let world = Arc::new(World::default());
    let call = json!({"NetworkID": NETWORK, "IPv6Data": [],
        "IPv4Data": [{"AddressSpace": "null", "Pool": "0.0.0.0/0"}],
        "Options": {"com.docker.network.enable_ipv4": true, "com.docker.network.generic": {}}});
    world.twice("NetworkDriver.CreateNetwork", &call);
    let network = world.engine().records.networks().unwrap().remove(0);
    assert_eq!(network.name.as_str(), "docker-7928035c1758");
    assert_eq!(network.ipam, Ipam::None);
    world.twice("NetworkDriver.CreateEndpoint", &endpoint("", "", &json!({})));
    let joined = without_interface(world.twice("NetworkDriver.Join", &join()));
    assert_eq!(joined, json!({"DisableGatewayService": true}));
    world.twice("NetworkDriver.DeleteEndpoint", &at());
    world.twice("NetworkDriver.DeleteNetwork", &json!({"NetworkID": NETWORK}));
    assert_eq!(world.left(), Vec::<String>::new());
}

#[test]
fn an_address_that_is_released_first_is_given_up() {
    let world = Arc::new(World::default());
    let subnet = pool(&world, "10.1.0.0/16", &json!({}));
    let gateway = gateway(&world, &subnet);
    world.twice(
        "NetworkDriver.CreateNetwork",
        &create(&[(&subnet, Some(gateway))], &json!({}), false),
    );
    let given = address(&world, &subnet, "");
    world.twice("NetworkDriver.CreateEndpoint", &endpoint(&given, "", &json!({})));
    // The engine forgets a failed CreateEndpoint, and says no more than this.
    let release = json!({"PoolID": subnet["PoolID"], "Address": "10.1.0.2"});
    world.twice("IpamDriver.ReleaseAddress", &release);
    assert_eq!(world.engine().records.attachments().unwrap(), []);
    assert_eq!(address(&world, &subnet, ""), given);
}

#[test]
fn a_deleted_endpoint_keeps_its_address_until_that_is_released() {
    let world = Arc::new(World::default());
    let subnet = pool(&world, "10.1.0.0/16", &json!({}));
    let gateway = gateway(&world, &subnet);
    world.twice(
        "NetworkDriver.CreateNetwork",
        &create(&[(&subnet, Some(gateway))], &json!({}), false),
    );
    let given = address(&world, &subnet, "");
    world.twice("NetworkDriver.CreateEndpoint", &endpoint(&given, "", &json!({})));
    world.twice("NetworkDriver.DeleteEndpoint", &at());
    assert_ne!(address(&world, &subnet, ""), given);
}

#[test]
fn pools_are_asked_for_in_many_ways() {
    let world = Arc::new(World::default());
    for (asked, length) in [("", "/24"), ("0.0.0.0/26", "/26"), ("::/64", "/64")] {
        let given = pool(&world, asked, &json!({}));
        let (net, key) = (given["Pool"].as_str().unwrap(), given["PoolID"].as_str().unwrap());
        assert!(net.ends_with(length) && key == format!("local/{net}"), "{given}");
    }
    let call = json!({"AddressSpace": "LocalDefault", "Pool": "10.1.0.0/16"});
    let error = world.call("IpamDriver.RequestPool", &call).unwrap_err().to_string();
    assert!(error.contains("spoke-local") && error.contains("spoke-global"), "{error}");
    let call = json!({"AddressSpace": "spoke-local", "Pool": "10.1.0.0/16",
        "SubPool": "10.1.4.0/24"});
    let given = world.call("IpamDriver.RequestPool", &call).unwrap();
    assert_eq!(given["PoolID"], "local/10.1.0.0/16/10.1.4.0/24");
    assert_eq!(address(&world, &given, ""), "10.1.4.0/16");
}

#[test]
fn auxiliary_addresses_are_kept_for_good() {
    let world = Arc::new(World::default());
    let subnet = pool(&world, "10.1.0.0/16", &json!({}));
    let gateway = gateway(&world, &subnet);
    let aux = json!({"PoolID": subnet["PoolID"], "Address": "10.1.0.2", "Options": null});
    world.call("IpamDriver.RequestAddress", &aux).unwrap();
    world.twice(
        "NetworkDriver.CreateNetwork",
        &create(&[(&subnet, Some(gateway))], &json!({}), false),
    );
    world.store.reboot();
    assert_eq!(address(&world, &subnet, ""), "10.1.0.3/16");
    // Once there is a network, what comes without options is a container's.
    let call = json!({"PoolID": subnet["PoolID"], "Address": "10.1.0.9", "Options": null});
    world.call("IpamDriver.RequestAddress", &call).unwrap();
    assert_eq!(world.engine().records.holders().unwrap().len(), 2);
}

#[test]
fn names_of_containers_keep_addresses() {
    let world = Arc::new(World::default());
    let subnet = pool(&world, "10.1.0.0/16", &json!({"sticky": "name"}));
    let gateway = gateway(&world, &subnet);
    world.twice(
        "NetworkDriver.CreateNetwork",
        &create(&[(&subnet, Some(gateway))], &json!({}), false),
    );
    let named = |name: &str| {
        let body = json!({"PoolID": subnet["PoolID"], "Address": "",
            "Options": {"com.docker.network.endpoint.name": name}});
        let answer = world.call("IpamDriver.RequestAddress", &body).unwrap();
        answer["Address"].as_str().unwrap().split('/').next().unwrap().to_owned()
    };
    let release = |address: &str| {
        let body = json!({"PoolID": subnet["PoolID"], "Address": address});
        world.twice("IpamDriver.ReleaseAddress", &body);
    };
    let (web, db) = (named("web"), named("db"));
    release(&web);
    release(&db);
    assert_eq!((named("db"), named("web")), (db, web));
}

#[test]
fn a_sandbox_has_each_name_once() {
    let world = Arc::new(World::default());
    let subnet = pool(&world, "10.1.0.0/16", &json!({}));
    let gateway = gateway(&world, &subnet);
    world.twice(
        "NetworkDriver.CreateNetwork",
        &create(&[(&subnet, Some(gateway))], &json!({"interfaces": "spoke"}), false),
    );
    open(&world, &["lo"]);
    for (endpoint, expected) in [(ENDPOINT, "eth0"), (OTHER, "eth1")] {
        let address = address(&world, &subnet, "");
        let at = json!({"NetworkID": NETWORK, "EndpointID": endpoint});
        let mut create = at.clone();
        create["Interface"] = json!({"Address": address});
        world.twice("NetworkDriver.CreateEndpoint", &create);
        let mut join = at.clone();
        join["SandboxKey"] = SANDBOX.into();
        world.twice("NetworkDriver.Join", &join);
        let info = world.call("NetworkDriver.EndpointOperInfo", &at).unwrap();
        assert_eq!(info["Value"]["interface"], expected);
    }
}

/// Without a hardware address nothing tells an auxiliary address from `--ip` until CreateNetwork.
#[test]
fn auxiliary_addresses_of_a_shared_network_outlive_a_reboot_as_others_do() {
    let world = Arc::new(World::default());
    front(&world, EgressPolicy::Open);
    let made = |id: &str, shared: &Value, aux: Value| {
        let pools = [(shared, Some("10.9.0.1/24".to_owned()))];
        let mut call = create(&pools, &json!({}), false);
        call["NetworkID"] = id.into();
        call["IPv4Data"][0]["AuxAddresses"] = aux;
        world.twice("NetworkDriver.CreateNetwork", &call);
    };
    made(NETWORK, &share(&world), json!({}));
    let shared = share(&world);
    let request = json!({"PoolID": shared["PoolID"], "Address": "10.9.0.9", "Options": null});
    world.call("IpamDriver.RequestAddress", &request).unwrap();
    made(OTHER, &shared, json!({"printer": "10.9.0.9/24"}));
    let kept = |world: &World| -> Vec<String> {
        let kept = world.engine().records.reservations().unwrap();
        kept.iter().map(|kept| kept.address.to_string()).collect()
    };
    assert_eq!(kept(&world), ["10.9.0.9"]);
    assert_eq!(world.engine().records.holders().unwrap(), []);
    let release = json!({"PoolID": shared["PoolID"], "Address": "10.9.0.9"});
    world.twice("IpamDriver.ReleaseAddress", &release);
    assert_eq!(kept(&world), [""; 0]);
}
