//! What another process commits between a read and the commit that is based on it.

use std::cell::{Cell, RefCell};

use super::common::{World, book, ip, network, pool, request};
use engine::Engine;
use engine::port::{Key, Outcome, Prefix, Record, Store, Txn, Versioned};
use model::*;

use super::subnet_rig::{container, exactly, for_network};

type Then<'a> = Box<dyn FnOnce() + 'a>;

/// A store before one of whose commits another process comes.
pub(crate) struct Between<'a> {
    world: &'a World,
    when: fn(&Txn) -> bool,
    then: RefCell<Option<Then<'a>>>,
    /// The process is killed before its second commit after that.
    dies: Cell<Option<u8>>,
}

impl<'a> Between<'a> {
    pub(crate) fn new(world: &'a World, when: fn(&Txn) -> bool, then: impl FnOnce() + 'a) -> Self {
        Self { world, when, then: RefCell::new(Some(Box::new(then))), dies: Cell::new(None) }
    }

    /// What could not be undone by a process that is killed stays.
    pub(crate) fn dying(self) -> Self {
        self.dies.set(Some(1));
        self
    }

    pub(crate) fn engine(&self) -> Engine<'_> {
        let World { dataplane, directory, machine, .. } = self.world;
        Engine::new(self, dataplane, directory, machine)
    }

    pub(crate) fn has_come(&self) -> bool {
        self.then.borrow().is_none()
    }
}

impl Store for Between<'_> {
    fn get(&self, key: &Key) -> Result<Option<Versioned>> {
        self.world.store.get(key)
    }

    fn list(&self, prefix: &Prefix) -> Result<Vec<(Key, Versioned)>> {
        self.world.store.list(prefix)
    }

    fn commit(&self, txn: &Txn) -> Result<Outcome> {
        if (self.when)(txn)
            && let Some(then) = self.then.take()
        {
            then();
        }
        if self.has_come()
            && let Some(more) = self.dies.get()
        {
            let Some(fewer) = more.checked_sub(1) else { return Err(Error::bug("it was killed")) };
            self.dies.set(Some(fewer));
        }
        self.world.store.commit(txn)
    }
}

fn takes_a_lease(txn: &Txn) -> bool {
    txn.changes.iter().any(|(key, to)| matches!(key, Key::Lease(..)) && to.is_some())
}

fn deletes_a_network(txn: &Txn) -> bool {
    txn.changes.iter().any(|(key, to)| matches!(key, Key::Configured(_)) && to.is_none())
}

/// An address that the search found free, or that was asked for, is reserved for another host before it is
/// leased.
#[test]
fn an_address_has_one_host() {
    let (network, address) = (book("10.0.0.0/29"), "10.0.0.2".parse().unwrap());
    for wanted in [None, Some(address)] {
        let world = World::new();
        let given = || {
            let host: HostName = "b".parse().unwrap();
            let given = world.engine().addresses.give_to_host(&network.name, address, &host);
            assert_eq!(given.unwrap(), None);
        };
        let between = Between::new(&world, takes_a_lease, given);
        let mut wants = request(&network, "a");
        wants.wanted.extend(wanted);
        let attached = between.engine().attachments.attach(&wants);
        assert!(between.has_come());
        match wanted {
            None => assert_eq!(ip(&attached.unwrap()), "10.0.0.3"),
            Some(_) => assert_eq!(attached.unwrap_err().kind(), Kind::Conflict),
        }
        assert!(world.engine().records.holder(&Space::Host, address).unwrap().is_none());
    }
}

