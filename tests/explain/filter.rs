//! Faults of the packet filter, by any program.

use crate::bed::{Bed, Fault};
use crate::faults::{IN, OUT, TO_B};

const fn out(seed: &'static str, undo: &'static str, says: &'static str) -> Fault {
    Fault { ask: "a outside 80", seed, undo, tries: OUT, hop: "filter", says }
}

impl Fault {
    const fn of(self, hop: &'static str) -> Self {
        Self { hop, ..self }
    }
}

/// A table of the operator's with a base chain for what is forwarded.
macro_rules! table {
    ($policy:literal, $rest:literal) => {
        concat!(
            "nft -f - <<'NFT'\ntable inet op {\n chain f { type filter hook forward priority 0; policy ",
            $policy,
            "; }\n}\n",
            $rest,
            "\nNFT"
        )
    };
}

const GONE: &str = "nft delete table inet op";
const FLUSHED: &str = "iptables -F; iptables -X; iptables -P FORWARD ACCEPT";

const FAULTS: &[Fault] = &[
    out(
        table!("accept", "add rule inet op f ip saddr 10.70.1.0/24 drop"),
        GONE,
        "chain f in table inet op drops",
    ),
    out(
        table!("accept", "add rule inet op f meta l4proto tcp tcp dport { 22, 80-90 } reject"),
        GONE,
        "refuses",
    ),
    out(
        table!(
            "accept",
            "add chain inet op j\nadd rule inet op j ip daddr 198.51.100.1 drop\nadd rule inet op j ip daddr 203.0.113.0/24 drop\nadd rule inet op f iifname \"sp-*\" ct state new jump j"
        ),
        GONE,
        "chain j in table inet op",
    ),
    out(
        table!("drop", "add rule inet op f ct state established,related accept"),
        GONE,
        "the policy of chain f",
    ),
    out(
        table!(
            "accept",
            "add chain inet op j\nadd rule inet op j drop\nadd map inet op m { type ifname : verdict; }\nadd element inet op m { \"sp-front\" : goto j }\nadd rule inet op f iifname vmap @m"
        ),
        GONE,
        "chain j in table inet op",
    ),
    out(
        table!(
            "accept",
            "add set inet op s { type ipv4_addr . inet_service; flags interval; }\nadd element inet op s { 10.70.1.0/24 . 80 }\nadd rule inet op f ip saddr . tcp dport @s drop"
        ),
        GONE,
        "delete rule inet op f",
    ),
    out(
        "iptables -A FORWARD -s 10.70.1.2 -m conntrack --ctstate NEW -j REJECT",
        FLUSHED,
        "refuses",
    ),
    out("iptables -P FORWARD DROP", FLUSHED, "the policy of chain FORWARD in table ip filter"),
    out(
        "iptables -N DOCKER-FORWARD; iptables -A DOCKER-FORWARD -i sp-front -j DROP; iptables -A FORWARD -j DOCKER-FORWARD",
        FLUSHED,
        "iptables -I DOCKER-USER -i sp-front -o up0 -p tcp -s 10.70.1.2 --dport 80 -j ACCEPT",
    ),
    out(
        "iptables -N ufw-reject-forward; iptables -A ufw-reject-forward -m addrtype ! --dst-type LOCAL -j REJECT; iptables -A FORWARD -j ufw-reject-forward",
        FLUSHED,
        "ufw route allow in on sp-front out on up0",
    ),
    out(
        "iptables -N DOCKER-USER; iptables -A DOCKER-USER -m comment --comment mine -p tcp -m multiport --dports 80,443 -j DROP; iptables -A FORWARD -j DOCKER-USER",
        FLUSHED,
        "\"by\":\"operator\"",
    ),
    out(
        "nft -f - <<'NFT'\ntable inet firewalld {\n chain filter_FORWARD { type filter hook forward priority 10; policy accept; jump filter_FORWARD_POLICIES; reject with icmpx admin-prohibited; }\n chain filter_FORWARD_POLICIES { iifname \"virbr0\" accept; }\n}\nNFT",
        "nft delete table inet firewalld",
        "\"by\":\"firewalld\"",
    ),
    out(
        "iptables-legacy -A FORWARD ! -i up0 -p tcp --dport 80 -j DROP",
        "iptables-legacy -F FORWARD",
        "iptables-legacy -t filter -D FORWARD 1",
    ),
    out(
        "iptables-legacy -N mine; iptables-legacy -A mine -s 10.70.0.0/16 -j DROP; iptables-legacy -A FORWARD -j mine",
        "iptables-legacy -F; iptables-legacy -X",
        "rule 1 of iptables-legacy -t filter mine",
    ),
    out(
        "iptables-legacy -P FORWARD DROP",
        "iptables-legacy -P FORWARD ACCEPT",
        "iptables-legacy -t filter -P FORWARD ACCEPT",
    ),
    // What comes first has the packet: the port is published, and leads elsewhere.
    Fault {
        ask: "outside host 8080",
        seed: "iptables -t nat -I PREROUTING -p tcp --dport 8080 -j REDIRECT --to-ports 9000",
        undo: "iptables -t nat -F PREROUTING",
        tries: IN,
        hop: "port-map",
        says: "of chain PREROUTING in table ip nat leads what is for 192.0.2.1:8080 to 192.0.2.1:9000, not to b",
    },
    Fault {
        ask: "outside b 80",
        seed: "iptables -t nat -I PREROUTING -p tcp --dport 8080 -j DNAT --to-destination 10.70.1.6:80",
        undo: "iptables -t nat -F PREROUTING",
        tries: IN,
        hop: "port-map",
        says: "nft delete rule ip nat PREROUTING handle",
    },
    Fault {
        ask: "outside b 80",
        seed: "iptables-legacy -t nat -I PREROUTING -p tcp --dport 8080 -j DNAT --to-destination 192.0.2.2:81",
        undo: "iptables-legacy -t nat -F PREROUTING",
        tries: IN,
        hop: "port-map",
        says: "iptables-legacy -t nat -D PREROUTING 1",
    },
    Fault {
        ask: "host 127.0.0.1 8080",
        seed: "iptables -t nat -I OUTPUT -p tcp --dport 8080 -j REDIRECT --to-ports 9000",
        undo: "iptables -t nat -F OUTPUT",
        tries: "timeout TIME bash -c '</dev/tcp/127.0.0.1/8080'",
        hop: "port-map",
        says: "leads what is for 127.0.0.1:8080 to 127.0.0.1:9000, not to b",
    },
    // What `iptables -F` leaves of ufw's chains does nothing: the policy is not ufw's any more.
    out(
        "iptables -N ufw-before-forward; iptables -A FORWARD -j ufw-before-forward; iptables -P FORWARD DROP; iptables -F",
        FLUSHED,
        "nft add chain ip filter FORWARD '{ policy accept; }'",
    ),
    out(
        "iptables-legacy -N ufw-before-forward; iptables-legacy -A FORWARD -j ufw-before-forward; iptables-legacy -P FORWARD DROP; iptables-legacy -F",
        "iptables-legacy -P FORWARD ACCEPT; iptables-legacy -X",
        "iptables-legacy -t filter -P FORWARD ACCEPT",
    ),
    // A proxy that has ended, in front of what a container calls.
    Fault {
        ask: "a outside 80",
        seed: "iptables -t nat -I PREROUTING -i sp-front -p tcp --dport 80 -j REDIRECT --to-ports 3128",
        undo: "iptables -t nat -F PREROUTING",
        tries: OUT,
        hop: "destination",
        says: "it goes to this host itself",
    },
    Fault {
        ask: "outside host 7000",
        seed: "iptables -t nat -I PREROUTING -p tcp --dport 7000 -j REDIRECT --to-ports 7001",
        undo: "iptables -t nat -F PREROUTING",
        tries: "timeout TIME ip netns exec far bash -c '</dev/tcp/192.0.2.1/7000'",
        hop: "listener",
        says: "of chain PREROUTING in table ip nat leads it there",
    },
    Fault {
        ask: "a b 80",
        seed: "sysctl -qw net.bridge.bridge-nf-call-iptables=1; iptables -A FORWARD -i sp-front -o sp-front -j DROP",
        undo: "iptables -F FORWARD; sysctl -qw net.bridge.bridge-nf-call-iptables=0",
        tries: TO_B,
        hop: "filter",
        says: "br_netfilter is on",
    },
    Fault {
        ask: "a b 80",
        seed: "nft add table netdev t; nft add chain netdev t i \"{ type filter hook ingress device $VA priority 0; }\"; nft add rule netdev t i ip daddr 10.70.1.3 drop",
        undo: "nft delete table netdev t",
        tries: TO_B,
        hop: "filter",
        says: "table netdev t",
    },
    Fault {
        ask: "a b 80",
        seed: "nft add table netdev t; nft add chain netdev t i \"{ type filter hook ingress devices = { lo, $VA } priority 0; }\"; nft add rule netdev t i ip daddr 10.70.1.3 drop",
        undo: "nft delete table netdev t",
        tries: TO_B,
        hop: "filter",
        says: "table netdev t",
    },
    Fault {
        ask: "a b 80",
        seed: "nft add table netdev t; nft add chain netdev t e \"{ type filter hook egress device $VB priority 0; }\"; nft add rule netdev t e ip daddr 10.70.1.3 drop",
        undo: "nft delete table netdev t",
        tries: TO_B,
        hop: "filter",
        says: "chain e in table netdev t",
    },
    Fault {
        ask: "a 2001:db8:77::1 80",
        seed: "sysctl -qw net.ipv6.conf.all.forwarding=0; sysctl -qw net.ipv6.conf.sp-front.forwarding=1",
        undo: "sysctl -qw net.ipv6.conf.all.forwarding=1",
        tries: "timeout TIME ip netns exec a bash -c '</dev/tcp/2001:db8:77::1/80'",
        hop: "forwarding",
        says: "net.ipv6.conf.all.forwarding is 0",
    },
    out(
        "/opt/cni/bin/spoke egress set --container a 192.0.2.99:80 2>/dev/null",
        "/opt/cni/bin/spoke egress set --container a --inherit 2>/dev/null",
        "spoke egress set --container spoke:a",
    )
    .of("egress"),
    Fault {
        ask: "a b 80",
        seed: "nft add table bridge t; nft add chain bridge t f '{ type filter hook forward priority 0; }'; nft add rule bridge t f ether daddr $MB drop",
        undo: "nft delete table bridge t",
        tries: TO_B,
        hop: "filter",
        says: "table bridge t",
    },
    Fault {
        ask: "a b 80",
        seed: "ip netns exec b nft add table ip t; ip netns exec b nft add chain ip t i '{ type filter hook input priority 0; }'; ip netns exec b nft add rule ip t i tcp dport 80 drop",
        undo: "ip netns exec b nft delete table ip t",
        tries: TO_B,
        hop: "filter",
        says: "ip netns exec b nft delete rule ip t i handle",
    },
    Fault {
        ask: "a b 80",
        seed: "ip netns exec a nft add table ip t; ip netns exec a nft add chain ip t o '{ type filter hook output priority 0; policy drop; }'",
        undo: "ip netns exec a nft delete table ip t",
        tries: TO_B,
        hop: "filter",
        says: "the policy of chain o",
    },
    Fault {
        ask: "outside b 80",
        seed: "nft flush map inet spoke dnat4_any",
        undo: "nft add element inet spoke dnat4_any '{ tcp . 8080 : 10.70.1.3 . 80 }'",
        tries: IN,
        hop: "port-map",
        says: "8080->80/tcp of b is published",
    },
    Fault {
        ask: "outside b 80",
        seed: "nft add table ip t; nft add chain ip t p '{ type filter hook prerouting priority -200; }'; nft add rule ip t p iifname up0 ip saddr != 192.0.2.0/24 tcp dport 8080 drop",
        undo: "nft delete table ip t",
        tries: IN,
        hop: "filter",
        says: "chain p in table ip t",
    },
    Fault {
        ask: "a host 80",
        seed: "busybox httpd -p 80 -h /run/www; nft add table ip t; nft add chain ip t i '{ type filter hook input priority 0; }'; nft add rule ip t i iifname sp-front tcp dport 80 drop",
        undo: "nft delete table ip t",
        tries: "timeout TIME ip netns exec a bash -c '</dev/tcp/10.70.1.1/80'",
        hop: "filter",
        says: "chain i in table ip t",
    },
];

