//! Exact addresses, wherever they are: `--ip`.

use crate::bed::{Host, Segment, until, until_equal, until_reached};

/// Connects a new namespace with an address.
#[track_caller]
fn connect(host: &Host, name: &str, address: &str) {
    host.world.netns(name);
    host.spoke(&format!("network connect --ip {address} front {name}"));
}

#[track_caller]
fn refused(host: &Host, name: &str, address: &str) -> String {
    host.world.netns(name);
    let said = host.refused(&format!("network connect --ip {address} front {name}"));
    host.sh(&format!("ip netns del {name}"));
    said
}

/// An address moves with its container from host to host, inside and outside of blocks; a second holder is
/// refused by the name of the first; when etcd is gone the answer says since when.
#[test]
fn an_address_follows_its_container() {
    let mut segment = Segment::new();
    let [a, b, c] = segment.cluster(["a", "b", "c"]);
    a.spoke("network create --hosts all front");
    let (three, free) = (c.attach("front", "three"), "10.64.200.7");
    connect(&a, "db", free);
    until_reached(&c.world, "three", free);
    let said = refused(&b, "db", free);
    assert!(
        said.contains("address 10.64.200.7 of network front is held by db on host a"),
        "{said}"
    );
    let said = refused(&b, "db", "10.64.200.1");
    assert!(said.contains("no container has address 10.64.200.1"), "{said}");
    // What this host's store would keep for a name says nothing to the others.
    for more in ["", " --for web --network front"] {
        let said = a.refused(&format!("ipam reserve 10.64.200.8{more}"));
        assert!(said.contains("is in no block of this host"), "{said}");
    }
    // It moves, twice.
    let neighbour = format!("ip netns exec three ip neigh show {free}");
    for (from, to) in [(&a, &b), (&b, &a)] {
        from.spoke("network disconnect front db");
        from.sh("ip netns del db");
        connect(to, "db", free);
        let mac = to.sh("ip netns exec db cat /sys/class/net/eth0/address");
        // What the container had learnt is corrected: it sends nothing meanwhile.
        until(&c.world, &format!("{neighbour} | grep -q {}", mac.trim()));
        c.sh(&format!("ip netns exec three ping -q -c 1 -W 3 {free}"));
        to.sh(&format!("ip netns exec db ping -q -c 1 -W 3 {three}"));
    }
    a.spoke("network disconnect front db");
    segment.until_gone("/pin/");
    // An address of a's block goes to b and comes back.
    let own = a.attach("front", "one");
    until_equal(&segment, &c.world, "front", "c", 3);
    let said = refused(&b, "one", &own);
    assert!(said.contains(&format!("address {own} of network front is held by ")), "{said}");
    assert!(said.contains("one on host a"), "{said}");
    a.spoke("network disconnect front one");
    connect(&b, "one", &own);
    until_reached(&c.world, "three", &own);
    let said = refused(&a, "other", &own);
    assert!(
        said.contains(&format!("address {own} of network front is held by one on host b")),
        "{said}"
    );
    let said = a.refused(&format!("ipam release {own}"));
    assert!(said.contains("is in use on host b"), "{said}");
    // Gateways; one of b; three of c.
    for (host, name, count) in [(&a, "a", 4), (&b, "b", 3), (&c, "c", 3)] {
        until_equal(&segment, &host.world, "front", name, count);
    }
    b.spoke("network disconnect front one");
    segment.until_gone("/pin/");
    until(
        &a.world,
        &format!(
            "ip netns add again; /opt/cni/bin/spoke network connect --ip {own} front again || {{ ip netns del again; false; }}"
        ),
    );
    until_reached(&c.world, "three", &own);
    // What a program writes without having asked takes nothing from any host.
    for address in [&own, &three] {
        segment.etcdctl(&format!(
            "put /spoke/v1/pin/front/{address} '{{\"host\":\"b\",\"by\":\"evil\",\"state\":\"granted\"}}'"
        ));
    }
    segment.until_gone("/pin/");
    until_reached(&a.world, "again", &three);
    until_reached(&c.world, "three", &own);
    segment.stop_etcd();
    until(&b.world, "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'not heard of'");
    let said = refused(&b, "late", "10.64.201.9");
    assert!(said.contains("since 20") && said.contains("the cluster is not heard of"), "{said}");
}

