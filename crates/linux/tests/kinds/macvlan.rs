//! Macvlans in containers.

use engine::port::{Driver, HostDataplane, Presence, Stray};
use linux::{Life, Linux};
use model::*;

use super::bed::*;
use super::*;

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
        assert_eq!(
            (interface.name.as_str(), interface.place),
            ("eth0", InterfaceNamespace::Sandbox)
        );
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
        let inside = Parent { place: InterfaceNamespace::Sandbox, ..parent("lan1") };
        let inside = LinkKind::Macvlan(macvlan(inside));
        let first = bare("one", inside, "10.77.0.2/24", &one.sandbox);
        assert_eq!(linux.attach(&first).unwrap_err().kind(), Kind::NotFound);
        one.run("ip link add lan1 up type veth peer name end; ip link set end up");
        let became = linux.attach(&first).unwrap();
        assert!(one.run("ip -d link show eth0").contains("eth0@lan1"));
        linux.check(&first, &became).unwrap();
        linux.detach(&first).unwrap();

        let unnamed = Parent { name: None, place: InterfaceNamespace::Host, vlan: None };
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
        // A port of a bridge cannot be a parent; the bridge can.
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
fn who_has_no_end_in_the_host_is_not_taken_for_dead() {
    isolated(|| {
        let _other = lan();
        let linux = Linux::new(Life::Long);
        let (one, two) = (Container::new(), Container::new());
        let kind = LinkKind::Macvlan(macvlan(parent("lan0")));
        let mut first = bare("one", kind.clone(), "10.77.0.2/24", &one.sandbox);
        first.wiring.publish = Some(published(8080));
        linux.attach(&first).unwrap();
        // Another segment, or a book that was lost: the address is in use all the same.
        let mut second = bare("two", kind, "10.77.0.2/24", &two.sandbox);
        second.wiring.publish = Some(published(8080));
        let refused = linux.attach(&second).unwrap_err();
        assert_eq!(refused.kind(), Kind::Conflict, "{refused}");
        linux.detach(&second).unwrap();
        let strays = linux.strays(&|| Ok(Vec::new())).unwrap();
        assert!(matches!(strays.as_slice(), [(Stray::Elements(_), Presence::Doubtful)]));
        assert_eq!(linux.strays(&|| Ok(vec![first.clone()])).unwrap(), []);
        let lost = Attachment { runtime: Runtime::Reference, ..first.clone() };
        linux.detach(&lost).unwrap();
        assert_eq!(linux.strays(&|| Ok(Vec::new())).unwrap(), []);
    });
}
