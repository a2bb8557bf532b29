//! What of an established flow is lost while something is restarted.

use model::Result;

use super::OURS;
use super::attach::parsed;
use super::bed::Bed;
use super::probe::{Echo, Flow, first_reply};
use crate::docker::line::say;
use crate::samples::Figure;

/// The work.
pub(super) const LOST: &str = "packets lost of a flow";
/// While this happens.
pub(super) const EVENTS: [&str; 3] =
    ["the daemons restart", "etcd's leader is killed", "all of etcd restarts"];

/// Measures.
pub(super) fn run(bed: &mut Bed) -> Result<()> {
    let (from, to) = (bed.a.make_netns("flow")?, bed.b.make_netns("flow")?);
    for host in bed.hosts() {
        host.spoke("network connect front flow");
    }
    let at = parsed(&bed.b.address_in("flow"))?;
    let _echo = Echo::start(&to)?;
    first_reply(&from, at, std::time::Instant::now())?;
    for event in EVENTS {
        let flow = Flow::start(&from, at)?;
        restart(bed, event)?;
        let (sent, lost) = flow.end()?;
        let place = |verb| Figure { case: LOST, verb, who: OURS, unit: "" };
        say(place(event), 0, Ok(f64::from(lost)))?;
        say(place("of so many"), 0, Ok(f64::from(sent)))?;
    }
    Ok(())
}

fn restart(bed: &mut Bed, event: &str) -> Result<()> {
    if event == EVENTS[0] {
        for host in [&mut bed.a, &mut bed.b] {
            host.kill();
            host.start();
        }
    } else {
        let leader = bed.leader()?;
        bed.kill_etcd(|at| at == leader || event == EVENTS[2]);
        bed.start_etcd();
    }
    // Until every daemon has heard of it, and made its entries anew.
    for host in bed.hosts() {
        host.until("! /opt/cni/bin/spoke host ls 2>&1 | grep -q 'not heard of'");
    }
    Ok(())
}
