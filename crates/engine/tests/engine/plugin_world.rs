//! A host whose links and addresses a plugin makes: it remembers its calls, and fails, or its caller
//! is killed, before or after the work of a call.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use doubles::Memory;
use engine::port::{
    Driver, Granted, Host, HostDataplane, Ipam as IpamPort, Key, Near, Note, Occupied, Offer,
    Outcome, Prefix, Presence, Store, Stray, Txn, Versioned,
};
use engine::{Engine, GATEWAY_NETWORK, Members};
use model::*;

/// What goes wrong, after how many points at which it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// What is asked of others fails.
    Fails(usize),
    /// The process is killed.
    Kills(usize),
}

/// The process was killed.
struct Killed;

/// What the plugin, and the kernel, know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) networks: BTreeSet<NetworkName>,
    pub(crate) pools: BTreeSet<NetworkName>,
    pub(crate) made: BTreeSet<AttachmentId>,
    pub(crate) addresses: BTreeMap<AttachmentId, IpNet>,
    /// Only of whom something is led out.
    pub(crate) gateway_families: BTreeMap<AttachmentId, Vec<Family>>,
    /// Which ports lead to whom.
    pub(crate) serves: BTreeMap<AttachmentId, Vec<u16>>,
    /// Whose removal failed: they are cut off, whatever was not undone.
    cut_off: BTreeSet<AttachmentId>,
}

pub(crate) struct World {
    store: Memory,
    pub(crate) state: Mutex<State>,
    pub(crate) log: Mutex<Vec<String>>,
    pub(crate) fault: Mutex<Fault>,
    /// Of which families attachments on a network have a way out; none where nothing is said.
    pub(crate) ways: Mutex<BTreeMap<String, Vec<Family>>>,
    pub(crate) keeps_in: Mutex<BTreeSet<String>>,
    pub(crate) gone: Mutex<BTreeSet<AttachmentId>>,
    /// Of which the plugin knows nothing.
    pub(crate) unseen: Mutex<BTreeSet<AttachmentId>>,
    /// Namespaces that are no more.
    pub(crate) ended: Mutex<BTreeSet<u64>>,
    /// Which pool it gives.
    pub(crate) subnet: Mutex<IpNet>,
    pub(crate) dead: Mutex<BTreeSet<u32>>,
    /// Who is in a namespace under another name.
    pub(crate) others: Mutex<BTreeMap<String, BTreeSet<ContainerId>>>,
    next: Mutex<u8>,
    /// How many records were read.
    pub(crate) reads: AtomicUsize,
}

thread_local! {
    /// Threads stand for processes.
    static PID: Cell<u32> = const { Cell::new(1) };
}

