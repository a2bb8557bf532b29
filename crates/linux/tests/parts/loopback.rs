//! `route_localnet` of a bridge: set while a container behind it has a port at the host's loopback
//! addresses, and then what it was before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use engine::port::{Driver, HostDataplane, Stray};
use linux::identity::Identity;
use linux::{Life, Linux};
use model::*;
use netlink::Netns;

use crate::bed::{Container, attachment, bridge, isolated, published, run};

const BACKENDS: [Backend; 2] = [Backend::Nftables, Backend::Iptables];
/// What is in an interface's tag while the parameter is ours, and while it is set back: `spok`, and the
/// next number.
const OURS: &str = "1936748395";
const LEAVING: &str = "1936748396";

fn publisher(number: u8, backend: Backend, container: &Container) -> Attachment {
    let name = format!("c{number}");
    let address = format!("10.88.0.{}/24", number + 1);
    let mut one = attachment(&name, bridge(), &address, &container.sandbox);
    one.wiring.masquerade = Some(Masquerade::new(backend));
    one.wiring.publish = Some(Publish { backend, ..published(8000 + u16::from(number)) });
    one
}

fn at(host: &str, mut publisher: Attachment) -> Attachment {
    for port in &mut publisher.wiring.publish.as_mut().unwrap().ports {
        port.host = Some(host.parse().unwrap());
    }
    publisher
}

fn value(interface: &str, name: &str) -> String {
    run(&format!("cat /proc/sys/net/ipv4/conf/{interface}/{name}")).trim().to_owned()
}

#[track_caller]
fn assert_open(open: bool) {
    assert_eq!(value("br0", "route_localnet"), if open { "1" } else { "0" });
    assert_eq!(value("br0", "tag"), if open { OURS } else { "0" });
}

#[test]
fn goes_with_the_last_that_needs_it() {
    for (first, second) in
        [(BACKENDS[0], BACKENDS[0]), (BACKENDS[1], BACKENDS[1]), (BACKENDS[0], BACKENDS[1])]
    {
        isolated(move || {
            let linux = Linux::new(Life::Long);
            let [one, two, three] = [(); 3].map(|()| Container::new());
            let first = publisher(1, first, &one);
            let second = at("127.0.0.1", publisher(2, second, &two));
            let third = at(
                "192.0.2.1",
                publisher(3, second.wiring.publish.as_ref().unwrap().backend, &three),
            );
            linux.attach(&third).unwrap();
            assert_open(false);
            for attachment in [&first, &second] {
                linux.attach(attachment).unwrap();
                assert_open(true);
            }
            linux.detach(&first).unwrap();
            assert_open(true);
            linux.detach(&second).unwrap();
            assert_open(false);
            assert!(!run("nft list table inet spoke").contains("via/br0"));
            linux.detach(&third).unwrap();
            linux.detach(&first).unwrap();
            assert_open(false);
        });
    }
}

