//! Parts in the kernel without a record: from a process that was killed in between, or an earlier
//! installation.

use std::collections::BTreeSet;

use engine::port::{Prefix, Record, Store};
use model::{IfName, Network, NetworkName, Result, Stage, Wiring};

use super::Daemon;

/// Where a network or an attachment is recorded.
const PLACES: [Prefix; 3] = [Prefix::Networks, Prefix::Configured, Prefix::Attachments];

/// The bridges that networks and attachments name whose wiring is so. `None` where a record cannot be read:
/// nothing is known then of any bridge.
fn named(daemon: &Daemon, is_so: impl Fn(&Wiring) -> bool) -> Result<Option<BTreeSet<IfName>>> {
    let store = host::host_context::open_store(daemon.context_pool.config())?;
    bridges(&store, is_so)
}

/// Removes what the kernel holds for bridges that are not `is_known`, and of which no record says that their wiring is
/// so. `there`: the bridges that had it before the records were read.
pub(super) fn clear(
    daemon: &Daemon,
    there: Result<Vec<IfName>>,
    (is_known, is_so): (impl Fn(&IfName) -> bool, impl Fn(&Wiring) -> bool),
    remove: impl FnMut(&IfName) -> Result<()>,
) -> Result<()> {
    // What fails for one keeps no other.
    let mut there = there?;
    there.retain(|bridge| !is_known(bridge));
    if there.is_empty() {
        return Ok(());
    }
    let Some(named) = named(daemon, is_so)? else { return Ok(()) };
    let unnamed = there.iter().filter(|bridge| !named.contains(*bridge));
    unnamed.map(remove).fold(Ok(()), Result::and)
}

/// Whether no network and no attachment names the bridge with such a wiring; `false` where that is unknown.
pub(super) fn is_unnamed(
    daemon: &Daemon,
    bridge: &IfName,
    is_so: impl Fn(&Wiring) -> bool,
) -> Result<bool> {
    let named = named(daemon, is_so)?;
    Ok(named.is_some_and(|named| !named.contains(bridge)))
}

/// Whether a bridge's network is gone, or its wiring is not so any more. A network without a record that has
/// attachments is not gone.
pub(super) fn is_over(
    daemon: &Daemon,
    (network, bridge): (&NetworkName, &IfName),
    is_so: impl Fn(&Wiring) -> bool,
) -> Result<bool> {
    let named =
        daemon.context_pool.with(|host_context| host_context.engine().records.named(network))?;
    match named {
        Some(network) if is_bridge_of(&network, bridge) => Ok(!is_so(&network.wiring)),
        // Another one may have its name, with another bridge.
        Some(_) | None => is_unnamed(daemon, bridge, is_so),
    }
}

/// Whether this is the bridge of a network.
pub(super) fn is_bridge_of(network: &Network, bridge: &IfName) -> bool {
    let own = network.wiring.bridge();
    own.is_some_and(|own| own.name == *bridge)
}

fn bridges(
    store: &impl Store,
    is_so: impl Fn(&Wiring) -> bool,
) -> Result<Option<BTreeSet<IfName>>> {
    let mut all = BTreeSet::new();
    let mut networks = BTreeSet::new();
    for place in PLACES {
        if !store.damaged(Some(&place))?.is_empty() {
            return Ok(None);
        }
        for (_, held) in store.list(&place)? {
            let (name, wiring, is_network) = match &held.record {
                // A template holds no bridge.
                Record::Network(network) if network.stage != Stage::Template => {
                    (&network.name, &network.wiring, true)
                }
                Record::Attachment(attachment) => {
                    (&attachment.id.network, &attachment.wiring, false)
                }
                _ => continue,
            };
            let bridge = wiring.bridge();
            let Some(bridge) = bridge.map(|bridge| bridge.name.clone()) else { continue };
            // What a network's record says holds for its attachments, whatever theirs say: these come after it,
            // and a network that a command declared before what a configuration says of it.
            let of = (name.clone(), bridge.clone());
            if networks.contains(&of) {
                continue;
            }
            if is_network {
                networks.insert(of);
            }
            if is_so(wiring) {
                all.insert(bridge);
            }
        }
    }
    Ok(Some(all))
}
