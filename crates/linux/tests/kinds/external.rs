//! Interfaces that another program made in the host, and has back afterwards.

use std::os::fd::{AsFd, AsRawFd};

use engine::port::{Driver, HostDataplane, Presence};
use linux::identity::Identity;
use linux::{Life, Linux};
use model::*;

use super::bed::*;
use super::*;

const SOURCE: &str = "plug0";
const MAC: &str = "02:42:00:00:00:07";

fn source() -> IfName {
    SOURCE.parse().unwrap()
}

/// A pair as a plugin makes it: one end with an address of the host, the other one for a container.
fn plugin() {
    run(&format!("ip link add cable type veth peer name {SOURCE} address 02:00:00:00:00:01"));
    run("ip address add 10.77.0.1/24 dev cable; ip address add fd77::1/64 dev cable nodad");
    run("ip link set cable up");
    run(&format!("ip link set {SOURCE} mtu 1450 up alias theirs"));
}

fn kind(prefix: Option<&str>) -> LinkKind {
    LinkKind::ExternalInterface(ExternalInterface {
        source: source(),
        prefix: prefix.map(|prefix| prefix.parse().unwrap()),
    })
}

fn external(container: &str, prefix: Option<&str>, sandbox: &Sandbox) -> Attachment {
    let mut made = bare(container, kind(prefix), "10.77.0.2/24", sandbox);
    made.addresses[0].gateway = Some("10.77.0.1".parse().unwrap());
    made.addresses.push(InterfaceAddress {
        address: "fd77::2/64".parse().unwrap(),
        gateway: Some("fd77::1".parse().unwrap()),
        interface: None,
    });
    made
}

fn default(family: Family) -> Route {
    Route::new(family.everything(), None)
}

/// It is in the host again, and as its plugin made it.
fn assert_home() {
    let link = link(&source()).expect("it is back");
    assert!(!link.flags.is_up() && link.group == 0, "{link:?}");
    assert_eq!((link.alias.as_deref(), link.mtu), (Some("theirs"), 1450));
    assert_eq!(link.mac, Some("02:00:00:00:00:01".parse().unwrap()));
}

/// Where ip(8) run in a container finds this namespace, as long as it is held.
fn home(held: &netlink::Netns) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), held.as_fd().as_raw_fd())
}

#[test]
fn it_goes_in_and_comes_back_as_it_was() {
    isolated(|| {
        for life in [Life::Long, Life::Short] {
            plugin();
            let linux = Linux::new(life);
            let one = Container::new();
            one.run("ip link add web0 type veth peer name web2");
            let mut first = external("one", Some("web"), &one.sandbox);
            first.routes = vec![default(Family::V4), default(Family::V6)];
            let asked = first.wiring.link.as_mut().unwrap();
            (asked.mac, asked.mtu) = (Some(MAC.parse().unwrap()), Mtu::new(1400));
            let became = linux.attach(&first).unwrap();
            let inside = &became.interfaces[..];
            let wanted = Interface {
                name: "web1".parse().unwrap(),
                mac: Some(MAC.parse().unwrap()),
                mtu: Mtu::new(1400),
                place: InterfaceNamespace::Sandbox,
            };
            assert_eq!(inside, [wanted]);
            assert_eq!(became.addresses[1].interface, Some(0));
            assert!(link(&source()).is_none());
            let shown = one.run("ip -d address show web1");
            for part in [MAC, "mtu 1400", "10.77.0.2/24", "fd77::2/64", "LOWER_UP"] {
                assert!(shown.contains(part), "{part} in {shown}");
            }
            assert!(shown.contains("fd77::2/64 scope global nodad"), "without a wait: {shown}");
            assert!(one.run("ip route").contains("default via 10.77.0.1 dev web1"));
            assert!(one.run("ip -6 route").contains("default via fd77::1 dev web1"));
            one.run("ping -c1 -W2 10.77.0.1; ping -c1 -W2 fd77::1");
            linux.check(&first, &became).unwrap();
            assert_eq!(linux.presence(&first), Presence::Alive);
            // As after a crash.
            assert_eq!(linux.attach(&first).unwrap(), became);
            assert_eq!(linux.complete(&first).unwrap(), became);
            for _ in 0..2 {
                linux.detach(&first).unwrap();
                assert_home();
            }
            assert!(linux.check(&first, &became).is_err());
            assert_eq!(linux.presence(&first), Presence::Doubtful);
            assert!(one.run("ip -br link").contains("web0"), "what is not ours stays");
            run("ip link delete cable");
            linux.detach(&first).unwrap();
        }
    });
}

