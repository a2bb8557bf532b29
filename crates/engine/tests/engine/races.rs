//! What happens when several processes work on one attachment, and when one of them dies.

use super::common::{World, book, ip, network, pool, request};
use doubles::Memory;
use engine::port::{Host, Key, Outcome, Prefix, Record, Store, Txn, Versioned};
use engine::{Engine, Garbage, Mode, Request};
use model::*;

const DEAD: Process = Process { pid: 7, start: 1 };

/// Attaches, and puts the record into `phase` as if another process had left it so.
fn left(world: &World, request: &Request, phase: Phase) -> Attachment {
    let mut record = world.engine().attachments.attach(request).unwrap();
    record.phase = phase;
    let key = Key::Attachment(record.id.clone(), record.layer);
    let txn = Txn::new().put(key, Record::Attachment(Box::new(record.clone())));
    assert!(matches!(world.store.commit(&txn).unwrap(), Outcome::Done(_)));
    record
}

fn published(network: &Network, port: u16) -> Request {
    let mut request = request(network, "a");
    let number = std::num::NonZeroU16::new(port).unwrap();
    request.wiring.publish = Some(Publish {
        ports: vec![PortMap {
            host: None,
            host_port: number,
            container_port: number,
            protocol: Protocol::Tcp,
        }],
        ..Publish::new(Backend::Nftables)
    });
    request
}

#[test]
fn ports_of_a_dead_attempt_are_free_again() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    left(&world, &published(&network, 8080), Phase::Attaching { by: DEAD });
    world.machine.dead.borrow_mut().insert(DEAD.pid);
    let engine = world.engine();
    engine.attachments.attach(&published(&network, 9090)).unwrap();
    let ports: Vec<u16> =
        engine.records.ports().unwrap().iter().map(|(_, port, _)| *port).collect();
    assert_eq!(ports, [9090]);
    engine.links.detach(&published(&network, 9090)).unwrap();
    assert!(engine.records.ports().unwrap().is_empty());
}

#[test]
fn a_server_may_give_another_address_than_to_a_dead_attempt() {
    let server = Dhcp {
        socket: "/run/cni/dhcp.sock".into(),
        request: Vec::new(),
        skip: Vec::new(),
        provide: Vec::new(),
        priority: None,
    };
    let (world, network) = (World::new(), network("lan", Ipam::Dhcp(server)));
    let asked = request(&network, "a");
    let addresses: [IpNet; 2] =
        ["10.0.0.9/24", "10.0.0.5/24"].map(|address| address.parse().unwrap());
    world.directory.server.borrow_mut().extend(addresses);
    assert_eq!(ip(&left(&world, &asked, Phase::Attaching { by: DEAD })), "10.0.0.5");
    world.machine.dead.borrow_mut().insert(DEAD.pid);
    let engine = world.engine();
    assert_eq!(ip(&engine.attachments.attach(&asked).unwrap()), "10.0.0.9");
    let held: Vec<IpNet> =
        engine.records.holders().unwrap().iter().map(|holder| holder.lease.address).collect();
    assert_eq!(held, ["10.0.0.9/24".parse().unwrap()]);
}

#[test]
fn claims_without_a_record_are_found() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let holder = request(&network, "gone").id();
    let port = std::num::NonZeroU16::new(80).unwrap();
    let key = Key::Port(Protocol::Tcp, port);
    let claims = Record::Port(vec![Claim { host: None, holder, sandbox: None }]);
    assert!(matches!(world.store.commit(&Txn::new().put(key, claims)).unwrap(), Outcome::Done(_)));
    let engine = world.engine();
    let found = engine.repair.reconcile(Mode::Mend).unwrap();
    assert!(matches!(found[..], [engine::Finding { what: Garbage::Port(_), .. }]), "{found:?}");
    assert!(engine.records.ports().unwrap().is_empty());
}

#[test]
fn no_process_undoes_beside_a_living_detacher() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let wanted = request(&network, "a");
    let other = Process { pid: 8, start: 1 };
    left(&world, &wanted, Phase::Detaching { by: other, attacher: None });
    let engine = world.engine();
    assert_eq!(engine.links.detach(&wanted).unwrap_err().kind(), Kind::TryAgain);
    assert_eq!(engine.attachments.attach(&wanted).unwrap_err().kind(), Kind::TryAgain);
    assert!(engine.repair.reconcile(Mode::Mend).unwrap().is_empty());
    assert_eq!(world.dataplane.made.borrow().len(), 1);
    world.machine.dead.borrow_mut().insert(other.pid);
    engine.links.detach(&wanted).unwrap();
    assert!(
        world.dataplane.made.borrow().is_empty() && engine.records.holders().unwrap().is_empty()
    );
}

/// A host whose attacher writes that it is done, and ends before anybody asks again.
struct LettingGo<'a> {
    world: &'a World,
    asked: Request,
}

impl Host for LettingGo<'_> {
    fn me(&self) -> Process {
        self.world.machine.me()
    }

    fn now(&self) -> Timestamp {
        self.world.machine.now()
    }

    fn is_running(&self, process: &Process) -> bool {
        self.world.machine.is_running(process)
    }

    fn occupied(&self) -> Result<Vec<engine::port::Occupied>> {
        Ok(Vec::new())
    }

    fn wait_for_end(&self, process: &Process, _: std::time::Duration) -> bool {
        let key = Key::Attachment(self.asked.id(), self.asked.layer);
        let read = self.world.store.get(&key).unwrap().unwrap();
        let Record::Attachment(mut record) = read.record else { return false };
        let Phase::Detaching { by, attacher } = record.phase else { return false };
        assert_eq!(attacher, Some(*process));
        record.phase = Phase::Detaching { by, attacher: None };
        let txn = Txn::new().put(key, Record::Attachment(record));
        assert!(matches!(self.world.store.commit(&txn).unwrap(), Outcome::Done(_)));
        true
    }
}

