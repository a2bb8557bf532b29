//! etcd carries a transaction out, and its answer is lost.

use crate::bed::{Host, Segment, until, until_equal, until_reached};
use crate::cut::{Lost, Way};
use crate::sticky::{stop, until_kept};

/// Hosts that each have a way to etcd of their own.
#[track_caller]
fn cluster<const N: usize>(segment: &Segment, names: [&'static str; N]) -> ([Host; N], [Way; N]) {
    let mut number = 0;
    let made = names.map(|name| {
        number += 1;
        let way = Way::new(segment, 100 + number);
        let host = segment.host(name, number);
        host.spoke(&format!("host init --etcd {} --name {name}", way.url()));
        (host, way)
    });
    let mut ways = Vec::new();
    let hosts = made.map(|(host, way)| {
        ways.push(way);
        host
    });
    (hosts, ways.try_into().unwrap_or_else(|_| unreachable!("as many as hosts")))
}

fn put(key: &str, words: &str) -> Lost {
    Lost::Put(key.to_owned(), words.to_owned())
}

#[track_caller]
fn connect(host: &Host, name: &str, address: &str) {
    host.world.netns(name);
    host.spoke(&format!("network connect --ip {address} front {name}"));
}

/// A name's address goes from host to host, whether the answer is lost to the host that asks for it or to the one that
/// hands it over.
#[test]
fn an_address_follows_its_name() {
    let segment = Segment::new();
    let ([a, b], [of_a, of_b]) = cluster(&segment, ["a", "b"]);
    a.spoke("network create --hosts all --sticky front");
    let two = b.attach("front", "two");
    let db = [a.attach("front", "db")];
    until_kept(&segment, &db, "db", "a");
    let pin = format!("pin/front/{}", db[0]);
    for (from, to, way, lost) in [
        (&a, &b, &of_b, put(&pin, "\"wanted\":\"b\"")),
        (&b, &a, &of_b, put(&pin, "\"host\":\"a\"")),
        (&a, &b, &of_a, put(&pin, "\"host\":\"b\"")),
        (&b, &a, &of_a, put(&pin, "\"wanted\":\"a\"")),
    ] {
        stop(from, "db");
        way.lose(lost);
        assert_eq!(to.attach("front", "db"), db[0], "on {}", to.name);
        way.until_lost();
        until_kept(&segment, &db, "db", to.name);
        until_reached(&b.world, "two", &db[0]);
        to.sh(&format!("ip netns exec db ping -q -c 1 -W 3 {two}"));
    }
    // Gateways, and db of a; two of b.
    until_equal(&segment, &b.world, "front", "b", 2);
    until_equal(&segment, &a.world, "front", "a", 2);
}

/// An exact address is given, in a block of the other host and in one that no host has, and released.
#[test]
fn an_exact_address_is_given_and_given_back() {
    let segment = Segment::new();
    let ([a, b], [of_a, of_b]) = cluster(&segment, ["a", "b"]);
    a.spoke("network create --hosts all front");
    let (two, free) = (b.attach("front", "two"), "10.64.200.7");
    let theirs = format!("{}77", segment.prefix("front", "b"));
    let pin = |address: &str| format!("pin/front/{address}");
    for (address, way, lost) in [
        (free, &of_a, put(&pin(free), "granted")),
        (&theirs, &of_a, put(&pin(&theirs), "asked")),
        (&theirs, &of_b, put(&pin(&theirs), "granted")),
    ] {
        way.lose(lost);
        connect(&a, "db", address);
        way.until_lost();
        until_reached(&b.world, "two", address);
        a.sh(&format!("ip netns exec db ping -q -c 1 -W 3 {two}"));
        of_a.lose(Lost::Delete(pin(address)));
        stop(&a, "db");
        of_a.until_lost();
        segment.until_gone("/pin/");
        // No host has it, and so another one may take it.
        if address == free {
            connect(&b, "db", free);
            until_reached(&b.world, "two", free);
            stop(&b, "db");
            segment.until_gone("/pin/");
        }
    }
    let said = b.spoke("ipam show front");
    assert!(!said.contains("@host") && !said.contains("@pinned"), "{said}");
}

/// A network is declared, each host has one block of it, and it is removed; commands say what was done.
#[test]
fn a_network_is_declared_and_removed() {
    let segment = Segment::new();
    let ([a, b], [of_a, of_b]) = cluster(&segment, ["a", "b"]);
    of_a.lose(put("network/front", ""));
    of_b.lose(put("block/front/", "b"));
    a.spoke("network create --hosts all front");
    of_a.until_lost();
    of_b.until_lost();
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &one);
    for host in ["a", "b"] {
        segment.until_blocks("front", host, 1);
    }
    stop(&a, "one");
    stop(&b, "two");
    of_a.lose(Lost::Delete("network/front".to_owned()));
    of_b.lose(Lost::Delete("block/front/".to_owned()));
    until(
        &a.world,
        "/opt/cni/bin/spoke network rm front 2>/world/said || ! grep -q 'is used on' /world/said",
    );
    assert_eq!(a.sh("cat /world/said"), "");
    of_a.until_lost();
    of_b.until_lost();
    segment.until_gone("/front");
}

/// A host that is removed leaves no block and no address, and the command says that it was removed.
#[test]
fn a_host_is_removed() {
    let segment = Segment::new();
    let ([a, mut b], [of_a, _of_b]) = cluster(&segment, ["a", "b"]);
    a.spoke("network create --hosts all front");
    b.attach("front", "two");
    connect(&b, "db", "10.64.200.7");
    b.kill();
    until(&a.world, "/opt/cni/bin/spoke host ls | grep -q 'b .* lost'");
    of_a.lose(Lost::Delete("host/b".to_owned()));
    a.spoke("host remove b");
    of_a.until_lost();
    let left = segment.etcdctl("get --prefix /spoke/v1/");
    let is_of_b = |line: &str| line.contains("\"b\"") || line.split('/').any(|part| part == "b");
    assert!(!left.lines().any(is_of_b), "{left}");
    assert!(a.refused("host remove b").contains("no host b"));
}
