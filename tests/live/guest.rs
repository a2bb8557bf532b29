//! Virtual machines beside containers. What stands for the machine here is a program that has the tap
//! device open; `scripts/machine-tests` has a real one.

use tests::{Remains, Serve};

use crate::bed::{Bed, Live, SPOKE};

const MACHINE: &str = include_str!("machine.py");
const ASK6: &str = include_str!("ask6.py");
const PASSES: &str = include_str!("passes.py");

/// What busybox's client does with its lease.
const SCRIPT: &str = r#"#!/bin/sh
[ "$1" = bound ] || exit 0
ip address replace "$ip/$mask" dev eth0
ip route replace default via "$router"
printf 'search %s\nnameserver %s\n' "$search" "$dns" >/etc/resolv.conf
echo "$ip $lease $mtu $hostname" >/run/lease
"#;

impl Bed {
    /// Starts what stands for the machine, on this device.
    #[track_caller]
    fn boot(&self, tap: &str, mac: &str) {
        self.world.sh(&format!(
            "mkdir -p /etc/netns/vm; : >/etc/netns/vm/resolv.conf
            cat >/run/script <<'END'\n{SCRIPT}END\nchmod +x /run/script
            cat >/run/machine.py <<'END'\n{MACHINE}END\ncat >/run/ask6.py <<'END'\n{ASK6}END
            cat >/run/passes.py <<'END'\n{PASSES}END
            ip netns exec vm sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
            python3 /run/machine.py {tap} vm {mac}"
        ));
    }

    /// What the machine's client of DHCP gets: address, lease, MTU, name.
    #[track_caller]
    fn lease(&self) -> String {
        self.world.sh(
            "rm -f /run/lease
            ip netns exec vm busybox udhcpc -i eth0 -n -q -f -t 20 -T 1 -s /run/script >/run/udhcpc 2>&1 \
                || { cat /run/udhcpc; exit 1; }
            cat /run/lease",
        )
        .trim()
        .to_owned()
    }

    /// Whether any of some pings is answered, however slow this machine is.
    fn reaches(&self, from: &str, to: &str) -> bool {
        self.pings(from, &format!("-c 5 -i 0.3 -W 5 {to}"))
    }

    /// Whether nothing answers for two seconds.
    fn misses(&self, from: &str, to: &str) -> bool {
        !self.pings(from, &format!("-c 1 -W 2 {to}"))
    }

    fn pings(&self, from: &str, how: &str) -> bool {
        self.world.try_sh(&format!("ip netns exec {from} ping {how}")).status == 0
    }
}

