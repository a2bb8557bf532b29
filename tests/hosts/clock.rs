//! Hosts whose daemons have clocks of their own: an hour passes at once, a host sleeps, a clock is set.
//!
//! The daemon is the real program. `clock.c` runs it, and answers the calls by which it reads a clock.

use std::fs;
use std::process::Command;

use crate::bed::{Host, Segment, until, until_equal, until_reached};
use crate::isolated::{CUT, LS, connect};

const HOUR: i64 = 3600;
/// More than a certificate of a host is good for, and no whole number of days.
const LONG: i64 = 400 * 24 * HOUR + HOUR;

/// How far the clocks of a host's daemon are ahead, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    /// What an operator sets.
    real: i64,
    /// What no program can set, and stands still while the host sleeps.
    monotonic: i64,
    /// What no program can set, and runs on then.
    boot: i64,
}

impl Ahead {
    /// All of them: so many seconds have passed.
    fn passed(seconds: i64) -> Self {
        Self { real: seconds, monotonic: seconds, boot: seconds }
    }
}

/// Has the daemon of a host start again with clocks of its own.
#[track_caller]
fn prepare(host: &mut Host) {
    let (source, program) =
        (concat!(env!("CARGO_MANIFEST_DIR"), "/hosts/clock.c"), host.world.path("/world/clock"));
    let compiled = Command::new("cc").args(["-O1", "-o"]).arg(program).arg(source).status();
    assert!(compiled.is_ok_and(|status| status.success()), "{source}");
    set(host, Ahead::default());
    host.kill();
    begin(host);
    until(&host.world, &format!("! {LS} | grep -q 'the daemon is not running'"));
}

#[track_caller]
fn begin(host: &mut Host) {
    host.begin_by(&["/world/clock", "/world/ahead"]);
}

/// Sets the clocks of a host's daemon.
#[track_caller]
fn set(host: &Host, Ahead { real, monotonic, boot }: Ahead) {
    let (new, file) = (host.world.path("/world/ahead.new"), host.world.path("/world/ahead"));
    fs::write(&new, format!("{real} {monotonic} {boot}\n")).expect("a file");
    fs::rename(new, file).expect("a file");
}

/// Echo requests that a host has received: another one asks whether it is there.
#[track_caller]
fn asked(host: &Host) -> u64 {
    let nstat = host.sh("nstat -asz IcmpInEchos | awk '$1 == \"IcmpInEchos\" { print $2 }'");
    nstat.trim().parse().expect("a number")
}

/// Waits until a host was asked once more.
#[track_caller]
fn until_asked(host: &Host, before: u64) {
    let count = "nstat -asz IcmpInEchos | awk '$1 == \"IcmpInEchos\" { print $2 }'";
    until(&host.world, &format!("[ $({count}) -gt {before} ]"));
}

/// The time that a refusal names.
#[track_caller]
fn since(said: &str) -> String {
    let since = said.split("since ").nth(1).and_then(|rest| rest.split(' ').next());
    since.unwrap_or_else(|| panic!("no time: {said}")).to_owned()
}

