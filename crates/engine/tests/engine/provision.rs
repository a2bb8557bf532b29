//! Networks that are provisioned in plugins.

use super::common::{book, network, pool, request};
use super::plugin_networks::{mixed, remote, remote_ipam, to};
use super::plugin_world::{Fault, World, become_process};
use engine::{Garbage, Mode};
use model::*;

fn name(network: &str) -> NetworkName {
    network.parse().unwrap()
}

/// Without what goes wrong it goes well: no fault comes after so many points.
const MANY: usize = 200;

#[test]
fn the_order_is_dockers() {
    let world = World::new();
    let engine = world.engine();
    engine.networks.create(&remote("n")).unwrap();
    assert_eq!(world.take_log(), ["request n", "create n"]);
    let made = engine.records.network(&name("n")).unwrap();
    assert!(made.stage.is_made());
    let pools = &made.ipam.remote().unwrap().pools;
    assert_eq!(pools[0].given.as_ref().unwrap().net, "10.9.0.0/24".parse::<IpNet>().unwrap());
    let asked = request(&made, "a");
    let attached = engine.attachments.attach(&asked).unwrap();
    assert_eq!(world.take_log(), ["lease n", "offer n", "attach n"]);
    assert_eq!(attached.leases[0].space, Space::Network(name("n")));
    assert_eq!(attached.leases[0].address.prefix_len(), 24);
    assert_eq!(engine.networks.remove(&name("n"), false).unwrap_err().kind(), Kind::Conflict);
    assert!(
        engine.records.network(&name("n")).unwrap().stage.is_made() && world.take_log().is_empty()
    );
    engine.links.detach(&asked).unwrap();
    assert_eq!(world.take_log(), ["detach n", "release n"]);
    engine.links.detach(&asked).unwrap();
    assert_eq!(world.take_log(), ["detach n", "release n"], "also without a record");
    engine.networks.remove(&name("n"), false).unwrap();
    assert_eq!(world.take_log(), ["give n back", "remove n"]);
    world.assert_empty("removed");
}

#[test]
fn containers_on_it_go_first_where_that_is_wanted() {
    let world = World::new();
    let engine = world.engine();
    engine.networks.create(&remote("n")).unwrap();
    engine.attachments.attach(&to(&world, "n", "a", "eth0")).unwrap();
    engine.networks.connect(&to(&world, "n", "b", "eth0"), 0).unwrap();
    world.take_log();
    engine.networks.remove(&name("n"), true).unwrap();
    let log = world.take_log();
    assert_eq!(log[log.len() - 2..], ["give n back", "remove n"]);
    world.assert_empty("all gone");
}

#[test]
fn what_fails_while_it_is_made_leaves_nothing() {
    for make in [remote, mixed] {
        let mut came = 0;
        for point in 0..MANY {
            let world = World::new();
            let engine = world.engine();
            let (is_hit, made) =
                world.with(Fault::Fails(point), || engine.networks.create(&make("n")));
            if !is_hit {
                break;
            }
            came += 1;
            made.unwrap().unwrap_err();
            world.assert_empty(&format!("{point}: {:?}", world.take_log()));
            engine.networks.create(&make("n")).unwrap();
        }
        assert!(came >= 2, "{came}");
    }
}

#[test]
fn the_way_back_is_dockers() {
    let world = World::new();
    let (_, made) = world.with(Fault::Fails(3), || world.engine().networks.create(&remote("n")));
    assert_eq!(made.unwrap().unwrap_err().to_string(), "create n fails");
    assert_eq!(world.take_log(), ["request n", "create n", "remove n", "give n back"]);
}

