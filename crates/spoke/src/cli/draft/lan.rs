//! Networks on the segment of a parent device: macvlan and ipvlan.

use std::path::PathBuf;

use model::{
    Dhcp, Error, Ipam, Ipvlan, IpvlanMode, LinkKind, Macvlan, MacvlanMode, Parent, Place, Result,
};

use crate::cli::args::{CreateArgs, Driver, Ingress, LanArgs, LanMode, PublishTo};
use crate::cli::facts::HostFacts;

/// Where a DHCP daemon listens that keeps leases alive, ours or the reference's.
const DHCP_SOCKET: &str = "/run/cni/dhcp.sock";

/// Whether the driver puts containers on a parent's segment.
pub(super) fn is_lan(driver: &Driver) -> bool {
    matches!(driver, Driver::Macvlan | Driver::Ipvlan)
}

/// Refuses options that the driver does not have.
pub(super) fn refuse_senseless(wanted: &CreateArgs) -> Result<()> {
    let lan = &wanted.lan;
    let of_lan = [
        ("--parent", lan.parent.is_some()),
        ("--vlan", lan.vlan.is_some()),
        ("--mode", lan.mode.is_some()),
        ("--dhcp", lan.dhcp),
        ("--host-access", lan.host_access),
        ("--probe", lan.probe),
    ];
    let of_pairs = [
        ("--bridge", wanted.bridge.is_some()),
        ("--internal", wanted.internal),
        ("--ingress", wanted.ingress != Ingress::Open),
        ("--publish", wanted.publish != PublishTo::Any),
    ];
    let given = |options: &[(&'static str, bool)]| {
        options.iter().find(|(_, given)| *given).map(|(option, _)| *option)
    };
    let refused = match wanted.driver {
        Driver::Bridge | Driver::Ptp | Driver::Cni | Driver::Neutron | Driver::Plugin(_) => {
            given(&of_lan)
                .map(|option| format!("{option} is an option of drivers macvlan and ipvlan"))
        }
        Driver::Macvlan | Driver::Ipvlan => {
            given(&of_pairs).or(given(&wanted.passages())).map(|option| {
                let why = "whose containers are reached past this host's packet filter";
                format!("{option} is no option of drivers macvlan and ipvlan, {why}")
            })
        }
    };
    match refused {
        Some(sentence) => Err(Error::invalid(sentence)),
        None if is_lan(&wanted.driver) => refuse_addresses(wanted),
        None => Ok(()),
    }
}

/// The addresses are the segment's: nobody can choose a subnet for it.
fn refuse_addresses(wanted: &CreateArgs) -> Result<()> {
    let dhcp = wanted.lan.dhcp;
    match wanted.subnets.first() {
        None if !dhcp => Err(Error::invalid(
            "drivers macvlan and ipvlan need --subnet, the one of the parent's segment, or --dhcp",
        )),
        Some(subnet) if dhcp => Err(Error::invalid(format!(
            "--subnet {subnet}: with --dhcp the segment's server gives the addresses"
        ))),
        _ if dhcp && wanted.lan.probe => Err(Error::invalid(
            "--probe: what a DHCP server gives is always probed, --dhcp is enough",
        )),
        _ => Ok(()),
    }
}

/// The link that is described, if it is one of a parent's.
pub(super) fn kind(wanted: &CreateArgs, facts: &HostFacts) -> Result<Option<LinkKind>> {
    Ok(match wanted.driver {
        Driver::Bridge | Driver::Ptp | Driver::Cni | Driver::Neutron | Driver::Plugin(_) => None,
        Driver::Macvlan => Some(LinkKind::Macvlan(macvlan(&wanted.lan, facts)?)),
        Driver::Ipvlan => Some(LinkKind::Ipvlan(ipvlan(&wanted.lan, facts)?)),
    })
}

fn macvlan(lan: &LanArgs, facts: &HostFacts) -> Result<Macvlan> {
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
    if lan.host_access && mode != MacvlanMode::Bridge {
        return Err(Error::invalid("--host-access: only --mode bridge lets anybody reach another"));
    }
    let parent = parent(lan, facts)?;
    let (host_access, probe) = (lan.host_access, lan.probe);
    Ok(Macvlan { parent, mode, broadcast_queue: None, host_access, probe })
}

fn ipvlan(lan: &LanArgs, facts: &HostFacts) -> Result<Ipvlan> {
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
    let of_macvlan = [("--host-access", lan.host_access), ("--probe", lan.probe)];
    if let Some((option, _)) = of_macvlan.iter().find(|(_, given)| *given) {
        return Err(Error::invalid(format!("{option} is an option of driver macvlan")));
    }
    if lan.dhcp && mode != IpvlanMode::L2 {
        return Err(Error::invalid(
            "--dhcp: without broadcasts nobody can ask; --mode l2 has them",
        ));
    }
    Ok(Ipvlan { parent: parent(lan, facts)?, mode })
}

fn parent(lan: &LanArgs, facts: &HostFacts) -> Result<Parent> {
    match &lan.parent {
        Some(name) if facts.link(name.as_str()).is_none() => {
            Err(Error::not_found(format!("--parent {name}: this host has no such device")))
        }
        None if facts.uplink().is_none() => Err(Error::not_found(
            "this host has no default route whose device could be the parent; name one with --parent",
        )),
        named => Ok(Parent { name: named.clone(), place: Place::Host, vlan: lan.vlan }),
    }
}

/// The segment's DHCP server.
pub(super) fn dhcp() -> Ipam {
    Ipam::Dhcp(Dhcp {
        socket: PathBuf::from(DHCP_SOCKET),
        request: Vec::new(),
        skip: Vec::new(),
        provide: Vec::new(),
        priority: None,
    })
}
