//! Attachments of a runtime that completes its interfaces itself, and networks that are there before
//! their containers; each test in namespaces of its own that end with its threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;

use std::os::fd::{AsFd, AsRawFd};

use bed::*;
use engine::port::{Driver, HostDataplane, Presence, Stray};
use linux::identity::{GROUP, Identity};
use linux::{Life, Linux};
use model::*;
use netlink::{At, Netns, Socket};

fn link(name: &IfName) -> Option<netlink::Link> {
    Socket::route().unwrap().link(At::Name(name)).unwrap()
}

/// As libnetwork moves, names and addresses an interface.
fn take(one: &Container, guest: &IfName) {
    run(&format!("ip link set {guest} netns {} name eth7", one.netns()));
    one.run("ip address add 10.88.0.2/24 dev eth7; ip link set eth7 up");
}

/// As libnetwork gives it back.
fn give_back(one: &Container, guest: &IfName) {
    let home = Netns::current().unwrap();
    one.run(&format!(
        "ip link set eth7 down; ip link set eth7 name {guest}
         ip link set {guest} netns /proc/{}/fd/{}",
        std::process::id(),
        home.as_fd().as_raw_fd()
    ));
}

#[test]
fn a_runtime_completes_its_interface_itself() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let (one, other) = (Container::new(), Container::new());
        let mut first = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        first.handoff = Handoff::Caller;
        first.runtime = Runtime::Docker;
        first.sandbox = Some(Sandbox { path: "/not/there/yet".into(), inode: 0 });
        first.wiring.link.as_mut().unwrap().mtu = Mtu::new(1400);
        let second = attachment("other", bridge(), "10.88.0.3/24", &other.sandbox);
        linux.attach(&second).unwrap();
        let became = linux.attach(&first).unwrap();

        let guest = became.interfaces.last().unwrap();
        assert_eq!(guest.place, InterfaceNamespace::Host);
        assert_eq!(guest.name, Identity::of(&first.id).guest_link().unwrap());
        assert_eq!(guest.mac, linux.hardware_address(&first));
        assert!(became.routes.is_empty(), "Docker makes the default route");
        let there = link(&guest.name).unwrap();
        assert_eq!((there.mac, there.mtu, there.group), (guest.mac, 1400, GROUP));
        assert!(!there.flags.is_up() && there.peer_netns.is_none());
        assert!(run(&format!("ip -d link show {}", guest.name)).contains("numtxqueues 1 "));
        let host = link(&became.interfaces[1].name).unwrap();
        assert!(host.flags.is_up() && host.port.is_some() && host.mtu == 1400);
        linux.check(&first, &became).unwrap();
        assert_eq!(linux.presence(&first), Presence::Doubtful);

        take(&one, &guest.name);
        one.run("ping -c1 -W2 10.88.0.3; ping -c1 -W2 10.88.0.1");
        linux.check(&first, &became).unwrap();
        assert_eq!(linux.presence(&first), Presence::Alive);
        give_back(&one, &guest.name);
        assert_eq!(linux.presence(&first), Presence::Doubtful);
        linux.check(&first, &became).unwrap();
        for _ in 0..2 {
            linux.detach(&first).unwrap();
        }
        assert!(link(&guest.name).is_none() && link(&host.name).is_none());
        assert_eq!(linux.presence(&first), Presence::Gone);
        assert!(linux.check(&first, &became).is_err());

        // Again, and this time it goes while the container has it.
        linux.attach(&first).unwrap();
        take(&one, &guest.name);
        linux.detach(&first).unwrap();
        assert!(!one.run("ip -br link").contains("eth7"));
        first.phase = Phase::Reserved;
        assert_eq!(linux.presence(&first), Presence::Doubtful);
    });
}

#[test]
fn pairs_in_no_container_are_garbage() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let mut first = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        first.handoff = Handoff::Caller;
        let became = linux.attach(&first).unwrap();
        assert_eq!(linux.strays(&|| Ok(vec![first.clone()])).unwrap(), []);
        let links = |linux: &Linux| {
            let strays = linux.strays(&|| Ok(Vec::new())).unwrap();
            strays
                .into_iter()
                .filter(|(stray, _)| matches!(stray, Stray::Link(_)))
                .collect::<Vec<_>>()
        };
        let pair = Stray::Link(became.interfaces[1].name.clone());
        assert_eq!(links(&linux), [(pair.clone(), Presence::Gone)]);
        take(&one, &became.interfaces[2].name);
        assert_eq!(linux.strays(&|| Ok(vec![first.clone()])).unwrap(), []);
        assert_eq!(links(&linux), [(pair.clone(), Presence::Alive)]);
        linux.remove_stray(&pair).unwrap();
        assert_eq!(links(&linux), []);
    });
}