#[test]
fn a_detach_that_overtakes_an_attach_leaves_nothing() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let asked = published(&network, 8080);
    left(&world, &asked, Phase::Attaching { by: Process { pid: 8, start: 1 } });
    let host = LettingGo { world: &world, asked: asked.clone() };
    let engine = Engine::new(&world.store, &world.dataplane, &world.directory, &host);
    engine.links.detach(&asked).unwrap();
    assert!(
        engine.records.attachments().unwrap().is_empty()
            && engine.records.ports().unwrap().is_empty()
    );
    assert!(engine.records.holders().unwrap().is_empty());
}

#[test]
fn a_dead_detacher_does_not_hide_a_living_attacher() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let wanted = request(&network, "a");
    let attacher = Process { pid: 8, start: 1 };
    world.machine.dead.borrow_mut().insert(DEAD.pid);
    left(&world, &wanted, Phase::Detaching { by: DEAD, attacher: Some(attacher) });
    let engine = world.engine();
    assert_eq!(engine.links.detach(&wanted).unwrap_err().kind(), Kind::TryAgain);
    assert!(engine.repair.reconcile(Mode::Mend).unwrap().is_empty());
    world.machine.dead.borrow_mut().insert(attacher.pid);
    engine.links.detach(&wanted).unwrap();
    assert!(engine.records.attachments().unwrap().is_empty());
}

#[test]
fn a_gateway_is_never_allocated_even_if_it_is_reserved() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let engine = world.engine();
    let web: OwnerName = "web".parse().unwrap();
    let gateway = "10.0.0.1".parse().unwrap();
    engine
        .addresses
        .reserve_address(&Space::Host, gateway, Some((network.name.clone(), web.clone())))
        .unwrap();
    let mut owner = request(&network, "a");
    owner.owner = Some(web);
    assert_eq!(ip(&engine.attachments.attach(&owner).unwrap()), "10.0.0.2");
}

#[test]
fn an_owner_that_is_replaced_while_it_lives_keeps_both_addresses() {
    let (world, mut network) = (World::new(), book("10.0.0.0/28"));
    network.sticky = true;
    let engine = world.engine();
    let named = |container: &str| {
        let mut named = request(&network, container);
        named.owner = Some("web".parse().unwrap());
        named
    };
    let mut seen = std::collections::BTreeSet::new();
    seen.insert(ip(&engine.attachments.attach(&named("web-0")).unwrap()));
    for round in 1..8 {
        seen.insert(ip(&engine.attachments.attach(&named(&format!("web-{round}"))).unwrap()));
        engine.links.detach(&named(&format!("web-{}", round - 1))).unwrap();
    }
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!(engine.records.reservations().unwrap().len(), 2);
}

#[test]
fn a_network_without_containers_holds_no_subnet() {
    let world = World::new();
    world.dataplane.fails.set(true);
    let of = |name: &str| {
        let pools = vec![pool(name, "10.0.0.0/29", Order::NextAfterLast)];
        network(name, Ipam::Book { pools })
    };
    let engine = world.engine();
    engine.attachments.attach(&request(&of("oops"), "a")).unwrap_err();
    engine.networks.create(&of("front")).unwrap();
    assert_eq!(engine.networks.create(&of("other")).unwrap_err().kind(), Kind::Conflict);
}

#[test]
fn gc_keeps_what_is_just_being_attached() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let other = Process { pid: 8, start: 1 };
    left(&world, &request(&network, "a"), Phase::Attaching { by: other });
    let engine = world.engine();
    engine.repair.gc(&network, &engine::Members::new()).unwrap();
    let kept = world.directory.kept.borrow();
    assert!(kept.iter().any(|(container, _)| container.as_str() == "a"));
    assert_eq!(engine.records.holders().unwrap().len(), 1);
}

/// A store that cannot list the attachments of a container.
struct Unlisted<'a>(&'a Memory);

impl Store for Unlisted<'_> {
    fn get(&self, key: &Key) -> Result<Option<Versioned>> {
        self.0.get(key)
    }

    fn list(&self, prefix: &Prefix) -> Result<Vec<(Key, Versioned)>> {
        match prefix {
            Prefix::AttachmentsOfContainer(_) => Err(Error::new(Kind::Kernel, "cannot list")),
            _ => self.0.list(prefix),
        }
    }

    fn commit(&self, txn: &Txn) -> Result<Outcome> {
        self.0.commit(txn)
    }
}

/// A DEL of a network that never attached the container names an interface that another network's
/// attachment may have.
#[test]
fn an_interface_stays_while_its_owner_is_unknown() {
    let world = World::new();
    let sandbox = Sandbox { path: "/run/netns/a".into(), inode: 1 };
    let of = |name: &str| {
        let mut request = request(&network(name, Ipam::None), "a");
        request.sandbox = Some(sandbox.clone());
        request
    };
    let engine = world.engine();
    engine.attachments.attach(&of("front")).unwrap();
    let store = Unlisted(&world.store);
    let blind = Engine::new(&store, &world.dataplane, &world.directory, &world.machine);
    let error = blind.links.detach(&of("other")).unwrap_err();
    assert_eq!(error.to_string(), "cannot list");
    assert_eq!(*world.dataplane.detached_in.borrow(), None, "not by its name");
    engine.links.detach(&of("other")).unwrap();
    assert_eq!(*world.dataplane.detached_in.borrow(), None, "it is front's");
    engine.links.detach(&of("front")).unwrap();
    assert_eq!(*world.dataplane.detached_in.borrow(), Some(sandbox));
}