/// The same with an auxiliary address, and with the address that is kept for an owner.
#[test]
fn an_address_is_no_device_s_and_a_container_s() {
    let (world, mut network) = (World::new(), book("10.0.0.0/29"));
    network.sticky = true;
    let address = "10.0.0.2".parse().unwrap();
    world.engine().networks.create(&network).unwrap();
    let mut owned = request(&network, "a");
    owned.owner = Some("web".parse().unwrap());
    assert_eq!(ip(&world.engine().attachments.attach(&owned).unwrap()), "10.0.0.2");
    world.engine().links.detach(&owned).unwrap();
    let between = Between::new(&world, takes_a_lease, || {
        world.engine().addresses.unreserve_address(&Space::Host, address).unwrap();
        world.engine().subnets.reserve_auxiliary(&network.name, address).unwrap();
    });
    assert_eq!(ip(&between.engine().attachments.attach(&owned).unwrap()), "10.0.0.3");
    assert!(between.has_come());
}

/// The attach commits before the removal begins, or before it ends: then it is refused.
#[test]
fn no_container_is_on_a_network_that_was_removed() {
    let both: [fn(&Txn) -> bool; 2] = [|_| true, deletes_a_network];
    for (when, is_first) in both.into_iter().zip([true, false]) {
        let (world, network) = (World::new(), book("10.0.0.0/29"));
        world.engine().networks.create(&network).unwrap();
        let attached = RefCell::new(None);
        let between = Between::new(&world, when, || {
            *attached.borrow_mut() =
                Some(world.engine().attachments.attach(&request(&network, "a")));
        });
        let removed = between.engine().networks.remove(&network.name, false);
        assert!(between.has_come());
        let attached = attached.take().unwrap();
        assert_eq!(attached.is_ok(), is_first, "{attached:?}");
        assert_eq!(removed.is_ok(), !is_first, "{removed:?}");
        assert_eq!(world.engine().records.networks().unwrap().len(), usize::from(is_first));
        let is_gone = world.dataplane.removed.borrow().contains(&network.name);
        assert_eq!(is_gone, !is_first);
        // What was refused can be repeated.
        match is_first {
            true => world.engine().networks.remove(&network.name, true).unwrap(),
            false => drop(world.engine().attachments.attach(&request(&network, "a")).unwrap()),
        }
    }
}

/// A process that dies while it removes a network leaves one that can be used, and removed.
#[test]
fn a_dead_removal_keeps_no_container_out() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let dead = Process { pid: 7, start: 1 };
    let mark =
        Network { stage: Stage::Unmaking { by: dead, why: Unmaking::Removed }, ..network.clone() };
    let key = Key::Configured(network.name.clone());
    let txn = Txn::new().put(key, Record::Network(Box::new(mark)));
    assert!(matches!(world.store.commit(&txn).unwrap(), Outcome::Done(_)));
    let engine = world.engine();
    let wanted = request(&network, "a");
    assert_eq!(engine.attachments.attach(&wanted).unwrap_err().kind(), Kind::TryAgain);
    assert_eq!(engine.networks.remove(&network.name, true).unwrap_err().kind(), Kind::TryAgain);
    world.machine.dead.borrow_mut().insert(dead.pid);
    assert_eq!(engine.records.network(&network.name).unwrap(), network);
    engine.attachments.attach(&wanted).unwrap();
    engine.networks.remove(&network.name, true).unwrap();
    assert!(engine.records.networks().unwrap().is_empty());
}

/// A daemon that cannot undo a container's network does not keep others from doing that.
#[test]
fn a_failed_detach_has_no_owner() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let (daemon, plugin) = (Process { pid: 1, start: 1 }, Process { pid: 2, start: 1 });
    let wanted = request(&network, "a");
    world.engine().attachments.attach(&wanted).unwrap();
    world.machine.me.set(daemon);
    world.dataplane.undo_fails.set(true);
    assert_eq!(world.engine().links.detach(&wanted).unwrap_err().kind(), Kind::Kernel);
    world.machine.me.set(plugin);
    // The plugin finds the fault that the daemon found, and not the daemon.
    assert_eq!(world.engine().links.detach(&wanted).unwrap_err().kind(), Kind::Kernel);
    world.dataplane.undo_fails.set(false);
    world.engine().links.detach(&wanted).unwrap();
    assert!(world.engine().records.attachments().unwrap().is_empty());
}