#[test]
fn a_machine_is_one_among_containers() {
    let bed = Bed::new(&["web", "vm"]);
    let serve = Serve::start(&bed.world, &[]);
    bed.spoke("network create --names --mtu 1400 --subnet 10.74.2.0/24 --subnet fd74:2::/64 shop");
    bed.spoke("network connect shop web");
    bed.serve("web");
    // What a network with a machine leaves in the kernel for the next one.
    bed.spoke("network connect --tap shop vm");
    bed.spoke("network disconnect shop vm");
    let before = Remains::of(&bed.world);
    bed.refuses("network connect --tap --ifname eth0 shop vm", 2, &["--ifname"]);
    bed.refuses("network connect --tap --tap-owner nobody-at-all shop vm", 3, &["/etc/passwd"]);
    bed.refuses("network connect --tap shop web", 4, &["sandbox web"]);
    let made = bed.spoke("network connect --tap --publish 8090:80 --label kind=vm shop vm");
    let words: Vec<&str> = made.split_whitespace().collect();
    let [tap, mac, v4, v6] = words[..] else { panic!("{made}") };
    bed.refuses("network connect --tap shop vm", 4, &["network disconnect shop vm"]);
    bed.refuses("network connect shop vm", 4, &["virtual machine vm"]);
    bed.refuses("endpoint create shop vm", 4, &["virtual machine vm"]);
    bed.world.sh(&format!("ip -d link show {tap} | grep -q 'tun type tap'"));
    bed.boot(tap, mac);

    // It gets its address, and has it; another one with its device gets no answer.
    let address = v4.trim_end_matches("/24");
    assert_eq!(bed.lease(), format!("{address} 86400 1400 vm"));
    let asked = bed.world.sh("ip netns exec vm python3 /run/ask6.py").trim().to_owned();
    assert_eq!(format!("{asked}/64"), v6);
    bed.world.sh(&format!("ip -n vm address add {asked}/128 dev eth0 nodad"));
    bed.until("ip -n vm -6 route show default | grep -q ra");
    bed.world.sh("ip netns exec vm ip -6 route get fd74:2::99 | grep -q 'dev eth0'");

    is_found_and_reached(&bed, tap, mac);
    bed.refuses("endpoint leave shop vm", 2, &["virtual machine", "network disconnect shop vm"]);
    is_seen(&bed, tap, address);

    spoofs_nothing(&bed, mac, address);
    only_the_daemon_configures(&bed, address, &asked);
    stays_bound(&bed);
    is_limited_and_counted(&bed, tap);
    is_waited_for(&bed, &serve, tap);
    assert_eq!(bed.lease(), format!("{address} 86400 1400 vm"));
    bed.spoke("network set shop --mtu 1300");
    bed.world.sh(&format!("ip link show {tap} | grep -q 'mtu 1300'"));
    bed.until(
        "ip netns exec vm busybox udhcpc -i eth0 -n -q -f -t 9 -T 1 -s /run/script >/dev/null 2>&1
        grep -q \" 1300 \" /run/lease",
    );

    // Neither a flush nor the daemon's end changes anything.
    bed.world.sh("nft flush ruleset");
    bed.until("nft list table bridge spoke 2>/dev/null | grep -q bound && nft list table inet spoke | grep -q 8091");
    spoofs_nothing(&bed, mac, address);
    assert_eq!(bed.page(8091), "vm");
    serve.kill();
    bed.spoke("gc");
    assert_eq!(bed.page(8091), "vm");
    let serve = Serve::start(&bed.world, &[]);
    assert!(bed.lease().starts_with(address));

    bed.spoke("network disconnect shop vm");
    bed.refuses("network disconnect shop vm", 3, &["not connected"]);
    bed.spoke("network disconnect --force shop vm");
    bed.world.sh(&format!("! ip link show {tap} 2>/dev/null"));
    bed.no_page(8090);
    bed.spoke("port rm vm 8091");
    bed.world
        .sh("timeout 20 sh -c 'while ip -n vm link show eth0 2>/dev/null; do sleep 0.05; done'");
    bed.spoke("network set shop --mtu 1400");
    let ended: Vec<String> = Remains::of(&bed.world)
        .changes(&before)
        .into_iter()
        .filter(|change| !change.contains(" vm ") && !change.contains("/settings/"))
        // What the machine sent in other names is reported.
        .filter(|change| change != "+ /run/spoke/denied")
        .collect();
    assert!(bed.spoke("denied").contains("not sent from the container's own addresses"));
    assert_eq!(ended, Vec::<String>::new());
    serve.stop();
}

/// It finds containers and is found, and its ports are published.
#[track_caller]
fn is_found_and_reached(bed: &Bed, tap: &str, mac: &str) {
    // By name, in both directions, in both families; what it serves is published.
    bed.until("nft list table inet spoke_names 2>/dev/null | grep -q 10.74.2.1");
    for (from, to) in [("vm", "web"), ("web", "vm")] {
        for family in ["-4", "-6"] {
            assert!(bed.reaches(from, &format!("{family} {to}")), "{from} {family} {to}");
        }
    }
    bed.serve("vm");
    assert_eq!(bed.page(8090), "vm");
    bed.spoke("port add vm 8091:80");
    assert_eq!(bed.page(8091), "vm");
    let shown = bed.json("ps");
    let row = shown.as_array().and_then(|all| all.iter().find(|it| it["name"] == "vm"));
    let row = row.expect("a row");
    assert_eq!((row["tap"].as_str(), row["mac"].as_str()), (Some(tap), Some(mac)), "{row}");
    assert_eq!(row["labels"]["kind"], "vm");
    assert_eq!(row["ports"].as_array().map(Vec::len), Some(2));
}

