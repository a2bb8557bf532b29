//! Who comes by a route to a container's own address, where the host's old iptables drops what it
//! forwards.

use engine::port::Driver;
use linux::{Life, Linux};
use model::*;

use crate::bed::{Container, attachment, bridge, firewall, isolated, published, run};
use crate::name;

/// A machine beside the host, and what it reaches of a container by its own address: the published port
/// and another one.
fn reached(passage: Passage, direct: bool) -> [bool; 2] {
    let linux = Linux::new(Life::Childless);
    let [container, client] = [(); 2].map(|()| Container::new());
    run(&format!(
        "ip link add up0 type veth peer name eth0
         ip link set eth0 netns {}
         ip link set up0 up; ip address add 192.0.2.1/24 dev up0",
        client.netns()
    ));
    client.run("ip link set eth0 up; ip address add 192.0.2.2/24 dev eth0; ip route add default via 192.0.2.1");
    let LinkKind::Bridge(mut kind) = bridge() else { unreachable!("it is one") };
    kind.port.direct = direct;
    let mut one = attachment("one", LinkKind::Bridge(kind), "10.88.0.2/24", &container.sandbox);
    one.addresses[0].gateway = Some([10, 88, 0, 1].into());
    one.wiring.publish = Some(published(8080));
    one.wiring.firewall = Some(Firewall { passage, ..firewall() });
    linux.attach(&one).unwrap();
    container.serve(80);
    container.serve(81);
    let reached = [80, 81].map(|port| client.reaches("10.88.0.2", port));
    assert!(client.reaches("192.0.2.1", 8080), "the published port");
    assert!(!linux.restore_shared(&one).unwrap());
    linux.detach(&one).unwrap();
    let left = run("iptables-legacy-save");
    assert!(!left.contains("10.88.0.2"), "{left}");
    reached
}

#[test]
fn the_old_tables_let_pass_whom_the_network_lets() {
    for (passage, direct, expected) in [
        (Passage::Unjudged, false, [false, false]),
        (Passage::Everybody, false, [true, false]),
        (Passage::Trusted(vec![name("up0")]), false, [true, false]),
        (Passage::Trusted(vec![name("other0")]), false, [false, false]),
        (Passage::Unjudged, true, [true, true]),
    ] {
        isolated(move || {
            run("sysctl -qw net.ipv4.ip_forward=1; iptables-legacy -P FORWARD DROP");
            assert_eq!(reached(passage.clone(), direct), expected, "{passage:?} {direct}");
        });
    }
}
