//! What is wrong with the form of a call is reported in the order, the words and with the codes of the
//! reference plugins, whose 1.9.1 was asked the same.

#![allow(clippy::unwrap_used)]

mod rig;

use cni::Plugin;
use proptest::prelude::*;
use rig::{Rig, config, previous};
use serde_json::{Value, json};

fn failure(rig: &Rig, variables: &[(&str, &str)], input: &str) -> (u64, String) {
    let output = rig.call(Plugin::Bridge, variables, input);
    assert_eq!(output.code, 1, "{output:?}");
    let error: Value = serde_json::from_str(&output.stdout).unwrap();
    assert!(error["cniVersion"].is_string());
    (error["code"].as_u64().unwrap(), error["msg"].as_str().unwrap().to_owned())
}

/// Environment, input, code, how the message begins.
type Row = (Vec<(&'static str, &'static str)>, &'static str, u64, &'static str);

#[test]
fn the_form_of_a_call() {
    let rig = Rig::new();
    let with = |command: &'static str, container: &'static str, ifname: &'static str| {
        vec![
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", container),
            ("CNI_IFNAME", ifname),
            ("CNI_NETNS", "/ns/one"),
            ("CNI_PATH", "/x"),
        ]
    };
    let add = || with("ADD", "c", "eth0");
    let check = || with("CHECK", "c", "eth0");
    let table: Vec<Row> = vec![
        (
            vec![("CNI_COMMAND", "ADD"), ("CNI_PATH", "/x")],
            "{}",
            4,
            "required env variables [CNI_CONTAINERID,CNI_NETNS,CNI_IFNAME] missing",
        ),
        (with("FOO", "", ""), "{}", 7, "missing network name"),
        (with("FOO", "", ""), r#"{"name":"n"}"#, 4, "unknown CNI_COMMAND: FOO"),
        (with("ADD", "-c", "e/0"), "x", 4, "invalid characters in containerID"),
        (
            with("ADD", "c", "e/0"),
            "x",
            4,
            "interface name contains / or : or whitespace characters",
        ),
        (with("ADD", "c", ".."), "x", 4, "interface name is . or .."),
        (with("ADD", "c", "sixteen-bytes-xx"), "x", 4, "interface name is too long"),
        (add(), "x", 6, "error unmarshall network config: "),
        (add(), "", 6, "error unmarshall network config: "),
        (add(), "{}", 7, "missing network name"),
        (add(), r#"{"name":"a/b"}"#, 7, "invalid characters found in network name"),
        (add(), r#"{"name":"n","cniVersion":"1.0"}"#, 1, "incompatible CNI versions"),
        (add(), r#"{"name":"n","cniVersion":5}"#, 6, "decoding version from network config: "),
        (check(), r#"{"name":"n","cniVersion":"0.3.1"}"#, 1, "config version does not allow CHECK"),
        (check(), r#"{"name":"n","cniVersion":"1.0"}"#, 1, "incompatible CNI versions"),
        (
            with("GC", "", ""),
            r#"{"name":"n","cniVersion":"1.0.0"}"#,
            1,
            "config version does not allow GC",
        ),
        (
            with("STATUS", "", ""),
            r#"{"name":"n","cniVersion":"1.0.0"}"#,
            1,
            "config version does not allow STATUS",
        ),
    ];
    for (variables, input, code, msg) in table {
        let (was_code, was_msg) = failure(&rig, &variables, input);
        assert!(was_code == code && was_msg.starts_with(msg), "{input}: {was_code} {was_msg}");
    }
    assert!(rig.driver.calls.borrow().is_empty());
}

#[test]
fn the_namespace_before_anything_is_done() {
    let rig = Rig::new();
    for (netns, command, msg) in [
        ("/ns/own", "ADD", "plugin's netns and netns from CNI_NETNS should not be the same"),
        ("/ns/own", "CHECK", "plugin's netns and netns from CNI_NETNS should not be the same"),
        ("/etc/x", "ADD", "failed to open netns \"/etc/x\": no such file or directory"),
    ] {
        let variables = [
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", "c"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_NETNS", netns),
            ("CNI_PATH", "/x"),
        ];
        let input = config(json!({"prevResult": previous()})).to_string();
        assert_eq!(failure(&rig, &variables, &input), (8, msg.to_owned()));
        assert!(rig.driver.calls.borrow().is_empty());
    }
}

#[test]
fn its_own_namespace_where_that_is_meant() {
    let rig = Rig::new();
    let own = |command, how| {
        let variables = [
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", "c"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_NETNS", "/ns/own"),
            ("CNI_PATH", "/x"),
            ("CNI_NETNS_OVERRIDE", how),
        ];
        rig.call(Plugin::Bridge, &variables, &config(json!({})).to_string())
    };
    assert_eq!(own("ADD", "TRUE").code, 0);
    let refused = own("DEL", "");
    assert_eq!(refused.code, 1, "reported, but only when all has been released");
    assert_eq!(rig.last().0, "detach");
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z0-9./:-]{0,12}".prop_map(Value::from),
        Just(json!("10.9.0.0/24")),
        Just(json!("host-local")),
    ];
    let key = prop::sample::select(vec![
        "type",
        "subnet",
        "ranges",
        "addresses",
        "address",
        "gateway",
        "ips",
        "mac",
        "cni",
        "dst",
        "portMappings",
        "hostPort",
        "containerPort",
        "protocol",
        "interfaces",
        "name",
        "sysctl",
    ]);
    leaf.prop_recursive(4, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..5).prop_map(|map| json!(map)),
        ]
    })
}

fn field() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "ipam",
        "runtimeConfig",
        "args",
        "prevResult",
        "dns",
        "mtu",
        "bridge",
        "sysctl",
        "backend",
        "ingressPolicy",
        "vlanTrunk",
        "cni.dev/valid-attachments",
        "conditionsV4",
        "mac",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_comes_is_answered_with_one_object(
        fields in prop::collection::btree_map(field(), anything(), 0..5),
        plugin in prop::sample::select(Plugin::ALL.to_vec()),
        command in prop::sample::select(vec!["ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"]),
        args in "([A-Z]{1,3}=[a-z0-9.]{0,4};?){0,3}",
    ) {
        let rig = Rig::new();
        let mut config = json!({"cniVersion": "1.1.0", "name": "net"});
        for (key, value) in fields {
            config[key] = value;
        }
        // The default directory is the host's.
        if config["ipam"].is_object() {
            config["ipam"]["dataDir"] = json!(rig.root.path());
        }
        let output = rig.with(command, plugin, ("c", &args), &config);
        if output.stdout.is_empty() {
            prop_assert_eq!(output.code, 0);
        } else {
            let reported: Value = serde_json::from_str(&output.stdout).unwrap();
            prop_assert!(reported["cniVersion"].is_string());
            prop_assert_eq!(reported.get("code").is_some(), output.code != 0);
        }
    }
}