/// A host is cut off: for less than its lease nothing of it is taken; after that, and some time, its addresses
/// are. When it is back it detaches what others have by now, keeps the rest, and no address has two holders.
#[test]
fn a_lost_host_s_addresses_are_taken_over() {
    let segment = Segment::new();
    let [a, b, c] = segment.cluster_with("[hosts]\ntakeover_seconds = 1\n", ["a", "b", "c"]);
    a.spoke("network create --hosts all front");
    let (three, free) = (c.attach("front", "three"), "10.64.200.7");
    connect(&b, "db", free);
    let (own, stays) = (b.attach("front", "own"), b.attach("front", "stays"));
    for address in [free, &own, &stays] {
        until_reached(&c.world, "three", address);
    }
    // What an operator says of it does not keep it from who has it then.
    b.spoke(&format!("ipam reserve {own} --for own --network front"));
    b.sh("ip link set eth0 down");
    let said = refused(&a, "early", free);
    assert!(said.contains("is held by db on host b"), "{said}");
    // Cut off it goes on by itself, and gives addresses from its block.
    let (more, block) = (b.attach("front", "more"), segment.prefix("front", "b"));
    assert!(more.starts_with(&block), "{more}");
    b.sh(&format!("ip netns exec more ping -q -c 1 -W 3 {stays}"));
    let connected = |name: &str, address: &str| {
        let try_it = format!(
            "/opt/cni/bin/spoke network connect --ip {address} front {name} 2>>/world/said"
        );
        a.world.netns(name);
        until(&a.world, &try_it);
    };
    connected("db", free);
    connected("own", &own);
    assert!(a.sh("cat /world/said").contains("host b's, which is lost"));
    for address in [free, &own] {
        until_reached(&c.world, "three", address);
    }
    b.sh("ip link set eth0 up");
    for name in ["db", "own"] {
        until(&b.world, &format!("! ip -n {name} link show eth0 2>/dev/null"));
    }
    assert_eq!(b.sh("grep -c '\"event\":\"lease-lost\"' /run/spoke/events"), "2\n");
    until_reached(&c.world, "three", &stays);
    b.sh(&format!("ip netns exec stays ping -q -c 1 -W 3 {own}"));
    // Gateways, and: three and nothing else of c; stays and more of b; db and own of a.
    for (host, name, count) in [(&a, "a", 5), (&b, "b", 5), (&c, "c", 6)] {
        until_equal(&segment, &host.world, "front", name, count);
    }
    let said = refused(&b, "again", &own);
    assert!(said.contains("is held by own on host a"), "{said}");
    a.sh(&format!("ip netns exec own ping -q -c 1 -W 3 {three}"));
}

/// A host gets back an address of its block that it gave to a host which is lost since. When that one is back it
/// detaches its container, and the address is one of the block again.
#[test]
fn the_host_of_a_block_takes_over_what_it_gave() {
    let segment = Segment::new();
    let [a, b] = segment.cluster_with("[hosts]\ntakeover_seconds = 1\n", ["a", "b"]);
    a.spoke("network create --hosts all front");
    let own = a.attach("front", "one");
    a.spoke("network disconnect front one");
    connect(&b, "db", &own);
    let two = a.attach("front", "two");
    until_reached(&a.world, "two", &own);
    b.sh("ip link set eth0 down");
    a.world.netns("back");
    let connected = format!("/opt/cni/bin/spoke network connect --ip {own} front back");
    until(&a.world, &connected);
    a.sh(&format!("ip netns exec back ping -q -c 1 -W 3 {two}"));
    b.sh("ip link set eth0 up");
    until(&b.world, "! ip -n db link show eth0 2>/dev/null");
    let three = b.attach("front", "three");
    until_reached(&a.world, "back", &three);
    // The gateway of a, and its two containers.
    until_equal(&segment, &b.world, "front", "b", 3);
    a.spoke("network disconnect front back");
    segment.until_gone("/pin/");
    a.sh("ip netns del back");
    a.world.netns("back");
    until(&a.world, &connected);
    until_reached(&b.world, "three", &own);
    let said = a.spoke("ipam show front");
    assert!(!said.contains("@pinned") && !said.contains("@host"), "{said}");
}
