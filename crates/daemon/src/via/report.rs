//! What is reported of the ways out of networks.

use host::event::{Event, What};
use host::time;
use linux::way::{Hops, WayOut};
use model::{Family, NetworkName};

use crate::Daemon;

/// Says that a way was lost, or leads out again.
pub(super) fn changes(daemon: &Daemon, way: &WayOut, before: Option<&Hops>, now: &Hops) {
    for (family, shown) in [(Family::V4, "IPv4"), (Family::V6, "IPv6")] {
        let was = before.and_then(|hops| hops.of(family));
        let message = match (was, now.why(family)) {
            (Some(_), Err(why)) => {
                format!("no {shown} leaves network {}: {why}", called(daemon, way))
            }
            (None, Ok(_)) if before.is_some() => {
                let name = called(daemon, way);
                format!("network {name} leaves by {} again ({shown})", way.via)
            }
            _ => continue,
        };
        daemon.journal.report(&Event::new(What::Other, time::now(), message));
    }
}

/// What users call the network. Where its record cannot be read, that is its name in the book.
fn called(daemon: &Daemon, way: &WayOut) -> NetworkName {
    let named =
        daemon.context_pool.with(|host_context| host_context.engine().records.named(&way.network));
    named.ok().flatten().map_or_else(|| way.network.clone(), |network| network.called().clone())
}
