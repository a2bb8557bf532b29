//! Networks of IPv6 alone, and hosts that reach each other by IPv6 alone.

use std::time::{Duration, Instant};

use tests::{Engine, Podman5, World};

use crate::bed::{
    Host, SPOKE, Segment, address6, join, spoke, token, until, until_equal, until_reached,
};
use crate::each_runtime::OfEachRuntime;
use crate::names::ask_at;

/// A namespace on a network without IPv4; its address.
#[track_caller]
fn attach(host: &Host, network: &str, name: &str) -> String {
    host.world.netns(name);
    host.spoke(&format!("network connect {network} {name}"));
    host.sh(&format!("! ip -n {name} -4 -o address show scope global | grep -q ."));
    address6(&host.world, name)
}

/// The largest packet that arrives has so many bytes behind its headers, and no more.
#[track_caller]
fn whole(host: &Host, name: &str, (to, bytes): (&str, u32)) {
    let ping =
        |bytes| format!("ip netns exec {name} ping -q -c 1 -W 3 -M do -s {bytes} {to} >/dev/null");
    host.sh(&ping(bytes));
    assert_ne!(host.world.try_sh(&ping(bytes + 1)).status, 0, "more than {bytes} bytes to {to}");
}

/// An address of no block goes from host to host with its container, and has one holder.
#[track_caller]
fn moves([from, to]: [&Host; 2], (watcher, name): (&Host, &str), address: &str) {
    from.world.netns("db");
    from.spoke(&format!("network connect --ip6 {address} front db"));
    until_reached(&watcher.world, name, address);
    to.world.netns("db");
    let connect = format!("network connect --ip6 {address} front db");
    let said = to.refused(&connect);
    let held = format!("address {address} of network front is held by db on host {}", from.name);
    assert!(said.contains(&held), "{said}");
    from.spoke("network disconnect front db");
    to.spoke(&connect);
    let mac = to.sh("ip netns exec db cat /sys/class/net/eth0/address");
    let known = format!("ip netns exec {name} ip -6 neigh show {address} | grep -q {}", mac.trim());
    until(&watcher.world, &known);
    watcher.sh(&format!("ip netns exec {name} ping -q -c 1 -W 3 {address}"));
    to.spoke("network disconnect front db");
    for host in [from, to] {
        host.sh("ip netns del db");
    }
}

/// Each host has a block of the IPv6 subnet, over an underlay of IPv4 as well.
#[test]
fn a_network_of_ipv6_alone() {
    let segment = Segment::new();
    let [a, b, c] = segment.cluster(["a", "b", "c"]);
    a.spoke("network create --hosts all --names --subnet fd00:8::/64 front");
    let record = segment.etcdctl("get /spoke/v1/network/front");
    assert!(record.contains(r#""subnet":"fd00:8::/64","block":72"#), "{record}");
    let [_, two, three] =
        [(&a, "one"), (&b, "two"), (&c, "three")].map(|(host, name)| attach(host, "front", name));
    for (host, name) in [(&a, "a"), (&b, "b"), (&c, "c")] {
        until_equal(&segment, &host.world, "front", name, 4);
    }
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &three);
    whole(&a, "one", (&two, 1402));
    moves([&a, &b], (&c, "three"), "fd00:8::c800:0:0:7");
    segment.until_gone("/pin/");
    // One of b's block.
    a.world.netns("other");
    let said = a.refused(&format!("network connect --ip6 {two} front other"));
    assert!(said.contains("is held by") && said.contains("two on host b"), "{said}");
    until(&a.world, &format!("{SPOKE} host check"));
    let said = a.spoke("host rtt");
    assert!(said.lines().filter(|line| line.contains("front")).count() == 2, "{said}");
    // The gateway of a host answers for names of the others.
    let route = a.sh("ip -n one -6 route show default");
    let gateway = route.split_whitespace().nth(2).expect("a default route");
    let begun = Instant::now();
    while ask_at(&a.world, "one", gateway, "two.front.spoke AAAA") != two {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", a.world.logs());
    }
    for (subnet, why) in [
        ("fd00:8:0:0:1::/80", "overlaps fd00:8::/64"),
        ("fd00:9::/126", "a block of fd00:9::/126 is"),
        ("fe80::/64", "has no addresses that hosts give"),
    ] {
        let said = b.refused(&format!("network create --hosts all --subnet {subnet} back"));
        assert!(said.contains(why), "{said}");
    }
    b.spoke("network create --hosts all --transport route --subnet fd00:9::/112 back");
    let (four, five) = (attach(&a, "back", "four"), attach(&b, "back", "five"));
    until_reached(&a.world, "four", &five);
    until_reached(&b.world, "five", &four);
    whole(&a, "four", (&five, 1452));
}

/// VXLAN over IPv6, for networks of each family; strangers are kept out.
#[test]
fn hosts_reach_each_other_by_ipv6() {
    let mut segment = Segment::bare_v6();
    segment.start_etcd();
    let [a, b, c] = segment.cluster(["a", "b", "c"]);
    let ls = a.spoke("host ls");
    assert!(ls.contains(" 2001:db8::1 ") && ls.contains(" 2001:db8::3 "), "{ls}");
    a.spoke("network create --hosts all --subnet fd00:8::/64 front");
    a.spoke("network create --hosts all both");
    let [_, two, three] =
        [(&a, "one"), (&b, "two"), (&c, "three")].map(|(host, name)| attach(host, "front", name));
    let [_, five] = [(&a, "four"), (&b, "five")].map(|(host, name)| host.attach("both", name));
    for (host, name) in [(&a, "a"), (&b, "b"), (&c, "c")] {
        until_equal(&segment, &host.world, "front", name, 4);
    }
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &three);
    until_reached(&a.world, "four", &five);
    whole(&a, "one", (&two, 1382));
    whole(&a, "four", (&five, 1402));
    moves([&a, &b], (&c, "three"), "fd00:8::c800:0:0:7");
    refused(&a);
    // By the address of the host itself, and by the network.
    until(&a.world, &format!("{SPOKE} host check"));
    a.sh(&format!("! {SPOKE} host rtt | grep -q ' - '"));
    strangers_are_dropped(&segment, &a);
    b.spoke("network create --hosts all --transport route --subnet fd00:9::/64 back");
    let (six, seven) = (attach(&a, "back", "six"), attach(&b, "back", "seven"));
    until_reached(&a.world, "six", &seven);
    until_reached(&b.world, "seven", &six);
    whole(&a, "six", (&seven, 1452));
    let routes = a.spoke("host routes -o frr");
    assert!(routes.contains("2001:db8::2"), "{routes}");
    // A host with IPv4 alone is no host that these reach.
    let d = segment.host("d", 4);
    d.sh("ip address add 192.0.2.4/24 dev eth0");
    let said = d.refused(&format!("host join --name d --address 192.0.2.4 {}", token(&a.world)));
    assert!(said.contains("reach each other by IPv6, not by IPv4"), "{said}");
    join(&a.world, &d.world, "d");
    let eight = attach(&d, "front", "eight");
    until_reached(&a.world, "one", &eight);
}

