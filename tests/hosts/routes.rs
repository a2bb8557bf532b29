//! Networks without encapsulation: the hosts share a segment, and each routes to the blocks of the others.

use tests::{Plugins, World};

use crate::bed::{Host, SPOKE, Segment, address6, join, spoke, until, until_reached};
use crate::each_runtime::{OfEachRuntime, web_api_box};

/// Echo requests that a container has received.
fn heard(host: &Host, name: &str) -> String {
    host.sh(&format!(
        "ip netns exec {name} awk '/^Icmp:/ {{ if (at) print $at; \
         for (i = 1; i <= NF; i++) if ($i == \"InEchos\") at = i }}' /proc/net/snmp"
    ))
}

#[track_caller]
fn connect(host: &Host, name: &str, address: &str) {
    host.world.netns(name);
    let connect = format!("{SPOKE} network connect --ip {address} front {name}");
    until(&host.world, &format!("{connect} 2>/dev/null"));
}

/// Containers of three hosts have the whole MTU of the segment and their own addresses. A stranger does not reach
/// them, by what it knows of routes and addresses; what is published it does.
#[test]
fn hosts_of_one_segment_route_to_each_other() {
    let segment = Segment::new();
    let [mut a, b, c] = segment.cluster(["a", "b", "c"]);
    let create = "network create --hosts all --ipv6 --subnet fd00:64::/64";
    let said = a.refused(&format!("{create} --transport route --encrypt front"));
    assert!(said.contains("cannot be encrypted"), "{said}");
    let said = a.refused(&format!("{create} --transport route --mtu 1501 front"));
    assert!(said.contains("MTU 1501 does not fit: the device with 192.0.2.1 has 1500"), "{said}");
    a.spoke(&format!("{create} --transport auto front"));
    let record = segment.etcdctl("get /spoke/v1/network/front");
    assert!(record.contains("\"transport\":\"route\"") && record.contains("1500"), "{record}");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    let three = c.attach("front", "three");
    let hosts = [(&a, "one"), (&b, "two"), (&c, "three")];
    let six = hosts.map(|(host, name)| address6(&host.world, name));
    for (host, name) in hosts {
        for to in [&one, &two, &three].into_iter().chain(&six) {
            until_reached(&host.world, name, to);
        }
        host.sh("! ip link show type vxlan | grep -q .");
    }
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 3 -M do -s 1472 {two}"));
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 3 -M do -s 1452 {}", six[1]));
    // The host itself is one of the network's too.
    c.sh(&format!("ping -q -c 1 -W 3 {two}; ping -q -c 1 -W 3 {}", six[1]));
    said_where_from(&a, (&b, &two), &one);
    routers_read_what_is_exported(&a, &segment.block("front", "b"));
    // Routes of a network do not clash with it.
    a.sh("! grep -q '\"event\":\"clash\"' /run/spoke/events");
    let table = a.sh("nft -t list table inet spoke_routes");
    let said: Vec<&str> = lines(&table).collect();
    assert_eq!(
        said,
        lines(include_str!("../../crates/overlay/src/route/routes.nft")).collect::<Vec<_>>()
    );
    strangers_are_kept_out(&segment, &mut a, (&one, &two));
    let said = a.spoke("host check");
    assert!(said.contains("1500"), "{said}");
    // What is changed by hand is as it was.
    for (family, route) in [("-4", segment.block("front", "b")), ("-6", "fd00:64:".to_owned())] {
        c.sh(&format!("ip {family} route flush proto 83"));
        until(&c.world, &format!("ip {family} route show proto 83 | grep -q '^{route}'"));
    }
    c.sh("ip -6 neigh flush proxy dev sp-front 2>/dev/null || true; sysctl -qw net.ipv4.conf.sp-front.proxy_arp=0");
    until_reached(&c.world, "three", &six[0]);
    until(&c.world, "[ $(sysctl -n net.ipv4.conf.sp-front.proxy_arp) = 1 ]");
    for (host, name) in [(&a, "one"), (&b, "two"), (&c, "three")] {
        host.spoke(&format!("network disconnect front {name}"));
    }
    until(&a.world, &format!("{SPOKE} network rm front 2>/dev/null"));
    for host in [&a, &b, &c] {
        until(&host.world, "! nft list table inet spoke_routes >/dev/null 2>&1");
        host.sh("[ -z \"$(ip route show proto 83; ip -6 route show proto 83)\" ]");
    }
}

