//! A1 to A11: what a plugin is given, and what becomes of what it answers.

use serde_json::{Value, json};
use tests::kurma::Kurma;

use crate::U;

/// The networks of one pod, as `provision` says.
fn networks(pod: &Value) -> &Vec<Value> {
    pod["networks"].as_array().unwrap_or_else(|| panic!("{pod}"))
}

/// A host with one network of the spy's, which answers so.
#[track_caller]
fn answering(script: &str) -> Kurma {
    let kurma = Kurma::new(&json!([Kurma::spy("one", &json!({"containerInterface": "eth0"}))]));
    kurma.instruct("one", "add", script);
    kurma
}

#[test]
fn a01_three_arguments_and_the_whole_object() {
    let network = json!({"default": true, "containerInterface": "veth+{{shortuuid}}",
        "type": "spy", "nested": {"list": [1, 2, {"deep": null}]}});
    let network = Kurma::spy("one", &network);
    let kurma = Kurma::new(&json!([network]));
    let said = kurma.kurma(&format!("provision {U}"));
    assert_eq!(said.lines().next(), Some(Kurma::netns(U).as_str()), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
    kurma.kurma(&format!("deprovision {U}"));
    let calls = kurma.calls();
    assert_eq!(kurma.order(), ["add one", "del one"]);
    for call in &calls {
        assert_eq!(call.argv, [Kurma::netns(U).as_str(), U, "veth+146d7cef"]);
        assert_eq!(call.config(), network, "P12: everything, the template unrendered");
        assert!(!call.stdin.ends_with('\n'), "P12");
        assert_eq!(call.env, ["HOME=/root", "PATH=/sbin:/usr/sbin:/bin:/usr/bin"], "P11");
        assert_eq!(call.who, ["0", "0", "/"], "P11");
    }
    // D1: the namespace is there, and the same.
    assert_eq!(calls[0].netns, calls[1].netns);
    assert!(calls[0].netns.is_some());
    kurma.is_clean();
}

/// P10: the third argument is there, and empty.
#[test]
fn a01_without_an_interface() {
    let kurma = Kurma::new(&json!([Kurma::spy("one", &json!({}))]));
    kurma.kurma(&format!("provision {U} one"));
    let [call] = &kurma.calls()[..] else { panic!("one call") };
    assert_eq!(call.argv, [Kurma::netns(U).as_str(), U, ""]);
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}

/// P12: what is YAML comes as JSON with its keys in order.
#[test]
fn a01_of_yaml() {
    let kurma = Kurma::new(&json!([]));
    kurma.networks_text(&format!(
        "podNetworks:\n- name: one\n  zebra: 1\n  aci: {}\n  ant: yes it is\n  \
         mounts: [{{host: /spy, container: /spy}}]\n  default: true\n",
        Kurma::SPY
    ));
    kurma.kurma(&format!("provision {U}"));
    let [call] = &kurma.calls()[..] else { panic!("one call") };
    let order: Vec<_> = ["aci", "ant", "default", "mounts", "name", "zebra"]
        .map(|key| call.stdin.find(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{call:?}")))
        .into();
    assert!(order.is_sorted(), "{}", call.stdin);
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}

#[test]
fn a02_ip4_as_it_was_said() {
    let kurma = answering(r#"echo '{"ip4": {"ip": "10.1.2.3/24", "gateway": "10.1.2.1"}}'"#);
    let pod = kurma.json(&format!("provision {U} one"));
    assert_eq!(pod["uuid"], U);
    assert_eq!(pod["netns"], Kurma::netns(U));
    let ip4 = json!({"ip": "10.1.2.3/24", "gateway": "10.1.2.1"});
    assert_eq!(
        networks(&pod)[..],
        [json!({"name": "one", "containerInterface": "eth0", "ip4": ip4})]
    );
    // What was said is remembered as said.
    assert_eq!(kurma.json("pods")[0]["networks"], pod["networks"]);
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}

#[test]
fn a02_both_families_with_routes() {
    let reply = json!({"ip4": {"ip": "10.1.2.3/24", "routes": [{"dst": "0.0.0.0/0"}]},
        "ip6": {"ip": "fd00::3/64", "gateway": "fd00::1"}, "dns": {"nameservers": ["9.9.9.9"]}});
    let kurma = answering(&format!("echo '{reply}'"));
    let pod = kurma.json(&format!("provision {U} one"));
    let network = &networks(&pod)[0];
    assert_eq!(network["ip4"]["ip"], "10.1.2.3/24");
    assert_eq!(network["ip4"]["routes"][0]["dst"], "0.0.0.0/0");
    assert_eq!(network["ip6"], reply["ip6"]);
    assert_eq!(network["dns"]["nameservers"], json!(["9.9.9.9"]));
}

#[test]
fn a03_names_in_a_reply_are_overwritten() {
    let kurma = answering(
        r#"echo '{"name": "evil", "containerInterface": "lo", "ip4": {"ip": "10.1.2.3/24"}}'"#,
    );
    let pod = kurma.json(&format!("provision {U} one"));
    assert_eq!(networks(&pod)[0]["name"], "one");
    assert_eq!(networks(&pod)[0]["containerInterface"], "eth0");
}

#[test]
fn a04_an_empty_object_is_success_without_addresses() {
    let kurma = answering("echo '{}'");
    let pod = kurma.json(&format!("provision {U} one"));
    assert_eq!(networks(&pod)[..], [json!({"name": "one", "containerInterface": "eth0"})]);
}

/// A5 and, ours, A6: neither nothing nor `null` is a result; and what is none at all.
#[test]
fn a05_a06_no_result_is_a_failure() {
    for script in ["true", "echo null", "echo 17", "echo '[1]'", "echo '{\"ip4\": 3}'", "echo {"] {
        let kurma = answering(script);
        kurma.refused(&format!("provision {U} one"), &["one"]);
        assert_eq!(kurma.order(), ["add one", "del one"], "{script}");
        kurma.is_clean();
    }
}

/// Ours: the pod fails, and nothing is left of what was done for it before.
#[test]
fn a07_what_a_failing_plugin_said_is_shown() {
    let first = Kurma::spy("first", &json!({"containerInterface": "eth{{num}}"}));
    let second = Kurma::spy("second", &json!({"containerInterface": "eth{{num}}"}));
    let kurma = Kurma::new(&json!([first, second]));
    kurma.instruct("second", "add", "echo out text; echo error text >&2; exit 3");
    let words = ["second", "3", "out text", "error text"];
    kurma.refused(&format!("provision {U} first second"), &words);
    assert_eq!(kurma.order(), ["add first", "add second", "del second", "del first"]);
    assert_eq!(kurma.calls()[2].argv, [Kurma::netns(U).as_str(), U, "eth1"]);
    kurma.is_clean();
    // The same pod may come again.
    kurma.forget("second", "add");
    kurma.kurma(&format!("provision {U} first second"));
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}

/// M26: that a signal ended it, and which.
#[test]
fn a07_a_killed_plugin_is_a_failure() {
    let kurma = answering("kill -9 $$; sleep 100");
    kurma.refused(&format!("provision {U} one"), &["one", "9"]);
    kurma.is_clean();
}

/// Ours: the original takes both together for the result.
#[test]
fn a08_noise_on_standard_error_is_no_failure() {
    let kurma = answering("echo noise >&2; echo '{\"ip4\": {\"ip\": \"10.1.2.3/24\"}}'");
    let pod = kurma.json(&format!("provision {U} one"));
    assert_eq!(networks(&pod)[0]["ip4"]["ip"], "10.1.2.3/24");
}

/// Ours: results of later CNI are converted, not lost.
#[test]
fn a09_results_of_later_cni() {
    for version in ["0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let ip = |version4: &str, address: &str, gateway: &str| {
            let mut ip = json!({"address": address, "gateway": gateway, "interface": 0});
            if version.starts_with('0') {
                ip["version"] = version4.into();
            }
            ip
        };
        let reply = json!({"cniVersion": version, "interfaces": [{"name": "eth0"}],
            "ips": [ip("4", "10.1.2.3/24", "10.1.2.1"), ip("6", "fd00::3/64", "fd00::1")],
            "routes": [{"dst": "0.0.0.0/0"}], "dns": {}});
        let kurma = answering(&format!("echo '{reply}'"));
        let pod = kurma.json(&format!("provision {U} one"));
        let network = &networks(&pod)[0];
        assert_eq!(network["ip4"]["ip"], "10.1.2.3/24", "{version}");
        assert_eq!(network["ip4"]["gateway"], "10.1.2.1", "{version}");
        assert_eq!(network["ip4"]["routes"][0]["dst"], "0.0.0.0/0", "{version}");
        assert_eq!(network["ip6"]["ip"], "fd00::3/64", "{version}");
    }
}

#[test]
fn a10_names_are_resolved_as_the_plugin_says() {
    let dns = json!({"domain": "d", "search": ["a.b"], "nameservers": ["9.9.9.9"],
        "options": ["ndots:2"]});
    let kurma = answering(&format!("echo '{}'", json!({"dns": dns})));
    kurma.kurma(&format!("provision {U} one"));
    let resolv = kurma.kurma(&format!("resolv {U}"));
    assert_eq!(resolv, "domain d\nsearch a.b\nnameserver 9.9.9.9\noptions ndots:2\n");
}

/// As a later branch of the original has it: the host's, not an empty file.
#[test]
fn a11_who_says_nothing_of_names_has_the_hosts() {
    let kurma = answering("echo '{\"dns\": {}}'");
    kurma.world.sh("rm -f /etc/resolv.conf; echo nameserver 192.0.2.53 >/etc/resolv.conf");
    kurma.kurma(&format!("provision {U} one"));
    assert_eq!(kurma.kurma(&format!("resolv {U}")), "nameserver 192.0.2.53\n");
    kurma.refused("resolv 00000000-0000-0000-0000-000000000000", &["00000000"]);
}
