//! A daemon that starts while containers come and go.

use tests::Serve;

use crate::bed::{Bed, SPOKE, until};

/// How often the container comes and goes in each life of the daemon: what it puts back it reports after two seconds.
const TURNS: usize = 20;

/// Processes of Spoke change the packet filter while the daemon compares it with the records: they are no other
/// program.
#[test]
fn a_start_amid_attachments_puts_nothing_back() {
    let mut bed = Bed::new(&["agent"]);
    let connect = "network connect --ip 10.81.1.10 --egress exact.example:443 agents agent";
    let turns = format!(
        "(while [ ! -e /world/over ]; do {SPOKE} {connect} && {SPOKE} network disconnect agents agent \
         && echo >>/world/turns; done; touch /world/ended) >/dev/null 2>&1 &"
    );
    bed.world.sh(&format!(": >/world/turns; {turns}"));
    for life in 1..5 {
        bed.serve.take().expect("it runs").kill();
        bed.serve = Some(Serve::start(&bed.world, &[]));
        until(&bed.world, &format!("[ \\$(wc -l </world/turns) -ge {} ]", life * TURNS));
    }
    bed.world.sh("touch /world/over");
    until(&bed.world, "[ -e /world/ended ]");
    let healed = "events | grep -c 'another program changed the fences' || true";
    assert_eq!(bed.spoke(healed).trim(), "0", "{}", bed.spoke("events"));
    bed.world.sh("nft flush set inet spoke_fence fenced");
    until(&bed.world, &format!("{SPOKE} events | grep -q 'another program changed the fences'"));
    assert_eq!(bed.spoke(healed).trim(), "1");
}
