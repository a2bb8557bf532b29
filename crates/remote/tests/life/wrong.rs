//! Drivers that answer what they must not (libnetwork.md §3.1).

use libnetwork::{Answer, Call, EndpointGiven, Joined, Moved, StaticRoute};
use model::{Family, Kind, LinkKind};

use crate::model::joined;
use crate::rig::{Rig, container, led, network, pool};

fn answering(given: EndpointGiven) -> (Rig, model::Network) {
    let rig = Rig::new();
    rig.plugin.answer(move |call| match call {
        Call::CreateEndpoint(_) => Some(Answer::Endpoint { interface: given }),
        _ => None,
    });
    let mut network = network("n1", vec![pool("10.1.0.0/24")]);
    rig.make(&mut network).unwrap();
    rig.plugin.log();
    (rig, network)
}

#[test]
fn what_was_given_may_not_be_answered() {
    let given = EndpointGiven { ipv4: "10.1.0.2/24".parse().ok(), ..EndpointGiven::default() };
    let (rig, network) = answering(given);
    let error = rig.attach(&mut container(&network, "c1")).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    let expected =
        ["RequestAddress Endpoint", "CreateEndpoint", "DeleteEndpoint", "ReleaseAddress 10.1.0.2"];
    assert_eq!(rig.plugin.log(), expected);
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn what_was_left_open_may_be_answered() {
    let given = EndpointGiven {
        mac: "02:00:00:00:00:07".parse().ok(),
        ipv6: "fd01::7/64".parse().ok(),
        ipv4: None,
    };
    let (rig, network) = answering(given);
    let mut one = container(&network, "c1");
    rig.attach(&mut one).unwrap();
    assert_eq!(one.wiring.link.as_ref().unwrap().mac, given.mac);
    assert_eq!(one.addresses.len(), 2);
    rig.detach(&one);
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn a_prefix_that_is_no_name_undoes_the_join() {
    let rig = Rig::new();
    let mut wrong = joined("veth1", "");
    wrong.interface.as_mut().unwrap().prefix = "a/b".into();
    rig.plugin.state().joined = wrong;
    let mut network = network("n1", vec![pool("10.1.0.0/24")]);
    rig.make(&mut network).unwrap();
    rig.plugin.log();
    rig.attach(&mut container(&network, "c1")).unwrap_err();
    assert_eq!(rig.plugin.log()[3..5], ["Leave", "DeleteEndpoint"]);
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn routes_and_gateways_become_the_kernels() {
    let rig = Rig::new();
    rig.plugin.state().joined = Joined {
        interface: Some(Moved { from: "veth1".parse().unwrap(), prefix: "net".into() }),
        gateway: None,
        gateway_v6: "fe80::1".parse().ok(),
        routes: vec![
            StaticRoute::Via("0.0.0.0/0".parse().unwrap(), "10.1.0.1".parse().unwrap()),
            StaticRoute::Via("::/0".parse().unwrap(), "fe80::2".parse().unwrap()),
            StaticRoute::Connected("10.99.0.0/16".parse().unwrap()),
        ],
        no_gateway_service: true,
    };
    let mut network = network("n1", vec![pool("10.1.0.0/24"), pool("fd01::/64")]);
    rig.make(&mut network).unwrap();
    let mut one = container(&network, "c1");
    let joined = rig.attach(&mut one).unwrap();
    // A static default route is a way out; ports are the driver's where it named a gateway.
    assert_eq!(joined.gateways, [Family::V4, Family::V6]);
    assert!(joined.keeps_in);
    let routes: Vec<_> =
        joined.kernel.routes.iter().map(|r| (r.dst.to_string(), r.via, r.scope)).collect();
    let via = |text: &str| Some(text.parse().unwrap());
    let expected = [
        ("::/0".to_owned(), via("fe80::1"), None),
        ("0.0.0.0/0".to_owned(), via("10.1.0.1"), None),
        ("10.99.0.0/16".to_owned(), None, Some(253)),
    ];
    assert_eq!(routes, expected);
    match &joined.kernel.wiring.link.as_ref().unwrap().kind {
        // A runtime that names its interfaces gets that name.
        LinkKind::ExternalInterface(ready) => {
            assert_eq!((ready.source.as_str(), &ready.prefix), ("veth1", &None))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(rig.remote.made(&one).unwrap().unwrap(), joined.kernel);
    let mut ours = led(container(&network, "c2"));
    rig.plugin.state().joined.interface.as_mut().unwrap().from = "veth2".parse().unwrap();
    let joined = rig.attach(&mut ours).unwrap();
    // The kernel withholds those that do not lead.
    assert_eq!(joined.kernel.routes.len(), 3);
    assert_eq!(rig.remote.with_gateway(&ours, &[]).unwrap().unwrap().routes.len(), 1);
    match &joined.kernel.wiring.link.as_ref().unwrap().kind {
        LinkKind::ExternalInterface(ready) => {
            assert_eq!(ready.prefix.as_ref().unwrap().as_str(), "net")
        }
        other => panic!("{other:?}"),
    }
    rig.detach(&one);
    rig.detach(&ours);
    assert!(rig.remote.made(&one).unwrap().is_none());
    rig.delete(&network);
    rig.is_clean();
}

#[test]
fn an_interface_that_the_driver_put_there_itself_is_not_moved() {
    let rig = Rig::new();
    let mut network = network("n1", vec![pool("10.1.0.0/24")]);
    rig.make(&mut network).unwrap();
    let mut one = container(&network, "c1");
    let joined = rig.attach(&mut one).unwrap();
    assert!(joined.kernel.wiring.link.is_none());
    rig.detach(&one);
    rig.delete(&network);
    rig.is_clean();
}
