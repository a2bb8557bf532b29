//! `loopback`: the container's own `lo`, whatever interface the runtime names.

use model::{Link, LinkKind, Result, Wiring};

use super::{Call, Plan};

pub(super) fn plan(_call: &Call<'_>) -> Result<Plan> {
    let link = Link { kind: LinkKind::Loopback, name: None, mac: None, mtu: None };
    let template = Wiring { link: Some(link), ..Wiring::default() };
    let ifname = Some("lo".parse()?);
    Ok(Plan { ifname, wiring: template.clone(), template, ..Plan::default() })
}
