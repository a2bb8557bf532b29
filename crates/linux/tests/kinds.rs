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

fn device(choice: DeviceChoice) -> LinkKind {
    LinkKind::Device(Device { choice })
}

/// Hardware of the host: a pair, of which one end stays.
fn nic() -> Mac {
    run("ip link add nic0 type veth peer name cable; ip link set cable up; ip link set nic0 up");
    link(&"nic0".parse().unwrap()).unwrap().mac.unwrap()
}

#[test]
fn a_device_of_the_host_goes_and_comes_back() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let mac = nic();
        run("ip address add 10.77.0.1/24 dev cable");
        for choice in [DeviceChoice::Name("nic0".parse().unwrap()), DeviceChoice::Mac(mac)] {
            let first = bare("one", device(choice), "10.77.0.2/24", &one.sandbox);
            let became = linux.attach(&first).unwrap();
            assert_eq!(became.interfaces[0].mac, Some(mac));
            assert!(!run("ip -br link").contains("nic0"));
            let shown = one.run("ip link show eth0");
            assert!(shown.contains("alias nic0"), "{shown}");
            one.run("ping -c1 -W2 10.77.0.1");
            linux.check(&first, &became).unwrap();
            assert_eq!(linux.presence(&first), Presence::Alive);
            // As after a crash.
            linux.complete(&first).unwrap();
            for _ in 0..2 {
                linux.detach(&first).unwrap();
            }
            let shown = run("ip link show nic0");
            assert!(shown.contains("state DOWN") && !shown.contains("alias"), "{shown}");
            assert!(!one.run("ip -br link").contains("eth0"));
            assert!(linux.check(&first, &became).is_err());
        }
    });
}

#[test]
fn a_device_comes_back_to_a_host_with_other_devices() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        nic();
        run("ip link add eth0 type veth peer name other");
        let name = || DeviceChoice::Name("nic0".parse().unwrap());
        let first = bare("one", device(name()), "10.77.0.2/24", &one.sandbox);
        linux.attach(&first).unwrap();
        // Nobody knows of it any more.
        let mut unknown = first.clone();
        unknown.runtime = Runtime::Reference;
        unknown.addresses.clear();
        linux.detach(&unknown).unwrap();
        assert!(run("ip -br link").contains("nic0"));

        // The container has something else of that name, which stays.
        one.run("ip link add eth0 type veth peer name peer0");
        assert_eq!(linux.attach(&first).unwrap_err().kind(), Kind::Conflict);
        linux.detach(&first).unwrap();
        assert!(one.run("ip -br link").contains("eth0") && run("ip -br link").contains("nic0"));
        one.run("ip link delete eth0");

        // As the kernel gives hardware back when a namespace ends.
        linux.attach(&first).unwrap();
        let home = netlink::Netns::current().unwrap();
        use std::os::fd::{AsFd, AsRawFd};
        let fd = home.as_fd().as_raw_fd();
        one.run(&format!(
            "ip link set eth0 down; ip link set eth0 name dev7
             ip link set dev7 netns /proc/{}/fd/{fd}",
            std::process::id()
        ));
        run("ip link set dev7 up");
        let mut record = first.clone();
        record.sandbox = Some(Sandbox { path: "/not/there".into(), inode: 1 });
        linux.detach(&record).unwrap();
        linux.detach(&record).unwrap();
        let shown = run("ip link show nic0");
        assert!(shown.contains("state DOWN") && !shown.contains("alias"), "{shown}");

        let missing = device(DeviceChoice::Name("nic9".parse().unwrap()));
        let missing = bare("one", missing, "10.77.0.2/24", &one.sandbox);
        assert_eq!(linux.attach(&missing).unwrap_err().kind(), Kind::NotFound);
        linux.detach(&missing).unwrap();
    });
}

#[test]
fn a_tap_stays_without_a_program() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        one.run("ip link add br7 up type bridge");
        let tap = Tap {
            multi_queue: true,
            owner: Some(4242),
            group: Some(4243),
            selinux_context: None,
            bridge: Some("br7".parse().unwrap()),
        };
        let mut first = bare("one", LinkKind::Tap(tap.clone()), "10.77.0.2/24", &one.sandbox);
        first.wiring.link.as_mut().unwrap().mtu = Mtu::new(1400);
        let became = linux.attach(&first).unwrap();
        let shown = one.run("ip -d link show eth0");
        for part in [
            "mtu 1400",
            "tun type tap",
            "multi_queue",
            "user 4242",
            "group 4243",
            "persist on",
            "master br7",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        assert!(one.run("ip -br address show eth0").contains("10.77.0.2/24"));
        linux.check(&first, &became).unwrap();
        assert_eq!(linux.presence(&first), Presence::Alive);
        assert_eq!(
            linux
                .attach(&Attachment {
                    id: AttachmentId { network: "back".parse().unwrap(), ..first.id.clone() },
                    ..first.clone()
                })
                .unwrap_err()
                .kind(),
            Kind::Conflict
        );
        for _ in 0..2 {
            linux.detach(&first).unwrap();
        }
        assert!(!one.run("ip -br link").contains("eth0"));

        let labelled = Tap { selinux_context: Some("system_u:object_r:t:s0".into()), ..tap };
        let labelled = bare("one", LinkKind::Tap(labelled), "10.77.0.2/24", &one.sandbox);
        if !std::path::Path::new("/sys/fs/selinux").exists() {
            assert_eq!(linux.attach(&labelled).unwrap_err().kind(), Kind::Unsupported);
        }
        linux.detach(&labelled).unwrap();
    });
}