/// What cannot be had between such hosts.
#[track_caller]
fn refused(host: &Host) {
    for (options, why) in [
        ("--encrypt", "not encrypted between hosts that reach each other by IPv6"),
        ("--transport route", "it has addresses of IPv4, and 2001:db8::1 is none"),
        ("--mtu 1431", "has 1500, of which VXLAN takes 70"),
        ("--subnet 2001:db8::/48", "has the address 2001:db8::1 of host a"),
    ] {
        let said = host.refused(&format!("network create --hosts all {options} none"));
        assert!(said.contains(why), "{said}");
    }
}

#[track_caller]
fn strangers_are_dropped(segment: &Segment, a: &Host) {
    let members = "nft list set ip6 spoke_overlay members";
    a.sh(&format!("{members} | grep -q 2001:db8::2 && ! {members} | grep -q 2001:db8::9"));
    let (stranger, one) = (segment.host("x", 9), address6(&a.world, "one"));
    let mac = a.sh("ip netns exec one cat /sys/class/net/eth0/address");
    stranger.sh(&format!(
        "ip link add vx type vxlan id 4097 local {} remote {} dstport 4789
         ip address add fd00:8::9:9/64 dev vx nodad; ip link set vx up
         ip neigh replace {one} lladdr {} dev vx nud permanent",
        stranger.address,
        a.address,
        mac.trim()
    ));
    let count = "ip netns exec one awk '$1 == \"Icmp6InEchos\" { print $2 }' /proc/net/snmp6";
    let before = a.sh(count);
    let said = stranger.world.try_sh(&format!("ping -q -c 3 -i 0.2 -W 1 {one}"));
    assert_ne!(said.status, 0, "{said:?}");
    assert_eq!(a.sh(count), before, "what a stranger sent has come to a container");
}

