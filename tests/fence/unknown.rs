//! What connection tracking takes for no packet of a connection.

use tests::{Plugins, World};

use crate::bed::{Bed, SPOKE, attempts, prepare, until};

/// FIN, PSH and URG; SYN and FIN; SYN and ACK of a connection that nobody has begun.
const FLAGS: [&str; 3] = ["0x29", "0x03", "0x12"];

/// What the world gets is counted by its sender, those of networks that are not masqueraded apart.
const HEARD: &str = "ip netns exec world nft -f - <<'END'
table inet heard {
    set four { typeof ip saddr . ip daddr; flags dynamic; size 65535; }
    set six { typeof ip6 saddr . ip6 daddr; flags dynamic; size 65535; }
    chain in {
        type filter hook prerouting priority -300
        iifname out0 ip daddr 203.0.113.0/25 add @four { ip saddr . ip daddr }
        iifname out0 ip6 daddr 2001:db8:113::/120 add @six { ip6 saddr . ip6 daddr }
    }
}
END";

#[track_caller]
fn heard(world: &World) -> String {
    world.sh("ip netns exec world nft list table inet heard")
}

/// It is not translated. From a network with masquerading it does not leave, whether the network has rules (which allow
/// the address) or not, whether it has an address to leave with or not.
#[test]
fn it_leaves_with_no_containers_own_address() {
    let bed = Bed::new(&["agent", "plain", "mate", "named", "routed"]);
    bed.spoke("network create --subnet 10.81.7.0/24 --source 203.0.113.254 named");
    bed.spoke("network create --subnet 10.81.8.0/24 --subnet fd81:8::/64 --no-masquerade routed");
    for (network, container, address) in [
        ("agents", "agent", "--ip 10.81.1.10 --ip6 fd81:1::10"),
        ("plain", "plain", "--ip 10.81.2.10"),
        ("plain", "mate", "--ip 10.81.2.11"),
        ("named", "named", "--ip 10.81.7.10"),
        ("routed", "routed", "--ip 10.81.8.10 --ip6 fd81:8::10"),
    ] {
        bed.spoke(&format!("network connect {address} {network} {container}"));
    }
    bed.spoke("egress set agents 203.0.113.0/25:443,[2001:db8:113::/120]:443");
    bed.world.sh(HEARD);
    bed.world.sh("ip netns exec mate nft -f - <<'END'
table inet heard { 
    counter odd { }
    chain in {
        type filter hook prerouting priority -300
        tcp sport 41997 counter name odd
    }
}
END");
    let all = [
        ("agent", "10.81.1.10", "203.0.113.60", "10.81.1.1"),
        ("agent", "fd81:1::10", "2001:db8:113::60", "fd81:1::1"),
        ("plain", "10.81.2.10", "203.0.113.60", "10.81.2.1"),
        ("named", "10.81.7.10", "203.0.113.60", "10.81.7.1"),
        ("routed", "10.81.8.10", "203.0.113.61", "10.81.8.1"),
        ("routed", "fd81:8::10", "2001:db8:113::61", "fd81:8::1"),
    ];
    for (container, source, address, gateway) in all {
        for flags in FLAGS {
            let odd = format!("flags {source} {address} {gateway} {flags}");
            assert_eq!(bed.attempt(container, &odd), "sent", "{container}");
        }
        // What is sent after it comes after it.
        let gone = if source.contains(':') { "2001:db8:113::62" } else { "203.0.113.62" };
        bed.attempt(container, &format!("tcp {gone} 443"));
    }
    for routed in ["10.81.8.10 . 203.0.113.61", "fd81:8::10 . 2001:db8:113::61"] {
        until(
            &bed.world,
            &format!("ip netns exec world nft list table inet heard | grep -q '{routed}'"),
        );
    }
    let heard = heard(&bed.world);
    assert!(!heard.contains("13.60") && !heard.contains("::60"), "{heard}");
    assert!(heard.contains("203.0.113.254 . 203.0.113.62"), "{heard}");
    // Neighbours send each other what they like.
    assert_eq!(bed.attempt("plain", "flags 10.81.2.10 10.81.2.11 10.81.2.11 0x29"), "sent");
    let counted = "ip netns exec mate nft list counter inet heard odd | grep -q 'packets 1 '";
    until(&bed.world, counted);
}

/// Nor with the iptables back end, whose rules stand before those that accept what a container sends.
#[test]
fn it_leaves_with_no_containers_own_address_with_iptables() {
    let world = World::new(&Plugins::subject());
    prepare(&world);
    world.netns("plain");
    world.sh(&format!(
        "mkdir -p /etc/spoke; printf '[firewall]\\nbackend = \"iptables\"\\n' >/etc/spoke/config.toml
        {SPOKE} network create --subnet 10.81.2.0/24 --subnet fd81:2::/64 plain"
    ));
    const DROPPING: &str =
        "{ iptables-save; ip6tables-save; } | grep -c 'ctstate INVALID -j DROP' || true";
    let connect = format!("{SPOKE} network connect --ip 10.81.2.10 --ip6 fd81:2::10 plain plain");
    world.sh(&connect);
    world.sh(HEARD);
    assert_eq!(world.sh(DROPPING).trim(), "2");
    let attempt =
        |line: &str| attempts(&world, "/run/netns/plain", &format!("it {line}"))["it"].clone();
    for (source, address, gateway, gone) in [
        ("10.81.2.10", "203.0.113.60", "10.81.2.1", "203.0.113.62"),
        ("fd81:2::10", "2001:db8:113::60", "fd81:2::1", "2001:db8:113::62"),
    ] {
        for flags in FLAGS {
            assert_eq!(attempt(&format!("flags {source} {address} {gateway} {flags}")), "sent");
        }
        assert_eq!(attempt(&format!("tcp {gone} 443")), "open");
    }
    let heard = heard(&world);
    assert!(!heard.contains("13.60") && !heard.contains("::60"), "{heard}");
    assert!(heard.contains("203.0.113.254 . 203.0.113.62"), "{heard}");
    assert!(heard.contains("2001:db8:113::254 . 2001:db8:113::62"), "{heard}");
    world.sh(&format!("{SPOKE} network disconnect plain plain"));
    assert_eq!(world.sh(DROPPING).trim(), "0");
}