/// This thread is another process from now on.
pub(crate) fn become_process(pid: u32) {
    PID.set(pid);
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            store: Memory::new(),
            state: Mutex::default(),
            log: Mutex::default(),
            fault: Mutex::default(),
            ways: Mutex::default(),
            keeps_in: Mutex::default(),
            gone: Mutex::default(),
            unseen: Mutex::default(),
            ended: Mutex::default(),
            subnet: Mutex::new("10.9.0.0/24".parse().unwrap()),
            dead: Mutex::default(),
            others: Mutex::default(),
            next: Mutex::new(2),
            reads: AtomicUsize::new(0),
        }
    }

    pub(crate) fn engine(&self) -> Engine<'_> {
        Engine::new(self, self, self, self)
    }

    /// Does it with the fault; whether the fault came, and what was answered if anybody lived to
    /// hear it. A caller that was killed is another process afterwards.
    pub(crate) fn with<T>(&self, fault: Fault, work: impl FnOnce() -> T) -> (bool, Option<T>) {
        *self.fault.lock().unwrap() = fault;
        let done = catch_unwind(AssertUnwindSafe(work));
        let came = std::mem::take(&mut *self.fault.lock().unwrap()) == Fault::None;
        let answer = match done {
            Ok(answer) => Some(answer),
            Err(cause) if cause.is::<Killed>() => {
                let pid = PID.get();
                self.dead.lock().unwrap().insert(pid);
                PID.set(pid + 1);
                None
            }
            Err(cause) => resume_unwind(cause),
        };
        (came && fault != Fault::None, answer)
    }

    /// A point at which something can go wrong.
    fn point(&self, what: &str) -> Result<()> {
        let mut fault = self.fault.lock().unwrap();
        let (left, is_killed) = match *fault {
            Fault::None => return Ok(()),
            Fault::Fails(left) => (left, false),
            Fault::Kills(left) => (left, true),
        };
        if left > 0 {
            *fault = if is_killed { Fault::Kills(left - 1) } else { Fault::Fails(left - 1) };
            return Ok(());
        }
        *fault = Fault::None;
        drop(fault);
        match is_killed {
            true => resume_unwind(Box::new(Killed)),
            false => Err(Error::new(Kind::Kernel, format!("{what} fails"))),
        }
    }

    /// What is done may go wrong before, and after: then the caller does not know that it was done.
    fn reported<T>(&self, what: String, work: impl FnOnce(&mut State) -> T) -> Result<T> {
        self.point(&what)?;
        let done = work(&mut self.state.lock().unwrap());
        self.log.lock().unwrap().push(what.clone());
        self.point(&what)?;
        Ok(done)
    }

    pub(crate) fn state(&self) -> State {
        self.state.lock().unwrap().clone()
    }

    /// The host is started again: the plugin remembers its networks and pools.
    pub(crate) fn reboot(&self) {
        self.store.reboot();
        let mut state = self.state.lock().unwrap();
        let (networks, pools) = (state.networks.clone(), state.pools.clone());
        *state = State { networks, pools, ..State::default() };
    }

    pub(crate) fn set_ways(&self, network: &str, ways: &[Family]) {
        self.ways.lock().unwrap().insert(network.to_owned(), ways.to_vec());
    }

    /// Which host of its pool it gives next.
    pub(crate) fn give_next(&self, place: u8) {
        *self.next.lock().unwrap() = place - 1;
    }

    pub(crate) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    /// Which attachments of the container lead, as `network: families`.
    pub(crate) fn default_gateways(&self, container: &str) -> Vec<String> {
        let state = self.state();
        let its =
            state.gateway_families.iter().filter(|(id, _)| id.container.as_str() == container);
        its.map(|(id, families)| format!("{}: {families:?}", id.network)).collect()
    }

    /// Which ports lead to the container, as `network: ports`.
    pub(crate) fn served(&self, container: &str) -> Vec<String> {
        let state = self.state();
        let its = state.serves.iter().filter(|(id, _)| id.container.as_str() == container);
        its.map(|(id, ports)| format!("{}: {ports:?}", id.network)).collect()
    }

    /// That nothing is left but the network that leads out what nothing else does.
    pub(crate) fn assert_empty(&self, when: &str) {
        let engine = self.engine();
        assert_eq!(self.state(), State::default(), "{when}");
        assert!(engine.records.attachments().unwrap().is_empty(), "{when}");
        assert!(engine.records.holders().unwrap().is_empty(), "{when}");
        assert!(engine.records.ports().unwrap().is_empty(), "{when}");
        let left = engine.records.networks().unwrap();
        let left: Vec<_> = left.iter().map(|network| network.name.as_str()).collect();
        assert!(left.iter().all(|name| *name == GATEWAY_NETWORK), "{when}: {left:?}");
        for prefix in [Prefix::Sandboxes, Prefix::Endpoints, Prefix::Reservations] {
            assert!(self.store.list(&prefix).unwrap().is_empty(), "{when}: {prefix:?}");
        }
    }
}

fn held(net: IpNet) -> InterfaceAddress {
    InterfaceAddress { address: net, gateway: None, interface: None }
}

impl Driver for World {
    fn attach(&self, attachment: &Attachment) -> Result<Attached> {
        let id = attachment.id.clone();
        self.reported(format!("attach {}", id.network), |state| state.made.insert(id.clone()))?;
        let ways = self.ways.lock().unwrap().get(id.network.as_str()).cloned();
        let is_gateway_endpoint = id.network.as_str() == GATEWAY_NETWORK;
        let ways = ways.unwrap_or(if is_gateway_endpoint { vec![Family::V4] } else { vec![] });
        let at_once =
            attachment.gateway_role.iter().flat_map(|gateway_role| &gateway_role.families).copied();
        let at_once: Vec<Family> = at_once.filter(|family| ways.contains(family)).collect();
        if !at_once.is_empty() {
            self.set_gateway(attachment, &at_once)?;
        }
        let routes = ways.iter().map(|family| Route::new(family.everything(), None));
        Ok(Attached {
            addresses: attachment.addresses.clone(),
            routes: routes.collect(),
            keeps_in: self.keeps_in.lock().unwrap().contains(id.network.as_str()),
            ..Attached::default()
        })
    }

    fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        let id = attachment.id.clone();
        assert!(self.state().networks.contains(&id.network), "{id}: offered on no network");
        self.reported(format!("offer {}", id.network), |state| state.made.insert(id.clone()))?;
        let mut addresses = attachment.addresses.clone();
        if attachment.ipam == Ipam::None {
            addresses.push(held("192.0.2.7/24".parse().unwrap()));
        }
        Ok(Offer { addresses, ..Offer::default() })
    }

    /// The plugin does, and the kernel does not.
    fn sets_gateway_at_once(&self, attachment: &Attachment) -> bool {
        attachment.wiring.chooses_addresses()
    }

    fn set_gateway(&self, attachment: &Attachment, families: &[Family]) -> Result<()> {
        let id = attachment.id.clone();
        let what = format!("lead {} {families:?}", id.network);
        self.reported(what, |state| {
            let is_here = |other: &AttachmentId| {
                other.container == id.container && !state.cut_off.contains(other)
            };
            let others =
                state.gateway_families.iter().filter(|(other, _)| is_here(other) && **other != id);
            for (other, gateway_families) in others {
                assert!(
                    families.iter().all(|family| !gateway_families.contains(family)),
                    "{other} and {id} lead at once"
                );
            }
            let publish = attachment.wiring.publish.iter().flat_map(|publish| &publish.ports);
            let ports: Vec<u16> = publish.map(|map| map.host_port.get()).collect();
            match families.is_empty() || !state.made.contains(&id) {
                true => drop((state.gateway_families.remove(&id), state.serves.remove(&id))),
                false => {
                    state.gateway_families.insert(id.clone(), families.to_vec());
                    state.serves.insert(id.clone(), ports);
                }
            }
        })
    }

    fn detach(&self, attachment: &Attachment) -> Result<()> {
        let id = &attachment.id;
        if self.state().made.contains(id) {
            self.state.lock().unwrap().cut_off.insert(id.clone());
        }
        self.reported(format!("detach {}", id.network), |state| {
            state.made.remove(id);
            state.gateway_families.remove(id);
            state.serves.remove(id);
            state.cut_off.remove(id);
        })
    }

    fn check(&self, _: &Attachment, _: &Attached) -> Result<()> {
        Ok(())
    }

    fn presence(&self, attachment: &Attachment) -> Presence {
        match self.gone.lock().unwrap().contains(&attachment.id) {
            true => Presence::Gone,
            false if self.unseen.lock().unwrap().contains(&attachment.id) => Presence::Doubtful,
            false => Presence::Alive,
        }
    }

    fn restore(&self, _: &Attachment) -> Result<bool> {
        Ok(false)
    }

    fn hardware_address(&self, _: &Attachment) -> Option<Mac> {
        None
    }

    fn create(&self, network: &Network) -> Result<()> {
        if network.wiring.chooses_addresses() {
            let name = network.name.clone();
            self.reported(format!("create {name}"), |state| state.networks.insert(name))?;
        }
        Ok(())
    }

    fn up(&self, _: &Network) -> Result<()> {
        Ok(())
    }

    fn remove(&self, network: &Network) -> Result<()> {
        let name = &network.name;
        self.reported(format!("remove {name}"), |state| state.networks.remove(name)).map(|_| ())
    }
}

impl HostDataplane for World {
    fn namespace(&self, sandbox: &Sandbox) -> Option<Namespace> {
        let is_there = !self.ended.lock().unwrap().contains(&sandbox.inode);
        is_there.then_some(Namespace { inode: sandbox.inode, seen_from: 7, number: 3 })
    }

    fn is_ended(&self, namespace: &Namespace) -> bool {
        self.ended.lock().unwrap().contains(&namespace.inode)
    }

    /// What it would write, line by line.
    fn name(&self, records: &dyn Fn() -> Result<Vec<Attachment>>) -> Result<Vec<Note>> {
        let note = |record: Attachment| Note {
            namespace: record.id.container.to_string(),
            sentence: format!("{} {:?} {:?}", record.id.network, record.names, record.dns.search),
        };
        Ok(records()?.into_iter().map(note).collect())
    }

    fn name_near(&self, _: &Path, near: &dyn Fn() -> Result<Near>) -> Result<Vec<Note>> {
        let near = near()?;
        let names = near.namespaces.into_iter();
        let notes = names.map(|namespace| Note { namespace, sentence: String::new() });
        let records = near.records;
        Ok(notes.chain(self.name(&|| Ok(records.clone()))?).collect())
    }

