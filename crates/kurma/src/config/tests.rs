use super::*;
use serde_json::json;

fn networks(document: &Value) -> PodNetworks {
    PodNetworks::read(&document.to_string(), "k.json").unwrap()
}

fn one(changes: &Value) -> Result<NetworkConfig> {
    let mut object = json!({"name": "mynet", "aci": "file:///a.aci"});
    let map = object.as_object_mut().unwrap();
    map.extend(changes.as_object().unwrap().clone());
    NetworkConfig::read(&object, "k.json: pod_networks[2]")
}

#[test]
fn the_example_of_the_specification_is_read() {
    let network = json!({"name": "mynet", "aci": "apcera.com/kurma/cni-netplugin",
        "default": true, "containerInterface": "eth0", "type": "bridge", "bridge": "mynet0",
        "isGateway": true, "ipMasq": true, "ipam": {"type": "host-local",
        "subnet": "10.10.0.0/16", "routes": [{"dst": "0.0.0.0/0"}]}});
    for key in KEYS {
        let read = networks(&json!({key: [network.clone()], "other": 7}));
        let config = read.networks().next().unwrap();
        assert!(config.is_default);
        assert_eq!(config.on_error, OnError::Fail);
        assert_eq!(config.interface.source(), "eth0");
        assert_eq!(serde_json::from_slice::<Value>(&config.input()).unwrap(), network);
    }
}

/// As Kurma took it, which read all of it as YAML.
#[test]
fn a_byte_order_mark_is_passed_over() {
    for text in [
        r#"{"podNetworks":[{"name":"a","aci":"file:///a"}]}"#,
        "podNetworks:\n- name: a\n  aci: file:///a\n",
    ] {
        let read = PodNetworks::read(&format!("\u{feff}{text}"), "k").unwrap();
        assert_eq!(read.networks().next().unwrap().name.as_str(), "a", "{text}");
    }
}

