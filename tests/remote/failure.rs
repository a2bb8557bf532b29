//! What is taken back when a call fails, and in which order.

use serde_json::json;
use tests::remote_driver::{Fault, Manners};

use crate::bed::{Bed, CREATE};

/// Each way in which a call can fail with its work not done, and be known to have failed.
fn refusals() -> [Fault; 3] {
    [
        Fault::Refuse("not today".into()),
        Fault::Status(400, "not today".into()),
        Fault::Status(500, json!({"Err": "not today"}).to_string()),
    ]
}

#[test]
fn a_network_that_is_refused_leaves_nothing() {
    let bed = Bed::new(Manners::default());
    for fault in refusals() {
        for (method, nth, undone) in [
            ("RequestPool", 1, "RequestPool"),
            ("RequestAddress", 1, "RequestPool RequestAddress ReleasePool"),
            ("RequestPool", 2, "RequestPool RequestAddress RequestPool ReleaseAddress ReleasePool"),
            (
                "RequestAddress",
                2,
                "RequestPool RequestAddress RequestPool RequestAddress ReleaseAddress ReleasePool \
                 ReleasePool",
            ),
            (
                "CreateNetwork",
                1,
                "RequestPool RequestAddress RequestPool RequestAddress CreateNetwork \
                 ReleaseAddress ReleasePool ReleaseAddress ReleasePool",
            ),
        ] {
            bed.driver.fail(method, nth, fault.clone());
            bed.refused(&format!("{CREATE} --ipv6 net"), &["not today"]);
            assert_eq!(bed.order(), undone, "{method} {nth} {fault:?}");
            assert_eq!(bed.driver.pending(), 0);
            bed.driver.is_empty();
        }
    }
    assert!(!bed.spoke("network ls").contains("net "));
    bed.is_clean();
}

#[test]
fn a_container_that_is_refused_leaves_nothing() {
    let bed = Bed::with_network(Manners::default(), "--ipv6");
    let taken = "RequestAddress RequestAddress CreateEndpoint";
    let given = "DeleteEndpoint ReleaseAddress ReleaseAddress";
    for fault in refusals() {
        for (method, nth, undone) in [
            ("RequestAddress", 1, "RequestAddress".to_owned()),
            ("RequestAddress", 2, "RequestAddress RequestAddress ReleaseAddress".into()),
            // As Docker has it: what is refused need not be taken back.
            ("CreateEndpoint", 1, format!("{taken} ReleaseAddress ReleaseAddress")),
            ("Join", 1, format!("{taken} Join {given}")),
            (
                "ProgramExternalConnectivity",
                1,
                format!("{taken} Join ProgramExternalConnectivity Leave {given}"),
            ),
        ] {
            bed.driver.fail(method, nth, fault.clone());
            bed.refused("network connect net one", &["not today"]);
            assert_eq!(bed.order(), undone, "{method} {nth} {fault:?}");
            assert_eq!(bed.driver.pending(), 0);
            assert_eq!(bed.driver.complaints(), Vec::<String>::new(), "{method} {nth}");
            assert_eq!(bed.ip("one", "-o link").lines().count(), 1, "only the loopback");
        }
    }
    bed.driver.fail("EndpointOperInfo", 1, Fault::Refuse("not today".into()));
    bed.spoke("network connect net one");
    bed.spoke("network disconnect net one");
    bed.spoke("network rm net");
    bed.is_clean();
}

/// Whether it was done is unknown: it is undone in any case.
#[test]
fn a_failure_without_a_reason_is_taken_back() {
    let bed = Bed::new(Manners::default());
    bed.world.netns("one");
    let fault = Fault::Status(500, "what happened?".into());
    bed.driver.fail("CreateNetwork", 1, fault.clone());
    bed.refused(&format!("{CREATE} net"), &["what happened?"]);
    let back = "RequestPool RequestAddress CreateNetwork DeleteNetwork ReleaseAddress ReleasePool";
    assert_eq!(bed.order(), back);
    bed.spoke(&format!("{CREATE} net"));
    for (method, back) in [
        ("CreateEndpoint", "CreateEndpoint DeleteEndpoint ReleaseAddress"),
        ("Join", "CreateEndpoint Join Leave DeleteEndpoint ReleaseAddress"),
    ] {
        bed.order();
        bed.driver.fail(method, 1, fault.clone());
        bed.refused("network connect net one", &["what happened?"]);
        assert_eq!(bed.order(), format!("RequestAddress {back}"));
    }
    bed.spoke("network rm net");
    bed.is_clean();
}