/// The cluster's own etcd, with three servers; the host finds its address by itself.
#[test]
fn an_etcd_of_its_own_by_ipv6() {
    let segment = Segment::bare_v6();
    let [a, b, c] = [("a", 1), ("b", 2), ("c", 3)].map(|(name, at)| segment.host(name, at));
    a.spoke("host init --name a");
    for host in [&b, &c] {
        join(&a.world, &host.world, host.name);
    }
    until(&c.world, &format!("[ $({SPOKE} host ls | grep -c ' server$') = 3 ]"));
    for host in [&a, &b, &c] {
        let three = "[ $(grep -o https: /var/lib/spoke/hosts/member.json | wc -l) = 3 ]";
        until(&host.world, three);
        host.sh("grep -q 'https://\\[2001:db8::2\\]:23790' /var/lib/spoke/hosts/member.json");
    }
    a.spoke("network create --hosts all --subnet fd00:8::/64 front");
    let (_, three) = (attach(&a, "front", "one"), attach(&c, "front", "three"));
    until_reached(&a.world, "one", &three);
    // One server is lost: the others go on, and it comes back.
    a.sh("kill -9 $(pidof etcd)");
    let made = "network create --hosts all --subnet fd00:9::/64 back";
    until(&b.world, &format!("{SPOKE} {made} || {SPOKE} network ls | grep -q '^back '"));
    until(&a.world, "pidof etcd");
    let ls = format!("{SPOKE} host ls 2>&1");
    until(&c.world, &format!("{SPOKE} host remove c || {ls} | grep -q 'in no cluster'"));
    until(&b.world, &format!("! {SPOKE} host ls | grep -q '^c '"));
}

/// Docker, Podman and CNI each on a host of its own; Docker knows networks without IPv4 from version 28 on.
#[test]
fn each_runtime_has_a_network_of_ipv6_alone() {
    let segment = Segment::new();
    let Some(OfEachRuntime { mut engine, podman, cni, serves }) = OfEachRuntime::new(&segment)
    else {
        return;
    };
    engine.start(&[]);
    engine.import();
    let create = "network create --hosts all --in docker,podman,cni --ipv4=false";
    cni.sh(&format!("{SPOKE} {create} --subnet fd00:64::/64 front"));
    if !engine.docker("version -f {{.Server.Version}}").starts_with("20.") {
        both(&engine, &podman, &cni);
    }
    podman.run("api", "--network front", "");
    let netns = cni.netns("box");
    cni.sh(&format!("CNI_PATH=/opt/cni/bin {SPOKE} cni add front {netns}"));
    let api = podman.endpoint("api", "front");
    assert_eq!(api["IPAddress"].as_str().unwrap_or_default(), "", "{api}");
    let api = api["GlobalIPv6Address"].as_str().expect("a text").to_owned();
    until_reached(&cni, "box", &api);
    let boxed = address6(&cni, "box");
    podman.podman(&format!("exec api /bin/busybox ping -c 1 -W 3 {boxed}"));
    // An exact address goes from one runtime to the other.
    podman.run("fixed", "--network front --ip6 fd00:64::c800:0:0:9", "");
    until_reached(&cni, "box", "fd00:64::c800:0:0:9");
    podman.podman("rm -f -t 0 fixed api");
    cni.sh(&format!("CNI_PATH=/opt/cni/bin {SPOKE} cni del front {netns}"));
    segment.until_gone("/pin/");
    until(&cni, &format!("{SPOKE} network rm front"));
    // By Podman's own command.
    podman.podman("network create -d spoke -o hosts=all --subnet fd00:65::/64 back");
    let record = segment.etcdctl("get /spoke/v1/network/back");
    assert!(record.contains(r#""subnet":"fd00:65::/64""#), "{record}");
    spoke(&cni, "network rm back");
    drop(serves);
}

/// By the API, and by Docker's own command.
#[track_caller]
fn both(engine: &Engine, podman: &Podman5, cni: &World) {
    engine.docker("run -d --name web --network front busybox /bin/sleep 3600");
    let web = engine.endpoint("web", "front");
    assert_eq!(web["IPAddress"].as_str().unwrap_or_default(), "", "{web}");
    let web = web["GlobalIPv6Address"].as_str().expect("a text").to_owned();
    assert!(web.starts_with("fd00:64:"), "{web}");
    cni.netns("asks");
    spoke(cni, "network connect front asks");
    until_reached(cni, "asks", &web);
    let asks = address6(cni, "asks");
    engine.docker(&format!("exec web ping -c 1 -W 3 {asks}"));
    let run =
        "run -d --name fixed --network front --ip6 fd00:64::c800:0:0:9 busybox /bin/sleep 3600";
    engine.docker(run);
    until_reached(cni, "asks", "fd00:64::c800:0:0:9");
    let said = podman.run_refused("--network front --ip6 fd00:64::c800:0:0:9");
    assert!(said.contains("is held by") && said.contains("on host docker"), "{said}");
    engine.docker("rm -f fixed web");
    spoke(cni, "network disconnect front asks");
    engine.docker(
        "network create -d spoke --ipam-driver spoke -o hosts=all --ipv4=false --ipv6 --subnet fd00:66::/64 own",
    );
    engine.docker("run -d --name early --network own busybox /bin/sleep 3600");
    let early = engine.endpoint("early", "own");
    assert!(
        early["GlobalIPv6Address"].as_str().expect("a text").starts_with("fd00:66:"),
        "{early}"
    );
    engine.docker("rm -f early");
    until(cni, &format!("{SPOKE} network rm own"));
}
