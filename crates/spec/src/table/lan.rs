//! Options of networks on the segment of a parent device.

use super::{Bridge, Ipvlan, Macvlan, PARENTS, Vlan};
use crate::FrontEnd::{Cni, Docker};
use crate::{NetworkOption, Value};

const NONE: NetworkOption = NetworkOption::NONE;

pub(super) const OPTIONS: &[NetworkOption] = &[
    NetworkOption {
        docker: &["parent"],
        podman: &["parent"],
        cni: &["parent", "master"],
        cli: &["parent"],
        of: PARENTS,
        value: Value::Device(|spec| &mut spec.parent),
        default: "",
        meaning: "a device of the host: containers are on its segment, with addresses of the LAN \
                  (macvlan)",
        differs: &[
            (
                Docker,
                "the LAN's device; `eth0.100`, or `vlan=100` besides, for one VLAN of it",
                "the default route's device",
            ),
            (Cni, "the device whose segment containers are on", "the default route's device"),
        ],
        help: "The device whose segment containers of macvlan and ipvlan are on; that of the \
               default route unless given",
        metavar: "DEVICE",
        ..NONE
    },
    NetworkOption {
        docker: &["vlan"],
        cli: &["vlan"],
        of: PARENTS,
        value: Value::Vlan(|spec| &mut spec.vlan),
        default: "none",
        meaning: "1 to 4094: that VLAN of the parent",
        help: "A VLAN of the parent instead of itself: a device PARENT.VLAN, made when it is \
               missing",
        metavar: "NUMBER",
        ..NONE
    },
    NetworkOption {
        podman: &["vlan"],
        cni: &["vlan"],
        of: &[Bridge, Macvlan, Ipvlan, Vlan],
        value: Value::Vlan(|spec| &mut spec.vlan),
        meaning: "with `parent` a VLAN of it; with a bridge the VLAN of the containers' ports",
        differs: &[(
            Cni,
            "1 to 4094: with `parent` a VLAN of it; with a bridge the VLAN of the containers' ports",
            "none",
        )],
        ..NONE
    },
    NetworkOption {
        docker: &["mode"],
        of: &[Bridge, Macvlan, Ipvlan],
        meaning: "`dhcp`: the LAN's server gives the addresses; or what `macvlan_mode` or \
                  `ipvlan_mode` say",
        ..NONE
    },
    NetworkOption {
        podman: &["mode"],
        of: &[Bridge, Macvlan, Ipvlan],
        meaning: "`dhcp`: addresses from the LAN's DHCP server (needs `spoke serve` or `dhcp \
                  daemon`); `bridge`, `private`, `vepa`, `passthru` of a macvlan; `l2`, `l3`, `l3s` \
                  for an ipvlan; `unmanaged`: the bridge is a switch and nothing else",
        ..NONE
    },
    NetworkOption { cni: &["mode"], of: &[Macvlan, Ipvlan], ..NONE },
    NetworkOption {
        docker: &["macvlan_mode"],
        of: &[Macvlan],
        default: "`bridge`",
        meaning: "`bridge`, `private`, `vepa`, `passthru`",
        ..NONE
    },
    NetworkOption {
        docker: &["ipvlan_mode"],
        of: &[Ipvlan],
        default: "`l2`",
        meaning: "`l2`, `l3`, `l3s`",
        ..NONE
    },
    NetworkOption {
        docker: &["host_access"],
        podman: &["host_access"],
        cni: &["hostAccess"],
        cli: &["host-access"],
        of: &[Macvlan],
        value: Value::Flag(|spec| &mut spec.host_access),
        default: "`false`",
        meaning: "host and containers of a macvlan reach each other",
        help: "Let this host and its containers reach each other, which a macvlan does not by \
               itself",
        ..NONE
    },
    NetworkOption {
        docker: &["probe"],
        podman: &["probe"],
        cni: &["probe"],
        cli: &["probe"],
        of: &[Macvlan],
        value: Value::Flag(|spec| &mut spec.probe),
        default: "`false`",
        meaning: "ask on the segment whether another device has an address before it is used",
        help: "Ask the segment before an address is used, and take another if a device has it",
        ..NONE
    },
    NetworkOption {
        docker: &["cni"],
        meaning: "a CNI configuration list: below `/etc/cni/net.d`, or the absolute path of a file \
                  that only root can write",
        ..NONE
    },
];
