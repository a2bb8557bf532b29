//! What the host answers while its packet filter is flushed, and who is let out then.

use tests::Serve;

use crate::bed::{Bed, until};

/// Echo requests and datagrams to a closed port, in the name of another, by both families.
const FORGE: &str = "
import socket, struct, sys
def total(data):
    data += bytes(len(data) % 2)
    words = sum(struct.unpack(\">%dH\" % (len(data) // 2), data))
    words = (words >> 16) + (words & 0xffff)
    return ~(words + (words >> 16)) & 0xffff
source, target = sys.argv[1:]
six = \":\" in source
family = socket.AF_INET6 if six else socket.AF_INET
ends = socket.inet_pton(family, source) + socket.inet_pton(family, target)
upper = lambda protocol, body: total(ends + struct.pack(\">II\", len(body), protocol) + body)
echo = struct.pack(\">BBHHH\", 128 if six else 8, 0, 0, 7, 7) + b\"SECRET!!\"
check = upper(58, echo) if six else total(echo)
echo = echo[:2] + struct.pack(\">H\", check) + echo[4:]
udp = struct.pack(\">HHHH\", 7, 9, 16, 0) + b\"SECRET!!\"
udp = udp[:6] + struct.pack(\">H\", upper(17, udp)) + udp[8:]
with socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
    for _ in range(10):
        for protocol, body in ((58 if six else 1, echo), (17, udp)):
            if six:
                packet = struct.pack(\">IHBB\", 6 << 28, len(body), protocol, 64) + ends + body
            else:
                packet = struct.pack(\">BBHHHBBH\", 0x45, 0, 20 + len(body), 1, 0, 64, protocol, 0) + ends + body
            sock.sendto(packet, (target, 0))
";
const TO_LOOSE: &str = "203.0.113.87";
const TO_TIGHT: &str = "203.0.113.88";
const TO_LOOSE_SIX: &str = "2001:db8:113::87";
const TO_TIGHT_SIX: &str = "2001:db8:113::88";
/// Ports that have frames to addresses of the link's own protocols switched.
const SWITCHED: &str = "ip -d link show master sp-tight | grep -c 'group_fwd_mask 0xfffd'";
const FILTER: &str = "tc filter show dev sp-tight ingress | grep -q bytecode";

#[track_caller]
fn forge(bed: &Bed, namespace: &str, source: &str, target: &str) {
    bed.world.sh(&format!("ip netns exec {namespace} python3 -c '{FORGE}' {source} {target}"));
}

fn count(bed: &Bed) {
    for (name, address) in [("loose", TO_LOOSE), ("tight", TO_TIGHT)] {
        bed.world.sh(&format!("ip netns exec world nft add counter inet seen {name}; ip netns exec world nft add rule inet seen in iifname out0 ip daddr {address} counter name {name}"));
    }
    for (name, address) in [("loose", TO_LOOSE_SIX), ("tight", TO_TIGHT_SIX)] {
        bed.world.sh(&format!("ip netns exec world nft add counter inet seen {name}6; ip netns exec world nft add rule inet seen in iifname out0 ip6 daddr {address} counter name {name}6"));
    }
}

/// It answers whom a packet names, by its own way out, which no rule about the bridge holds for.
#[test]
fn a_flush_has_the_host_answer_nobody_for_a_strict_network() {
    let mut bed = Bed::new(&["loose", "tight", "beside"]);
    bed.spoke("network create --egress none --egress-strict --subnet 10.81.3.0/24 --subnet fd81:3::/64 tight");
    bed.spoke("network connect agents loose");
    bed.spoke("network connect tight tight");
    bed.spoke("network connect tight beside");
    bed.world.sh(FILTER);
    assert_eq!(bed.world.sh(SWITCHED).trim(), "2");
    count(&bed);
    // The daemon puts it back, as the rules of routing.
    bed.world.sh("tc qdisc del dev sp-tight ingress; nft flush ruleset");
    until(&bed.world, FILTER);
    bed.world.sh("for port in $(ip -o link show master sp-tight | grep -o 'veth[0-9a-f]*'); do
        ip link set $port type bridge_slave group_fwd_mask 0; done; nft flush ruleset");
    until(&bed.world, &format!("[ \\$({SWITCHED}) = 2 ]"));
    bed.serve.take().expect("it runs").kill();
    bed.world.sh("nft flush ruleset");
    let counter = |name: &str| format!("ip netns exec world nft list counter inet seen {name}");
    for (name, tight, loose, gateways) in [
        ("", TO_TIGHT, TO_LOOSE, ["10.81.3.1", "10.81.1.1"]),
        ("6", TO_TIGHT_SIX, TO_LOOSE_SIX, ["fd81:3::1", "fd81:1::1"]),
    ] {
        for target in
            [gateways[0], if name.is_empty() { "203.0.113.254" } else { "2001:db8:113::254" }]
        {
            forge(&bed, "tight", tight, target);
        }
        // What came behind it is there: so is what came before.
        forge(&bed, "loose", loose, gateways[1]);
        until(
            &bed.world,
            &format!("! {} | grep -q 'packets 0 '", counter(&format!("loose{name}"))),
        );
        let seen = bed.world.sh(&counter(&format!("tight{name}")));
        assert!(seen.contains("packets 0 "), "{seen}");
    }
    // In its own name it reaches the host, as ever.
    bed.world.sh("ip netns exec tight ping -c 1 -W 5 10.81.3.1; ip netns exec tight ping -c 1 -W 5 fd81:3::1");
    bed.serve = Some(Serve::start(&bed.world, &[]));
    bed.spoke("network disconnect tight tight");
    bed.spoke("network disconnect tight beside");
    bed.spoke("network rm tight");
}

/// Its rules let packets of the whole bridge be marked, among them those of who has lost its own.
#[test]
fn the_first_strict_container_opens_nothing_for_who_lost_its_rules() {
    let mut bed = Bed::new(&["first", "strict"]);
    bed.spoke("network create --names --subnet 10.81.5.0/24 open");
    let rules = "--egress 203.0.113.20:5432";
    bed.spoke(&format!("network connect {rules} open first"));
    bed.all("first", &[("tcp 203.0.113.20 5432", "open"), ("tcp 203.0.113.99 443", "shut")]);
    bed.serve.take().expect("it runs").kill();
    bed.world.sh("nft flush ruleset");
    bed.spoke(&format!("network connect {rules} --egress-strict open strict"));
    bed.all("first", &[("tcp 203.0.113.99 443", "shut")]);
    bed.all("strict", &[("tcp 203.0.113.99 443", "shut")]);
    bed.serve = Some(Serve::start(&bed.world, &[]));
    until(&bed.world, "nft list set inet spoke_fence own_allowed4 | grep -q 203.0.113.20");
    for container in ["first", "strict"] {
        bed.all(container, &[("tcp 203.0.113.20 5432", "open"), ("tcp 203.0.113.99 443", "shut")]);
        bed.spoke(&format!("network disconnect open {container}"));
    }
    bed.spoke("network rm open");
}
