//! D1 to D6: how a pod goes.

use serde_json::{Value, json};
use tests::kurma::Kurma;

use crate::U;

/// Three networks of the spy's, all of them default ones.
#[track_caller]
fn three() -> Kurma {
    let network = |name| Kurma::spy(name, &json!({"default": true}));
    Kurma::new(&json!([network("n1"), network("n2"), network("n3")]))
}

/// D3: reported, but no reason to leave the others; and ours: not forgotten either.
#[test]
fn d03_a_failing_del_is_pending() {
    let kurma = three();
    kurma.kurma(&format!("provision {U}"));
    kurma.instruct("n2", "del", "echo not now >&2; exit 4");
    let done = kurma.try_kurma(&format!("deprovision {U}"));
    assert!(done.stderr.contains("n2") && done.stderr.contains("not now"), "{done:?}");
    assert_eq!(kurma.order()[3..], ["del n3", "del n2", "del n1"]);
    // The namespace is gone, its mount as well.
    assert_eq!(kurma.world.sh(&format!("find {} -mindepth 1", Kurma::NETNS)), "");
    let pods = kurma.json("pods");
    assert_eq!(pods[0]["uuid"], U);
    assert_eq!(pods[0]["pending"], json!(["n2"]), "{pods}");
    // It goes on failing, and stays pending.
    kurma.try_kurma("gc");
    assert_eq!(kurma.json("pods")[0]["pending"], json!(["n2"]));
    kurma.forget("n2", "del");
    kurma.kurma("gc");
    assert_eq!(kurma.order().last().map(String::as_str), Some("del n2"));
    let last = kurma.calls().pop().unwrap();
    assert_eq!(last.argv, [Kurma::netns(U).as_str(), U, ""], "the same, though it is gone");
    assert_eq!(last.netns, None);
    kurma.is_clean();
}

/// The next call retries pending cleanups as well.
#[test]
fn d03_the_next_deprovision_tries_again() {
    let kurma = three();
    kurma.kurma(&format!("provision {U}"));
    kurma.instruct("n2", "del", "exit 4");
    kurma.try_kurma(&format!("deprovision {U}"));
    kurma.forget("n2", "del");
    kurma.kurma(&format!("deprovision {U}"));
    assert_eq!(kurma.order()[3..], ["del n3", "del n2", "del n1", "del n2"]);
    kurma.is_clean();
}

/// Pending cleanups of a plugin that can never run again end, once the operator says so.
#[test]
fn d03_what_will_never_be_undone_is_given_up() {
    let kurma = three();
    kurma.kurma(&format!("provision {U}"));
    kurma.instruct("n2", "del", "echo no way >&2; exit 4");
    kurma.try_kurma(&format!("deprovision {U}"));
    kurma.kurma("down");
    kurma.world.sh("rm -r /images /var/lib/spoke/images");
    for command in [format!("deprovision {U}"), "gc".to_owned(), "gc".to_owned()] {
        kurma.refused(&command, &["network \"n2\"", "spy.aci"]);
    }
    let given_up = kurma.json(&format!("deprovision {U} --force"));
    let one = &given_up[0];
    assert_eq!((one["remedy"].as_str(), one["done"].as_bool()), (Some("forget"), Some(true)));
    assert_eq!(one["subject"], "del of network \"n2\" (10.1.2.3/24)");
    let why = one["why"].as_str().unwrap();
    let kept = "/run/spoke/kurma/plugins/n2/volume";
    assert!(why.contains("/images/spy.aci") && why.contains(kept), "{why}");
    assert_eq!(given_up.as_array().map(Vec::len), Some(1), "{given_up}");
    kurma.is_clean();
    // Nothing is left to be given up, of this pod or of any other.
    for uuid in [U, "00000000-0000-4000-8000-000000000000"] {
        assert_eq!(kurma.kurma(&format!("deprovision {uuid} --force")), "");
    }
}

/// Force is not violence: who can undo what it did is let.
#[test]
fn d03_giving_up_asks_before() {
    let kurma = three();
    kurma.kurma(&format!("provision {U}"));
    assert_eq!(kurma.kurma(&format!("deprovision {U} --force")), "");
    assert_eq!(kurma.order()[3..], ["del n3", "del n2", "del n1"]);
    kurma.is_clean();
}