#[test]
fn an_exact_name_is_had_or_refused() {
    isolated(|| {
        plugin();
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let mut first = external("one", None, &one.sandbox);
        let became = linux.attach(&first).unwrap();
        assert_eq!(became.interfaces[0].name.as_str(), "eth0");
        linux.detach(&first).unwrap();
        first.wiring.link.as_mut().unwrap().name = Some("web7".parse().unwrap());
        one.run("ip link add eth0 type veth peer name web7");
        let error = linux.attach(&first).unwrap_err();
        assert!(error.kind() == Kind::Conflict && error.to_string().contains("web7"), "{error}");
        assert_eq!(link(&source()).unwrap().group, 0, "nothing was touched");
        linux.detach(&first).unwrap();
        // A name beside the one that it has counts, which cannot be seen beforehand.
        one.run("ip link delete web7; ip link property add dev lo altname web0");
        let second = external("one", Some("web"), &one.sandbox);
        assert_eq!(linux.attach(&second).unwrap().interfaces[0].name.as_str(), "web1");
        linux.detach(&second).unwrap();
        assert_home();
    });
}

#[test]
fn what_is_not_to_be_had_is_refused() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let (one, two) = (Container::new(), Container::new());
        let first = external("one", Some("eth"), &one.sandbox);
        let error = linux.attach(&first).unwrap_err();
        assert!(error.kind() == Kind::NotFound && error.to_string().contains(SOURCE), "{error}");
        linux.detach(&first).unwrap();

        plugin();
        one.run("ip link add net0 type veth peer name net1; ip link set net0 up");
        one.run("ip link set net1 up; ip address add 10.77.0.128/25 dev net0");
        let error = linux.attach(&first).unwrap_err();
        let reported = "cannot program address 10.77.0.2/24 in sandbox interface because it conflicts \
                    with existing route to 10.77.0.128/25";
        assert!(error.kind() == Kind::Conflict && error.to_string().contains(reported), "{error}");
        linux.detach(&first).unwrap();
        one.run("ip address flush dev net0; ip -6 address add fd77::9/128 dev net0");
        assert_eq!(linux.attach(&first).unwrap_err().kind(), Kind::Conflict);
        linux.detach(&first).unwrap();
        one.run("ip address flush dev net0");
        linux.attach(&first).unwrap();

        // Another container's, on its way.
        let third = external("three", Some("eth"), &two.sandbox);
        let name = one.run("ip -br link | grep -o '^eth[0-9]'");
        let held = netlink::Netns::current().unwrap();
        one.run(&format!("ip link set {} name {SOURCE} netns {}", name.trim(), home(&held)));
        let error = linux.attach(&third).unwrap_err();
        assert!(error.to_string().contains("another container"), "{error}");
        linux.detach(&third).unwrap();
        assert_ne!(link(&source()).unwrap().group, 0, "it is not theirs to clear");
        linux.detach(&first).unwrap();
        assert_home();

        let mut lo = first.clone();
        lo.wiring.link.as_mut().unwrap().kind = LinkKind::ExternalInterface(ExternalInterface {
            source: "lo".parse().unwrap(),
            prefix: None,
        });
        assert_eq!(linux.attach(&lo).unwrap_err().kind(), Kind::Conflict);
    });
}

/// Every place where a killed process may have left it.
#[test]
fn whatever_a_killed_process_left_is_undone_and_gone_on_with() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let first = external("one", Some("eth"), &one.sandbox);
        let identity = Identity::of(&first.id);
        plugin();
        linux.attach(&first).unwrap();
        let alias = one.run("ip link show eth0 | grep -o 'alias .*' | cut -d' ' -f2-");
        linux.detach(&first).unwrap();
        let mark = || {
            run(&format!(
                "ip link set {SOURCE} group {} alias '{}'",
                identity.group(),
                alias.trim()
            ));
        };
        let go = || run(&format!("ip link set {SOURCE} netns {}", one.netns()));
        let steps: [&dyn Fn(); 5] = [
            &|| {},
            // Only one of both marks.
            &|| drop(run(&format!("ip link set {SOURCE} alias '{}'", alias.trim()))),
            &mark,
            &|| {
                mark();
                go();
            },
            &|| {
                mark();
                go();
                one.run(&format!("ip link set {SOURCE} name eth0 address {MAC} mtu 1300"));
            },
        ];
        for (index, step) in steps.iter().enumerate() {
            step();
            linux.detach(&first).unwrap();
            if index > 0 {
                assert_home();
            }
            step();
            let became = linux.attach(&first).unwrap();
            assert_eq!(became.interfaces[0].name.as_str(), "eth0", "step {index}");
            linux.check(&first, &became).unwrap();
            one.run("ping -c1 -W2 10.77.0.1");
            linux.detach(&first).unwrap();
            linux.detach(&first).unwrap();
            assert_home();
        }
        // On its way back: in the host under the name that it had in the container.
        linux.attach(&first).unwrap();
        let held = netlink::Netns::current().unwrap();
        one.run(&format!("ip link set eth0 netns {}", home(&held)));
        run("ip link set eth0 up");
        linux.detach(&first).unwrap();
        assert_home();
        // The container removed the marks, but for one.
        linux.attach(&first).unwrap();
        one.run("ip link set eth0 alias ''");
        assert_eq!(linux.presence(&first), Presence::Alive);
        linux.detach(&first).unwrap();
        assert!(link(&source()).is_some_and(|link| link.group == 0 && link.alias.is_none()));
    });
}

