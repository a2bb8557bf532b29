//! Neighbours on networks that others do not reach: none of them begins a connection in another's name, which a second one
//! elsewhere would answer to that.

use tests::Serve;

use crate::bed::{Bed, FORWARDS, until};
use crate::forged::UNCHECKED;

/// Networks that others do not reach, by what they are so.
const NETWORKS: [(u8, &str); 3] =
    [(12, "--ingress same-bridge"), (13, "--ingress isolated"), (14, "--trusted-interface none0")];

/// Of each a container that listens at a port that is not published, and its neighbour.
fn neighbours() -> Bed {
    let names = NETWORKS.map(|(number, _)| [format!("one{number}"), format!("mate{number}")]);
    let names: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
    let bed = Bed::after(FORWARDS, &names);
    for (number, option) in NETWORKS {
        bed.spoke(&format!(
            "network create {option} --subnet 10.81.{number}.0/24 --subnet fd81:{number}::/64 n{number}"
        ));
        for (name, host) in [("one", 10), ("mate", 11)] {
            bed.spoke(&format!(
                "network connect --ip 10.81.{number}.{host} --ip6 fd81:{number}::{host} n{number} {name}{number}"
            ));
            bed.listens(&format!("{name}{number}"), 8055);
        }
    }
    bed.world.sh(UNCHECKED);
    bed
}

/// What the world hears when it answers a packet to it that was sent in the name of a container: its host's address.
fn answered(bed: &Bed, sender: &str, packet: &str, port: u16, is_six: bool) -> String {
    assert_eq!(bed.attempt(sender, packet), "sent", "{packet}");
    let (host, world) = match is_six {
        true => ("2001:db8:113::254", "2001:db8:113::53"),
        false => ("203.0.113.254", "203.0.113.90"),
    };
    bed.attempt("world", &format!("udp {host} 8055 from={world}/{port}"))
}

#[test]
fn the_world_answers_no_neighbour() {
    let bed = neighbours();
    let mut port = 5300;
    for (number, option) in NETWORKS {
        for (net, world, is_six) in [
            (format!("10.81.{number}."), "203.0.113.90", false),
            (format!("fd81:{number}::"), "2001:db8:113::53", true),
        ] {
            // What a container begins by itself, by the same way.
            for (sender, host) in [("one", 10), ("mate", 11)] {
                port += 1;
                let packet = format!("starts {net}{host} 8055 {world} {port} {net}1");
                let said = answered(&bed, &format!("{sender}{number}"), &packet, port, is_six);
                assert_eq!(said, "open", "{option}: {packet}\n{}", bed.world.logs());
            }
            let one =
                bed.world.sh(&format!("ip netns exec one{number} cat /sys/class/net/eth0/address"));
            for hardware in [String::new(), one.trim().replace(':', "-")] {
                port += 1;
                let packet = format!("starts {net}10 8055 {world} {port} {net}1 {hardware}");
                let said = answered(&bed, &format!("mate{number}"), &packet, port, is_six);
                assert_eq!(said, "shut", "{option}: {packet}");
            }
        }
    }
}

/// A published port of a network that is kept apart, too: what called it is answered.
#[test]
fn no_container_of_another_network_answers_a_neighbour() {
    let bed = neighbours();
    bed.world.netns("other");
    bed.spoke("network create --ingress same-bridge --subnet 10.81.7.0/24 back");
    bed.spoke("network connect --ip 10.81.7.10 --publish 8095:5302/udp back other");
    bed.world.sh(UNCHECKED);
    for (source, port, expected) in [("10.81.12.11", 7001, "open"), ("10.81.12.10", 7002, "shut")] {
        let packet = format!("starts {source} {port} 203.0.113.254 8095 10.81.12.1");
        assert_eq!(bed.attempt("mate12", &packet), "sent");
        let name = if source.ends_with("11") { "mate12" } else { "one12" };
        bed.listens(name, port);
        let answer = format!("udp 10.81.7.1 {port} from=10.81.7.10/5302");
        assert_eq!(bed.attempt("other", &answer), expected, "{packet}");
    }
}

