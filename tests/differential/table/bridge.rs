//! `bridge`, with host-local addresses where it has any.

use serde_json::{Value, json};

use crate::row::{Row, Step, with};

/// A bridge `br9` with 10.9.0.0/24, and `more`.
pub(crate) fn plugin(more: &Value) -> Value {
    let base = json!({
        "type": "bridge", "bridge": "br9",
        "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"},
    });
    with(base, more)
}

fn row(name: &'static str, more: &Value) -> Row {
    Row::new(name, "1.0.0", &[plugin(more)])
}

pub(crate) const END: &str = "the reference tells the name of an end that it never made, ours that of the one which is there";

pub(crate) const MADE_NOTHING: &str = "where nothing is held, ours makes no directory";
pub(crate) const LOCK: &[&str] = &["- file /var/lib/cni/networks/net/lock "];
const NFT_MASQUERADE: &str =
    "DEL of the reference looks for its iptables chain and fails, although nftables was asked for";
pub(crate) const OWN_TABLE: &str = "in nftables everything of ours stands in our own table";
const CLAIMED: &str = "the book and host-local's files are asked before the kernel is";
const CLAIM: &[&str] = &[
    "+ file /var/lib/cni/networks/net/last_reserved_ip.0 ",
    "+ file /var/lib/cni/networks/net/lock ",
];
/// In the reference's words.
const TWO: &[Step] = &[Step::Add, Step::AddOther("c2"), Step::Check, Step::Del];

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = shapes();
    rows.extend(addresses());
    rows.extend(requests());
    rows.extend(life());
    rows
}

/// What the bridge and its ports look like.
fn shapes() -> Vec<Row> {
    vec![
        Row::new("bridge: layer 2 only", "1.0.0", &[json!({"type": "bridge", "bridge": "br9"})])
            .steps(&[Step::Add, Step::Del]),
        Row::new("bridge: layer 2 with empty ipam", "1.0.0", &[plugin(&json!({"ipam": {}}))])
            .steps(&[Step::Add, Step::Del]),
        Row::new(
            "bridge: default name",
            "1.0.0",
            &[json!({
                "type": "bridge", "ipam": {"type": "host-local", "subnet": "10.9.0.0/24"},
            })],
        ),
        row("bridge: address only", &json!({})),
        row("bridge: gateway", &json!({"isGateway": true})),
        row("bridge: default gateway", &json!({"isDefaultGateway": true})),
        row("bridge: two containers", &json!({"isGateway": true})).steps(TWO),
        row("bridge: mtu", &json!({"mtu": 1400})),
        row("bridge: hairpin", &json!({"hairpinMode": true})),
        row("bridge: promiscuous", &json!({"promiscMode": true})),
        row("bridge: hairpin and promiscuous", &json!({"promiscMode": true, "hairpinMode": true}))
            .refused(7)
            .differs(MADE_NOTHING, LOCK),
        row("bridge: names in any case", &json!({"ISGATEWAY": true, "hairpinmode": true})),
        row("bridge: port isolation", &json!({"portIsolation": true})),
        row(
            "bridge: container interface stays down",
            &json!({"disableContainerInterface": true, "ipam": {}}),
        )
        .steps(&[Step::Add, Step::Del]),
        row("bridge: spoof check is off", &json!({"macspoofchk": false})),
        row("bridge: exists already", &json!({"isGateway": true}))
            .before("ip link add br9 type bridge; ip link set br9 up")
            .steps(&[
                Step::Add,
                // NET_ADDR_SET: it does not change with the ports.
                Step::Sh("test $(cat /sys/class/net/br9/addr_assign_type) = 3"),
                Step::Check,
                Step::Del,
            ]),
        row("bridge: exists with another address", &json!({"isGateway": true}))
            .before("ip link add br9 type bridge; ip addr add 10.9.0.7/24 dev br9")
            .refused(101)
            .differs(
                "a bridge that cannot be used stays as it was; the reference has set it up",
                &["+ host link br9 flags [\"BROADCAST\",\"MULTICAST\"]"],
            )
            .tidy(),
        row("bridge: address forced", &json!({"isGateway": true, "forceAddress": true}))
            .before("ip link add br9 type bridge; ip addr add 10.9.0.7/24 dev br9"),
        row("bridge: name is no bridge", &json!({}))
            .before("ip link add br9 type veth peer name other9")
            .refused(7)
            .differs(CLAIMED, CLAIM),
    ]
}

