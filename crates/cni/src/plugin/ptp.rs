//! `ptp`: a routed pair of interfaces, as the reference plugin of that name.

use model::{Error, Ipam, Link, LinkKind, Ptp, Result, Space, Wiring};

use super::{Call, Plan, link};
use crate::source;

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let root = call.config.root();
    let kind = LinkKind::Ptp(Ptp {});
    let template = Wiring {
        link: Some(Link { kind, name: None, mac: None, mtu: link::mtu(&root)? }),
        masquerade: link::masquerade(call, &root, false)?,
        ..Wiring::default()
    };
    let mut source = source::load(call, Space::Host)?;
    if source.ipam == Ipam::None {
        return Err(Error::invalid(
            "no plugin name provided: \"ipam.type\" is empty, but ptp needs an address",
        ));
    }
    source.name_gateways();
    Ok(Plan { wiring: template.clone(), template, source, ..Plan::default() })
}
