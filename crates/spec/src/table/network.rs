//! Options of any network.

use super::{OWN_ROUTES, SIZED};
use crate::FrontEnd::{Cni, Docker};
use crate::{Driver, NetworkOption, Value};

const NONE: NetworkOption = NetworkOption::NONE;

/// The drivers with addresses of Spoke's, or of a plugin's, that a container can get again.
const RETURNING: &[Driver] = &[
    Driver::Bridge,
    Driver::Ptp,
    Driver::Macvlan,
    Driver::Ipvlan,
    Driver::Vlan,
    Driver::Device,
    Driver::Dummy,
    Driver::Tap,
    Driver::Ovs,
    Driver::Plugin,
];

pub(super) const OPTIONS: &[NetworkOption] = &[
    NetworkOption {
        docker: &["network"],
        podman: &["network"],
        value: Value::Network(|spec| &mut spec.network),
        meaning: "an existing network of any runtime, which is joined",
        differs: &[(Docker, "the network's name in Spoke, to join or to make", "after its subnet")],
        ..NONE
    },
    NetworkOption {
        docker: &["address_space"],
        podman: &["address_space"],
        cni: &["addressSpace"],
        cli: &["address-space"],
        of: &[Driver::Bridge, Driver::Ovs, Driver::Plugin],
        value: Value::AddressSpace(|spec| &mut spec.address_space),
        default: "this host's",
        meaning: "a tenant's address space, whose subnets others may have; a second network leads \
                  out ([tenants](docker.md#tenants-with-the-same-subnet))",
        differs: &[
            (
                Docker,
                "the tenant's address space that `--ipam-opt address_space` names; see \
                 [below](#tenants-with-the-same-subnet)",
                "this host's",
            ),
            (
                Cni,
                "a tenant's address space, whose subnets others may have: the bridge has no address, \
                 and a second network leads out and publishes ports \
                 ([tenants](docker.md#tenants-with-the-same-subnet)); Spoke's store or `static` gives \
                 addresses",
                "this host's",
            ),
        ],
        help: "The address space of a tenant: its networks may have the subnets of other tenants and \
               of this host, which does not route them; containers leave by the network gwbridge",
        metavar: "NAME",
        ..NONE
    },
    NetworkOption {
        docker: &["ports"],
        default: "`spoke`",
        meaning: "who publishes: `spoke`, or `docker`",
        ..NONE
    },
    NetworkOption {
        docker: &["interfaces"],
        default: "`docker`",
        meaning: "who completes interfaces: `docker`, or `spoke` (28 and later)",
        ..NONE
    },
    NetworkOption {
        docker: &["gateway"],
        default: "`default`; `address` with `--internal`",
        meaning: "the bridge is the `default` route, only has the `address`, or has `none`",
        ..NONE
    },
    NetworkOption { docker: &["com.docker.network.container_iface_prefix"], ..NONE },
    NetworkOption {
        podman: &["no_default_route"],
        of: SIZED,
        is_of_routed: true,
        value: Value::Not(|spec| &mut spec.default_route),
        default: "`false`",
        meaning: "containers get no default route",
        ..NONE
    },
    NetworkOption {
        podman: &["metric"],
        is_of_routed: true,
        value: Value::Number(|spec| &mut spec.metric),
        default: "by the interface: see below",
        meaning: "of the default route",
        ..NONE
    },
    NetworkOption {
        podman: &["sticky"],
        cni: &["sticky"],
        cli: &["sticky"],
        of: RETURNING,
        value: Value::Flag(|spec| &mut spec.sticky),
        default: "`true`",
        meaning: "a container of the same name gets the same address again, unless one was asked \
                  for, or others needed it when there was none left",
        differs: &[(
            Cni,
            "a container that returns under the same name gets the same addresses",
            "false",
        )],
        help: "Give a container that returns under the same name the same addresses",
        ..NONE
    },
    NetworkOption {
        cni: &["isGateway"],
        of: &[Driver::Bridge],
        is_of_routed: true,
        default: "true",
        meaning: "the bridge holds the gateway address",
        ..NONE
    },
    NetworkOption {
        cni: &["isDefaultGateway"],
        of: OWN_ROUTES,
        is_of_routed: true,
        default: "true",
        meaning: "containers route everything through the gateway",
        ..NONE
    },
    NetworkOption {
        cni: &["labels"],
        default: "none",
        meaning: "an object of texts, for `spoke network ls --filter label=KEY[=VALUE]`; those of \
                  one container are `args.labels`",
        ..NONE
    },
    NetworkOption {
        docker: &["driver"],
        default: "what the other keys imply, else `bridge`",
        meaning: "`bridge`, `macvlan`, `ipvlan`, `neutron`, `ovs` ([neutron.md](neutron.md) and \
                  [ovs.md](ovs.md) have their options)",
        ..NONE
    },
    NetworkOption {
        podman: &["driver"],
        meaning: "`neutron`: a network of OpenStack Neutron, with the options of \
                  [neutron.md](neutron.md); `ovs`: a segment of Open vSwitch, with those of \
                  [ovs.md](ovs.md)",
        ..NONE
    },
    NetworkOption {
        cni: &["driver"],
        default: "`bridge`",
        meaning: "`bridge`, `ptp`, `macvlan`, `ipvlan`, `vlan`, `host-device`, `dummy`, `tap`, with the \
                  fields of that plugin; `neutron` ([neutron.md](neutron.md)), or `ovs` \
                  ([ovs.md](ovs.md))",
        ..NONE
    },
];
