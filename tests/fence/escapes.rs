//! The table of ways out, tried by a container of each runtime.

use serde_json::{Value, json};
use tests::{Answer, Cni, Plugins, Serve, World};

use crate::bed::{RULES, SPOKE, attempts, listen, prepare, until};
use crate::outside;
use crate::rows::{ASKED, LADEN, LINK, MATES, Row, SENT};

/// The containers of one runtime, as `rows.rs` says where they are: the paths of their network namespaces.
#[derive(Clone, Copy)]
pub(crate) struct Containers<'a> {
    pub(crate) agent: &'a str,
    pub(crate) mate: &'a str,
    pub(crate) other: &'a str,
    /// The runtime's own server of names, where that is not the gateway.
    pub(crate) resolver: Option<&'a str>,
}

#[test]
fn nothing_of_cni_s_gets_out_but_what_is_allowed() {
    let world = World::new(&Plugins::subject());
    prepare(&world);
    let _serve = Serve::start(&world, &[]);
    let agents = list("agents", json!(["10.81.1.0/24", "fd81:1::/64"]), true);
    let plain = list("plain", json!(["10.81.2.0/24"]), false);
    let mut pods = Vec::new();
    for (name, list, addresses) in [
        ("agent", &agents, json!(["10.81.1.9", "fd81:1::9"])),
        ("mate", &agents, json!(["10.81.1.8", "fd81:1::8"])),
        ("other", &plain, json!(["10.81.2.9"])),
    ] {
        let mut pod = Cni::container(&world, name);
        pod.runtime = json!({"ips": addresses});
        let answers = pod.add(list);
        assert!(answers.iter().all(Answer::ok), "{answers:?}");
        pods.push(pod);
    }
    let [agent, mate, other] = [0, 1, 2].map(|it: usize| pods[it].netns.as_str());
    let containers = Containers { agent, mate, other, resolver: None };
    nothing_gets_out(&world, &containers);
    ten_thousand_names_at_once(&world, &containers);
    for (pod, list) in pods.iter().zip([&agents, &agents, &plain]) {
        assert!(pod.del(list).iter().all(Answer::ok));
    }
}

fn list(name: &str, subnets: Value, is_fenced: bool) -> Value {
    let subnets = subnets.as_array().into_iter().flatten();
    let ranges: Vec<Value> = subnets.map(|it| json!([{"subnet": it}])).collect();
    let mut plugin =
        json!({"type": "spoke", "capabilities": {"ips": true}, "ipam": {"ranges": ranges}});
    if is_fenced {
        plugin["egress"] = RULES.split(',').map(|rule| json!(rule.trim())).collect();
    }
    json!({"cniVersion": "1.0.0", "name": name, "plugins": [plugin]})
}

/// The whole table.
#[track_caller]
pub(crate) fn nothing_gets_out(world: &World, containers: &Containers<'_>) {
    let agent = containers.agent;
    furnish(world, containers);
    outside::forget(world);
    comes_to(world, agent, ASKED, None);
    comes_to(world, agent, ASKED, containers.resolver);
    for name in ["evil", "c2vjcmv0", "notallowed", "x.exact", " 65", " 64", " 255"] {
        assert!(!outside::was_asked(world, name), "the world was asked for {name}");
    }
    asked_as_spoke_writes(world, agent);
    comes_to(world, containers.mate, MATES, None);
    comes_to(world, agent, SENT, None);
    no_neighbour_was_misled(world, containers);
    comes_to(world, agent, LINK, None);
    has_one_hardware_address(world, agent);
    parts_are_waited_for(world, agent);
    only_that_has_come(world);
    all_was_reported(world);
    who_forged_is_reported(world, agent);
}

#[track_caller]
fn hardware_address(world: &World, netns: &str) -> String {
    let link = world.sh(&format!("nsenter --net={netns} ip -o link show dev eth0"));
    let address = link.split("link/ether ").nth(1).and_then(|it| it.split(' ').next());
    address.expect("a hardware address").to_owned()
}

/// To the host and to its neighbour the container has its own addresses, and no host has those that it made up.
#[track_caller]
fn no_neighbour_was_misled(world: &World, containers: &Containers<'_>) {
    let own = hardware_address(world, containers.agent);
    let bridge = "$(ip -o route show 10.81.1.0/24 | sed 's/.* dev //; s/ .*//')";
    let mate = format!("nsenter --net={} ip neighbour show dev eth0", containers.mate);
    for command in [format!("ip neighbour show dev {bridge}"), mate] {
        let known = world.sh(&command);
        let is_true = |line: &&str| {
            let address = line.split(' ').next().unwrap_or_default();
            address.starts_with("fe80:") || ["10.81.1.9", "fd81:1::9"].contains(&address)
        };
        let wrong: Vec<&str> =
            known.lines().filter(|it| it.contains(&own)).filter(|it| !is_true(it)).collect();
        assert!(wrong.is_empty(), "{command}: {wrong:?}");
        assert!(!known.contains("::200 ") && !known.contains(".200 "), "{command}: {known}");
    }
}