#[test]
fn filters_are_named() {
    let bed = Bed::new();
    bed.finds(FAULTS);
    bed.reaches("a b 80", TO_B);
    bed.reaches("a outside 80", OUT);
    bed.reaches("outside b 80", IN);
    // What is not understood is said to be so, and only where it decides.
    bed.sh("nft add table ip t; nft add chain ip t f '{ type filter hook forward priority 0; }'; \
        nft add rule ip t f numgen random mod 2 0 drop");
    let (code, found) = bed.explain("a outside 80");
    assert_eq!((code, &found["verdict"]), (5, &"cannot-tell".into()), "{found:#}");
    assert!(found.to_string().contains("numgen"), "{found:#}");
    bed.sh("nft add rule ip t f numgen random mod 2 0 accept; nft delete rule ip t f handle 2");
    bed.reaches("a outside 80", OUT);
    bed.sh("nft delete table ip t");
    decisions_by_chance(&bed);
    led_elsewhere(&bed);
    // What rules look for where TCP has its ports is not in an echo request.
    bed.sh("nft add table inet t; \
        nft add set inet t s '{ type inet_proto . inet_service; elements = { tcp . 299 }; }'; \
        nft add chain inet t p '{ type filter hook prerouting priority mangle; }'; \
        nft add rule inet t p meta l4proto . th dport @s drop");
    bed.reaches("a host", "timeout TIME ip netns exec a ping -q -c 1 10.70.1.1");
    bed.reaches("host b", "timeout TIME ping -q -c 1 10.70.1.3");
    bed.sh("nft delete table inet t");
    // A chain of other devices judges nothing here.
    bed.sh("nft add table netdev t; \
        nft add chain netdev t i '{ type filter hook ingress devices = { lo, up0 } priority 0; }'; \
        nft add rule netdev t i ip daddr 10.70.1.3 drop");
    bed.reaches("a b 80", TO_B);
    bed.sh("nft delete table netdev t");
    // Besides a port at a loopback address there is one that others call.
    bed.sh("/opt/cni/bin/spoke port add e 9081:80");
    let tries = "timeout TIME ip netns exec far bash -c '</dev/tcp/192.0.2.1/9081'";
    bed.reaches("outside e 80", tries);
}

