//! What interfaces are like.

use super::facts::Side;
use super::{but, compare, same};

const V4: &str = "--subnet 10.84.0.0/24";
const ENDPOINT: &str = "driver-opt=com.docker.network.endpoint";

fn mtu(side: &mut Side<'_>) {
    side.network("front", &format!("{V4} -o com.docker.network.driver.mtu=1234"));
    side.network("back", "--subnet 10.84.1.0/24");
    side.serve("one", "--network front");
    side.bed.docker("network connect back one");
    side.inside("MTUs", "one", "cat /sys/class/net/eth0/mtu /sys/class/net/eth1/mtu");
    side.tries_network("one that is too small", "-o com.docker.network.driver.mtu=-1");
}

/// The bridge has the name that is asked for, and is gone with the network.
fn named(side: &mut Side<'_>) {
    side.network("front", &format!("{V4} -o com.docker.network.bridge.name=named0"));
    let look = || side.bed.world().sh("ip -4 -o address show dev named0 | awk '{print $4}'");
    let holds = look();
    side.fact("what the bridge holds", holds.trim());
    side.serve("one", "--network front");
    let ports = side.bed.world().sh("ls /sys/class/net/named0/brif | wc -l");
    side.fact("its ports", ports.trim());
    let taken = "--subnet 10.84.1.0/24 -o com.docker.network.bridge.name=named0";
    side.tries_network("a bridge of another network", taken);
}

fn prefix(side: &mut Side<'_>) {
    side.network("front", &format!("{V4} -o com.docker.network.container_iface_prefix=net"));
    side.network("back", "--subnet 10.84.1.0/24");
    side.serve("one", "--network front");
    side.bed.docker("network connect back one");
    side.inside("interfaces", "one", "ls /sys/class/net");
}

/// Whom engines from 28 on ask for a name.
fn exact(side: &mut Side<'_>) {
    side.network("front", V4);
    side.network("back", "--subnet 10.84.1.0/24");
    side.serve("one", &format!("--network name=front,{ENDPOINT}.ifname=web7"));
    side.bed.docker("network connect back one");
    side.inside("interfaces", "one", "ls /sys/class/net");
    side.asks(&[("@one", "192.0.2.2", 80)]);
    let run = |name: &str| {
        format!("run --name two --network name=front,{ENDPOINT}.ifname={name} busybox true")
    };
    side.tries("a name that cannot be", Some("two"), &run("a/b"));
    side.forget("two");
    side.tries("a name that is too long", None, &run("sixteen-bytes-xx"));
}

fn parameters(side: &mut Side<'_>) {
    side.network("front", V4);
    let sysctls = "net.ipv4.conf.IFNAME.log_martians=1,net.ipv4.conf.IFNAME.forwarding=0";
    side.serve("one", &format!("--network 'name=front,\"{ENDPOINT}.sysctls={sysctls}\"'"));
    let look = "cd /proc/sys/net/ipv4/conf/eth0; cat log_martians forwarding";
    side.inside("parameters", "one", look);
    let run = |said: &str| {
        format!("run --name two --network 'name=front,\"{ENDPOINT}.sysctls={said}\"' busybox true")
    };
    side.tries(
        "of an interface of another name",
        Some("two"),
        &run("net.ipv4.conf.eth0.forwarding=0"),
    );
    side.forget("two");
    side.tries("that there is not", None, &run("net.ipv4.conf.IFNAME.nosuch=0"));
}

/// Engines join several networks at once, so that the interface may be either.
const WAY_OUT: &str = "ip route | sed -n 's/default via \\([0-9.]*\\).*/\\1/p'";

/// Which of several networks leads out.
fn priority(side: &mut Side<'_>) {
    side.network("aaa", V4);
    side.network("bbb", "--subnet 10.84.1.0/24");
    side.network("ccc", "--subnet 10.84.2.0/24");
    side.serve("one", "--network name=bbb,gw-priority=1 --network name=aaa");
    side.inside("the higher one", "one", WAY_OUT);
    side.serve("two", "--network bbb --network aaa");
    side.inside("the first by name", "two", WAY_OUT);
    side.bed.docker("network connect --gw-priority 5 ccc two");
    side.inside("another with a higher one", "two", WAY_OUT);
    side.bed.docker("network disconnect ccc two");
    side.inside("it is gone", "two", WAY_OUT);
    side.serve("three", "--network name=aaa,gw-priority=-1 --network bbb");
    side.inside("the lower one", "three", WAY_OUT);
}

/// What the engine writes for a container.
fn names(side: &mut Side<'_>) {
    side.network("front", &format!("{V4} --ipv6 --subnet fd84::/64"));
    side.serve("one", "--network front --hostname first --network-alias uno");
    side.serve("two", "--network front --link one:linked");
    side.inside("its hosts", "one", "grep first /etc/hosts");
    side.inside("the resolver", "one", "grep nameserver /etc/resolv.conf");
    side.pings("two", &["one", "uno", "linked", "first"]);
    let v6 = "nslookup -type=aaaa one 127.0.0.11 | sed -n 's/^Address: fd/fd/p'";
    side.inside("its address of IPv6", "two", v6);
}

/// Without IPv6 a container has none, not even of the segment.
fn no_v6(side: &mut Side<'_>) {
    side.network("front", V4);
    side.serve("one", "--network front");
    side.inside("IPv6 is off", "one", "cat /proc/sys/net/ipv6/conf/eth0/disable_ipv6");
    side.inside("addresses of IPv6", "one", "ip -6 -o address show dev eth0 | wc -l");
    side.inside("the interface", "one", "ip -o link show eth0 | grep -c LOWER_UP");
    side.inside("its queue", "one", "cat /sys/class/net/eth0/tx_queue_len");
    side.inside("the loopback", "one", "ip -o address show dev lo | awk '{print $4}'");
}

#[test]
fn what_interfaces_are_like() {
    compare(&[
        same("MTU", mtu),
        same("a named bridge", named),
        same("a prefix", prefix),
        same("exact names", exact),
        same("parameters", parameters),
        same("priority", priority),
        // How engines from 28 on write an address that an IPAM plugin gave.
        but(
            "names",
            names,
            &[(
                "its hosts",
                "10.84.0.2\tfirst\nfd84::2\tfirst",
                "::ffff:10.84.0.2\tfirst\nfd84::2\tfirst",
            )],
        ),
        // Ours is the kernel's own: with none, a queueing discipline in the container drops at once.
        but("without IPv6", no_v6, &[("its queue", "0", "1000")]),
    ]);
}