#[test]
fn we_complete_what_docker_lets_us() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let mut first = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        first.id.ifname = "eth".parse().unwrap();
        first.runtime = Runtime::Docker;
        first.wiring.link.as_mut().unwrap().name = Some("web7".parse().unwrap());
        let parameter = Sysctl { path: "net/ipv4/conf/web7/forwarding".into(), value: "1".into() };
        first.wiring.tuning = Some(Tuning { sysctls: vec![parameter], ..Tuning::default() });
        let became = linux.attach(&first).unwrap();
        let last = became.interfaces.last().unwrap();
        assert_eq!((last.name.as_str(), last.place), ("web7", InterfaceNamespace::Sandbox));
        assert!(!one.run("ip route").contains("default"), "Docker makes the default route");
        assert_eq!(one.run("cat /proc/sys/net/ipv4/conf/web7/forwarding").trim(), "1");
        linux.check(&first, &became).unwrap();
        assert_eq!(linux.presence(&first), Presence::Alive);
        linux.detach(&first).unwrap();
        assert!(!one.run("ip -br link").contains("web7"));

        first.runtime = Runtime::Cni;
        linux.attach(&first).unwrap();
        assert!(one.run("ip route").contains("default via 10.88.0.1"));
        linux.detach(&first).unwrap();
    });
}

#[test]
fn a_worker_takes_its_driver_along() {
    fn sendable<T: Send>(_: &T) {}
    sendable(&Linux::new(Life::Long));
}

/// As Docker Engine 29 programs a container on two networks: one serves IPv4, the other IPv6.
#[test]
fn two_attachments_share_a_port_by_family() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let ports = |network: &str, address: &str| {
            let mut ports = attachment("one", bridge(), address, &one.sandbox);
            ports.id.network = network.parse().unwrap();
            ports.layer = Layer::Publish;
            let behind = Some("br0".parse().unwrap());
            let publish = Some(Publish { behind, ..published(8080) });
            ports.wiring = Wiring { publish, ..Wiring::default() };
            ports
        };
        run("ip link add br0 up type bridge");
        let (v4, v6) = (ports("a", "10.88.0.2/24"), ports("b", "fd00:88::2/64"));
        linux.attach(&v4).unwrap();
        linux.attach(&v6).unwrap();
        let other = ports("b", "10.88.0.3/24");
        assert_eq!(linux.attach(&other).unwrap_err().kind(), Kind::Conflict);
        linux.detach(&v4).unwrap();
        linux.attach(&other).unwrap();
        linux.check(&v6, &Attached::default()).unwrap();
        linux.check(&other, &Attached::default()).unwrap();
        linux.detach(&other).unwrap();
        linux.check(&v6, &Attached::default()).unwrap();
        linux.detach(&v6).unwrap();
        assert!(!run("nft list ruleset").contains("8080"));
    });
}

#[test]
fn only_ports_of_bridges_are_handed_over() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        for kind in [LinkKind::Ptp(Ptp::default()), LinkKind::Loopback] {
            let mut first = attachment("one", kind, "10.88.0.2/24", &one.sandbox);
            first.handoff = Handoff::Caller;
            assert_eq!(linux.attach(&first).unwrap_err().kind(), Kind::Unsupported);
        }
    });
}

fn several_subnets(kind: LinkKind) -> Network {
    let pool = |index: u8, subnets: &[(&str, Option<&str>)]| {
        let range = |(subnet, gateway): &(&str, Option<&str>)| {
            let subnet: IpNet = subnet.parse().unwrap();
            let first = first_host(&subnet).unwrap();
            let gateway = gateway.map(|gateway| gateway.parse().unwrap());
            Range::new(subnet, first, first, gateway).unwrap()
        };
        Pool {
            id: PoolId { network: "front".parse().unwrap(), index },
            space: Space::Host,
            ranges: subnets.iter().map(range).collect(),
            order: Order::LowestFree,
        }
    };
    let v4 = pool(0, &[("10.88.0.0/24", None), ("10.89.0.0/16", Some("10.89.0.9"))]);
    let v6 = pool(1, &[("fd00:88::/64", None), ("fd00:89::/112", Some("fd00:89::9"))]);
    Network { ipam: Ipam::Book { pools: vec![v4, v6] }, ..network(kind) }
}

