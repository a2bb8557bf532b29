//! That the labs and what stands before them work: whatever fails elsewhere is not the fixture's.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::thread;

use serde_json::json;
use tests::fault_proxy::{Fault, FaultProxy, Gate};
use tests::neutron::id;
use tests::neutron_lab::{ApiLab, FullLab};
use tests::neutron_switch::{Chassis, Switch};
use tests::{Plugins, World};

/// One request; what came back until the end, which is nothing where the connection was cut.
fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!(
        "{method} /v2.0{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut said = String::new();
    let _ = stream.read_to_string(&mut said);
    said
}

#[test]
fn projects_are_apart_and_can_be_compared() {
    let lab = ApiLab::shared();
    let (one, other) = (lab.project(), lab.project());
    let before = one.everything();
    let (network, subnet) = one.network("a network", "10.0.0.0/24");
    assert_eq!(one.everything().count("networks"), 1);
    assert_eq!(other.everything().count("networks"), 0);
    let foreign = other.call("GET", &format!("/networks/{network}"), &json!(null));
    assert_eq!(foreign.status, 404);
    let changes = one.everything().changes(&before);
    assert_eq!(changes.len(), 2, "{changes:#?}");
    assert!(changes.iter().any(|change| change.starts_with(&format!("+ subnets {subnet} "))));

    let with_subnet = one.everything();
    let rename = json!({"subnet": {"name": "another"}});
    one.put(&format!("/subnets/{subnet}"), &rename);
    assert_eq!(one.everything().changes(&with_subnet).len(), 2, "it is not what it was");
    one.delete(&format!("/networks/{network}"));
    assert_eq!(one.everything().changes(&before), Vec::<String>::new());
}

#[test]
fn a_port_is_bound_as_its_host_is_called() {
    let project = ApiLab::shared().project();
    let (network, _) = project.network("net", "10.0.0.0/24");
    let bound = [
        ("ovs-a", "ovs", "ACTIVE"),
        ("hybrid-a", "ovs", "ACTIVE"),
        ("bridge-a", "bridge", "ACTIVE"),
        ("tap-a", "tap", "ACTIVE"),
        ("down-a", "ovs", "DOWN"),
        ("other-a", "other", "ACTIVE"),
        ("nobody", "binding_failed", "DOWN"),
    ];
    for (host, kind, status) in bound {
        let port = json!({"network_id": network, "binding:host_id": host});
        let port = project.create("port", port);
        let port = project.get(&format!("/ports/{}", id(&port)));
        assert_eq!(port["port"]["binding:vif_type"], kind, "{host}");
        assert_eq!(port["port"]["status"], status, "{host}");
    }
}

#[test]
fn the_proxy_loses_replies_and_requests_and_counts_them() {
    let lab = ApiLab::shared();
    let project = lab.project();
    let proxy = FaultProxy::start(lab.upstream(&project));
    let network = |name: &str| json!({"network": {"name": name}}).to_string();
    let post = |name: &str| ask(proxy.address(), "POST", "/networks", &network(name));
    let there = |name: &str| project.list("networks", &format!("name={name}")).len();

    proxy.fail("POST", "/v2.0/networks", 2, Fault::DropReply);
    assert!(post("first").starts_with("HTTP/1.1 201 "));
    assert_eq!(post("second"), "", "nothing was answered");
    assert_eq!((there("first"), there("second")), (1, 1), "but the work is done");
    assert_eq!(proxy.pending(), 0);

    proxy.fail("", "/v2.0/networks", 1, Fault::Cut);
    assert_eq!((post("third").as_str(), there("third")), ("", 0));
    proxy.fail("POST", "/v2.0/networks", 1, Fault::AnswerAfter(500));
    let said = post("fourth");
    assert!(said.starts_with("HTTP/1.1 500 ") && said.contains("injected 500"), "{said}");
    assert_eq!(there("fourth"), 1);
    proxy.fail_always("", "/v2.0/", Fault::Answer(503));
    for _ in 0..2 {
        assert!(ask(proxy.address(), "GET", "/networks", "").contains("retry-after: 0"));
    }
    proxy.heal();

    let calls = proxy.take();
    let seen: Vec<_> = calls.iter().map(|call| (call.method.as_str(), call.status)).collect();
    let post = "POST";
    assert_eq!(
        seen,
        [
            (post, Some(201)),
            (post, None),
            (post, None),
            (post, Some(500)),
            ("GET", Some(503)),
            ("GET", Some(503)),
        ]
    );
    assert_eq!(proxy.connections(), 6);
    assert_eq!(proxy.take(), []);
}

