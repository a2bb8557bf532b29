//! The errors of endpoints.

use model::{Attachment, AttachmentId, Error, Layer, LinkKind, Result};

use crate::records::endpoint::shown;
use crate::{GATEWAY_NETWORK, Request};

pub(super) fn refuse_inseparable(request: &Request) -> Result<()> {
    let id = request.id();
    if request.layer != Layer::Link || id.network.as_str() == GATEWAY_NETWORK {
        return Err(Error::invalid(format!(
            "{}: only interfaces are endpoints, and network {} is for sandboxes without another \
             default gateway",
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

pub(super) fn unknown(id: &AttachmentId) -> Error {
    Error::not_found(format!(
        "{} is not there; `spoke endpoint ls` shows those that are",
        shown(id)
    ))
}
