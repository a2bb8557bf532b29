//! The errors of endpoints.

use model::{Attachment, AttachmentId, Error, Layer, LinkKind, Phase, Reservation, Result};

use super::ENDPOINT;
use crate::shared::shared_address;
use crate::{GATEWAY_NETWORK, Request};

pub(super) fn refuse_inseparable(request: &Request) -> Result<()> {
    let id = request.id();
    if request.layer != Layer::Link || id.network.as_str() == GATEWAY_NETWORK {
        return Err(Error::invalid(format!(
            "{}: only interfaces are endpoints, and network {} is for sandboxes that nothing else leads \
             out",
            shown(&id),
            GATEWAY_NETWORK
        )));
    }
    let link = request.wiring.link.as_ref();
    refuse_driver(&id, link.map(|link| &link.kind), request.ipam.asks_over_link())
}

pub(super) fn refuse_inseparable_link(attachment: &Attachment) -> Result<()> {
    if attachment.tap().is_some() {
        return Err(Error::unsupported(format!(
            "{0} is a virtual machine, which is in no sandbox; `spoke network disconnect {1} {0}` takes it off \
             the network",
            attachment.id.container, attachment.id.network
        )));
    }
    let link = attachment.wiring.link.as_ref();
    let asks = attachment.ipam.asks_over_link();
    refuse_driver(&attachment.id, link.map(|link| &link.kind), asks)
}

/// CNI has one call for the interface and its addresses, and wants the sandbox for it; a DHCP server is
/// asked over the interface.
fn refuse_driver(id: &AttachmentId, kind: Option<&LinkKind>, asks_over_link: bool) -> Result<()> {
    let why = match kind {
        Some(LinkKind::Chain(_)) => {
            "driver cni makes an interface and its addresses with one call, which wants the sandbox"
        }
        Some(_) if asks_over_link => {
            "its driver gets addresses from a DHCP server, which is asked over the interface"
        }
        Some(_) => return Ok(()),
        None => "it has no driver, and so nothing to connect to",
    };
    Err(Error::unsupported(format!(
        "network {}: {why}; use `spoke network connect` and `spoke network disconnect`",
        id.network
    )))
}

/// That the address is an endpoint's or another host's, where it is one's.
pub(crate) fn kept_address(reservation: &Reservation) -> Option<Error> {
    if let Some(error) = shared_address(reservation) {
        return Some(error);
    }
    let owner = reservation.owner.as_ref()?.as_str().strip_prefix(ENDPOINT)?;
    let network = reservation.network.as_ref().map_or_else(String::new, ToString::to_string);
    Some(Error::conflict(format!(
        "address {} is that of endpoint {} of network {network}; `spoke endpoint rm` gives it back",
        reservation.address,
        owner.trim_start_matches('/'),
    )))
}

/// As users call it.
pub(super) fn shown(id: &AttachmentId) -> String {
    format!("endpoint {} of network {}", id.container, id.network)
}

pub(super) fn unknown(id: &AttachmentId) -> Error {
    Error::not_found(format!(
        "{} is not there; `spoke endpoint ls` shows those that are",
        shown(id)
    ))
}

/// One of the same name is there.
pub(crate) fn standing(there: &Attachment) -> Error {
    let id = &there.id;
    let what = match there.phase {
        Phase::Attached(_) => format!("`spoke endpoint leave {} {}`", id.network, id.container),
        _ => format!("`spoke endpoint join {} {} SANDBOX`", id.network, id.container),
    };
    Error::conflict(format!(
        "{} is there already; {what}, or `spoke endpoint rm {} {}`",
        shown(id),
        id.network,
        id.container
    ))
}