/// A map of decisions whose key is not known, and one that decides nothing.
fn decisions_by_chance(bed: &Bed) {
    for rule in ["numgen random mod 2 vmap { 0 : drop, 1 : drop }", "ip ttl vmap { 63 : drop }"] {
        bed.sh(&format!(
            "nft add table ip t; nft add chain ip t f '{{ type filter hook forward priority 0; }}'; \
             nft add rule ip t f '{rule}'"
        ));
        assert!(!bed.works(OUT, "1"), "{rule}");
        let (code, found) = bed.explain("a outside 80");
        assert_eq!((code, &found["verdict"]), (5, &"cannot-tell".into()), "{rule}: {found:#}");
        bed.sh("nft delete table ip t");
    }
}

/// By a named proxy, and by a translation.
fn led_elsewhere(bed: &Bed) {
    bed.sh("nft add table ip t; nft add synproxy ip t p mss 1460 wscale 7; \
        nft add chain ip t f '{ type filter hook forward priority 0; }'");
    let by_map = "synproxy name tcp dport map { 80 : \"p\" }";
    for rule in ["tcp dport 80 synproxy name \"p\"", by_map] {
        bed.sh(&format!("nft add rule ip t f '{rule}'"));
        let (code, found) = bed.explain("a outside 80");
        assert_eq!((code, &found["verdict"]), (5, &"cannot-tell".into()), "{rule}: {found:#}");
        bed.reaches("a b 80", TO_B);
        bed.sh("nft flush chain ip t f");
    }
    bed.sh("nft delete table ip t");
    bed.sh("nft add table ip t; \
        nft add chain ip t d '{ type nat hook prerouting priority -110; }'; \
        nft add rule ip t d ip saddr 10.70.1.2 icmp type echo-request dnat to 10.70.1.1");
    let (code, found) = bed.explain("a outside");
    let hop = found["hops"].as_array().and_then(|hops| hops.last()).unwrap();
    let said = (code, hop["hop"].as_str(), hop["by"].as_str());
    assert_eq!(said, (1, Some("destination"), Some("operator")), "{hop:#}");
    assert!(hop["fix"].as_str().unwrap().starts_with("nft delete rule ip t d handle"), "{hop:#}");
    bed.sh("nft delete table ip t");
    bed.reaches("a ::ffff:10.70.1.3 80", TO_B);
}

