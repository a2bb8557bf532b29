//! Networks of many hosts: how soon a container is reached from another host, what the way between hosts
//! costs, and how long things take when a host, a connection or etcd fails.
//!
//! Hosts are private worlds on one segment, each with a real engine and a daemon; etcd has three members.
//! Beside them, on the same hosts and in the same rounds: Docker Swarm's overlay, and a VXLAN and routes by hand.

mod attach;
mod bed;
mod failure;
mod loss;
pub(crate) mod plot;
mod probe;
pub(crate) mod scale;
mod swarm;
mod targets;
mod wire;

use model::Result;

use crate::args::Args;
use crate::docker::line::{fault, remark};

pub(crate) use targets::targets;

/// Ours, by the command line.
const OURS: &str = "spoke";
/// Ours, by an engine.
const DOCKER: &str = "docker with spoke";
/// The peer.
const SWARM: &str = "swarm's overlay";
/// The floor of the way.
const BY_HAND: &str = "vxlan by hand";
/// Ours without encapsulation.
const ROUTED: &str = "spoke, routed";
/// The floor of that.
const PLAIN: &str = "routing by hand";

/// Measures.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut bed = bed::Bed::new();
    bed.network("front");
    bed.routed("plain");
    let swarm = match swarm::Swarm::new(&bed) {
        Ok(swarm) => Some(swarm),
        Err(error) => {
            fault(&error)?;
            None
        }
    };
    remark("hosts: attach")?;
    attach::run(&bed, swarm.as_ref(), args)?;
    remark("hosts: the way")?;
    wire::run(&bed, swarm.as_ref(), args)?;
    drop(swarm);
    remark("hosts: lost packets")?;
    loss::run(&mut bed)?;
    remark("hosts: failures")?;
    failure::run(&mut bed, args)
}
