//! `macvlan`: a device with a hardware address of its own on the segment of a parent device.

use model::{Error, LinkKind, Macvlan, MacvlanMode, Parent, Result, Space, Wiring};

use super::{Plan, link, parent};
use crate::call::Call;
use crate::source;
use crate::wire::Object;
use crate::words::reported;

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let root = call.config.root();
    let kind = LinkKind::Macvlan(Macvlan {
        parent: parent::parent(&root)?,
        mode: mode(&root)?,
        broadcast_queue: broadcast_queue(&root)?,
        host_access: false,
        probe: false,
    });
    let template = link::alone(kind, parent::mtu(&root, call.sandbox.as_ref())?);
    let wiring = link::with_mac(&template, link::own_mac(call)?);
    let source = source::load(call, Space::Network(call.config.name().clone()))?;
    Ok(Plan { template, wiring, source, ..Plan::default() })
}

/// Some macvlan, of which nothing else is known.
pub(super) fn remnant(parent: Parent) -> Wiring {
    let kind = Macvlan {
        parent,
        mode: MacvlanMode::default(),
        broadcast_queue: None,
        host_access: false,
        probe: false,
    };
    link::alone(LinkKind::Macvlan(kind), None)
}

/// `mode`.
pub(super) fn mode(root: &Object<'_>) -> Result<MacvlanMode> {
    Ok(match root.text("mode")? {
        None | Some("bridge") => MacvlanMode::Bridge,
        Some("private") => MacvlanMode::Private,
        Some("vepa") => MacvlanMode::Vepa,
        Some("passthru") => MacvlanMode::Passthru,
        Some(other) => {
            let words = format!("unknown macvlan mode: {other:?}");
            return Err(reported(words, "; \"mode\" is bridge, private, vepa or passthru"));
        }
    })
}

/// `bcqueuelen`; 0 leaves it to the kernel.
pub(super) fn broadcast_queue(root: &Object<'_>) -> Result<Option<u32>> {
    match root.integer("bcqueuelen")? {
        None | Some(0) => Ok(None),
        Some(length) => u32::try_from(length).map(Some).map_err(|_| {
            Error::invalid(format!("\"bcqueuelen\" is {length}, which is not a number of packets"))
        }),
    }
}