/// Root inside gives its interface another hardware address.
#[track_caller]
fn has_one_hardware_address(world: &World, netns: &str) {
    let own = hardware_address(world, netns);
    for (address, row) in [
        ("02:00:00:00:00:63", ("changed", "tcp 203.0.113.20 5432", "shut")),
        (own.as_str(), ("changed-back", "tcp 203.0.113.20 5432", "open")),
    ] {
        world.sh(&format!("nsenter --net={netns} ip link set dev eth0 address {address}"));
        comes_to(world, netns, &[row], None);
    }
}

/// The report does not name the neighbour in whose name it was.
#[track_caller]
fn who_forged_is_reported(world: &World, netns: &str) {
    comes_to(world, netns, &[("reported", "spoof 10.81.1.8 203.0.113.97 8443", "sent")], None);
    let report = format!("{SPOKE} denied | grep 203.0.113.97");
    until(world, &format!("{report} >/tmp/report"));
    let report = world.sh("cat /tmp/report");
    assert!(report.contains("agent") && report.contains("own addresses"), "{report}");
    assert!(!report.contains("mate"), "{report}");
}

/// A host as open as one can be: it goes by the way that a packet names, bridged packets are filtered (as where
/// Docker runs), and it waits a second for the parts of a datagram.
#[track_caller]
fn furnish(world: &World, containers: &Containers<'_>) {
    for (file, netns) in [("mate", containers.mate), ("other", containers.other)] {
        listen(world, netns, &format!("{file} 8022"));
        until(world, &format!("nsenter --net={netns} ss -Hltn | grep -q ':8022 '"));
    }
    let Containers { agent, mate, .. } = containers;
    world.sh(&format!(
        "bridge=$(ip -o route show 10.81.1.0/24 | sed 's/.* dev \\([^ ]*\\) .*/\\1/')
        agent='nsenter --net={agent} ip'
        $agent address add 10.81.1.77/24 dev eth0; $agent address add 10.99.0.7/24 dev eth0
        $agent address add fe80::9/64 dev eth0 nodad
        nsenter --net={mate} ip address add fe80::8/64 dev eth0 nodad
        ip address add fe80::7/64 dev $bridge nodad; ip route add 10.99.0.0/24 dev $bridge
        ip route add unreachable 192.0.2.0/24; ip -6 route add unreachable 2001:db8:7::/48
        for each in all $bridge; do
            echo 1 >/proc/sys/net/ipv4/conf/$each/accept_source_route
            [ ! -e /proc/sys/net/ipv6/conf/all/seg6_enabled ] || echo 1 >/proc/sys/net/ipv6/conf/$each/seg6_enabled
        done
        echo 1 >/proc/sys/net/ipv4/ipfrag_time; echo 1 >/proc/sys/net/netfilter/nf_conntrack_frag6_timeout
        for each in /proc/sys/net/bridge/bridge-nf-call-ip*tables; do echo 1 >$each; done"
    ));
    // The listeners answer who is not fenced; its flow is what packets of the table claim to belong to.
    let rows: &[Row] = &[
        ("reached", "tcp 203.0.113.99 443", "open"),
        ("flow", "udp 203.0.113.98 8443 from=10.81.2.9/4000", "open"),
    ];
    comes_to(world, containers.other, rows, None);
}

/// Each row comes to what it says; all are tried at once. With a resolver: the rows that ask the gateway, asking
/// that one instead.
#[track_caller]
fn comes_to(world: &World, netns: &str, table: &[Row], resolver: Option<&str>) {
    const SERVER: &str = " 10.81.1.1 ";
    let rows: Vec<&Row> =
        table.iter().filter(|row| resolver.is_none() || row.1.contains(SERVER)).collect();
    let attempt = |row: &Row| match resolver {
        Some(resolver) => row.1.replace(SERVER, &format!(" {resolver} ")),
        None => row.1.to_owned(),
    };
    let lines: String = rows.iter().map(|row| format!("{} {}\n", row.0, attempt(row))).collect();
    let results = attempts(world, netns, &lines);
    let wrong: Vec<String> = rows
        .iter()
        .filter(|row| results[row.0] != row.2)
        .map(|row| format!("{} ({}): {} and not {}", row.0, attempt(row), results[row.0], row.2))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}\n{}", world.logs());
}