/// Beside their own addresses they send from any that no neighbour has: what they added, and what is behind them.
#[test]
fn what_no_neighbour_has_is_sent_from() {
    let bed = neighbours();
    bed.world.sh("ip -n mate12 address add 10.81.12.77/24 dev eth0; ip -n mate12 address add fd81:12::77/64 nodad dev eth0
        ip -n mate12 address add 10.99.7.1/32 dev lo
        ip route add 10.99.7.0/24 via 10.81.12.11");
    bed.all(
        "mate12",
        &[
            ("udp 203.0.113.90 8443 from=10.81.12.77", "open"),
            ("udp 203.0.113.90 8443 from=10.99.7.1", "open"),
            ("udp 10.81.12.10 8055 from=10.81.12.77", "open"),
            ("udp fd81:12::10 8055 from=fd81:12::77", "open"),
            ("udp 10.81.12.10 8055", "open"),
        ],
    );
    bed.all("one12", &[("udp 10.81.12.77 8055", "open"), ("udp fd81:12::77 8055", "open")]);
    // A hardware address that no neighbour has is the container's own choice, too.
    bed.world.sh("ip -n mate12 link set eth0 address 02:00:00:00:00:77; ip -n one12 neighbour flush dev eth0; ip neighbour flush all");
    bed.all("mate12", &[("udp 203.0.113.90 8443", "open"), ("udp 10.81.12.10 8055", "open")]);
}

/// What was there before the program knew of this, or was lost, is mended.
#[test]
fn ports_of_an_older_table_are_checked_again() {
    /// Each container has its element, and the rules are there.
    const ALL: &str = "test 6 = \\$(nft list set bridge spoke apart | grep -o comment | wc -l) && \
                       nft list chain bridge spoke borrowed | grep -q borrowed6 && \
                       nft list chain bridge spoke prerouting | grep -q borrowed";
    let mut bed = neighbours();
    until(&bed.world, ALL);
    for lost in ["delete table bridge spoke", "flush chain bridge spoke borrowed", "flush ruleset"]
    {
        bed.world.sh(&format!("nft {lost}"));
        until(&bed.world, ALL);
    }
    // As an older version left it, which knew of no such ports.
    bed.serve = None;
    bed.world.sh("nft 'flush chain bridge spoke prerouting; flush chain bridge spoke borrowed
            delete set bridge spoke apart; delete set bridge spoke ethers
            delete chain bridge spoke spoof_13; add chain bridge spoke spoof_12'");
    bed.serve = Some(Serve::start(&bed.world, &[]));
    until(&bed.world, ALL);
    let packet = "starts 10.81.12.10 8055 203.0.113.90 5390 10.81.12.1";
    assert_eq!(answered(&bed, "mate12", packet, 5390, false), "shut");
}

/// A container that is on an internal network and on an open one: by the latter nobody is led to its neighbours on the former.
#[test]
fn nobody_answers_a_container_of_an_internal_network() {
    let bed = Bed::after(FORWARDS, &["both", "kept", "other"]);
    bed.spoke("network create --subnet 10.81.16.0/24 wide");
    bed.spoke("network create --internal --subnet 10.81.17.0/24 inner");
    bed.spoke("network connect --ip 10.81.16.10 --ifname eth0 wide both");
    bed.spoke("network connect --ip 10.81.17.10 --ifname eth1 inner both");
    bed.spoke("network connect --ip 10.81.17.11 inner kept");
    bed.spoke("network connect --ip 10.81.16.11 wide other");
    for name in ["both", "kept"] {
        bed.listens(name, 8055);
    }
    bed.world.sh(UNCHECKED);
    // By each of its networks it reaches what is there.
    bed.all(
        "both",
        &[
            ("udp 203.0.113.90 8443", "open"),
            ("udp 10.81.17.11 8055", "open"),
            ("udp 203.0.113.90 8443 from=10.81.17.10", "shut"),
        ],
    );
    bed.all("kept", &[("udp 203.0.113.90 8443", "shut"), ("udp 10.81.17.10 8055", "open")]);
    // In its own name by the open network the world answers it, and so does a neighbour there.
    let own = "starts 10.81.16.10 8055 203.0.113.90 5401 10.81.16.1";
    assert_eq!(answered(&bed, "both", own, 5401, false), "open");
    let mut port = 5401;
    for source in ["10.81.17.10", "10.81.17.11"] {
        port += 1;
        let packet = format!("starts {source} 8055 203.0.113.90 {port} 10.81.16.1");
        assert_eq!(answered(&bed, "both", &packet, port, false), "shut", "{packet}");
        let direct = format!("udp {source} 8055 from=203.0.113.90/{port}");
        assert_eq!(bed.attempt("world", &direct), "shut", "{packet}");
        port += 1;
        let packet = format!("starts {source} 8055 10.81.16.11 {port} 10.81.16.1");
        assert_eq!(bed.attempt("both", &packet), "sent");
        let answer = format!("udp {source} 8055 from=10.81.16.11/{port}");
        assert_eq!(bed.attempt("other", &answer), "shut", "{packet}");
    }
    assert_eq!(bed.attempt("other", "udp 10.81.16.10 8055"), "open");
}