fn addresses() -> Vec<Row> {
    let ipam = |value: Value| json!({"isGateway": true, "ipam": with(value, &json!({"type": "host-local"}))});
    vec![
        row(
            "bridge: dual stack",
            &ipam(json!({
                "ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/64"}]],
                "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
            })),
        ),
        row("bridge: IPv6 only", &ipam(json!({"ranges": [[{"subnet": "fd09::/64"}]]}))).differs(
            "without an IPv4 address there is nothing to announce by ARP",
            &["- c1 sysctl ipv4/conf/eth0/arp_notify = 1"],
        ),
        row(
            "bridge: dual stack default gateway",
            &with(
                ipam(json!({
                    "ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/64"}]],
                })),
                &json!({"isDefaultGateway": true}),
            ),
        ),
        row(
            "bridge: routes",
            &ipam(json!({
                "subnet": "10.9.0.0/24",
                "routes": [{"dst": "0.0.0.0/0"}, {"dst": "192.0.2.0/24", "gw": "10.9.0.9"}],
            })),
        ),
        Row::new(
            "bridge: route attributes",
            "1.1.0",
            &[plugin(&ipam(json!({
                "subnet": "10.9.0.0/24",
                "routes": [{"dst": "192.0.2.0/24", "priority": 50}, {"dst": "198.51.100.0/24", "table": 300}],
            })))],
        )
        .differs(
            "CHECK of the reference looks for every route in the main table",
            &["2 Check: - answer 0 ", "2 Check: + answer 0 "],
        ),
        row(
            "bridge: gateway elsewhere",
            &ipam(json!({"subnet": "10.9.0.0/24", "gateway": "10.9.0.254"})),
        ),
        row(
            "bridge: dns",
            &with(
                ipam(json!({"subnet": "10.9.0.0/24"})),
                &json!({
                    "dns": {"nameservers": ["192.0.2.53"], "domain": "spoke.example", "search": ["a.example"], "options": ["ndots:2"]},
                }),
            ),
        ),
        row("bridge: explicit empty dns wins over the source's", &super::ipam::own_dns(&json!({"nameservers": []}))),
        row("bridge: dns that says nothing", &super::ipam::own_dns(&json!({}))),
        row(
            "bridge: static addresses",
            &json!({"isGateway": true, "ipam": {
                "type": "static", "addresses": [{"address": "10.9.0.5/24", "gateway": "10.9.0.1"}],
                "routes": [{"dst": "0.0.0.0/0", "gw": "10.9.0.1"}],
            }}),
        ),
        row("bridge: /31", &ipam(json!({"subnet": "10.9.0.0/31"})))
            .refused(7)
            .tidy()
            .forgiving(),
        row("bridge: /30", &ipam(json!({"subnet": "10.9.0.0/30"}))),
    ]
}

fn requests() -> Vec<Row> {
    let mac = json!({"capabilities": {"mac": true}});
    vec![
        row("bridge: IP by CNI_ARGS", &json!({})).args("IgnoreUnknown=1;IP=10.9.0.77"),
        row("bridge: MAC by CNI_ARGS", &json!({})).args("IgnoreUnknown=1;MAC=c2:11:22:33:44:55"),
        row("bridge: MAC by args", &json!({"args": {"cni": {"mac": "c2:11:22:33:44:66"}}})),
        row("bridge: MAC by runtimeConfig", &mac).runtime(json!({"mac": "c2:11:22:33:44:77"})),
        row("bridge: bad MAC", &mac).runtime(json!({"mac": "no mac"})).refused(7).tidy(),
        row("bridge: unknown CNI_ARGS", &json!({})).args("FOO=bar").refused(7).forgiving(),
        row("bridge: Kubernetes' CNI_ARGS", &json!({}))
            .args("IgnoreUnknown=true;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web"),
        row("bridge: IPs by runtimeConfig", &json!({"capabilities": {"ips": true}}))
            .runtime(json!({"ips": ["10.9.0.88/24"]})),
        row(
            "bridge: ranges by runtimeConfig",
            &json!({
                "capabilities": {"ipRanges": true}, "ipam": {"type": "host-local"},
            }),
        )
        .runtime(json!({"ipRanges": [[{"subnet": "10.8.0.0/24"}], [{"subnet": "fd08::/64"}]]})),
    ]
}