/// Upstream's own tests of its proxy, as far as they are about answers.
#[test]
fn a_wrong_answer_is_undone() {
    let bed = Bed::with_network(Manners::default(), "");
    let interface = |with| json!({ "Interface": with }).to_string();
    for (method, answer) in [
        ("CreateEndpoint", interface(json!({"Address": "10.200.1.9/24"}))),
        ("CreateEndpoint", interface(json!({"MacAddress": "nonsense"}))),
        ("CreateEndpoint", "[]".to_owned()),
        ("CreateEndpoint", "{".to_owned()),
        ("CreateEndpoint", String::new()),
        ("Join", json!({"Gateway": "nonsense"}).to_string()),
        ("Join", json!({"Gateway": "10.200.1.1/24"}).to_string()),
        ("Join", json!({"InterfaceName": {"SrcName": "absent", "DstPrefix": "eth"}}).to_string()),
        ("Join", json!({"StaticRoutes": [{"Destination": "x", "RouteType": 1}]}).to_string()),
        (
            "Join",
            json!({"StaticRoutes": [{"Destination": "10.9.0.0/24", "RouteType": 7}]}).to_string(),
        ),
        ("RequestAddress", "{}".to_owned()),
    ] {
        bed.driver.fail(method, 1, Fault::Say(answer.clone()));
        let said = bed.try_spoke("network connect net one");
        assert_ne!(said.status, 0, "{method} {answer}");
        let order = bed.order();
        match method {
            "CreateEndpoint" => assert!(order.contains("DeleteEndpoint"), "{answer}: {order}"),
            "Join" => assert!(order.contains("Leave DeleteEndpoint"), "{answer}: {order}"),
            _ => {}
        }
        assert_eq!(bed.ip("one", "-o link").lines().count(), 1, "{method} {answer}");
        assert_eq!(bed.driver.complaints(), Vec::<String>::new(), "{method} {answer}");
    }
    bed.spoke("network connect net one");
    bed.spoke("network disconnect net one");
    bed.driver.forget_addresses();
    bed.spoke("network rm net");
    bed.is_clean();
}

#[test]
fn a_harmless_answer_is_none() {
    let bed = Bed::with_network(Manners::default(), "");
    let empty = json!({"Address": "", "AddressIPv6": "", "MacAddress": ""});
    for (method, answer) in [
        ("CreateEndpoint", json!({ "Interface": empty }).to_string()),
        ("CreateEndpoint", "null".to_owned()),
        ("CreateEndpoint", json!({"interface": {"macaddress": "02:00:00:00:00:07"}}).to_string()),
        ("EndpointOperInfo", json!({"Value": null}).to_string()),
        ("ProgramExternalConnectivity", "null".to_owned()),
    ] {
        bed.driver.fail(method, 1, Fault::Say(answer.clone()));
        bed.spoke("network connect net one");
        assert_eq!(bed.driver.pending(), 0, "{method}");
        bed.spoke("network disconnect net one");
    }
    bed.driver.fail("CreateNetwork", 1, Fault::Say("null".into()));
    bed.spoke(&format!("{CREATE} other"));
    bed.spoke("network rm net");
    bed.spoke("network rm other");
    bed.is_clean();
}

#[test]
fn a_registration_that_is_wrong_is_refused() {
    for (manners, words) in [
        (Manners { scope: "fake".into(), ..Manners::default() }, &["probe", "Scope"][..]),
        (Manners { scope: String::new(), ..Manners::default() }, &["probe", "Scope"]),
        (Manners { network: false, ..Manners::default() }, &["probe"]),
    ] {
        let bed = Bed::new(manners);
        bed.refused(&format!("{CREATE} net"), words);
        bed.driver.is_empty();
        bed.is_clean();
    }
}

#[test]
fn what_a_plugin_does_not_know_yet_is_no_failure() {
    let bed = Bed::with_network(Manners { external: false, ..Manners::default() }, "");
    bed.spoke("network connect net one");
    bed.spoke("network disconnect net one");
    bed.spoke("network rm net");
    bed.is_clean();
}
