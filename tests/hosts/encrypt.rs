//! Encrypted networks. What needs the kernel's WireGuard has it in its name, and runs in the guest of
//! `make test-vm`.

use tests::{Feature, Plugins, World};

use crate::bed::{Host, Segment, address, join, serve, until, until_reached};

/// What may be on the segment besides tunnels: etcd, what makes neighbours known, and how a kernel whose tunnel is gone
/// refuses another one's packet (RFC 792: the port of the packet that it quotes).
const OTHER: &str = "tcp port 2379 or arp or ip6 or (icmp[0:2] == 0x303 and icmp[17] == 17 \
                     and (icmp[30:2] == 51820 or icmp[30:2] == 51821))";
const TUNNEL: &str = "udp port 51820 or udp port 51821";

/// The host that is asked says it at once. One that hears of the network has nothing of it: no bridge, and so
/// no container that would send in clear text.
#[test]
fn a_kernel_without_it_refuses_an_encrypted_network() {
    if !Feature::WireGuard.is_missing() {
        return;
    }
    let segment = Segment::new();
    let [a] = segment.cluster(["a"]);
    let said = a.refused("network create --hosts all --encrypt secret");
    assert!(said.contains("this host's kernel has no WireGuard"), "{said}");
    let record = "'{\"vni\":4097,\"subnet\":\"10.64.0.0/16\",\"block\":24,\"mtu\":1390,\"hosts\":\"all\",\
                  \"encrypted\":true,\"since\":1}'";
    segment.etcdctl(&format!("put /spoke/v1/network/secret {record}"));
    segment.etcdctl("put /spoke/v1/encrypted-vni/4097 '\"secret\"'");
    until(
        &a.world,
        "/opt/cni/bin/spoke host ls 2>&1 | grep -q 'network secret is not made here: this host.s kernel'",
    );
    a.world.netns("one");
    let said = a.refused("network connect secret one");
    assert!(said.contains("no network secret"), "{said}");
    assert_eq!(a.sh("ip -o link show type vxlan; ip -o link show type bridge"), "");
    // Another network works beside it.
    a.spoke("network create --hosts all front");
    a.attach("front", "two");
}

#[test]
fn wireguard_is_all_that_is_on_the_wire() {
    if Feature::WireGuard.is_missing() {
        return;
    }
    let segment = Segment::new();
    let [mut a, b] = segment.cluster(["a", "b"]);
    let wire = Wire::begin(&segment);
    a.spoke("network create --hosts all --encrypt secret");
    let (one, two) = (a.attach("secret", "one"), b.attach("secret", "two"));
    until_reached(&a.world, "one", &two);
    until_reached(&b.world, "two", &one);
    // 1500 bytes without WireGuard's 60 and VXLAN's 50, of which ICMP and IP take 28.
    a.sh(&format!("ip netns exec one ping -q -c 1 -W 5 -M do -s 1362 {two}"));
    let wide = a.world.try_sh(&format!("ip netns exec one ping -q -c 1 -W 5 -M do -s 1363 {two}"));
    assert_ne!(wide.status, 0, "{wide:?}");
    // The hosts reach each other's containers as well.
    a.sh(&format!("ping -q -c 1 -W 5 {two}"));
    wire.end();
    let mode = a.sh("stat -c %a /var/lib/spoke/hosts/tunnel-0.json");
    assert_eq!(mode, "600\n");
    without_a_tunnel_nothing_leaves(&segment, &mut a, &two);
    until_reached(&a.world, "one", &two);
    keys_change_without_loss(&a, &b, &two);
    // The network ends, and its tunnels.
    a.spoke("network disconnect secret one");
    b.spoke("network disconnect secret two");
    a.spoke("network rm secret");
    until(&b.world, "! ip -o link show type wireguard | grep -q .");
    // So do the keys: no change of them waits for these hosts.
    until(&b.world, "! ls /var/lib/spoke/hosts | grep -q tunnel");
    for _ in 0..2 {
        until(&b.world, "/opt/cni/bin/spoke host rotate-keys 2>/dev/null");
    }
}

/// The device is deleted while the daemon is not there; and then another program names no device in the entry.
fn without_a_tunnel_nothing_leaves(segment: &Segment, a: &mut Host, two: &str) {
    a.kill();
    let wire = Wire::begin(segment);
    a.sh("ip link del spokewg0");
    let ping = format!("ip netns exec one ping -q -c 2 -i 0.2 -W 1 {two}");
    assert_ne!(a.world.try_sh(&ping).status, 0);
    a.sh(&format!(
        "mac=$(ip -4 neigh show dev sp-secret {two} | cut -d ' ' -f 3)
         device=$(ls /sys/class/net/sp-secret/brif | grep spokevx)
         bridge fdb replace $mac dev $device dst 192.0.2.2 self static"
    ));
    assert_ne!(a.world.try_sh(&ping).status, 0);
    wire.nothing_else();
    // It is the filter that keeps it back.
    a.sh("nft delete table ip spoke_overlay");
    let before = Wire::begin(segment);
    assert_ne!(a.world.try_sh(&ping).status, 0, "the other host takes what is in clear text");
    assert_ne!(before.other(), "");
    a.start();
}

