//! Addresses that names keep on networks of many hosts.

use std::cell::RefCell;
use std::net::IpAddr;
use std::time::Duration;

use engine::port::{Host, Occupied};
use engine::{Engine, InUse, Request, Shared};
use model::*;

use super::common::{World, book, ip, request};
use super::subnet_rig::{container, exactly, for_network};

/// The other hosts keep this address for every name.
struct Many<'a> {
    world: &'a World,
    gives: Option<IpAddr>,
    asked: RefCell<Vec<String>>,
}

impl Host for Many<'_> {
    fn me(&self) -> Process {
        self.world.machine.me()
    }

    fn now(&self) -> Timestamp {
        self.world.machine.now()
    }

    fn is_running(&self, process: &Process) -> bool {
        self.world.machine.is_running(process)
    }

    fn occupied(&self) -> Result<Vec<Occupied>> {
        self.world.machine.occupied()
    }

    fn wait_for_end(&self, process: &Process, limit: Duration) -> bool {
        self.world.machine.wait_for_end(process, limit)
    }

    fn has_hosts(&self, _: &NetworkName) -> bool {
        true
    }

    fn follow(&self, network: &NetworkName, name: &OwnerName) -> Result<()> {
        self.asked.borrow_mut().push(name.to_string());
        let Some(address) = self.gives else { return Err(Error::try_again("etcd is gone")) };
        let engine = self.world.engine();
        engine.addresses.note_pin(network, address)?;
        engine.addresses.note_name((network, address), name)
    }
}

fn front() -> Network {
    // Addresses of the subnet that are in no range are other hosts'.
    let mut network = book("10.0.0.0/24");
    if let Ipam::Book { pools } = &mut network.ipam {
        pools[0].ranges[0].last = [10, 0, 0, 15].into();
    }
    Network { sticky: true, ..network }
}

fn of(network: &Network, container: &str) -> Request {
    Request { owner: Some("db".parse().unwrap()), ..request(network, container) }
}

#[test]
fn what_the_others_give_is_kept_and_handed_over_without_a_lease_only() {
    let (world, network) = (World::new(), front());
    let there: IpAddr = [10, 0, 0, 200].into();
    let many = Many { world: &world, gives: Some(there), asked: RefCell::default() };
    let engine = Engine::new(&world.store, &world.dataplane, &world.directory, &many);
    let attached = engine.attachments.attach(&of(&network, "a")).unwrap();
    assert_eq!(attached.leases[0].address.to_string(), "10.0.0.200/24");
    let db: OwnerName = "db".parse().unwrap();
    let place = (&network.name, there);
    let held = engine.addresses.hand_over(place, &db, None).unwrap();
    assert!(matches!(held, Some(InUse::Held(_))), "{held:?}");
    // A second container of the name has another address, of this host's block.
    assert_eq!(ip(&engine.attachments.attach(&of(&network, "b")).unwrap()), "10.0.0.2");
    for container in ["a", "b"] {
        engine.links.detach(&of(&network, container)).unwrap();
    }
    let kept = |address| (network.name.clone(), address, db.clone());
    assert_eq!(names(&engine, &network), [kept(there), kept([10, 0, 0, 2].into())]);
    assert_eq!(ip(&engine.attachments.attach(&of(&network, "c")).unwrap()), "10.0.0.200");
    engine.links.detach(&of(&network, "c")).unwrap();
    assert_eq!(many.asked.borrow().len(), 1, "for what this host keeps no other host is asked");
    // Of a block of this host it is the other one's from then on.
    let b: HostName = "b".parse().unwrap();
    let own = (&network.name, IpAddr::from([10, 0, 0, 2]));
    for _ in 0..2 {
        assert_eq!(engine.addresses.hand_over(own, &db, Some(&b)).unwrap(), None);
        assert_eq!(engine.addresses.hand_over(place, &db, None).unwrap(), None);
    }
    assert_eq!(names(&engine, &network), []);
    assert_eq!(engine.addresses.given_to_hosts().unwrap().len(), 1);
    assert_eq!(engine.addresses.pins().unwrap(), []);
}

