//! An address that a container of this host holds, requested by each other front end: each is refused, and
//! the holder notices nothing.

use serde_json::{Value, json};
use tests::neutron::id;
use tests::neutron_lab::ApiLab;
use tests::{Cni, Plugins};

use crate::bed::{Tenancy, host_name};
use crate::calls::{Calls, Ends};

const STOCK: &str = "[neutron.stock]\nminimum = 2\nmaximum = 4\n";

/// A host with a network of the operator's, which every front end uses.
pub(crate) struct Shared {
    pub(crate) calls: Calls,
    /// What Docker calls its network there, and its pool.
    docker: (String, Value),
    cidr: String,
}

/// Who holds an address.
struct Holder {
    who: &'static str,
    address: String,
    /// Whether Docker has requested it and not made its endpoint yet: then that is what comes.
    is_awaited: bool,
}

impl Holder {
    fn new(who: &'static str, address: &str) -> Self {
        Self { who, address: address.to_owned(), is_awaited: false }
    }
}

impl Shared {
    #[track_caller]
    pub(crate) fn new(cidr: &str, extra: &str) -> Self {
        let project = ApiLab::shared().project();
        let name = host_name(&project);
        let mut calls = Calls::at(Tenancy { project: &project, name: &name, extra, ovn: None });
        let (network, _) = project.network("front", cidr);
        calls.host.start_from_here();
        let docker = calls.network(cidr, &json!({ "neutron.net.uuid": network }));
        calls.world.sh(&spoke("network create --driver neutron --opt network=front mine"));
        Self { calls, docker, cidr: cidr.to_owned() }
    }

    /// A name of each front end's own, of the network's second, third, … container.
    fn list(name: &str) -> Value {
        json!({"cniVersion": "1.1.0", "name": name, "plugins": [{
            "type": "spoke", "driver": "neutron", "neutron": {"network": "front"},
            "capabilities": {"ips": true},
        }]})
    }

    fn document(&self, container: &str, address: Option<&str>) -> String {
        let gateway = self.cidr.replace(".0/24", ".1");
        json!({
            "container_id": container, "container_name": container, "port_mappings": null,
            "network": {
                "dns_enabled": false, "driver": "spoke", "id": "00", "internal": false,
                "ipv6_enabled": false, "name": "pods",
                "options": {"driver": "neutron", "neutron.network": "front"},
                "ipam_options": {"driver": "spoke"}, "routes": null, "network_dns_servers": null,
                "subnets": [{"subnet": self.cidr, "gateway": gateway}],
            },
            "network_options": {
                "aliases": null, "interface_name": "eth0", "static_mac": null,
                "static_ips": address.map(|address| vec![address]),
            },
        })
        .to_string()
    }

    /// Calls the plugin as netavark does; its status and what it said.
    fn netavark(&self, verb: &str, container: &str, address: Option<&str>) -> (i32, String) {
        let document = self.document(container, address);
        let call = format!(
            "[ -e /run/netns/{container} ] || ip netns add {container}
             {}/spoke {verb} /run/netns/{container} <<'JSON'\n{document}\nJSON",
            Plugins::MOUNT
        );
        let done = self.calls.world.try_sh(&call);
        (done.status, format!("{}{}", done.stdout, done.stderr))
    }

    /// Everybody asks for the holder's address, and nothing changes.
    #[track_caller]
    fn no_other_gets(&self, holder: &Holder) {
        let Holder { who, address, is_awaited } = holder;
        let calls = &self.calls;
        let host = &calls.host;
        calls.named();
        let (before, plugged) = (self.port(address), host.switch.ports());
        let (network, pool) = &self.docker;
        let mac = Ends::new(network).mac;
        let options = json!({"com.docker.network.endpoint.macaddress": mac});
        let asked = calls.request_address(pool, address, &options).error();
        let mut refusals = vec![("RequestAddress", asked)];
        if !is_awaited {
            let ends = Ends::new(network);
            let made = calls.create_endpoint(&ends, &format!("{address}/24")).error();
            refusals.push(("CreateEndpoint", made));
            calls.of_endpoint("DeleteEndpoint", &ends).ok();
        }
        let mut cni = Cni::container(&calls.world, "asks-cni");
        cni.runtime = json!({"ips": [address]});
        let list = Self::list("theirs");
        let answer = cni.add(&list).remove(0);
        assert!(!answer.ok(), "CNI gets what {who} holds: {answer:?}");
        refusals.push(("CNI", answer.output.stdout.clone()));
        assert!(cni.del(&list).remove(0).ok());
        calls.world.sh("ip netns delete asks-cni");
        let (status, said) = self.netavark("setup", "asks-podman", Some(address));
        assert_ne!(status, 0, "Podman gets what {who} holds: {said}");
        refusals.push(("Podman", said));
        assert_eq!(self.netavark("teardown", "asks-podman", Some(address)).0, 0);
        let connect = format!("network connect --ip {address} mine asks-cli");
        let done = calls.world.try_sh(&format!("ip netns add asks-cli; {}", spoke(&connect)));
        assert_ne!(done.status, 0, "the command line gets what {who} holds: {}", done.stdout);
        refusals.push(("command line", done.stderr));
        calls.world.sh("ip netns delete asks-cli; ip netns delete asks-podman");
        for (asks, said) in refusals {
            // Never that something failed half way.
            assert!(
                said.contains(address) && !said.contains("File exists"),
                "{who}, {asks}: {said}"
            );
        }
        assert_eq!(self.port(address), before, "{who} was touched\n{}", host.log());
        assert_eq!(host.switch.ports(), plugged, "{who} was unplugged");
    }

