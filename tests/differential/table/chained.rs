//! `portmap`, `firewall` and `tuning` behind a bridge.

use serde_json::{Value, json};

use super::bridge;
use crate::row::{Row, Step, with};

const ISOLATED: &str =
    "ports of one bridge need not pass the packet filter: only the bridge can keep them apart";

fn behind_bridge(name: &'static str, plugin: Value) -> Row {
    Row::new(name, "1.0.0", &[bridge::plugin(&json!({"isGateway": true})), plugin])
}

/// In iptables as asked for by name, with one TCP port.
fn port(name: &'static str, more: &Value) -> Row {
    let base =
        json!({"type": "portmap", "backend": "iptables", "capabilities": {"portMappings": true}});
    behind_bridge(name, with(base, more))
        .runtime(ports(&json!([{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}])))
}

fn ports(list: &Value) -> Value {
    json!({"portMappings": list})
}

pub(crate) fn portmap() -> Vec<Row> {
    let several = ports(&json!([
        {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
        {"hostPort": 5353, "containerPort": 53, "protocol": "udp"},
        {"hostPort": 8081, "containerPort": 81, "protocol": "tcp", "hostIP": "127.0.0.1"},
    ]));
    let one = |entry: Value| ports(&json!([entry]));
    vec![
        port("portmap: iptables", &json!({})),
        port("portmap: several", &json!({})).runtime(several.clone()),
        port("portmap: names in any case, as go-cni writes them", &json!({"SNAT": true})).runtime(
            one(json!({"HostPort": 8080, "ContainerPort": 80, "Protocol": "tcp", "HostIP": ""})),
        ),
        port("portmap: without snat", &json!({"snat": false})),
        port("portmap: masquerade all", &json!({"masqAll": true})),
        port("portmap: mark bit", &json!({"markMasqBit": 15})),
        port("portmap: foreign mark chain", &json!({"externalSetMarkChain": "FOREIGN-MARK"}))
            .before("iptables -t nat -N FOREIGN-MARK; ip6tables -t nat -N FOREIGN-MARK"),
        port("portmap: conditions", &json!({"conditionsV4": ["!", "-d", "192.0.2.0/24"], "conditionsV6": ["!", "-d", "2001:db8::/32"]})),
        port("portmap: none", &json!({})).runtime(json!({})),
        port("portmap: sctp", &json!({})).runtime(one(json!({"hostPort": 9000, "containerPort": 90, "protocol": "sctp"}))),
        port("portmap: host port 0", &json!({})).runtime(one(json!({"hostPort": 0, "containerPort": 80, "protocol": "tcp"})))
            .refused(7)
            .forgiving(),
        port("portmap: bad host address", &json!({}))
            .runtime(one(json!({"hostPort": 80, "containerPort": 80, "protocol": "tcp", "hostIP": "nowhere"})))
            .refused(7)
            .differs(
                "an address that is none is refused; the reference publishes on every address instead",
                &["1 Add: + answer 1 exit 1", "1 Add: + answer 1 error.msg", "1 Add: - answer 1 "],
            )
            .tidy(),
        port("portmap: bad back end", &json!({"backend": "smoke"})).refused(7).forgiving(),
        port("portmap: mark bit out of range", &json!({"markMasqBit": 32})).refused(7).forgiving(),
        port("portmap: DEL without netns", &json!({}))
            .steps(&[Step::Add, Step::DelWithoutNetns])
            .without_netns(),
        port("portmap: DEL without result", &json!({})).steps(&[Step::Add, Step::DelWithoutResult]),
        port("portmap: nftables", &json!({"backend": "nftables"})).runtime(several)
            .differs(bridge::OWN_TABLE, &["host nft "]),
        port("portmap: CHECK without rule", &json!({}))
            .steps(&[Step::Add, Step::Sh("iptables -t nat -F CNI-HOSTPORT-DNAT || true"), Step::Check, Step::Del])
            .code(104)
            .differs(
                "CHECK of ours compares every rule, and names the first that is missing",
                &["3 Check: - answer 1 error.msg: ", "3 Check: + answer 1 error.msg: "],
            ),
    ]
}

pub(crate) fn firewall() -> Vec<Row> {
    let wall = |name, more: Value| {
        behind_bridge(name, with(json!({"type": "firewall", "backend": "iptables"}), &more))
    };
    vec![
        wall("firewall: iptables", json!({})),
        wall("firewall: admin chain", json!({"iptablesAdminChainName": "SITE"})),
        wall("firewall: same bridge", json!({"ingressPolicy": "same-bridge"})),
        wall("firewall: isolated", json!({"ingressPolicy": "isolated"}))
            .differs(ISOLATED, &["linkinfo info_slave_data isolated "]),
        wall("firewall: open", json!({"ingressPolicy": "open"})),
        wall("firewall: unknown policy", json!({"ingressPolicy": "ajar"}))
            .refused(7)
            .tidy()
            .forgiving(),
        wall("firewall: unknown back end", json!({"backend": "smoke"}))
            .refused(7)
            .differs(
                "what is not known is refused; the reference uses iptables whatever is written",
                &["1 Add: - answer 1 ", "1 Add: + answer 1 "],
            )
            .tidy(),
        wall("firewall: DEL twice", json!({})).steps(&[Step::Add, Step::Del, Step::Del]),
        wall("firewall: DEL without netns", json!({}))
            .steps(&[Step::Add, Step::DelWithoutNetns])
            .without_netns(),
        wall("firewall: CHECK without rule", json!({}))
            .steps(&[
                Step::Add,
                Step::Sh("iptables -F CNI-FORWARD || true"),
                Step::Check,
                Step::Del,
            ])
            .code(104),
    ]
}

pub(crate) fn tuning() -> Vec<Row> {
    let tune = |name, more: Value| behind_bridge(name, with(json!({"type": "tuning"}), &more));
    vec![
        tune("tuning: nothing", json!({})),
        tune(
            "tuning: sysctl",
            json!({"sysctl": {"net.ipv4.conf.eth0.arp_notify": "0", "net.core.somaxconn": "500"}}),
        ),
        tune(
            "tuning: names in any case",
            json!({"Sysctl": {"net.ipv4.conf.eth0.proxy_arp": "1"}, "MTU": 1300, "txqlen": 5}),
        ),
        tune(
            "tuning: sysctl of IFNAME",
            json!({"sysctl": {"net.ipv4.conf.IFNAME.proxy_arp": "1"}}),
        ),
        tune(
            "tuning: link",
            json!({"mac": "c2:11:22:33:44:88", "mtu": 1300, "promisc": true, "allmulti": true, "txQLen": 77}),
        ),
        tune("tuning: MAC by args", json!({"args": {"cni": {"mac": "c2:11:22:33:44:99"}}})),
        tune("tuning: MAC by runtimeConfig", json!({"capabilities": {"mac": true}}))
            .runtime(json!({"mac": "c2:11:22:33:44:aa"})),
        tune("tuning: folder", json!({"mtu": 1300, "dataDir": "/run/elsewhere"})),
        tune("tuning: foreign sysctl", json!({"sysctl": {"kernel.hostname": "x"}})).refused(7),
        tune("tuning: unknown sysctl", json!({"sysctl": {"net.ipv4.nothing": "1"}})).refused(104),
        tune("tuning: CHECK after change", json!({"mtu": 1300}))
            .steps(&[
                Step::Add,
                Step::Sh("ip -n c1 link set eth0 mtu 1200"),
                Step::Check,
                Step::Del,
            ])
            .code(104),
        Row::new(
            "tuning: DEL of a renamed network",
            "1.0.0",
            &[json!({
                "type": "tuning", "mac": "c2:11:22:33:44:88", "mtu": 1300, "promisc": true,
                "allmulti": true, "txQLen": 77, "prevResult": {"cniVersion": "1.0.0",
                    "interfaces": [{"name": "eth0", "sandbox": "/run/netns/c1"}], "ips": []},
            })],
        )
        .steps(&[
            Step::Sh("ip -n c1 link add eth0 address c2:00:00:00:00:07 type veth peer name other0"),
            Step::Add,
            Step::DelRenamed,
        ]),
        tune("tuning: not allowed", json!({"sysctl": {"net.core.somaxconn": "500"}}))
            .before("mkdir -p /etc/cni/tuning; echo '^net.ipv4' >/etc/cni/tuning/allowlist.conf")
            .refused(7),
    ]
}
