//! Segments of Open vSwitch.

use std::net::IpAddr;

use engine::Occupancy;
use host::dataplane;
use model::{Error, Family, Ipam, LinkKind, Network, Ovs, Result, Route};
use neutron::ovsdb::Datapath;
use spec::ovs::{self, OVS_PREFIX, OvsTexts};
use spec::{Frame, NetworkSpec};

use crate::args::{CreateArgs, Driver, IpamDriver};
use crate::context::CommandContext;

/// The requested network, if it is a segment of Open vSwitch.
pub(super) fn network(
    wanted: &CreateArgs,
    spec: &NetworkSpec,
    context: &CommandContext,
    taken: &dyn Fn() -> Result<Occupancy>,
) -> Result<Option<Network>> {
    if wanted.driver != Driver::Ovs {
        return Ok(None);
    }
    if let Some(option) = senseless(wanted) {
        return Err(Error::invalid(format!(
            "{option} is no option of driver ovs, whose packets pass the switch and not this host; \
             --opt {} are",
            ovs::names().join(", --opt ")
        )));
    }
    let mut segment = segment(wanted)?;
    segment.offload = dataplane::bridge_of(&segment)?.datapath == Datapath::Kernel;
    let subnets = super::checked(&wanted.subnets, &taken()?)?;
    if subnets.is_empty() {
        return Err(Error::invalid("driver ovs needs --subnet: the one that the segment has"));
    }
    let ipam = Ipam::Book { pools: super::pools(wanted, &subnets)? };
    let routes = wanted.gateways.iter().map(default_route).collect();
    let frame = Frame { routes, ..super::frame(wanted, context, ipam) };
    let kind = LinkKind::Ovs(Box::new(segment));
    Ok(Some(spec.network(frame, spec.wiring(kind, context.backend))))
}

/// By the router on the segment.
fn default_route(gateway: &IpAddr) -> Route {
    Route::new(Family::of(&model::host_net(*gateway)).everything(), None)
}

/// The options of `--opt`; one that is there several times has an item of a list each.
fn segment(wanted: &CreateArgs) -> Result<Ovs> {
    let given = wanted.options.iter().flat_map(|(key, text)| {
        let name = key.strip_prefix(OVS_PREFIX).unwrap_or(key);
        text.split(',').map(move |one| (name, one.trim().to_owned()))
    });
    OvsTexts { before: "--opt ", after: "", given: given.collect() }.segment()
}

fn senseless(wanted: &CreateArgs) -> Option<&'static str> {
    let given = [
        ("--conflist", wanted.conflist.is_some()),
        ("--ipam-driver", wanted.remote.ipam_driver != IpamDriver::Default),
        ("--config-only", wanted.remote.config_only),
        ("--config-from", wanted.remote.config_from.is_some()),
    ];
    given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
}
