//! What names keep, and the blocks and networks that it is of.

use crate::bed::{Host, Segment, address, until, until_equal, until_reached};
use crate::sticky::{stop, until_kept};

/// Stops a container, whose name keeps nothing then.
#[track_caller]
fn forget(host: &Host, name: &str, address: &str) {
    stop(host, name);
    host.spoke(&format!("ipam release {address}"));
}

/// A name keeps an address of a later block: the block is given back, the name keeps the address on its host, and no host
/// that takes the block gives it to another one.
#[test]
fn a_block_is_given_back_without_what_names_keep() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all --subnet 10.99.0.0/27 --block 29 --sticky front");
    let first = segment.block("front", "a");
    let two = b.attach("front", "two");
    let mut boxes: Vec<(String, String)> = Vec::new();
    // The last block is one shorter.
    for number in 0..6 {
        let name = format!("box{number}");
        let given = a.attach("front", &name);
        boxes.push((name, given));
        if number == 4 {
            segment.until_blocks("front", "a", 2);
        }
    }
    let of_first = |given: &str| {
        let net = first.trim_end_matches("/29").rsplit('.').next().expect("a number");
        let (net, last) = (net.parse::<u8>().unwrap(), given.rsplit('.').next().unwrap());
        (net..net + 8).contains(&last.parse::<u8>().unwrap())
    };
    let late = loop {
        let (name, given) = boxes.last().expect("a container");
        if !of_first(given) {
            break (name.clone(), given.clone());
        }
        let name = format!("box{}", boxes.len());
        let given = a.attach("front", &name);
        boxes.push((name, given));
    };
    boxes.retain(|it| *it != late);
    stop(&a, &late.0);
    until_kept(&segment, std::slice::from_ref(&late.1), &late.0, "a");
    for (name, given) in &boxes {
        forget(&a, name, given);
    }
    segment.until_blocks("front", "a", 1);
    until_kept(&segment, std::slice::from_ref(&late.1), &late.0, "a");
    // b takes all that is left, and never this one.
    let mut given = Vec::new();
    for number in 0.. {
        let name = format!("more{number}");
        b.world.netns(&name);
        let done = b.world.try_sh(&format!("/opt/cni/bin/spoke network connect front {name}"));
        if done.status == 0 {
            given.push(address(&b.world, &name));
        } else if segment
            .etcdctl("get --prefix --keys-only /spoke/v1/block/front/")
            .lines()
            .filter(|line| !line.is_empty())
            .count()
            == 4
        {
            break;
        }
    }
    assert!(!given.contains(&late.1), "{given:?} {late:?}");
    assert_eq!(a.attach("front", &late.0), late.1);
    until_reached(&b.world, "two", &late.1);
    a.sh(&format!("ip netns exec {} ping -q -c 1 -W 3 {two}", late.0));
    stop(&a, &late.0);
    assert_eq!(b.attach("front", &late.0), late.1);
    until_kept(&segment, std::slice::from_ref(&late.1), &late.0, "b");
    until_reached(&b.world, &late.0, &two);
}

/// An operator's reservation keeps its block on the host, until it is ended; the others go.
#[test]
fn a_block_with_a_reserved_address_is_not_given_back() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all --subnet 10.99.0.0/27 --block 29 front");
    segment.block("front", "b");
    let boxes: Vec<(String, String)> = (0..11)
        .map(|number| {
            let name = format!("box{number}");
            let given = a.attach("front", &name);
            if number == 4 {
                segment.until_blocks("front", "a", 2);
            }
            (name, given)
        })
        .collect();
    segment.until_blocks("front", "a", 3);
    let last = |given: &str| given.rsplit('.').next().and_then(|last| last.parse::<u8>().ok());
    let net = |given: &str| last(given).expect("a number") / 8 * 8;
    let first = net(&boxes[0].1);
    // The first of the later blocks is given back first.
    let later = boxes.iter().map(|(_, given)| given).filter(|given| net(given) != first);
    let reserved = later.min_by_key(|given| last(given)).expect("a later one").clone();
    a.spoke(&format!("ipam reserve {reserved}"));
    boxes.iter().for_each(|(name, _)| stop(&a, name));
    segment.until_blocks("front", "a", 2);
    let there = segment.etcdctl("get --prefix /spoke/v1/block/front/");
    let block = format!("/spoke/v1/block/front/10.99.0.{}/29\n\"a\"", net(&reserved));
    assert!(there.contains(&block), "{there}");
    a.spoke(&format!("ipam release {reserved}"));
    segment.until_blocks("front", "a", 1);
    b.attach("front", "two");
}

/// An address that comes back to the host of its block is one of it again: an operator ends it as any other.
#[test]
fn an_address_that_comes_back_is_one_of_its_block() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all --sticky front");
    let db = [a.attach("front", "db")];
    until_kept(&segment, &db, "db", "a");
    for (from, to) in [(&a, &b), (&b, &a)] {
        stop(from, "db");
        assert_eq!(to.attach("front", "db"), db[0]);
        until_kept(&segment, &db, "db", to.name);
    }
    stop(&a, "db");
    until(&a.world, &format!("/opt/cni/bin/spoke ipam release {}", db[0]));
    segment.until_gone(&format!("/pin/front/{}", db[0]));
    until_equal(&segment, &a.world, "front", "a", 1);
    assert_ne!(a.attach("front", "db"), db[0]);
}

/// A network that is on a host no more leaves nothing of its names there, nor does one that ends.
#[test]
fn names_end_with_the_network_on_their_host() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("host label b zone=eu");
    a.spoke("host label a zone=eu");
    a.spoke("network create --hosts zone=eu --sticky front");
    let kept = [b.attach("front", "db"), b.attach("front", "web")];
    until_kept(&segment, &kept[..1], "db", "b");
    until_kept(&segment, &kept[1..], "web", "b");
    stop(&b, "db");
    stop(&b, "web");
    // What an operator says of it stays.
    b.spoke(&format!("ipam release {}", kept[1]));
    b.spoke(&format!("ipam reserve {} --for web --network front", kept[1]));
    a.spoke("host label b --remove zone");
    let files = "find /var/lib/spoke -path '*sticky/front/*' -o -path '*reservations/*' -type f";
    until(&b.world, "! /opt/cni/bin/spoke network inspect front 2>/dev/null");
    until(&b.world, &format!("! {{ {files}; }} | grep -v /web | grep -qF -e /db -e /{}", kept[0]));
    assert!(b.sh(files).contains(&kept[1]));
    let moved = a.attach("front", "db");
    until_kept(&segment, std::slice::from_ref(&moved), "db", "a");
}
