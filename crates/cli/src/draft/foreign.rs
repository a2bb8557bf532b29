//! Options that the network's driver does not have: one that did nothing would be believed.

use model::{Error, Result};
use spec::Driver;

use crate::args::CreateArgs;

/// Refuses what `driver` does not have.
pub(super) fn refuse(wanted: &CreateArgs, driver: Driver) -> Result<()> {
    let flag = wanted.flags.foreign(driver);
    let of_parents = flag.filter(|(_, option)| option.is_of(Driver::Macvlan));
    let own = of_parents.filter(|(_, option)| !option.is_of(Driver::Bridge));
    let flag = flag.map(|(name, _)| format!("--{name}"));
    let refused = match (own, flag.or_else(|| runtime(wanted, driver))) {
        (Some((name, _)), _) if driver == Driver::Ipvlan => {
            format!("--{name} is an option of driver macvlan")
        }
        (Some((name, _)), _) => of_lan(&format!("--{name}")),
        (None, Some(option)) => why(&option, driver),
        (None, None) if driver.is_lan() => return Ok(()),
        (None, None) => match (wanted.lan.mode, wanted.lan.dhcp) {
            (Some(_), _) => of_lan("--mode"),
            (None, true) => of_lan("--dhcp"),
            (None, false) => return Ok(()),
        },
    };
    Err(Error::invalid(refused))
}

/// The first option that every driver has but this.
fn runtime(wanted: &CreateArgs, driver: Driver) -> Option<String> {
    let is_external = matches!(driver, Driver::Chain | Driver::Neutron);
    let given = [
        ("--subnet", is_external && !wanted.subnets.is_empty()),
        ("--internal", (is_external || driver.is_lan()) && wanted.internal),
        (
            "--conflist",
            matches!(driver, Driver::Neutron | Driver::Plugin) && wanted.conflist.is_some(),
        ),
    ];
    given.iter().find(|(_, given)| *given).map(|(option, _)| (*option).to_owned())
}

fn of_lan(option: &str) -> String {
    format!("{option} is an option of drivers macvlan and ipvlan")
}

fn why(option: &str, driver: Driver) -> String {
    let why = match driver {
        Driver::Bridge | Driver::Ptp => {
            return format!("{option}: driver {} has no bridge", driver.name());
        }
        Driver::Macvlan | Driver::Ipvlan => {
            "drivers macvlan and ipvlan, whose containers are reached past this host's packet filter"
        }
        Driver::Chain => "driver cni: the list says how containers are connected",
        Driver::Ovs => {
            "driver ovs, whose packets pass the switch and not this host; --opt KEY=VALUE describes \
             the segment"
        }
        Driver::Neutron => "driver neutron: Neutron decides that for its networks",
        Driver::Plugin => {
            "a Docker plugin, which decides that by itself; --opt KEY=VALUE is passed to it"
        }
        // The command line names no other.
        _ => driver.name(),
    };
    format!("{option} is no option of {why}")
}