#[test]
fn it_comes_back_where_its_name_is_taken() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let first = external("one", Some("eth"), &one.sandbox);
        let guest = Identity::of(&first.id).guest_link().unwrap();
        for other in ["", "ip link add eth0 type veth peer name eth1"] {
            plugin();
            linux.attach(&first).unwrap();
            run(&format!("ip link add {SOURCE} type veth peer name other"));
            run(if other.is_empty() { "true" } else { other });
            let error = linux.detach(&first).unwrap_err();
            let reported = error.to_string();
            assert!(error.kind() == Kind::Conflict && reported.contains(guest.as_str()), "{error}");
            linux.detach(&first).unwrap();
            let back = link(&guest).unwrap();
            assert!(back.group == 0 && back.mtu == 1450 && !back.flags.is_up());
            assert_eq!(back.alias.as_deref(), Some("theirs"));
            assert!(linux.strays(&|| Ok(Vec::new())).unwrap().is_empty());
            run("ip link delete other; ip link delete cable");
        }
    });
}

#[test]
fn with_its_namespace_it_is_gone() {
    isolated(|| {
        plugin();
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let first = external("one", Some("eth"), &one.sandbox);
        linux.attach(&first).unwrap();
        drop(one);
        run("timeout 10 sh -c 'while ip link show cable; do :; done' >/dev/null 2>&1");
        assert_ne!(linux.presence(&first), Presence::Alive);
        linux.detach(&first).unwrap();
        linux.detach(&first).unwrap();
        assert!(link(&source()).is_none());
    });
}

#[test]
fn a_runtime_that_moves_it_finds_it_where_it_is() {
    isolated(|| {
        plugin();
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let mut first = external("one", Some("eth"), &one.sandbox);
        first.handoff = Handoff::Caller;
        first.runtime = Runtime::Docker;
        let became = linux.attach(&first).unwrap();
        let interface = &became.interfaces[0];
        assert_eq!((interface.name.as_str(), interface.place), (SOURCE, InterfaceNamespace::Host));
        let there = link(&source()).unwrap();
        assert!(there.group == 0 && there.alias.as_deref() == Some("theirs"));
        linux.check(&first, &became).unwrap();
        assert_eq!(linux.presence(&first), Presence::Doubtful);
        run(&format!("ip link set {SOURCE} netns {} name eth3", one.netns()));
        assert_eq!(linux.presence(&first), Presence::Alive);
        linux.check(&first, &became).unwrap();
        linux.detach(&first).unwrap();
        assert!(one.run("ip -br link").contains("eth3"), "its runtime puts it back");
    });
}

