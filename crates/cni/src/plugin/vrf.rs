//! `vrf`: a routing table of its own for the container's interface, chained behind a main plugin.

use model::{IfName, Result, Vrf, Wiring};

use super::Plan;
use crate::call::Call;
use crate::words::reported;

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let root = call.config.root();
    let name = root.parse::<IfName>("vrfname")?.ok_or_else(|| {
        reported("configuration is expected to have a valid vrf name", ": \"vrfname\" is empty")
    })?;
    let table = super::source_routing::table(&root)?.filter(|table| *table != 0);
    let wiring = Wiring { vrf: Some(Vrf { name, table }), ..Wiring::default() };
    Ok(Plan { wiring, addresses: super::own_addresses(call), ..Plan::default() })
}