#[test]
fn what_the_administrator_set_stays() {
    for backend in BACKENDS {
        isolated(move || {
            let linux = Linux::new(Life::Long);
            let one = Container::new();
            let first = publisher(1, backend, &one);
            run("ip link add br0 type bridge; ip address add 10.88.0.1/24 dev br0
                 sysctl -qw net.ipv4.conf.br0.route_localnet=1");
            linux.attach(&first).unwrap();
            linux.detach(&first).unwrap();
            assert_eq!([value("br0", "route_localnet"), value("br0", "tag")], ["1", "0"]);
            // Another program's number is not ours to change.
            run("sysctl -qw net.ipv4.conf.br0.route_localnet=0 net.ipv4.conf.br0.tag=7");
            linux.attach(&first).unwrap();
            linux.detach(&first).unwrap();
            assert_eq!([value("br0", "route_localnet"), value("br0", "tag")], ["1", "7"]);
        });
    }
}

#[test]
fn a_flushed_filter_and_a_lost_record_are_survived() {
    for backend in BACKENDS {
        isolated(move || {
            let linux = Linux::new(Life::Long);
            let [one, two] = [(); 2].map(|()| Container::new());
            let [first, second] = [publisher(1, backend, &one), publisher(2, backend, &two)];
            linux.attach(&first).unwrap();
            linux.attach(&second).unwrap();
            run("nft flush ruleset");
            linux.detach(&first).unwrap();
            assert!(linux.restore(&second).unwrap());
            assert_open(true);
            assert!(!linux.restore(&second).unwrap());
            let identity = Identity::of(&second.id);
            run(&format!("ip link delete {}", identity.host_link().unwrap()));
            let strays = linux.strays(&|| Ok(Vec::new())).unwrap();
            assert_eq!(strays.len(), 1, "{strays:?}");
            for (stray, _) in &strays {
                assert!(matches!(stray, Stray::Elements(_)));
                linux.remove_stray(stray).unwrap();
            }
            assert_open(false);
        });
    }
}

/// As a process leaves it that is killed between two of its steps.
#[test]
fn any_step_that_a_killed_process_did_not_reach_is_made_up_for() {
    for backend in BACKENDS {
        for (tag, is_open) in [(OURS, "0"), (LEAVING, "1"), (LEAVING, "0"), ("0", "0")] {
            isolated(move || {
                let linux = Linux::new(Life::Long);
                let [one, two] = [(); 2].map(|()| Container::new());
                let [first, second] = [publisher(1, backend, &one), publisher(2, backend, &two)];
                let killed = || {
                    run(&format!(
                        "sysctl -qw net.ipv4.conf.br0.tag={tag} \
                         net.ipv4.conf.br0.route_localnet={is_open}"
                    ));
                };
                linux.attach(&first).unwrap();
                killed();
                linux.attach(&second).unwrap();
                assert_open(true);
                linux.detach(&first).unwrap();
                assert_open(true);
                linux.detach(&second).unwrap();
                killed();
                linux.detach(&second).unwrap();
                assert_open(false);
            });
        }
    }
}

#[test]
fn a_container_that_comes_while_the_last_leaves_finds_it_open() {
    for backend in BACKENDS {
        isolated(move || {
            let here = Netns::current().unwrap();
            let [one, containers @ ..] = [(); 5].map(|()| Container::new());
            let keeper = publisher(9, backend, &one);
            Linux::new(Life::Childless).attach(&keeper).unwrap();
            let wrong = AtomicBool::new(false);
            thread::scope(|scope| {
                for (number, container) in (1..).zip(&containers) {
                    let (here, wrong) = (&here, &wrong);
                    scope.spawn(move || {
                        let publisher = publisher(number, backend, container);
                        let come_and_go = || {
                            let linux = Linux::new(Life::Childless);
                            linux.attach(&publisher).unwrap();
                            wrong
                                .fetch_or(value("br0", "route_localnet") != "1", Ordering::Relaxed);
                            linux.detach(&publisher).unwrap();
                        };
                        (0..8).for_each(|_| here.enter(come_and_go).unwrap());
                    });
                }
                here.enter(|| Linux::new(Life::Childless).detach(&keeper)).unwrap().unwrap();
            });
            assert!(!wrong.into_inner(), "a port was not reached at the loopback addresses");
            assert_open(false);
        });
    }
}

/// An attachment that leads its sandbox out no more publishes nothing.
#[test]
fn goes_with_the_gateway() {
    isolated(|| {
        let linux = Linux::new(Life::Long);
        let one = Container::new();
        for backend in BACKENDS {
            let first = publisher(1, backend, &one);
            linux.attach(&first).unwrap();
            assert_open(true);
            linux.set_gateway(&first, &[]).unwrap();
            assert_open(false);
            linux.set_gateway(&first, &[Family::V4]).unwrap();
            assert_open(true);
            linux.detach(&first).unwrap();
            assert_open(false);
        }
    });
}
