//! What leads a sandbox out, while networks come and go and processes die.

use std::num::NonZeroU16;

use super::common::{book, network, pool, request};
use super::default_gateway_crash::{assert_led, life, live};
use super::plugin_networks::{remote, to};
use super::plugin_world::{Fault, World, become_process};
use engine::{GATEWAY_NETWORK, Garbage, Mode, Request};
use model::*;
use proptest::prelude::*;

pub(crate) const V4: &[Family] = &[Family::V4];
const V6: &[Family] = &[Family::V6];
pub(crate) const BOTH: &[Family] = &[Family::V4, Family::V6];

/// Networks `a` to `d`, of a plugin and of the kernel, with a way out of these families each.
pub(crate) fn world(ways: &[(&str, &[Family])]) -> World {
    let world = World::new();
    for (place, (name, ways)) in ways.iter().enumerate() {
        let mut made = match place % 2 {
            0 => remote(name),
            _ => {
                let subnet = format!("10.{place}.0.0/24");
                network(name, Ipam::Book { pools: vec![pool(name, &subnet, Order::LowestFree)] })
            }
        };
        made.runtime = Runtime::Spoke;
        if place % 2 == 1 {
            let kind = LinkKind::Ptp(Ptp::default());
            made.wiring.link = Some(Link { kind, name: None, mac: None, mtu: None });
        }
        world.engine().networks.create(&made).unwrap();
        world.set_ways(name, ways);
    }
    world.take_log();
    world
}

pub(crate) fn publishing(mut request: Request, ports: &[u16]) -> Request {
    let map = |port: &u16| PortMap {
        host: None,
        host_port: NonZeroU16::new(*port).unwrap(),
        container_port: NonZeroU16::new(80).unwrap(),
        protocol: Protocol::Tcp,
    };
    let ports = ports.iter().map(map).collect();
    request.wiring.publish = Some(Publish { ports, ..Publish::new(Backend::Nftables) });
    request
}

fn gateway_network(world: &World) -> Option<Attachment> {
    let mut all = world.engine().records.attachments().unwrap().into_iter();
    all.find(|record| record.id.network.as_str() == GATEWAY_NETWORK)
}

#[test]
fn the_first_leads_until_a_better_one_comes() {
    let world = world(&[("b", V4), ("c", BOTH), ("a", V6)]);
    let engine = world.engine();
    let first = engine.networks.connect(&to(&world, "b", "s", "eth0"), 0).unwrap();
    assert_eq!(
        first.gateway_role,
        Some(GatewayRole { families: V4.to_vec(), ..GatewayRole::default() })
    );
    assert_eq!(first.runtime, Runtime::Spoke);
    assert_eq!(world.default_gateways("s"), ["b: [V4]"]);
    world.take_log();
    engine.networks.connect(&to(&world, "c", "s", "eth1"), 0).unwrap();
    assert_eq!(world.take_log(), ["attach c", "lead b []", "lead c [V4, V6]"]);
    // One that leads less leads less first.
    engine.networks.connect(&to(&world, "a", "s", "eth2"), 5).unwrap();
    let log = world.take_log();
    assert_eq!(log, ["lease a", "offer a", "attach a", "lead c [V4]", "lead a [V6]"]);
    engine.networks.disconnect(&to(&world, "c", "s", "eth1").id()).unwrap();
    assert_eq!(world.take_log(), ["detach c", "lead b [V4]"]);
    assert_eq!(world.default_gateways("s"), ["a: [V6]", "b: [V4]"]);
    engine.networks.disconnect(&to(&world, "c", "s", "eth1").id()).unwrap();
    for (network, ifname) in [("a", "eth2"), ("b", "eth0")] {
        engine.networks.disconnect(&to(&world, network, "s", ifname).id()).unwrap();
    }
    for network in ["a", "b", "c"] {
        engine.networks.remove(&network.parse().unwrap(), false).unwrap();
    }
    world.assert_empty("all gone");
}

