//! How many neighbours a container makes the host look for or remember. The kernel's table of them is one of all
//! networks.

use std::process::Command;

use crate::bed::{Bed, until};

const NEIGHBOURS: &str = concat!(include_str!("packets.py"), include_str!("neighbours.py"));
/// Fewer than the kernel takes: others use the same table meanwhile.
const SENT: usize = 200;
/// What one container may come with at once is 60, and 4 a second after that.
const MOST: usize = 120;
/// So many at least of the first way: otherwise nothing came to the host.
const LEAST: usize = 40;
/// From addresses of the link, which count together with those of the first way; from addresses of the subnet, of which
/// the host takes none; and what it would report about to addresses of the link.
const MORE: [&str; 4] = ["solicits-routers", "solicits-in-subnet", "arp", "sends-from-link-to-one"];
/// To others of the subnet or of the link, by way of the host: they count together with what came before.
const SEEKS: [&str; 3] = ["seeks", "seeks-six", "seeks-of-link"];

#[track_caller]
fn send(bed: &Bed, namespace: &str, way: &str, number: usize, [four, six]: [&str; 2]) {
    let mut sends = Command::new("nsenter");
    let netns = bed.world.path(&format!("/run/netns/{namespace}"));
    sends.arg(format!("--net={}", netns.display())).args(["python3", "-c", NEIGHBOURS, way]);
    let done = sends.arg(number.to_string()).args([four, six]).output().expect("nsenter starts");
    assert!(done.status.success(), "{way}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The host's neighbours behind a bridge.
#[track_caller]
fn neighbours(bed: &Bed, bridge: &str) -> usize {
    let shown = format!("ip {{}} neigh show nud all dev {bridge}");
    let both = format!("{}; {}", shown.replace("{}", "-4"), shown.replace("{}", "-6"));
    let listed = bed.world.sh(&both);
    listed.lines().filter(|line| !line.contains("NOARP")).count()
}

/// How many neighbours the host has after a container at `.10` and `::10` has tried this way.
#[track_caller]
fn after(bed: &Bed, way: &str) -> usize {
    let bridge = "sp-agents";
    let flush = format!("neigh flush dev {bridge} nud all");
    bed.world.sh(&format!("ip {flush}; ip -6 {flush}"));
    send(bed, "agent", way, SENT, ["10.81.1.1", "fd81:1::1"]);
    // What came before it has been looked at.
    bed.all("agent", &[("ask 10.81.1.1 fresh.allowed.example", "203.0.113.17")]);
    neighbours(bed, bridge)
}

#[test]
fn a_container_fills_no_table_of_neighbours() {
    let bed = Bed::new(&["agent", "mate"]);
    bed.spoke("network connect --ip 10.81.1.10 --ip6 fd81:1::10 agents agent");
    bed.spoke("network connect --ip 10.81.1.11 --ip6 fd81:1::11 agents mate");
    let there = after(&bed, "solicits");
    assert!((LEAST..=MOST).contains(&there), "{there} neighbours of {SENT}");
    for way in MORE {
        let there = after(&bed, way);
        assert!(there < LEAST, "{way}: {there} neighbours of {SENT}");
    }
    for way in SEEKS {
        let there = after(&bed, way);
        assert!(there <= MOST, "{way}: {there} neighbours of {SENT}");
    }
    // Another container is not hindered by that, nor is what this one does in its own name.
    let mate = [("ask 10.81.1.1 fresh.allowed.example", "203.0.113.17")];
    bed.all("mate", &mate);
    for address in ["10.81.1.11", "fd81:1::11"] {
        bed.world.sh(&format!("ip netns exec agent ping -c1 -W5 {address}"));
    }
}

/// Whatever of the bridge this host's chains of routed packets see.
#[test]
fn what_neighbours_send_each_other_is_not_counted() {
    let bed = Bed::new(&["agent", "mate"]);
    bed.spoke("network connect --ip 10.81.1.10 --ip6 fd81:1::10 agents agent");
    bed.spoke("network connect --ip 10.81.1.11 --ip6 fd81:1::11 agents mate");
    bed.world.sh("ip netns exec mate nft 'add table inet seen
        add counter inet seen four; add counter inet seen six
        add chain inet seen in { type filter hook prerouting priority -300; }
        add rule inet seen in ip saddr 10.81.1.10 udp sport 4000 counter name four
        add rule inet seen in ip6 saddr fd81:1::10 udp sport 4000 counter name six'");
    for filtered in [1, 0] {
        for family in ["", "6"] {
            let name = format!("/proc/sys/net/bridge/bridge-nf-call-ip{family}tables");
            bed.world.sh(&format!("echo {filtered} >{name}"));
        }
        for way in ["to-mate", "by-host"] {
            bed.world.sh("ip netns exec mate nft reset counters");
            send(&bed, "agent", way, SENT, ["10.81.1.1", "fd81:1::1"]);
            for family in ["four", "six"] {
                let listed = format!("ip netns exec mate nft list counter inet seen {family}");
                until(&bed.world, &format!("{listed} | grep -q 'packets {SENT} '"));
            }
        }
    }
}
