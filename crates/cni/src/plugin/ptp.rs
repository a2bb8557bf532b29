//! `ptp`: a routed pair of interfaces, as the reference plugin of that name.

use model::{LinkKind, Ptp, Result, Space, Wiring};

use super::{Plan, link};
use crate::call::Call;
use crate::source;

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let root = call.config.root();
    let ptp = Ptp { direct: root.flag("direct")? };
    let template = Wiring {
        masquerade: link::masquerade(call, &root, false)?,
        ..link::alone(LinkKind::Ptp(ptp), link::mtu(&root)?)
    };
    let mut source = source::load(call, Space::Host)?;
    link::require_addresses(call, &source, "no plugin name provided")?;
    source.name_gateways();
    Ok(Plan { wiring: template.clone(), template, source, ..Plan::default() })
}
