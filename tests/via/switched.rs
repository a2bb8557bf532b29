//! What the bridge of a network with a way only switches, where the host has bridges filter that (`br_netfilter`): this
//! kernel has that built in, and a new network namespace has it on.

use tests::World;

use crate::bed::{
    SPOKE, TUNNEL_UP, outside, prepare, reading, run, send, subject, until, until_more,
};
use crate::forged::{COUNTED, forge, until_forgotten};

/// Two containers on the network, of which `router` has what is behind it.
#[track_caller]
fn two_on_one_bridge(world: &World) {
    prepare(world);
    outside(world, "vpn");
    ["box", "router"].iter().for_each(|name| drop(world.netns(name)));
    world.sh(TUNNEL_UP);
    for command in [
        "network create --via wg0 --subnet 10.80.0.0/24 --subnet fd80::/64 vpn",
        "network connect vpn box",
        "network connect --ip 10.80.0.9 vpn router",
    ] {
        world.sh(&format!("{SPOKE} {command}"));
    }
    let is_on = world.sh(
        "sysctl -n net.bridge.bridge-nf-call-iptables net.bridge.bridge-nf-call-ip6tables | xargs",
    );
    assert_eq!(is_on.trim(), "1 1");
}

/// Neighbours of a container that routes for others there are reached, whole and in fragments, also where the host drops
/// what belongs to no flow, as Kubernetes does.
#[test]
fn what_is_only_switched_may_come_from_anywhere() {
    const ANSWERS: &str = "import socket
family = {'10.77.0.7': socket.AF_INET, 'fd77::7': socket.AF_INET6}
all = [socket.create_server((address, 80), family=family[address]) for address in family]
for one in all:
    one.accept()[0].send(b'here\\n')
one.accept()
";
    let world = World::new(&subject());
    two_on_one_bridge(&world);
    world.sh("ip -n router address add 10.77.0.7/32 dev lo
        ip -n router address add fd77::7/128 nodad dev lo
        ip -n box route add 10.77.0.0/24 via 10.80.0.9
        ip -n box -6 route add fd77::/64 via fd80::3
        nft 'add table inet strict
        add chain inet strict forward { type filter hook forward priority 0; }
        add rule inet strict forward ct state invalid counter drop'");
    run(&world, "/run/netns/router", &["python3", "-c", ANSWERS]);
    for address in ["10.77.0.7", "fd77::7"] {
        for size in [56, 4000] {
            world.sh(&format!("ip netns exec box ping -c1 -W5 -s {size} {address}"));
        }
        until(&world, &format!("ip netns exec router ss -Hltn | grep -Fq '{address}'"));
        let call = format!("exec 3<>/dev/tcp/{address}/80; read -r line <&3; echo $line");
        let said = world.sh(&format!("ip netns exec box timeout 20 bash -c '{call}'"));
        assert_eq!(said.trim(), "here", "{address}");
    }
    // What the bridge switches for its own containers is tracked, as services of the host need it.
    world.sh("ip netns exec box ping -c1 -W5 10.80.0.9
        grep -q 'dst=10.80.0.9 ' /proc/net/nf_conntrack || conntrack -L 2>&1 | grep -q 'dst=10.80.0.9 '");
    send(&world, "/run/netns/box");
    until_more(&world, "vpn", &["four", "six"]);
}

/// Frames to a neighbour, to the host's end of the sender's own link, to everybody: whatever they ask for, in the name of
/// others, this host answers none, and leads nothing elsewhere.
#[test]
fn no_frame_has_the_host_answer_who_is_forged() {
    let world = World::new(&subject());
    two_on_one_bridge(&world);
    world.sh(COUNTED);
    // A service of the host, which is on another network of it.
    world.netns("plain");
    world.sh(&format!(
        "{SPOKE} network create --subnet 10.81.0.0/24 --subnet fd81::/64 plain
        {SPOKE} network connect --ip 10.81.0.9 plain plain
        nft 'add table inet service
        add chain inet service in {{ type nat hook prerouting priority -100; }}
        add rule inet service in ip daddr 198.51.100.7 dnat ip to 10.81.0.9
        add rule inet service in ip6 daddr 2001:db8:77::7 dnat ip6 to fd81::2'"
    ));
    let mac =
        |command: &str| world.sh(&format!("{command} | sed 's/.*link.ether \\([^ ]*\\).*/\\1/'"));
    let neighbour = mac("ip -n router -o link show eth0");
    let port = mac(
        "ip -o link show | grep \"^$(ip -n box -o link show eth0 | sed 's/.*@if\\([0-9]*\\):.*/\\1/'):\"",
    );
    let gateway = mac("ip -o link show sp-vpn");
    for target in [neighbour.trim(), port.trim(), "ff:ff:ff:ff:ff:ff", gateway.trim()] {
        let leads = |command: &str, mac: &str| {
            for address in ["10.80.0.1", "fd80::1"] {
                let neighbour = format!("{address} lladdr {mac} dev eth0 nud permanent");
                world.sh(&format!("ip -n box neigh {command} {neighbour}"));
            }
        };
        leads("replace", target);
        forge(&world, "box", || leads("replace", gateway.trim()));
        until_forgotten(&world);
        let answers = world.sh(&reading("uplink", "answers"));
        assert_eq!(answers.trim(), "0", "{target}");
    }
    let sent = world.sh("nft list counter inet seen sent | grep -o 'packets [0-9]*'");
    assert_eq!(sent.trim(), "packets 60");
}
