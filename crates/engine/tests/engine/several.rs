//! Several attachments of one call.

use super::common::{World, book, network, pool, request};
use engine::{Engine, Request};
use model::*;

fn origin() -> Origin {
    let (config, ifname) = ("pods".parse().unwrap(), "eth0".parse().unwrap());
    Origin { config, ifname, routed: Vec::new() }
}

fn default(family: Family) -> Route {
    Route::new(family.everything(), None)
}

/// On `front` as `eth0`, on `back` as `net1`, each with a default route.
fn two() -> [Request; 2] {
    let mut front = book("10.0.0.0/29");
    front.routes = vec![default(Family::V4)];
    let pools = vec![pool("back", "10.1.0.0/29", Order::NextAfterLast)];
    let mut back = network("back", Ipam::Book { pools });
    back.routes = vec![default(Family::V4), default(Family::V6)];
    let mut second = request(&back, "a");
    second.ifname = "net1".parse().unwrap();
    [request(&front, "a"), second]
}

fn left(engine: &Engine<'_>) -> Vec<String> {
    engine.records.attachments().unwrap().iter().map(|record| record.id.to_string()).collect()
}

#[test]
fn the_first_default_route_of_a_family_stays() {
    let world = World::new();
    let made = world.engine().attachments.attach_several(&origin(), &two()).unwrap();
    assert_eq!(made[0].routes, [default(Family::V4)]);
    assert_eq!(made[1].routes, [default(Family::V6)]);
    assert_eq!(made[1].origin.as_ref().unwrap().routed, [Family::V4]);
}

#[test]
fn all_or_none() {
    let (world, [first, second]) = (World::new(), two());
    let engine = world.engine();
    engine.attachments.attach(&second).unwrap();
    let error = engine.attachments.attach_several(&origin(), &[first, second.clone()]).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict);
    assert_eq!(left(&engine), [second.id().to_string()]);
}

#[test]
fn what_was_made_is_removed_whatever_the_call_says_by_then() {
    let world = World::new();
    let engine = world.engine();
    let [first, second] = two();
    let elsewhere = request(&network("other", Ipam::None), "a");
    for now in
        [vec![first.clone(), second.clone()], vec![first.clone()], vec![second], vec![elsewhere]]
    {
        engine.attachments.attach_several(&origin(), &two()).unwrap();
        engine.attachments.attach(&request(&first.network, "b")).unwrap();
        engine.attachments.detach_several(&origin(), &now).unwrap();
        assert_eq!(left(&engine), ["container b (eth0) on network front"]);
        engine.attachments.detach_several(&origin(), &now).unwrap();
        engine.links.detach(&request(&first.network, "b")).unwrap();
    }
    assert!(
        engine.records.holders().unwrap().is_empty() && world.dataplane.made.borrow().is_empty()
    );
}

#[test]
fn another_call_of_the_container_keeps_its_own() {
    let (world, [first, second]) = (World::new(), two());
    let engine = world.engine();
    let other = Origin { ifname: "net1".parse().unwrap(), ..origin() };
    engine.attachments.attach_several(&other, std::slice::from_ref(&second)).unwrap();
    engine.attachments.attach_several(&origin(), std::slice::from_ref(&first)).unwrap();
    engine.attachments.detach_several(&origin(), &[first, second.clone()]).unwrap();
    assert_eq!(left(&engine), [second.id().to_string()]);
}

