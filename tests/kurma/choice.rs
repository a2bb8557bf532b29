//! T, A12 to A15, A19 and A20: which networks a pod gets, in which order, and under which names.

use serde_json::{Value, json};
use tests::kurma::Kurma;

use crate::U;

/// A network of the spy's whose interfaces are numbered.
fn numbered(name: &str, more: &Value) -> Value {
    let mut network = Kurma::spy(name, &json!({"containerInterface": "eth{{num}}"}));
    for (key, value) in more.as_object().unwrap() {
        network[key] = value.clone();
    }
    network
}

/// `NETWORK INTERFACE` of each call of this kind, in order.
fn names(kurma: &Kurma, verb: &str) -> Vec<String> {
    let calls = kurma.calls();
    let of_kind = calls.iter().filter(|call| call.verb == verb);
    of_kind.map(|call| format!("{} {}", call.network, call.argv[2])).collect()
}

#[test]
fn a12_in_the_order_of_the_request() {
    let kurma = Kurma::new(&json!([numbered("ok1", &json!({})), numbered("ok2", &json!({}))]));
    let pod = kurma.json(&format!("provision {U} ok2 ok1"));
    let shown: Vec<_> = pod["networks"].as_array().unwrap().iter().collect();
    assert_eq!(
        (&shown[0]["name"], &shown[0]["containerInterface"]),
        (&json!("ok2"), &json!("eth0"))
    );
    assert_eq!(
        (&shown[1]["name"], &shown[1]["containerInterface"]),
        (&json!("ok1"), &json!("eth1"))
    );
    kurma.kurma(&format!("deprovision {U}"));
    assert_eq!(names(&kurma, "add"), ["ok2 eth0", "ok1 eth1"]);
    // D5, ours: the last comes first.
    assert_eq!(names(&kurma, "del"), ["ok1 eth1", "ok2 eth0"]);
    kurma.is_clean();
}

#[test]
fn a13_the_default_ones_in_the_order_of_the_configuration() {
    let default = json!({"default": true});
    let kurma = Kurma::new(&json!([
        numbered("n1", &default),
        numbered("n2", &json!({})),
        numbered("n3", &default),
        numbered("n4", &json!({"default": false}))
    ]));
    kurma.kurma(&format!("provision {U}"));
    assert_eq!(names(&kurma, "add"), ["n1 eth0", "n3 eth1"]);
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}

/// A pod that names no networks was to have this one: without it, it does not come up.
#[test]
fn a13_a_default_network_that_is_refused_fails() {
    let good = numbered("good", &json!({"default": true}));
    let bad = |more: &Value| {
        let mut entry = numbered("bad", &json!({"aci": "gopher://x/y"}));
        for (key, value) in more.as_object().unwrap() {
            entry[key] = value.clone();
        }
        entry
    };
    let kurma = Kurma::new(&json!([good]));
    let provision = format!("provision {U}");
    let words = ["network \"bad\" is refused", "not supported"];
    for entry in [bad(&json!({"default": true})), bad(&json!({"default": "yes"}))] {
        kurma.networks(&json!([good, entry]));
        kurma.refused(&provision, &words[..1]);
    }
    kurma.networks(&json!([good, bad(&json!({"default": true}))]));
    kurma.refused(&provision, &words);
    kurma.refused("up", &["gopher"]);
    // A second one of that name is another network to its author.
    kurma.networks(&json!([good, good]));
    kurma.refused(&provision, &["network \"good\" is refused", "another network has that name"]);
    assert_eq!(kurma.calls(), [], "no network was added");
    kurma.is_clean();
    // Named, or where it may be missing, the good one serves.
    let skipped = bad(&json!({"default": true, "on_error": "skip"}));
    for entry in [bad(&json!({})), skipped] {
        kurma.networks(&json!([good, entry]));
        kurma.kurma(&provision);
        kurma.kurma(&format!("deprovision {U}"));
    }
    kurma.networks(&json!([good, bad(&json!({"default": true}))]));
    kurma.kurma(&format!("{provision} good"));
    kurma.kurma(&format!("deprovision {U}"));
    assert_eq!(names(&kurma, "add"), ["good eth0"; 3]);
    kurma.is_clean();
}