/// etcd is gone for an hour: the row of docs/hosts.md. `takeover_seconds` is what it is by itself.
#[test]
fn etcd_is_gone_for_an_hour() {
    let mut segment = Segment::new();
    let [mut a, mut b] = segment.cluster(["a", "b"]);
    for host in [&mut a, &mut b] {
        prepare(host);
    }
    a.spoke("network create --hosts all --subnet 10.99.0.0/26 --block 29 front");
    let (one, two, free) = (a.attach("front", "one"), b.attach("front", "two"), "10.99.0.50");
    connect(&b, "db", free);
    until_reached(&a.world, "one", free);
    until_reached(&b.world, "two", &one);
    segment.stop_etcd();
    for host in [&a, &b] {
        until(&host.world, &format!("{LS} | grep -q 'not heard of: .* does not answer'"));
    }
    a.world.netns("late");
    let elsewhere = "network connect --ip 10.99.0.51 front late";
    let begin = since(&a.refused(elsewhere));
    let before = [&a, &b].map(asked);
    for host in [&a, &b] {
        set(host, Ahead::passed(HOUR));
    }
    // Each knows that its lease has ended for long, and the other one that no host has heard of that.
    until_asked(&a, before[0]);
    until_asked(&b, before[1]);
    a.sh(&format!("ip netns exec one ping -q -c 2 -i 0.2 -W 3 {two}"));
    b.sh(&format!("ip netns exec db ping -q -c 2 -i 0.2 -W 3 {one}"));
    // Until the block is full, then a clear error.
    for n in 2..=6 {
        a.attach("front", &format!("n{n}"));
        b.sh(&format!("ip netns exec two ping -q -c 1 -W 3 {one}"));
    }
    let said = a.refused("network connect front late");
    assert!(said.contains("no IP addresses available"), "{said}");
    // An exact address elsewhere, and a move: refused, since when etcd is gone.
    for address in ["10.99.0.51", free] {
        let said = a.refused(&format!("network connect --ip {address} front late"));
        assert_eq!(since(&said), begin, "{said}");
        assert!(said.contains("etcd at http://192.0.2.100:2379 does not answer"), "{said}");
    }
    // Detached it is there for another container.
    b.spoke("network disconnect front db");
    a.spoke("network disconnect front n6");
    a.spoke("network connect front late");
    for host in [&a, &b] {
        let said = host.sh("cat /run/spoke/events");
        assert!(!said.contains("host-isolated") && !said.contains("lease-lost"), "{said}");
    }
    segment.start_etcd();
    connect(&a, "db", free);
    until_reached(&b.world, "two", free);
    segment.until_blocks("front", "a", 2);
    // The gateway, six containers of the block, and the one that moved; the other gateway, and two.
    until_equal(&segment, &b.world, "front", "b", 8);
    until_equal(&segment, &a.world, "front", "a", 2);
}

/// A host that etcd alone does not reach sleeps for an hour, of which only one of its clocks tells; the others are awake,
/// and one of them takes an address of it over. Awake again it keeps apart at once.
#[test]
fn a_host_sleeps_for_an_hour() {
    let segment = Segment::new();
    let config = "[hosts]\ntakeover_seconds = 1800\n";
    let [mut a, mut b, mut c] = segment.cluster_with(config, ["a", "b", "c"]);
    for host in [&mut a, &mut b, &mut c] {
        prepare(host);
    }
    a.spoke("network create --hosts all front");
    let (three, free) = (c.attach("front", "three"), "10.64.200.7");
    connect(&b, "db", free);
    let stays = b.attach("front", "stays");
    for address in [free, &stays] {
        until_reached(&c.world, "three", address);
    }
    b.sh(CUT);
    for host in [&a, &c] {
        until(&host.world, &format!("{LS} | grep -q '^b .* lost '"));
    }
    a.world.netns("db");
    let said = a.refused(&format!("network connect --ip {free} front db"));
    assert!(said.contains("host b's, which is lost"), "{said}");
    a.sh("ip netns del db");
    for host in [&a, &c] {
        set(host, Ahead::passed(HOUR));
    }
    connect(&a, "db", free);
    until(&c.world, "! nft list table ip spoke_overlay | grep -q 192.0.2.2");
    set(&b, Ahead { real: HOUR, monotonic: 0, boot: HOUR });
    until(
        &b.world,
        &format!("{LS} | grep -q 'others may have its addresses, and no answer comes from a, c'"),
    );
    until_reached(&c.world, "three", free);
    b.sh("nft delete table ip cut");
    until(&b.world, "grep -q '\"event\":\"host-isolation-over\"' /run/spoke/events");
    assert_eq!(b.sh("grep -c '\"event\":\"lease-lost\"' /run/spoke/events"), "1\n");
    assert_ne!(b.world.try_sh("ip -n db link show eth0").status, 0);
    until_reached(&c.world, "three", &stays);
    b.sh(&format!("ip netns exec stays ping -q -c 1 -W 3 {three}"));
    // Gateways, and: db of a, three of c, stays of b.
    for (host, name, count) in [(&a, "a", 4), (&b, "b", 4), (&c, "c", 4)] {
        until_equal(&segment, &host.world, "front", name, count);
    }
}

