//! Pairs whose end in the host another program connects.

use engine::port::{Driver, HostDataplane, Presence, Stray};
use linux::identity::{GROUP, Identity};
use linux::{Life, Linux};
use model::*;

use super::bed::*;
use super::*;

const END: &str = "tap31b4f5a6-1c";

fn end() -> IfName {
    END.parse().unwrap()
}

/// A port of Neutron's with this address, a gateway, a default route and a hardware address.
fn plug(container: &str, address: &str, offload: bool, sandbox: &Sandbox) -> Attachment {
    let kind = LinkKind::Plug(Plug { end: end(), offload });
    let mut made = bare(container, kind, address, sandbox);
    let link = made.wiring.link.as_mut().unwrap();
    link.mac = Some("fa:16:3e:01:02:03".parse().unwrap());
    link.mtu = Mtu::new(1442);
    made.addresses[0].gateway = Some("10.77.0.9".parse().unwrap());
    made.routes = vec![Route::new("0.0.0.0/0".parse().unwrap(), None)];
    made
}

/// Another program's bridge with another station, 10.77.0.9.
fn switch() -> Container {
    let other = lan();
    run("ip address flush dev lan0; ip link add sw0 type bridge; ip link set lan0 master sw0 up");
    run("ip link set sw0 up");
    other
}

fn parameter(path: &str) -> String {
    run(&format!("cat /proc/sys/{path}")).trim().to_owned()
}

/// Beside a switch that is a program the container is limited inside, where its device does not go with the link.
#[test]
fn limits_inside_leave_nothing_there() {
    isolated(|| {
        let _other = switch();
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let before = one.run("ip -br link | cut -d' ' -f1");
        let rate = Some(Rate { rate: 8_000_000, burst: 1_000_000 });
        let mut limited = plug("one", "10.77.0.2/24", false, &one.sandbox);
        limited.wiring.bandwidth =
            Some(Bandwidth { ingress: rate, egress: rate, ..Bandwidth::default() });
        linux.attach(&limited).unwrap();
        assert!(one.run("ip -br link").contains("bwp"));
        linux.detach(&limited).unwrap();
        assert_eq!(one.run("ip -br link | cut -d' ' -f1"), before);
    });
}

#[test]
fn a_foreign_switch_connects_it() {
    isolated(|| {
        let _other = switch();
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let first = plug("one", "10.77.0.2/24", true, &one.sandbox);
        let became = linux.attach(&first).unwrap();
        let names: Vec<&str> = became.interfaces.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, [END, "eth0"]);
        linux.check(&first, &became).unwrap();

        let here = link(&end()).unwrap();
        assert!(here.flags.is_up() && here.master.is_none() && here.group == GROUP);
        assert_eq!((here.mtu, here.alias), (1442, Some(Identity::of(&first.id).alias())));
        assert_eq!(run(&format!("ip address show dev {END} | grep inet || true")), "");
        assert_eq!(run(&format!("ip route show table all dev {END} type unicast")), "");
        assert_eq!(run("ip neighbour show proxy"), "");
        let inside = one.run("ip -d link show dev eth0");
        assert!(inside.contains("fa:16:3e:01:02:03") && inside.contains("mtu 1442"), "{inside}");
        assert!(inside.contains("numtxqueues 1 "), "{inside}");
        assert!(one.run("ip route").contains("default via 10.77.0.9"));
        assert!(one.run("ethtool -k eth0").contains("tx-checksumming: on"));

        run(&format!("ip link set {END} master sw0"));
        one.run("ping -c1 -W2 10.77.0.9");
        assert_eq!(linux.presence(&first), Presence::Alive);
        for _ in 0..2 {
            linux.detach(&first).unwrap();
        }
        assert!(link(&end()).is_none());
        assert_eq!(linux.presence(&first), Presence::Gone);
        assert!(!one.run("ip -br link").contains("eth0"));
    });
}

