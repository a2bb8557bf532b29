//! Fields of the reference plugins that type `spoke` has, with the meaning that they have there.

use super::{Bridge, Device, Dummy, Macvlan, Neutron, Ovs, PAIRS, PARENTS, Ptp, ROUTED, SIZED};
use super::{Tap, Vlan};
use crate::{Driver, NetworkOption};

/// The drivers whose containers can have ports of this host.
const PUBLISHING: &[Driver] = &[Bridge, Ptp, Neutron];

const fn field(name: &'static [&'static str], of: &'static [Driver]) -> NetworkOption {
    NetworkOption { cni: name, of, ..NetworkOption::NONE }
}

/// A field with its line in the manual.
const fn listed(
    field: NetworkOption,
    default: &'static str,
    meaning: &'static str,
) -> NetworkOption {
    NetworkOption { default, meaning, ..field }
}

pub(super) const OPTIONS: &[NetworkOption] = &[
    listed(field(&["bridge"], &[Bridge, Tap]), "`sp-` and the name", "the bridge's device"),
    listed(
        field(&["ipam"], SIZED),
        "none",
        "ranges, routes and `resolvConf` as in `host-local`, kept by the book alone; with a \
         `type`, that plugin",
    ),
    listed(field(&["snat"], PUBLISHING), "true", "as in `portmap`"),
    listed(field(&["masqAll"], PUBLISHING), "false", "as in `portmap`"),
    listed(
        field(&["backend"], PUBLISHING),
        "nftables",
        "`nftables`, or `iptables` with the reference plugins' chains",
    ),
    listed(field(&["bandwidth"], PAIRS), "unlimited", "an object with the fields of `bandwidth`"),
    listed(
        field(&["mac"], &[Bridge, Ptp, Macvlan, Vlan, Device, Dummy, Tap, Neutron, Ovs]),
        "none",
        "as in `tuning`",
    ),
    listed(field(&["promisc"], Driver::CNI), "none", "as in `tuning`"),
    listed(field(&["allmulti"], Driver::CNI), "none", "as in `tuning`"),
    listed(field(&["txQLen"], Driver::CNI), "none", "as in `tuning`"),
    listed(
        field(&["vrf"], ROUTED),
        "none",
        "as the plugin `vrf`: a name or `{\"name\", \"table\"}`",
    ),
    listed(
        field(&["sourceRouting"], ROUTED),
        "none",
        "as the plugin `sbr`: `true` or an object with the fields of `sbr`",
    ),
    listed(
        field(&["neutron"], &[Neutron]),
        "",
        "the port of driver `neutron` ([neutron.md](neutron.md))",
    ),
    listed(field(&["ovs"], &[Ovs]), "", "the segment of driver `ovs` ([ovs.md](ovs.md))"),
    field(&["dns"], Driver::CNI),
    field(&["bcqueuelen"], &[Macvlan]),
    field(&["linkInContainer"], PARENTS),
    field(&["vlanId"], &[Vlan]),
    field(&["disableContainerInterface"], &[Bridge]),
    field(&["enabledad"], &[Bridge]),
    NetworkOption { is_of_routed: true, ..field(&["forceAddress"], &[Bridge]) },
    field(&["macspoofchk"], &[Bridge]),
    field(&["portIsolation"], &[Bridge]),
    field(&["preserveDefaultVlan"], &[Bridge]),
    field(&["vlanTrunk"], &[Bridge]),
    field(&["device"], &[Device]),
    field(&["hwaddr"], &[Device]),
    field(&["kernelpath"], &[Device]),
    field(&["pciBusID"], &[Device]),
    field(&["group"], &[Tap]),
    field(&["multiQueue"], &[Tap]),
    field(&["owner"], &[Tap]),
    field(&["selinuxContext"], &[Tap]),
];
