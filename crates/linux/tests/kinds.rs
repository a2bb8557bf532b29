//! Links without an end in the host, each test in namespaces of its own that end with its threads.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, reason = "other tests have more needs")]
mod bed;

use bed::*;
use engine::port::{Driver, Presence, Stray};
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

#[test]
fn a_runtime_moves_a_macvlan_itself() {
    isolated(|| {
        let _other = lan();
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let kind = LinkKind::Macvlan(macvlan(parent("lan0")));
        let mut first = bare("one", kind, "10.77.0.2/24", &one.sandbox);
        first.handoff = Handoff::Caller;
        first.runtime = Runtime::Docker;
        let became = linux.attach(&first).unwrap();
        let guest = became.interfaces[0].clone();
        assert_eq!(guest.name, Identity::of(&first.id).guest_link().unwrap());
        assert_eq!((guest.place, guest.mac), (Place::Host, linux.hardware_address(&first)));
        assert_eq!(linux.presence(&first), Presence::Doubtful);
        linux.check(&first, &became).unwrap();
        assert_eq!(linux.strays(&|| Ok(vec![first.clone()])).unwrap(), []);
        let stray = (Stray::Link(guest.name.clone()), Presence::Gone);
        assert_eq!(linux.strays(&|| Ok(Vec::new())).unwrap(), [stray.clone()]);

        let take = |index: u8| {
            run(&format!("ip link set {} netns {} name eth{index}", guest.name, one.netns()));
            one.run(&format!(
                "ip address add 10.77.0.2/24 dev eth{index}; ip link set eth{index} up"
            ));
        };
        take(3);
        one.run("ping -c1 -W2 10.77.0.9");
        assert_eq!(linux.presence(&first), Presence::Alive);
        assert_eq!(linux.strays(&|| Ok(Vec::new())).unwrap(), []);
        for _ in 0..2 {
            linux.detach(&first).unwrap();
        }
        assert!(!one.run("ip -br link").contains("eth3"));

        // Never moved, or given back.
        linux.attach(&first).unwrap();
        linux.detach(&first).unwrap();
        assert!(link(&guest.name).is_none());
        linux.attach(&first).unwrap();
        linux.remove_stray(&stray.0).unwrap();
        assert!(link(&guest.name).is_none());

        // Made when the address was asked for, before there was a container.
        first.ipam = over_the_link();
        let mut reserved = first.clone();
        (reserved.sandbox, reserved.handoff) = (None, Handoff::Finish);
        linux.connect(&reserved).unwrap();
        linux.connect(&reserved).unwrap();
        let made = link(&guest.name).unwrap();
        assert!(made.flags.is_up());
        linux.attach(&first).unwrap();
        assert_eq!(link(&guest.name).unwrap().index, made.index, "its client listens there");
        take(4);
        linux.detach(&first).unwrap();
        assert!(!one.run("ip -br link").contains("eth4"));
        linux.connect(&reserved).unwrap();
        first.handoff = Handoff::Finish;
        let became = linux.attach(&first).unwrap();
        linux.check(&first, &became).unwrap();
        assert!(link(&guest.name).is_none());
        linux.detach(&first).unwrap();
        linux.connect(&reserved).unwrap();
        linux.detach(&reserved).unwrap();
        assert!(link(&guest.name).is_none());
    });
}

#[test]
fn host_and_container_reach_each_other() {
    isolated(|| {
        let other = lan();
        run("ip address add fd00:77::1/64 dev lan0 nodad");
        other.run("ip address add fd00:77::9/64 dev eth0 nodad");
        let linux = Linux::new(Life::Long);
        let (one, two) = (Container::new(), Container::new());
        let kind = || LinkKind::Macvlan(Macvlan { host_access: true, ..macvlan(parent("lan0")) });
        let front = network(kind());
        let shim = shim_link(&front.name).unwrap();
        for _ in 0..2 {
            linux.up(&front).unwrap();
        }
        assert!(link(&shim).unwrap().flags.is_up());
        let first = bare("one", kind(), "10.77.0.2/24", &one.sandbox);
        let mut second = bare("two", kind(), "10.77.0.3/24", &two.sandbox);
        let v6 = "fd00:77::3/64".parse().unwrap();
        second.addresses.push(InterfaceAddress { address: v6, gateway: None, interface: None });
        linux.attach(&first).unwrap();
        linux.attach(&second).unwrap();
        run("ping -c1 -W2 10.77.0.2; ping -c1 -W2 10.77.0.3; ping -c1 -W2 fd00:77::3");
        one.run("ping -c1 -W2 10.77.0.1; ping -c1 -W2 10.77.0.3; ping -c1 -W2 10.77.0.9");
        two.run("ping -c1 -W2 fd00:77::1; ping -c1 -W2 fd00:77::9");
        // The rest of the segment knows one device of the host.
        other.run("ping -c1 -W2 10.77.0.1");
        let mac = link(&"lan0".parse().unwrap()).unwrap().mac.unwrap();
        assert!(other.run("ip neighbour show 10.77.0.1").contains(&mac.to_string()));
        linux.detach(&first).unwrap();
        assert!(!run("ip route").contains("10.77.0.2"));
        run("ping -c1 -W2 10.77.0.3");
        linux.detach(&second).unwrap();
        assert!(
            !run("ip route; ip -6 route").contains(shim.as_str())
                || !run("ip route").contains("10.77.0.3")
        );
        for _ in 0..2 {
            linux.remove(&front).unwrap();
        }
        assert!(link(&shim).is_none());
        linux.attach(&first).unwrap();
        run("ping -c1 -W2 10.77.0.2");
        linux.detach(&first).unwrap();
    });
}

