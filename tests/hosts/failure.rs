//! What works while something does not: the rows of docs/hosts.md.

use crate::bed::{Host, Segment, until, until_equal, until_reached};

/// As much as a day's work of others.
const PUTS: &str = "for n in $(seq 300); do ETCDCTL_API=3 etcdctl --endpoints http://192.0.2.100:2379 put /other $n; \
                    done >/world/puts";

/// Waits until a host has written down all that etcd has.
#[track_caller]
fn until_heard(segment: &Segment, host: &Host) {
    let key = segment.etcdctl("get --prefix /spoke/v1/pin/ -w json");
    let written = key.split("\"mod_revision\":").nth(1).expect("a pin");
    let written: String = written.chars().take_while(char::is_ascii_digit).collect();
    let heard = "grep -o '\"heard\":[0-9]*' /var/lib/spoke/hosts/heard.json | cut -d : -f 2";
    until(&host.world, &format!("[ $({heard}) -ge {written} ]"));
}

/// etcd is gone: traffic flows, a host attaches from its own block and detaches, and what others have
/// to know they learn when etcd is back.
#[test]
fn etcd_is_gone_and_comes_back() {
    let mut segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    let own = segment.prefix("front", "a");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &one);
    segment.stop_etcd();
    // First it is only the watch that has ended.
    until(&a.world, "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'not heard of: .* does not answer'");
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 3 {two}"));
    let more = a.attach("front", "more");
    assert!(more.starts_with(&own), "{more}");
    a.sh(&format!("ip netns exec more ping -q -c 1 -W 3 {one}"));
    b.spoke("network disconnect front two");
    // What another program changes is repaired by what was heard last.
    a.sh("nft delete table ip spoke_overlay");
    until(&a.world, "nft list table ip spoke_overlay 2>/dev/null | grep -q 192.0.2.2");
    let said = a.refused("network create --hosts all back");
    assert!(said.contains("etcd at http://192.0.2.100:2379 does not answer"), "{said}");
    segment.start_etcd();
    // The gateway and two containers of a; the gateway of b.
    until_equal(&segment, &b.world, "front", "b", 3);
    until_equal(&segment, &a.world, "front", "a", 1);
    b.sh("ip netns add three");
    b.spoke("network connect front three");
    until_reached(&b.world, "three", &more);
}

/// etcd is gone, and a host gives addresses until its block is full: then it says so, and goes on when etcd is back.
#[test]
fn a_block_is_full_while_etcd_is_gone() {
    let mut segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all --subnet 10.99.0.0/26 --block 29 front");
    let two = b.attach("front", "two");
    let one = a.attach("front", "one");
    until_reached(&b.world, "two", &one);
    segment.stop_etcd();
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 3 {two}"));
    for n in 2..=6 {
        a.attach("front", &format!("n{n}"));
        a.sh(&format!("ip netns exec n{n} ping -q -c 1 -W 3 {one}"));
    }
    a.world.netns("late");
    let said = a.refused("network connect front late");
    assert!(
        said.contains("no IP addresses available") && said.contains("of network front"),
        "{said}"
    );
    a.spoke("network disconnect front n6");
    a.spoke("network connect front late");
    segment.start_etcd();
    a.world.netns("more");
    until(&a.world, "/opt/cni/bin/spoke network connect front more");
    segment.until_blocks("front", "a", 2);
    // The gateway and seven containers.
    until_equal(&segment, &b.world, "front", "b", 8);
}

