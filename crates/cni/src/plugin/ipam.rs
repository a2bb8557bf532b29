//! `dhcp`, `host-local` and `static`, executed on their own for a third-party main plugin.

use model::{Error, Result, Space};

use super::Plan;
use crate::call::Call;
use crate::source;

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let Some(ipam) = call.config.root().object("ipam")? else {
        return Err(Error::invalid("IPAM config missing 'ipam' key"));
    };
    let space = Space::Network(call.config.name().clone());
    let source = source::of_plugin(call, call.plugin, &ipam, space)?;
    Ok(Plan { source, ..Plan::default() })
}