#[test]
fn a_network_is_up_before_its_containers() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let front = several_subnets(bridge());
        for _ in 0..2 {
            linux.up(&front).unwrap();
            let addresses = run("ip -br address show dev br0");
            for gateway in ["10.88.0.1/24", "10.89.0.9/16", "fd00:88::1/64", "fd00:89::9/112"] {
                assert!(addresses.contains(gateway), "{gateway} in {addresses}");
            }
        }
        let forwards = || run("sysctl -n net.ipv4.ip_forward");
        let before = forwards();
        let (one, other) = (Container::new(), Container::new());
        let mut first = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        let mut second = attachment("other", bridge(), "10.89.0.2/16", &other.sandbox);
        second.addresses[0].gateway = Some("10.89.0.9".parse().unwrap());
        // One that chose from the pools, and one whose addresses Docker chose.
        first.ipam = front.ipam.clone();
        second.runtime = Runtime::Docker;
        linux.attach(&first).unwrap();
        assert_eq!(
            (before.as_str(), forwards().as_str()),
            ("0\n", "1\n"),
            "with the first container"
        );
        linux.attach(&second).unwrap();
        other.run("ip route add default via 10.89.0.9");
        one.run("ping -c1 -W2 10.89.0.2; ping -c1 -W2 10.88.0.1");
        linux.detach(&first).unwrap();
        linux.detach(&second).unwrap();
        linux.remove(&front).unwrap();
        linux.remove(&front).unwrap();
        assert!(!run("ip -br link").contains("br0"));
    });
}

#[test]
fn a_foreign_bridge_is_used_as_it_is() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        run("ip link add br0 mtu 1450 type bridge; ip address add 192.0.2.1/24 dev br0
             ip address add 10.89.0.9/16 dev br0; ip link set br0 up");
        let before = run("ip address show dev br0 | grep -v valid_lft");
        let front = several_subnets(bridge());
        linux.up(&front).unwrap();
        let addresses = run("ip -br address show dev br0");
        assert!(addresses.contains("10.88.0.1/24") && addresses.contains("192.0.2.1/24"));
        let one = Container::new();
        let mut first = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        first.runtime = Runtime::Docker;
        linux.attach(&first).unwrap();
        one.run("ping -c1 -W2 10.88.0.1");
        linux.detach(&first).unwrap();
        linux.remove(&front).unwrap();
        linux.remove(&front).unwrap();
        let after = run("ip address show dev br0 | grep -v valid_lft");
        assert_eq!(without_states(&after), without_states(&before));

        let mut switch = bridge();
        if let LinkKind::Bridge(bridge) = &mut switch {
            bridge.gateway = Gateway::None;
        }
        linux.up(&several_subnets(switch)).unwrap();
        assert!(!run("ip -br address show dev br0").contains("10.88.0.1"));
    });
}

/// Without flags and states, which follow the ports.
fn without_states(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.contains("inet")).collect()
}

#[test]
fn an_internal_network_is_closed_from_the_start() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let mut front = several_subnets(bridge());
        front.wiring.firewall = Some(Firewall { egress: EgressPolicy::Internal, ..firewall() });
        linux.up(&front).unwrap();
        assert!(run("nft list set inet spoke internal").contains("\"br0\""));
        assert!(run("nft list set inet spoke inside").contains("\"br0\" . \"br0\""));
        linux.remove(&front).unwrap();
        assert!(!run("nft list ruleset").contains("br0"));
    });
}

