//! When a port of a bridge, and the bridge, forward.
//!
//! The kernel has a bridge forward for a pair's end, and the end itself send, only when a worker of its own has
//! noticed that the pair carries packets. That is a fraction of a millisecond later, and 16 milliseconds and more
//! where processors are busy. What a container sends before is lost, and a question for an address that is lost is
//! repeated after a second (RFC 1122 §2.3.2.1). The same holds for what the host sends by the bridge itself, which
//! carries packets from its first port on.

use std::time::Duration;

use model::{IfName, Result};
use netlink::packet::wait_for_carrier;
use netlink::{At, Link, OperState, Socket};

use crate::identity::GROUP;
use crate::plan::{Plan, Step};

/// A kernel that has not noticed it by then is not waited for: the attachment is as good as before.
const LIMIT: Duration = Duration::from_secs(1);

/// Waits until the host's end of a pair carries packets, where the plan has set the container's end up.
///
/// Linux from 6.8 on notices it when it is asked for this one link (`rtnl_getlink`), so there is no wait; earlier
/// ones report it.
pub(crate) fn wait_for_port(end: &IfName, plan: &Plan, socket: &mut Socket) -> Result<()> {
    if sets_up(plan) { wait_for(end, socket) } else { Ok(()) }
}

/// Waits until a bridge of Spoke's carries packets, where it carried none before: the one that was `before`, or a
/// new one. After [`wait_for_port`]: the bridge follows its port.
pub(crate) fn wait_for_bridge(
    bridge: &IfName,
    before: Option<&Link>,
    plan: &Plan,
    socket: &mut Socket,
) -> Result<()> {
    let carries = before.is_some_and(|link| link.group != GROUP || link.state == OperState::Up);
    if carries || !sets_up(plan) { Ok(()) } else { wait_for(bridge, socket) }
}

fn sets_up(plan: &Plan) -> bool {
    plan.sandbox.iter().any(|step| matches!(step, Step::Up(_)))
}

fn wait_for(device: &IfName, socket: &mut Socket) -> Result<()> {
    match socket.link(At::Name(device))? {
        Some(link) if link.state != OperState::Up => wait_for_carrier(link.index, LIMIT).map(drop),
        Some(_) | None => Ok(()),
    }
}