/// etcd has no room and takes no writes: a host that attaches is heard of all the time, for longer than a lost one keeps
/// its addresses, and the others learn what it has when etcd takes it.
#[test]
fn etcd_is_full() {
    let mut segment = Segment::bare();
    // The smallest that a new database fits in, and a record.
    segment.start_etcd_with(&["--quota-backend-bytes", "1048576"]);
    let [a, b] = segment.cluster_with("[hosts]\ntakeover_seconds = 1\n", ["a", "b"]);
    a.spoke("network create --hosts all front");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &one);
    let fill = "head -c 200000 /dev/zero | tr '\\0' x | \
                ETCDCTL_API=3 etcdctl --endpoints http://192.0.2.100:2379 put";
    segment
        .sh(&format!("for n in $(seq 20); do {fill} /other/$n >/dev/null || exit 0; done; exit 1"));
    let more = a.attach("front", "more");
    let says = "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'telling the others what this host has'";
    until(&a.world, says);
    a.sh(&format!("ip netns exec one ping -q -c 60 -i 0.25 -W 2 {two}"));
    b.sh(&format!("ip netns exec two ping -q -c 1 -W 3 {one}"));
    for host in [&a, &b] {
        let said = host.spoke("host ls");
        assert_eq!(said.matches(" up ").count(), 2, "{said}");
    }
    // What is gone is heard of all the same.
    b.spoke("network disconnect front two");
    until_equal(&segment, &a.world, "front", "a", 1);
    segment.etcdctl("del --prefix /other/");
    let said = segment.etcdctl("endpoint status -w json");
    let revision = said.split("\"revision\":").nth(1).expect("a revision");
    let revision: String = revision.chars().take_while(char::is_ascii_digit).collect();
    segment.etcdctl(&format!("compact {revision}"));
    segment.etcdctl("defrag");
    segment.etcdctl("alarm disarm");
    // The gateway and two containers.
    until_equal(&segment, &b.world, "front", "b", 3);
    b.sh("ip netns add three; /opt/cni/bin/spoke network connect front three");
    until_reached(&b.world, "three", &more);
    until(&a.world, &format!("! {says}"));
}

/// etcd comes back without its data: no host was removed, traffic flows, and with the data all is as it was.
/// A host that is removed while they are lost begins anew.
#[test]
fn etcd_loses_its_data() {
    let mut segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &one);
    segment.exchange_etcd("data", "nothing");
    let lost = "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'etcd has no records of this cluster'";
    until(&a.world, lost);
    until(&b.world, lost);
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 3 {two}"));
    let refused = a.refused("network create --hosts all back");
    assert!(refused.contains("etcd has no records of this cluster"), "{refused}");
    segment.exchange_etcd("empty", "data");
    let b_again = "! /opt/cni/bin/spoke host ls 2>&1 | grep -q 'not heard of'";
    until(&a.world, b_again);
    until(&b.world, b_again);
    until_equal(&segment, &a.world, "front", "a", 2);
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 3 {two}"));
    b.spoke("network disconnect front two");
    segment.exchange_etcd("data", "empty");
    until(&b.world, lost);
    b.spoke("host remove b");
    until(&b.world, "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'in no cluster'");
    assert_eq!(b.sh("ip link show type vxlan"), "");
    crate::bed::init(&b.world, "b");
}

