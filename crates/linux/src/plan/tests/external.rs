use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::plan::external::{leave, lowest_free};
use crate::plan::gateway::{GatewayRoute, steps as gateway_route};

fn kind(prefix: Option<&str>) -> LinkKind {
    LinkKind::ExternalInterface(model::ExternalInterface {
        source: "plug0".parse().unwrap(),
        prefix: prefix.map(|prefix| prefix.parse().unwrap()),
    })
}

/// An endpoint of a driver's that said both kinds of routes.
fn endpoint(prefix: Option<&str>) -> Attachment {
    let addresses = vec![address("10.1.0.7/24", Some("10.1.0.1")), address("fd00::7/64", None)];
    let mut made = attachment(kind(prefix), addresses);
    made.wiring.link.as_mut().unwrap().mac = Some("02:42:00:00:00:07".parse().unwrap());
    let route = |dst: &str, via: Option<&str>| {
        Route::new(dst.parse().unwrap(), via.map(|via| via.parse().unwrap()))
    };
    made.routes = vec![
        route("0.0.0.0/0", None),
        route("10.50.0.0/16", Some("192.0.2.9")),
        route("10.52.0.0/16", Some("10.9.0.7")),
        Route { scope: Some(253), ..route("192.0.2.0/24", None) },
        route("::/0", Some("2001:db8::1")),
    ];
    made
}

fn found(name: &str, place: InterfaceNamespace, mark: Option<&str>, taken: &[&str]) -> Facts {
    let link = ExternalLink {
        name: name.parse().unwrap(),
        place,
        mac: Some("02:00:00:00:00:01".parse().unwrap()),
        mark: mark.map(str::to_owned),
    };
    let taken = taken.iter().map(|name| name.parse().unwrap()).collect();
    let external = ExternalFacts { link: Some(link), taken, routes: Vec::new() };
    Facts { external: Some(external), ..Facts::default() }
}

