//! Which sandboxes have names, and which names.

use engine::Connecting;
use model::{Dns, Layer, Phase};

use super::plugin_networks::to;
use super::plugin_world::World;
use super::steer::{V4, world};

fn named(world: &World) -> Vec<String> {
    let notes = world.engine().name_sandboxes().unwrap().into_iter();
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
    let made = engine.connect(&request, how.clone()).unwrap();
    assert_eq!((made.names, made.link_local), (how.names, how.link_local));
    engine.connect(&to(&world, "b", "s", "eth1"), 0).unwrap();
    assert_eq!(named(&world), [r#"s: a [HostName("www")] ["said"]"#, "s: b [] []"]);
    // The network says what it said.
    assert_ne!(engine.network(&"a".parse().unwrap()).unwrap().dns, searching("said"));
    engine.disconnect(&request.id()).unwrap();
    assert_eq!(named(&world), ["s: b [] []"]);
}

#[test]
fn what_leads_out_and_what_is_not_complete_has_no_names() {
    let world = world(&[("a", &[])]);
    let engine = world.engine();
    engine.connect(&to(&world, "a", "s", "eth0"), 0).unwrap();
    let exits = engine.attachments().unwrap().len();
    assert_eq!(exits, 2, "one of them is the exit");
    assert_eq!(named(&world), ["s: a [] []"]);
    // Nor has what others made.
    let other = engine.attach(&to(&world, "a", "other", "eth0")).unwrap();
    assert!(other.layer == Layer::Link && matches!(other.phase, Phase::Attached(_)));
    assert_eq!(named(&world), ["s: a [] []"]);
}