/// Its packets at its device, in its own directions; and the way to it and from it.
#[track_caller]
fn is_seen(bed: &Bed, tap: &str, address: &str) {
    let lines = bed.world.sh(&format!(
        "ip netns exec web ping -i 0.2 {address} >/run/pings 2>&1 & pings=$!
        timeout 30 {SPOKE} capture vm -c 4 icmp; kill $pings"
    ));
    let (asks, answers) = (format!("> {address} icmp"), format!("{address} > "));
    for (direction, ends) in [("in ", asks), ("out", answers)] {
        let is_it =
            |line: &str| line.contains(&ends) && line.contains(&format!("{tap}  {direction}"));
        assert!(lines.lines().any(is_it), "{direction} {ends}: {lines}");
    }
    bed.refuses("capture vm -i eth0", 2, &["virtual machine"]);
    for ask in ["web vm 80", "vm web 80", "web vm.shop.spoke 80", "host vm 80"] {
        let found = bed.try_spoke(&format!("explain {ask}"));
        let says = found.stdout.contains("virtual machine");
        assert!(found.status == 0 && says, "{ask}: {found:?}");
    }
    let to_host = |from: &str| bed.try_spoke(&format!("explain {from} host")).status;
    assert_eq!(to_host("vm"), to_host("web"));
    bed.world.sh(&format!("ip link set {tap} nomaster"));
    bed.refuses("explain web vm 80", 1, &[]);
    bed.refuses("explain vm web 80", 1, &[]);
    bed.world.sh(&format!("ip link set {tap} master sp-shop"));
    bed.world.sh("nft 'add table bridge t; add chain bridge t c { type filter hook forward priority 0; }; add rule bridge t c drop'");
    bed.refuses("explain vm web 80", 1, &[]);
    bed.world.sh("nft delete table bridge t");
}

/// It sends in no other container's name: not another hardware address, nor another address of either family, and
/// claims none.
#[track_caller]
fn spoofs_nothing(bed: &Bed, mac: &str, own: &str) {
    assert!(bed.reaches("vm", "-4 10.74.2.1") && bed.reaches("vm", "-6 fd74:2::1"));
    for (change, back) in [
        (
            "ip -n vm link set eth0 address 02:99:99:99:99:99".to_owned(),
            format!("ip -n vm link set eth0 address {mac}"),
        ),
        (
            format!(
                "ip -n vm address del {own}/24 dev eth0; ip -n vm address add 10.74.2.77/24 dev eth0"
            ),
            format!(
                "ip -n vm address del 10.74.2.77/24 dev eth0; ip -n vm address add {own}/24 dev eth0
                ip -n vm route replace default via 10.74.2.1"
            ),
        ),
    ] {
        bed.world.sh(&change);
        bed.world.sh("ip neigh flush dev sp-shop; ip -n vm neigh flush dev eth0");
        assert!(bed.misses("vm", "-4 10.74.2.1"), "{change}");
        bed.world.sh(&back);
    }
    // Nor does it take the address of a container whose own port is not checked.
    bed.world.sh(
        "ip neigh flush dev sp-shop; ping -c 1 -W 5 10.74.2.2 >/dev/null; ping -c 1 -W 5 fd74:2::2 >/dev/null
        ip -n vm address add 10.74.2.2/32 dev eth0; ip -n vm address add fd74:2::2/128 dev eth0 nodad
        ip netns exec vm busybox arping -U -c 1 -w 1 -I eth0 10.74.2.2 >/dev/null || true
        ip neigh flush dev sp-shop",
    );
    let web = bed.world.sh("ip -n web -o link show eth0 | sed 's/.*ether \\([^ ]*\\).*/\\1/'");
    for address in ["10.74.2.2", "fd74:2::2"] {
        let known = bed.world.sh(&format!(
            "ping -c 1 -W 5 {address} >/dev/null; ip neigh show {address} dev sp-shop"
        ));
        assert!(known.contains(web.trim()), "{address} is {known}");
    }
    bed.world.sh(
        "ip -n vm address del 10.74.2.2/32 dev eth0; ip -n vm address del fd74:2::2/128 dev eth0",
    );
    bed.world.sh("ip -n vm address add fd74:2::77/64 dev eth0 nodad");
    assert!(bed.misses("vm", "-I fd74:2::77 -6 fd74:2::1"), "another one's IPv6 address");
    bed.world.sh("ip -n vm address del fd74:2::77/64 dev eth0");
    bed.until("ip netns exec vm ping -c 1 -W 1 10.74.2.1 >/dev/null");
}