/// What the chain made beside the link goes with it, under the name that it was made under.
#[test]
fn a_renamed_network_is_left_all_the_same() {
    let world = World::new();
    let engine = world.engine();
    let link = |name: &str, subnet: &str| {
        let pools = vec![pool(name, subnet, Order::NextAfterLast)];
        let mut network = network(name, Ipam::Book { pools });
        let kind = LinkKind::Ptp(Ptp::default());
        network.wiring.link = Some(Link { kind, name: None, mac: None, mtu: None });
        request(&network, "a")
    };
    let (made, other) = (link("old", "10.0.0.0/29"), link("other", "10.1.0.0/29"));
    let tuned = Request { layer: Layer::Tuning, ipam: Ipam::None, ..made.clone() };
    engine.attachments.attach(&made).unwrap();
    engine.attachments.attach(&tuned).unwrap();
    engine.links.detach(&other).unwrap();
    assert_eq!(left(&engine).len(), 2, "another network could not have it");
    engine.links.detach(&link("new", "10.0.0.0/29")).unwrap();
    assert!(left(&engine).is_empty() && engine.records.holders().unwrap().is_empty());
    // One that a command declared is still called so.
    engine.networks.create(&made.network).unwrap();
    engine.attachments.attach(&made).unwrap();
    engine.links.detach(&link("new", "10.0.0.0/29")).unwrap();
    assert_eq!(left(&engine).len(), 1);
}

/// What a chained plugin changed is put back, and a device goes home, also without addresses that tell
/// two networks apart.
#[test]
fn a_renamed_network_gives_back_values_and_devices() {
    let world = World::new();
    let engine = world.engine();
    let tuned = |name: &str, mtu: u32| {
        let tuning = Tuning { mtu: Mtu::new(mtu), ..Tuning::default() };
        let wiring = Wiring { tuning: Some(tuning), ..Wiring::default() };
        let plain = request(&network(name, Ipam::None), "a");
        Request { layer: Layer::Tuning, wiring, ..plain }
    };
    engine.attachments.attach(&tuned("old", 1300)).unwrap();
    engine.links.detach(&tuned("other", 1400)).unwrap();
    assert_eq!(left(&engine).len(), 1, "other values are another network's");
    engine.links.detach(&tuned("new", 1300)).unwrap();
    assert!(left(&engine).is_empty());
    let device = |name: &str, device: &str| {
        let mut network = network(name, Ipam::None);
        let kind = LinkKind::Device(Device { choice: DeviceChoice::Name(device.parse().unwrap()) });
        network.wiring.link = Some(Link { kind, name: None, mac: None, mtu: None });
        request(&network, "a")
    };
    engine.attachments.attach(&device("old", "lan0")).unwrap();
    engine.links.detach(&device("other", "lan1")).unwrap();
    assert_eq!(left(&engine).len(), 1, "another device is another network's");
    engine.links.detach(&device("new", "lan0")).unwrap();
    assert!(left(&engine).is_empty());
}

/// Behind a main plugin of others only the chained plugins have records. DEL under the new name comes without the
/// result before it, which the runtime keeps under the old one.
#[test]
fn a_renamed_network_gives_back_what_stands_behind_the_plugins_of_others() {
    let world = World::new();
    let engine = world.engine();
    let work = |name: &str, layer: Layer, wiring: &Wiring| {
        let plain = request(&network(name, Ipam::None), "a");
        Request { layer, wiring: wiring.clone(), ..plain }
    };
    let device = |name: &str| Some(name.parse().unwrap());
    let rate = |rate| Some(Rate { rate, burst: 80_000 });
    let limits = |ingress, on: Option<IfName>| Wiring {
        bandwidth: Some(Bandwidth { ingress: rate(ingress), device: on, ..Bandwidth::default() }),
        ..Wiring::default()
    };
    let routing = |table| Wiring {
        source_routing: Some(SourceRouting { table, gateways: Vec::new(), source_hints: false }),
        ..Wiring::default()
    };
    let ports = |host_port: u16, behind: Option<IfName>| {
        let (host_port, container_port) = (host_port.try_into().unwrap(), 80.try_into().unwrap());
        let port = PortMap { host: None, host_port, container_port, protocol: Protocol::Tcp };
        let publish = Publish { behind, ports: vec![port], ..Publish::new(Backend::Nftables) };
        Wiring { publish: Some(publish), ..Wiring::default() }
    };
    let filter = |ingress, bridge: Option<IfName>| Wiring {
        firewall: Some(Firewall { ingress, bridge, ..Firewall::open(Backend::Nftables) }),
        ..Wiring::default()
    };
    for (layer, made, renamed, other) in [
        (Layer::Publish, ports(8080, device("br0")), ports(8080, None), ports(8081, None)),
        (
            Layer::Bandwidth,
            limits(800_000, device("veth0")),
            limits(800_000, None),
            limits(900_000, None),
        ),
        (Layer::SourceRouting, routing(None), routing(None), routing(Some(300))),
        (
            Layer::Firewall,
            filter(IngressPolicy::Open, device("br0")),
            filter(IngressPolicy::Open, None),
            filter(IngressPolicy::Isolated, None),
        ),
    ] {
        engine.attachments.attach(&work("old", layer, &made)).unwrap();
        engine.links.detach(&work("new", layer, &other)).unwrap();
        assert_eq!(left(&engine).len(), 1, "{layer:?}: other work is another network's");
        engine.attachments.check(&work("new", layer, &renamed), &Attached::default()).unwrap();
        engine.links.detach(&work("new", layer, &renamed)).unwrap();
        assert!(left(&engine).is_empty(), "{layer:?}");
    }
}