#[test]
fn yaml_is_as_good() {
    let text = "podNetworks:\n- name: a\n  aci: file:///a.aci\n  default: true\n  ipam:\n    \
                subnet: 10.0.0.0/8\n- name: b\n  aci: docker://x/y:1\n";
    let read = PodNetworks::read(text, "k.yml").unwrap();
    let names: Vec<_> = read.networks().map(|network| network.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let first = read.networks().next().unwrap();
    assert_eq!(
        first.input(),
        br#"{"aci":"file:///a.aci","default":true,"ipam":{"subnet":"10.0.0.0/8"},"name":"a"}"#
    );
}

#[test]
fn nothing_is_no_network() {
    for text in ["", "{}", "# nothing", r#"{"pod_networks": null}"#, r#"{"pod_networks": []}"#] {
        assert!(PodNetworks::read(text, "k").unwrap().is_empty(), "{text}");
    }
    assert!(PodNetworks::load(Path::new("/nowhere/k.json")).unwrap().is_empty());
}

#[test]
fn what_is_wrong_with_a_file_is_reported() {
    for (text, answer) in [
        ("{", "k.json: it is no JSON"),
        ("- a", "k.json: it should be an object"),
        (r#"{"pod_networks": 7}"#, "k.json: pod_networks is 7: it should be a list"),
        (r#"{"pod_networks": [], "podNetworks": []}"#, "both pod_networks and podNetworks"),
        ("a: &x 1", "k.json: line 1"),
    ] {
        let error = PodNetworks::read(text, "k.json").unwrap_err().to_string();
        assert!(error.contains(answer), "{text}: {error}");
    }
}

#[test]
fn i12_one_bad_network_blocks_no_other() {
    let image = "file:///a.aci";
    let read = networks(&json!({"pod_networks": [
        {"name": "a", "aci": image}, {"name": "Bad_Name", "aci": image}, {"name": "a", "aci": image},
        {"aci": image}, 7, {"name": "b"}, {"name": "c", "aci": image, "default": true}]}));
    let names: Vec<_> = read.networks().map(|network| network.name.as_str()).collect();
    assert_eq!(names, ["a", "c"]);
    let reported: Vec<_> = read.refused().map(|refused| refused.error.to_string()).collect();
    let expected = [
        "k.json: network \"Bad_Name\": pod_networks[1].name: \"Bad_Name\" is no network's name",
        "k.json: network \"a\": pod_networks[2].name is \"a\": another network has that name",
        "k.json: pod_networks[3] has no name",
        "k.json: pod_networks[4] is 7: it should be an object",
        "k.json: network \"b\": pod_networks[5] has no aci",
    ];
    assert_eq!(reported.len(), expected.len());
    for (reported, expected) in reported.iter().zip(expected) {
        assert!(reported.starts_with(expected), "{reported}");
    }
    let error = read.network(&"b".parse().unwrap()).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
}

#[test]
fn each_field_is_checked() {
    for (changes, answer) in [
        (
            json!({"default": "yes"}),
            "pod_networks[2].default is \\\"yes\\\": it should be true or false",
        ),
        (
            json!({"containerInterface": "eth{{num"}),
            "containerInterface is \"eth{{num\": unclosed action",
        ),
        (json!({"containerInterface": 7}), "containerInterface is 7: it should be a string"),
        (json!({"aci": "gopher://x"}), "pod_networks[2].aci: "),
        (json!({"aci": ""}), "ACIdentifier cannot be empty"),
        (json!({"digest": "x"}), "pod_networks[2].digest is \"x\": it should be sha256"),
        (json!({"on_error": "panic"}), "on_error is \\\"panic\\\": it should be one of fail, skip"),
        (json!({"engine": "youki"}), "it should be one of native, runc, crun"),
        (json!({"limit": 0}), "limit is 0: it should be whole seconds"),
        (json!({"privileged": 1}), "privileged is 1"),
        (json!({"grant": 7}), "grant is 7: it should be a list"),
        (json!({"grant": [7]}), "grant[0] is 7: it should be a string"),
        (json!({"grant": ["CAP_BPF", "all"]}), "grant[1]: \"all\" cannot be granted"),
        (json!({"mounts": [7]}), "mounts[0] is 7"),
        (json!({"mounts": [{"host": "/a"}]}), "mounts[0].container is \"\""),
        (
            json!({"mounts": [{"host": "/a/../b", "container": "/b"}]}),
            "mounts[0].host is \"/a/../b\"",
        ),
    ] {
        let error = one(&changes).unwrap_err().to_string();
        assert!(error.starts_with("k.json: pod_networks[2]"), "{error}");
        assert!(error.contains(answer), "{changes}: {error}");
    }
}

#[test]
fn our_own_keys_are_read_and_passed_on() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let changes = json!({"digest": digest, "on_error": "skip", "privileged": true, "limit": 5,
        "grant": ["spoke-state", "sys_module"],
        "mounts": [{"host": "/run/x", "container": "/run/y", "readOnly": true}], "engine": "runc"});
    let config = one(&changes).unwrap();
    assert_eq!(config.image.pin().unwrap().to_string(), digest);
    assert_eq!(
        (config.on_error, config.limit),
        (OnError::Skip, Some(std::time::Duration::from_secs(5)))
    );
    let mount = Mount { host: "/run/x".into(), container: "/run/y".into(), read_only: true };
    assert_eq!(config.sandboxing.mounts, [mount]);
    assert!(config.sandboxing.privileged);
    let granted: Vec<_> = config.sandboxing.grant.iter().map(ToString::to_string).collect();
    assert_eq!(granted, ["CAP_SYS_MODULE", "spoke-state"]);
    assert_eq!(config.document()["mounts"], changes["mounts"]);
}

#[test]
fn a12_a13_a14_networks_are_chosen() {
    let network =
        |name: &str, default: bool| json!({"name": name, "aci": "file:///a", "default": default});
    let read = networks(
        &json!({"pod_networks": [network("a", true), network("b", false), network("c", true)]}),
    );
    let chosen = |names: &[&str]| -> Result<Vec<String>> {
        let names: Vec<Name> = names.iter().map(|name| name.parse().unwrap()).collect();
        Ok(read.chosen(&names)?.iter().map(|network| network.name.to_string()).collect())
    };
    assert_eq!(chosen(&[]).unwrap(), ["a", "c"]);
    assert_eq!(chosen(&["c", "b", "c"]).unwrap(), ["c", "b", "c"]);
    let error = chosen(&["a", "nosuch"]).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (Kind::NotFound, "network \"nosuch\" does not exist")
    );
}
