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
        let all = hosts(transport);
        let [a, b] = &all.hosts;
        let record = all.segment.etcdctl("get /spoke/v1/network/front");
        assert!(record.contains(r#""rules":{"ingress":"same-bridge"}"#), "{record}");
        assert!(a.spoke("network inspect front -o json").contains("same-bridge"));
        assert!(b.spoke("network inspect front -o json").contains("same-bridge"));
        all.reached_within();
        all.refused_from_others(transport);
        // A network that is not isolated is, as on one host: but not by routes that lead elsewhere.
        until_reached(&a.world, "other", &all.front[0]);
        // It reaches others.
        let open = crate::bed::address(&a.world, "open");
        until_reached(&a.world, "front", &open);
        refused(a, "front", "10.90.1.2", transport);
        published_is_reached(&all, transport);
        // A route by the other host's address on the network does not help.
        let gateway = "ip -4 -o address show dev sp-open | sed -E 's/.* inet ([0-9.]+).*/\\1/'";
        let gateway = a.sh(gateway);
        b.sh(&format!("ip -n open route replace {} via {}", all.front[0], gateway.trim()));
        refused(b, "open", &all.front[0], transport);
        a.sh("nft flush ruleset");
        until(&a.world, "nft list set inet spoke guarded_bridges | grep -q sp-front");
        until(&a.world, "nft list set inet spoke policed | grep -q sp-open");
        until(&a.world, "nft list set inet spoke guarded4 | grep -q sp-front");
        until(&a.world, "nft list set inet spoke policed | grep -q sp-same");
        all.refused_from_others("after the packet filter was flushed");
        all.reached_within();
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