/// The verbs in orders that real runtimes use.
fn life() -> Vec<Row> {
    let steps = |name, steps: &[Step]| row(name, &json!({"isGateway": true})).steps(steps);
    vec![
        steps("bridge: DEL without netns", &[Step::Add, Step::DelWithoutNetns]).without_netns(),
        steps("bridge: DEL after the netns", &[Step::Add, Step::DelAfterNetns]),
        steps("bridge: DEL without result", &[Step::Add, Step::DelWithoutResult]),
        steps("bridge: DEL twice", &[Step::Add, Step::Del, Step::Del]),
        steps("bridge: DEL of nothing", &[Step::Del]).differs(MADE_NOTHING, LOCK),
        steps("bridge: ADD twice", &[Step::Add, Step::Add, Step::Del])
            .code(101)
            .differs(END, &["error.msg: "]),
        steps(
            "bridge: interface exists",
            &[Step::Sh("ip -n c1 link add eth0 type veth peer name other0"), Step::Add],
        )
        .code(101)
        .differs(CLAIMED, CLAIM)
        .differs(
            "the bridge is the network's and complete before the container's link is made",
            &["host address br9 ", "host route {\"dev\":\"br9\"", "ipv4/ip_forward"],
        ),
        steps(
            "bridge: CHECK without address",
            &[Step::Add, Step::Sh("ip -n c1 addr flush dev eth0"), Step::Check, Step::Del],
        )
        .code(104),
        steps(
            "bridge: CHECK without interface",
            &[Step::Add, Step::Sh("ip -n c1 link del eth0"), Step::Check],
        )
        .code(104),
        steps("bridge: CHECK without result", &[Step::Check]).code(104).differs(MADE_NOTHING, LOCK),
    ]
}

/// With `ipMasq`, in iptables as asked for by name.
pub(crate) fn masquerade() -> Vec<Row> {
    let masq = |more: Value| {
        with(more, &json!({"isGateway": true, "ipMasq": true, "ipMasqBackend": "iptables"}))
    };
    let dual = json!({"ipam": {
        "type": "host-local", "ranges": [[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd09::/64"}]],
    }});
    vec![
        row("masquerade: iptables", &masq(json!({}))),
        row("masquerade: iptables, dual stack", &masq(dual.clone())),
        row("masquerade: iptables, two containers", &masq(json!({}))).steps(TWO),
        row("masquerade: iptables, DEL without netns", &masq(json!({})))
            .steps(&[Step::Add, Step::DelWithoutNetns])
            .without_netns(),
        row("masquerade: nftables", &with(masq(json!({})), &json!({"ipMasqBackend": "nftables"})))
            .differs(OWN_TABLE, &["host nft "])
            .differs(NFT_MASQUERADE, &["3 Del: - answer 0 ", "3 Del: + answer 0 "]),
        row(
            "masquerade: nftables, dual stack",
            &with(masq(dual), &json!({"ipMasqBackend": "nftables"})),
        )
        .differs(OWN_TABLE, &["host nft "])
        .differs(NFT_MASQUERADE, &["3 Del: - answer 0 ", "3 Del: + answer 0 "]),
        row(
            "masquerade: unknown back end",
            &with(masq(json!({})), &json!({"ipMasqBackend": "smoke"})),
        )
        .refused(7)
        .differs("ours has not begun to forward", &["+ host sysctl ipv4/ip_forward = 0"])
        .tidy()
        .forgiving(),
    ]
}