fn keys_change_without_loss(a: &Host, b: &Host, two: &str) {
    a.sh(&format!(
        "ip netns exec one ping -q -i 0.02 -W 5 {two} >/world/flow 2>&1 & echo $! >/world/flow.pid"
    ));
    a.spoke("host rotate-keys");
    for host in [a, b] {
        until(&host.world, "ip link show spokewg1 >/dev/null 2>&1");
    }
    let said = a.refused("host rotate-keys");
    assert!(said.contains("has not finished the last change of keys"), "{said}");
    for host in [a, b] {
        until(&host.world, "! ip link show spokewg0 2>/dev/null");
        assert_eq!(host.sh("ls /var/lib/spoke/hosts | grep tunnel"), "tunnel-1.json\n");
    }
    a.sh("kill -INT $(cat /world/flow.pid); timeout 20 sh -c 'until grep -q loss /world/flow; do sleep 0.05; done'");
    let said = a.sh("cat /world/flow");
    assert!(said.contains(" 0% packet loss"), "{said}");
}

/// A host behind an address translation is reached as soon as it has dialled.
#[test]
fn wireguard_reaches_a_host_that_can_only_dial_out() {
    if Feature::WireGuard.is_missing() {
        return;
    }
    let segment = Segment::new();
    let [a] = segment.cluster(["a"]);
    // The kernel takes nothing from an address to which no way leads at all.
    a.sh("ip route add default via 192.0.2.100");
    let (router, c) = (World::new(&Plugins::subject()), World::new(&Plugins::subject()));
    segment.plug(&router, 50);
    let (here, there) = (router.pid().to_string(), c.pid().to_string());
    let wire = ["link", "add", "lan0", "type", "veth", "peer", "name", "eth0", "netns", &there];
    let mut command = std::process::Command::new("nsenter");
    command.args(["-t", &here, "-n", "ip"]).args(wire);
    assert!(command.status().expect("nsenter").success());
    router.sh("ip address add 198.51.100.1/24 dev lan0; ip link set lan0 up
         sysctl -q -w net.ipv4.ip_forward=1; nft add table ip nat
         nft add chain ip nat out '{ type nat hook postrouting priority 100; }'
         nft add rule ip nat out oifname eth0 masquerade");
    c.sh("ip address add 198.51.100.2/24 dev eth0; ip link set eth0 up
        ip route add default via 198.51.100.1");
    let _serve = serve(&c);
    join(&a.world, &c, "c");
    a.spoke("network create --hosts all --encrypt secret");
    until(&c, "/opt/cni/bin/spoke network inspect secret");
    let one = a.attach("secret", "one");
    c.netns("two");
    c.sh("/opt/cni/bin/spoke network connect secret two");
    until_reached(&a.world, "one", &address(&c, "two"));
    until_reached(&c, "two", &one);
}

/// What is seen on the wire of host a.
struct Wire<'a>(&'a Segment);

impl<'a> Wire<'a> {
    fn begin(segment: &'a Segment) -> Self {
        segment.sh(
            "rm -f /world/tcpdump.said
             tcpdump -U -i host1 -w /world/wire.pcap >/world/tcpdump.said 2>&1 & echo $! >/world/tcpdump.pid
             timeout 30 sh -c 'until grep -q listening /world/tcpdump.said; do sleep 0.05; done'",
        );
        Self(segment)
    }

    /// Packets that are neither a tunnel's nor what belongs there.
    fn other(&self) -> String {
        self.0.sh(&format!(
            "kill -INT $(cat /world/tcpdump.pid)
             timeout 30 sh -c 'until grep -q captured /world/tcpdump.said; do sleep 0.05; done'
             tcpdump -nn -r /world/wire.pcap 'not ({OTHER} or {TUNNEL})' 2>/dev/null"
        ))
    }

    #[track_caller]
    fn nothing_else(&self) {
        assert_eq!(self.other(), "", "this is no tunnel's");
    }

    /// Nothing else, and something of a tunnel.
    #[track_caller]
    fn end(self) {
        self.nothing_else();
        let count = format!("tcpdump -nn -r /world/wire.pcap '{TUNNEL}' 2>/dev/null | wc -l");
        assert_ne!(self.0.sh(&count), "0\n", "nothing was sent at all");
    }
}
