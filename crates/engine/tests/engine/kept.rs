//! Endpoints that users keep apart from sandboxes.

use std::net::IpAddr;

use engine::port::{Key, Record};
use engine::{Connecting, Entering, Garbage, Mode, Request, RestoreMode};
use model::*;

use super::default_gateway::{BOTH, V4, publishing, world};
use super::plugin_networks::to;
use super::plugin_world::World;

/// A plugin's network `a`, and the kernel's `b`.
pub(crate) fn networks() -> World {
    world(&[("a", V4), ("b", BOTH)])
}

/// To make endpoint `name`.
pub(crate) fn apart(world: &World, network: &str, name: &str) -> Request {
    let request = to(world, network, name, "eth");
    Request { sandbox: None, ..request }
}

/// Into the sandbox of this name.
pub(crate) fn into(sandbox: &str, name: &str) -> Entering {
    Entering {
        sandbox: Sandbox { path: format!("/run/netns/{sandbox}").into(), inode: 1 },
        container: sandbox.parse().unwrap(),
        name: name.parse().unwrap(),
        priority: 0,
    }
}

fn addresses(record: &Attachment) -> Vec<String> {
    record.addresses.iter().map(|held| held.address.to_string()).collect()
}

#[track_caller]
fn create(world: &World, request: &Request) -> Attachment {
    world.engine().networks.create_endpoint(request, &Connecting::default()).unwrap()
}

#[test]
fn an_endpoint_keeps_what_it_has_through_joins_and_leaves() {
    for (network, way) in [("a", "[V4]"), ("b", "[V4, V6]")] {
        let world = networks();
        let engine = world.engine();
        let request = publishing(apart(&world, network, "web"), &[8080]);
        let made = create(&world, &request);
        assert_eq!(made.phase, Phase::Reserved);
        assert!(engine.records.ports().unwrap().is_empty(), "nothing leads to it yet");
        let had = addresses(&made);
        assert_eq!(had.len(), 1);
        for sandbox in ["s", "t"] {
            let joined = engine.networks.join_endpoint(&made.id, &into(sandbox, "eth0")).unwrap();
            assert_eq!(
                (addresses(&joined), joined.sandbox_name().as_str()),
                (had.clone(), sandbox)
            );
            let link = joined.wiring.link.as_ref().unwrap();
            assert_eq!(link.name.as_ref().unwrap().as_str(), "eth0");
            assert_eq!(world.default_gateways("web"), [format!("{network}: {way}")]);
            assert_eq!(world.served("web"), [format!("{network}: [8080]")]);
            assert_eq!(engine.records.ports().unwrap().len(), 1);
            assert_eq!(engine.records.connected(&sandbox.parse().unwrap()).unwrap().len(), 1);
            // Again, it is there.
            world.take_log();
            engine.networks.join_endpoint(&made.id, &into(sandbox, "eth0")).unwrap();
            assert!(world.take_log().is_empty());
            let refused = engine.networks.remove_endpoint(&made.id, false).unwrap_err();
            assert!(refused.kind() == Kind::Conflict && refused.to_string().contains("leave"));
            let other =
                engine.networks.join_endpoint(&made.id, &into("elsewhere", "eth0")).unwrap_err();
            assert_eq!(other.kind(), Kind::Conflict);
            engine.networks.leave_endpoint(&made.id).unwrap();
            engine.networks.leave_endpoint(&made.id).unwrap();
            let left = engine.records.attachment(&made.id).unwrap().unwrap();
            assert_eq!((&left.phase, addresses(&left)), (&Phase::Reserved, had.clone()));
            assert!(
                left.gateway_role.is_none() && left.wiring.link.as_ref().unwrap().name.is_none()
            );
            assert_eq!(left.wiring.publish, request.wiring.publish);
            assert!(engine.records.ports().unwrap().is_empty() && world.served("web").is_empty());
            assert!(engine.records.connected(&sandbox.parse().unwrap()).unwrap().is_empty());
        }
        assert!(engine.repair.reconcile(Mode::Mend).unwrap().is_empty());
        engine.networks.remove_endpoint(&made.id, false).unwrap();
        let gone = engine.networks.remove_endpoint(&made.id, false).unwrap_err();
        assert_eq!(gone.kind(), Kind::NotFound);
        engine.networks.remove_endpoint(&made.id, true).unwrap();
        engine.networks.remove(&network.parse().unwrap(), false).unwrap();
    }
}

