//! `ipvlan`: a device that shares the hardware address of a parent device. It may be chained behind
//! a plugin that chose both the parent and the addresses.

use model::{IfName, Ipvlan, IpvlanMode, LinkKind, Parent, Result, Space, Wiring};

use super::{Plan, link, parent};
use crate::call::Call;
use crate::source;
use crate::wire::{Command, Object, Success};
use crate::words::reported;

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let root = call.config.root();
    let mut parent = parent::parent(&root)?;
    if let (None, Some(previous)) = (&parent.name, before(call)) {
        parent.name = Some(only_interface(previous)?);
    }
    let kind = LinkKind::Ipvlan(Ipvlan { parent, mode: mode(&root)? });
    let template = link::alone(kind, parent::mtu(&root, call.sandbox.as_ref())?);
    let mut plan = Plan {
        wiring: template.clone(),
        template,
        source: source::load(call, Space::Network(call.config.name().clone()))?,
        ..Plan::default()
    };
    if plan.source.ipam != model::Ipam::None {
        return Ok(plan);
    }
    match before(call).filter(|previous| !previous.ips.is_empty()) {
        Some(previous) => {
            plan.addresses = previous.addresses();
            plan.source.routes.clone_from(&previous.routes);
        }
        None if call.command == Command::Add => {
            link::require_addresses(call, &plan.source, "no plugin name provided")?;
        }
        None => {}
    }
    Ok(plan)
}

/// Some ipvlan, of which nothing else is known.
pub(super) fn remnant(parent: Parent) -> Wiring {
    link::alone(LinkKind::Ipvlan(Ipvlan { parent, mode: IpvlanMode::default() }), None)
}

/// The result of the plugin before it. CHECK gets its own result instead.
fn before<'a>(call: &'a Call<'_>) -> Option<&'a Success> {
    call.previous.as_ref().filter(|_| call.command == Command::Add)
}

fn only_interface(previous: &Success) -> Result<IfName> {
    match previous.interfaces.as_slice() {
        [only] if !only.name.is_empty() => only.name.parse(),
        _ => Err(reported(
            "chained master failure. PrevResult lacks a single named interface",
            "; name the parent in \"master\"",
        )),
    }
}

/// `mode`.
pub(super) fn mode(root: &Object<'_>) -> Result<IpvlanMode> {
    Ok(match root.text("mode")? {
        None | Some("l2") => IpvlanMode::L2,
        Some("l3") => IpvlanMode::L3,
        Some("l3s") => IpvlanMode::L3s,
        Some(other) => {
            let words = format!("unknown ipvlan mode: {other:?}");
            return Err(reported(words, "; \"mode\" is l2, l3 or l3s"));
        }
    })
}