/// The hop that an answer ends with.
fn last(found: &serde_json::Value) -> &str {
    let hop = found["hops"].as_array().and_then(|hops| hops.last());
    hop.and_then(|hop| hop["hop"].as_str()).unwrap_or_default()
}

/// A mark that another chain sets leads a packet elsewhere: a strict network's, and those of other programs.
#[test]
fn marks_decide_routes() {
    let bed = Bed::new();
    bed.sh("spoke=/opt/cni/bin/spoke; ip netns add t; \
        $spoke network create --egress 198.51.100.1:80 --egress-strict --subnet 10.70.9.0/24 tight; \
        $spoke network connect --ip 10.70.9.2 --publish 8085:80 tight t; \
        ip netns exec t busybox httpd -p 80 -h /run/www");
    let to =
        |address: &str| format!("timeout TIME ip netns exec t bash -c '</dev/tcp/{address}/80'");
    bed.reaches("t 198.51.100.1 80", &to("198.51.100.1"));
    let tries = "timeout TIME ip netns exec far bash -c '</dev/tcp/192.0.2.1/8085'";
    bed.reaches("outside t 80", tries);
    assert!(!bed.works(&to("203.0.113.77"), "1"));
    let (code, found) = bed.explain("t 203.0.113.77 80");
    assert_eq!((code, last(&found)), (1, "egress"), "{found:#}");

    // Policy routing of another program.
    bed.sh("nft add table ip t; \
        nft add chain ip t p '{ type filter hook prerouting priority -150; }'; \
        nft add rule ip t p iifname sp-front tcp dport 80 meta mark set 7; \
        ip rule add fwmark 7 priority 90 blackhole");
    assert!(!bed.works(OUT, "1"));
    let (code, found) = bed.explain("a outside 80");
    assert_eq!((code, last(&found)), (1, "host-route"), "{found:#}");
    bed.sh("nft add rule ip t p iifname sp-front tcp dport 80 meta mark set 8");
    bed.reaches("a outside 80", OUT);
    bed.sh("nft add rule ip t p iifname sp-front numgen random mod 2 0 meta mark set 8");
    bed.reaches("a outside 80", OUT);
    bed.sh("nft add rule ip t p iifname sp-front numgen random mod 2 0 meta mark set 7");
    let (code, found) = bed.explain("a outside 80");
    assert_eq!((code, &found["verdict"]), (5, &"cannot-tell".into()), "{found:#}");
}
