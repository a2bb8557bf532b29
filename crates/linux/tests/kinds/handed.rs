//! Links that a runtime moves itself.

use engine::port::{Driver, HostDataplane, Presence, Stray};
use linux::identity::Identity;
use linux::{Life, Linux};
use model::*;

use super::bed::*;
use super::*;

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
        assert_eq!(
            (guest.place, guest.mac),
            (InterfaceNamespace::Host, linux.hardware_address(&first))
        );
        assert_eq!(linux.presence(&first), Presence::Doubtful);
        linux.check(&first, &became).unwrap();
        assert_eq!(linux.strays(&|| Ok(vec![first.clone()])).unwrap(), []);
        let stray = (Stray::Link(guest.name.clone()), Presence::Gone);
        assert_eq!(linux.strays(&|| Ok(Vec::new())).unwrap(), std::slice::from_ref(&stray));

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