#[test]
fn all_that_others_flushed_is_restored() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let (one, client) = (Container::new(), Container::new());
        run(&format!("ip link add out0 type veth peer name eth0 netns {}", client.netns()));
        run("ip address add 192.0.2.1/24 dev out0; ip link set out0 up");
        client.run("ip address add 192.0.2.2/24 dev eth0; ip link set eth0 up");
        let mut first = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        first.wiring.firewall = Some(firewall());
        first.wiring.publish = Some(Publish { reach: Reach::Lan, ..published(8080) });
        // As dockerd leaves it.
        let docker = "iptables-nft -P FORWARD DROP; iptables-nft -N DOCKER-USER
            iptables-nft -A DOCKER-USER -j RETURN; iptables-nft -I FORWARD -j DOCKER-USER";
        run(docker);
        linux.attach(&first).unwrap();
        one.serve(80);
        assert!(client.reaches("192.0.2.1", 8080));
        let before = run("nft -s list ruleset");
        run(&format!("nft flush ruleset; {docker}"));
        assert!(!client.reaches("192.0.2.1", 8080));
        assert!(restored(&linux, &first));
        assert!(client.reaches("192.0.2.1", 8080));
        assert!(linux.mend().unwrap(), "the guard of a host that forwards because of us");
        assert!(!linux.mend().unwrap());
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&run("nft -s list ruleset")), sorted(&before));

        // Where there is no table, none is made.
        let bare = Container::new();
        let within = Netns::open(&bare.sandbox.path).unwrap();
        let bare_linux = || Linux::new(Life::Long);
        within
            .enter(|| bare_linux().mend().map(drop).and(bare_linux().refresh_lan()).unwrap())
            .unwrap();
        assert_eq!(bare.run("nft list ruleset"), "");

        // A firewall that reloads takes rules only; what is there costs no change.
        run("nft flush chain inet spoke prerouting; nft flush chain ip filter DOCKER-USER");
        assert!(!client.reaches("192.0.2.1", 8080));
        assert!(linux.mend().unwrap());
        restored(&linux, &first);
        assert!(client.reaches("192.0.2.1", 8080));
        let mut socket = Socket::netfilter().unwrap();
        let generation = netlink::nft::generation(&mut socket).unwrap();
        assert!(!linux.mend().unwrap());
        assert!(!restored(&linux, &first));
        assert_eq!(netlink::nft::generation(&mut socket).unwrap(), generation);
        linux.detach(&first).unwrap();
    });
}

#[test]
fn ports_for_the_lan_follow_the_hosts_addresses() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let (one, client) = (Container::new(), Container::new());
        run(&format!("ip link add out0 type veth peer name eth0 netns {}", client.netns()));
        run(
            "ip address add 192.0.2.1/32 dev out0; ip link set out0 up; ip route add 192.0.2.2 via 192.0.2.1 dev out0",
        );
        client.run("ip address add 192.0.2.2/24 dev eth0; ip link set eth0 up");
        let mut first = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        first.wiring.publish = Some(Publish { reach: Reach::Lan, ..published(8080) });
        linux.attach(&first).unwrap();
        one.serve(80);
        assert!(!client.reaches("192.0.2.1", 8080));
        run("ip address add 192.0.2.1/24 dev out0");
        linux.refresh_lan().unwrap();
        assert!(client.reaches("192.0.2.1", 8080));
        let error = {
            let publish = Publish { backend: Backend::Iptables, ..published(8081) };
            first.wiring.publish = Some(Publish { reach: Reach::Local, ..publish });
            linux.attach(&first).unwrap_err()
        };
        assert_eq!(error.kind(), Kind::Unsupported);
    });
}

#[test]
fn the_old_iptables_lets_published_ports_pass() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let (one, client) = (Container::new(), Container::new());
        run(&format!("ip link add out0 type veth peer name eth0 netns {}", client.netns()));
        run("ip address add 192.0.2.1/24 dev out0; ip link set out0 up");
        client.run("ip address add 192.0.2.2/24 dev eth0; ip link set eth0 up");
        let docker = "iptables-legacy -P FORWARD DROP; iptables-legacy -N DOCKER-USER
            iptables-legacy -A DOCKER-USER -j RETURN; iptables-legacy -I FORWARD -j DOCKER-USER";
        run(docker);
        let mut first = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        first.wiring.firewall = Some(Firewall { ingress: IngressPolicy::SameBridge, ..firewall() });
        first.wiring.publish = Some(published(8080));
        linux.attach(&first).unwrap();
        one.serve(80);
        assert!(client.reaches("192.0.2.1", 8080));
        // It would drop what other isolated networks send to the port.
        assert!(!run("iptables-legacy -S").contains("ISOLATION"), "our own table isolates");
        run(&format!("iptables-legacy -F; iptables-legacy -X; {docker}"));
        assert!(!client.reaches("192.0.2.1", 8080));
        assert!(restored(&linux, &first));
        assert!(client.reaches("192.0.2.1", 8080));
        linux.detach(&first).unwrap();
        assert!(!run("iptables-legacy -S").contains("10.88.0.2"));
    });
}

