//! Networks of Neutron by CNI and by the command line: no Docker, and no network made by us.

use serde_json::{Value, json};
use tests::neutron::{Project, id};
use tests::neutron_lab::ApiLab;
use tests::{Answer, Cni, Plugins, World};

use crate::bed::{Host, Tenancy, host_name, tags, text};

/// A host without a Docker, on a project with the operator's network `front`.
struct Front {
    // Before the world, in which its daemons are.
    host: Host,
    world: World,
    network: String,
}

impl Front {
    #[track_caller]
    fn new(cidr: &str) -> Self {
        let project = ApiLab::shared().project();
        let name = host_name(&project);
        let world = World::new(&Plugins::subject());
        let place = Tenancy { project: &project, name: &name, extra: "", ovn: None };
        let mut host = Host::on(&world, place);
        let (network, _) = project.network("front", cidr);
        host.start_from_here();
        Self { host, world, network }
    }

    fn project(&self) -> &Project {
        &self.host.project
    }

    #[track_caller]
    fn spoke(&self, arguments: &str) -> String {
        self.world.sh(&format!("{}/spoke {arguments}", Plugins::MOUNT))
    }

    /// The port with an address.
    #[track_caller]
    fn port(&self, address: &str) -> Value {
        self.project().only("ports", &format!("fixed_ips=ip_address%3D{address}"))
    }

    #[track_caller]
    fn is_clean(&self) {
        self.host.is_clean(&self.world);
    }
}

/// A list of one entry, with more in `neutron` and beside it.
fn list(neutron: &Value, more: &Value) -> Value {
    let mut entry = json!({"type": "spoke", "driver": "neutron", "neutron": {"network": "front"},
        "capabilities": {"ips": true, "mac": true, "portMappings": true}});
    for (key, value) in neutron.as_object().into_iter().flatten() {
        entry["neutron"][key] = value.clone();
    }
    for (key, value) in more.as_object().into_iter().flatten() {
        entry[key] = value.clone();
    }
    json!({"cniVersion": "1.1.0", "name": "cloud", "plugins": [entry]})
}

fn plain() -> Value {
    list(&json!({}), &json!({}))
}

#[track_caller]
fn added(cni: &mut Cni<'_>, list: &Value) -> Value {
    only(cni.add(list)).json().expect("a result")
}

#[track_caller]
fn only(answers: Vec<Answer>) -> Answer {
    let answer = answers.into_iter().next_back().expect("an answer");
    assert!(answer.ok(), "{answer:?}");
    answer
}

#[track_caller]
fn refused(answers: Vec<Answer>, words: &[&str]) {
    let answer = answers.into_iter().next_back().expect("an answer");
    assert!(!answer.ok(), "{answer:?}");
    let said = answer.output.stdout;
    let missing: Vec<_> = words.iter().filter(|word| !said.contains(**word)).collect();
    assert!(missing.is_empty(), "{said} does not say {missing:?}");
}

/// The first address of a result.
#[track_caller]
fn address(result: &Value) -> String {
    let address = result["ips"][0]["address"].as_str().unwrap_or_else(|| panic!("{result}"));
    address.split('/').next().unwrap().to_owned()
}