    #[track_caller]
    pub(crate) fn port(&self, address: &str) -> Value {
        self.calls.host.project.only("ports", &format!("fixed_ips=ip_address%3D{address}"))
    }

    /// A free address of the subnet: Neutron chooses the others' at random.
    #[track_caller]
    fn free_address(&self) -> String {
        let mut addresses = (70..90).map(|host| self.cidr.replace("0/24", &host.to_string()));
        let is_free = |address: &String| {
            let query = format!("fixed_ips=ip_address%3D{address}");
            self.calls.host.project.list("ports", &query).is_empty()
        };
        addresses.find(is_free).expect("a free address")
    }

    #[track_caller]
    pub(crate) fn address_in(&self, container: &str, interface: &str) -> String {
        let shown = format!("ip -n {container} -4 -o addr show {interface}");
        let shown = self.calls.world.sh(&shown);
        let net = shown.split_whitespace().nth(3).expect("an address");
        net.split('/').next().unwrap().to_owned()
    }
}

pub(crate) fn spoke(arguments: &str) -> String {
    format!("{}/spoke {arguments}", Plugins::MOUNT)
}

pub(crate) fn bare(address: &str) -> String {
    address.split('/').next().unwrap().to_owned()
}

/// One container of each front end; what each has no other one gets.
#[track_caller]
fn everybody_keeps_what_he_has(cidr: &str, extra: &str) {
    let shared = Shared::new(cidr, extra);
    let calls = &shared.calls;
    let (network, pool) = &shared.docker;
    let (ends, address) = match extra {
        STOCK => crate::stock::start(calls, network, pool),
        _ => calls.start(network, pool),
    };
    shared.no_other_gets(&Holder::new("Docker's container", &bare(&address)));
    let waiting = match extra {
        STOCK => calls.request_address(pool, "", &json!({})).ok(),
        _ => calls.address(pool, &Ends::new(network).mac),
    };
    let waiting = bare(waiting["Address"].as_str().unwrap());
    shared.no_other_gets(&Holder {
        is_awaited: true,
        ..Holder::new("a container that Docker starts", &waiting)
    });

    let mut cni = Cni::container(&calls.world, "has-cni");
    let list = Shared::list("ours");
    assert!(cni.add(&list).remove(0).ok());
    let of_cni = shared.address_in("has-cni", "eth0");
    shared.no_other_gets(&Holder::new("CNI's container", &of_cni));
    let free = shared.free_address();
    let (status, said) = shared.netavark("setup", "has-podman", Some(&free));
    assert_eq!(status, 0, "{said}");
    shared.no_other_gets(&Holder::new("Podman's container", &free));
    calls.world.sh(&format!("ip netns add has-cli; {}", spoke("network connect mine has-cli")));
    let of_cli = shared.address_in("has-cli", "eth0");
    shared.no_other_gets(&Holder::new("the command line's", &of_cli));

    assert!(cni.del(&list).remove(0).ok());
    assert_eq!(shared.netavark("teardown", "has-podman", Some(&free)).0, 0);
    calls.world.sh(&spoke("network disconnect mine has-cli"));
    calls.world.sh(&spoke("network rm mine"));
    calls.stop(&ends, pool, &address);
    calls.release_address(pool, &waiting).ok();
    calls.remove_network(network, pool);
    // CNI's networks are known until `gc`.
    calls.gc();
    calls.is_clean();
}

#[test]
fn everybody_keeps_his_address() {
    everybody_keeps_what_he_has("10.190.0.0/24", "");
}

#[test]
fn everybody_keeps_an_address_from_stock() {
    everybody_keeps_what_he_has("10.191.0.0/24", STOCK);
}

/// What is ready for anybody is given to the container that asks for its address, and to no other one.
#[test]
fn a_port_that_is_ready_makes_room_for_who_wants_its_address() {
    let shared = Shared::new("10.192.0.0/24", STOCK);
    let calls = &shared.calls;
    let (network, pool) = &shared.docker;
    let (ends, address) = crate::stock::start(calls, network, pool);
    crate::stock::ready(calls, network, 3);
    calls.named();
    let is_ready =
        |port: &Value| port["device_id"] == "" && port["tags"] == json!(["compute:kuryr"]);
    let ports = calls.host.ports(&calls.host.network(network));
    let ready = ports.into_iter().find(|port| is_ready(port)).expect("a port of the stock");
    let wanted = ready["fixed_ips"][0]["ip_address"].as_str().unwrap().to_owned();
    let mut cni = Cni::container(&calls.world, "c");
    cni.runtime = json!({"ips": [wanted]});
    let list = Shared::list("ours");
    let answer = cni.add(&list).remove(0);
    assert!(answer.ok(), "{answer:?}");
    calls.named();
    let port = shared.port(&wanted);
    assert_ne!(id(&port), id(&ready), "no other container may get it out of the stock");
    // Everything that is ready by now goes to containers, and this address to none of them.
    let more: Vec<_> = (0..4).map(|_| crate::stock::start(calls, network, pool)).collect();
    assert!(more.iter().all(|(_, address)| bare(address) != wanted), "{more:?}");
    shared.no_other_gets(&Holder::new("CNI's container", &wanted));
    assert!(cni.del(&list).remove(0).ok());
    for (ends, address) in more.iter().chain([&(ends, address)]) {
        calls.stop(ends, pool, address);
    }
    calls.world.sh(&spoke("network rm mine"));
    calls.remove_network(network, pool);
    calls.gc();
    calls.is_clean();
}
