//! One network and one container, call by call.

use std::sync::Arc;

use model::*;
use serde_json::{Value, json};

use crate::rig::World;

pub(crate) const NETWORK: &str = "7928035c1758c990b2c59feadbe165beaaa89095f637149339ceb47f0c09a95b";
pub(crate) const ENDPOINT: &str =
    "17d8c36b4c0080b140759eb538aec7c76f488e47c5e21828dc410e05b6e4d99f";
pub(crate) const SANDBOX: &str = "/var/run/docker/netns/3935f8987c66";

pub(crate) fn pool(world: &Arc<World>, pool: &str, options: &Value) -> Value {
    let v6 = pool.contains(':');
    let body = json!({"AddressSpace": "spoke-local", "Pool": pool, "SubPool": "",
        "Options": options, "V6": v6});
    world.call("IpamDriver.RequestPool", &body).unwrap()
}

pub(crate) fn gateway(world: &Arc<World>, pool: &Value) -> String {
    let body = json!({"PoolID": pool["PoolID"], "Address": "",
        "Options": {"RequestAddressType": "com.docker.network.gateway"}});
    world.call("IpamDriver.RequestAddress", &body).unwrap()["Address"].as_str().unwrap().to_owned()
}

pub(crate) fn address(world: &Arc<World>, pool: &Value, want: &str) -> String {
    let body = json!({"PoolID": pool["PoolID"], "Address": want, "Options": {}});
    world.call("IpamDriver.RequestAddress", &body).unwrap()["Address"].as_str().unwrap().to_owned()
}

/// CreateNetwork as 28 and later send it.
pub(crate) fn create(pools: &[(&Value, Option<String>)], generic: &Value, internal: bool) -> Value {
    let data = |v6: bool| -> Vec<Value> {
        let of =
            pools.iter().filter(|(pool, _)| pool["Pool"].as_str().unwrap().contains(':') == v6);
        of.map(|(pool, gateway)| {
            json!({"AddressSpace": "spoke-local", "Pool": pool["Pool"], "Gateway": gateway})
        })
        .collect()
    };
    let ipv6 = data(true);
    json!({"NetworkID": NETWORK, "IPv4Data": data(false), "IPv6Data": ipv6, "Options": {
        "com.docker.network.enable_ipv4": true,
        "com.docker.network.enable_ipv6": !ipv6.is_empty(),
        "com.docker.network.internal": internal,
        "com.docker.network.generic": generic,
    }})
}

pub(crate) fn at() -> Value {
    json!({"NetworkID": NETWORK, "EndpointID": ENDPOINT})
}

pub(crate) fn endpoint(v4: &str, v6: &str, options: &Value) -> Value {
    json!({"NetworkID": NETWORK, "EndpointID": ENDPOINT, "Options": options,
        "Interface": {"Address": v4, "AddressIPv6": v6, "MacAddress": ""}})
}

pub(crate) fn join() -> Value {
    json!({"NetworkID": NETWORK, "EndpointID": ENDPOINT, "SandboxKey": SANDBOX, "Options": {}})
}

pub(crate) fn open(world: &World, links: &[&str]) {
    let links = links.iter().map(|name| name.parse().unwrap()).collect();
    world.kernel.lock().unwrap().sandboxes.insert(SANDBOX.to_owned(), links);
}

/// A network of one subnet, and an endpoint on it.
fn made(generic: &Value, internal: bool, options: &Value) -> (Arc<World>, String) {
    let world = Arc::new(World::default());
    let subnet = pool(&world, "10.1.0.0/16", &json!({}));
    let gateway = gateway(&world, &subnet);
    let call = create(&[(&subnet, Some(gateway))], generic, internal);
    world.twice("NetworkDriver.CreateNetwork", &call);
    let address = address(&world, &subnet, "");
    world.twice("NetworkDriver.CreateEndpoint", &endpoint(&address, "", options));
    (world, address)
}

fn take_down(world: &Arc<World>, address: &str) {
    world.twice("NetworkDriver.Leave", &at());
    world.twice("NetworkDriver.DeleteEndpoint", &at());
    let plain = address.split('/').next().unwrap();
    let release = |address: &str| json!({"PoolID": "local/10.1.0.0/16", "Address": address});
    world.twice("IpamDriver.ReleaseAddress", &release(plain));
    world.twice("IpamDriver.ReleaseAddress", &release("10.1.0.1"));
    world.call("IpamDriver.ReleasePool", &json!({"PoolID": "local/10.1.0.0/16"})).unwrap();
    world.twice("NetworkDriver.DeleteNetwork", &json!({"NetworkID": NETWORK}));
    assert_eq!(world.left(), Vec::<String>::new());
}

