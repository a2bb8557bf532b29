//! Addresses that names keep, on whichever host their containers are.

use std::thread;

use tests::World;

use crate::bed::{
    Host, SPOKE, Segment, address, address6, spoke, until, until_equal, until_reached,
};
use crate::each_runtime::OfEachRuntime;

const CREATE: &str = "network create --hosts all --ipv6 --sticky front";

/// Both addresses of a new container.
#[track_caller]
fn start(host: &Host, name: &str) -> [String; 2] {
    host.attach("front", name);
    [address(&host.world, name), address6(&host.world, name)]
}

#[track_caller]
pub(crate) fn stop(host: &Host, name: &str) {
    host.spoke(&format!("network disconnect front {name}"));
    host.sh(&format!("ip netns del {name}"));
}

/// Waits until the cluster has the addresses as this name's, last on this host.
#[track_caller]
pub(crate) fn until_kept(segment: &Segment, addresses: &[String], name: &str, host: &str) {
    let words = [format!("\"host\":\"{host}\""), format!("\"name\":\"{name}\"")];
    let granted = "\"state\":\"granted\"";
    for address in addresses {
        segment.until_has(&format!("pin/front/{address}"), &[&words[0], &words[1], granted]);
    }
}

/// A name has its addresses on each host where its container starts, and back; a second container of the name gets
/// others; those of all other containers are reported; while etcd is gone the host's own addresses stay its names'.
#[test]
fn addresses_follow_a_name() {
    let mut segment = Segment::new();
    let [a, b, c] = segment.cluster(["a", "b", "c"]);
    a.spoke(CREATE);
    let three = c.attach("front", "three");
    let db = start(&a, "db");
    until_kept(&segment, &db, "db", "a");
    for address in &db {
        until_reached(&c.world, "three", address);
    }
    // The first one lives: the second gets other addresses.
    let second = start(&b, "db");
    assert!(second.iter().all(|address| !db.contains(address)), "{second:?} {db:?}");
    stop(&b, "db");
    b.spoke(&format!("ipam release {}", second[0]));
    b.spoke(&format!("ipam release {}", second[1]));
    for address in &second {
        segment.until_gone(&format!("/pin/front/{address}"));
    }
    for (from, to) in [(&a, &b), (&b, &c), (&c, &a)] {
        stop(from, "db");
        assert_eq!(start(to, "db"), db, "on {}", to.name);
        until_kept(&segment, &db, "db", to.name);
        for address in &db {
            until_reached(&c.world, "three", address);
        }
        to.sh(&format!("ip netns exec db ping -q -c 1 -W 3 {three}"));
    }
    // Gateways, and: three and what it has of IPv6, db.
    for (host, name, count) in [(&a, "a", 6), (&b, "b", 8), (&c, "c", 6)] {
        until_equal(&segment, &host.world, "front", name, count);
    }
    // Another one does not get what the name keeps, and is refused with its owner's name.
    stop(&a, "db");
    b.world.netns("other");
    let said = b.refused(&format!("network connect --ip {} front other", db[0]));
    assert!(said.contains(&format!("address {} of network front is held by db", db[0])), "{said}");
    // Where it asks for it by itself it moves, too.
    b.world.netns("db");
    b.spoke(&format!("network connect --ip {} --ip6 {} front db", db[0], db[1]));
    until_kept(&segment, &db, "db", "b");
    stop(&b, "db");
    // Without etcd the host where it was last gives it the same, and another one gives others, of its block.
    segment.stop_etcd();
    until(&b.world, "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'not heard of'");
    until(&c.world, "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'not heard of'");
    assert_eq!(start(&b, "db"), db);
    let elsewhere = start(&c, "db");
    assert!(elsewhere.iter().all(|address| !db.contains(address)), "{elsewhere:?}");
    segment.start_etcd();
    until_reached(&c.world, "three", &db[0]);
    until_kept(&segment, &elsewhere, "db", "c");
}

/// Two hosts start a container of one name at the same moment, while a third one keeps its addresses: at most one of
/// them gets these, and no address has two holders.
#[test]
fn one_of_two_hosts_at_once_gets_what_a_name_keeps() {
    let segment = Segment::new();
    let [a, b, c] = segment.cluster(["a", "b", "c"]);
    a.spoke(CREATE);
    let three = c.attach("front", "three");
    for round in 0..4 {
        let name = format!("db{round}");
        let kept = start(&a, &name);
        until_kept(&segment, &kept, &name, "a");
        stop(&a, &name);
        let both = thread::scope(|scope| {
            let [b, c] = [&b, &c].map(|host| scope.spawn(|| start(host, &name)));
            [b, c].map(|started| started.join().expect("it starts"))
        });
        for at in [0, 1] {
            let [of_b, of_c] = [&both[0][at], &both[1][at]];
            assert!(of_b != of_c, "{both:?} {kept:?}");
            if [of_b, of_c].contains(&&kept[at]) {
                let holder = if *of_b == kept[at] { "b" } else { "c" };
                until_kept(&segment, &kept[at..=at], &name, holder);
            }
            until_reached(&c.world, "three", of_b);
            until_reached(&b.world, &name, &three);
        }
        stop(&b, &name);
        stop(&c, &name);
    }
}