/// The lines of a ruleset, without comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// FRR and BIRD themselves say whether they understand it.
#[track_caller]
fn routers_read_what_is_exported(a: &Host, block: &str) {
    a.sh(&format!(
        "{SPOKE} host routes -o frr >/world/frr; {SPOKE} host routes -o bird >/world/bird"
    ));
    a.sh("vtysh --dryrun -f /world/frr; bird -p -c /world/bird");
    let (frr, bird) = (a.sh("cat /world/frr"), a.sh("cat /world/bird"));
    assert!(frr.contains(&format!("\nip route {block} 192.0.2.2\n")), "{frr}");
    assert!(bird.contains(&format!("\troute {block} via 192.0.2.2;")), "{bird}");
    let v6 = |line: &&str| line.starts_with("ipv6 route fd00:64:") && line.ends_with(" eth0");
    assert_eq!(frr.lines().filter(v6).count(), 3, "{frr}");
    assert_eq!(bird.matches("via fe80::").count(), 3, "{bird}");
    let said = a.spoke("host routes");
    assert!(said.contains(block) && said.contains("192.0.2.2"), "{said}");
    let said = a.refused("host ls -o frr");
    assert!(said.contains("only `spoke host routes` writes for frr or bird"), "{said}");
}

/// What is sent between hosts has the container's own address.
#[track_caller]
fn said_where_from(from: &Host, (to, address): (&Host, &str), source: &str) {
    let server = "import socket; s=socket.create_server((str(), 7000)); print(1, flush=True); \
        print(s.accept()[1][0], flush=True)";
    to.sh(&format!("ip netns exec two timeout 60 python3 -c '{server}' >/world/seen 2>&1 &"));
    until(&to.world, "grep -q 1 /world/seen");
    from.sh(&format!("ip netns exec one busybox nc -w 3 {address} 7000 </dev/null"));
    until(&to.world, &format!("grep -qx {source} /world/seen"));
}