/// etcd comes back with a state from before a host joined: that host stays a member, also when its daemon starts again
/// while others write to the older state.
#[test]
fn etcd_has_a_state_from_before_a_host_joined() {
    let mut segment = Segment::new();
    let [mut a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    segment.stop_etcd();
    segment.sh("cp -a /world/etcd /world/older");
    segment.start_etcd();
    let mut c = segment.host("c", 3);
    until(&a.world, "/opt/cni/bin/spoke host token create >/world/token");
    let token = a.sh("cat /world/token");
    c.spoke(&format!(
        "host join --name c {}",
        token.split_whitespace().find(|it| it.starts_with("spoke1-")).unwrap()
    ));
    let (one, three) = (a.attach("front", "one"), c.attach("front", "three"));
    until_reached(&a.world, "one", &three);
    until_reached(&c.world, "three", &one);
    segment.exchange_etcd("data", "older");
    let older = "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'an older state'";
    until(&c.world, older);
    c.kill();
    segment.sh(PUTS);
    c.start();
    until(&c.world, older);
    c.sh(&format!("ip netns exec three ping -q -c 1 -W 3 {one}"));
    segment.exchange_etcd("older", "data");
    until(&c.world, &format!("! {{ {older}; }}"));
    a.kill();
    a.start();
    let more = b.attach("front", "more");
    until_reached(&c.world, "three", &more);
}

/// etcd is restored from a snapshot that has the hosts' own records as they are, and others write to it until its revision is
/// beyond all that was heard: the hosts know it still, whether their daemons ran meanwhile or not. Taken as it is, it gets
/// what the hosts have from their own books.
#[test]
fn an_older_state_that_others_wrote_to() {
    let mut segment = Segment::new();
    let [a, mut b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &one);
    until_equal(&segment, &a.world, "front", "a", 2);
    until_equal(&segment, &b.world, "front", "b", 2);
    segment.etcdctl("snapshot save /world/snapshot");
    // Only the restored state lacks these.
    let three = a.attach("front", "three");
    until_reached(&b.world, "two", &three);
    a.world.netns("exact");
    let moved = "10.64.200.7";
    a.spoke(&format!("network connect --ip {moved} front exact"));
    until_reached(&b.world, "two", moved);
    until_heard(&segment, &b);
    b.kill();
    segment.stop_etcd();
    segment.restore_etcd("/world/snapshot");
    // Others reach it before a host does.
    a.sh("ip link set eth0 down");
    segment.start_etcd();
    segment.sh(PUTS);
    a.sh("ip link set eth0 up");
    b.start();
    let older =
        "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'an older state .* to which others wrote since'";
    for host in [&a, &b] {
        until(&host.world, older);
        let said = host.world.try_sh("/opt/cni/bin/spoke doctor").stdout;
        assert!(said.contains("spoke host accept-older"), "{said}");
    }
    until(&a.world, "/opt/cni/bin/spoke events | grep -q 'failed.*older state.*wrote since'");
    b.sh(&format!("ip netns exec two ping -q -c 1 -W 3 {three}"));
    for host in [&a, &b] {
        host.spoke("host accept-older");
        until(&host.world, "! /opt/cni/bin/spoke host ls 2>&1 | grep -q 'not heard of'");
    }
    // The gateway, two containers, and the one with an address of a block that no host has; the other gateway and one container.
    until_equal(&segment, &b.world, "front", "b", 4);
    until_equal(&segment, &a.world, "front", "a", 2);
    assert!(segment.etcdctl("get /spoke/v1/pin/front/10.64.200.7").contains("granted"));
    until_reached(&b.world, "two", &three);
    until_reached(&b.world, "two", moved);
}

/// The daemon is killed: traffic flows, a container is attached meanwhile, and another host's as well;
/// the next life makes the entries equal to the book, also those that another program has changed.
#[test]
fn the_daemon_is_killed_and_starts_again() {
    let segment = Segment::new();
    let [mut a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    a.attach("front", "gone");
    until_reached(&a.world, "one", &two);
    until_equal(&segment, &a.world, "front", "a", 2);
    until_equal(&segment, &b.world, "front", "b", 3);
    a.kill();
    a.spoke("network disconnect front gone");
    a.sh("ip netns add exact");
    let said = a.refused("network connect --ip 10.64.200.9 front exact");
    assert!(said.contains("the daemon is not running"), "{said}");
    // One that starts again is waited for.
    a.sh("ip netns add waits
         sh -c '/opt/cni/bin/spoke network connect --ip 10.64.200.10 front waits; echo $? >/world/waited' \
             >/world/waits 2>&1 </dev/null & echo $! >/world/waits.pid");
    a.start();
    until(&a.world, "test -s /world/waited");
    a.sh("grep -qx 0 /world/waited || { cat /world/waits; exit 1; }");
    a.sh("spoke=/opt/cni/bin/spoke; $spoke network disconnect front waits; ip netns del waits");
    a.kill();
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 3 {two}"));
    let more = a.attach("front", "more");
    let third = b.attach("front", "third");
    // Half of a forwarding entry goes, a wrong one comes, a neighbour goes.
    a.sh(&format!(
        "device=$(ls /sys/class/net/sp-front/brif | grep spokevx)
         mac=$(ip -4 neigh show dev sp-front {two} | cut -d ' ' -f 3)
         bridge fdb del $mac dev $device master
         bridge fdb add 02:00:00:00:99:99 dev $device dst 192.0.2.66 self static
         ip neigh replace 10.64.1.99 lladdr 02:00:00:00:99:99 dev sp-front nud permanent
         nft delete table ip spoke_overlay"
    ));
    a.start();
    until_equal(&segment, &a.world, "front", "a", 3);
    until_equal(&segment, &b.world, "front", "b", 3);
    until(&a.world, "nft list table ip spoke_overlay | grep -q 192.0.2.2");
    until_reached(&a.world, "more", &third);
    until_reached(&b.world, "third", &more);
    b.sh(&format!("ip netns exec two ping -q -c 1 -W 3 {one}"));
}

/// Everything that was written is compacted while a host does not listen.
#[test]
fn compaction_while_a_host_does_not_listen() {
    let mut segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    a.attach("front", "one");
    until_equal(&segment, &b.world, "front", "b", 2);
    // b hears nothing any more, and does not know it.
    b.sh("ip link set eth0 down");
    for name in ["two", "three"] {
        a.attach("front", name);
    }
    a.spoke("network disconnect front one");
    until(&a.world, "/opt/cni/bin/spoke host ls | grep '^a ' | grep -q ' 2$'");
    let said = segment.etcdctl("endpoint status -w json");
    let revision = said.split("\"revision\":").nth(1).expect("a revision");
    let revision: String = revision.chars().take_while(char::is_ascii_digit).collect();
    segment.etcdctl(&format!("compact {revision}"));
    segment.stop_etcd();
    segment.start_etcd();
    b.sh("ip link set eth0 up");
    until_equal(&segment, &b.world, "front", "b", 3);
    let two = b.attach("front", "two");
    until_reached(&a.world, "two", &two);
}

/// etcd was restored from a state in which a host had no block yet: the host claims it again. Where another
/// host has it by then, the host says so, keeps its containers, and takes another one after them.
#[test]
fn a_block_that_etcd_forgot_is_claimed_again() {
    let segment = Segment::new();
    let [a, mut b] = segment.cluster(["a", "b"]);
    a.spoke("network create --hosts all front");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    let block = segment.block("front", "b");
    // Two hosts come between: the first free one is another's.
    segment.etcdctl(&format!("del /spoke/v1/block/front/{block}"));
    assert_eq!(segment.block("front", "b"), block);
    until_equal(&segment, &a.world, "front", "a", 2);
    until_reached(&a.world, "one", &two);
    b.kill();
    segment.etcdctl(&format!("put /spoke/v1/block/front/{block} '\"c\"'"));
    b.start();
    let ls = "/opt/cni/bin/spoke host ls 2>&1";
    until(&b.world, &format!("{ls} | grep -q \"is host c's in etcd\""));
    assert_eq!(crate::bed::address(&b.world, "two"), two);
    b.spoke("network disconnect front two");
    let other = segment.block("front", "b");
    assert_ne!(other, block);
    until(&b.world, &format!("! {ls} | grep -q 'in etcd'"));
    let three = b.attach("front", "three");
    assert!(three.starts_with(&segment.prefix("front", "b")), "{three} {other}");
    until_reached(&b.world, "three", &one);
}

/// etcd gives a host's first block to another one while its later block rests: that one becomes the first, and is in use
/// again at once.
#[test]
fn a_resting_block_becomes_the_first() {
    let segment = Segment::new();
    let [a, b] = segment.cluster(["a", "b"]);
    for (network, subnet) in [("front", "10.99.0.0/26"), ("back", "10.98.0.0/26")] {
        a.spoke(&format!("network create --hosts all --subnet {subnet} --block 29 {network}"));
        for number in 0..6 {
            b.attach(network, &format!("{network}{number}"));
        }
        segment.until_blocks(network, "b", 2);
    }
    let file = "/var/lib/spoke/hosts/networks/front";
    let first = b.sh(&format!("grep -o '\"block\":\"[^\"]*' {file}"));
    let first = first.trim().trim_start_matches("\"block\":\"").to_owned();
    for number in 0..6 {
        b.spoke(&format!("network disconnect front front{number}"));
    }
    until(&b.world, &format!("grep -q '\"more\":\\[\\]' {file}"));
    segment.etcdctl(&format!("put /spoke/v1/block/front/{first} '\"a\"'"));
    until(&b.world, &format!("! grep -q '\"block\":\"{first}' {file} && [ -e {file} ]"));
    let one = a.attach("front", "one");
    b.attach("front", "two");
    until_reached(&b.world, "two", &one);
    // By then it would have rested for long enough.
    for number in 0..6 {
        b.spoke(&format!("network disconnect back back{number}"));
    }
    segment.until_blocks("back", "b", 1);
    let said = b.sh("cat /run/spoke/events");
    assert!(!said.contains("still get addresses of block"), "{said}");
    for number in 0..6 {
        b.attach("front", &format!("again{number}"));
    }
    segment.until_blocks("front", "b", 2);
}
