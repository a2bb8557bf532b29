//! The order of calls, in normal life and on every way back (libnetwork.md §1.5, §2).

use model::{Family, Ipam};

use crate::model::{Fault, joined};
use crate::rig::{Rig, bare, container, led, network, pool, publishing, said, wanting};

const MADE: [&str; 8] = [
    "RequestPool 10.1.0.0/24",
    "RequestAddress 10.1.0.254 Gateway",
    "RequestAddress 10.1.0.7 Auxiliary",
    "RequestAddress 10.1.0.9 Auxiliary",
    "RequestPool fd01::/64",
    "RequestAddress Gateway",
    "CreateNetwork",
    "end",
];

fn full() -> model::Network {
    let mut v4 = pool("10.1.0.0/24");
    v4.gateway = Some("10.1.0.254".parse().unwrap());
    for (name, address) in [("a1", "10.1.0.7"), ("a2", "10.1.0.9")] {
        v4.auxiliary.insert(name.into(), address.parse().unwrap());
    }
    // In whatever order they are named, IPv4 comes first.
    network("n1", vec![pool("fd01::/64"), v4])
}

#[test]
fn a_life_is_dockers() {
    let rig = Rig::new();
    rig.plugin.state().joined = joined("veth1", "10.1.0.254");
    let mut network = full();
    rig.make(&mut network).unwrap();
    assert_eq!(rig.plugin.log(), MADE[..7]);
    let mut one = publishing(container(&network, "c1"), 8080, 80);
    let joined = rig.attach(&mut one).unwrap();
    assert_eq!(joined.gateways, [Family::V4]);
    let up =
        ["RequestAddress Endpoint", "RequestAddress Endpoint", "CreateEndpoint", "Join", "Program"];
    assert_eq!(rig.plugin.log(), up);
    assert_eq!(rig.remote.info(&one).unwrap()["state"], "up");
    rig.plugin.log();
    rig.remote.check_addresses(&one).unwrap();
    rig.detach(&one);
    let down =
        ["Revoke", "Leave", "DeleteEndpoint", "ReleaseAddress 10.1.0.1", "ReleaseAddress fd01::2"];
    assert_eq!(rig.plugin.log(), down);
    rig.delete(&network);
    let gone = [
        "ReleaseAddress 10.1.0.254",
        "ReleaseAddress 10.1.0.7",
        "ReleaseAddress 10.1.0.9",
        "ReleasePool 10.1.0.0/24",
        "ReleaseAddress fd01::1",
        "ReleasePool fd01::/64",
        "DeleteNetwork",
    ];
    assert_eq!(rig.plugin.log(), gone);
    rig.is_clean();
    // Once more is nothing.
    rig.detach(&one);
    rig.delete(&network);
    assert!(rig.plugin.log().is_empty());
}

/// What follows where the call of this name is refused.
fn refused_at(call: &'static str) -> Vec<String> {
    let rig = Rig::new();
    rig.plugin.state().joined = joined("veth1", "10.1.0.254");
    rig.plugin
        .fail(move |_, asked| format!("{asked:?}").starts_with(call).then_some(Fault::Refused));
    let mut network = full();
    let made = rig.make(&mut network);
    if made.is_ok() {
        rig.plugin.log();
        rig.attach(&mut publishing(container(&network, "c1"), 8080, 80)).unwrap_err();
    }
    let log = rig.plugin.log();
    rig.plugin.work();
    rig.retry();
    rig.delete(&network);
    rig.is_clean();
    log
}

#[test]
fn what_is_refused_is_rolled_back_in_dockers_order() {
    let log = refused_at("CreateNetwork");
    let back = [
        "ReleaseAddress 10.1.0.254",
        "ReleaseAddress 10.1.0.7",
        "ReleaseAddress 10.1.0.9",
        "ReleasePool 10.1.0.0/24",
        "ReleaseAddress fd01::1",
        "ReleasePool fd01::/64",
    ];
    assert_eq!(log[7..], back);
    let leased = ["RequestAddress Endpoint", "RequestAddress Endpoint", "CreateEndpoint"];
    let released = ["ReleaseAddress 10.1.0.1", "ReleaseAddress fd01::2"];
    // No DeleteEndpoint after a CreateEndpoint that was refused.
    assert_eq!(refused_at("CreateEndpoint"), [&leased[..], &released].concat());
    let joined = [&leased[..], &["Join"]].concat();
    assert_eq!(refused_at("Join"), [&joined[..], &["DeleteEndpoint"], &released].concat());
    let led = [&joined[..], &["Program"]].concat();
    let undone = [&["Leave", "DeleteEndpoint"][..], &released].concat();
    assert_eq!(refused_at("ProgramConnectivity"), [led, undone].concat());
}