/// A machine behind a device of this host that is not the one to the other hosts.
fn beside(host: &Host) {
    host.world.netns("beside");
    host.sh("ip link add beside type veth peer name eth0 netns beside
        ip address add 198.51.100.1/24 dev beside; ip link set beside up
        ip -n beside address add 198.51.100.2/24 dev eth0; ip -n beside link set eth0 up
        ip -n beside route add default via 198.51.100.1
        ip netns exec beside ping -q -c 1 -W 3 198.51.100.1");
}

#[track_caller]
fn strangers_are_kept_out(segment: &Segment, a: &mut Host, (one, two): (&str, &str)) {
    let x = World::new(&Plugins::subject());
    segment.plug(&x, 9);
    // It knows the way, and the address of a container of another host.
    x.sh(&format!("ip route add 10.64.0.0/16 via {}; ip address add {two}/32 dev eth0", a.address));
    let before = heard(a, "one");
    for from in ["192.0.2.9", two] {
        let said = x.try_sh(&format!("ping -q -c 2 -i 0.2 -W 1 -I {from} {one}"));
        assert_ne!(said.status, 0, "{said:?}");
    }
    // Nor one behind another device of this host, which the host would route to its containers.
    beside(a);
    let said = a.world.try_sh(&format!("ip netns exec beside ping -q -c 2 -i 0.2 -W 1 {one}"));
    assert_ne!(said.status, 0, "{said:?}");
    // Nor does a container of another network, which the host would let out under its own name.
    a.spoke("network create --subnet 10.201.7.0/24 private");
    a.attach("private", "mallory");
    let said = a.world.try_sh(&format!("ip netns exec mallory ping -q -c 1 -W 1 {two}"));
    assert_ne!(said.status, 0, "{said:?}");
    assert_eq!(heard(a, "one"), before, "what a stranger sent has come to a container");
    // What is published is for everybody, as elsewhere.
    a.world.netns("web");
    a.spoke("network connect --publish 8080:7000 front web");
    let server = "import socket; s=socket.create_server((str(), 7000)); print(1, flush=True)
while True: s.accept()[0].close()";
    a.sh(&format!("ip netns exec web timeout 120 python3 -c '{server}' >/world/web 2>&1 &"));
    until(&a.world, "grep -q 1 /world/web");
    x.sh(&format!("busybox nc -w 3 {} 8080 </dev/null", a.address));
    a.spoke("network disconnect front web");
    // It is the table that keeps strangers out; the daemon would put it back at once.
    a.kill();
    a.sh("nft delete table inet spoke_routes");
    x.sh(&format!("ping -q -c 1 -W 1 -I 192.0.2.9 {one} || true"));
    assert_ne!(heard(a, "one"), before, "the packets do not come at all");
    let before = heard(a, "one");
    a.sh(&format!("ip netns exec beside ping -q -c 1 -W 1 {one} || true"));
    assert_ne!(heard(a, "one"), before, "those from beside do not come at all");
    a.sh("ip link del beside");
    a.start();
    let is_back = "nft list set inet spoke_routes sources4 2>/dev/null | grep -q 10.64";
    until(&a.world, is_back);
    let healed = (0..10).map(|_| {
        let begin = std::time::Instant::now();
        a.sh("nft delete table inet spoke_routes");
        until(&a.world, is_back);
        begin.elapsed()
    });
    // By the kernel's event: the comparison comes every three seconds, at a moment of chance.
    let mut healed: Vec<_> = healed.collect();
    healed.sort();
    assert!(healed[2] < std::time::Duration::from_secs(1), "{healed:?}");
    until_reached(&a.world, "one", two);
}

/// An address goes from host to host, also out of a block; what comes from a host that is lost is not taken, and
/// nothing leads to it, until it is back.
#[test]
fn addresses_move_and_hosts_are_lost() {
    let segment = Segment::new();
    let [a, mut b, c] = segment.cluster_with("[hosts]\ntakeover_seconds = 1\n", ["a", "b", "c"]);
    a.spoke("network create --hosts all --transport route --ipv6 --subnet fd00:64::/64 front");
    let (three, free) = (c.attach("front", "three"), "10.64.200.7");
    let near = a.attach("front", "near");
    address6_moves(&a, &b, &c);
    let own = a.attach("front", "own");
    a.spoke("network disconnect front own");
    a.sh("ip netns del own");
    for address in [free, &own] {
        for (from, to) in [(None, &a), (Some(&a), &b), (Some(&b), &a), (Some(&a), &b)] {
            if let Some(from) = from {
                from.spoke("network disconnect front db");
                from.sh("ip netns del db");
            }
            connect(to, "db", address);
            until_reached(&c.world, "three", address);
            until_reached(&to.world, "db", &three);
        }
        b.spoke("network disconnect front db");
        b.sh("ip netns del db");
    }
    connect(&b, "db", free);
    let two = b.attach("front", "two");
    until_reached(&c.world, "three", &two);
    until_reached(&b.world, "two", &near);
    let (block, route) = (segment.block("front", "b"), "ip route show proto 83");
    b.kill();
    until(&c.world, &format!("! {route} | grep -qF '{block}'"));
    let before = heard(&c, "three");
    b.sh(&format!("ip netns exec two ping -q -c 2 -i 0.2 -W 1 {three} || true"));
    assert_eq!(heard(&c, "three"), before, "c takes what a host sends that is gone");
    // Its address is another's by now.
    connect(&a, "db", free);
    until_reached(&c.world, "three", free);
    b.start();
    until_reached(&c.world, "three", &two);
    until(&b.world, "! ip -n db link show eth0 >/dev/null 2>&1");
    c.sh(&format!("ip netns exec three ping -q -c 1 -W 3 {free}"));
}

/// What containers of every host have learnt of it is corrected.
#[track_caller]
fn address6_moves(a: &Host, b: &Host, c: &Host) {
    let free = "fd00:64::c800:0:0:7";
    for host in [a, b, a] {
        host.world.netns("six");
        until(&host.world, &format!("{SPOKE} network connect --ip6 {free} front six 2>/dev/null"));
        until_reached(&c.world, "three", free);
        until_reached(&a.world, "near", free);
        host.spoke("network disconnect front six");
        host.sh("ip netns del six");
    }
}

/// A network that is on a host still, and should not be, is closed to strangers: without its label, while nothing is
/// heard after a start, and after the host has left the cluster.
#[test]
fn what_is_still_here_is_closed() {
    let mut segment = Segment::new();
    let [mut a, b] = segment.cluster(["a", "b"]);
    a.spoke("host label a zone=eu");
    a.spoke("host label b zone=eu");
    a.spoke("network create --hosts zone=eu --transport route front");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&b.world, "two", &one);
    until_reached(&a.world, "one", &two);
    let x = World::new(&Plugins::subject());
    segment.plug(&x, 9);
    x.sh(&format!("ip route add 10.64.0.0/16 via {}", a.address));
    let closed = "nft list set inet spoke_routes bridges 2>/dev/null | grep -q sp-front";
    a.spoke("host label a --remove zone");
    until(&a.world, &format!("{closed} && [ -z \"$(ip route show proto 83)\" ]"));
    let before = heard(&a, "one");
    let asks = format!("ping -q -c 2 -i 0.2 -W 1 {one}");
    assert_ne!(x.try_sh(&asks).status, 0);
    assert_eq!(heard(&a, "one"), before, "a network without its host's label is open");
    a.sh(&format!("ping -q -c 1 -W 3 {one}"));
    // The host starts anew while etcd is away: without the table its containers would be reached.
    segment.stop_etcd();
    a.kill();
    a.sh("nft delete table inet spoke_routes");
    let before = heard(&a, "one");
    x.sh(&format!("{asks} || true"));
    assert_ne!(heard(&a, "one"), before, "the packets do not come at all");
    a.start();
    until(&a.world, closed);
    let before = heard(&a, "one");
    assert_ne!(x.try_sh(&asks).status, 0);
    segment.start_etcd();
    until(&a.world, &format!("! {SPOKE} host ls 2>&1 | grep -q 'not heard of: '"));
    a.spoke("host remove a");
    until(&a.world, &format!("{SPOKE} host ls 2>&1 | grep -q 'in no cluster'"));
    a.sh(closed);
    assert_ne!(x.try_sh(&asks).status, 0);
    assert_eq!(heard(&a, "one"), before, "a network of an earlier cluster is open");
    a.spoke("network disconnect front one");
    a.spoke("network rm front");
    a.kill();
    a.start();
    until(&a.world, "! nft list table inet spoke_routes >/dev/null 2>&1");
}

