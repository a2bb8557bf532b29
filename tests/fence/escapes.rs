//! A table of ways out, each tried by a container.

use crate::bed::Bed;

/// What each attempt of a container comes to. The first half are questions, which open what the second half
/// reaches.
const ASKED: &[(&str, &str, &str)] = &[
    // What is allowed.
    ("allowed", "ask 10.81.1.1 good.allowed.example", "203.0.113.10"),
    ("exact", "ask 10.81.1.1 Exact.EXAMPLE", "203.0.113.16"),
    ("over-tcp", "ask 10.81.1.1 fresh.allowed.example A tcp", "203.0.113.17"),
    ("over-ipv6", "ask fd81:1::1 late.allowed.example", "203.0.113.18"),
    ("six", "ask 10.81.1.1 six.allowed.example AAAA", "2001:db8:113::10"),
    ("aliases", "ask 10.81.1.1 alias.allowed.example", "203.0.113.12"),
    ("text", "ask 10.81.1.1 good.allowed.example TXT", "type16"),
    ("own", "ask 10.81.1.1 mate", "10.81.1.8"),
    // Names that are not.
    ("evil", "ask 10.81.1.1 evil.example", "NXDOMAIN"),
    ("labels", "ask 10.81.1.1 c2VjcmV0.exfil.evil.example", "NXDOMAIN"),
    ("labels-txt", "ask 10.81.1.1 c2VjcmV0.exfil.evil.example TXT", "NXDOMAIN"),
    ("labels-tcp", "ask 10.81.1.1 c2VjcmV0.exfil.evil.example A tcp", "NXDOMAIN"),
    ("apex", "ask 10.81.1.1 allowed.example", "NXDOMAIN"),
    ("below-exact", "ask 10.81.1.1 x.exact.example", "NXDOMAIN"),
    ("suffix", "ask 10.81.1.1 notallowed.example", "NXDOMAIN"),
    ("prefix", "ask 10.81.1.1 good.allowed.example.evil.example", "NXDOMAIN"),
    ("dotted", "dotted 10.81.1.1 evil!allowed example", "NXDOMAIN"),
    ("dotted-below", "dotted 10.81.1.1 x!evil allowed.example", "NXDOMAIN"),
    ("reverse", "ask 10.81.1.1 9.113.0.203.in-addr.arpa A", "NXDOMAIN"),
    ("target", "ask 10.81.1.1 two.evil.example", "NXDOMAIN"),
    // Servers elsewhere.
    ("server-udp", "ask 203.0.113.8 evil.example", "NXDOMAIN"),
    ("server-tcp", "ask 203.0.113.8 evil.example A tcp", "NXDOMAIN"),
    ("server-six", "ask 2001:db8:113::8 evil.example", "NXDOMAIN"),
    ("server-host", "ask 203.0.113.254 evil.example", "NXDOMAIN"),
    ("server-known", "ask 203.0.113.53 evil.example", "NXDOMAIN"),
    // Addresses that no public name has.
    ("private", "ask 10.81.1.1 private.allowed.example", "nothing"),
    ("metadata", "ask 10.81.1.1 meta.allowed.example", "nothing"),
    ("loopback", "ask 10.81.1.1 loop.allowed.example", "nothing"),
    ("hosts", "ask 10.81.1.1 host.allowed.example", "nothing"),
    ("gateways", "ask 10.81.1.1 gateway.allowed.example", "nothing"),
    ("neighbours", "ask 10.81.1.1 other.allowed.example", "nothing"),
    ("shared-space", "ask 10.81.1.1 zone.allowed.example", "nothing"),
    ("unspecified", "ask 10.81.1.1 nothing.allowed.example", "nothing"),
    ("multicast", "ask 10.81.1.1 group.allowed.example", "nothing"),
    ("broadcast", "ask 10.81.1.1 everybody.allowed.example", "nothing"),
    ("unique-local", "ask 10.81.1.1 private6.allowed.example AAAA", "nothing"),
    ("mapped", "ask 10.81.1.1 mapped.allowed.example AAAA", "nothing"),
    ("nat64", "ask 10.81.1.1 nat64.allowed.example AAAA", "nothing"),
    ("mixed", "ask 10.81.1.1 mixed.allowed.example", "203.0.113.11"),
    ("by-rule", "ask 10.81.1.1 static.allowed.example", "10.66.0.20"),
    // Answers that lie.
    ("https", "ask 10.81.1.1 good.allowed.example HTTPS", "nothing"),
    ("svcb", "ask 10.81.1.1 good.allowed.example SVCB", "nothing"),
    ("any", "ask 10.81.1.1 good.allowed.example ANY", "nothing"),
    ("poisoned", "ask 10.81.1.1 poison.allowed.example", "203.0.113.13"),
    ("wrong-question", "ask 10.81.1.1 wrong.allowed.example", "203.0.113.14"),
    ("ring", "ask 10.81.1.1 ring.allowed.example", "SERVFAIL"),
    ("no-time", "ask 10.81.1.1 zero.allowed.example", "203.0.113.15"),
    ("for-ever", "ask 10.81.1.1 ever.allowed.example", "203.0.113.21"),
    ("cut-short", "ask 10.81.1.1 many.allowed.example", "truncated"),
    ("five-hundred", "ask 10.81.1.1 many.allowed.example A tcp", "32 addresses"),
];