/// Ours: nothing is begun, or what was begun is undone.
#[test]
fn a14_an_unknown_network() {
    let kurma = Kurma::new(&json!([numbered("ok1", &json!({}))]));
    kurma.refused(&format!("provision {U} ok1 nosuch"), &["network \"nosuch\" does not exist"]);
    assert_eq!(names(&kurma, "add").len(), names(&kurma, "del").len());
    kurma.is_clean();
}

/// The original's behaviour, where it is asked for.
#[test]
fn a15_a_failing_network_is_skipped_where_that_is_said() {
    let skip = json!({"on_error": "skip"});
    let list = ["ok1", "fail", "ok2"].map(|name| numbered(name, &skip));
    let kurma = Kurma::new(&json!(list));
    kurma.instruct("fail", "add", "echo it fails; exit 1");
    let pod = kurma.json(&format!("provision {U} ok1 fail ok2"));
    let names_of: Vec<_> = pod["networks"].as_array().unwrap().iter().collect();
    assert_eq!(names_of.len(), 2, "{pod}");
    // T15: `num` does not count those that failed.
    assert_eq!(names(&kurma, "add"), ["ok1 eth0", "fail eth1", "ok2 eth1"]);
    // D2: also for what failed.
    kurma.kurma(&format!("deprovision {U}"));
    assert_eq!(names(&kurma, "del"), ["ok2 eth1", "fail eth1", "ok1 eth0"]);
    kurma.is_clean();
}

/// D2: what failed for its name was never begun.
#[test]
fn d02_no_del_for_what_failed_for_its_name() {
    let skip = json!({"on_error": "skip", "containerInterface": "eth0"});
    let kurma = Kurma::new(&json!([numbered("n1", &skip), numbered("n2", &skip)]));
    kurma.kurma(&format!("provision {U} n1 n2"));
    kurma.kurma(&format!("deprovision {U}"));
    assert_eq!(kurma.order(), ["add n1", "del n1"]);
    kurma.is_clean();
}

/// M24, ours: both are undone.
#[test]
fn a19_the_same_network_twice() {
    let kurma = Kurma::new(&json!([numbered("ok1", &json!({}))]));
    kurma.kurma(&format!("provision {U} ok1 ok1"));
    kurma.kurma(&format!("deprovision {U}"));
    assert_eq!(names(&kurma, "add"), ["ok1 eth0", "ok1 eth1"]);
    assert_eq!(names(&kurma, "del"), ["ok1 eth1", "ok1 eth0"]);
    kurma.is_clean();
}

/// A20: the pod is in the host's own namespace, and no plugin is called or even started.
#[test]
fn a20_the_hosts_own_network() {
    let kurma = Kurma::new(&json!([numbered("ok1", &json!({"default": true}))]));
    let inode = |path: &str| kurma.world.sh(&format!("stat -Lc %i {path}"));
    let pod = kurma.json(&format!("provision {U} host"));
    assert_eq!((&pod["host"], &pod["networks"]), (&json!(true), &json!([])), "{pod}");
    assert_eq!(pod["netns"], json!(Kurma::netns(U)));
    assert_eq!(inode(&Kurma::netns(U)), inode("/proc/self/ns/net"));
    let shown = kurma.kurma("pods");
    assert!(shown.lines().any(|line| line.starts_with(U) && line.contains(" host")), "{shown}");
    assert_eq!(kurma.kurma(&format!("resolv {U}")), kurma.world.sh("cat /etc/resolv.conf"));
    // Again is no other pod, and other networks are.
    assert_eq!(kurma.json(&format!("provision {U} host")), pod);
    kurma.refused(&format!("provision {U} ok1"), &["other networks (host)"]);
    kurma.kurma("gc");
    assert_eq!(kurma.json("pods")[0]["uuid"], U, "it is no garbage");
    kurma.kurma(&format!("deprovision {U}"));
    assert_eq!((kurma.calls(), kurma.mains()), (vec![], vec![]));
    assert_ne!(kurma.plugin("ok1")["state"], "running");
    kurma.is_clean();
}

/// No pod is in the host's network by accident: not beside others, and not under a network's name.
#[test]
fn a20_only_where_nothing_else_is_meant() {
    let kurma = Kurma::new(&json!([numbered("ok1", &json!({}))]));
    for names in ["host ok1", "ok1 host", "host host"] {
        kurma.refused(&format!("provision {U} {names}"), &["the host's own network"]);
    }
    kurma.networks(&json!([numbered("host", &json!({}))]));
    let pod = kurma.json(&format!("provision {U} host"));
    assert_eq!((&pod["host"], &pod["networks"][0]["name"]), (&Value::Null, &json!("host")));
    kurma.kurma(&format!("deprovision {U}"));
    // One that is refused does not become the host's.
    kurma.networks(&json!([{"name": "host"}]));
    kurma.refused(&format!("provision {U} host"), &["refused", "no aci"]);
    assert_eq!(kurma.order(), ["add host", "del host"]);
    kurma.is_clean();
}