#[test]
fn one_sandbox_has_endpoints_of_several_names() {
    let world = networks();
    let engine = world.engine();
    let one = create(&world, &publishing(apart(&world, "a", "one"), &[81])).id;
    let two = create(&world, &publishing(apart(&world, "b", "two"), &[82])).id;
    engine.networks.join_endpoint(&one, &into("s", "eth0")).unwrap();
    engine.networks.join_endpoint(&two, &into("s", "eth1")).unwrap();
    // The second leads better, and publishes the ports of both.
    assert_eq!(world.default_gateways("two"), ["b: [V4, V6]"]);
    assert_eq!(
        (world.default_gateways("one"), world.served("two")),
        (vec![], vec!["b: [81, 82]".to_owned()])
    );
    engine.networks.leave_endpoint(&two).unwrap();
    assert_eq!(
        (world.default_gateways("one"), world.served("one")),
        (vec!["a: [V4]".to_owned()], vec!["a: [81]".to_owned()])
    );
    assert_eq!(
        engine.records.ports().unwrap().len(),
        1,
        "what was named with the other leads nowhere"
    );
    // Both on one network, with one port.
    let three = create(&world, &publishing(apart(&world, "a", "three"), &[81])).id;
    engine.networks.join_endpoint(&three, &into("s", "eth2")).unwrap();
    engine.networks.disconnect(&one).unwrap();
    assert_eq!(world.served("three"), ["a: [81]"]);
    engine.networks.remove_endpoint(&three, true).unwrap();
    engine.networks.remove_endpoint(&two, false).unwrap();
    for network in ["a", "b"] {
        engine.networks.remove(&network.parse().unwrap(), false).unwrap();
    }
    world.assert_empty("all removed");
}

/// On a sticky network a name that returns gets its address again. Where what was connected leaves its
/// sandbox instead, the address is the endpoint's.
#[test]
fn what_has_a_lasting_name_can_leave_too() {
    let world = networks();
    let engine = world.engine();
    let mut request = to(&world, "b", "web", "eth0");
    request.network.sticky = true;
    request.owner = Some("web".parse().unwrap());
    let first = engine.networks.connect(&request, Connecting::default()).unwrap();
    engine.networks.disconnect(&first.id).unwrap();
    engine.networks.connect(&to(&world, "b", "other", "eth0"), Connecting::default()).unwrap();
    let again = engine.networks.connect(&request, Connecting::default()).unwrap();
    assert_eq!(addresses(&again), addresses(&first));
    engine.networks.leave_endpoint(&again.id).unwrap();
    let owners = || -> Vec<String> {
        let kept = engine.records.reservations().unwrap().into_iter();
        kept.map(|it| it.owner.map(|owner| owner.to_string()).unwrap_or_default()).collect()
    };
    assert_eq!(owners(), ["@endpoint/web"]);
    let joined = engine.networks.join_endpoint(&again.id, &into("s", "eth0")).unwrap();
    assert_eq!(addresses(&joined), addresses(&first));
    engine.networks.remove_endpoint(&again.id, true).unwrap();
    assert_eq!(owners(), [""; 0]);
    engine.networks.connect(&request, Connecting::default()).unwrap();
    assert_eq!(owners(), ["web"]);
}

#[test]
fn what_is_connected_at_once_can_leave_and_join_again() {
    let world = networks();
    let engine = world.engine();
    let request = publishing(to(&world, "b", "s", "eth0"), &[80]);
    let connected = engine.networks.connect(&request, 0).unwrap();
    engine.networks.leave_endpoint(&request.id()).unwrap();
    let left = engine.records.attachment(&request.id()).unwrap().unwrap();
    assert_eq!(addresses(&left), addresses(&connected));
    // It is in the way of another of its name, and is not undone for it.
    let again = engine.networks.connect(&request, 0).unwrap_err();
    assert!(
        again.kind() == Kind::Conflict && again.to_string().contains("endpoint join"),
        "{again}"
    );
    engine.networks.join_endpoint(&request.id(), &into("s", "eth0")).unwrap();
    assert_eq!(world.served("s"), ["b: [80]"]);
    engine.networks.disconnect(&request.id()).unwrap();
    assert_eq!(engine.records.attachment(&request.id()).unwrap(), None);
    engine.networks.connect(&request, 0).unwrap();
    engine.networks.disconnect(&request.id()).unwrap();
    assert!(engine.records.reservations().unwrap().is_empty());
}