#[test]
fn a_container_starts_while_the_others_cannot_be_asked() {
    let (world, network) = (World::new(), front());
    let many = Many { world: &world, gives: None, asked: RefCell::default() };
    let engine = Engine::new(&world.store, &world.dataplane, &world.directory, &many);
    assert_eq!(ip(&engine.attachments.attach(&of(&network, "a")).unwrap()), "10.0.0.2");
    engine.links.detach(&of(&network, "a")).unwrap();
    assert_eq!(ip(&engine.attachments.attach(&of(&network, "b")).unwrap()), "10.0.0.2");
    assert_eq!(many.asked.borrow().len(), 1);
    // An operator's own reservation is no other host's.
    let (space, address) = (&Space::Host, [10, 0, 0, 9].into());
    let web: OwnerName = "web".parse().unwrap();
    let owner = Some((network.name.clone(), web.clone()));
    engine.addresses.reserve_address(space, address, owner).unwrap();
    let refused = engine.addresses.hand_over((&network.name, address), &web, None).unwrap();
    assert!(matches!(refused, Some(InUse::Reserved(_))), "{refused:?}");
    // What a name keeps on another network is not ended by what hosts say of this one.
    let db: OwnerName = "db".parse().unwrap();
    engine.links.detach(&of(&network, "b")).unwrap();
    let (other, address): (NetworkName, IpAddr) = ("other".parse().unwrap(), [10, 0, 0, 2].into());
    let refused = engine.addresses.hand_over((&other, address), &db, None).unwrap();
    assert!(matches!(refused, Some(InUse::Reserved(_))), "{refused:?}");
    let kept = names(&engine, &network);
    assert!(kept.contains(&(network.name.clone(), address, db)), "{kept:?}");
}

/// Docker asks for an address before there is a container.
#[test]
fn an_address_that_is_requested_by_itself_follows_its_name() {
    let (world, network) = (World::new(), front());
    let there: IpAddr = [10, 0, 0, 200].into();
    let many = Many { world: &world, gives: Some(there), asked: RefCell::default() };
    let engine = Engine::new(&world.store, &world.dataplane, &world.directory, &many);
    engine.networks.create(&network).unwrap();
    let subnet = for_network(network.name.as_str(), exactly("10.0.0.0/24"));
    let id = engine.subnets.request_subnet(&subnet).unwrap().id;
    let requested =
        || engine.subnets.request_address(&container(&id, Some("db"))).unwrap().address.addr();
    assert_eq!(requested(), there);
    engine.subnets.release_address(&id, there).unwrap();
    assert_eq!(requested(), there);
    assert_ne!(requested(), there);
    assert_eq!(many.asked.borrow().len(), 1);
    // What another host has is none of this host's any more, whatever is listed for the name.
    engine.subnets.release_address(&id, there).unwrap();
    let (db, b): (OwnerName, HostName) = ("db".parse().unwrap(), "b".parse().unwrap());
    engine.addresses.hand_over((&network.name, there), &db, Some(&b)).unwrap();
    assert_ne!(requested(), there);
    // A host that is being drained asks no other host.
    let ranges = network.ipam.pools().iter().map(|pool| pool.ranges.clone()).collect::<Vec<_>>();
    let drained = Shared { is_draining: true, names: false, sticky: true };
    engine.addresses.set_shared(&network.name, &ranges, drained).unwrap();
    engine.subnets.request_address(&container(&id, Some("web"))).unwrap();
    assert_eq!(*many.asked.borrow(), ["db"]);
}

/// While this host was not heard of another one took the address over.
#[test]
fn what_another_host_has_is_kept_for_it_whatever_it_was_kept_for_here() {
    let (world, network) = (World::new(), front());
    let many = Many { world: &world, gives: None, asked: RefCell::default() };
    let engine = Engine::new(&world.store, &world.dataplane, &world.directory, &many);
    let [b, c]: [HostName; 2] = ["b", "c"].map(|host| host.parse().unwrap());
    let own: IpAddr = [10, 0, 0, 2].into();
    let place = (&network.name, own);
    assert_eq!(ip(&engine.attachments.attach(&of(&network, "a")).unwrap()), "10.0.0.2");
    let held = engine.addresses.yield_to_host(place, &b).unwrap();
    assert!(matches!(held, Some(InUse::Held(_))), "{held:?}");
    engine.links.detach(&of(&network, "a")).unwrap();
    // Who only asks for it is refused.
    let refused = engine.addresses.give_to_host(&network.name, own, &b).unwrap();
    assert!(matches!(refused, Some(InUse::Reserved(_))), "{refused:?}");
    for host in [&b, &b, &c] {
        assert_eq!(engine.addresses.yield_to_host(place, host).unwrap(), None);
        let given = engine.addresses.given_to_hosts().unwrap();
        assert_eq!(given, [(network.name.clone(), own, host.to_string())]);
    }
    assert_eq!(names(&engine, &network), []);
    // From one to another it goes without being free in between.
    assert_eq!(engine.addresses.give_to_host(&network.name, own, &b).unwrap(), None);
    assert_eq!(engine.addresses.given_to_hosts().unwrap().len(), 1);
    assert_eq!(ip(&engine.attachments.attach(&of(&network, "c")).unwrap()), "10.0.0.3");
    // So does what an operator reserved, and an endpoint's.
    let reserved: IpAddr = [10, 0, 0, 9].into();
    let owner = Some((network.name.clone(), "web".parse().unwrap()));
    engine.addresses.reserve_address(&Space::Host, reserved, owner).unwrap();
    assert_eq!(engine.addresses.yield_to_host((&network.name, reserved), &b).unwrap(), None);
    assert_eq!(engine.addresses.given_to_hosts().unwrap().len(), 2);
}