const SENT: &[(&str, &str, &str)] = &[
    // What is allowed.
    ("to-name", "tcp 203.0.113.10 443", "open"),
    ("to-alias", "tcp 203.0.113.12 443", "open"),
    ("to-six", "tcp 2001:db8:113::10 443", "open"),
    ("to-no-time", "tcp 203.0.113.15 443", "open"),
    ("to-first-of-many", "tcp 198.51.100.1 443", "open"),
    ("to-rule", "tcp 203.0.113.20 5432", "open"),
    ("to-rule-six", "tcp 2001:db8:113::20 5432", "open"),
    ("to-private-rule", "tcp 10.66.0.20 443", "open"),
    ("to-mate", "tcp 10.81.1.8 8022", "open"),
    // Other ports, protocols and addresses.
    ("port", "tcp 203.0.113.10 80", "shut"),
    ("quic", "udp 203.0.113.10 443", "shut"),
    ("rule-port", "tcp 203.0.113.20 443", "shut"),
    ("rule-udp", "udp 203.0.113.20 5432", "shut"),
    ("rule-neighbour", "tcp 203.0.113.22 5432", "shut"),
    ("address", "tcp 203.0.113.99 443", "shut"),
    ("address-six", "tcp 2001:db8:113::99 443", "shut"),
    ("poisoned-first", "tcp 203.0.113.66 443", "shut"),
    ("poisoned-additional", "tcp 203.0.113.67 443", "shut"),
    ("poisoned-own", "tcp 203.0.113.68 443", "shut"),
    ("dropped-private", "tcp 10.66.0.1 443", "shut"),
    ("past-many", "tcp 198.51.100.200 443", "shut"),
    ("metadata", "tcp 169.254.169.254 80", "shut"),
    ("metadata-443", "tcp 169.254.169.254 443", "shut"),
    ("dot", "tcp 203.0.113.8 853", "shut"),
    ("dot-known", "tcp 203.0.113.53 853", "shut"),
    ("doh", "tcp 203.0.113.8 443", "shut"),
    ("ssh", "tcp 203.0.113.10 22", "shut"),
    ("ping", "ping 203.0.113.10", "shut"),
    ("ping-rule", "ping 203.0.113.20", "shut"),
    ("ping-six", "ping 2001:db8:113::10", "shut"),
    ("fragments", "big 203.0.113.99 443", "shut"),
    ("fragments-quic", "big 203.0.113.10 443", "shut"),
    ("gre", "raw 203.0.113.10 47", "sent"),
    ("ipip", "raw 203.0.113.10 4", "sent"),
    ("esp-six", "raw 2001:db8:113::10 50", "sent"),
    ("sctp", "raw 203.0.113.20 132", "sent"),
    ("spoofed-outsider", "spoof 192.0.2.1 203.0.113.20 5432", "sent"),
    ("spoofed-mate", "spoof 10.81.1.8 203.0.113.99 443", "sent"),
    ("spoofed-other", "spoof 10.81.2.9 203.0.113.99 443", "sent"),
    // Flows of others: `other` has one, which the kernel would find these packets to belong to.
    ("spoofed-flow", "spoof 10.81.2.9 203.0.113.98 8443", "sent"),
    ("spoofed-flow-host", "spoof 203.0.113.254 203.0.113.98 8443", "sent"),
    ("message", "message 203.0.113.98 8443 203.0.113.254", "sent"),
    ("spoofed-host", "spoof 203.0.113.254 203.0.113.99 443", "sent"),
    ("mdns", "udp 224.0.0.251 443", "shut"),
    ("broadcast", "udp 255.255.255.255 8022", "shut"),
    ("broadcast-net", "udp 203.0.113.255 443", "shut"),
    // The host, and other networks.
    ("gateway", "tcp 10.81.1.1 8022", "shut"),
    ("gateway-udp", "udp 10.81.1.1 8022", "shut"),
    ("gateway-six", "tcp fd81:1::1 8022", "shut"),
    ("gateway-names", "tcp 10.81.1.1 299", "shut"),
    ("gateway-ping", "ping 10.81.1.1", "shut"),
    ("host", "tcp 203.0.113.254 8022", "shut"),
    ("host-six", "tcp 2001:db8:113::254 8022", "shut"),
    ("other-gateway", "tcp 10.81.2.1 8022", "shut"),
    ("other-container", "tcp 10.81.2.9 8022", "shut"),
    // Flows that the container begins in the name of others towards itself, to be the one that answers.
    ("answers-outside", "answer 203.0.113.99 443 10.81.1.1", "shut"),
    ("answers-outside-six", "answer 2001:db8:113::99 443 fd81:1::1", "shut"),
    ("answers-by-mate", "answer 203.0.113.99 443 10.81.1.8", "shut"),
    ("answers-gateway", "answer 10.81.1.1 8022 10.81.1.8", "shut"),
    ("answers-gateway-six", "answer fd81:1::1 8022 fd81:1::1", "shut"),
    ("answers-broadcast", "answer 10.81.1.255 8022 10.81.1.8", "shut"),
    ("answers-anycast-six", "answer fd81:1:: 8022 fd81:1::1", "shut"),
    ("answers-host", "answer 203.0.113.254 8022 10.81.1.8", "shut"),
    ("answers-host-six", "answer 2001:db8:113::254 8022 fd81:1::8", "shut"),
    // Root inside gives itself another address.
    ("own-address", "tcp 203.0.113.10 443 from=10.81.1.77", "shut"),
    ("own-other-net", "tcp 203.0.113.20 5432 from=10.99.0.7", "shut"),
];