#[test]
fn two_networks_do_not_take_each_others_interface() {
    isolated(|| {
        let _other = lan();
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let kind = || LinkKind::Macvlan(macvlan(parent("lan0")));
        let first = bare("one", kind(), "10.77.0.2/24", &one.sandbox);
        let became = linux.attach(&first).unwrap();
        let mut second = bare("one", kind(), "10.77.0.3/24", &one.sandbox);
        second.id.network = "back".parse().unwrap();
        assert_eq!(linux.attach(&second).unwrap_err().kind(), Kind::Conflict);
        linux.detach(&second).unwrap();
        linux.check(&first, &became).unwrap();
        // What a lost record left makes way.
        linux.attach(&first).unwrap();
        linux.check(&first, &became).unwrap();
    });
}

#[test]
fn a_parent_may_be_in_the_container_or_the_default_route() {
    isolated(|| {
        let _other = lan();
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let inside = Parent { place: Place::Sandbox, ..parent("lan1") };
        let inside = LinkKind::Macvlan(macvlan(inside));
        let first = bare("one", inside, "10.77.0.2/24", &one.sandbox);
        assert_eq!(linux.attach(&first).unwrap_err().kind(), Kind::NotFound);
        one.run("ip link add lan1 up type veth peer name end; ip link set end up");
        let became = linux.attach(&first).unwrap();
        assert!(one.run("ip -d link show eth0").contains("eth0@lan1"));
        linux.check(&first, &became).unwrap();
        linux.detach(&first).unwrap();

        let unnamed = Parent { name: None, place: Place::Host, vlan: None };
        let unnamed = LinkKind::Macvlan(macvlan(unnamed));
        let first = bare("one", unnamed, "10.77.0.2/24", &one.sandbox);
        assert_eq!(linux.attach(&first).unwrap_err().kind(), Kind::NotFound);
        run("ip route add default via 10.77.0.9");
        linux.attach(&first).unwrap();
        one.run("ping -c1 -W2 10.77.0.9");
        // The parent goes, and what is on it.
        run("ip link delete lan0");
        assert_eq!(linux.presence(&first), Presence::Doubtful);
        linux.detach(&first).unwrap();
    });
}

#[test]
fn what_a_parent_cannot_carry_is_refused() {
    isolated(|| {
        let _other = lan();
        run("ip link set lan0 mtu 1400");
        let linux = Linux::new(Life::Long);
        let (one, two) = (Container::new(), Container::new());
        let kind = |mode| LinkKind::Macvlan(Macvlan { mode, ..macvlan(parent("lan0")) });
        let mut first = bare("one", kind(MacvlanMode::Bridge), "10.77.0.2/24", &one.sandbox);
        first.wiring.link.as_mut().unwrap().mtu = Mtu::new(1500);
        let refused = linux.attach(&first).unwrap_err();
        assert!(refused.to_string().contains("invalid MTU 1500"), "{refused}");
        let whole = bare("one", kind(MacvlanMode::Passthru), "10.77.0.2/24", &one.sandbox);
        let became = linux.attach(&whole).unwrap();
        let mac = link(&"lan0".parse().unwrap()).unwrap().mac;
        assert_eq!((became.interfaces[0].mac, linux.hardware_address(&whole)), (mac, None));
        linux.check(&whole, &became).unwrap();
        let second = bare("two", kind(MacvlanMode::Bridge), "10.77.0.3/24", &two.sandbox);
        assert!(linux.attach(&second).is_err());
        linux.detach(&second).unwrap();
        linux.detach(&whole).unwrap();
        // A port of a bridge is nobody's parent; the bridge is.
        run("ip link add br9 up type bridge; ip link set lan0 master br9");
        let refused = linux.attach(&second).unwrap_err();
        assert_eq!(refused.kind(), Kind::Conflict, "{refused}");
        let on_bridge = LinkKind::Macvlan(macvlan(parent("br9")));
        let second = bare("two", on_bridge, "10.77.0.3/24", &two.sandbox);
        linux.attach(&second).unwrap();
        two.run("ping -c1 -W2 10.77.0.9");
        linux.detach(&second).unwrap();
    });
}