#[test]
fn routes_lead_where_the_driver_says() {
    isolated(|| {
        plugin();
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        one.run("ip link add net0 type veth peer name net1; ip link set net0 up");
        one.run("ip link set net1 up; ip address add 10.9.0.2/24 dev net0");
        let mut first = external("one", Some("eth"), &one.sandbox);
        first.addresses[0].gateway = None;
        let route = |dst: &str, via: Option<&str>| {
            Route::new(dst.parse().unwrap(), via.map(|via| via.parse().unwrap()))
        };
        first.routes = vec![
            route("10.50.0.0/16", Some("192.0.2.9")),
            route("10.51.0.0/16", Some("10.77.0.9")),
            route("10.52.0.0/16", Some("10.9.0.7")),
            Route { scope: Some(253), ..route("192.0.2.0/24", None) },
            Route { scope: Some(253), ..route("fd99::/64", None) },
            route("0.0.0.0/0", Some("198.51.100.1")),
            route("::/0", Some("fe80::1")),
        ];
        let became = linux.attach(&first).unwrap();
        let shown = one.run("ip route; ip -6 route");
        for part in [
            "192.0.2.0/24 dev eth0 scope link",
            "fd99::/64 dev eth0",
            "10.50.0.0/16 via 192.0.2.9 dev eth0",
            "10.51.0.0/16 via 10.77.0.9 dev eth0",
            "10.52.0.0/16 via 10.9.0.7 dev net0",
            "198.51.100.1 dev eth0 scope link",
            "default via 198.51.100.1 dev eth0",
            "default via fe80::1 dev eth0",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        linux.check(&first, &became).unwrap();
        linux.detach(&first).unwrap();
        let left = one.run("ip route");
        assert!(!left.contains("10.52") && left.contains("10.9.0.0/24"), "{left}");
    });
}

#[test]
fn neighbours_learn_where_an_address_went() {
    isolated(|| {
        for life in [Life::Long, Life::Short] {
            plugin();
            let linux = Linux::new(life);
            let one = Container::new();
            let first = external("one", Some("eth"), &one.sandbox);
            let stale = "lladdr 02:00:00:00:00:99 nud stale";
            for address in ["10.77.0.2", "fd77::2"] {
                run(&format!("ip neighbour replace {address} {stale} dev cable"));
            }
            linux.attach(&first).unwrap();
            run("timeout 5 sh -c 'while ip neighbour show | grep -q 00:99; do :; done'");
            linux.detach(&first).unwrap();
            run("ip link delete cable");
        }
    });
}

#[test]
fn many_at_once_have_names_of_their_own() {
    isolated(|| {
        const MANY: u16 = 12;
        let one = Container::new();
        for n in 0..MANY {
            run(&format!("ip link add cable{n} type veth peer name plug{n}"));
        }
        let home = netlink::Netns::current().unwrap();
        let names: std::collections::BTreeSet<IfName> = std::thread::scope(|scope| {
            let attach = |n: u16| {
                let (one, home) = (&one, &home);
                scope.spawn(move || {
                    let source = format!("plug{n}").parse().unwrap();
                    let mut made = external("one", Some("eth"), &one.sandbox);
                    made.id.network = format!("net{n}").parse().unwrap();
                    made.addresses.truncate(1);
                    made.addresses[0].address = format!("10.{n}.0.2/24").parse().unwrap();
                    made.addresses[0].gateway = None;
                    let prefix = Some("eth".parse().unwrap());
                    made.wiring.link.as_mut().unwrap().kind =
                        LinkKind::ExternalInterface(ExternalInterface { source, prefix });
                    let linux = Linux::new(Life::Long);
                    let became = home.enter(|| linux.attach(&made)).unwrap().unwrap();
                    became.interfaces[0].name.clone()
                })
            };
            let all: Vec<_> = (0..MANY).map(attach).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let wanted = (0..MANY).map(|n| format!("eth{n}").parse().unwrap()).collect();
        assert_eq!(names, wanted, "the lowest numbers, each once");
    });
}

/// The variable that [`victim`] reads.
const DOING: &str = "SPOKE_TEST_VICTIM";

/// The process that is killed: this program again, with this test alone. By itself it does nothing.
#[test]
fn victim() {
    let Ok(reported) = std::env::var(DOING) else { return };
    let [doing, inode, path] = reported.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!() };
    let sandbox = Sandbox { path: path.into(), inode: inode.parse().unwrap() };
    let linux = Linux::new(Life::Long);
    let first = external("one", Some("eth"), &sandbox);
    match doing {
        "attach" => drop(linux.attach(&first).unwrap()),
        _ => linux.detach(&first).unwrap(),
    }
}

/// Whether it was killed at its `nth` of these system calls, or ended by itself.
fn killed(doing: &str, sandbox: &Sandbox, call: &str, nth: usize) -> bool {
    let reported = format!("{doing} {} {}", sandbox.inode, sandbox.path.display());
    let kill = format!("inject={call}:signal=KILL:when={nth}");
    let status = std::process::Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &kill])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "external::victim", "--test-threads", "1"])
        .env(DOING, reported)
        .stdout(std::process::Stdio::null())
        .status()
        .expect("strace runs (scripts/setup test)");
    !status.success()
}

/// Between any two messages to the kernel and moves between namespaces, there and back.
#[test]
fn killed_at_every_step_it_is_undone_and_gone_on_with() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        let first = external("one", Some("eth"), &one.sandbox);
        plugin();
        // What was never touched stays as it is.
        run(&format!("ip link set {SOURCE} down"));
        for doing in ["attach", "detach"] {
            for call in ["sendto", "setns"] {
                let mut nth = 1;
                loop {
                    if doing == "detach" {
                        linux.attach(&first).unwrap();
                    }
                    let is_over = !killed(doing, &one.sandbox, call, nth);
                    if nth % 2 == 0 {
                        let became = linux.attach(&first).unwrap();
                        linux.check(&first, &became).unwrap();
                    }
                    for _ in 0..2 {
                        linux.detach(&first).unwrap();
                    }
                    assert_home();
                    assert_eq!(one.run("ip -br link").lines().count(), 1, "{doing} {call} {nth}");
                    if is_over {
                        break;
                    }
                    nth += 1;
                }
                assert!(nth > 2, "{doing} was killed at {} of {call} only", nth - 1);
            }
        }
    });
}
