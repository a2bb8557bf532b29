//! ProgramExternalConnectivity and its opposite: access to a container's ports.

use std::collections::BTreeSet;

use engine::port::ExposedPort;
use model::{Attachment, LinkKind, Publish, Publisher, Result};

use super::network::alias_of;
use super::{Backstage, Stage};
use crate::driver::endpoint::{find, identity, unknown};
use crate::driver::publish::publishing;
use libnetwork::{Answer, EndpointRef, Ports};

/// ProgramExternalConnectivity: a security group lets exposed ports in. Published ones are ports of
/// this host too where its administrator says that it reaches the container, unless there is a
/// floating IP address.
pub(super) fn program<B: Backstage>(
    stage: &Stage<'_, B>,
    call: &libnetwork::ProgramConnectivity,
) -> Result<Answer> {
    let alias = alias_of(stage, &call.at.network)?;
    let id = identity(&alias.network, &call.at)?;
    let attachment = stage.engine.records.attachment(&id)?.ok_or_else(|| unknown(&call.at))?;
    let exposed = exposed(&call.ports);
    if stage.settings.exposes && !exposed.is_empty() {
        stage.hidden.remove(&call.at.endpoint);
        let done = stage.cloud.expose(&attachment, &exposed);
        // With 404 engines believe that the call itself is unknown, and continue.
        done.map_err(|error| match error.status() {
            Some(404) => error.with_status(500),
            _ => error,
        })?;
    }
    let publishes = alias.publisher == Publisher::Spoke && !call.ports.bindings.is_empty();
    if !publishes || has_floating_address(&attachment) {
        stage.engine.attachments.unpublish(&id)?;
        return Ok(Answer::Done {});
    }
    // Answers find the way back only through this host.
    let publish = Publish { masquerade_all: true, ..Publish::new(stage.settings.backend) };
    let wanted = publishing(call, None, publish, &stage.settings.ephemeral);
    match stage.engine.attachments.publish(&id, &wanted) {
        Ok(_) => Ok(Answer::Done {}),
        Err(error) => {
            // If this fails, the endpoint's removal does it.
            let _ = stage.cloud.conceal(&attachment);
            Err(error)
        }
    }
}

/// RevokeExternalConnectivity. What is not exposed is done.
pub(super) fn revoke<B: Backstage>(stage: &Stage<'_, B>, at: &EndpointRef) -> Result<Answer> {
    let Some(id) = find(stage.engine, at)? else { return Ok(Answer::Done {}) };
    let unpublished = stage.engine.attachments.unpublish(&id);
    conceal(stage, at)?;
    unpublished.map(|()| Answer::Done {})
}

/// Ends the access to exposed ports.
pub(super) fn conceal<B: Backstage>(stage: &Stage<'_, B>, at: &EndpointRef) -> Result<()> {
    if stage.hidden.has(&at.endpoint) {
        return Ok(());
    }
    let Some(id) = find(stage.engine, at)? else { return Ok(()) };
    let Some(attachment) = stage.engine.records.attachment(&id)? else { return Ok(()) };
    stage.cloud.conceal(&attachment)?;
    stage.hidden.add(&at.endpoint);
    Ok(())
}

/// A published port is exposed, whether the image says so or not.
fn exposed(ports: &Ports) -> Vec<ExposedPort> {
    let offered = ports.exposed.iter().map(|port| (port.protocol, port.port));
    let published = ports.bindings.iter().map(|binding| (binding.protocol, binding.port));
    let all: BTreeSet<ExposedPort> =
        offered.chain(published).map(|(protocol, port)| ExposedPort { protocol, port }).collect();
    all.into_iter().collect()
}

fn has_floating_address(attachment: &Attachment) -> bool {
    match attachment.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Neutron(link)) => link.spec.floating_ip.is_some(),
        Some(_) | None => false,
    }
}
