//! Which fields there are, and which of them each driver has. What a driver does not have is an
//! error: a field that did nothing would be believed.

use model::{Error, Result};

use super::driver::Driver;
use super::neutron;
use crate::wire::{Node, Object};

use Driver::{Bridge, Device, Dummy, Ipvlan, Macvlan, Neutron, Ptp, Tap, Vlan};

/// A field that describes a network, and the drivers that have it.
struct Field {
    name: &'static str,
    of: &'static [Driver],
}

const PAIRS: &[Driver] = &[Bridge, Ptp];
const PARENTS: &[Driver] = &[Macvlan, Ipvlan, Vlan];
const ROUTED: &[Driver] = &[Bridge, Ptp, Macvlan, Ipvlan, Vlan, Device, Neutron];
const PUBLISHING: &[Driver] = &[Bridge, Ptp, Neutron];
/// Whose addresses, routes and MTU are said here, and not by a cloud.
const OWN: &[Driver] = &[Bridge, Ptp, Macvlan, Ipvlan, Vlan, Device, Dummy, Tap];
const OWN_ROUTES: &[Driver] = &[Bridge, Ptp, Macvlan, Ipvlan, Vlan, Device];

const fn field(name: &'static str, of: &'static [Driver]) -> Field {
    Field { name, of }
}

/// Sorted by name.
const DESCRIBING: [Field; 52] = [
    field("backend", PUBLISHING),
    field("bcqueuelen", &[Macvlan]),
    field("bridge", &[Bridge, Tap]),
    field("device", &[Device]),
    field("direct", PAIRS),
    field("disableContainerInterface", &[Bridge]),
    field("dns", Driver::ALL),
    field("driver", Driver::ALL),
    field("enabledad", &[Bridge]),
    field("forceAddress", &[Bridge]),
    field("group", &[Tap]),
    field("hairpinMode", &[Bridge]),
    field("hostAccess", &[Macvlan]),
    field("hostIPv4", PAIRS),
    field("hostIPv6", PAIRS),
    field("hwaddr", &[Device]),
    field("ingressPolicy", PAIRS),
    field("ipMasq", PAIRS),
    field("ipam", OWN),
    field("isDefaultGateway", OWN_ROUTES),
    field("isGateway", &[Bridge]),
    field("kernelpath", &[Device]),
    field("labels", Driver::ALL),
    field("linkInContainer", PARENTS),
    field("macspoofchk", &[Bridge]),
    field("masqAll", PUBLISHING),
    field("master", PARENTS),
    field("mode", &[Macvlan, Ipvlan]),
    field("mtu", OWN),
    field("multiQueue", &[Tap]),
    field(neutron::FIELD, &[Neutron]),
    field("owner", &[Tap]),
    field("parent", PARENTS),
    field("pciBusID", &[Device]),
    field("portIsolation", &[Bridge]),
    field("preserveDefaultVlan", &[Bridge]),
    field("probe", &[Macvlan]),
    field("promiscMode", &[Bridge]),
    field("selinuxContext", &[Tap]),
    field("snat", PUBLISHING),
    field("sticky", OWN),
    field("trustedHostInterfaces", &[Bridge]),
    field("vlan", &[Bridge, Macvlan, Ipvlan, Vlan]),
    field("vlanId", &[Vlan]),
    field("vlanTrunk", &[Bridge]),
    // Of the container, but each makes sense for some links only.
    field("allmulti", Driver::ALL),
    field("bandwidth", PAIRS),
    field("mac", &[Bridge, Ptp, Macvlan, Vlan, Device, Dummy, Tap, Neutron]),
    field("promisc", Driver::ALL),
    field("sourceRouting", ROUTED),
    field("txQLen", Driver::ALL),
    field("vrf", ROUTED),
];

/// Those of them that are one container's, and so may be said of a network that is joined.
const PERSONAL: [&str; 8] =
    ["allmulti", "bandwidth", "mac", "promisc", "sourceRouting", "sysctl", "txQLen", "vrf"];

/// The fields that any plugin gets, and the names of networks to join.
const COMMON: [&str; 10] = [
    "args",
    "capabilities",
    "cniVersion",
    "name",
    "network",
    "networks",
    "prevResult",
    "runtimeConfig",
    "sysctl",
    "type",
];

/// Whether the field describes a network, rather than one container's part in it.
pub(super) fn describes(key: &str) -> bool {
    of(key).is_some() && !is_one_of(key, &PERSONAL)
}

/// Refuses what no driver has.
pub(super) fn refuse_unknown(root: &Object<'_>) -> Result<()> {
    let known =
        |key: &str| of(key).is_some() || is_one_of(key, &COMMON) || key.starts_with("cni.dev/");
    match root.fields().find(|(key, _)| !known(key)) {
        None => Ok(()),
        Some((_, node)) => {
            let mut accepted: Vec<&str> = DESCRIBING.iter().map(|field| field.name).collect();
            accepted.extend(["network", "networks", "sysctl"]);
            accepted.sort_unstable();
            let accepted = accepted.join(", ");
            let wrong = node.wrong(format!("but type spoke has no such option; it has {accepted}"));
            Err(Error::unsupported(wrong.to_string()))
        }
    }
}

/// Refuses what `driver` does not have, unless it says that it is off.
pub(super) fn refuse_senseless(root: &Object<'_>, driver: Driver) -> Result<()> {
    let is_senseless = |key: &str, node: &Node<'_>| {
        of(key).is_some_and(|field| !field.of.contains(&driver)) && !is_off(node)
    };
    match root.fields().find(|(key, node)| is_senseless(key, node)) {
        None => Ok(()),
        Some((key, node)) => {
            let of = of(key).map_or(&[][..], |field| field.of);
            let names: Vec<&str> = of.iter().map(|driver| driver.name()).collect();
            Err(node.wrong(format!(
                "but driver {} has no such option; {} {}",
                driver.name(),
                if names.len() == 1 { "it is of driver" } else { "it is of drivers" },
                names.join(", ")
            )))
        }
    }
}

fn is_off(node: &Node<'_>) -> bool {
    let value = node.value();
    value.as_bool() == Some(false)
        || value.as_i64() == Some(0)
        || value.as_str().is_some_and(str::is_empty)
}

/// Names are looked up without regard to case.
fn of(key: &str) -> Option<&'static Field> {
    DESCRIBING.iter().find(|field| field.name.eq_ignore_ascii_case(key))
}

fn is_one_of(key: &str, names: &[&str]) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(key))
}