/// A daemon that cannot wait for an attacher any longer does not stay the record's owner.
#[test]
fn a_detach_that_waited_too_long_has_no_owner() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let wanted = request(&network, "a");
    let attacher = Process { pid: 8, start: 1 };
    let mut record = world.engine().attachments.attach(&wanted).unwrap();
    record.phase = Phase::Attaching { by: attacher };
    let key = Key::Attachment(record.id.clone(), record.layer);
    let txn = Txn::new().put(key, Record::Attachment(Box::new(record)));
    assert!(matches!(world.store.commit(&txn).unwrap(), Outcome::Done(_)));
    assert_eq!(world.engine().links.detach(&wanted).unwrap_err().kind(), Kind::TryAgain);
    world.machine.dead.borrow_mut().insert(attacher.pid);
    world.machine.me.set(Process { pid: 2, start: 1 });
    world.engine().links.detach(&wanted).unwrap();
    assert!(world.engine().records.holders().unwrap().is_empty());
}

/// Another process gives the address to a container while it is being taken from one that is gone.
#[test]
fn an_evicted_address_is_the_one_that_was_read() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let stale = world.engine().attachments.attach(&request(&network, "a")).unwrap();
    let holder = world.engine().records.holders().unwrap().remove(0);
    let key = Key::Attachment(stale.id.clone(), stale.layer);
    world.store.commit(&Txn::new().delete(key)).unwrap();
    let lease = Key::Lease(Space::Host, holder.lease.address.addr());
    let between = Between::new(
        &world,
        |_| true,
        || {
            let newer = Record::Lease(Holder { since: Timestamp(2_000), ..holder.clone() });
            world.store.commit(&Txn::new().put(lease.clone(), newer)).unwrap();
        },
    );
    assert_eq!(between.engine().repair.evict(&holder).unwrap_err().kind(), Kind::TryAgain);
    assert_eq!(world.engine().records.holders().unwrap().len(), 1);
}

/// A request begins to use an address while its subnet is released: it has its file in the directory that
/// others share.
#[test]
fn an_address_that_is_not_freed_keeps_its_file() {
    let world = World::new();
    let pools = vec![pool("podman", "10.88.0.0/29", Order::NextAfterLast)];
    let podman = network("podman", Ipam::HostLocal { pools, directory: "/n/podman".into() });
    world.engine().networks.create(&podman).unwrap();
    let wanted = for_network("podman", exactly("10.88.0.0/29"));
    let id = world.engine().subnets.request_subnet(&wanted).unwrap().id;
    let lease = world.engine().subnets.request_address(&container(&id, None)).unwrap();
    let address = lease.address.addr();
    assert!(world.directory.claimed.borrow().contains(&address));
    let when = |txn: &Txn| matches!(txn.changes.first(), Some((Key::Lease(..), None)));
    let between = Between::new(&world, when, || {
        let holder = world.engine().records.holder(&Space::Host, address).unwrap().unwrap();
        let newer = Record::Lease(Holder { since: Timestamp(2_000), ..holder });
        let txn = Txn::new().put(Key::Lease(Space::Host, address), newer);
        world.store.commit(&txn).unwrap();
    });
    between.engine().subnets.release_subnet(&id).unwrap();
    assert!(between.has_come());
    assert!(world.engine().records.holder(&Space::Host, address).unwrap().is_some());
    assert!(world.directory.claimed.borrow().contains(&address));
}

/// An address of this host's block that it keeps for a host, and that the others give back to it, is its own without a
/// moment in which any container gets it.
#[test]
fn an_address_kept_for_a_host_becomes_a_pin() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let (engine, address) = (world.engine(), "10.0.0.2".parse().unwrap());
    let kept =
        engine.addresses.give_to_host(&network.name, address, &"b".parse().unwrap()).unwrap();
    assert_eq!(kept, None);
    engine.addresses.note_pin(&network.name, address).unwrap();
    engine.addresses.note_pin(&network.name, address).unwrap();
    assert_eq!(engine.addresses.given_to_hosts().unwrap(), []);
    assert_eq!(engine.addresses.pins().unwrap(), [(network.name.clone(), address)]);
    assert_eq!(ip(&engine.attachments.attach(&request(&network, "a")).unwrap()), "10.0.0.3");
    assert!(engine.addresses.end_pin(address).unwrap());
}