/// What of a killed process is found by the next one that makes it, or by the reconciler.
#[test]
fn who_is_killed_while_it_is_made_leaves_what_is_found() {
    for is_made_again in [true, false] {
        let mut came = 0;
        for point in 0..MANY {
            let world = World::new();
            let engine = world.engine();
            let (is_hit, made) =
                world.with(Fault::Kills(point), || engine.networks.create(&remote("n")));
            if !is_hit {
                break;
            }
            assert!(made.is_none());
            came += 1;
            let left = engine.records.network(&name("n"));
            let is_whole = left.as_ref().is_ok_and(|network| network.stage.is_made());
            if let (Ok(left), false) = (&left, is_whole) {
                let refused = engine.attachments.attach(&request(left, "a")).unwrap_err();
                assert_eq!(refused.kind(), Kind::TryAgain, "{refused}");
            }
            match (is_made_again, is_whole) {
                (true, false) => engine.networks.create(&remote("n")).unwrap(),
                (false, false) => {
                    let seen = engine.repair.reconcile(Mode::DryRun).unwrap();
                    assert_eq!(engine.repair.reconcile(Mode::Mend).unwrap(), seen);
                    assert_eq!(seen.len(), left.iter().len(), "{point}");
                    world.assert_empty(&format!("{point}"));
                    continue;
                }
                (_, true) => {}
            }
            engine.attachments.attach(&to(&world, "n", "a", "eth0")).unwrap();
            engine.networks.remove(&name("n"), true).unwrap();
            world.assert_empty(&format!("{point}"));
        }
        assert!(came > 8, "{came}");
    }
}

#[test]
fn what_fails_while_it_is_removed_can_be_repeated() {
    for is_killed in [true, false] {
        for is_repeated in [true, false] {
            for point in 0..MANY {
                let world = World::new();
                let engine = world.engine();
                engine.networks.create(&remote("n")).unwrap();
                engine.attachments.attach(&to(&world, "n", "a", "eth0")).unwrap();
                let fault = if is_killed { Fault::Kills(point) } else { Fault::Fails(point) };
                let (is_hit, _) = world.with(fault, || engine.networks.remove(&name("n"), true));
                if !is_hit {
                    break;
                }
                let is_there = engine.records.network(&name("n")).is_ok();
                let is_begun =
                    is_there && !engine.records.network(&name("n")).unwrap().stage.is_made();
                if is_repeated || (is_there && !is_begun) {
                    let again = engine.networks.remove(&name("n"), true);
                    assert_eq!(again.is_ok(), is_there, "{fault:?} {again:?}");
                } else {
                    engine.repair.reconcile(Mode::Mend).unwrap();
                }
                world.assert_empty(&format!("{fault:?}"));
            }
        }
    }
}

#[test]
fn no_container_uses_a_half() {
    let world = World::new();
    let engine = world.engine();
    engine.networks.create(&remote("n")).unwrap();
    let whole = engine.records.network(&name("n")).unwrap();
    let by = Process { pid: 77, start: 1 };
    let unmaking = |why| Stage::Unmaking { by, why };
    for (stage, kind, said) in [
        (Stage::Making { by }, Kind::TryAgain, "being made"),
        (unmaking(Unmaking::Removed), Kind::TryAgain, "being removed"),
        (unmaking(Unmaking::Renamed), Kind::TryAgain, "being renamed"),
        (Stage::Failed, Kind::TryAgain, "half-way"),
        (Stage::Template, Kind::Invalid, "only a configuration"),
    ] {
        put(&world, &Network { stage, ..whole.clone() });
        // Also where the front end has read the record before.
        let error = engine.attachments.attach(&request(&whole, "a")).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(said), "{error}");
        if matches!(stage, Stage::Making { .. } | Stage::Unmaking { .. }) {
            let error = engine.networks.remove(&name("n"), true).unwrap_err();
            assert_eq!(error.kind(), Kind::TryAgain);
            assert_eq!(engine.networks.create(&whole).unwrap_err().kind(), Kind::TryAgain);
        }
    }
    // Made anew with other pools, or not there at all.
    let mut other = remote("n");
    other.ipam = remote_ipam();
    put(&world, &other);
    assert_eq!(
        engine.attachments.attach(&request(&whole, "a")).unwrap_err().kind(),
        Kind::TryAgain
    );
    let error = engine.attachments.attach(&request(&remote("m"), "a")).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
}

fn put(world: &World, network: &Network) {
    use engine::port::{Key, Outcome, Record, Store, Txn};
    let key = Key::Network(network.name.clone());
    let txn = Txn::new().put(key, Record::Network(Box::new(network.clone())));
    assert!(matches!(world.commit(&txn).unwrap(), Outcome::Done(_)));
}

