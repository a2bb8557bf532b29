//! Which sandboxes have names, and which names.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use engine::Connecting;
use model::{ContainerId, Dns, Layer, Phase};

use super::default_gateway::{V4, world};
use super::plugin_networks::to;
use super::plugin_world::World;

fn named(world: &World) -> Vec<String> {
    let notes = world.engine().networks.name_sandboxes().unwrap().into_iter();
    notes.map(|note| format!("{}: {}", note.namespace, note.sentence)).collect()
}

fn searching(domain: &str) -> Dns {
    Dns { search: vec![domain.into()], ..Dns::default() }
}

#[test]
fn what_is_said_for_one_network_stays_with_that() {
    let world = world(&[("a", V4), ("b", V4)]);
    let engine = world.engine();
    let mut request = to(&world, "a", "s", "eth0");
    request.network.dns = searching("network");
    let how = Connecting {
        names: vec!["www".parse().unwrap()],
        link_local: vec!["169.254.7.1".parse().unwrap()],
        dns: searching("said"),
        ..Connecting::default()
    };
    let made = engine.networks.connect(&request, how.clone()).unwrap();
    assert_eq!((made.names, made.link_local), (how.names, how.link_local));
    engine.networks.connect(&to(&world, "b", "s", "eth1"), 0).unwrap();
    assert_eq!(named(&world), [r#"s: a [HostName("www")] ["said"]"#, "s: b [] []"]);
    // The network says what it said.
    assert_ne!(engine.records.network(&"a".parse().unwrap()).unwrap().dns, searching("said"));
    engine.networks.disconnect(&request.id()).unwrap();
    assert_eq!(named(&world), ["s: b [] []"]);
}

#[test]
fn what_leads_out_and_what_is_not_complete_has_no_names() {
    let world = world(&[("a", &[])]);
    let engine = world.engine();
    engine.networks.connect(&to(&world, "a", "s", "eth0"), 0).unwrap();
    let exits = engine.records.attachments().unwrap().len();
    assert_eq!(exits, 2, "one of them is the exit");
    assert_eq!(named(&world), ["s: a [] []"]);
    // Nor has what others made.
    let other = engine.attachments.attach(&to(&world, "a", "other", "eth0")).unwrap();
    assert!(other.layer == Layer::Link && matches!(other.phase, Phase::Attached(_)));
    assert_eq!(named(&world), ["s: a [] []"]);
}

/// What one connect has to say, and how many records are read for it.
fn near(world: &World, container: &str, network: &str) -> (Vec<String>, usize) {
    let path = format!("/run/netns/{container}");
    let before = world.reads.load(Relaxed);
    let (container, network) = (container.parse().unwrap(), network.parse().unwrap());
    let notes =
        world.engine().networks.name_sandbox(&container, Path::new(&path), &network).unwrap();
    let said = notes.into_iter().map(|note| format!("{} {}", note.namespace, note.sentence));
    (said.collect(), world.reads.load(Relaxed) - before)
}

#[test]
fn a_connect_concerns_those_on_its_network_and_what_they_are_on() {
    let world = world(&[("a", V4), ("b", V4), ("c", V4)]);
    let engine = world.engine();
    for (network, container, ifname) in [
        ("a", "s", "eth0"),
        ("a", "t", "eth0"),
        ("b", "t", "eth1"),
        ("b", "u", "eth0"),
        ("c", "v", "eth0"),
    ] {
        engine.networks.connect(&to(&world, network, container, ifname), 0).unwrap();
    }
    // The last is on none of their networks; `u` is reported, and is not written for.
    let (said, _) = near(&world, "s", "a");
    assert_eq!(said, ["s ", "t ", "s a [] []", "t a [] []", "t b [] []", "u b [] []"]);
    // One that is gone is written for all the same.
    engine.networks.disconnect(&to(&world, "a", "s", "eth0").id()).unwrap();
    assert_eq!(near(&world, "s", "a").0[..2], ["s ", "t "]);
    // Under another name in `t`'s namespace, on a network of its own.
    let mut odd = to(&world, "c", "odd", "eth7");
    odd.sandbox = to(&world, "c", "t", "eth7").sandbox;
    engine.networks.connect(&odd, 0).unwrap();
    let others: BTreeSet<ContainerId> = BTreeSet::from(["odd".parse().unwrap()]);
    world.others.lock().unwrap().insert("t".into(), others);
    let (said, _) = near(&world, "s", "a");
    assert!(said.contains(&"odd c [] []".to_owned()) && said.contains(&"v c [] []".to_owned()));
}

#[test]
fn what_a_connect_reads_does_not_grow_with_those_elsewhere() {
    let read = |elsewhere: usize| {
        let world = world(&[("a", V4), ("b", V4)]);
        let engine = world.engine();
        for number in 0..elsewhere {
            engine.networks.connect(&to(&world, "b", &format!("e{number}"), "eth0"), 0).unwrap();
        }
        engine.networks.connect(&to(&world, "a", "s", "eth0"), 0).unwrap();
        near(&world, "s", "a").1
    };
    assert_eq!(read(1), read(100));
}