    fn namespace_named(&self, path: &Path) -> Option<(String, BTreeSet<ContainerId>)> {
        let name = path.file_name()?.to_str()?.to_owned();
        let others = self.others.lock().unwrap().get(&name).cloned().unwrap_or_default();
        Some((name, others))
    }

    fn strays(&self, _: &dyn Fn() -> Result<Vec<Attachment>>) -> Result<Vec<(Stray, Presence)>> {
        Ok(Vec::new())
    }

    fn remove_stray(&self, _: &Stray) -> Result<()> {
        Ok(())
    }
}

impl IpamPort for World {
    fn request(&self, network: &Network) -> Result<Ipam> {
        let Ipam::Remote(remote) = &network.ipam else { return Ok(network.ipam.clone()) };
        let name = network.name.clone();
        let asked = self.reported(format!("request {name}"), |state| state.pools.insert(name));
        if let Err(error) = asked {
            // It gives back what it got.
            self.state.lock().unwrap().pools.remove(&network.name);
            return Err(error);
        }
        let mut given = remote.clone();
        for pool in &mut given.pools {
            let net = pool.net.unwrap_or(*self.subnet.lock().unwrap());
            let (key, data) = (format!("pool {net}"), BTreeMap::new());
            pool.given = Some(GivenPool { key, net, gateway: None, data });
        }
        Ok(Ipam::Remote(given))
    }

    fn lease(&self, attachment: &Attachment) -> Result<Granted> {
        let Ipam::Remote(remote) = &attachment.ipam else { return Ok(Granted::Chosen) };
        let pool = remote.pools[0].given.as_ref().unwrap();
        let id = attachment.id.clone();
        let wanted = attachment.leases.first().map(|lease| lease.address.addr());
        let any = || {
            let mut next = self.next.lock().unwrap();
            *next = if *next == 250 { 2 } else { *next + 1 };
            pool.net.hosts().nth(usize::from(*next)).unwrap()
        };
        let net = IpNet::new(wanted.unwrap_or_else(any), pool.net.prefix_len()).unwrap();
        self.reported(format!("lease {}", id.network), |state| {
            let old = state.addresses.insert(id.clone(), net);
            assert_eq!(old, None, "{id} has an address already");
        })?;
        Ok(Granted::Offered(Box::new(Offer { addresses: vec![held(net)], ..Offer::default() })))
    }

    fn release(&self, attachment: &Attachment) -> Result<()> {
        if attachment.ipam.remote().is_none() {
            return Ok(());
        }
        let id = &attachment.id;
        self.reported(format!("release {}", id.network), |state| state.addresses.remove(id))
            .map(|_| ())
    }

    fn check(&self, _: &Attachment) -> Result<()> {
        Ok(())
    }

    fn gc(&self, _: &Network, _: &Members) -> Result<()> {
        Ok(())
    }

    fn status(&self, _: &Network) -> Result<()> {
        Ok(())
    }

    fn remove(&self, network: &Network) -> Result<()> {
        let name = &network.name;
        if network.ipam.remote().is_none() {
            return Ok(());
        }
        self.reported(format!("give {name} back"), |state| state.pools.remove(name)).map(|_| ())
    }
}

impl Host for World {
    fn me(&self) -> Process {
        Process { pid: PID.get(), start: 1 }
    }

    fn now(&self) -> Timestamp {
        Timestamp(1_000)
    }

    fn is_running(&self, process: &Process) -> bool {
        *process != Process::NONE && !self.dead.lock().unwrap().contains(&process.pid)
    }

    fn occupied(&self) -> Result<Vec<Occupied>> {
        Ok(Vec::new())
    }

    fn wait_for_end(&self, process: &Process, limit: Duration) -> bool {
        if self.is_running(process) {
            std::thread::sleep(limit);
        }
        !self.is_running(process)
    }
}

/// The writer may be killed before and after.
impl Store for World {
    fn get(&self, key: &Key) -> Result<Option<Versioned>> {
        self.reads.fetch_add(1, Relaxed);
        self.store.get(key)
    }

    fn list(&self, prefix: &Prefix) -> Result<Vec<(Key, Versioned)>> {
        let found = self.store.list(prefix)?;
        self.reads.fetch_add(found.len(), Relaxed);
        Ok(found)
    }

    fn commit(&self, txn: &Txn) -> Result<Outcome> {
        let is_killing = matches!(*self.fault.lock().unwrap(), Fault::Kills(_));
        if is_killing {
            self.point("a commit")?;
        }
        let outcome = self.store.commit(txn)?;
        if is_killing {
            self.point("a commit")?;
        }
        Ok(outcome)
    }
}