#[test]
fn without_a_way_out_there_is_an_exit_with_the_ports_of_all() {
    let world = world(&[("a", &[]), ("b", &[]), ("c", V6)]);
    let engine = world.engine();
    let first = publishing(to(&world, "a", "s", "eth0"), &[80, 81]);
    engine.networks.connect(&first, 0).unwrap();
    let made = gateway_network(&world).unwrap();
    assert_eq!(
        (made.id.ifname.as_str(), world.default_gateways("s").as_slice()),
        ("eth1", &["gwbridge: [V4]".to_owned()][..])
    );
    let gateway = engine.records.network(&GATEWAY_NETWORK.parse().unwrap()).unwrap();
    let LinkKind::Bridge(bridge) = &gateway.wiring.link.as_ref().unwrap().kind else { panic!() };
    assert!(bridge.port.isolated && bridge.gateway == Gateway::Default);
    assert!(gateway.wiring.masquerade.is_some() && gateway.ipam.families() == V4);
    assert_eq!(made.wiring.publish.unwrap().ports.len(), 2);
    // Another without a way out brings its ports.
    engine.networks.connect(&publishing(to(&world, "b", "s", "eth7"), &[81, 82]), 0).unwrap();
    let again = gateway_network(&world).unwrap();
    assert_eq!(again.wiring.publish.unwrap().ports.len(), 3);
    // Of whatever family, a way out is one.
    engine.networks.connect(&to(&world, "c", "s", "eth8"), -5).unwrap();
    assert!(gateway_network(&world).is_none());
    assert_eq!(world.default_gateways("s"), ["c: [V6]"]);
    engine.networks.disconnect(&to(&world, "c", "s", "eth8").id()).unwrap();
    assert_eq!(gateway_network(&world).unwrap().id.ifname.as_str(), "eth8");
    engine.networks.disconnect(&to(&world, "a", "s", "eth0").id()).unwrap();
    assert_eq!(world.served("s"), ["gwbridge: [80, 81, 82]"], "they are the sandbox's");
    // With the last one it goes, and its network stays.
    engine.networks.disconnect(&to(&world, "b", "s", "eth7").id()).unwrap();
    assert!(
        engine.records.attachments().unwrap().is_empty()
            && engine.records.ports().unwrap().is_empty()
    );
    assert_eq!(engine.records.network(&gateway.name).unwrap(), gateway);
}

#[test]
fn a_sandbox_that_is_gone_needs_no_way_out() {
    let world = world(&[("a", V4), ("b", V4)]);
    let engine = world.engine();
    let (a, b) = (to(&world, "a", "s", "eth0"), to(&world, "b", "s", "eth1"));
    for request in [&a, &b] {
        engine.networks.connect(request, 0).unwrap();
    }
    // Before and after `a` is detached and its address released, and then before `b` leads.
    let fault = Fault::Fails(4);
    let (came, done) = world.with(fault, || engine.networks.disconnect(&a.id()));
    assert!(came && done.unwrap().is_err(), "the container on it hears that it has no way out");
    engine.networks.connect(&a, 0).unwrap();
    world.gone.lock().unwrap().insert(b.id());
    let (came, done) = world.with(fault, || engine.networks.disconnect(&a.id()));
    assert!(came, "it is tried");
    done.unwrap().unwrap();
    engine.networks.disconnect(&b.id()).unwrap();
    for network in ["a", "b"] {
        engine.networks.remove(&network.parse().unwrap(), false).unwrap();
    }
    world.assert_empty("all gone");
}

#[test]
fn who_wants_none_gets_none() {
    let world = world(&[("a", &[]), ("b", &[])]);
    let engine = world.engine();
    world.keeps_in.lock().unwrap().insert("a".to_owned());
    engine.networks.connect(&to(&world, "a", "s", "eth0"), 0).unwrap();
    assert!(gateway_network(&world).is_none() && world.default_gateways("s").is_empty());
    let mut inner = to(&world, "b", "t", "eth0");
    inner.wiring.firewall =
        Some(Firewall { egress: EgressPolicy::Internal, ..Firewall::open(Backend::Nftables) });
    engine.networks.connect(&inner, 0).unwrap();
    assert!(gateway_network(&world).is_none() && world.default_gateways("t").is_empty());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let world = world(&[("a", &[])]);
    let engine = world.engine();
    engine.networks.connect(&to(&world, "a", "s", "eth0"), 0).unwrap();
    let homeless = Request { sandbox: None, ..to(&world, "a", "t", "eth0") };
    let partly = Request { layer: Layer::Publish, ..to(&world, "a", "t", "eth0") };
    let gateway_network = to(&world, GATEWAY_NETWORK, "t", "eth0");
    for senseless in [homeless, partly, gateway_network] {
        assert_eq!(engine.networks.connect(&senseless, 0).unwrap_err().kind(), Kind::Invalid);
    }
    let twice = engine.networks.connect(&to(&world, "a", "s", "eth0"), 0).unwrap_err();
    assert_eq!(twice.kind(), Kind::Conflict);
    assert!(world.default_gateways("s") == ["gwbridge: [V4]"], "what was there stays");
}

