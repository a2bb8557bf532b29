//! How many neighbours a container makes the host look for or remember. The kernel's table of them is one of all
//! networks.

use std::process::Command;

use crate::bed::Bed;

const NEIGHBOURS: &str = concat!(include_str!("packets.py"), include_str!("neighbours.py"));
/// Fewer than the kernel takes: others use the same table meanwhile.
const SENT: usize = 200;
/// What one container may come with at once is 60, and 4 a second after that. A redirect of the host is for one more.
const MOST: usize = 120;
const BACK: [&str; 3] = ["sends4", "sends6", "sends-discovery"];
/// Where what a container sends is checked.
const IN_NAME: [&str; 4] = ["solicits", "solicits-routers", "solicits-in-subnet", "arp"];
/// Where nothing else is taken from an address of the link.
const FROM_LINK: [&str; 2] = ["sends-from-link", "sends-from-link-to-one"];

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

/// Whether each way is bounded, in a network of this gateway. Its container is at `.10` and `::10`.
#[track_caller]
fn is_bounded(bed: &Bed, ways: &[&str], (namespace, bridge): (&str, &str), gateways: [&str; 2]) {
    for way in ways {
        bed.world.sh(&format!(
            "ip neigh flush dev {bridge} nud all; ip -6 neigh flush dev {bridge} nud all"
        ));
        send(bed, namespace, way, SENT, gateways);
        // What came before it has been looked at.
        let ping = format!("ip netns exec {namespace} ping -c1 -W1 {}", gateways[0]);
        bed.world.try_sh(&ping);
        let there = neighbours(bed, bridge);
        assert!(there <= MOST, "{namespace}: {way}: {there} neighbours of {SENT}");
    }
}

#[test]
fn a_container_fills_no_table_of_neighbours() {
    let bed = Bed::new(&["agent", "mate", "free"]);
    bed.spoke("network create --subnet 10.81.3.0/24 --subnet fd81:3::/64 wide");
    bed.spoke("network connect --ip 10.81.1.10 --ip6 fd81:1::10 agents agent");
    bed.spoke("network connect --ip 10.81.1.11 --ip6 fd81:1::11 agents mate");
    bed.spoke("network connect --ip 10.81.3.10 --ip6 fd81:3::10 wide free");
    let in_fence = [&BACK[..], &IN_NAME, &FROM_LINK].concat();
    is_bounded(&bed, &in_fence, ("agent", "sp-agents"), ["10.81.1.1", "fd81:1::1"]);
    is_bounded(&bed, &BACK, ("free", "sp-wide"), ["10.81.3.1", "fd81:3::1"]);
    // Another container is not hindered by that, nor is what this one does in its own name.
    bed.attempt("agent", "ask 10.81.1.1 fresh.allowed.example");
    let mate = [("ask 10.81.1.1 fresh.allowed.example", "203.0.113.17")];
    bed.all("mate", &mate);
    for address in ["10.81.1.11", "fd81:1::11"] {
        bed.world.sh(&format!("ip netns exec agent ping -c1 -W5 {address}"));
    }
}