/// Whether hosts share a segment is seen where the network is declared, and on each of its hosts.
#[test]
fn routes_are_for_one_segment() {
    let segment = Segment::new();
    let [a] = segment.cluster(["a"]);
    let far = segment.host("far", 8);
    far.sh("ip address del 192.0.2.8/24 dev eth0; ip address add 192.0.2.8/29 dev eth0
        ip route add 192.0.2.0/24 dev eth0");
    join(&a.world, &far.world, "far");
    let said = far.refused("network create --hosts all --transport route front");
    let why = "host a (192.0.2.1) is not on the segment of eth0 (192.0.2.8/29)";
    assert!(said.contains(why), "{said}");
    far.spoke("network create --hosts all --transport auto front");
    let record = segment.etcdctl("get /spoke/v1/network/front");
    assert!(!record.contains("transport") && record.contains("1450"), "{record}");
    // From the other side it is; the host that does not see it so says so.
    a.spoke("network create --hosts all --transport route back");
    let said = "network back: 192.0.2.1 is not on the segment of eth0 (192.0.2.8/29)";
    until(&far.world, &format!("{SPOKE} host ls 2>&1 | grep -qF '{said}'"));
    let said = a.refused("network create --hosts all --transport other more");
    assert!(said.contains("is not auto, vxlan or route"), "{said}");
}

/// A container of each runtime, with the whole MTU and its own address.
#[test]
fn docker_podman_and_cni_reach_each_other_by_routes() {
    let segment = Segment::new();
    let hosts = OfEachRuntime::new(&segment);
    let Some(OfEachRuntime { mut engine, podman, cni, serves }) = hosts else { return };
    engine.start(&[]);
    engine.import();
    podman.podman("network create -d spoke -o hosts=all -o in=docker,cni -o transport=route front");
    engine.docker("run -d --name web --network front -p 8080:80 busybox /bin/sleep 3600");
    podman.run("api", "--network front", "");
    let netns = cni.netns("box");
    until(&cni, "[ -e /etc/cni/net.d/front.conflist ]");
    cni.sh(&format!("CNI_PATH=/opt/cni/bin {SPOKE} cni add front {netns}"));
    let [web, api, boxed] = web_api_box(&engine, &podman, &cni);
    until_reached(&cni, "box", &web);
    until_reached(&cni, "box", &api);
    for to in [&api, &boxed] {
        engine.docker(&format!("exec web ping -c 1 -W 5 -s 1472 {to}"));
    }
    for to in [&web, &boxed] {
        podman.podman(&format!("exec api /bin/busybox ping -c 1 -W 5 -s 1472 {to}"));
    }
    cni.sh(&format!("ip netns exec box ping -q -c 1 -W 3 -M do -s 1472 {web}"));
    // Beside Docker's rules, which drop what is forwarded, sources stay what they are.
    let server = "import socket; s=socket.create_server((str(), 7000)); print(1, flush=True); \
        print(s.accept()[1][0], flush=True)";
    cni.sh(&format!("ip netns exec box timeout 60 python3 -c '{server}' >/world/seen 2>&1 &"));
    until(&cni, "grep -q 1 /world/seen");
    engine.exec("web", &["nc", "-w", "3", &boxed, "7000"]);
    until(&cni, &format!("grep -qx {web} /world/seen"));
    engine.docker("rm -f web");
    podman.podman("rm -f -t 0 api");
    cni.sh(&format!("CNI_PATH=/opt/cni/bin {SPOKE} cni del front {netns}"));
    until(&podman.world, &format!("{SPOKE} network rm front 2>/dev/null"));
    assert_eq!(spoke(&cni, "network ls --format '{{.Name}}'").matches("front").count(), 0);
    drop(serves);
}
