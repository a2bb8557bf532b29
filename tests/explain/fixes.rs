//! What stands behind `fix:` mends: it is run as it is, and then the same is reached.

use crate::bed::{Bed, is_command};
use crate::faults::{IN, OUT, TO_B};

const IN_TO_E: &str = "timeout TIME ip netns exec far bash -c '</dev/tcp/192.0.2.1/8081'";

const OUT_TO_FAR: &str = "timeout TIME ip netns exec a bash -c '</dev/tcp/203.0.113.77/80'";

/// What is asked, what breaks it, what really is tried, and what takes the rest away.
const BROKEN: &[[&str; 4]] = &[
    ["a b 80", "ip -n a route add blackhole 10.70.1.3/32", TO_B, "ip -n a route del 10.70.1.3/32"],
    [
        "a 203.0.113.77 80",
        "ip -n a route add prohibit 203.0.113.77/32",
        OUT_TO_FAR,
        "ip -n a route del 203.0.113.77/32",
    ],
    ["a outside 80", "ip route add 10.70.1.2/32 via 192.0.2.2", OUT, "ip route del 10.70.1.2/32"],
    [
        "outside host 8080",
        "iptables -t nat -I PREROUTING -p tcp --dport 8080 -j REDIRECT --to-ports 9000",
        IN,
        ":",
    ],
    [
        "host b 80",
        "ip route add 10.70.1.3/32 dev up0",
        "timeout TIME bash -c '</dev/tcp/10.70.1.3/80'",
        "ip route del 10.70.1.3/32",
    ],
    ["outside e 80", ":", IN_TO_E, ":"],
    ["outside f 80", "ip netns exec f busybox httpd -p 80 -h /run/www", "true", ":"],
    [
        "a b 80",
        "/opt/cni/bin/spoke limit b --quota 1kB/month; ip netns exec a ping -q -c 2 -W 0.3 -s 1400 10.70.1.3 || true",
        TO_B,
        ":",
    ],
];

#[test]
fn a_fix_mends() {
    let bed = Bed::new();
    for [ask, seed, tries, rest] in BROKEN {
        bed.sh(seed);
        let (code, found) = bed.explain(ask);
        let last = found["hops"].as_array().and_then(|hops| hops.last()).cloned();
        let last = last.unwrap_or_default();
        let fix = last["fix"].as_str().unwrap_or_default();
        assert!(code == 1 && is_command(fix), "{ask} after {seed}: {last:#}");
        bed.sh(&format!("PATH=/opt/cni/bin:$PATH; {fix}"));
        bed.reaches(ask, tries);
        bed.sh(rest);
    }
    // A route to the address that stands for all others would open none of them.
    for kind in ["prohibit", "unreachable", "blackhole"] {
        bed.sh(&format!("ip -n a route replace {kind} default"));
        let (code, found) = bed.explain("a outside 80");
        let last = found["hops"].as_array().and_then(|hops| hops.last()).cloned();
        let last = last.unwrap_or_default();
        assert!(code == 1 && last["hop"] == "route" && last["fix"].is_null(), "{kind}: {last:#}");
        assert!(!bed.works(OUT, "0.3"), "{kind}");
    }
    bed.sh("ip -n a route replace default via 10.70.1.1");
    bed.reaches("a outside 80", OUT);
}
