//! Networks under ids of runtimes: made, shared, forgotten.

use super::common::{network as plain, request};
use super::endpoint_world::*;
use super::subnet_rig::{for_network, wanting};
use engine::port::{Damaged, Key, Outcome, Store, Txn};
use engine::{Engine, Garbage, Mode, SubnetSpec};
use model::*;

fn reserve(engine: &Engine<'_>, network: &Network, container: &str, last: u8, under: &str) {
    engine.attachments.reserve(&both(network, container, last), &id(under)).unwrap();
}

#[test]
fn the_last_id_takes_the_network_with_it() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = front();
        assert_eq!(engine.networks.enroll(&alias("n", &network), &network).unwrap(), network);
        assert_eq!(rig.calls(), ["up front"]);
        engine.networks.enroll(&alias("m", &network), &network).unwrap();
        let again = engine.networks.create(&network).unwrap_err().to_string();
        assert!(again.contains("exists"), "{again}");
        reserve(engine, &network, "a", 2, "n");
        reserve(engine, &network, "b", 3, "m");
        engine.networks.withdraw(&id("n")).unwrap();
        let left: Vec<_> =
            engine.records.attachments().unwrap().into_iter().map(|a| a.alias).collect();
        assert_eq!(left, [Some(id("m"))], "only what was made under that id");
        assert!(rig.kernel().bridges.contains(&network.name));
        engine.networks.withdraw(&id("m")).unwrap();
        assert!(
            engine.records.networks().unwrap().is_empty()
                && engine.records.aliases().unwrap().is_empty()
        );
        assert!(rig.kernel().bridges.is_empty());
    });
}

/// Where no host can have the address that packets are to leave with. A network that is there stays, whatever becomes of
/// the address.
#[test]
fn a_network_that_nothing_would_answer_is_not_made() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = front();
        *rig.fails.lock().unwrap() = Some("refuse_sources");
        engine.networks.create(&network).unwrap_err();
        engine.networks.enroll(&alias("n", &network), &network).unwrap_err();
        assert!(engine.records.networks().unwrap().is_empty() && rig.calls().is_empty());
        *rig.fails.lock().unwrap() = None;
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        *rig.fails.lock().unwrap() = Some("refuse_sources");
        engine.networks.enroll(&alias("m", &network), &network).unwrap();
        reserve(engine, &network, "a", 2, "n");
    });
}

/// The daemon notes what Docker calls a network while its first container starts.
#[test]
fn a_title_that_comes_meanwhile_keeps_no_network_off() {
    let rig = Rig::new();
    let network = front();
    rig.with(|engine| engine.networks.enroll(&alias("n", &network), &network)).unwrap();
    *rig.before_turn.lock().unwrap() = Some(Box::new(|rig| {
        rig.with(|engine| engine.networks.set_title(&id("n"), &"shop".parse().unwrap(), None))
            .unwrap();
    }));
    rig.with(|engine| {
        reserve(engine, &network, "a", 2, "n");
        assert_eq!(engine.records.alias(&id("n")).unwrap().unwrap().title, "shop".parse().ok());
    });
}

#[test]
fn a_network_that_another_made_or_uses_stays() {
    let rig = Rig::new();
    rig.with(|engine| {
        let mut network = front();
        network.runtime = Runtime::Spoke;
        engine.networks.create(&network).unwrap();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        let refused = engine.networks.remove(&network.name, false).unwrap_err();
        assert!(refused.to_string().contains("`docker network rm "), "{refused}");
        engine.networks.withdraw(&id("n")).unwrap();
        assert_eq!(engine.records.networks().unwrap(), std::slice::from_ref(&network));
        engine.networks.remove(&network.name, false).unwrap();

        let network = front();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        let mut pod = request(&network, "pod");
        pod.network.runtime = Runtime::Cni;
        engine.attachments.attach(&pod).unwrap();
        engine.networks.withdraw(&id("n")).unwrap();
        assert_eq!(engine.records.attachments().unwrap().len(), 1);
        assert!(engine.records.declared(&network.name).unwrap().is_some());
        engine.networks.remove(&network.name, true).unwrap();
        assert_eq!(rig.kernel(), Kernel::default());
    });
}

