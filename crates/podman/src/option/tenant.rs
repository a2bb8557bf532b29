//! `-o address_space=NAME`: a tenant's network, which this host does not route.

use model::{Error, Result};
use spec::{FrontEnd, NetworkSpec, Source, Texts};

/// Only a bridge with addresses of Spoke's store can be a tenant's. A network on a parent device does
/// not have the option.
pub(super) fn check(
    texts: &Texts<'_>,
    given: &NetworkSpec,
    is_unmanaged: bool,
    source: Source,
) -> Result<()> {
    let Some(space) = &given.address_space else { return Ok(()) };
    if is_unmanaged || given.vlan.is_some() || source != Source::Book {
        return Err(Error::invalid(format!(
            "-o address_space={space}: only bridges of this host whose addresses Spoke gives have one"
        )));
    }
    match texts.of_routed(FrontEnd::Podman) {
        None => Ok(()),
        Some(key) => Err(Error::invalid(format!(
            "-o {key}: this host does not route networks of address space {space}; a second network \
             leads their containers out and publishes ports"
        ))),
    }
}
