//! Who is a member: `spoke host` and `spoke host token`.

use serde_json::Value;

use crate::bed::{Segment, join, token, until, until_equal};

#[test]
fn a_token_is_used_once() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    let c = segment.host("c", 3);
    assert!(c.refused("host ls").contains("this host is in no cluster"));
    let token = token(&a.world);
    c.spoke(&format!("host join --name c {token}"));
    let d = segment.host("d", 4);
    let said = d.refused(&format!("host join --name d {token}"));
    assert!(said.contains("this token was used, was removed or has expired"), "{said}");
    let said: Value = serde_json::from_str(&b.spoke("host ls -o json")).unwrap();
    let rows = said.as_array().unwrap();
    let row =
        |at: usize| (rows[at]["name"].as_str().unwrap(), rows[at]["address"].as_str().unwrap());
    let names: Vec<_> = (0..rows.len()).map(row).collect();
    assert_eq!(names, [("a", "192.0.2.1"), ("b", "192.0.2.2"), ("c", "192.0.2.3")]);
    until(&b.world, "! /opt/cni/bin/spoke host ls | grep -q lost");
    // That which `init` printed is still worth something; those that were used are not.
    assert_eq!(a.spoke("host token ls").lines().count(), 2);
}

/// Commands that say nothing, and wait for what others do, keep no other one waiting.
#[test]
fn a_slow_command_keeps_no_other_one_waiting() {
    let segment = Segment::new();
    let [a] = segment.cluster(["a"]);
    // Answered one after the other, the last would wait until the daemon gives the silent ones up.
    let script = "
import socket, subprocess, sys
for _ in range(5):
    silent = [socket.socket(socket.AF_UNIX) for _ in range(4)]
    for one in silent:
        one.connect('/run/spoke/hosts.sock')
    subprocess.run(['/opt/cni/bin/spoke', 'host', 'ls'], check=True)
    try:
        for one in silent:
            one.recv(1, socket.MSG_DONTWAIT)
    except BlockingIOError:
        sys.exit(0)
sys.exit('the silent ones were given up first')";
    a.sh(&format!("python3 -c \"{script}\""));
}

/// A secret that is guessed, a token that was removed, names and addresses that others have.
#[test]
fn who_was_not_asked_does_not_join() {
    let segment = Segment::new();
    let [a] = segment.cluster(["a"]);
    let b = segment.host("b", 2);
    // That which `init` printed.
    let listed: Value = serde_json::from_str(&a.spoke("host token ls -o json")).unwrap();
    let first = listed[0]["id"].as_str().unwrap().to_owned();
    a.spoke(&format!("host token rm {first}"));
    let one = token(&a.world);
    for bad in ["", "x", "spoke1-", &one[..one.len() - 4]] {
        let said = b.refused(&format!("host join --name b '{bad}'"));
        assert!(said.contains("this is no token"), "{bad}: {said}");
    }
    let listed: Value = serde_json::from_str(&a.spoke("host token ls -o json")).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    let id = listed[0]["id"].as_str().unwrap();
    // Its secret is not in etcd: another one with its name is none.
    let key = format!("/spoke/v1/token/{id}");
    let digest = format!("{{\"digest\":\"{}\",\"expires\":9999999999}}", "0".repeat(64));
    segment.etcdctl(&format!("put {key} '{digest}'"));
    let said = b.refused(&format!("host join --name b {one}"));
    assert!(said.contains("none of this cluster's"), "{said}");
    segment.etcdctl(&format!("put {key} '{}'", digest.replace("9999999999", "1")));
    a.spoke(&format!("host token rm {id}"));
    assert!(a.refused(&format!("host token rm {id}")).contains("no token"));
    let two = token(&a.world);
    let said = b.refused(&format!("host join --name a {two}"));
    assert!(said.contains("the cluster has a host a"), "{said}");
    b.sh("ip address add 192.0.2.77/32 dev lo");
    let said = b.refused(&format!("host join --name b --address 192.0.2.1 {two}"));
    assert!(said.contains("no device of this host has the address 192.0.2.1"), "{said}");
    b.spoke(&format!("host join --name b --address 192.0.2.77 {two}"));
    let said = b.refused(&format!("host join --name b {two}"));
    assert!(said.contains("this host is a member of a cluster already, as b"), "{said}");
}

#[test]
fn another_layout_is_refused() {
    let segment = Segment::new();
    let a = segment.host("a", 1);
    segment.etcdctl("put /spoke/v1/layout 3");
    let said = a.refused("host init --etcd http://192.0.2.100:2379 --name a");
    assert!(said.contains("have layout 3, and this Spoke knows 1 and 2"), "{said}");
    for (url, why) in [
        ("http://127.0.0.1:2379", "no other host reaches"),
        ("https://192.0.2.100:2379", "does not answer"),
        ("192.0.2.100:2379", "begins with neither http:// nor https://"),
        ("http://192.0.2.100:1", "does not answer"),
    ] {
        let said = a.refused(&format!("host init --etcd {url} --name a"));
        assert!(said.contains(why), "{url}: {said}");
    }
}