#[test]
fn a_network_that_outlasts_its_last_id_goes_with_its_last_member() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = front();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        let mut pod = request(&network, "pod");
        pod.network.runtime = Runtime::Cni;
        engine.attachments.attach(&pod).unwrap();
        engine.networks.withdraw(&id("n")).unwrap();
        assert!(engine.repair.reconcile(Mode::Mend).unwrap().is_empty(), "the pod is on it");
        engine.links.detach(&pod).unwrap();
        let left: Vec<_> = engine
            .repair
            .reconcile(Mode::DryRun)
            .unwrap()
            .into_iter()
            .map(|found| found.what)
            .collect();
        assert_eq!(left, [Garbage::Network(network.name.clone())]);
        assert!(engine.records.declared(&network.name).unwrap().is_some());
        assert_eq!(engine.repair.reconcile(Mode::Mend).unwrap().len(), 1);
        assert!(engine.records.networks().unwrap().is_empty());
        assert_eq!(rig.kernel(), Kernel::default());
        assert!(engine.repair.reconcile(Mode::Mend).unwrap().is_empty());

        let own = Network { runtime: Runtime::Spoke, ..network.clone() };
        engine.networks.create(&own).unwrap();
        assert!(engine.repair.reconcile(Mode::Mend).unwrap().is_empty(), "it is declared");
        engine.networks.remove(&own.name, false).unwrap();

        let spec = SubnetSpec::Exactly { net: "10.0.0.0/29".parse().unwrap(), part: None };
        let shared = for_network(network.name.as_str(), wanting(spec));
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        let subnet = engine.subnets.request_subnet(&shared).unwrap().id;
        engine.attachments.attach(&pod).unwrap();
        engine.networks.withdraw(&id("n")).unwrap();
        engine.links.detach(&pod).unwrap();
        assert!(
            engine.repair.reconcile(Mode::Mend).unwrap().is_empty(),
            "its subnet was requested"
        );
        engine.subnets.release_subnet(&subnet).unwrap();
        assert_eq!(engine.repair.reconcile(Mode::Mend).unwrap().len(), 1);
        assert_eq!(rig.kernel(), Kernel::default());
    });
}

/// The only id of a network, or one of two, is in a file that cannot be read.
#[test]
fn a_network_whose_id_may_be_damaged_stays() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = front();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        engine.networks.enroll(&alias("m", &network), &network).unwrap();
        let gone = Txn::new().delete(Key::Alias(id("n")));
        assert!(matches!(rig.commit(&gone).unwrap(), Outcome::Done(_)));
        let why = "cut".to_owned();
        let damaged = Damaged { path: "aliases/n".to_owned(), why };
        rig.damaged.lock().unwrap().push(damaged);
        engine.networks.withdraw(&id("m")).unwrap();
        assert!(
            engine.records.declared(&network.name).unwrap().is_some(),
            "the other id may be its"
        );
        let found = engine.repair.reconcile(Mode::Mend).unwrap();
        let is_network = |it: &engine::Finding| matches!(it.what, Garbage::Network(_));
        assert!(!found.iter().any(is_network), "{found:?}");
        assert!(engine.records.declared(&network.name).unwrap().is_some());
        rig.damaged.lock().unwrap().clear();
        engine.repair.reconcile(Mode::Mend).unwrap();
        assert!(engine.records.declared(&network.name).unwrap().is_none());
    });
}

#[test]
fn a_configured_network_that_was_to_be_shared_is_the_configurations_again() {
    let rig = Rig::new();
    let network = Network { runtime: Runtime::Cni, ..front() };
    let spec = SubnetSpec::Exactly { net: "10.0.0.0/29".parse().unwrap(), part: None };
    let shared = for_network(network.name.as_str(), wanting(spec));
    let pod = request(&network, "pod");
    rig.with(|engine| {
        engine.attachments.attach(&pod).unwrap();
        let subnet = engine.subnets.request_subnet(&shared).unwrap().id;
        engine.repair.reconcile(Mode::Mend).unwrap();
        assert!(engine.records.declared(&network.name).unwrap().is_some());
        // The runtime made no network of it.
        engine.subnets.release_subnet(&subnet).unwrap();
        engine.repair.reconcile(Mode::DryRun).unwrap();
        assert!(engine.records.declared(&network.name).unwrap().is_some());
        assert!(engine.repair.reconcile(Mode::Mend).unwrap().is_empty());
        assert!(engine.records.declared(&network.name).unwrap().is_none());
        assert_eq!(engine.records.network(&network.name).unwrap(), network);
        assert_eq!(engine.records.attachments().unwrap().len(), 1);
        engine.subnets.request_subnet(&shared).unwrap();
        engine.subnets.release_subnet(&subnet).unwrap();
    });
    // Nothing describes it any more, and no container is on it.
    rig.reboot();
    rig.with(|engine| {
        assert_eq!(engine.repair.reconcile(Mode::Mend).unwrap().len(), 1);
        assert!(engine.records.networks().unwrap().is_empty());
    });
}

