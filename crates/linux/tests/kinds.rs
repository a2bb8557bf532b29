//! Links without an end in the host, each test in namespaces of its own that end with its threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bed;

use bed::*;
use engine::port::{Driver, Presence};
use linux::identity::{Identity, shim_link};
use linux::{Life, Linux};
use model::*;
use netlink::{At, Socket};

fn link(name: &IfName) -> Option<netlink::Link> {
    Socket::route().unwrap().link(At::Name(name)).unwrap()
}

fn parent(name: &str) -> Parent {
    Parent { name: Some(name.parse().unwrap()), place: Place::Host, vlan: None }
}

fn macvlan(parent: Parent) -> Macvlan {
    Macvlan {
        parent,
        mode: MacvlanMode::Bridge,
        broadcast_queue: None,
        host_access: false,
        probe: false,
    }
}

/// A segment with another host on it: `lan0` here, `eth0` with 10.77.0.9/24 there.
fn lan() -> Container {
    let other = Container::new();
    run(&format!("ip link add lan0 type veth peer name eth0 netns {}", other.netns()));
    run("ip link set lan0 up; ip address add 10.77.0.1/24 dev lan0");
    other.run("ip link set lo up; ip address add 10.77.0.9/24 dev eth0; ip link set eth0 up");
    other
}

fn over_the_link() -> Ipam {
    Ipam::Dhcp(Dhcp {
        socket: "/run/cni/dhcp.sock".into(),
        request: Vec::new(),
        skip: Vec::new(),
        provide: Vec::new(),
        priority: None,
    })
}

fn bare(container: &str, kind: LinkKind, address: &str, sandbox: &Sandbox) -> Attachment {
    let mut made = attachment(container, kind, address, sandbox);
    made.wiring.masquerade = None;
    made
}

#[test]
fn a_macvlan_is_made_in_its_place() {
    isolated(|| {
        let other = lan();
        let linux = Linux::new(Life::Long);
        let (one, two) = (Container::new(), Container::new());
        let kind = |mode, queue| {
            LinkKind::Macvlan(Macvlan { mode, broadcast_queue: queue, ..macvlan(parent("lan0")) })
        };
        let first = bare("one", kind(MacvlanMode::Bridge, Some(500)), "10.77.0.2/24", &one.sandbox);
        let second = bare("two", kind(MacvlanMode::Bridge, None), "10.77.0.3/24", &two.sandbox);
        let became = linux.attach(&first).unwrap();
        linux.attach(&second).unwrap();

        let interface = became.interfaces.first().unwrap();
        assert_eq!((interface.name.as_str(), interface.place), ("eth0", Place::Sandbox));
        assert_eq!(interface.mac, linux.hardware_address(&first));
        assert_eq!(became.addresses[0].interface, Some(0));
        let shown = one.run("ip -d link show eth0");
        assert!(shown.contains("macvlan mode bridge bcqueuelen 500"), "{shown}");
        one.run("ping -c1 -W2 10.77.0.3; ping -c1 -W2 10.77.0.9");
        other.run("ping -c1 -W2 10.77.0.2");
        linux.check(&first, &became).unwrap();
        assert_eq!(linux.presence(&first), Presence::Alive);

        for _ in 0..2 {
            linux.detach(&first).unwrap();
        }
        assert!(!one.run("ip -br link").contains("eth0"));
        assert!(linux.check(&first, &became).is_err());
        two.run("ping -c1 -W2 10.77.0.9");
        linux.detach(&second).unwrap();
    });
}

#[test]
fn a_link_is_connected_before_it_is_complete() {
    isolated(|| {
        let _other = lan();
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        for kind in [LinkKind::Macvlan(macvlan(parent("lan0"))), bridge()] {
            let mut first = bare("one", kind, "10.77.0.2/24", &one.sandbox);
            first.ipam = over_the_link();
            let addresses = std::mem::take(&mut first.addresses);
            for _ in 0..2 {
                linux.connect(&first).unwrap();
            }
            let shown = one.run("ip -br link show eth0");
            assert!(shown.contains("UP"), "{shown}");
            let mac = linux.hardware_address(&first).unwrap();
            assert!(shown.contains(&mac.to_string()), "{shown}");
            first.addresses = addresses;
            for _ in 0..2 {
                let became = linux.complete(&first).unwrap();
                assert_eq!(became.interfaces.last().unwrap().mac, Some(mac));
                linux.check(&first, &became).unwrap();
            }
            assert!(one.run("ip -br address show eth0").contains("10.77.0.2/24"));
            linux.detach(&first).unwrap();
            assert!(!one.run("ip -br link").contains("eth0"));
        }
    });
}