#[test]
fn the_proxy_holds_what_a_test_wants_held() {
    let lab = ApiLab::shared();
    let project = lab.project();
    let proxy = FaultProxy::start(lab.upstream(&project));
    let address = proxy.address();
    for (reply, made_before) in [(false, 0), (true, 1)] {
        let gate = Gate::default();
        let fault = if reply { Fault::HoldReply(gate.clone()) } else { Fault::Hold(gate.clone()) };
        proxy.fail("POST", "/v2.0/networks", 1, fault);
        let name = format!("held-{reply}");
        let body = json!({"network": {"name": name}}).to_string();
        let asking = thread::spawn(move || ask(address, "POST", "/networks", &body));
        gate.reached();
        let query = format!("name={name}");
        if !reply {
            assert_eq!(project.list("networks", &query).len(), made_before);
        }
        gate.open();
        assert!(asking.join().unwrap().starts_with("HTTP/1.1 201 "));
        assert_eq!(project.list("networks", &query).len(), 1);
    }
}

#[test]
fn a_world_reaches_neutron_through_the_proxy_and_plugs_into_its_own_switch() {
    let lab = ApiLab::shared();
    let project = lab.project();
    project.network("seen-from-inside", "10.0.0.0/24");
    let world = World::new(&Plugins::reference());
    let netns = PathBuf::from(format!("/proc/{}/ns/net", world.pid()));
    let proxy = FaultProxy::inside(&netns, 9696, lab.upstream(&project));
    let said = world.sh("busybox wget -q -O - http://127.0.0.1:9696/v2.0/networks");
    assert!(said.contains("seen-from-inside"), "{said}");
    assert_eq!(proxy.take().len(), 1);

    let switch = Switch::start(&world);
    for (name, address) in [("a", "10.5.0.1/24"), ("b", "10.5.0.2/24")] {
        world.netns(name);
        world.sh(&format!(
            "ip link add tap{name} type veth peer name eth0 netns {name}
             ip link set tap{name} up
             ip -n {name} address add {address} dev eth0
             ip -n {name} link set eth0 up"
        ));
        switch.vsctl(&format!(
            "add-port br-int tap{name} -- set interface tap{name} external_ids:iface-id={name}"
        ));
    }
    assert_eq!(switch.ports(), ["tapa", "tapb"]);
    assert_eq!(switch.external_id("tapb", "iface-id"), "b");
    world.sh("ip netns exec a ping -c 1 -W 5 10.5.0.2");
}

#[test]
fn a_world_is_a_host_of_ovn() {
    let Some(lab) = FullLab::running() else { return };
    let account = lab.account();
    let project = &account.project;
    let (network, _) = project.network("net", "10.0.0.0/24");
    let worlds = [World::new(&Plugins::reference()), World::new(&Plugins::reference())];
    let names = ["one", "two"].map(|name| format!("{name}-{}", &project.id()[..8]));
    let hosts = [0, 1].map(|n| Chassis::join(&lab, &worlds[n], &names[n]));
    let mut addresses = Vec::new();
    for n in [0, 1] {
        let with = json!({"network_id": network, "binding:host_id": names[n]});
        let port = project.create("port", with);
        assert_eq!(port["binding:vif_type"], "ovs");
        let (id, mac) = (id(&port), port["mac_address"].as_str().unwrap());
        let address = port["fixed_ips"][0]["ip_address"].as_str().unwrap().to_owned();
        worlds[n].netns("c");
        worlds[n].sh(&format!(
            "ip link add tapc mtu 1442 type veth peer name eth0 address {mac} mtu 1442 netns c
             ip link set tapc up
             ip -n c address add {address}/24 dev eth0
             ip -n c link set eth0 up"
        ));
        hosts[n].vsctl(&format!(
            "add-port br-int tapc -- set interface tapc external_ids:iface-id={id}"
        ));
        project.until(&format!("/ports/{id}"), |port| port["port"]["status"] == "ACTIVE");
        assert_eq!(hosts[n].ports(), ["tapc"]);
        addresses.push(address);
    }
    let there =
        format!("timeout 20 sh -c 'until ping -c 1 -W 1 {}; do sleep 0.05; done'", addresses[1]);
    worlds[0].sh(&format!("ip netns exec c {there}"));
}