#[test]
fn a_template_holds_nothing() {
    let world = World::new();
    let engine = world.engine();
    let template = Network { stage: Stage::Template, ..remote("t") };
    engine.networks.create(&template).unwrap();
    assert_eq!(engine.networks.create(&template).unwrap_err().kind(), Kind::Conflict);
    let (same, other) = (book("10.0.0.0/24"), network("back", Ipam::None));
    engine.networks.create(&Network { stage: Stage::Template, name: name("b"), ..same }).unwrap();
    engine.networks.create(&book("10.0.0.0/24")).unwrap();
    engine.networks.create(&other).unwrap();
    assert_eq!(
        engine.attachments.attach(&request(&template, "a")).unwrap_err().kind(),
        Kind::Invalid
    );
    engine.networks.remove(&name("t"), false).unwrap();
    assert_eq!(engine.records.network(&name("t")).unwrap_err().kind(), Kind::NotFound);
    assert!(world.take_log().is_empty());
}

#[test]
fn networks_are_made_from_templates() {
    let mut template = remote("t");
    template.stage = Stage::Template;
    let made = template.instance(name("n"), Runtime::Spoke, Timestamp(9));
    assert!(made.stage.is_made() && made.ipam == template.ipam && made.wiring == template.wiring);
    let mut held =
        network("t", Ipam::Book { pools: vec![pool("t", "10.0.0.0/24", Order::LowestFree)] });
    held.stage = Stage::Template;
    let made = held.instance(name("n"), Runtime::Spoke, Timestamp(9));
    assert_eq!(made.ipam.pools()[0].id.network, name("n"));
}

/// A driver's network leads where it likes; a bridge of this host does not.
#[test]
fn what_this_host_routes_does_not_overlap() {
    let world = World::new();
    let engine = world.engine();
    engine.networks.create(&remote("a")).unwrap();
    engine.networks.create(&remote("b")).unwrap();
    engine.networks.create(&mixed("c")).unwrap();
    world.take_log();
    let error = engine.networks.create(&mixed("d")).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    assert_eq!(world.take_log(), ["request d", "give d back"], "not known before");
    assert_eq!(engine.records.network(&name("d")).unwrap_err().kind(), Kind::NotFound);
    let mut requested = mixed("d");
    let Ipam::Remote(ipam) = &mut requested.ipam else { unreachable!() };
    ipam.pools[0].net = Some("10.9.0.128/25".parse().unwrap());
    assert_eq!(engine.networks.create(&requested).unwrap_err().kind(), Kind::Conflict);
    assert!(world.take_log().is_empty(), "known before");
    assert_eq!(engine.networks.create(&book("10.9.0.0/16")).unwrap_err().kind(), Kind::Conflict);
    // Nor is such a subnet chosen for another.
    let refused = engine.subnets.occupancy().unwrap().refused;
    assert_eq!(refused.len(), 1);
}

#[test]
fn an_address_that_another_has_is_given_back() {
    let world = World::new();
    let engine = world.engine();
    engine.networks.create(&mixed("n")).unwrap();
    // Another container took it before the network was made.
    let mut other = request(&network("static", Ipam::None), "b");
    let address = "10.9.0.5/24".parse().unwrap();
    let lease = Lease { space: Space::Host, pool: None, address, gateway: None };
    other.ipam = Ipam::Fixed { leases: vec![lease] };
    engine.attachments.attach(&other).unwrap();
    let before = world.state();
    for wanted in [vec!["10.9.0.5".parse().unwrap()], vec![]] {
        *world.subnet.lock().unwrap() = "10.9.0.0/24".parse().unwrap();
        let mut asked = to(&world, "n", "a", "eth0");
        asked.wanted = wanted;
        if asked.wanted.is_empty() {
            // What it gives next.
            world.give_next(4);
        }
        let error = engine.attachments.attach(&asked).unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict);
        assert!(error.to_string().contains("container b"), "{error}");
        assert_eq!(world.state(), before);
        assert_eq!(engine.records.attachments().unwrap().len(), 1);
    }
    let mut asked = to(&world, "n", "a", "eth0");
    asked.wanted = vec!["10.9.0.77".parse().unwrap()];
    let made = engine.attachments.attach(&asked).unwrap();
    assert_eq!(made.leases[0].address, "10.9.0.77/24".parse().unwrap());
    assert_eq!(made.addresses[0].address, "10.9.0.77/24".parse().unwrap());
    assert_eq!(engine.records.holders().unwrap().len(), 2);
}

