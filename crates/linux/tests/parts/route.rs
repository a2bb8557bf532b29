//! Attributes of routes (CNI 1.1.0), of every kind of link that this kernel has.

use engine::port::Driver;
use linux::{Life, Linux};
use model::*;

use crate::bed::{Container, attachment, bridge, isolated, run};
use crate::name;

fn kinds() -> Vec<LinkKind> {
    let parent = Parent { name: Some(name("up0")), place: InterfaceNamespace::Host, vlan: None };
    let macvlan = Macvlan {
        parent,
        mode: MacvlanMode::Bridge,
        broadcast_queue: None,
        host_access: false,
        probe: false,
    };
    vec![bridge(), LinkKind::Ptp(Ptp::default()), LinkKind::Macvlan(macvlan)]
}

#[test]
fn routes_have_the_attributes_that_they_are_given() {
    isolated(|| {
        run("ip link add up0 type veth peer name up1; ip link set up0 up; ip link set up1 up");
        let linux = Linux::new(Life::Long);
        for kind in kinds() {
            let one = Container::new();
            let mut made = attachment("one", kind, "10.88.0.2/24", &one.sandbox);
            made.wiring.masquerade = None;
            let via = Some("10.88.0.1".parse().unwrap());
            made.addresses[0].gateway = via;
            let full = Route {
                mtu: Some(1400),
                advmss: Some(1300),
                priority: Some(77),
                table: Some(500),
                ..Route::new("10.20.0.0/16".parse().unwrap(), via)
            };
            let direct =
                Route { scope: Some(253), ..Route::new("10.21.0.0/16".parse().unwrap(), None) };
            made.routes = vec![full, direct];
            let became = match linux.attach(&made) {
                Ok(became) => became,
                Err(error) => panic!("{:?}: {error}", made.wiring.link),
            };
            let shown = one.run("ip route show table 500");
            let expected = "10.20.0.0/16 via 10.88.0.1 dev eth0 metric 77 mtu 1400 advmss 1300";
            assert!(shown.contains(expected), "{shown}");
            linux.check(&made, &became).unwrap();
            one.run("ip route replace table 500 10.20.0.0/16 via 10.88.0.1 metric 77 mtu 1300");
            let error = linux.check(&made, &became).unwrap_err().to_string();
            assert!(error.contains("another MTU"), "{error}");
            linux.detach(&made).unwrap();
        }
    });
}