#[test]
fn a_container_comes_is_checked_and_goes_twice() {
    let front = Front::new("10.140.0.0/24");
    let (mut one, mut two) =
        (Cni::container(&front.world, "c1"), Cni::container(&front.world, "c2"));
    let results = [added(&mut one, &plain()), added(&mut two, &plain())];
    let addresses = results.each_ref().map(address);
    front.host.named(&front.world);
    let port = front.port(&addresses[0]);
    assert_eq!(port["device_owner"], "compute:kuryr");
    assert_eq!(text(&port, "binding:host_id"), front.host.name);
    assert!(tags(&port).contains(&"compute:kuryr".to_owned()), "{port}");
    assert_eq!(results[0]["interfaces"].as_array().unwrap().len(), 2, "{}", results[0]);
    let mtu = front.world.sh("ip -n c1 link show eth0");
    let of_network = front.project().get(&format!("/networks/{}", front.network));
    assert!(mtu.contains(&format!("mtu {}", of_network["network"]["mtu"])), "{mtu}");
    assert_eq!(front.host.switch.ports().len(), 2);
    front.world.sh(&format!("ip netns exec c1 ping -c 1 -W 5 {}", addresses[1]));
    let routes = front.world.sh("ip -n c1 route");
    assert!(routes.contains("default via 10.140.0.1 dev eth0"), "{routes}");
    let shown = front.spoke("ps");
    let short = &id(&port)[..11];
    assert!(shown.contains(&format!("neutron:{short}")), "{shown}");

    refused(one.add(&plain()), &["already exists"]);
    only(one.check(&plain()));
    front.project().delete(&format!("/ports/{}", id(&port)));
    refused(one.check(&plain()), &[&id(&port), "gone from Neutron"]);
    for cni in [&one, &two, &one, &two] {
        only(cni.del(&plain()));
    }
    front.is_clean();
}

#[test]
fn an_address_that_is_wanted_is_had_or_refused() {
    let front = Front::new("10.141.0.0/24");
    let instance = front.project().create(
        "port",
        json!({"network_id": front.network, "device_owner": "compute:nova", "device_id": "vm",
               "fixed_ips": [{"ip_address": "10.141.0.50"}]}),
    );
    let mut one = Cni::container(&front.world, "c1");
    one.runtime = json!({"ips": ["10.141.0.77/24"], "mac": "02:00:00:00:00:77"});
    let result = added(&mut one, &plain());
    assert_eq!(result["ips"][0]["address"], "10.141.0.77/24");
    assert_eq!(front.port("10.141.0.77")["mac_address"], "02:00:00:00:00:77");
    let shown = front.spoke("ps -o json");
    assert!(shown.contains("10.141.0.77/24") && !shown.contains("/32"), "{shown}");
    let mut two = Cni::container(&front.world, "c2");
    for (ip, words) in [
        ("10.141.0.77", &["10.141.0.77 is held by container c1"][..]),
        ("10.141.0.50", &["10.141.0.50", &id(&instance), "vm"]),
        ("10.99.0.5", &["10.99.0.5 is in no subnet"]),
    ] {
        two.runtime = json!({"ips": [ip]});
        refused(two.add(&plain()), words);
    }
    let still = front.project().get(&format!("/ports/{}", id(&instance)));
    assert_eq!(still["port"]["device_id"], "vm", "it is untouched");
    only(one.del(&plain()));
    front.project().delete(&format!("/ports/{}", id(&instance)));
    front.is_clean();
}

#[test]
fn a_port_has_what_is_asked_for() {
    let mut front = Front::new("10.142.0.0/24");
    let group = id(&front.project().create("security_group", json!({"name": "web"})));
    let own = front.project().create("port", json!({"network_id": front.network, "name": "mine"}));
    front.host.start_from_here();
    let asking = list(
        &json!({"securityGroups": ["web"], "allowedAddressPairs": [{"ip": "10.142.0.200"}],
                "subnets": ["front"]}),
        &json!({}),
    );
    let mut one = Cni::container(&front.world, "c1");
    let port = front.port(&address(&added(&mut one, &asking)));
    assert_eq!(port["security_groups"], json!([group]));
    assert_eq!(port["allowed_address_pairs"][0]["ip_address"], "10.142.0.200");
    let mut open = Cni::container(&front.world, "c2");
    let asking_open = list(&json!({"portSecurity": false, "securityGroups": []}), &json!({}));
    let port = front.port(&address(&added(&mut open, &asking_open)));
    assert_eq!(port["port_security_enabled"], false);

    let with_port = list(&json!({"port": id(&own)}), &json!({}));
    let mut borrower = Cni::container(&front.world, "c3");
    let result = added(&mut borrower, &with_port);
    assert_eq!(address(&result), text(&own["fixed_ips"][0], "ip_address"));
    let mut second = Cni::container(&front.world, "c4");
    refused(second.add(&with_port), &[&id(&own)]);
    for (cni, list) in [(&one, &asking), (&open, &asking_open), (&borrower, &with_port)] {
        only(cni.del(list));
    }
    let left = front.project().get(&format!("/ports/{}", id(&own)));
    assert_eq!((&left["port"]["device_id"], &left["port"]["name"]), (&json!(""), &json!("mine")));
    front.is_clean();
}