#[test]
fn no_other_gets_its_address_and_no_collector_takes_it() {
    let world = networks();
    let engine = world.engine();
    let web = create(&world, &apart(&world, "b", "web"));
    engine.networks.join_endpoint(&web.id, &into("s", "eth0")).unwrap();
    // The sandbox ends: the endpoint is its user's.
    world.gone.lock().unwrap().insert(web.id.clone());
    let found = engine.repair.reconcile(Mode::Mend).unwrap();
    assert!(matches!(&found[..], [one] if one.what == Garbage::Unfinished(web.id.clone())));
    world.gone.lock().unwrap().clear();
    let left = engine.records.attachment(&web.id).unwrap().unwrap();
    assert_eq!((&left.phase, addresses(&left)), (&Phase::Reserved, addresses(&web)));
    assert!(engine.records.connected(&"s".parse().unwrap()).unwrap().is_empty());
    // A runtime's own collector knows nothing of it.
    let network = engine.records.network(&"b".parse().unwrap()).unwrap();
    engine.repair.gc(&network, &engine::Members::new()).unwrap();
    assert!(engine.records.attachment(&web.id).unwrap().is_some());
    // After a reboot no container gets the address, also before the first repair.
    world.reboot();
    let mut taken = to(&world, "b", "other", "eth0");
    taken.wanted = vec![web.addresses[0].address.addr()];
    assert_eq!(engine.attachments.attach(&taken).unwrap_err().kind(), Kind::Conflict);
    let other = engine.attachments.attach(&to(&world, "b", "other", "eth0")).unwrap();
    assert_ne!(addresses(&other), addresses(&web));
    let joined = engine.networks.join_endpoint(&web.id, &into("s", "eth0")).unwrap();
    assert_eq!(addresses(&joined), addresses(&web));
    // The network's end is refused for one that was not made again yet.
    engine.links.detach(&to(&world, "b", "other", "eth0")).unwrap();
    world.reboot();
    let used = engine.networks.remove(&network.name, false).unwrap_err();
    assert_eq!(used.kind(), Kind::Conflict, "{used}");
    world.reboot();
    engine.networks.remove_endpoint(&web.id, false).unwrap();
    engine.networks.remove(&network.name, false).unwrap();
}

#[test]
fn a_plugin_is_called_again_after_a_reboot() {
    let world = networks();
    let engine = world.engine();
    let web = create(&world, &apart(&world, "a", "web"));
    for _ in 0..2 {
        world.reboot();
        engine.networks.revive_endpoints(None).unwrap();
        let again = engine.records.attachment(&web.id).unwrap().unwrap();
        assert_eq!((addresses(&again), again.kept), (addresses(&web), true));
        assert!(world.state().made.contains(&web.id));
    }
    engine.networks.remove_endpoint(&web.id, false).unwrap();
    for network in ["a", "b"] {
        engine.networks.remove(&network.parse().unwrap(), false).unwrap();
    }
    world.assert_empty("removed");
}

/// Nothing but the endpoint could give them back.
#[test]
fn an_endpoint_that_is_left_out_of_a_restore_leaves_no_reservation() {
    let world = networks();
    let made = create(&world, &apart(&world, "b", "web"));
    let mut backup = world.engine().repair.backup().unwrap();
    let second: IpAddr = "10.1.0.200".parse().unwrap();
    let mut other = None;
    for (key, record) in &mut backup {
        match (key, record) {
            (Key::Endpoint(id), Record::Attachment(endpoint)) if *id == made.id => {
                let lease =
                    Lease { address: "10.1.0.200/24".parse().unwrap(), ..made.leases[0].clone() };
                endpoint.leases.push(lease);
            }
            (_, Record::Reservation(reserved))
                if reserved.network.as_ref() == Some(&made.id.network) =>
            {
                other = Some(Reservation { address: second, ..reserved.clone() });
            }
            _ => {}
        }
    }
    let other = other.unwrap();
    let second = Key::Reservation(other.space.clone(), second);
    backup.push((second.clone(), Record::Reservation(other)));
    // The first address has another owner here.
    let here = networks();
    create(&here, &apart(&here, "b", "db"));
    let mode = RestoreMode { keep_existing: true, dry_run: false };
    let restored = here.engine().repair.restore_backup(&backup, mode).unwrap();
    assert_eq!(restored.left_out, [Key::Endpoint(made.id), second], "{restored:?}");
}

#[test]
fn drivers_that_make_all_at_once_have_no_endpoints() {
    let world = networks();
    let mut request = apart(&world, "b", "web");
    let mut link = request.wiring.link.clone().unwrap();
    link.kind = LinkKind::Chain(PluginChain { config: String::new(), path: Vec::new() });
    request.wiring.link = Some(link);
    let engine = world.engine();
    let refused = engine.networks.create_endpoint(&request, &Connecting::default()).unwrap_err();
    assert!(refused.kind() == Kind::Unsupported && refused.to_string().contains("driver cni"));
    assert!(engine.records.attachments().unwrap().is_empty());
}