/// The clock of a host is set forward and back, also between two lives of its daemon, whose other clocks begin elsewhere
/// each time: it is heard of, gets and gives addresses as before, and `host check` says it.
#[test]
fn a_clock_is_set() {
    let segment = Segment::new();
    let [a, mut b] = segment.cluster(["a", "b"]);
    prepare(&mut b);
    a.spoke("network create --hosts all front");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&a.world, "one", &two);
    for (number, (real, monotonic)) in
        [(LONG, HOUR), (-LONG, 0), (0, 5 * HOUR)].into_iter().enumerate()
    {
        let (free, name) = (format!("10.64.200.{}", number + 7), format!("db{number}"));
        set(&b, Ahead { real, monotonic, boot: monotonic });
        connect(&b, &name, &free);
        until_reached(&a.world, "one", &free);
        b.kill();
        b.sh(&format!("ip netns exec two ping -q -c 1 -W 3 {one}"));
        set(&b, Ahead { real, monotonic: monotonic + HOUR, boot: monotonic + HOUR });
        begin(&mut b);
        let check = "/opt/cni/bin/spoke host check 2>&1";
        match real {
            0 => until(&b.world, check),
            _ => until(
                &b.world,
                &format!("{check} | grep -qE 'its clock is 3(599|600)[0-9]{{3}} ms'"),
            ),
        }
        b.spoke(&format!("network disconnect front {name}"));
        segment.until_gone(&free);
        // The gateway and two.
        until_equal(&segment, &a.world, "front", "a", 2);
        until_equal(&segment, &b.world, "front", "b", 2);
    }
    let said = b.sh("cat /run/spoke/events");
    assert!(!said.contains("host-isolated") && !said.contains("lease-lost"), "{said}");
}

/// By the clock of a host every certificate has ended, or holds only in a year: it hears of no host, says why, and loses
/// nothing. When its clock is right again it goes on.
#[test]
fn certificates_under_a_clock_that_jumps() {
    let segment = Segment::bare();
    let [a, mut b] = [segment.host("a", 1), segment.host("b", 2)];
    let said = a.spoke("host init --name a");
    let token = said.split_whitespace().find(|word| word.starts_with("spoke1-")).expect("a token");
    b.spoke(&format!("host join --name b {token}"));
    prepare(&mut b);
    a.spoke("network create --hosts all front");
    let (one, two) = (a.attach("front", "one"), b.attach("front", "two"));
    until_reached(&a.world, "one", &two);
    let certificate = "md5sum /var/lib/spoke/hosts/tls/host.pem";
    let before = b.sh(certificate);
    for (number, real) in [LONG, -LONG].into_iter().enumerate() {
        b.kill();
        set(&b, Ahead { real, ..Ahead::default() });
        begin(&mut b);
        until(&b.world, &format!("{LS} | grep -q 'not heard of: .*certificate'"));
        b.sh(&format!("ip netns exec two ping -q -c 1 -W 3 {one}"));
        let more = b.attach("front", &format!("more{number}"));
        // That a clock jumps is no time in which nothing was heard.
        set(&b, Ahead { real: real + 2 * LONG, ..Ahead::default() });
        let said = b.refused("host remove b --force");
        assert!(said.contains("once nothing was heard of the cluster for 60 seconds"), "{said}");
        set(&b, Ahead::default());
        until(&b.world, &format!("! {LS} | grep -q 'not heard of'"));
        assert_eq!(b.sh(certificate), before);
        until_reached(&a.world, "one", &more);
    }
    b.sh(&format!("ip netns exec two ping -q -c 1 -W 3 {one}"));
}
