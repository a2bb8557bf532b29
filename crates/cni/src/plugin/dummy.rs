//! `dummy`: an interface with addresses and nothing behind it.

use model::{LinkKind, Result, Space};

use super::{Plan, link};
use crate::call::Call;
use crate::source;

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let template = link::alone(LinkKind::Dummy, None);
    let source = source::load(call, Space::Network(call.config.name().clone()))?;
    link::require_addresses(call, &source, "dummy interface requires an IPAM configuration")?;
    Ok(Plan { wiring: template.clone(), template, source, ..Plan::default() })
}
