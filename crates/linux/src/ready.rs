//! When a port of a bridge forwards.
//!
//! The kernel has a bridge forward for a pair's end, and the end itself send, only when a worker of its own has
//! noticed that the pair carries packets. That is a fraction of a millisecond later, and 16 milliseconds and more
//! where processors are busy. What a container sends before is lost, and a question for an address that is lost is
//! repeated after a second (RFC 1122 §2.3.2.1).

use std::time::Duration;

use model::{IfName, Result};
use netlink::packet::wait_for_carrier;
use netlink::{At, OperState, Socket};

use crate::plan::{Plan, Step};

/// A kernel that has not noticed it by then is not waited for: the attachment is as good as before.
const LIMIT: Duration = Duration::from_secs(1);

/// Waits until the host's end of a pair carries packets, where the plan has set the container's end up.
///
/// Linux from 6.8 on notices it when it is asked for this one link (`rtnl_getlink`), so there is no wait; earlier
/// ones report it.
pub(crate) fn wait_for_port(end: &IfName, plan: &Plan, socket: &mut Socket) -> Result<()> {
    if !plan.sandbox.iter().any(|step| matches!(step, Step::Up(_))) {
        return Ok(());
    }
    match socket.link(At::Name(end))? {
        Some(link) if link.state != OperState::Up => wait_for_carrier(link.index, LIMIT).map(drop),
        Some(_) | None => Ok(()),
    }
}
