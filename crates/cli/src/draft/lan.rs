//! Networks on the segment of a parent device: macvlan and ipvlan.

use host::facts::HostFacts;
use model::{Error, Ipvlan, IpvlanMode, LinkKind, Macvlan, MacvlanMode, Result};
use spec::NetworkSpec;

use crate::args::{CreateArgs, Driver, LanArgs, LanMode};

/// The addresses are the segment's: a subnet cannot be chosen for it.
pub(super) fn refuse_addresses(wanted: &CreateArgs) -> Result<()> {
    if !wanted.driver.kind().is_lan() {
        return Ok(());
    }
    let dhcp = wanted.lan.dhcp;
    match wanted.subnets.first() {
        None if !dhcp => Err(Error::invalid(
            "drivers macvlan and ipvlan need --subnet, the one of the parent's segment, or --dhcp",
        )),
        Some(subnet) if dhcp => Err(Error::invalid(format!(
            "--subnet {subnet}: with --dhcp the segment's server gives the addresses"
        ))),
        _ if dhcp && wanted.flags.spec.probe == Some(true) => Err(Error::invalid(
            "--probe: what a DHCP server gives is always probed, --dhcp is enough",
        )),
        _ => Ok(()),
    }
}

/// The link that is described, if it is one of a parent's.
pub(super) fn kind(
    wanted: &CreateArgs,
    spec: &NetworkSpec,
    facts: &HostFacts,
) -> Result<Option<LinkKind>> {
    Ok(match wanted.driver {
        Driver::Bridge
        | Driver::Ptp
        | Driver::Cni
        | Driver::Neutron
        | Driver::Ovs
        | Driver::Plugin(_) => None,
        Driver::Macvlan => Some(LinkKind::Macvlan(macvlan(&wanted.lan, spec, facts)?)),
        Driver::Ipvlan => Some(LinkKind::Ipvlan(ipvlan(&wanted.lan, spec, facts)?)),
    })
}

fn macvlan(lan: &LanArgs, spec: &NetworkSpec, facts: &HostFacts) -> Result<Macvlan> {
    let mode = match lan.mode {
        None | Some(LanMode::Bridge) => MacvlanMode::Bridge,
        Some(LanMode::Private) => MacvlanMode::Private,
        Some(LanMode::Vepa) => MacvlanMode::Vepa,
        Some(LanMode::Passthru) => MacvlanMode::Passthru,
        Some(LanMode::L2 | LanMode::L3 | LanMode::L3s) => {
            return Err(Error::invalid(
                "--mode is one of ipvlan; those of macvlan are bridge, private, vepa and passthru",
            ));
        }
    };
    if spec.host_access == Some(true) && mode != MacvlanMode::Bridge {
        return Err(Error::invalid("--host-access: only --mode bridge lets anybody reach another"));
    }
    check_parent(spec, facts)?;
    Ok(spec.macvlan(mode))
}

fn ipvlan(lan: &LanArgs, spec: &NetworkSpec, facts: &HostFacts) -> Result<Ipvlan> {
    let mode = match lan.mode {
        None | Some(LanMode::L2) => IpvlanMode::L2,
        Some(LanMode::L3) => IpvlanMode::L3,
        Some(LanMode::L3s) => IpvlanMode::L3s,
        Some(LanMode::Bridge | LanMode::Private | LanMode::Vepa | LanMode::Passthru) => {
            return Err(Error::invalid(
                "--mode is one of macvlan; those of ipvlan are l2, l3 and l3s",
            ));
        }
    };
    if lan.dhcp && mode != IpvlanMode::L2 {
        return Err(Error::invalid("--dhcp: DHCP needs broadcasts; --mode l2 has them"));
    }
    check_parent(spec, facts)?;
    Ok(spec.ipvlan(mode))
}

fn check_parent(spec: &NetworkSpec, facts: &HostFacts) -> Result<()> {
    match &spec.parent {
        Some(name) if facts.link(name.as_str()).is_none() => {
            Err(Error::not_found(format!("--parent {name}: this host has no such device")))
        }
        None if facts.uplink().is_none() => Err(Error::not_found(
            "this host has no default route whose device could be the parent; name one with --parent",
        )),
        Some(_) | None => Ok(()),
    }
}
