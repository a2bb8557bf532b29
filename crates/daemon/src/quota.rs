//! The used parts of containers' quotas, written now and then: the kernel counts and refuses without this
//! thread, but its count does not outlive the container, a flushed packet filter or a reboot.

use std::time::Duration;

use engine::{Noting, UsedUp};
use host::event::{Event, What};
use host::time;

use super::Daemon;

/// How often it is looked at, and a period looked for that has begun.
const PERIOD: Duration = Duration::from_secs(10);

/// Until the daemon stops.
pub(super) fn keep(daemon: &Daemon) {
    while !daemon.sleep(PERIOD) {
        note_as(daemon, Noting::Due);
    }
}

/// Writes all of it, when the daemon ends.
pub(super) fn note(daemon: &Daemon) {
    note_as(daemon, Noting::All);
}

fn note_as(daemon: &Daemon, noting: Noting) {
    let mut used_up = Vec::new();
    let noted = daemon
        .context_pool
        .with(|host_context| host_context.engine().links.note_usages(noting, &mut used_up));
    for UsedUp { id, name, quota } in used_up {
        let network = &id.network;
        let message = format!(
            "{name} on {network} has used up its quota of {quota}: its packets are dropped until the next {} \
             begins (UTC); spoke limit --quota sets another",
            quota.period
        );
        daemon.journal.report(&Event::new(What::Quota, time::now(), message).to(&id));
    }
    if let Err(error) = noted {
        daemon.journal.failed("writing what containers have used of their quotas", &error);
    }
}