/// The same the other way.
#[test]
fn a_pin_becomes_an_address_kept_for_a_host() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let (engine, address, b) = (world.engine(), "10.0.0.2".parse().unwrap(), "b".parse().unwrap());
    engine.addresses.note_pin(&network.name, address).unwrap();
    assert!(
        engine.addresses.pass_pin(address, &b).unwrap()
            && engine.addresses.pass_pin(address, &b).unwrap()
    );
    assert_eq!(engine.addresses.pins().unwrap(), []);
    let kept = [(network.name.clone(), address, "b".to_owned())];
    assert_eq!(engine.addresses.given_to_hosts().unwrap(), kept);
    assert_eq!(ip(&engine.attachments.attach(&request(&network, "a")).unwrap()), "10.0.0.3");
}

/// ADD would refuse what is only half there, or takes no more containers here.
#[test]
fn status_refuses_what_an_attach_would_refuse() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    let engine = world.engine();
    engine.attachments.status(&network).unwrap();
    let (draining, rest) = ((Stage::Draining, true), [Stage::Failed, Stage::Template]);
    let all = [Stage::Draining].into_iter().chain(rest).map(|stage| (stage, false));
    for (stage, unsupported) in all.chain([draining]) {
        let network = Network { stage, unsupported, ..network.clone() };
        let refused = engine.attachments.attach(&request(&network, "a")).unwrap_err();
        assert_eq!(
            engine.attachments.status(&network).unwrap_err().to_string(),
            refused.to_string()
        );
    }
}

/// The owners of a network that only a configuration describes have their addresses in a backup.
#[test]
fn a_backup_has_the_owners_of_networks_of_configurations() {
    let (world, mut network) = (World::new(), book("10.0.0.0/29"));
    network.sticky = true;
    let mut owned = request(&network, "a");
    owned.owner = Some("web".parse().unwrap());
    world.engine().attachments.attach(&owned).unwrap();
    let backup = world.engine().repair.backup().unwrap();
    let other = World::new();
    other.engine().repair.restore_backup(&backup, engine::RestoreMode::default()).unwrap();
    // The address that is free first is kept for it.
    assert_eq!(
        ip(&other.engine().attachments.attach(&request(&network, "b")).unwrap()),
        "10.0.0.3"
    );
    assert_eq!(ip(&other.engine().attachments.attach(&owned).unwrap()), "10.0.0.2");
}

/// A backup may come from anywhere: what no command makes is not put back.
#[test]
fn a_network_that_no_command_makes_is_not_restored() {
    let (world, network) = (World::new(), book("10.0.0.0/29"));
    world.engine().networks.create(&network).unwrap();
    let backup = world.engine().repair.backup().unwrap();
    let changed = |change: fn(&mut Range)| {
        let mut backup = backup.clone();
        for (_, record) in &mut backup {
            if let Record::Network(network) = record
                && let Ipam::Book { pools } = &mut network.ipam
            {
                pools.iter_mut().flat_map(|pool| &mut pool.ranges).for_each(change);
            }
        }
        let other = World::new();
        let done = other.engine().repair.restore_backup(&backup, engine::RestoreMode::default());
        let has = other.engine().records.declared(&network.name).unwrap().is_some();
        assert_eq!(has, done.is_ok());
        done.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(changed(|_| {}), "");
    assert!(changed(|it| it.subnet = "0.0.0.0/0".parse().unwrap()).contains("0.0.0.0/0"));
    assert!(changed(|it| it.last = "10.0.9.9".parse().unwrap()).contains("10.0.9.9"));
    assert!(changed(|it| it.first = "10.0.0.7".parse().unwrap()).contains("after"));
    assert!(changed(|it| it.gateway = "192.0.2.1".parse().ok()).contains("192.0.2.1"));
}
