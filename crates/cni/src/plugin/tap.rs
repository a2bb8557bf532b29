//! `tap`: a device whose packets a program in the container sends and receives.

use model::{Error, LinkKind, Result, Space, Tap, Wiring};

use super::{Plan, link};
use crate::call::Call;
use crate::source;
use crate::wire::Object;

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let root = call.config.root();
    let template = link::alone(LinkKind::Tap(tap(&root)?), link::mtu(&root)?);
    let wiring = link::with_mac(&template, link::own_mac(call)?);
    let source = source::load(call, Space::Network(call.config.name().clone()))?;
    Ok(Plan { template, wiring, source, ..Plan::default() })
}

/// The device that the configuration describes.
pub(super) fn tap(root: &Object<'_>) -> Result<Tap> {
    Ok(Tap {
        multi_queue: root.flag("multiQueue")?,
        owner: user(root, "owner")?,
        group: user(root, "group")?,
        selinux_context: root.text("selinuxContext")?.map(str::to_owned),
        bridge: root.parse("bridge")?,
    })
}

/// Some tap, of which nothing else is known.
pub(super) fn remnant() -> Wiring {
    link::alone(LinkKind::Tap(Tap::default()), None)
}

/// The number of a user or a group.
fn user(root: &Object<'_>, key: &str) -> Result<Option<u32>> {
    let Some(number) = root.integer(key)? else { return Ok(None) };
    u32::try_from(number).map(Some).map_err(|_| {
        Error::invalid(format!("{key:?} is {number}, which is not the number of a user or group"))
    })
}
