//! `-o address_space=NAME`: a tenant's network, which this host does not route.

use model::{Error, Publisher, Result};
use spec::{DefaultRoute, FrontEnd, KindSpec, NetworkSpec, Source, Texts};

use super::{GATEWAY, PORTS};

const SPACE: &str = "address_space";

/// What follows from an address space: no device has a gateway's address, and Docker gives containers
/// the way out, and publishes their ports, by a network of its own. Only a bridge of this host can be
/// a tenant's.
pub(super) fn settle(mut spec: NetworkSpec, texts: &Texts<'_>) -> Result<NetworkSpec> {
    let Some(space) = &spec.address_space else { return Ok(spec) };
    if let Some(key) = texts.of_routed(FrontEnd::Docker) {
        return Err(texts.contradiction(SPACE, key));
    }
    if spec.source == Source::Dhcp || !matches!(spec.kind, None | Some(KindSpec::Bridge)) {
        return Err(Error::invalid(format!(
            "-o {SPACE}={space}: only bridges of this host whose addresses Spoke gives have one"
        )));
    }
    if spec.route.is_some_and(|route| route != DefaultRoute::Segment) {
        return Err(texts.contradiction(SPACE, GATEWAY[0]));
    }
    if spec.publisher == Some(Publisher::Spoke) {
        return Err(texts.contradiction(SPACE, PORTS[0]));
    }
    spec.route = Some(DefaultRoute::Segment);
    spec.publisher = Some(Publisher::Runtime);
    Ok(spec)
}