#[test]
fn a_join_that_may_be_done_is_left() {
    for fault in [Fault::Lost, Fault::AnswerLost, Fault::Nonsense] {
        let rig = Rig::new();
        let mut network = network("n1", vec![pool("10.1.0.0/24")]);
        rig.make(&mut network).unwrap();
        rig.plugin.log();
        rig.plugin.fail(move |_, call| matches!(call, libnetwork::Call::Join(_)).then_some(fault));
        rig.attach(&mut container(&network, "c1")).unwrap_err();
        let expected = [
            "RequestAddress Endpoint",
            "CreateEndpoint",
            "Join",
            "Leave",
            "DeleteEndpoint",
            "ReleaseAddress 10.1.0.2",
        ];
        assert_eq!(rig.plugin.log(), expected, "{fault:?}");
        rig.delete(&network);
        rig.is_clean();
    }
}

#[test]
fn a_refused_leave_does_not_keep_the_endpoint() {
    let rig = Rig::new();
    let mut network = network("n1", vec![pool("10.1.0.0/24")]);
    rig.make(&mut network).unwrap();
    let mut one = container(&network, "c1");
    rig.attach(&mut one).unwrap();
    rig.plugin.log();
    rig.plugin.fail(|_, call| matches!(call, libnetwork::Call::Leave(_)).then_some(Fault::Refused));
    rig.detach(&one);
    // It is tried once more before the endpoint goes, and then it is of no interest any more.
    let expected = ["Leave", "Leave", "DeleteEndpoint", "ReleaseAddress 10.1.0.2"];
    assert_eq!(rig.plugin.log(), expected);
    assert_eq!(rig.remote.pending().unwrap(), []);
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn no_ports_are_published_on_internal_networks_or_without_a_gateway() {
    let rig = Rig::new();
    rig.plugin.state().joined = joined("veth1", "10.1.0.254");
    let mut inner = bare(
        "n1",
        &libnetwork::parameters::NetworkParameters { internal: true, ..said() },
        Ipam::None,
    );
    inner.ipam = network("n1", vec![pool("10.1.0.0/24")]).ipam;
    rig.make(&mut inner).unwrap();
    let mut one = publishing(container(&inner, "c1"), 8080, 80);
    rig.attach(&mut one).unwrap();
    assert!(!rig.plugin.log().contains(&"Program".to_owned()));
    for call in &rig.plugin.state().calls {
        if let libnetwork::Call::CreateEndpoint(create) = call {
            assert_eq!(create.options, libnetwork::EndpointOptions::default());
        }
    }
    rig.detach(&one);
    rig.delete(&inner);
    rig.plugin.state().joined = joined("veth1", "");
    let mut open = network("n2", vec![pool("10.2.0.0/24")]);
    rig.make(&mut open).unwrap();
    let mut two = publishing(container(&open, "c1"), 8080, 80);
    let joined = rig.attach(&mut two).unwrap();
    assert!(!rig.plugin.log().contains(&"Program".to_owned()));
    // No other program would publish them.
    assert!(joined.kernel.wiring.publish.is_some());
    rig.detach(&two);
    rig.delete(&open);
    rig.is_clean();
}

#[test]
fn the_sandbox_is_led_out_and_kept_in_again() {
    let rig = Rig::new();
    let mut both = joined("veth1", "10.1.0.1");
    both.gateway_v6 = Some("fd01::1".parse().unwrap());
    rig.plugin.state().joined = both;
    let mut network = network("n1", vec![pool("10.1.0.0/24"), pool("fd01::/64")]);
    rig.make(&mut network).unwrap();
    let mut one = led(publishing(container(&network, "c1"), 8080, 80));
    crate::rig::Rig::try_attach(&rig, &mut one).unwrap();
    let made = rig.remote.with_gateway(&one, &[]).unwrap().unwrap();
    assert!(made.routes.is_empty(), "{:?}", made.routes);
    let with_gateway = rig.remote.with_gateway(&one, &[Family::V6]).unwrap().unwrap();
    assert_eq!(with_gateway.routes.len(), 1);
    rig.plugin.log();
    rig.plugin.state().calls.clear();
    rig.remote.program_gateway(&one, &[Family::V4]).unwrap();
    match rig.plugin.state().calls.last().unwrap() {
        libnetwork::Call::ProgramConnectivity(program) => assert!(program.no_proxy_6to4),
        other => panic!("{other:?}"),
    }
    rig.remote.program_gateway(&one, &[]).unwrap();
    rig.remote.program_gateway(&one, &[]).unwrap();
    rig.remote.program_gateway(&one, &[Family::V4, Family::V6]).unwrap();
    assert_eq!(rig.plugin.log(), ["Revoke", "Program", "Revoke", "Program"]);
    rig.detach(&one);
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn an_endpoint_can_leave_and_join_again() {
    let rig = Rig::new();
    let mut network = network("n1", vec![pool("10.1.0.0/24")]);
    rig.make(&mut network).unwrap();
    let mut one = wanting(container(&network, "c1"), "10.1.0.77");
    rig.attach(&mut one).unwrap();
    rig.plugin.log();
    rig.remote.leave(&one).unwrap();
    rig.remote.join(&one).unwrap();
    assert_eq!(rig.plugin.log(), ["Leave", "Join"]);
    rig.detach(&one);
    rig.delete(&network);
    rig.is_clean();
}
