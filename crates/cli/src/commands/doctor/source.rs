//! The addresses of this host that networks name for their packets to leave with.

use host::facts::HostFacts;
use linux::masquerade::{self, Unanswered};
use model::{Network, Result, host_net};

use crate::check::Check;

/// Whether this host has them.
pub(super) fn checks(networks: &[Network], facts: &HostFacts) -> Vec<Check> {
    // Where no route leads out, the address of any device is one of this host.
    let device = facts.uplink().map_or("lo", |uplink| uplink.name.as_str());
    match read(networks, device) {
        Ok(checks) => checks,
        Err(error) => {
            let what = format!("the addresses of this host cannot be read: {error}");
            vec![Check::warn(what, "").without_fix()]
        }
    }
}

fn read(networks: &[Network], device: &str) -> Result<Vec<Check>> {
    let checked = |it: Unanswered| {
        let fix = format!("ip address add {} dev {device}", host_net(it.address));
        Check::warn(it.what, fix)
    };
    Ok(masquerade::unanswered(networks)?.into_iter().map(checked).collect())
}