/// Podman's container and one of no runtime have one name; a pod has that of CNI's arguments, on each host.
#[test]
fn a_name_keeps_its_address_from_runtime_to_runtime() {
    let segment = Segment::new();
    let hosts = OfEachRuntime::new(&segment);
    let Some(OfEachRuntime { engine, podman, cni, serves }) = hosts else { return };
    spoke(&cni, "network create --hosts all --in podman,cni --sticky front");
    let run = |name: &str| {
        podman.run(name, "--network front", "");
        let endpoint = podman.endpoint(name, "front");
        endpoint["IPAddress"].as_str().expect("an address").to_owned()
    };
    let db = [run("db")];
    until_kept(&segment, &db, "db", "podman");
    podman.podman("rm -f -t 0 db");
    cni.netns("db");
    spoke(&cni, "network connect front db");
    assert_eq!(address(&cni, "db"), db[0]);
    until_kept(&segment, &db, "db", "cni");
    spoke(&cni, "network disconnect front db");
    assert_eq!(run("db"), db[0]);
    podman.podman("rm -f -t 0 db");
    let pod = |world: &World, verb: &str| {
        let args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web";
        // It may be there already.
        let netns = "/run/netns/pod";
        world.sh("[ -e /run/netns/pod ] || ip netns add pod");
        let call =
            format!("CNI_PATH=/opt/cni/bin CNI_ARGS='{args}' {SPOKE} cni {verb} front {netns}");
        world.sh(&call);
    };
    pod(&cni, "add");
    let web = [address(&cni, "pod")];
    until_kept(&segment, &web, "pod/shop/web", "cni");
    pod(&cni, "del");
    until(engine.world(), "[ -s /etc/cni/net.d/front.conflist ]");
    pod(engine.world(), "add");
    assert_eq!(address(engine.world(), "pod"), web[0]);
    until_kept(&segment, &web, "pod/shop/web", "docker");
    pod(engine.world(), "del");
    drop(serves);
}

/// A lost host's names have their addresses elsewhere once these can be taken over, and the host forgets them when it is
/// back. A process that is killed between the pin and its attachment takes nothing from the name.
#[test]
fn names_of_a_lost_host_follow_too() {
    let segment = Segment::new();
    let [a, mut b] = segment.cluster_with("[hosts]\ntakeover_seconds = 1\n", ["a", "b"]);
    a.spoke(CREATE);
    let db = start(&a, "db");
    until_kept(&segment, &db, "db", "a");
    a.sh("ip link set eth0 down");
    let down = "/opt/cni/bin/spoke host ls | grep -q 'a .* lost'";
    until(&b.world, down);
    // As soon as another address of its block can be taken over, so can those of the name.
    let (block, _) = db[0].rsplit_once('.').expect("an address");
    let connect = format!("/opt/cni/bin/spoke network connect --ip {block}.77 front probe");
    until(&b.world, &format!("ip netns add probe; {connect} || {{ ip netns del probe; false; }}"));
    stop(&b, "probe");
    assert_eq!(start(&b, "db"), db);
    a.sh("ip link set eth0 up");
    until(&a.world, "! ip -n db link show eth0 2>/dev/null");
    until_kept(&segment, &db, "db", "b");
    a.sh("ip netns del db");
    stop(&b, "db");
    // What was asked for by a process that was killed: the pin is there, and no attachment.
    a.world.netns("db");
    a.sh("/opt/cni/bin/spoke network connect front db & killed=$!; kill -9 $killed; wait || true");
    a.world.try_sh("/opt/cni/bin/spoke network disconnect front db");
    a.sh("ip netns del db");
    assert_eq!(start(&a, "db"), db);
    until_kept(&segment, &db, "db", "a");
    stop(&a, "db");
    b.kill();
    b.begin();
    assert_eq!(start(&b, "db"), db);
    stop(&b, "db");
    // Nothing is left where the network is gone.
    until(&a.world, &format!("{SPOKE} network rm front 2>/dev/null"));
    segment.until_gone("/pin/");
    for host in [&a, &b] {
        let said = host.spoke("ipam show -o json 2>/dev/null || true");
        assert!(!said.contains("@pinned") && !said.contains("@host"), "{said}");
    }
}