#[test]
fn beside_a_program_the_host_hears_nothing_and_frames_are_whole() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        run("ip link add host0 type veth peer name host1; ip address add 10.77.0.1/24 dev host0");
        run("ip link set host0 up; ip link set host1 up; sysctl -qw net.ipv4.ip_forward=1");
        let first = plug("one", "10.77.0.2/24", false, &one.sandbox);
        let became = linux.attach(&first).unwrap();
        linux.check(&first, &became).unwrap();
        assert!(one.run("ethtool -k eth0").contains("tx-checksumming: off"));
        assert_eq!(parameter(&format!("net/ipv6/conf/{END}/disable_ipv6")), "1");
        assert_eq!(became.interfaces[0].mac, None, "it cannot be known");
        // The host's own address is on another link: it would answer for it otherwise.
        assert_eq!(one.run("ping -c1 -W1 10.77.0.1 >/dev/null || echo lost"), "lost\n");
        assert!(!one.run("ip neighbour show 10.77.0.1").contains("lladdr"));
        let mac = link(&end()).unwrap().mac.unwrap();
        one.run(&format!("ip neighbour replace 10.77.0.1 lladdr {mac} dev eth0"));
        let delivered = || run("nstat -asz IpInDelivers | tail -n 1");
        let before = delivered();
        assert_eq!(one.run("ping -c1 -W1 10.77.0.1 >/dev/null || echo lost"), "lost\n");
        assert_eq!(delivered(), before);

        one.run("ethtool -K eth0 tx on");
        let error = linux.check(&first, &became).unwrap_err();
        assert!(error.to_string().contains("checksums"), "{error}");
        linux.detach(&first).unwrap();
        assert!(link(&end()).is_none());
    });
}

#[test]
fn a_runtime_moves_it_and_it_keeps_its_checksums() {
    isolated(|| {
        let _other = switch();
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let mut first = plug("one", "10.77.0.2/24", false, &one.sandbox);
        first.handoff = Handoff::Caller;
        first.runtime = Runtime::Docker;
        let became = linux.attach(&first).unwrap();
        let guest = Identity::of(&first.id).guest_link().unwrap();
        assert_eq!(became.interfaces[1].name, guest);
        assert_eq!(linux.presence(&first), Presence::Doubtful);
        linux.check(&first, &became).unwrap();
        // By its record, by its alias where the record says Neutron still, or not at all.
        assert_eq!(linux.strays(&|| Ok(vec![first.clone()])).unwrap(), []);
        let mut unread = first.clone();
        unread.wiring.link = None;
        assert_eq!(linux.strays(&|| Ok(vec![unread.clone()])).unwrap(), []);
        let stray = (Stray::Link(end()), Presence::Gone);
        assert_eq!(linux.strays(&|| Ok(Vec::new())).unwrap(), std::slice::from_ref(&stray));

        run(&format!("ip link set {END} master sw0"));
        run(&format!("ip link set {guest} netns {} name eth5", one.netns()));
        one.run("ip address add 10.77.0.2/24 dev eth5; ip link set eth5 up");
        one.run("ping -c1 -W2 10.77.0.9");
        assert!(one.run("ethtool -k eth5").contains("tx-checksumming: off"));
        assert_eq!(linux.presence(&first), Presence::Alive);
        let alive = (Stray::Link(end()), Presence::Alive);
        assert_eq!(linux.strays(&|| Ok(Vec::new())).unwrap(), [alive]);
        linux.detach(&first).unwrap();
        assert!(!one.run("ip -br link").contains("eth5"));

        linux.attach(&first).unwrap();
        linux.remove_stray(&stray.0).unwrap();
        assert!(link(&end()).is_none() && link(&guest).is_none());
    });
}

#[test]
fn no_other_is_touched() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let (one, two) = (Container::new(), Container::new());
        let first = plug("one", "10.77.0.2/24", true, &one.sandbox);

        run(&format!("ip link add {END} type veth peer name novas"));
        assert_eq!(linux.attach(&first).unwrap_err().kind(), Kind::Conflict);
        linux.detach(&first).unwrap();
        assert_eq!(linux.presence(&first), Presence::Gone);
        let novas = link(&end()).unwrap();
        assert!(novas.alias.is_none() && novas.group == 0 && !novas.flags.is_up());
        run(&format!("ip link delete {END}"));

        // Another attachment of the same port.
        let second = plug("two", "10.77.0.2/24", true, &two.sandbox);
        let became = linux.attach(&second).unwrap();
        assert_eq!(linux.attach(&first).unwrap_err().kind(), Kind::Conflict);
        linux.detach(&first).unwrap();
        linux.check(&second, &became).unwrap();
        assert_eq!(linux.presence(&second), Presence::Alive);

        // What a killed process began has no owner, and is made again.
        let index = link(&end()).unwrap().index;
        linux.attach(&second).unwrap();
        assert_ne!(link(&end()).unwrap().index, index);

        // Both ends go with the container.
        drop(two);
        run(&format!("timeout 10 sh -c 'while ip link show {END}; do :; done' >/dev/null 2>&1"));
        assert_eq!(linux.presence(&second), Presence::Gone);
        linux.detach(&second).unwrap();
    });
}
