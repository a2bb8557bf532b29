//! In which order the rules of several containers come back.

use crate::bed::{Bed, SPOKE, until};
use crate::flow::Flow;

/// Another program's table of the same name: no port is checked before it is gone.
const FLUSH: &str = "nft -f - <<'END'
flush ruleset
table bridge spoke {
    set checked { type ipv4_addr; }
}
END";

/// A container is refused what its own rules allow as long as its neighbours may send in its name, and so is what
/// rules of the network allow where one of its containers may less.
#[test]
fn nothing_is_allowed_before_ports_are_checked() {
    let bed = Bed::new(&["wide", "narrow", "mate"]);
    bed.spoke("network connect --ip 10.81.1.10 --egress 203.0.113.22:5432,203.0.113.96:8443/udp agents wide");
    bed.spoke("network connect --ip 10.81.1.11 --egress 203.0.113.23:5432 agents narrow");
    bed.spoke("network connect --ip 10.81.1.12 agents mate");
    let open = |open: &str| {
        bed.all("wide", &[("tcp 203.0.113.22 5432", open)]);
        bed.all("mate", &[("tcp 203.0.113.20 5432", open), ("tcp 203.0.113.99 443", "shut")]);
    };
    open("open");
    let mut flow = Flow::open(&bed.world, "wide", "203.0.113.22", 5432);
    for _ in 0..3 {
        bed.world.sh(FLUSH);
        until(&bed.world, "nft list set inet spoke_fence own4 | grep -q 10.81.1.10");
        until(&bed.world, "nft list set inet spoke_fence fenced | grep -q sp-agents");
        // In the name of who may, and in that of one of whom the network's rules hold.
        for source in ["10.81.1.10", "10.81.1.12"] {
            for (to, port) in [("203.0.113.96", 8443), ("203.0.113.20", 5432)] {
                let forged = format!("spoof {source} {to} {port}");
                assert_eq!(bed.attempt("narrow", &forged), "sent");
            }
        }
        open("shut");
        assert_eq!(flow.state(), "goes on");
        let seen = bed.seen();
        assert!(!seen.contains("203.0.113.96"), "{seen}");
        assert!(bed.spoke("events").contains("putting the fences of networks back"));
        bed.world.sh("nft delete table bridge spoke");
        until(&bed.world, "nft list set inet spoke_fence own_allowed4 | grep -q 203.0.113.22");
        until(&bed.world, "nft list set inet spoke_fence allowed4 | grep -q 203.0.113.20");
        open("open");
        assert_eq!(flow.state(), "goes on");
        bed.world.sh(&format!("{SPOKE} egress show agents"));
    }
}