#[test]
fn several_networks_in_one_call() {
    let front = Front::new("10.143.0.0/24");
    front.spoke("network create --driver neutron --opt network=front cloud");
    front.spoke("network create --subnet 10.90.0.0/24 host");
    let both = json!({"cniVersion": "1.1.0", "name": "pods", "plugins":
        [{"type": "spoke", "networks": ["host", "cloud"], "capabilities": {"ips": true}}]});
    let mut one = Cni::container(&front.world, "c1");
    one.runtime = json!({"ips": ["10.143.0.77"]});
    let result = added(&mut one, &both);
    let addresses: Vec<&str> = result["ips"]
        .as_array()
        .unwrap()
        .iter()
        .map(|ip| ip["address"].as_str().unwrap())
        .collect();
    assert!(addresses.contains(&"10.143.0.77/24") && addresses.len() == 2, "{result}");
    let routes = front.world.sh("ip -n c1 route show default");
    assert!(routes.contains("via 10.90.0.1") && routes.lines().count() == 1, "{routes}");
    only(one.check(&both));
    only(one.del(&both));
    let listed = front.spoke("network ls");
    assert!(listed.contains("neutron"), "{listed}");
    front.spoke("network rm cloud host");
    front.is_clean();
}

/// Everything that is on this host goes at once; the port when Neutron is back.
#[test]
fn a_container_goes_while_neutron_is_away() {
    let front = Front::new("10.144.0.0/24");
    let mut one = Cni::container(&front.world, "c1");
    let address = address(&added(&mut one, &plain()));
    front.host.proxy.fail_always("", "/", tests::fault_proxy::Fault::Cut);
    let mut two = Cni::container(&front.world, "c2");
    refused(two.add(&plain()), &["Neutron"]);
    let _ = one.del(&plain());
    assert_eq!(front.host.switch.ports(), Vec::<String>::new());
    front.host.proxy.heal();
    only(one.del(&plain()));
    front.spoke("gc");
    assert_eq!(
        front.project().list("ports", &format!("fixed_ips=ip_address%3D{address}")).len(),
        0
    );
    front.is_clean();
}

#[test]
fn what_is_missing_is_said() {
    let front = Front::new("10.145.0.0/24");
    let mut one = Cni::container(&front.world, "c1");
    let elsewhere = list(&json!({"network": "nowhere"}), &json!({}));
    refused(one.add(&elsewhere), &["nowhere"]);
    refused(one.ask(&elsewhere, "STATUS"), &["nowhere"]);
    only(one.ask(&plain(), "STATUS"));
    front.world.sh("echo >/etc/spoke/config.toml");
    refused(one.add(&plain()), &["[neutron]"]);
    refused(one.ask(&plain(), "STATUS"), &["[neutron]"]);
    front.is_clean();
}

#[test]
fn gc_takes_what_no_container_has() {
    let front = Front::new("10.146.0.0/24");
    let (mut one, mut two) =
        (Cni::container(&front.world, "c1"), Cni::container(&front.world, "c2"));
    let gone = address(&added(&mut one, &plain()));
    let kept = address(&added(&mut two, &plain()));
    let mut valid = plain();
    valid["cni.dev/valid-attachments"] = json!([{"containerID": "c2", "ifname": "eth0"}]);
    only(two.ask(&valid, "GC"));
    let ports = |address: &str| {
        front.project().list("ports", &format!("fixed_ips=ip_address%3D{address}")).len()
    };
    assert_eq!((ports(&gone), ports(&kept)), (0, 1));
    only(two.del(&plain()));
    front.is_clean();
}