#[test]
fn every_call_can_be_repeated_by_another_process() {
    let (world, address) = made(&json!({"interfaces": "spoke"}), false, &json!({}));
    open(&world, &["lo"]);
    let joined = world.twice("NetworkDriver.Join", &join());
    assert_eq!(joined, json!({"Gateway": "10.1.0.1"}));
    world.twice("NetworkDriver.EndpointOperInfo", &at());
    let program = json!({"NetworkID": NETWORK, "EndpointID": ENDPOINT, "Options": {
        "com.docker.network.portmap": [{"Proto": 6, "Port": 80, "HostPort": 8080}]}});
    world.twice("NetworkDriver.ProgramExternalConnectivity", &program);
    world.twice("NetworkDriver.RevokeExternalConnectivity", &at());
    take_down(&world, &address);
}

/// Spoke answers in the place of Docker's own server, and asks these for the rest.
#[test]
fn servers_of_the_container_are_asked() {
    let servers = ["9.9.9.9", "2620:fe::fe"];
    let options = json!({"com.docker.network.endpoint.dnsservers": servers});
    let (world, address) = made(&json!({}), false, &options);
    let attachments = world.engine().records.attachments().unwrap();
    assert_eq!(attachments[0].dns.nameservers, servers);
    take_down(&world, &address);
}

#[test]
fn an_interface_with_a_name_of_its_own_is_ours_to_finish() {
    let options = json!({"com.docker.network.endpoint.ifname": "web7",
        "com.docker.network.endpoint.sysctls": "net.ipv4.conf.ifname.log_martians=1"});
    let (world, address) = made(&json!({}), false, &options);
    open(&world, &["lo", "eth0"]);
    let joined = world.twice("NetworkDriver.Join", &join());
    assert_eq!(joined.get("InterfaceName"), None);
    let record = world.engine().records.attachments().unwrap().remove(0);
    let link = record.wiring.link.unwrap();
    assert_eq!(link.name.unwrap().as_str(), "web7");
    let sysctl = &record.wiring.tuning.unwrap().sysctls[0];
    assert_eq!(sysctl.path.to_str(), Some("net/ipv4/conf/web7/log_martians"));
    let LinkKind::Bridge(bridge) = link.kind else { panic!("no bridge") };
    assert_eq!(bridge.gateway, Gateway::Address, "the default route is Docker's to set");
    take_down(&world, &address);
}

/// A container leaves a network and comes back to it with the same endpoint.
#[test]
fn what_an_endpoint_asked_for_holds_for_each_join() {
    let sysctls = "net.ipv4.conf.IFNAME.log_martians=1";
    let options = json!({"com.docker.network.endpoint.ifname": "web7",
        "com.docker.network.endpoint.sysctls": sysctls});
    let (world, address) = made(&json!({}), false, &options);
    let settled = |world: &World| {
        let record = world.engine().records.attachments().unwrap().remove(0);
        let sysctl = record.wiring.tuning.unwrap().sysctls.remove(0);
        (record.wiring.link.unwrap().name, sysctl.path)
    };
    open(&world, &["lo"]);
    world.twice("NetworkDriver.Join", &join());
    let first = settled(&world);
    assert_eq!(first.0.as_ref().unwrap().as_str(), "web7");
    world.twice("NetworkDriver.Leave", &at());
    world.twice("NetworkDriver.Join", &join());
    assert_eq!(settled(&world), first);
    take_down(&world, &address);

    let options = json!({"com.docker.network.endpoint.sysctls": sysctls});
    let (world, address) = made(&json!({"interfaces": "spoke"}), false, &options);
    for (there, expected) in [("lo", "eth0"), ("eth0", "eth1")] {
        open(&world, &[there]);
        world.twice("NetworkDriver.Join", &join());
        let path = format!("net/ipv4/conf/{expected}/log_martians");
        assert_eq!(settled(&world), (expected.parse().ok(), path.into()));
        world.twice("NetworkDriver.Leave", &at());
    }
    take_down(&world, &address);
}