/// Its questions reach no container, and no container's answers reach it: a container is neither its router nor
/// its name server. Nor does it ask whether anybody has another one's address, which could not have it then.
#[track_caller]
fn only_the_daemon_configures(bed: &Bed, v4: &str, v6: &str) {
    let passes = |from: &str, to: &str, addresses: &str| {
        bed.world.sh(&format!("python3 /run/passes.py {from} {to} {addresses}")).trim().to_owned()
    };
    assert_eq!(passes("vm", "web", &format!("{v4} {v6}")), "answer answer6 probe last");
    let heard = passes("web", "vm", "10.74.2.2 fd74:2::2");
    assert_eq!(heard, "question question6 solicitation probe claim last");
}

/// Its port is bound to its addresses at every moment, while rules of its own come and go.
#[track_caller]
fn stays_bound(bed: &Bed) {
    bed.world.sh("setsid nft monitor >/run/ruleset 2>&1 </dev/null & echo $! >/run/monitor");
    let marked = |name: &str| {
        bed.until(&format!(
            "nft add table ip {name} && nft delete table ip {name} && grep -q {name} /run/ruleset"
        ));
    };
    marked("begin");
    bed.spoke("egress set --container vm 203.0.113.9:443");
    bed.spoke("egress set --container vm --inherit");
    marked("end");
    let lost = bed
        .world
        .sh("kill $(cat /run/monitor); grep 'delete element bridge spoke' /run/ruleset || true");
    assert_eq!(lost, "");
}

/// The daemon waits for a device that is down, and does nothing meanwhile.
#[track_caller]
fn is_waited_for(bed: &Bed, serve: &Serve, tap: &str) {
    let process = serve.pid().expect("a process").as_raw_nonzero();
    let used = || {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("its state");
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        // In user space and in the kernel, in hundredths of a second (proc(5)).
        fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>()
    };
    bed.world.sh(&format!("ip link set {tap} down"));
    let before = used();
    assert!(bed.misses("vm", "-4 10.74.2.1"));
    let spent = used() - before;
    bed.world.sh(&format!("ip link set {tap} up"));
    assert!(spent < 50, "{spent} hundredths of two seconds");
}

/// A limit holds, and is lifted; the counters are the device's, from the machine's side.
#[track_caller]
fn is_limited_and_counted(bed: &Bed, tap: &str) {
    bed.spoke("limit vm 8mbit");
    bed.world.sh(&format!("tc qdisc show dev {tap} | grep -q 'tbf.*rate 8Mbit'"));
    assert!(bed.spoke("limit").contains("vm"));
    bed.spoke("limit vm none");
    bed.world.sh(&format!("! tc qdisc show dev {tap} | grep -q tbf"));
    let top = bed.json("top vm");
    let sent = &top[0]["transmit_bytes"];
    let counted = bed.world.sh(&format!("cat /sys/class/net/{tap}/statistics/rx_bytes"));
    let counted: u64 = counted.trim().parse().expect("a number");
    assert!(sent.as_u64().is_some_and(|it| it > 0 && it <= counted), "{top}");
}
