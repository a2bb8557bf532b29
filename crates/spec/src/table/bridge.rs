//! Options of bridges, and of what goes through this host.

use model::{IngressPolicy, Reach};

use super::{Bridge, PAIRS, PUBLISHING, SIZED};
use crate::FrontEnd::{Cni, Podman};
use crate::{NetworkOption, Value};

const NONE: NetworkOption = NetworkOption::NONE;

pub(super) const OPTIONS: &[NetworkOption] = &[
    NetworkOption {
        docker: &["bridge", "com.docker.network.bridge.name"],
        podman: &["bridge"],
        cli: &["bridge"],
        of: &[Bridge],
        value: Value::Device(|spec| &mut spec.bridge),
        default: "named after the network",
        meaning: "a device; one that exists is used, and stays",
        help: "The bridge's device; derived from the network's name unless given",
        metavar: "DEVICE",
        ..NONE
    },
    NetworkOption {
        docker: &["mtu", "com.docker.network.driver.mtu"],
        podman: &["mtu"],
        cni: &["mtu"],
        cli: &["mtu"],
        of: SIZED,
        value: Value::Mtu(|spec| &mut spec.mtu),
        default: "the kernel's",
        meaning: "68 to 65535",
        differs: &[(Cni, "", "")],
        help: "The MTU of the network's devices in bytes",
        metavar: "BYTES",
        ..NONE
    },
    NetworkOption {
        docker: &["isolation"],
        of: &[Bridge],
        is_of_many_hosts: true,
        value: Value::Ingress(
            |spec| &mut spec.ingress,
            &[
                ("none", IngressPolicy::Open),
                ("container", IngressPolicy::Isolated),
                ("network", IngressPolicy::SameBridge),
            ],
        ),
        default: "`network`",
        meaning: "from where containers are reached, see below (`com.docker.network.bridge.enable_icc=false` is \
                  `container`)",
        ..NONE
    },
    NetworkOption {
        podman: &["isolate"],
        of: &[Bridge],
        is_of_many_hosts: true,
        value: Value::Ingress(
            |spec| &mut spec.ingress,
            &[
                ("false", IngressPolicy::Open),
                ("true", IngressPolicy::SameBridge),
                ("container", IngressPolicy::Isolated),
                ("0", IngressPolicy::Open),
                ("1", IngressPolicy::SameBridge),
            ],
        ),
        default: "`false`",
        meaning: "not reached from other networks that say so, nor from bridges of others (`true`); nor from \
                  containers of its own network (`container`). One with `false` [reaches all of \
                  them](docker.md#options-of-a-network--o)",
        ..NONE
    },
    NetworkOption {
        cni: &["ingressPolicy"],
        cli: &["ingress"],
        of: PAIRS,
        is_of_many_hosts: true,
        value: Value::Ingress(
            |spec| &mut spec.ingress,
            &[
                ("open", IngressPolicy::Open),
                ("same-bridge", IngressPolicy::SameBridge),
                ("isolated", IngressPolicy::Isolated),
            ],
        ),
        default: "open",
        meaning: "from where containers are reached: everywhere; not from other networks that have one of the other \
                  two, nor from bridges of others; nor from containers of their own network. One that is `open` \
                  [reaches all of them](docker.md#options-of-a-network--o)",
        help: "From where containers can be reached: everywhere; not from other networks of this host that are \
               same-bridge or isolated, nor from bridges of others; for isolated, nor from containers of their \
               own network. Containers of a network that is open reach all of them",
        metavar: "POLICY",
        ..NONE
    },
    NetworkOption {
        docker: &["publish"],
        podman: &["publish"],
        cli: &["publish"],
        of: PUBLISHING,
        is_of_routed: true,
        value: Value::Reach(
            |spec| &mut spec.reach,
            &[("any", Reach::Any), ("lan", Reach::Lan), ("local", Reach::Local)],
        ),
        default: "any",
        meaning: "from where ports are reached",
        help: "From where published ports are reached: from wherever this host's address is, from \
               the subnets that it is connected to, or from this host only",
        metavar: "REACH",
        ..NONE
    },
    NetworkOption {
        docker: &["direct"],
        podman: &["direct"],
        cni: &["direct"],
        cli: &["direct"],
        of: PAIRS,
        is_of_routed: true,
        value: Value::Flag(|spec| &mut spec.direct),
        default: "`false`; `true` in families whose gateway mode is `nat-unprotected`",
        meaning: "others reach containers by a route through this host, without a published port, \
                  though it forwards because of Spoke; see below",
        differs: &[
            (
                Podman,
                "others reach containers by a route through this host, without a published port, \
                 though it forwards because of Spoke ([direct \
                 access](docker.md#options-of-a-network--o))",
                "`false`",
            ),
            (
                Cni,
                "others reach the container by a route through this host, without a published \
                 port, though it forwards because of Spoke",
                "false",
            ),
        ],
        help: "Let others reach containers by routes, without published ports, where this host \
               forwards because of Spoke",
        ..NONE
    },
    NetworkOption {
        docker: &["trusted_host_interfaces", "com.docker.network.bridge.trusted_host_interfaces"],
        podman: &["trusted_host_interfaces"],
        cni: &["trustedHostInterfaces"],
        cli: &["trusted-interface"],
        of: &[Bridge],
        is_of_routed: true,
        is_of_many_hosts: false,
        value: Value::Trusted(|spec| &mut spec.passage),
        default: "none",
        meaning: "devices of the host between colons, `eth1:eth2`: who comes by them reaches \
                  published ports at the containers' own addresses, and nothing else is reached by \
                  a route",
        differs: &[(
            Cni,
            "a list of devices of the host: who comes by them reaches published ports at the \
             containers' own addresses, and nothing else is reached by a route",
            "none",
        )],
        help: "Let others who come by this device reach published ports at the containers' own \
               addresses by routes; nothing else is reached in that way; several",
        metavar: "DEVICE",
        excludes: "direct",
    },
    NetworkOption {
        docker: &["masquerade", "com.docker.network.bridge.enable_ip_masquerade"],
        podman: &["masquerade"],
        cni: &["ipMasq"],
        of: PAIRS,
        is_of_routed: true,
        value: Value::Flag(|spec| &mut spec.masquerade),
        default: "`true` with `gateway=default`",
        meaning: "hide behind the host's address",
        differs: &[
            (Podman, "hide behind the host's address", "`true`"),
            (Cni, "hide the containers' addresses behind the host's", "as `isDefaultGateway`"),
        ],
        ..NONE
    },
    NetworkOption {
        docker: &["host_ipv4", "com.docker.network.host_ipv4"],
        podman: &["host_ipv4"],
        cni: &["hostIPv4"],
        cli: &["host-ipv4"],
        of: PAIRS,
        is_of_routed: true,
        value: Value::SourceV4(|spec| &mut spec.sources.v4),
        default: "that of the device that they leave by",
        meaning: "the host's IPv4 address that masqueraded packets leave with",
        help: "The host's IPv4 address that packets leave with; that of the device that they leave \
               by unless given",
        metavar: "IP",
        excludes: "no-masquerade",
        ..NONE
    },
    NetworkOption {
        docker: &["host_ipv6", "com.docker.network.host_ipv6"],
        podman: &["host_ipv6"],
        cni: &["hostIPv6"],
        cli: &["host-ipv6"],
        of: PAIRS,
        is_of_routed: true,
        value: Value::SourceV6(|spec| &mut spec.sources.v6),
        default: "that of the device that they leave by",
        meaning: "the host's IPv6 address that masqueraded packets leave with",
        help: "The same of IPv6",
        metavar: "IP",
        excludes: "no-masquerade",
        ..NONE
    },
    NetworkOption {
        cli: &["no-masquerade"],
        of: PAIRS,
        is_of_routed: true,
        value: Value::Not(|spec| &mut spec.masquerade),
        help: "Let packets leave with the container's own address",
        ..NONE
    },
    NetworkOption {
        docker: &["hairpin"],
        podman: &["hairpin"],
        cni: &["hairpinMode"],
        of: &[Bridge],
        value: Value::Flag(|spec| &mut spec.hairpin),
        default: "`true`",
        meaning: "of the bridge's ports",
        differs: &[(Cni, "", "")],
        ..NONE
    },
    NetworkOption {
        docker: &["names"],
        podman: &["names"],
        cni: &["names"],
        cli: &["names"],
        of: &[Bridge],
        is_of_routed: true,
        value: Value::Flag(|spec| &mut spec.names),
        default: "`false`",
        meaning: "`spoke serve` answers queries for the names of its containers, of every runtime, at \
                  the gateway ([names.md](names.md))",
        differs: &[(
            Cni,
            "`spoke serve` answers queries for names at the gateway, and the result says so \
             ([names.md](names.md)); capabilities `aliases` and `dns`",
            "false",
        )],
        help: "Answer queries for the names of its containers, of every runtime, at the network's gateway; \
               `spoke serve` does that",
        ..NONE
    },
    NetworkOption {
        docker: &["egress"],
        podman: &["egress"],
        cni: &["egress"],
        cli: &["egress"],
        of: &[Bridge],
        is_of_routed: true,
        is_of_many_hosts: true,
        value: Value::Fence(|spec| &mut spec.fence),
        default: "everywhere",
        meaning: "where containers may go: names, `*.` names, addresses and subnets with ports, or `none`; the \
                  network has names then ([egress.md](egress.md))",
        differs: &[(
            Cni,
            "where containers may go, in a list or between commas: names, `*.` names, addresses and subnets \
             with ports, or `none` ([egress.md](egress.md))",
            "everywhere",
        )],
        help: "Let its containers go to these names, addresses and subnets only, such as \
               github.com:443,*.example.org:443,10.9.0.7:5432,example.org:53/udp, or none; `spoke serve` \
               must run to resolve names",
        metavar: "RULES",
        ..NONE
    },
    NetworkOption {
        docker: &["egress-strict"],
        podman: &["egress-strict"],
        cni: &["egressStrict"],
        cli: &["egress-strict"],
        of: &[Bridge],
        is_of_routed: true,
        is_of_many_hosts: true,
        value: Value::Flag(|spec| &mut spec.strict),
        default: "`false`",
        meaning: "`egress` is kept also while the host's packet filter is flushed: nothing is routed out of the \
                  network then ([egress.md](egress.md)); without `egress` nothing is let out",
        differs: &[(
            Cni,
            "`egress` is kept also while the host's packet filter is flushed: nothing is routed out of the \
             network then ([egress.md](egress.md)); without `egress` nothing is let out",
            "false",
        )],
        help: "Route nothing out of the network while the host's packet filter is flushed; without \
               --egress nothing is let out",
        ..NONE
    },
    NetworkOption {
        docker: &["via"],
        podman: &["via"],
        cni: &["via"],
        cli: &["via"],
        of: &[Bridge],
        is_of_routed: true,
        value: Value::Via(|spec| &mut spec.via),
        default: "as this host routes",
        meaning: "the only way by which packets leave this host: a device (`wg0`), a gateway's address, or a \
                  container (`container:docker/gluetun`); while it is missing none leaves \
                  ([via.md](via.md))",
        help: "Let packets leave this host by this way only: a device such as wg0, a gateway's address such \
               as 192.168.1.2, or a container such as container:docker/gluetun; while it is missing none \
               leaves",
        metavar: "WAY",
        ..NONE
    },
    NetworkOption {
        docker: &["source"],
        podman: &["source"],
        cni: &["source"],
        cli: &["source"],
        of: PAIRS,
        is_of_routed: true,
        is_of_many_hosts: false,
        value: Value::Source(|spec| &mut spec.sources),
        default: "that of the device that they leave by",
        meaning: "the host's address that masqueraded packets leave with, or one of each family between \
                  commas: `host_ipv4` and `host_ipv6` in one",
        differs: &[(
            Cni,
            "the host's address that masqueraded packets leave with, or one of each family between commas: \
             `hostIPv4` and `hostIPv6` in one",
            "that of the device that they leave by",
        )],
        help: "The host's address that packets leave with, or one of each family between commas: \
               --host-ipv4 and --host-ipv6 in one",
        metavar: "IP",
        excludes: "no-masquerade",
    },
    NetworkOption {
        docker: &["promiscuous"],
        cni: &["promiscMode"],
        of: &[Bridge],
        value: Value::Flag(|spec| &mut spec.promiscuous),
        default: "`false`",
        meaning: "of the bridge",
        differs: &[(Cni, "", "")],
        ..NONE
    },
    NetworkOption { docker: &["com.docker.network.bridge.enable_icc"], of: &[Bridge], ..NONE },
    NetworkOption {
        docker: &["com.docker.network.bridge.host_binding_ipv4"],
        of: &[Bridge],
        is_of_routed: true,
        ..NONE
    },
    NetworkOption {
        docker: &["com.docker.network.bridge.gateway_mode_ipv4"],
        of: &[Bridge],
        is_of_routed: true,
        ..NONE
    },
    NetworkOption {
        docker: &["com.docker.network.bridge.gateway_mode_ipv6"],
        of: &[Bridge],
        is_of_routed: true,
        ..NONE
    },
    NetworkOption {
        docker: &["com.docker.network.bridge.inhibit_ipv4"],
        of: &[Bridge],
        is_of_routed: true,
        ..NONE
    },
];