/// As it did for a network that isolates, where the old tables have rules.
#[test]
fn what_version_0_1_0_isolated_by_in_the_old_tables_goes() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        run("iptables-legacy -P FORWARD DROP");
        let mut first = attachment("one", bridge(), "10.88.0.2/24", &one.sandbox);
        first.wiring.firewall = Some(Firewall { ingress: IngressPolicy::SameBridge, ..firewall() });
        linux.attach(&first).unwrap();
        let comment = |policy: &str| {
            format!("-m comment --comment \"CNI firewall plugin rules (ingressPolicy: {policy})\"")
        };
        let (own, shared) = (comment("same-bridge"), comment("same-bridge|isolated"));
        for rule in [
            "-N CNI-ISOLATION-STAGE-1".to_owned(),
            "-N CNI-ISOLATION-STAGE-2".to_owned(),
            format!("-I FORWARD {shared} -j CNI-ISOLATION-STAGE-1"),
            format!("-A CNI-ISOLATION-STAGE-1 -i br0 ! -o br0 {own} -j CNI-ISOLATION-STAGE-2"),
            format!("-A CNI-ISOLATION-STAGE-1 -i br9 ! -o br9 {own} -j CNI-ISOLATION-STAGE-2"),
            "-A CNI-ISOLATION-STAGE-1 -i br0 -p tcp -j DROP".to_owned(),
            format!("-A CNI-ISOLATION-STAGE-1 {shared} -j RETURN"),
            format!("-A CNI-ISOLATION-STAGE-2 -o br0 {shared} -j DROP"),
            format!("-A CNI-ISOLATION-STAGE-2 -o br9 {shared} -j DROP"),
        ] {
            run(&format!("iptables-legacy {rule}"));
        }
        let before = run("iptables-legacy -S");
        linux.restore_shared(&first).unwrap();
        let is_formers = |line: &&str| {
            line.starts_with("-A CNI-ISOLATION-STAGE-1 -i br0 ! -o br0 ")
                || line.starts_with("-A CNI-ISOLATION-STAGE-2 -o br0 ")
        };
        let left: Vec<&str> = before.lines().filter(|line| !is_formers(line)).collect();
        assert_eq!(before.lines().count(), left.len() + 2, "{before}");
        let after = run("iptables-legacy -S");
        assert_eq!(after.lines().collect::<Vec<_>>(), left);
        assert!(run("nft list table inet spoke").contains("br0"), "our own table isolates");
    });
}

#[test]
fn subnets_of_others_have_a_holder() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        linux.up(&several_subnets(bridge())).unwrap();
        linux.attach(&attachment("one", bridge(), "10.88.0.2/24", &one.sandbox)).unwrap();
        run("for b in br-0123456789ab docker0 podman1 lan; do ip link add $b up type bridge; done
             ip address add 172.17.0.1/16 dev docker0; ip address add 172.18.0.1/16 dev br-0123456789ab
             ip address add 10.89.1.1/24 dev podman1; ip address add 192.0.2.1/24 dev lan
             ip link add out0 type veth peer name far0; ip link set far0 up; ip link set out0 up; ip address add 198.51.100.7/24 dev out0
             ip address add fd00:5::7/64 dev out0 nodad; ip address add 169.254.1.1/16 dev out0
             ip route add default via 198.51.100.1; ip route add 10.200.0.0/16 via 198.51.100.1
             ip route add 0.0.0.0/1 via 198.51.100.1; ip route add 203.0.113.0/24 dev out0");
        let found: Vec<String> = linux::occupied()
            .unwrap()
            .into_iter()
            .map(|occupied| format!("{}: {}", occupied.net, occupied.by))
            .collect();
        assert_eq!(
            found,
            [
                "10.89.1.0/24: Podman's bridge podman1",
                "10.200.0.0/16: the route through 198.51.100.1 on out0",
                "172.17.0.0/16: Docker's bridge docker0",
                "172.18.0.0/16: Docker's bridge br-0123456789ab",
                "192.0.2.0/24: bridge lan",
                "198.51.100.0/24: interface out0",
                "203.0.113.0/24: the route on out0",
                "fd00:5::/64: interface out0",
            ]
        );
    });
}
