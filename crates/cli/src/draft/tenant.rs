//! Networks of a tenant's address space, which this host does not route.

use engine::Occupancy;
use model::{AddressSpace, Error, Result, Space};

use crate::args::{CreateArgs, Driver, IpamDriver};
use crate::context::CommandContext;

/// The subnets in use in the space. Those that this host routes are in another.
pub(super) fn taken(context: &CommandContext, space: &AddressSpace) -> Result<Occupancy> {
    (context.engine)()?.subnets.occupancy_of(&Space::Named(space.clone()))
}

/// Refuses what needs a way through this host, and drivers whose addresses are not theirs to choose.
pub(super) fn refuse_senseless(wanted: &CreateArgs) -> Result<()> {
    let Some(space) = wanted.address_space() else { return Ok(()) };
    let option = format!("--address-space {space}");
    match wanted.driver {
        Driver::Bridge | Driver::Ovs | Driver::Plugin(_) => {}
        Driver::Ptp => {
            return Err(Error::invalid(format!(
                "{option}: containers of driver ptp are reached by routes of this host, and each \
                 address has one; driver bridge has tenants"
            )));
        }
        Driver::Macvlan | Driver::Ipvlan | Driver::Cni | Driver::Neutron => {
            return Err(Error::invalid(format!(
                "{option}: only drivers bridge, ovs and those of Docker plugins have tenants; elsewhere \
                 the segment, the plugins or Neutron say which addresses there are"
            )));
        }
    }
    let has_plugin = matches!(wanted.remote.ipam_driver, IpamDriver::Plugin(_));
    if matches!(wanted.driver, Driver::Plugin(_)) && !has_plugin {
        return Err(Error::invalid(format!(
            "{option} names the space of an IPAM plugin: name one with --ipam-driver"
        )));
    }
    match routed(wanted) {
        Some(other) => Err(Error::invalid(format!(
            "--{other}: this host does not route networks of address space {space}; their containers \
             leave by the network gwbridge"
        ))),
        None => Ok(()),
    }
}

/// The first option that needs a route of this host, or says what a network of its options says.
fn routed(wanted: &CreateArgs) -> Option<&'static str> {
    let given = [
        ("gateway", !wanted.gateways.is_empty()),
        ("config-from", wanted.remote.config_from.is_some()),
    ];
    let own = given.into_iter().find(|(_, given)| *given).map(|(option, _)| option);
    wanted.flags.of_routed().or(own)
}