/// A list whose ADD fails in its main plugin is ended in the same sandbox, with the same interface, and its plugins
/// after that one get no call: what another list made of the same plugins stays.
#[test]
fn a_list_that_could_not_begin_takes_nothing_of_another_one() {
    let world = World::new();
    let engine = world.engine();
    let filter = Firewall::open(Backend::Nftables);
    let tuning = Tuning { backup: Some("/run/cni/tuning/a_eth0.json".into()), ..Tuning::default() };
    let plain = [
        (Layer::Firewall, Wiring { firewall: Some(filter), ..Wiring::default() }),
        (Layer::Tuning, Wiring { tuning: Some(tuning), ..Wiring::default() }),
        (
            Layer::SourceRouting,
            Wiring { source_routing: Some(SourceRouting::default()), ..Wiring::default() },
        ),
    ];
    for (layer, wiring) in plain {
        let work = |name: &str, reported: &[&str]| {
            let held = |address: &&str| doubles::address(address);
            let plain = request(&network(name, Ipam::None), "a");
            let sandbox = Some(Sandbox { path: "/run/netns/a".into(), inode: 7 });
            let addresses = reported.iter().map(held).collect();
            Request { layer, sandbox, addresses, wiring: wiring.clone(), ..plain }
        };
        engine.attachments.attach(&work("one", &["10.0.0.2/24"])).unwrap();
        engine.links.detach(&work("other", &[])).unwrap();
        assert_eq!(left(&engine).len(), 1, "{layer:?}: nothing says that it is the same");
        engine.links.detach(&work("other", &["10.0.1.2/24"])).unwrap();
        assert_eq!(left(&engine).len(), 1, "{layer:?}: its addresses are others");
        engine.links.detach(&work("renamed", &["10.0.0.2/24"])).unwrap();
        assert!(left(&engine).is_empty(), "{layer:?}: its addresses are the same");
        engine.attachments.attach(&work("one", &["10.0.0.2/24"])).unwrap();
        engine.links.detach(&Request { sandbox: None, ..work("renamed", &[]) }).unwrap();
        assert!(left(&engine).is_empty(), "{layer:?}: the sandbox is at its end");
    }
}

#[test]
fn each_is_checked() {
    let (world, requests) = (World::new(), two());
    let engine = world.engine();
    engine.attachments.attach_several(&origin(), &requests).unwrap();
    let check = |named| engine.attachments.check_several(&origin(), named, &Attached::default());
    check(&requests).unwrap();
    world.dataplane.made.borrow_mut().remove(&requests[1].id());
    // Also where the call does not name it any more.
    for named in [&requests[..], &requests[..1]] {
        assert_eq!(check(named).unwrap_err().kind(), model::Kind::NotFound);
    }
}