/// A cluster has the layout that all its members know: with a member whose program knows the first one only it
/// keeps that, and works. Without that member it gets the next one. A program that is older than the cluster's
/// layout takes no part, and says so.
#[test]
fn two_layouts_work_in_one_cluster() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    assert_eq!(segment.etcdctl("get --print-value-only /spoke/v1/layout").trim(), "2");
    // As a Spoke of layout 1 would have written it.
    segment.etcdctl("put /spoke/v1/host/old '{\"address\":\"192.0.2.9\",\"since\":1}'");
    segment.etcdctl("put /spoke/v1/alive/old '{}'");
    segment.etcdctl("put /spoke/v1/layout 1");
    a.spoke("network create --hosts a,b front");
    b.attach("front", "two");
    until_equal(&segment, &a.world, "front", "a", 2);
    assert_eq!(segment.etcdctl("get --print-value-only /spoke/v1/layout").trim(), "1");
    a.spoke("host remove --force old");
    let layout = "ETCDCTL_API=3 etcdctl --endpoints http://192.0.2.100:2379 get --print-value-only";
    until(&a.world, &format!("[ $({layout} /spoke/v1/layout) = 2 ]"));
    segment.etcdctl("put /spoke/v1/layout 3");
    until(
        &b.world,
        "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'have layout 3, and this Spoke knows 1 and 2'",
    );
    assert!(b.refused("network create --hosts b back").contains("layout 3"));
}

/// A host that is removed has nothing between hosts any more, and its addresses are free.
#[test]
fn a_removed_host_leaves_nothing() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    assert!(a.refused("host remove b").contains("the daemon of host b is there"));
    assert!(a.refused("host remove nobody").contains("no host nobody"));
    let block = segment.block("front", "b");
    b.spoke("host remove b");
    until(&b.world, "! ip link show type vxlan | grep -q .");
    until(&b.world, "! nft list table ip spoke_overlay 2>/dev/null");
    until(&b.world, "! /opt/cni/bin/spoke network inspect front 2>/dev/null");
    until(&b.world, "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'in no cluster'");
    let left = segment.etcdctl("get --prefix --keys-only /spoke/v1/");
    assert!(!left.lines().any(|line| line.split('/').any(|part| part == "b")), "{left}");
    assert!(!left.contains(&block), "{left}");
    join(&a.world, &b.world, "b");
    until(&b.world, "/opt/cni/bin/spoke network inspect front");
}

/// What another program writes to etcd that is nothing of the layout harms no host, and is named.
#[test]
fn what_is_no_record_is_left_out_and_named() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    let own = segment.prefix("front", "a");
    let theirs = format!("{}9", segment.prefix("front", "b"));
    let long = "x".repeat(100_000);
    segment.sh(&format!("printf '%s' '{long}' >/world/long"));
    for put in [
        "put /spoke/v1/network/bad '{\"vni\":0}'",
        "put /spoke/v1/host/../x 1",
        "put /spoke/v1/host/evil '{\"address\":\"192.0.2.66\",\"since\":1}'",
        "put /spoke/v1/block/front/10.64.7.0/24 '\"evil\"'",
        "put /spoke/v1/endpoint/evil/front/10.64.0.2 '{\"mac\":\"02:00:00:00:00:07\"}'",
        // What a host has not, its daemon takes back.
        &format!("put /spoke/v1/endpoint/b/front/{theirs} '{{\"mac\":\"02:00:00:00:00:08\"}}'"),
        "put /spoke/v1/network/huge </world/long",
    ] {
        segment.etcdctl(put);
    }
    let ls = "/opt/cni/bin/spoke host ls 2>&1";
    for words in
        ["network/bad", "host/../x", "10.64.0.2 of network front on host evil", "network/huge"]
    {
        until(&a.world, &format!("{ls} | grep -q '{words}'"));
    }
    until(&a.world, &format!("{ls} | grep -q 'not in its block 10.64.7.0/24'"));
    segment.until_gone(&theirs);
    until(
        &a.world,
        &format!("! ip -4 neigh show dev sp-front nud permanent | grep -q '^{theirs} '"),
    );
    // The others go on.
    let boxed = a.attach("front", "box");
    assert!(boxed.starts_with(&own), "{boxed}");
    until(&b.world, &format!("ip -4 neigh show dev sp-front nud permanent | grep -q '^{boxed} '"));
}