#[test]
fn it_is_marked_moved_and_completed() {
    let facts = found("plug0", InterfaceNamespace::Host, Some("mark"), &["lo", "eth0", "eth2"]);
    let plan = attach(&endpoint(Some("eth")), &facts).unwrap();
    insta::assert_snapshot!(lines(&plan), @r#"
    host: mark plug0 "mark"
    host: move plug0 to eth1
    sandbox: sysctl net/ipv6/conf/lo/disable_ipv6 = 0
    sandbox: sysctl net/ipv6/conf/eth1/disable_ipv6 = 0
    sandbox: sysctl net/ipv6/conf/eth1/keep_addr_on_down = 1
    sandbox: sysctl net/ipv4/conf/eth1/arp_notify = 1
    sandbox: sysctl net/ipv6/conf/eth1/ndisc_notify = 1
    sandbox: mac 02:42:00:00:00:07 of eth1
    sandbox: mtu 1400 of eth1
    sandbox: address 10.1.0.7/24 on eth1
    sandbox: address fd00::7/64 on eth1
    sandbox: up eth1
    sandbox: route 192.0.2.0/24 via - on eth1 src -
    sandbox: route 0.0.0.0/0 via 10.1.0.1 on eth1 src -
    sandbox: route 10.50.0.0/16 via 192.0.2.9 on eth1 src -
    sandbox: route 10.52.0.0/16 via 10.9.0.7 on whatever
    sandbox: route 2001:db8::1/128 via - on eth1 src -
    sandbox: route ::/0 via 2001:db8::1 on eth1 src -
    "#);
    let interface = &plan.attached.interfaces[0];
    assert_eq!((interface.name.as_str(), interface.place), ("eth1", InterfaceNamespace::Sandbox));
    assert_eq!(interface.mac, Some("02:42:00:00:00:07".parse().unwrap()));
    let leaving = leave(&endpoint(Some("eth")));
    let wanted = ("10.52.0.0/16".parse().unwrap(), "10.9.0.7".parse().unwrap());
    assert_eq!(leaving, [Step::DropRouteAnywhere(wanted.0, wanted.1)]);
}

#[test]
fn what_was_done_before_is_gone_on_with() {
    let first = |plan: Plan| {
        let last = plan.sandbox.iter().position(|step| matches!(step, Step::Sysctl { .. }));
        let sandbox = plan.sandbox[..last.unwrap()].to_vec();
        lines(&Plan { host: plan.host, sandbox, ..Plan::default() })
    };
    let marked = found("plug0", InterfaceNamespace::Host, None, &[]);
    let plan = attach(&endpoint(Some("eth")), &marked).unwrap();
    assert_eq!(first(plan), "host: move plug0 to eth0");
    let moved = found("plug0", InterfaceNamespace::Sandbox, None, &["eth0"]);
    let plan = attach(&endpoint(Some("eth")), &moved).unwrap();
    assert_eq!(first(plan), "sandbox: down plug0\nsandbox: rename plug0 to eth1");
    for name in ["eth7", "eth0"] {
        let named = found(name, InterfaceNamespace::Sandbox, None, &["eth1"]);
        let plan = attach(&endpoint(Some("eth")), &named).unwrap();
        assert_eq!(plan.attached.interfaces[0].name.as_str(), name);
        assert_eq!(first(plan), "");
    }
}

#[test]
fn names_that_cannot_be_are_refused() {
    let facts = found("plug0", InterfaceNamespace::Host, None, &["eth0"]);
    assert_eq!(attach(&endpoint(None), &facts).unwrap_err().kind(), model::Kind::Conflict);
    let long = endpoint(Some("a-name-of-15-by"));
    assert_eq!(attach(&long, &facts).unwrap_err().kind(), model::Kind::Invalid);
    let error = attach(&endpoint(None), &Facts::default()).unwrap_err();
    assert!(error.kind() == model::Kind::NotFound && error.to_string().contains("plug0"));
}

#[test]
fn a_route_of_another_interface_is_in_the_way() {
    let with = |route: &str| {
        let mut facts = found("plug0", InterfaceNamespace::Host, None, &[]);
        let external = facts.external.as_mut().unwrap();
        external.routes = vec![route.parse().unwrap()];
        attach(&endpoint(Some("eth")), &facts).map_err(|error| error.kind())
    };
    for route in ["10.1.0.0/16", "10.1.0.0/24", "10.1.0.200/32", "fd00::/8", "10.0.0.0/7"] {
        assert_eq!(with(route), Err(model::Kind::Conflict), "{route}");
    }
    for route in ["0.0.0.0/0", "::/0", "10.1.1.0/24", "fe80::/64", "ff00::/8", "fd00:1::/64"] {
        assert!(with(route).is_ok(), "{route}");
    }
}

#[test]
fn a_runtime_moves_it_itself() {
    let mut handed = endpoint(Some("eth"));
    handed.handoff = Handoff::Caller;
    let plan =
        attach(&handed, &found("plug0", InterfaceNamespace::Host, Some("mark"), &[])).unwrap();
    assert_eq!(lines(&plan), "");
    let interface = &plan.attached.interfaces[0];
    assert_eq!((interface.name.as_str(), interface.place), ("plug0", InterfaceNamespace::Host));
}

fn led(families: &[Family]) -> Attachment {
    let gateway_role =
        Some(model::GatewayRole { families: families.to_vec(), ..model::GatewayRole::default() });
    Attachment { gateway_role, ..endpoint(Some("eth")) }
}

fn shown(attachment: &Attachment, families: &[Family], there: &[GatewayRoute]) -> String {
    let steps = gateway_route(attachment, &"eth1".parse().unwrap(), families, there);
    lines(&Plan { sandbox: steps, ..Plan::default() })
}

#[test]
fn default_routes_wait_until_it_leads() {
    let facts = found("plug0", InterfaceNamespace::Host, None, &[]);
    let defaults = |families: &[Family]| {
        let plan = attach(&led(families), &facts).unwrap();
        let shown = lines(&plan);
        (shown.contains("route 0.0.0.0/0"), shown.contains("route ::/0"))
    };
    assert_eq!(defaults(&[]), (false, false));
    assert_eq!(defaults(&[Family::V6]), (false, true));
    assert_eq!(defaults(&[Family::V4, Family::V6]), (true, true));
    let mut bridged = attachment(bridge(Gateway::Default), vec![address("10.1.0.2/24", None)]);
    bridged.gateway_role = Some(model::GatewayRole::default());
    let plan = attach(&bridged, &Facts::default()).unwrap();
    assert!(!lines(&plan).contains("0.0.0.0/0"));
    assert!(plan.attached.routes[0].is_default(), "it could");
    assert_eq!(
        shown(&bridged, &[Family::V4], &[]),
        "sandbox: route 0.0.0.0/0 via 10.1.0.1 on eth1 src -"
    );
}

#[test]
fn leading_changes_what_is_different() {
    let own = led(&[]);
    insta::assert_snapshot!(shown(&own, &[Family::V4, Family::V6], &[]), @r"
    sandbox: route 0.0.0.0/0 via 10.1.0.1 on eth1 src -
    sandbox: route 2001:db8::1/128 via - on eth1 src -
    sandbox: route ::/0 via 2001:db8::1 on eth1 src -
    ");
    let via = |hop: &str| Some(hop.parse().unwrap());
    let v4 = GatewayRoute { family: Family::V4, via: via("10.1.0.1") };
    let v6 = GatewayRoute { family: Family::V6, via: via("2001:db8::1") };
    assert_eq!(shown(&own, &[Family::V4, Family::V6], &[v4, v6]), "");
    assert_eq!(shown(&own, &[Family::V4], &[v4, v6]), "sandbox: drop route ::/0 on eth1");
    assert_eq!(shown(&own, &[], &[]), "");
    let wrong = GatewayRoute { family: Family::V4, via: None };
    insta::assert_snapshot!(shown(&own, &[Family::V4], &[wrong, v4]), @r"
    sandbox: drop route 0.0.0.0/0 on eth1
    sandbox: drop route 0.0.0.0/0 on eth1
    sandbox: route 0.0.0.0/0 via 10.1.0.1 on eth1 src -
    ");
    // A route without a next hop is one, too.
    let mut direct = led(&[]);
    direct.addresses[0].gateway = None;
    direct.routes = Vec::new();
    assert_eq!(shown(&direct, &[Family::V4], &[]), "sandbox: route 0.0.0.0/0 via - on eth1 src -");
    assert_eq!(shown(&direct, &[Family::V4], &[wrong]), "");
}

proptest! {
    #[test]
    fn the_number_is_free_and_no_lower_one_is(
        numbers in proptest::collection::btree_set(0usize..40, 0..40),
        others in proptest::collection::btree_set("[a-z]{1,6}[0-9]{0,3}", 0..10),
    ) {
        let prefix: IfName = "eth".parse().unwrap();
        let name = |number: usize| -> IfName { format!("eth{number}").parse().unwrap() };
        let taken: BTreeSet<IfName> = numbers
            .iter()
            .map(|number| name(*number))
            .chain(others.iter().map(|other| other.parse().unwrap()))
            .collect();
        let free = lowest_free(&prefix, &taken).unwrap();
        prop_assert!(!taken.contains(&free));
        let number: usize = free.as_str()[3..].parse().unwrap();
        prop_assert_eq!(&free, &name(number), "no leading zeros");
        prop_assert!((0..number).all(|lower| taken.contains(&name(lower))));
    }
}
