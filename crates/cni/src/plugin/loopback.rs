//! `loopback`: the container's own `lo`, whatever interface the runtime names.

use model::{LinkKind, Result};

use super::{Plan, link};
use crate::call::Call;

pub(super) fn plan(_call: &Call<'_>) -> Result<Plan> {
    let template = link::alone(LinkKind::Loopback, None);
    let ifname = Some("lo".parse()?);
    Ok(Plan { ifname, wiring: template.clone(), template, ..Plan::default() })
}