fn lines(table: &[(&str, &str, &str)]) -> String {
    table.iter().map(|(name, attempt, _)| format!("{name} {attempt}\n")).collect()
}

#[track_caller]
fn comes_to(bed: &Bed, table: &[(&str, &str, &str)]) {
    let results = bed.attempts("agent", &lines(table));
    let wrong: Vec<String> = table
        .iter()
        .filter(|(name, _, expected)| results[*name] != *expected)
        .map(|(name, attempt, expected)| {
            format!("{name} ({attempt}): {} and not {expected}", results[*name])
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}\n{}", bed.world.logs());
}

#[test]
fn nothing_gets_out_but_what_is_allowed() {
    let bed = Bed::new(&["agent", "mate", "other"]);
    bed.spoke("network connect --ip 10.81.1.9 --ip6 fd81:1::9 agents agent");
    bed.spoke("network connect --ip 10.81.1.8 --ip6 fd81:1::8 agents mate");
    bed.spoke("network connect --ip 10.81.2.9 plain other");
    for inside in ["mate", "other"] {
        crate::bed::listen(&bed.world, &format!("/run/netns/{inside}"), &format!("{inside} 8022"));
        crate::bed::until(
            &bed.world,
            &format!("ip netns exec {inside} ss -Hltn | grep -q ':8022 '"),
        );
    }
    bed.world.sh("ip -n agent address add 10.81.1.77/24 dev eth0
        ip -n agent address add 10.99.0.7/24 dev eth0; ip route add 10.99.0.0/24 dev sp-agents");
    // As where Docker runs: packets that a bridge forwards are filtered, too.
    bed.world
        .sh("for each in /proc/sys/net/bridge/bridge-nf-call-ip*tables; do echo 1 >$each; done");
    // The listeners answer who is not fenced.
    assert_eq!(bed.attempt("other", "tcp 203.0.113.99 443"), "open");
    assert_eq!(bed.attempt("other", "udp 203.0.113.98 8443 from=10.81.2.9/4000"), "open");
    bed.world.sh("ip netns exec world nft flush set inet seen four");

    comes_to(&bed, ASKED);
    for name in ["evil", "c2vjcmv0", "notallowed", "x.exact", "65", "64", "255"] {
        let name = if name.parse::<u16>().is_ok() { format!(" {name}") } else { name.to_owned() };
        assert!(!bed.was_asked(&name), "the world was asked for {name}");
    }
    asked_as_spoke_writes(&bed);
    comes_to(&bed, SENT);
    by_addresses_of_the_link(&bed);

    only_that_has_come(&bed);
    all_was_told(&bed);
}

/// Neighbours reach each other by addresses of the link, also where a bridge's packets are filtered; the host
/// is not reached by them.
#[track_caller]
fn by_addresses_of_the_link(bed: &Bed) {
    bed.world.sh("ip -n mate address add fe80::8/64 dev eth0 nodad
         ip -n agent address add fe80::9/64 dev eth0 nodad
         ip address add fe80::7/64 dev sp-agents nodad
         ls /proc/sys/net/bridge/bridge-nf-call-ip6tables");
    // A flow to the host cannot be begun in its name: its answers would be let in.
    let table = [
        ("mate-link", "tcp fe80::8%eth0 8022", "open"),
        ("mate-link-own", "tcp fe80::8%eth0 8022 from=fe80::9%eth0", "open"),
        ("host-link", "tcp fe80::7%eth0 8022", "shut"),
        ("answers-host-link", "answer fe80::7 8022 fe80::8", "shut"),
    ];
    comes_to(bed, &table);
}

/// Queries for one allowed name, laden with what a container could tell the servers outside by their form.
const LADEN: &[(&str, &str, &str)] = &[
    ("plain", "ask 10.81.1.1 laden.allowed.example", "203.0.113.35"),
    ("case", "ask 10.81.1.1 lAdEn.ALLowed.eXAmple", "203.0.113.35"),
    (
        "options",
        "laden 10.81.1.1 laden.allowed.example 0100 4096 c2VjcmV0",
        "203.0.113.35,additional",
    ),
    ("bits", "laden 10.81.1.1 LADEN.allowed.example 01f0 1400 secret", "203.0.113.35,additional"),
    (
        "not-recursive",
        "laden 10.81.1.1 laden.allowed.example 0000 513 s",
        "203.0.113.35,additional",
    ),
    ("tcp-case", "ask 10.81.1.1 Laden.Allowed.Example A tcp", "203.0.113.35"),
    (
        "tcp-options",
        "laden 10.81.1.1 laden.allowed.example 0130 4096 c2VjcmV0 tcp",
        "203.0.113.35,additional",
    ),
    ("rare", "ask 10.81.1.1 laden.allowed.example CAA", "nothing"),
];

/// Outside, queries for a name are the same, byte for byte, but for their number: that is Spoke's own.
#[track_caller]
fn asked_as_spoke_writes(bed: &Bed) {
    comes_to(bed, LADEN);
    let mut expected = b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01".to_vec();
    expected.extend(b"\x05laden\x07allowed\x07example\x00\x00\x01\x00\x01");
    expected.extend(b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00");
    let queries = bed.queries(b"\x05laden");
    assert_eq!(queries.len(), LADEN.len() - 1, "{queries:02x?}");
    for query in &queries {
        assert_eq!(query[2..], expected, "{query:02x?}");
    }
    // The container's number is always this one.
    let is_theirs = |query: &Vec<u8>| query[..2] == 4711_u16.to_be_bytes();
    assert!(!queries.iter().all(is_theirs), "{queries:02x?}");
}

/// What the world has seen is what was let pass, and nothing else.
#[track_caller]
fn only_that_has_come(bed: &Bed) {
    let seen = bed.seen();
    let set = |name: &str| {
        let from = seen.split(&format!("set {name} {{")).nth(1).expect("a set");
        let elements = from.split("chain in").next().unwrap().split("set ").next().unwrap();
        let elements =
            elements.split_once("elements = {").map(|(_, it)| it.split('}').next().unwrap());
        let mut all: Vec<String> = elements
            .map(|it| it.split(',').map(|one| one.trim().to_owned()).collect())
            .unwrap_or_default();
        all.sort();
        all
    };
    let four = [
        "10.66.0.20 . tcp . 443",
        "198.51.100.1 . tcp . 443",
        "203.0.113.10 . tcp . 443",
        "203.0.113.12 . tcp . 443",
        "203.0.113.15 . tcp . 443",
        "203.0.113.20 . tcp . 5432",
    ];
    assert_eq!(set("four"), four, "{seen}");
    assert_eq!(
        set("six"),
        ["2001:db8:113::10 . tcp . 443", "2001:db8:113::20 . tcp . 5432"],
        "{seen}"
    );
    assert_eq!(set("odd"), Vec::<String>::new(), "{seen}");
}

#[track_caller]
fn all_was_told(bed: &Bed) {
    let denied = bed.denied();
    let all: Vec<String> = denied
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let text = |key: &str| one[key].as_str().unwrap_or("-").to_owned();
            format!(
                "{} {} {} {} {}",
                text("network"),
                text("container"),
                text("act"),
                text("name"),
                text("address")
            )
        })
        .collect();
    for expected in [
        "agents agent name-refused evil.example -",
        "agents agent address-dropped private.allowed.example 10.66.0.1",
        "agents agent packet-dropped - 203.0.113.99",
        "agents agent packet-dropped good.allowed.example 203.0.113.10",
    ] {
        assert!(all.iter().any(|one| one == expected), "{expected}: {all:#?}");
    }
    let shown = bed.spoke("egress show agents");
    assert!(
        shown.contains("203.0.113.10:443/tcp") && shown.contains("good.allowed.example"),
        "{shown}"
    );
}