/// What a name stands for already is used if it can be.
#[test]
fn an_exit_of_another_program_is_used_or_refused() {
    let world = world(&[("a", &[])]);
    let engine = world.engine();
    let mut given = book("10.77.0.0/24");
    given.name = GATEWAY_NETWORK.parse().unwrap();
    engine.networks.create(&given).unwrap();
    let error = engine.networks.connect(&to(&world, "a", "s", "eth0"), 0).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    assert!(engine.records.attachments().unwrap().is_empty() && world.state().made.is_empty());
    engine.networks.remove(&given.name, false).unwrap();
    engine.networks.connect(&to(&world, "a", "s", "eth0"), 0).unwrap();
    let error = engine.networks.remove(&given.name, true).unwrap_err();
    assert!(error.kind() == Kind::Conflict && gateway_network(&world).is_some(), "it is needed");
}

#[test]
fn an_unled_sandbox_is_found() {
    let world = life();
    let engine = world.engine();
    live(&world, 1).unwrap();
    world.gone.lock().unwrap().insert(to(&world, "b", "s", "eth1").id());
    live(&world, 0).unwrap();
    assert_led(&world, &["b: [V4]"], "before the repair");
    let found = engine.repair.reconcile(Mode::Mend).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[1].what, Garbage::Sandbox("s".parse().unwrap()));
    assert_led(&world, &["gwbridge: [V4]"], "mended");
    assert!(engine.repair.reconcile(Mode::Mend).unwrap().is_empty());
}

/// Where links prove nothing, the namespace's own end does, and nothing else.
#[test]
fn a_namespace_that_ended_is_proof_of_death() {
    let world = world(&[("a", V4)]);
    let engine = world.engine();
    engine.networks.connect(&to(&world, "a", "s", "eth0"), 0).unwrap();
    let other = Request {
        sandbox: Some(Sandbox { path: "/run/netns/t".into(), inode: 2 }),
        ..to(&world, "a", "t", "eth0")
    };
    engine.networks.connect(&other, 0).unwrap();
    world.unseen.lock().unwrap().extend([to(&world, "a", "s", "eth0").id(), other.id()]);
    let found = engine.repair.reconcile(Mode::Mend).unwrap();
    assert!(found.iter().all(|it| matches!(it.what, Garbage::Doubtful(_))), "{found:?}");
    assert_eq!(engine.records.attachments().unwrap().len(), 2);
    world.ended.lock().unwrap().insert(2);
    engine.repair.reconcile(Mode::Mend).unwrap();
    let left = engine.records.attachments().unwrap();
    assert_eq!(left.iter().map(|it| it.id.container.as_str()).collect::<Vec<_>>(), ["s"]);
}

