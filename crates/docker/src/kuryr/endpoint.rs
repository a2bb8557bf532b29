//! Endpoints: a container's port before it is in the container, and after.

use std::collections::BTreeMap;

use engine::Request;
use model::{Ipam, Kind, Layer, Lease, LinkKind, Network, NeutronLink, Result, Wiring};

use super::network::{alias_of, link_of};
use super::option::of_endpoint;
use super::{Backstage, Stage, expose};
use crate::driver::endpoint::{self, INTERFACE, find, gateway_of, given, refuse_strange};
use libnetwork::{Answer, EndpointRef};

/// CreateEndpoint. The answer has only what the request left open.
pub(super) fn create<B: Backstage>(
    stage: &Stage<'_, B>,
    call: &libnetwork::CreateEndpoint,
) -> Result<Answer> {
    let alias = alias_of(stage, &call.at.network)?;
    let network = stage.engine.records.network_of(&alias.network)?;
    let request = Request {
        labels: model::Labels::default(),
        layer: Layer::Link,
        container: call.at.endpoint.as_str().parse()?,
        ifname: INTERFACE.parse()?,
        names: Vec::new(),
        dns: model::Dns::default(),
        owner: None,
        sandbox: None,
        wiring: wiring(&network, call)?,
        ipam: addresses(&network, &call.interface)?,
        wanted: Vec::new(),
        addresses: Vec::new(),
        network,
    };
    let is_new = stage.engine.records.attachment(&request.id())?.is_none();
    let attachment = stage.engine.attachments.reserve(&request, &alias.id)?;
    if is_new {
        stage.hidden.add(&call.at.endpoint);
    }
    Ok(Answer::Endpoint { interface: given(&call.interface, &attachment) })
}

/// The network's wiring, with what this endpoint asks of its port.
fn wiring(network: &Network, call: &libnetwork::CreateEndpoint) -> Result<Wiring> {
    let template = link_of(network)?;
    let spec = of_endpoint(&call.options.driver, template.spec.clone())?;
    let mac = call.interface.mac.or(call.options.mac);
    let mut wiring = endpoint::wiring(network, mac, &call.options)?;
    if let Some(link) = &mut wiring.link {
        link.kind = LinkKind::Neutron(Box::new(NeutronLink { spec, ..template.clone() }));
    }
    Ok(wiring)
}

/// The cloud has the addresses of every source; without a source it chooses them.
fn addresses(network: &Network, interface: &libnetwork::Interface) -> Result<Ipam> {
    let mut leases = Vec::new();
    for address in [interface.ipv4, interface.ipv6].into_iter().flatten() {
        refuse_strange(network, &address)?;
        let space = network.wiring.space(&network.name);
        let gateway = gateway_of(network, &address);
        leases.push(Lease { space, pool: None, address, gateway });
    }
    Ok(if leases.is_empty() { Ipam::None } else { Ipam::Fixed { leases } })
}

/// DeleteEndpoint. One that is not known is gone. It may not have been revoked before. On a network
/// that the store does not know it is kuryr-libnetwork's, and the cloud says what that connected.
pub(super) fn delete<B: Backstage>(stage: &Stage<'_, B>, at: &EndpointRef) -> Result<Answer> {
    match alias_of(stage, &at.network) {
        Err(error) if error.kind() != Kind::NotFound => return Err(error),
        Ok(_) | Err(_) => {}
    }
    let concealed = expose::conceal(stage, at);
    let deleted = endpoint::delete(stage.engine, at);
    stage.hidden.remove(&at.endpoint);
    concealed.and(deleted)
}

/// EndpointOperInfo: whether the port passes traffic. Nothing of what is not there.
pub(super) fn info<B: Backstage>(stage: &Stage<'_, B>, at: &EndpointRef) -> Result<Answer> {
    let attachment = match find(stage.engine, at)? {
        Some(id) => stage.engine.records.attachment(&id)?,
        None => None,
    };
    let value = match attachment {
        Some(attachment) => {
            let status = stage.cloud.port_status(&attachment)?;
            BTreeMap::from([("status".to_owned(), status.0)])
        }
        None => BTreeMap::new(),
    };
    Ok(Answer::Info { value })
}