#[test]
fn the_lowest_free_name_is_taken_and_again_when_another_process_was_faster() {
    let (world, address) = made(&json!({"interfaces": "spoke"}), false, &json!({}));
    open(&world, &["lo", "eth0", "eth2"]);
    world.kernel.lock().unwrap().rival = Some((SANDBOX.to_owned(), "eth1".parse().unwrap()));
    world.twice("NetworkDriver.Join", &join());
    let info = world.call("NetworkDriver.EndpointOperInfo", &at()).unwrap();
    assert_eq!(info["Value"]["interface"], "eth3");
    take_down(&world, &address);
}

#[test]
fn names_begin_as_the_network_says() {
    let generic = json!({"interfaces": "spoke",
        "com.docker.network.container_iface_prefix": "net"});
    let (world, address) = made(&generic, false, &json!({}));
    let joined = world.twice("NetworkDriver.Join", &join());
    assert_eq!(joined["InterfaceName"]["DstPrefix"], "net");
    world.twice("NetworkDriver.Leave", &at());
    open(&world, &["lo"]);
    world.twice("NetworkDriver.Join", &join());
    let info = world.call("NetworkDriver.EndpointOperInfo", &at()).unwrap();
    assert_eq!(info["Value"]["interface"], "net0");
    take_down(&world, &address);
}

#[test]
fn without_a_namespace_docker_moves_the_interface() {
    let options = json!({"com.docker.network.endpoint.ifname": "web7"});
    let (world, address) = made(&json!({}), false, &options);
    let joined = world.twice("NetworkDriver.Join", &join());
    assert_eq!(joined["InterfaceName"], json!({"SrcName": "spk17d8c36b", "DstPrefix": "web"}));
    assert_eq!(joined["Gateway"], "10.1.0.1");
    take_down(&world, &address);
}

/// Docker counts only its own interfaces when it names the next one.
#[test]
fn docker_names_interfaces_without_a_name() {
    let (world, address) = made(&json!({}), false, &json!({}));
    open(&world, &["lo"]);
    let joined = world.twice("NetworkDriver.Join", &join());
    assert_eq!(joined["InterfaceName"]["DstPrefix"], "eth");
    take_down(&world, &address);
}

#[test]
fn engines_before_28_always_move_the_interface() {
    let world = Arc::new(World::default());
    let subnet = pool(&world, "10.1.0.0/16", &json!({}));
    let gateway = gateway(&world, &subnet);
    let generic = json!({"interfaces": "spoke"});
    let mut call = create(&[(&subnet, Some(gateway))], &generic, false);
    call["Options"].as_object_mut().unwrap().remove("com.docker.network.enable_ipv4");
    world.twice("NetworkDriver.CreateNetwork", &call);
    let address = address(&world, &subnet, "");
    world.twice("NetworkDriver.CreateEndpoint", &endpoint(&address, "", &json!({})));
    open(&world, &["lo"]);
    let joined = world.twice("NetworkDriver.Join", &join());
    assert_eq!(joined["InterfaceName"]["DstPrefix"], "eth");
    take_down(&world, &address);
}

pub(crate) fn without_interface(mut joined: Value) -> Value {
    let interface = joined.as_object_mut().unwrap().remove("InterfaceName");
    assert!(interface.is_some(), "{joined}");
    joined
}

/// What Join says about the default route, by what the network was created with.
#[test]
fn the_default_route_is_as_the_options_say() {
    for (generic, internal, expected) in [
        (json!({}), false, json!({"Gateway": "10.1.0.1"})),
        (json!({}), true, json!({})),
        (json!({"gateway": "address"}), false, json!({"DisableGatewayService": true})),
        (json!({"gateway": "none"}), false, json!({"DisableGatewayService": true})),
        (json!({"ports": "docker"}), false, json!({})),
        (
            json!({"com.docker.network.bridge.inhibit_ipv4": "true"}),
            false,
            json!({"Gateway": "10.1.0.1"}),
        ),
    ] {
        let (world, address) = made(&generic, internal, &json!({}));
        assert_eq!(without_interface(world.twice("NetworkDriver.Join", &join())), expected);
        take_down(&world, &address);
    }
}

#[test]
fn options_shape_the_network() {
    let generic = json!({"bridge": "br7", "mtu": "1400", "isolation": "none", "publish": "local",
        "masquerade": "false", "hairpin": "false", "promiscuous": "true"});
    let (world, address) = made(&generic, false, &json!({}));
    let network = world.engine().records.networks().unwrap().remove(0);
    let link = network.wiring.link.unwrap();
    assert_eq!(link.mtu, Mtu::new(1400));
    let LinkKind::Bridge(bridge) = link.kind else { panic!("no bridge") };
    assert_eq!(bridge.name.as_str(), "br7");
    assert_eq!((bridge.hairpin, bridge.promiscuous), (false, true));
    assert_eq!(network.wiring.firewall.unwrap().ingress, IngressPolicy::Open);
    assert_eq!(network.wiring.publish.unwrap().reach, Reach::Local);
    assert!(network.wiring.masquerade.is_none());
    take_down(&world, &address);
}