/// Processes that connect one sandbox at once agree on what leads it.
#[test]
fn processes_that_connect_at_once_agree() {
    for round in 0..20 {
        let world = world(&[("a", &[]), ("b", V4), ("c", BOTH), ("d", V6)]);
        let connect = |pid: u32, name: &'static str, priority: i32| {
            let world = &world;
            move || {
                become_process(pid);
                let ifname = format!("net{pid}");
                world.engine().networks.connect(&to(world, name, "s", &ifname), priority).unwrap();
                ifname
            }
        };
        let names = std::thread::scope(|scope| {
            let all = [("a", 0), ("b", 3), ("c", 2), ("d", 1)];
            let threads: Vec<_> = (2..)
                .zip(all)
                .map(|(pid, (name, priority))| (name, scope.spawn(connect(pid, name, priority))))
                .collect();
            threads.into_iter().map(|(name, it)| (name, it.join().unwrap())).collect::<Vec<_>>()
        });
        assert_led(&world, &["b: [V4]", "c: [V6]"], &format!("round {round}"));
        assert!(gateway_network(&world).is_none());
        std::thread::scope(|scope| {
            for (pid, (name, ifname)) in (10..).zip(names) {
                let world = &world;
                scope.spawn(move || {
                    become_process(pid);
                    world
                        .engine()
                        .networks
                        .disconnect(&to(world, name, "s", &ifname).id())
                        .unwrap();
                });
            }
        });
        for network in ["a", "b", "c", "d"] {
            world.engine().networks.remove(&network.parse().unwrap(), false).unwrap();
        }
        world.assert_empty(&format!("round {round}"));
    }
}

/// The choice, made slowly: one after the other of all that are there.
fn expected(members: &[(usize, i32)]) -> Vec<String> {
    let ways = [&[][..], V4, BOTH, V6];
    let names = ["a", "b", "c", "d"];
    let mut sorted = members.to_vec();
    let rank = |it: &(usize, i32)| {
        let order = match ways[it.0] {
            BOTH => 0,
            V6 => 1,
            V4 => 2,
            _ => 3,
        };
        (-it.1, order, names[it.0])
    };
    sorted.sort_by_key(rank);
    let leader = |family: &Family| sorted.iter().find(|it| ways[it.0].contains(family));
    let led = |it: &(usize, i32)| {
        let its: Vec<_> = BOTH.iter().filter(|family| leader(family) == Some(it)).collect();
        (!its.is_empty()).then(|| format!("{}: {its:?}", names[it.0]))
    };
    let mut all: Vec<String> = sorted.iter().filter_map(led).collect();
    if all.is_empty() && !sorted.is_empty() {
        all.push("gwbridge: [V4]".into());
    }
    all.sort();
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any order of coming and going, with a failure or a death now and then.
    #[test]
    fn whatever_happens_the_sandbox_is_led_as_is_chosen(
        steps in prop::collection::vec((0usize..4, any::<bool>(), -1i32..=1, 0u8..10, 0usize..40), 1..12),
    ) {
        let world = world(&[("a", &[]), ("b", V4), ("c", BOTH), ("d", V6)]);
        let names = ["a", "b", "c", "d"];
        for (which, is_coming, priority, luck, point) in steps {
            let name = names[which];
            let asked = to(&world, name, "s", &format!("net{which}"));
            let fault = match luck {
                0 => Fault::Fails(point),
                1 => Fault::Kills(point),
                _ => Fault::None,
            };
            world.with(fault, || match is_coming {
                true => world.engine().networks.connect(&asked, priority).map(|_| ()),
                false => world.engine().networks.disconnect(&asked.id()),
            });
            if luck < 2 {
                world.engine().repair.reconcile(Mode::Mend).unwrap();
            }
            let records = world.engine().records.attachments().unwrap();
            let members: Vec<(usize, i32)> = records
                .iter()
                .filter_map(|record| {
                    let place = names.iter().position(|it| record.id.network.as_str() == *it)?;
                    Some((place, record.gateway_role.as_ref()?.priority))
                })
                .collect();
            let mut led = world.default_gateways("s");
            led.sort();
            prop_assert_eq!(led, expected(&members));
        }
        for name in names {
            world.engine().networks.remove(&name.parse().unwrap(), true).unwrap();
        }
        world.assert_empty("all gone");
    }
}

/// Whom others connect leads as ever, and is none of a sandbox of ours.
#[test]
fn who_is_attached_by_others_is_left_alone() {
    let world = life();
    let engine = world.engine();
    let made = engine.attachments.attach(&to(&world, "b", "s", "eth9")).unwrap();
    assert_eq!((made.gateway_role, world.default_gateways("s").len()), (None, 0));
    live(&world, 0).unwrap();
    assert_eq!(world.default_gateways("s"), ["gwbridge: [V4]"]);
    engine
        .links
        .detach(&request(&engine.records.network(&"b".parse().unwrap()).unwrap(), "t"))
        .unwrap();
}