#[test]
fn who_has_an_address_answers_for_it() {
    isolated(|| {
        let _other = lan();
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let kind = LinkKind::Macvlan(Macvlan { probe: true, ..macvlan(parent("lan0")) });
        let mut first = bare("one", kind, "10.77.0.9/24", &one.sandbox);
        linux.connect(&first).unwrap();
        let taken: std::net::IpAddr = "10.77.0.9".parse().unwrap();
        assert_eq!(linux.answers(&first).unwrap(), [taken]);
        first.addresses[0].address = "10.77.0.8/24".parse().unwrap();
        let began = std::time::Instant::now();
        assert!(linux.answers(&first).unwrap().is_empty());
        assert!(began.elapsed() < std::time::Duration::from_secs(2), "{:?}", began.elapsed());
        let became = linux.complete(&first).unwrap();
        assert_eq!(became.interfaces[0].mac, linux.hardware_address(&first));
        linux.check(&first, &became).unwrap();
        one.run("ping -c1 -W2 10.77.0.9");
        linux.detach(&first).unwrap();
    });
}

/// Whether this kernel has such links; says so aloud where it has not, and refuses to where it must.
fn has(driver: &str, options: &str) -> bool {
    let script =
        format!("ip link add {options} name probe0 type {driver} && ip link delete probe0");
    let made = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    if !made.status.success() {
        let must = std::env::var_os("SPOKE_KERNEL_IS_COMPLETE").is_some();
        assert!(!must, "this kernel should have {driver}: {said}");
        eprintln!("\n!!! NOT TESTED HERE: this kernel has no {driver}: {said}");
    }
    made.status.success()
}

/// Attaches, looks, detaches and removes the network.
fn lives_and_goes(kind: &LinkKind) {
    let linux = Linux::new(Life::Long);
    let one = Container::new();
    let front = network(kind.clone());
    linux.up(&front).unwrap();
    let first = bare("one", kind.clone(), "10.77.0.2/24", &one.sandbox);
    let became = linux.attach(&first).unwrap();
    linux.check(&first, &became).unwrap();
    assert_eq!(linux.presence(&first), Presence::Alive);
    assert!(one.run("ip -br address show eth0").contains("10.77.0.2/24"));
    for _ in 0..2 {
        linux.detach(&first).unwrap();
    }
    assert!(!one.run("ip -br link").contains("eth0"));
    linux.remove(&front).unwrap();
}

#[test]
fn an_ipvlan_of_each_mode() {
    isolated(|| {
        let _other = lan();
        if !has("ipvlan", "link lan0") {
            return;
        }
        for mode in [IpvlanMode::L2, IpvlanMode::L3, IpvlanMode::L3s] {
            lives_and_goes(&LinkKind::Ipvlan(Ipvlan { parent: parent("lan0"), mode }));
        }
    });
}

#[test]
fn a_dummy_leads_nowhere() {
    isolated(|| {
        if has("dummy", "") {
            lives_and_goes(&LinkKind::Dummy);
        }
    });
}

#[test]
fn a_vlan_for_one_container_and_one_for_all() {
    isolated(|| {
        let _other = lan();
        if !has("vlan id 9", "link lan0") {
            return;
        }
        let id = |id| VlanId::new(id).unwrap();
        lives_and_goes(&LinkKind::Vlan(Vlan { parent: parent("lan0"), id: id(7) }));
        let on_vlan = || Parent { vlan: Some(id(8)), ..parent("lan0") };
        let shared = LinkKind::Macvlan(macvlan(on_vlan()));
        lives_and_goes(&shared);
        assert!(!run("ip -br link").contains("lan0.8"));

        // The last network that uses it takes it along; one of somebody else stays.
        let linux = Linux::new(Life::Long);
        let (front, mut back) = (network(shared.clone()), network(shared.clone()));
        back.name = "back".parse().unwrap();
        linux.up(&front).unwrap();
        linux.up(&back).unwrap();
        linux.remove(&front).unwrap();
        assert!(run("ip -br link").contains("lan0.8"));
        linux.remove(&back).unwrap();
        assert!(!run("ip -br link").contains("lan0.8"));
        run("ip link add link lan0 name lan0.8 up type vlan id 8");
        lives_and_goes(&shared);
        assert!(run("ip -br link").contains("lan0.8"));
    });
}
