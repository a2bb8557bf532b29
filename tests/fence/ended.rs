//! Rules that allow nothing any more: when the command returns nothing passes.

use crate::bed::{Bed, SPOKE};

const TO: &str = "203.0.113.8";
/// Flows that begin all the time, and go on.
const SENDS: &str = "
import socket, sys
flows = []
while True:
    flow = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    flow.connect((sys.argv[1], 853))
    flows.append(flow)
    if len(flows) > 200:
        flows.pop(0).close()
    for flow in flows[-8:]:
        try:
            flow.send(b\"x\")
        except OSError:
            pass
";
const TRIES: usize = 6;

/// A packet that was judged by the former rules may still be on its way, and begin a flow that is tracked afterwards.
#[test]
fn nothing_passes_when_the_command_returns() {
    let bed = Bed::new(&["agent"]);
    bed.spoke("network connect --ip 10.81.1.10 agents agent");
    bed.world.sh("nft add table inet seen; nft add counter inet seen out
        nft add chain inet seen on '{ type filter hook forward priority 100; }'
        nft add rule inet seen on ip daddr 203.0.113.8 udp dport 853 counter name out");
    for _ in 0..3 {
        bed.world.sh(&format!(
            "ip netns exec agent python3 -c '{SENDS}' {TO} >/dev/null 2>&1 & echo $! >>/tmp/senders"
        ));
    }
    let passed = bed.world.sh(&format!(
        "packets() {{ nft list counter inet seen out | sed -n 's/.*packets \\([0-9]*\\).*/\\1/p'; }}
        for try in $(seq {TRIES}); do
            before=$(packets)
            {SPOKE} egress set agents {TO}:853/udp >/dev/null
            until [ $(packets) -gt $((before + 500)) ]; do sleep 0.05; done
            {SPOKE} egress set agents none >/dev/null
            at=$(packets)
            flows=$({SPOKE} flows -o json | grep -c '{TO}' || true)
            now=$(packets)
            [ $at = $now ] && [ $flows = 0 ] || echo \"$try: $((now - at)) packets, $flows flows\"
        done
        kill $(cat /tmp/senders)"
    ));
    assert_eq!(passed, "", "{}", bed.world.logs());
}
