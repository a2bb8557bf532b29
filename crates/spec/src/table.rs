//! The table of options. A new option of an existing kind of value is a row here, a field of
//! [`NetworkSpec`](crate::NetworkSpec) and a line of [`NetworkSpec::wiring`](crate::NetworkSpec::wiring).

mod bridge;
mod cni;
mod lan;
mod network;

use crate::{Driver, NetworkOption};

/// Every option, in the order in which the manual and errors list them.
pub static OPTIONS: &[&[NetworkOption]] =
    &[bridge::OPTIONS, network::OPTIONS, lan::OPTIONS, cni::OPTIONS];

use Driver::{Bridge, Chain, Device, Dummy, Ipvlan, Macvlan, Neutron, Plugin, Ptp, Tap, Vlan};

const PAIRS: &[Driver] = &[Bridge, Ptp];
const PARENTS: &[Driver] = &[Macvlan, Ipvlan, Vlan];
/// Whose MTU and addresses are said here, and not by a cloud or a plugin.
const OWN: &[Driver] = &[Bridge, Ptp, Macvlan, Ipvlan, Vlan, Device, Dummy, Tap];
const ROUTED: &[Driver] = &[Bridge, Ptp, Macvlan, Ipvlan, Vlan, Device, Neutron];
const OWN_ROUTES: &[Driver] = &[Bridge, Ptp, Macvlan, Ipvlan, Vlan, Device];
const PUBLISHING: &[Driver] = &[Bridge, Ptp, Neutron, Chain];

impl Driver {
    /// All of them.
    pub(crate) const ANY: &'static [Driver] =
        &[Bridge, Ptp, Macvlan, Ipvlan, Vlan, Device, Dummy, Tap, Neutron, Chain, Plugin];
    /// Those that CNI's type `spoke` has.
    pub const CNI: &'static [Driver] =
        &[Bridge, Ptp, Macvlan, Ipvlan, Vlan, Device, Dummy, Tap, Neutron];
}