#[test]
fn an_id_stands_for_one_network() {
    let rig = Rig::new();
    rig.with(|engine| {
        let (network, other) = (front(), docker("back", "10.1.0.0/29", "fd01::/125"));
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        let error = engine.networks.enroll(&alias("n", &other), &other).unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict);
        assert_eq!(engine.records.networks().unwrap(), [network]);
    });
}

#[test]
fn an_overlapping_or_failing_network_leaves_nothing() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = front();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        let overlapping = docker("back", "10.0.0.0/28", "fd01::/125");
        let error = engine.networks.enroll(&alias("m", &overlapping), &overlapping).unwrap_err();
        assert!(error.to_string().contains("overlaps network front (docker)"), "{error}");
        *rig.fails.lock().unwrap() = Some("up");
        let other = docker("back", "10.1.0.0/29", "fd01::/125");
        assert_eq!(
            engine.networks.enroll(&alias("m", &other), &other).unwrap_err().kind(),
            Kind::Kernel
        );
        assert_eq!(engine.records.networks().unwrap(), std::slice::from_ref(&network));
        assert_eq!(engine.records.aliases().unwrap().len(), 1);
        // Joining what is there fails alone.
        assert_eq!(
            engine.networks.enroll(&alias("m", &network), &network).unwrap_err().kind(),
            Kind::Kernel
        );
        assert_eq!(engine.records.aliases().unwrap().len(), 1);
        assert!(engine.records.declared(&network.name).unwrap().is_some());
    });
}

#[test]
fn a_network_is_found_by_what_people_call_it() {
    let rig = Rig::new();
    rig.with(|engine| {
        let network = front();
        engine.networks.enroll(&alias("n", &network), &network).unwrap();
        let title: NetworkName = "shop_default".parse().unwrap();
        assert_eq!(engine.records.network(&title).unwrap_err().kind(), Kind::NotFound);
        engine.networks.set_title(&id("n"), &title, None).unwrap();
        engine.networks.set_title(&id("n"), &title, None).unwrap();
        engine.networks.set_title(&id("unknown"), &title, None).unwrap();
        assert_eq!(engine.records.network(&title).unwrap(), network);
        assert_eq!(engine.records.alias(&id("n")).unwrap().unwrap().title, Some(title.clone()));
        // Another engine calls another one so.
        let other = plain("other", Ipam::None);
        engine.networks.enroll(&alias("m", &other), &other).unwrap();
        engine.networks.set_title(&id("m"), &title, None).unwrap();
        let several = engine.records.network(&title).unwrap_err();
        assert_eq!(several.kind(), Kind::Conflict);
        assert!(several.to_string().contains("front, other"), "{several}");
    });
}

#[test]
fn a_configured_network_survives_a_reboot_once_it_has_an_id() {
    let rig = Rig::new();
    rig.with(|engine| {
        let mut network = front();
        network.runtime = Runtime::Podman;
        let pod = request(&network, "pod");
        engine.attachments.attach(&pod).unwrap();
        let known = engine.networks.enroll(&alias("n", &network), &front()).unwrap();
        assert_eq!(known, network, "as its configuration described it");
    });
    rig.reboot();
    rig.with(|engine| {
        assert!(engine.records.declared(&front().name).unwrap().is_some());
        engine.repair.raise_networks().unwrap();
        assert!(rig.kernel().bridges.contains(&front().name));
    });
}

#[test]
fn ids_come_and_go_at_once() {
    let rig = Rig::new();
    let network = front();
    std::thread::scope(|scope| {
        for name in ["k", "l", "m", "n"] {
            let (rig, network) = (&rig, &network);
            scope.spawn(move || {
                rig.with(|engine| {
                    for _ in 0..50 {
                        engine.networks.withdraw(&id(name)).unwrap();
                        engine.networks.enroll(&alias(name, network), network).unwrap();
                    }
                });
            });
        }
    });
    rig.with(|engine| {
        assert_eq!(engine.records.aliases().unwrap().len(), 4);
        assert!(rig.kernel().bridges.contains(&network.name));
        for name in ["k", "l", "m", "n"] {
            engine.networks.withdraw(&id(name)).unwrap();
        }
        assert!(engine.records.networks().unwrap().is_empty());
    });
    assert_eq!(rig.kernel(), Kernel::default());
}
