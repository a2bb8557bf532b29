//! Networks of many hosts that are isolated: who reaches whom, by VXLAN and by routes.

use crate::bed::{Host, SPOKE, Segment, until, until_reached};

/// How packets go from host to host.
const TRANSPORTS: [&str; 2] = ["vxlan", "route"];

/// Two hosts with an isolated network of both, an open one of both, and networks of the first host alone. On each
/// network a container of the same name.
struct Hosts {
    segment: Segment,
    hosts: [Host; 2],
    /// The addresses on the isolated network, by host.
    front: [String; 2],
}

/// Networks of the first host: one that is isolated and one that is not.
const OWN: [(&str, &str); 2] =
    [("same", "--subnet 10.90.1.0/24 --ingress same-bridge"), ("other", "--subnet 10.90.2.0/24")];

#[track_caller]
fn hosts(transport: &str) -> Hosts {
    let segment = Segment::new();
    let hosts = segment.cluster(["a", "b"]);
    let [a, b] = &hosts;
    let create = format!("network create --hosts all --transport {transport}");
    a.spoke(&format!("{create} --ingress same-bridge front"));
    a.spoke(&format!("{create} open"));
    let front = [a.attach("front", "front"), b.attach("front", "front")];
    for host in &hosts {
        host.attach("open", "open");
    }
    for (name, options) in OWN {
        a.spoke(&format!("network create {options} {name}"));
        a.attach(name, name);
    }
    // Docker's own, for instance.
    a.sh("ip link add foreign type bridge; ip address add 10.90.9.1/24 dev foreign; ip link set foreign up
          ip netns add foreign; ip link add f0 type veth peer name eth0 netns foreign
          ip link set f0 master foreign up; ip -n foreign link set lo up
          ip -n foreign address add 10.90.9.2/24 dev eth0; ip -n foreign link set eth0 up
          ip -n foreign route add default via 10.90.9.1");
    until_reached(&a.world, "front", &front[1]);
    until_reached(&b.world, "front", &front[0]);
    Hosts { segment, hosts, front }
}

impl Hosts {
    /// From containers of other networks on the first host to the isolated one, on either host.
    #[track_caller]
    fn refused_from_others(&self, when: &str) {
        let [a, b] = &self.hosts;
        for to in &self.front {
            for from in ["same", "open", "foreign"] {
                refused(a, from, to, when);
            }
            refused(b, "open", to, when);
        }
    }

    /// Until the packet filter of the first host is as it was.
    #[track_caller]
    fn until_guarded(&self) {
        for (set, bridge) in [
            ("guarded_bridges", "front"),
            ("bounded_bridges", "front"),
            ("guarded4", "front"),
            ("policed", "open"),
            ("policed", "same"),
        ] {
            let has = format!("nft list set inet spoke {set} | grep -q sp-{bridge}");
            until(&self.hosts[0].world, &has);
        }
    }

    #[track_caller]
    fn reached_within(&self) {
        for host in &self.hosts {
            for to in &self.front {
                until_reached(&host.world, "front", to);
            }
        }
    }
}

#[track_caller]
fn refused(host: &Host, from: &str, to: &str, when: &str) {
    let said = host.world.try_sh(&format!("ip netns exec {from} ping -q -c 1 -W 1 {to}"));
    assert_ne!(said.status, 0, "{from} of {} to {to}, {when}: {said:?}", host.name);
}

/// As docs/hosts.md has it: nothing of another isolated network, of another network of many hosts, or of a bridge of
/// others reaches its containers on any host; what is published is reached.
#[test]
fn an_isolated_network_of_many_hosts_is_reached_by_published_ports_alone() {
    for transport in TRANSPORTS {
        let mut all = hosts(transport);
        let [a, b] = &all.hosts;
        let record = all.segment.etcdctl("get /spoke/v1/network/front");
        assert!(record.contains(r#""rules":{"ingress":"same-bridge"}"#), "{record}");
        assert!(a.spoke("network inspect front -o json").contains("same-bridge"));
        assert!(b.spoke("network inspect front -o json").contains("same-bridge"));
        all.reached_within();
        all.refused_from_others(transport);
        // A network that is not isolated is, as on one host: but not by routes that lead elsewhere.
        until_reached(&a.world, "other", &all.front[0]);
        if transport == "vxlan" {
            until_reached(&a.world, "other", &all.front[1]);
        }
        // It reaches others.
        let open = crate::bed::address(&a.world, "open");
        until_reached(&a.world, "front", &open);
        refused(a, "front", "10.90.1.2", transport);
        published_is_reached(&all, transport);
        // A route by the other host's address on the network does not help.
        b.sh(&format!("ip -n open route replace {} via {}", all.front[0], gateway(a, "open")));
        refused(b, "open", &all.front[0], transport);
        // Nor does its container leave by the other host, past what holds on its own.
        b.sh(&format!("ip -n front route replace 10.90.2.2 via {}", gateway(a, "front")));
        refused(b, "front", "10.90.2.2", transport);
        until_reached(&a.world, "front", "10.90.2.2");
        a.sh("nft flush ruleset");
        all.until_guarded();
        all.refused_from_others("after the packet filter was flushed");
        all.reached_within();
        all.segment.stop_etcd();
        all.hosts[0].sh("nft flush ruleset");
        all.until_guarded();
        all.refused_from_others("after that while etcd is away");
    }
}

/// By the port of either host, also from the networks that are kept apart.
#[track_caller]
fn published_is_reached(all: &Hosts, transport: &str) {
    let [a, b] = &all.hosts;
    b.world.netns("web");
    b.spoke("network connect -p 8080:80 front web");
    b.sh("(while :; do echo hello | ip netns exec web busybox nc -l -p 80 >/dev/null || exit; done) >/dev/null 2>&1 &");
    let ask = |host: &Host, from: &str| {
        let ask = format!("ip netns exec {from} busybox nc -w 3 {} 8080 </dev/null", b.address);
        until(&host.world, &format!("{ask} | grep -q hello"));
    };
    for from in ["same", "open", "front"] {
        ask(a, from);
    }
    ask(b, "open");
    let said = a.world.try_sh(&format!(
        "ip netns exec same busybox nc -w 1 {} 80 </dev/null",
        crate::bed::address(&b.world, "web")
    ));
    assert!(!said.stdout.contains("hello"), "{transport}: {said:?}");
    b.spoke("network disconnect front web");
}

/// What a network of many hosts cannot have is refused in words.
#[test]
fn containers_of_many_hosts_are_not_kept_from_each_other() {
    let segment = Segment::new();
    let [a] = segment.cluster(["a"]);
    let said = a.refused("network create --hosts all --ingress isolated front");
    assert!(said.contains("--ingress same-bridge"), "{said}");
    until(&a.world, &format!("! {SPOKE} network inspect front 2>/dev/null"));
}

/// Rules that only a later version knows: this one does not use the network, and says so.
#[test]
fn a_network_with_rules_of_a_later_version_is_not_used() {
    let segment = Segment::new();
    let [a] = segment.cluster(["a"]);
    a.spoke("network create --hosts all --ingress same-bridge front");
    let record = segment.etcdctl("get --print-value-only /spoke/v1/network/front");
    assert!(segment.etcdctl("get /spoke/v1/ruled-vni/4097").contains("front"), "{record}");
    let later =
        record.trim().replace(r#""ingress":"same-bridge""#, r#""ingress":"same-bridge","quic":7"#);
    segment.etcdctl(&format!("put /spoke/v1/network/front '{later}'"));
    until(
        &a.world,
        &format!("{SPOKE} host ls 2>&1 | grep -q 'it has rules that this Spoke does not know'"),
    );
    a.world.netns("box");
    a.refused("network connect front box");
}

/// The address of a network's bridge on a host.
fn gateway(host: &Host, network: &str) -> String {
    let show =
        format!("ip -4 -o address show dev sp-{network} | sed -E 's/.* inet ([0-9.]+).*/\\1/'");
    host.sh(&show).trim().to_owned()
}

/// Nothing passes between an internal network and anything else, by whichever host; its containers reach each other.
#[test]
fn an_internal_network_of_many_hosts_has_no_way_out_and_none_in() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    let said = a.refused("network create --hosts all --internal --transport route inner");
    assert!(said.contains("is not routed between hosts"), "{said}");
    a.spoke("network create --hosts all --internal --transport auto inner");
    a.spoke("network create --hosts all open");
    let inner = [a.attach("inner", "inner"), b.attach("inner", "inner")];
    let open = [a.attach("open", "open"), b.attach("open", "open")];
    let has_none = |when: &str| {
        for host in [&a, &b] {
            until_reached(&host.world, "open", "192.0.2.100");
            for by in [&a, &b] {
                let gateway = gateway(by, "inner");
                host.sh(&format!("ip -n inner route replace default via {gateway}"));
                for to in open.iter().map(String::as_str).chain(["192.0.2.100"]) {
                    refused(host, "inner", to, when);
                }
            }
            for to in &inner {
                refused(host, "open", to, when);
            }
        }
    };
    until_reached(&a.world, "inner", &inner[1]);
    until_reached(&b.world, "inner", &inner[0]);
    has_none("at first");
    for host in [&a, &b] {
        host.sh("nft flush ruleset");
        until(&host.world, "nft list set inet spoke internal | grep -q sp-inner");
    }
    has_none("after the packet filter was flushed");
    until_reached(&a.world, "inner", &inner[1]);
    let said = a.refused("network create --hosts all --internal --egress none other");
    assert!(said.contains("leave out one of both"), "{said}");
}

/// A server of the segment at two ports.
#[track_caller]
fn serve(segment: &Segment) {
    for port in [7000, 7001] {
        segment.sh(&format!(
            "(while :; do echo hello | busybox nc -l -p {port} >/dev/null || exit; done) >/dev/null 2>&1 &"
        ));
    }
}

/// What egress rules allow holds on each host, for its own containers: by another host as a router nothing gets out.
#[test]
fn egress_rules_of_a_network_hold_on_all_its_hosts() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all --names --egress 192.0.2.100:7000 agents");
    serve(&segment);
    let agents = [a.attach("agents", "one"), b.attach("agents", "two")];
    let ask = |port: u16| format!("busybox nc -w 2 192.0.2.100 {port} </dev/null | grep -q hello");
    for (host, name, other) in [(&a, "one", &agents[1]), (&b, "two", &agents[0])] {
        assert!(host.spoke("egress show agents").contains("192.0.2.100:7000"));
        until_reached(&host.world, name, other);
        let inside = |command: &str| format!("ip netns exec {name} sh -c '{command}'");
        until(&host.world, &inside(&ask(7000)));
        let said = host.world.try_sh(&inside(&ask(7001)));
        assert_ne!(said.status, 0, "{said:?}");
        refused(host, name, "192.0.2.100", "no rule allows it");
    }
    crate::names::until_answered(&b.world, "two", "one.agents.spoke", &agents[0]);
    // With the other host as its router.
    b.sh(&format!("ip -n two route replace 192.0.2.100 via {}", gateway(&a, "agents")));
    let said = b.world.try_sh(&format!("ip netns exec two sh -c '{}'", ask(7000)));
    assert_ne!(said.status, 0, "{said:?}");
    let said = a.refused("egress set agents 192.0.2.100:7001");
    assert!(said.contains("is one of many hosts"), "{said}");
    let said = a.refused("network create --hosts all --egress none --transport route other");
    assert!(said.contains("is not routed between hosts"), "{said}");
}

/// With the reference plugins' chains: an isolated network of a host holds against networks of many hosts, and an isolated
/// one of these against it.
#[test]
fn isolation_holds_with_iptables() {
    let segment = Segment::new();
    let [a, b] = segment.cluster_with("[firewall]\nbackend = \"iptables\"\n", ["a", "b"]);
    a.spoke("network create --hosts all --ingress same-bridge front");
    a.spoke("network create --hosts all open");
    a.spoke("network create --subnet 10.90.1.0/24 --ingress same-bridge same");
    let same = a.attach("same", "same");
    let open = [a.attach("open", "open"), b.attach("open", "open")];
    // None of its containers is on the first host.
    let front = b.attach("front", "front");
    until(&a.world, "iptables-save | grep -q -- '-A CNI-ISOLATION-STAGE-2 -o sp-front .*DROP'");
    until(&a.world, "iptables-save | grep -q -- '-A CNI-ISOLATION-STAGE-1 -i sp-open .*STAGE-2'");
    refused(&a, "same", &front, "an isolated one of the host");
    refused(&a, "open", &front, "another one of many hosts");
    refused(&a, "open", &same, "from the same host");
    b.sh(&format!("ip -n open route replace {same} via {}", gateway(&a, "open")));
    refused(&b, "open", &same, "from another host");
    until_reached(&a.world, "same", &open[0]);
    until_reached(&a.world, "same", &open[1]);
    // What is published is reached from a network that is not isolated, as on one host.
    a.world.netns("web");
    a.spoke("network connect -p 8080:80 same web");
    a.sh("(while :; do echo hello | ip netns exec web busybox nc -l -p 80 >/dev/null || exit; done) >/dev/null 2>&1 &");
    let ask = format!("ip netns exec open busybox nc -w 3 {} 8080 </dev/null", a.address);
    until(&a.world, &format!("{ask} | grep -q hello"));
    let said = a.world.try_sh(&format!(
        "{SPOKE} network create --hosts all --egress none agents 2>&1; {SPOKE} host ls 2>&1"
    ));
    assert!(said.stdout.contains("need the nftables back end"), "{said:?}");
}

/// A host whose device to the others is a bridge: what comes by it from them is no other network's.
#[test]
fn a_routed_network_that_is_isolated_comes_by_a_bridge() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all --transport route --ingress same-bridge front");
    let [one, two] = [a.attach("front", "one"), b.attach("front", "two")];
    until_reached(&a.world, "one", &two);
    b.sh("ip link add up0 type bridge; ip link set up0 address $(cat /sys/class/net/eth0/address)
          ip address flush dev eth0; ip link set eth0 master up0; ip link set up0 up
          ip address add 192.0.2.2/24 dev up0");
    until(&b.world, "nft list set inet spoke inside | grep -q '\"up0\" . \"sp-front\"'");
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &one);
    b.spoke("network disconnect front two");
    a.spoke("network disconnect front one");
    until(&a.world, &format!("{SPOKE} network rm front 2>/dev/null"));
    until(&b.world, "! nft list set inet spoke inside 2>/dev/null | grep -q sp-front");
}