/// Outside, queries for a name are the same, byte for byte, but for their number: that is Spoke's own.
#[track_caller]
fn asked_as_spoke_writes(world: &World, netns: &str) {
    // One after the other: equal questions that wait at once go out once.
    LADEN.iter().for_each(|row| comes_to(world, netns, &[*row], None));
    let mut expected = b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01".to_vec();
    expected.extend(b"\x05laden\x07allowed\x07example\x00\x00\x01\x00\x01");
    expected.extend(b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00");
    let queries = outside::queries(world, b"\x05laden");
    assert_eq!(queries.len(), LADEN.len() - 1, "{queries:02x?}");
    for query in &queries {
        assert_eq!(query[2..], expected, "{query:02x?}");
    }
    // The container's number is always this one.
    let is_theirs = |query: &Vec<u8>| query[..2] == 4711_u16.to_be_bytes();
    assert!(!queries.iter().all(is_theirs), "{queries:02x?}");
}

/// The host reports parts of datagrams when it has waited for the others: of one that the container sends by
/// itself it does so last.
#[track_caller]
fn parts_are_waited_for(world: &World, netns: &str) {
    let rows: &[Row] = &[("own-part", "returned 10.81.1.9 10.81.1.1 10.81.1.1 part", "sent")];
    comes_to(world, netns, rows, None);
    let waited = "awk '/^Ip:/ && \\$14 + 0 > 0 { n = 1 } END { exit !n }' /proc/net/snmp";
    until(world, waited);
    // What the host has sent before these has arrived.
    world.sh(": >/dev/tcp/203.0.113.53/443; : >/dev/tcp/2001:db8:113::53/443");
}

/// What the world has seen is what was let pass, and nothing else.
#[track_caller]
fn only_that_has_come(world: &World) {
    let seen = outside::seen(world);
    let four = [
        "10.66.0.20 . tcp . 443",
        "198.51.100.1 . tcp . 443",
        "203.0.113.10 . tcp . 443",
        "203.0.113.12 . tcp . 443",
        "203.0.113.15 . tcp . 443",
        "203.0.113.20 . tcp . 5432",
    ];
    let six = ["2001:db8:113::10 . tcp . 443", "2001:db8:113::20 . tcp . 5432"];
    let expected: [(&str, &[&str]); 5] =
        [("four", &four), ("six", &six), ("odd", &[]), ("odd_six", &[]), ("hidden", &[])];
    for (set, expected) in expected {
        assert_eq!(outside::elements(&seen, set), expected, "{seen}");
    }
}

#[track_caller]
fn all_was_reported(world: &World) {
    let denied: Value =
        serde_json::from_str(&world.sh(&format!("{SPOKE} denied -o json"))).expect("JSON");
    let denied = denied.as_array().expect("a list");
    let network = denied[0]["network"].as_str().expect("a network");
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or("-").to_owned();
    let line =
        |one: &Value| ["container", "act", "name", "address"].map(|key| text(one, key)).join(" ");
    let all: Vec<String> = denied.iter().map(line).collect();
    for expected in [
        "agent name-refused evil.example -",
        "agent address-dropped private.allowed.example 10.66.0.1",
        "agent address-dropped broadcast.allowed.example 203.0.113.255",
        "agent packet-dropped - 203.0.113.99",
        "agent packet-dropped good.allowed.example 203.0.113.10",
    ] {
        assert!(all.iter().any(|one| one == expected), "{expected}: {all:#?}");
    }
    let shown = world.sh(&format!("{SPOKE} egress show {network}"));
    assert!(
        shown.contains("203.0.113.10:443/tcp") && shown.contains("good.allowed.example"),
        "{shown}"
    );
}

/// A container that asks for more than is answered holds up no other one, and is answered again.
#[track_caller]
fn ten_thousand_names_at_once(world: &World, containers: &Containers<'_>) {
    let Containers { agent, mate, .. } = containers;
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            let rows: &[Row] = &[("crowd", "crowd 10.81.1.1 10000 allowed.example", "answered")];
            comes_to(world, agent, rows, None);
        });
        loop {
            let is_over = asks.is_finished();
            let rows: &[Row] = &[
                ("known", "ask 10.81.1.1 agent", "10.81.1.9"),
                ("outside", "ask 10.81.1.1 good.allowed.example", "203.0.113.10"),
                ("refused", "ask 10.81.1.1 evil.example", "NXDOMAIN"),
            ];
            comes_to(world, mate, rows, None);
            if is_over {
                break;
            }
        }
    });
    let rows: &[Row] = &[("again", "ask 10.81.1.1 exact.example A tcp", "203.0.113.16")];
    comes_to(world, agent, rows, None);
    comes_to(world, agent, &[("to-again", "tcp 203.0.113.16 443", "open")], None);
}
