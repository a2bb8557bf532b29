//! Versions, verbs and input that no runtime should send.

use serde_json::json;

use super::bridge;
use crate::row::{Row, Step};

pub(crate) fn versions() -> Vec<Row> {
    let chain = || {
        [
            bridge::plugin(&json!({"isGateway": true})),
            json!({"type": "portmap", "backend": "iptables", "capabilities": {"portMappings": true}}),
            json!({"type": "tuning"}),
        ]
    };
    let ports =
        json!({"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]});
    let whole = |name, version| Row::new(name, version, &chain()).runtime(ports.clone());
    let alone =
        |name, version| Row::new(name, version, &[bridge::plugin(&json!({"isGateway": true}))]);
    vec![
        alone("version: empty", ""),
        alone("version: 0.1.0", "0.1.0"),
        alone("version: 0.2.0", "0.2.0"),
        alone("version: 0.3.0", "0.3.0"),
        whole("version: chain 0.3.1", "0.3.1"),
        whole("version: chain 0.4.0", "0.4.0"),
        whole("version: chain 1.1.0", "1.1.0"),
        alone("version: unknown", "9.9.9").steps(&[Step::Add]),
        alone("version: shortened", "1.0").steps(&[Step::Add]),
        alone("version: CHECK before 0.4.0", "0.3.1").steps(&[Step::Add, Step::Check, Step::Del]),
        alone("version: STATUS before 1.1.0", "1.0.0").steps(&[Step::Ask("STATUS")]),
        alone("version: GC before 1.1.0", "1.0.0").steps(&[Step::Ask("GC")]),
        whole("verb: VERSION", "1.0.0").steps(&[Step::Ask("VERSION")]).differs(
            "the answer has the version that was asked in (CNI 1.1.0 §2, VERSION)",
            &["result.cniVersion: "],
        ),
        alone("verb: STATUS", "1.1.0").steps(&[Step::Ask("STATUS")]),
        alone("verb: unknown", "1.0.0").steps(&[Step::Ask("FROBNICATE")]),
        alone("verb: GC keeps the living", "1.1.0")
            .key("cni.dev/valid-attachments", json!([{"containerID": "c1", "ifname": "eth0"}]))
            .steps(&[Step::Add, Step::Ask("GC"), Step::Check, Step::Del]),
    ]
}

const PATH: (&str, &str) = ("CNI_PATH", "/opt/cni/bin");
const GOOD: &str = r#"{"cniVersion":"1.0.0","name":"net","type":"bridge","bridge":"br9"}"#;

/// `bridge` ADD for container `c1` with some variables replaced; an empty one is left out.
fn env(changed: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let usual = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", "/run/netns/c1"),
        ("CNI_IFNAME", "eth0"),
        PATH,
    ];
    let value = |(key, value)| {
        changed.iter().copied().find(|(name, _)| *name == key).unwrap_or((key, value))
    };
    usual.into_iter().map(value).filter(|(_, value)| !value.is_empty()).collect()
}

fn raw(name: &'static str, changed: &[(&'static str, &'static str)], stdin: &'static str) -> Row {
    Row::new(name, "1.0.0", &[]).steps(&[Step::Raw { plugin: "bridge", env: env(changed), stdin }])
}

const FIRST: &str =
    "ours finds out before it makes anything; the reference leaves the bridge and more";
const BRIDGE: &[&str] =
    &["- host link ", "- c1 link eth0 ", "- host sysctl ipv6/conf/br9/accept_ra = 0"];

pub(crate) fn bad_input() -> Vec<Row> {
    let set = |name, key, value| raw(name, &[(key, value)], GOOD);
    let conf = |name, stdin| raw(name, &[], stdin);
    vec![
        Row::new("bad: no environment", "1.0.0", &[]).steps(&[Step::Raw {
            plugin: "bridge",
            env: vec![("CNI_COMMAND", "ADD")],
            stdin: GOOD,
        }]),
        set("bad: no container", "CNI_CONTAINERID", ""),
        set("bad: container with a slash", "CNI_CONTAINERID", "a/b"),
        set("bad: no interface", "CNI_IFNAME", ""),
        set("bad: interface of 16 bytes", "CNI_IFNAME", "abcdefghijklmnop"),
        set("bad: interface with a slash", "CNI_IFNAME", "a/b"),
        set("bad: interface with a space", "CNI_IFNAME", "a b"),
        set("bad: interface ..", "CNI_IFNAME", ".."),
        set("bad: no netns", "CNI_NETNS", ""),
        set("bad: netns does not exist", "CNI_NETNS", "/run/netns/nowhere")
            .code(8)
            .differs(FIRST, BRIDGE),
        set("bad: netns is a file", "CNI_NETNS", "/etc/hostname").code(8).differs(FIRST, BRIDGE),
        set("bad: netns is the host's", "CNI_NETNS", "/proc/1/ns/net").differs(
            "the reference makes the interface in the host before it finds out, and prints two documents",
            &["answer 0", "host link", "VETH", "file ", "- host sysctl ipv6/conf/br9/accept_ra"],
        ),
        set("bad: no path", "CNI_PATH", ""),
        set("bad: unknown command", "CNI_COMMAND", "FROBNICATE"),
        conf("bad: no input", ""),
        conf("bad: no JSON", "{"),
        conf("bad: an array", "[]").says(
            "error unmarshall network config: json: cannot unmarshal array into Go value of type struct { Name string \"json:\\\"name\\\"\" }",
            "error unmarshall network config: [] is not an object",
        ),
        conf("bad: no name", r#"{"cniVersion":"1.0.0","type":"bridge"}"#),
        conf("bad: name with a slash", r#"{"cniVersion":"1.0.0","name":"a/b","type":"bridge"}"#),
        conf(
            "bad: mtu is text",
            r#"{"cniVersion":"1.0.0","name":"net","type":"bridge","mtu":"many"}"#,
        )
        .code(7)
        .says(
            "failed to load netconf: json: cannot unmarshal string into Go struct field NetConf.mtu of type int",
            "\"mtu\" is \"many\", which is not a whole number",
        ),
        conf(
            "bad: vlan out of range",
            r#"{"cniVersion":"1.0.0","name":"net","type":"bridge","vlan":5000}"#,
        ).code(7),
        conf(
            "bad: ipam plugin missing",
            r#"{"cniVersion":"1.0.0","name":"net","type":"bridge","bridge":"br9","ipam":{"type":"nowhere"}}"#,
        )
        .code(7)
        .differs(FIRST, BRIDGE),
        conf(
            "bad: bridge name of 16 bytes",
            r#"{"cniVersion":"1.0.0","name":"net","type":"bridge","bridge":"abcdefghijklmnop"}"#,
        )
        .code(7),
    ]
}