/// The block of an address is given back, and taken again.
#[test]
fn what_a_name_keeps_goes_apart_from_its_block_and_back() {
    let (world, network) = (World::new(), front());
    let many = Many { world: &world, gives: None, asked: RefCell::default() };
    let engine = Engine::new(&world.store, &world.dataplane, &world.directory, &many);
    let db: OwnerName = "db".parse().unwrap();
    let own: IpAddr = [10, 0, 0, 2].into();
    assert_eq!(ip(&engine.attachments.attach(&of(&network, "a")).unwrap()), "10.0.0.2");
    engine.links.detach(&of(&network, "a")).unwrap();
    let kept = (own, db.clone());
    for _ in 0..2 {
        assert!(engine.addresses.keep_apart(&network.name, std::slice::from_ref(&kept)).unwrap());
        assert_eq!(engine.addresses.pins().unwrap(), [(network.name.clone(), own)]);
    }
    assert_eq!(names(&engine, &network), [(network.name.clone(), own, db.clone())]);
    // The host has another block by now.
    let mut moved = network.clone();
    if let Ipam::Book { pools } = &mut moved.ipam {
        let range = &mut pools[0].ranges[0];
        (range.first, range.last) = ([10, 0, 0, 34].into(), [10, 0, 0, 47].into());
    }
    assert_eq!(ip(&engine.attachments.attach(&of(&moved, "b")).unwrap()), "10.0.0.2");
    engine.links.detach(&of(&moved, "b")).unwrap();
    engine.addresses.unreserve_address(&Space::Host, own).unwrap_err();
    for _ in 0..2 {
        engine.addresses.keep_within(&network.name, &kept).unwrap();
        assert_eq!(engine.addresses.pins().unwrap(), []);
    }
    assert_eq!(ip(&engine.attachments.attach(&of(&network, "c")).unwrap()), "10.0.0.2");
    engine.links.detach(&of(&network, "c")).unwrap();
    // Where an operator has reserved one of them, all stay as they are.
    let (reserved, web): (IpAddr, OwnerName) = ([10, 0, 0, 9].into(), "web".parse().unwrap());
    let owner = Some((network.name.clone(), web.clone()));
    engine.addresses.reserve_address(&Space::Host, reserved, owner).unwrap();
    let both = [kept, (reserved, web)];
    assert!(!engine.addresses.keep_apart(&network.name, &both).unwrap());
    assert_eq!(engine.addresses.pins().unwrap(), []);
    engine.addresses.unreserve_address(&Space::Host, own).unwrap();
}

#[test]
fn names_are_forgotten_with_their_network() {
    let (world, network) = (World::new(), front());
    let there: IpAddr = [10, 0, 0, 200].into();
    let many = Many { world: &world, gives: Some(there), asked: RefCell::default() };
    let engine = Engine::new(&world.store, &world.dataplane, &world.directory, &many);
    for container in ["a", "b"] {
        engine.attachments.attach(&of(&network, container)).unwrap();
    }
    for container in ["a", "b"] {
        engine.links.detach(&of(&network, container)).unwrap();
    }
    let (reserved, web): (IpAddr, OwnerName) = ([10, 0, 0, 9].into(), "web".parse().unwrap());
    let owner = Some((network.name.clone(), web.clone()));
    engine.addresses.reserve_address(&Space::Host, reserved, owner).unwrap();
    assert_eq!(names(&engine, &network).len(), 3);
    for _ in 0..2 {
        engine.addresses.forget_names(&network.name).unwrap();
        assert_eq!(names(&engine, &network), [(network.name.clone(), reserved, web.clone())]);
    }
    // No host keeps the one of its block; what the others gave ends with their record of it.
    engine.addresses.reserve_address(&Space::Host, [10, 0, 0, 2].into(), None).unwrap();
    assert_eq!(engine.addresses.pins().unwrap(), [(network.name.clone(), there)]);
}

fn names(engine: &Engine<'_>, network: &Network) -> Vec<(NetworkName, IpAddr, OwnerName)> {
    engine.addresses.kept_for_names([&network.name].into_iter()).unwrap()
}