#[test]
fn every_failure_of_an_attach_leaves_nothing() {
    for make in [remote, mixed] {
        let mut came = 0;
        for point in 0..MANY {
            let world = World::new();
            let engine = world.engine();
            engine.networks.create(&make("n")).unwrap();
            let before = world.state();
            let asked = to(&world, "n", "a", "eth0");
            let (is_hit, made) =
                world.with(Fault::Fails(point), || engine.attachments.attach(&asked));
            if !is_hit {
                break;
            }
            came += 1;
            made.unwrap().unwrap_err();
            assert_eq!(world.state(), before, "{point}");
            assert!(engine.records.attachments().unwrap().is_empty(), "{point}");
            assert!(engine.records.holders().unwrap().is_empty(), "{point}");
        }
        assert!(came >= 4, "{came}");
    }
}

/// What a dead process got is not asked for again: it is given back.
#[test]
fn every_kill_in_an_attach_is_mended_by_the_next() {
    let mut came = 0;
    for point in 0..MANY {
        let world = World::new();
        let engine = world.engine();
        engine.networks.create(&remote("n")).unwrap();
        let asked = to(&world, "n", "a", "eth0");
        let (is_hit, _) = world.with(Fault::Kills(point), || engine.attachments.attach(&asked));
        if !is_hit {
            break;
        }
        came += 1;
        let is_whole = |record: &Attachment| matches!(record.phase, Phase::Attached(_));
        if !engine.records.attachments().unwrap().iter().any(is_whole) {
            engine.attachments.attach(&asked).unwrap();
        }
        assert_eq!(world.state().addresses.len(), 1);
        assert_eq!(engine.records.holders().unwrap().len(), 1);
        engine.networks.remove(&name("n"), true).unwrap();
        world.assert_empty(&format!("{point}"));
    }
    assert!(came > 10, "{came}");
}

/// Either a container is on the network, or it is gone; never both.
#[test]
fn who_comes_while_it_goes_is_refused() {
    for round in 0..50 {
        let world = World::new();
        world.engine().networks.create(&remote("n")).unwrap();
        let asked = to(&world, "n", "a", "eth0");
        let (made, removed) = std::thread::scope(|scope| {
            let attacher = scope.spawn(|| {
                become_process(2);
                world.engine().attachments.attach(&asked).map(|_| ())
            });
            let remover = scope.spawn(|| {
                become_process(3);
                world.engine().networks.remove(&name("n"), false)
            });
            (attacher.join().unwrap(), remover.join().unwrap())
        });
        let state = world.state();
        assert_eq!(made.is_ok(), removed.is_err(), "{round}: {made:?} {removed:?}");
        assert_eq!(state.networks.len(), made.iter().len());
        assert_eq!(state.made.len(), made.iter().len());
        assert!(world.engine().records.networks().unwrap().iter().all(|it| it.stage.is_made()));
    }
}

#[test]
fn of_two_that_make_it_one_does() {
    for _ in 0..50 {
        let world = World::new();
        let made: Vec<Result<()>> = std::thread::scope(|scope| {
            let makers: Vec<_> = (2..6)
                .map(|pid| {
                    let world = &world;
                    scope.spawn(move || {
                        become_process(pid);
                        world.engine().networks.create(&remote("n"))
                    })
                })
                .collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect()
        });
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
        world.engine().networks.remove(&name("n"), false).unwrap();
        world.assert_empty("removed");
    }
}

#[test]
fn a_half_that_cannot_be_taken_down_stays_known() {
    let world = World::new();
    let engine = world.engine();
    engine.networks.create(&remote("n")).unwrap();
    let (_, removed) = world.with(Fault::Fails(0), || engine.networks.remove(&name("n"), false));
    assert_eq!(
        removed.unwrap().unwrap_err().to_string(),
        "taking network n down: give n back fails"
    );
    assert_eq!(engine.records.network(&name("n")).unwrap().stage, Stage::Failed);
    let seen = engine.repair.reconcile(Mode::Mend).unwrap();
    assert_eq!(seen[0].what, Garbage::Network(name("n")));
    world.assert_empty("mended");
}