#[test]
fn a_network_of_docker_is_apart_by_default() {
    let (world, address) = made(&json!({}), true, &json!({}));
    let network = world.engine().records.networks().unwrap().remove(0);
    assert_eq!(network.name.as_str(), "docker-10.1.0.0-16");
    let firewall = network.wiring.firewall.unwrap();
    assert_eq!(firewall.ingress, IngressPolicy::SameBridge);
    assert_eq!(firewall.egress, EgressPolicy::Internal);
    assert_eq!(firewall.bridge.unwrap().as_str(), "sp-10-1");
    assert!(network.wiring.masquerade.is_none());
    take_down(&world, &address);
}

#[test]
fn hardware_addresses_are_reported_or_taken() {
    let (world, address) = made(&json!({}), false, &json!({}));
    let again = world.call("NetworkDriver.CreateEndpoint", &endpoint(&address, "", &json!({})));
    assert_eq!(again.unwrap()["Interface"]["MacAddress"], "32:37:64:38:63:33");
    world.twice("NetworkDriver.DeleteEndpoint", &at());
    let mut call = endpoint(
        &address,
        "",
        &json!({
        "com.docker.network.endpoint.macaddress": "Aqq7zN0B"}),
    );
    call["Interface"]["MacAddress"] = "02:aa:bb:cc:dd:01".into();
    assert_eq!(world.twice("NetworkDriver.CreateEndpoint", &call), json!({"Interface": {}}));
    let record = world.engine().records.attachments().unwrap().remove(0);
    assert_eq!(record.wiring.link.unwrap().mac.unwrap().to_string(), "02:aa:bb:cc:dd:01");
    take_down(&world, &address);
}

#[test]
fn endpoints_have_no_options_of_ours() {
    let (world, address) = made(&json!({}), false, &json!({}));
    world.twice("NetworkDriver.DeleteEndpoint", &at());
    let call = endpoint(&address, "", &json!({"k": "v"}));
    let error = world.call("NetworkDriver.CreateEndpoint", &call).unwrap_err();
    assert!(error.to_string().contains("--driver-opt k"), "{error}");
    let call = endpoint(&address, "", &json!({"com.docker.network.endpoint.later": "v"}));
    world.twice("NetworkDriver.CreateEndpoint", &call);
    take_down(&world, &address);
}

fn program(world: &Arc<World>, ports: &Value) -> Result<Vec<String>> {
    let body = json!({"NetworkID": NETWORK, "EndpointID": ENDPOINT, "Options": {
        "com.docker.network.portmap": ports}});
    world.call("NetworkDriver.ProgramExternalConnectivity", &body)?;
    let kernel = world.kernel.lock().unwrap();
    let served = kernel.ports.values().flatten().map(ToString::to_string);
    Ok(served.collect())
}

#[test]
fn ports_are_published_as_asked() {
    let (world, address) = made(&json!({}), false, &json!({}));
    open(&world, &["lo"]);
    world.twice("NetworkDriver.Join", &join());
    let ports = json!([{"Proto": 17, "Port": 53, "HostIP": "127.0.0.1", "HostPort": 5353}]);
    assert_eq!(program(&world, &ports).unwrap(), ["127.0.0.1:5353->53/udp"]);
    let range = json!([{"Proto": 6, "Port": 80, "HostPort": 8000, "HostPortEnd": 8010}]);
    let first = program(&world, &range).unwrap();
    assert!(first[0].contains("8000->80/tcp"), "{first:?}");
    let any = json!([{"Proto": 6, "Port": 80, "HostPort": 0}]);
    let chosen = program(&world, &any).unwrap();
    assert_eq!(program(&world, &any).unwrap(), chosen, "a number that was chosen stays");
    assert_eq!(program(&world, &json!([])).unwrap(), Vec::<String>::new());
    take_down(&world, &address);
}

