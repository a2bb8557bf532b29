//! `addressSpace`: a tenant's network, which this host does not route.

use model::{Error, Ipam, LinkKind, Result, Wiring};
use spec::FrontEnd;

use crate::source::Source;
use crate::wire::{Node, Object};

/// The field.
const FIELD: &str = "addressSpace";

/// Refuses what needs a route through this host.
pub(super) fn refuse_routed(root: &Object<'_>) -> Result<()> {
    let Some(node) = root.get(FIELD) else { return Ok(()) };
    let is_given = |key: &str| root.get(key).is_some_and(|it| it.value().as_bool() != Some(false));
    let senseless = spec::of_routed(FrontEnd::Cni).find(|key| is_given(key));
    match senseless {
        None => Ok(()),
        Some(key) => Err(node.wrong(format!(
            "but this host does not route networks of tenants, as \"{key}\" asks for; a second \
             network leads their containers out"
        ))),
    }
}

/// No device has the gateway's address.
pub(super) fn without_gateway(root: &Object<'_>, source: &mut Source) -> Result<()> {
    if let Some(ipam) = root.object("ipam")? {
        let mut answer: Vec<Node<'_>> = ipam.get("gateway").into_iter().collect();
        for set in ipam.list("ranges")? {
            for range in set.list()? {
                answer.extend(range.object()?.get("gateway"));
            }
        }
        if let Some(node) = answer.first() {
            return Err(node.wrong(format!(
                "but with \"{FIELD}\" this host is no gateway; \"routes\" of \"ipam\" may name one"
            )));
        }
    }
    if let Ipam::Book { pools } = &mut source.ipam {
        pools.iter_mut().flat_map(|pool| &mut pool.ranges).for_each(|range| range.gateway = None);
    }
    Ok(())
}

/// Refuses other sources of addresses than Spoke's store and the configuration: the files of
/// host-local have no tenants, and a bridge without an address reaches no DHCP server.
pub(super) fn refuse_source(root: &Object<'_>, wiring: &Wiring, ipam: &Ipam) -> Result<()> {
    let Some(node) = root.get(FIELD).filter(|_| wiring.address_space.is_some()) else {
        return Ok(());
    };
    match ipam {
        Ipam::Book { .. } | Ipam::Fixed { .. } => Ok(()),
        _ => Err(node.wrong(
            "but the plugin in \"ipam.type\" has no address spaces; leave \"type\" out, or take \
             static",
        )),
    }
}

/// Refuses published ports where this host has no route to the container: in a tenant's network, or
/// on a segment of Open vSwitch.
pub(super) fn refuse_ports(wiring: &Wiring) -> Result<()> {
    let kind = wiring.link.as_ref().map(|link| &link.kind);
    let place = match (&wiring.address_space, kind) {
        (_, Some(LinkKind::Ovs(_))) => "segments of Open vSwitch".to_owned(),
        (Some(space), _) => format!("networks of address space {space}"),
        (None, _) => return Ok(()),
    };
    Err(Error::invalid(format!(
        "\"runtimeConfig.portMappings\" is not empty, but this host has no route to {place}; join a \
         second one, which \"networks\" names too"
    )))
}