/// Ours: two networks without interfaces are no collision.
#[test]
fn m19_no_name_is_no_name() {
    let kurma = Kurma::new(&json!([Kurma::spy("n1", &json!({})), Kurma::spy("n2", &json!({}))]));
    kurma.kurma(&format!("provision {U} n1 n2"));
    assert_eq!(kurma.order(), ["add n1", "add n2"]);
}

#[test]
fn t14_a_name_that_is_taken() {
    let eth0 = json!({"containerInterface": "eth0"});
    let kurma = Kurma::new(&json!([numbered("n1", &eth0), numbered("n2", &eth0)]));
    let words = ["interface \"eth0\" is not unique on the container"];
    kurma.refused(&format!("provision {U} n1 n2"), &words);
    assert_eq!(kurma.order(), ["add n1", "del n1"]);
    kurma.is_clean();
}

/// T3, T5 (ours: too long for the kernel), T9, T10, T12: said before anything is done.
#[test]
fn t_what_is_no_template_is_refused() {
    for (template, words) in [
        ("{{uuid}}", "15"),
        ("{{random 99}}", "15"),
        ("{{bogus}}", "function \"bogus\" not defined"),
        ("eth{{num", "unclosed action"),
        ("{{random \"4\"}}", "expected integer"),
        ("a/b", "a/b"),
        ("a b", "a b"),
    ] {
        let interface = json!({"containerInterface": template});
        let kurma = Kurma::new(&json!([numbered("one", &interface)]));
        let done = kurma.refused(&format!("provision {U} one"), &["one"]);
        assert!(done.stderr.contains(words), "{template}: {}", done.stderr);
        assert_eq!(kurma.order(), [] as [&str; 0], "{template}");
        kurma.is_clean();
    }
}

/// T1, T2, T4, T7, T8 through the command.
#[test]
fn t_names_are_rendered() {
    let templates = [
        "veth+{{shortuuid}}",
        "eth{{num}}",
        "r{{random 4}}",
        "{{ shortuuid | printf \"x%s\" }}",
        "{{if gt num 3}}big{{else}}small{{end}}",
    ];
    let list: Vec<_> = (0..)
        .zip(templates)
        .map(|(at, template)| {
            numbered(&format!("n{at}"), &json!({"default": true, "containerInterface": template}))
        })
        .collect();
    let kurma = Kurma::new(&json!(list));
    kurma.kurma(&format!("provision {U}"));
    let mut given: Vec<_> = kurma.calls().iter().map(|call| call.argv[2].clone()).collect();
    let random = given.remove(2);
    assert_eq!(given, ["veth+146d7cef", "eth1", "x146d7cef", "big"]);
    assert!(
        random.len() == 5 && random[1..].chars().all(|it| it.is_ascii_alphanumeric()),
        "{random}"
    );
}

/// Neither a pod's number nor its networks are taken from anywhere but the arguments.
#[test]
fn what_is_no_uuid_is_refused() {
    let kurma = Kurma::new(&json!([numbered("one", &json!({"default": true}))]));
    for uuid in ["x", "../../../etc/passwd", "146d7cef-fbf6-41da-a2f8-eba218597f9c0", "''"] {
        let done = kurma.try_kurma(&format!("provision {uuid}"));
        assert_ne!(done.status, 0, "{uuid}: {done:?}");
        assert_ne!(kurma.try_kurma(&format!("deprovision {uuid}")).status, 0);
    }
    assert_eq!(kurma.calls(), []);
}

/// A pod is provisioned once.
#[test]
fn a_pod_that_is_there_stays_as_it_is() {
    let kurma = Kurma::new(&json!([numbered("one", &json!({"default": true}))]));
    kurma.kurma(&format!("provision {U}"));
    let before = kurma.json("pods");
    kurma.try_kurma(&format!("provision {U}"));
    assert_eq!(kurma.json("pods"), before);
    assert_eq!(kurma.order(), ["add one"], "there is one interface, and it is asked for once");
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}