#[test]
fn ports_of_some_networks_are_not_ours() {
    let binding = json!({"com.docker.network.bridge.host_binding_ipv4": "127.0.0.1"});
    let routed = json!({"com.docker.network.bridge.gateway_mode_ipv4": "routed"});
    for (generic, internal, expected) in [
        (json!({"ports": "docker"}), false, vec![]),
        (routed, false, vec![]),
        (json!({}), true, vec![]),
        (binding, false, vec!["127.0.0.1:8080->80/tcp"]),
    ] {
        let (world, address) = made(&generic, internal, &json!({}));
        open(&world, &["lo"]);
        world.twice("NetworkDriver.Join", &join());
        let ports = json!([{"Proto": 6, "Port": 80, "HostPort": 8080}]);
        assert_eq!(program(&world, &ports).unwrap(), expected, "{generic}");
        take_down(&world, &address);
    }
}

#[test]
fn operational_info_says_what_there_is() {
    let (world, address) = made(&json!({"interfaces": "spoke"}), false, &json!({}));
    open(&world, &["lo"]);
    world.twice("NetworkDriver.Join", &join());
    program(&world, &json!([{"Proto": 6, "Port": 80, "HostPort": 8080}])).unwrap();
    let info = world.call("NetworkDriver.EndpointOperInfo", &at()).unwrap();
    for (key, value) in [
        ("network", "docker-10.1.0.0-16"),
        ("bridge", "sp-10-1"),
        ("addresses", "10.1.0.2/16"),
        ("interface", "eth0"),
        ("host interface", "veth17d8c36b"),
    ] {
        assert_eq!(info["Value"][key], value, "{info}");
    }
    assert!(info["Value"]["ports"].as_str().unwrap().contains("8080->80/tcp"), "{info}");
    take_down(&world, &address);
}

#[test]
fn unknown_networks_are_an_error_only_to_what_makes() {
    let world = Arc::new(World::default());
    for method in ["Leave", "DeleteEndpoint", "RevokeExternalConnectivity"] {
        world.twice(&format!("NetworkDriver.{method}"), &at());
    }
    world.twice("NetworkDriver.DeleteNetwork", &json!({"NetworkID": NETWORK}));
    for (method, body) in [
        ("CreateEndpoint", endpoint("10.1.0.2/16", "", &json!({}))),
        ("Join", join()),
        ("EndpointOperInfo", at()),
        ("ProgramExternalConnectivity", at()),
    ] {
        let error = world.call(&format!("NetworkDriver.{method}"), &body).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound, "{method}: {error}");
        assert!(error.to_string().contains("7928035c1758"), "{error}");
    }
    for pool in ["local/10.1.0.0/16", "global/10.1.0.0/16"] {
        world.twice("IpamDriver.ReleasePool", &json!({"PoolID": pool}));
        let call = json!({"PoolID": pool, "Address": "10.1.0.2"});
        world.twice("IpamDriver.ReleaseAddress", &call);
        let error = world.call("IpamDriver.RequestAddress", &call).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound, "{error}");
    }
}

#[test]
fn a_swarm_manager_hands_the_options_on() {
    let world = Arc::new(World::default());
    let call = json!({"NetworkID": NETWORK, "Options": {"mtu": "1400"}, "IPv6Data": null,
        "IPv4Data": [{"AddressSpace": "", "Gateway": "10.1.0.1/24", "Pool": "10.1.0.0/24"}]});
    let answer = world.twice("NetworkDriver.AllocateNetwork", &call);
    assert_eq!(answer, json!({"Options": {"mtu": "1400"}}));
    world.twice("NetworkDriver.FreeNetwork", &json!({"NetworkID": NETWORK}));
    let call = json!({"NetworkID": NETWORK, "Options": {"mut": "1400"}});
    assert!(world.call("NetworkDriver.AllocateNetwork", &call).is_err());
}

#[test]
fn only_networks_without_a_gateway_skip_its_address() {
    let world = Arc::new(World::default());
    for (generic, internal, skip) in [
        (json!({}), false, false),
        (json!({}), true, false),
        (json!({"gateway": "address"}), false, false),
        (json!({"gateway": "none"}), false, true),
        (json!({"com.docker.network.bridge.gateway_mode_ipv4": "isolated"}), true, true),
    ] {
        let call = json!({"Options": {"com.docker.network.enable_ipv4": true,
            "com.docker.network.internal": internal, "com.docker.network.generic": generic}});
        let answer = world.call("NetworkDriver.GwAllocCheck", &call).unwrap();
        assert_eq!(answer, json!({"SkipIPv4": skip, "SkipIPv6": skip}), "{call}");
    }
}