/// What a plugin of ours has written into the host's book is given back without it.
#[test]
fn d03_the_book_is_given_back() {
    let (kurma, network) = (crate::seed::ours(&json!([])), crate::seed::network("net", 10));
    kurma.networks(&json!([network]));
    kurma.kurma(&format!("provision {U} net"));
    kurma.kurma("down");
    kurma.world.sh("rm -r /images /var/lib/spoke/images");
    kurma.refused(&format!("deprovision {U}"), &["network \"net\"", "spoke.aci"]);
    let given_up = kurma.json(&format!("deprovision {U} --force"));
    let rows: Vec<_> = given_up.as_array().unwrap().iter().collect();
    assert_eq!(rows[0]["subject"], "del of network \"net\" (eth0 10.10.0.2/16)", "{given_up}");
    let id = format!("container {U} (eth0) on network net");
    assert_eq!((&rows[1]["subject"], &rows[1]["remedy"]), (&json!(id), &json!("free")));
    let free = kurma.world.sh("/opt/cni/bin/spoke ipam show -o json");
    assert!(!free.contains("10.10.0.2\""), "{free}");
    kurma.is_clean();
}

/// A record that cannot be read is no pod for ever.
#[test]
fn d03_a_damaged_record_is_given_up() {
    let kurma = three();
    kurma.kurma(&format!("provision {U}"));
    let record = format!("/run/spoke/kurma/pods/{U}.json");
    kurma.world.sh(&format!("echo '{{' >{record}"));
    kurma.refused(&format!("deprovision {U}"), &[&record, "damaged"]);
    let given_up = kurma.json(&format!("deprovision {U} --force"));
    let why = given_up[0]["why"].as_str().unwrap();
    assert!(why.contains("damaged") && why.contains("unknown"), "{given_up}");
    kurma.is_clean();
}

#[test]
fn d04_a_second_time_is_no_failure() {
    let kurma = three();
    kurma.kurma(&format!("provision {U}"));
    kurma.kurma(&format!("deprovision {U}"));
    kurma.kurma(&format!("deprovision {U}"));
    kurma.kurma("deprovision 00000000-0000-4000-8000-000000000000");
    assert_eq!(kurma.order().len(), 6);
    kurma.is_clean();
}

/// The namespace may have gone by itself: by hand, or at a reboot.
#[test]
fn d04_without_its_namespace() {
    let kurma = three();
    kurma.kurma(&format!("provision {U}"));
    kurma.world.sh(&format!("umount {0} && rm {0}", Kurma::netns(U)));
    kurma.kurma(&format!("deprovision {U}"));
    assert_eq!(kurma.order()[3..], ["del n3", "del n2", "del n1"]);
    kurma.is_clean();
}

/// What a pod was given is undone as it was given, whatever the configuration says now.
#[test]
fn d01_as_it_was_configured_then() {
    let kurma = three();
    kurma.kurma(&format!("provision {U}"));
    let then: Vec<Value> = kurma.calls().iter().map(tests::kurma::Call::config).collect();
    let changed = Kurma::spy("n1", &json!({"changed": true}));
    kurma.networks(&json!([changed]));
    kurma.try_kurma(&format!("deprovision {U}"));
    let dels: Vec<Value> = kurma.calls()[3..].iter().map(tests::kurma::Call::config).collect();
    assert!(dels.contains(&then[0]), "n1 as it was: {dels:#?}");
    assert_eq!(kurma.world.sh(&format!("find {} -mindepth 1", Kurma::NETNS)), "");
}

/// D6, with an address database: the plugin's state outlives the plugin, and the lease goes.
#[test]
fn d06_the_lease_goes() {
    let (kurma, network) = (crate::seed::ours(&json!([])), crate::seed::network("net", 10));
    kurma.networks(&json!([network]));
    kurma.kurma(&format!("provision {U} net"));
    let held = kurma.world.sh("/opt/cni/bin/spoke ps -o json");
    assert!(held.contains("10.10.0.2"), "{held}");
    kurma.kurma("down");
    kurma.kurma(&format!("deprovision {U}"));
    kurma.is_clean();
}
