//! A host whose power can be cut before any side effect, and whose threads take turns.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use doubles::Memory;
use engine::port::{
    AttachmentLock, Damaged, Driver, Host, HostDataplane, Key, Occupied, Outcome, Prefix, Presence,
    Still, Store, Stray, Txn, Versioned,
};
use engine::{Engine, Joining, Request};
use model::*;

pub(crate) use super::common::endpoint;
use super::common::{Directory, network, pool};
use super::published::{elements, label};
pub(crate) use super::published::{map, open, publishing};
pub(crate) use doubles::alias;

/// What is in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub(crate) bridges: BTreeSet<NetworkName>,
    pub(crate) links: BTreeMap<AttachmentId, Option<Sandbox>>,
    pub(crate) ports: BTreeMap<(Protocol, u16, IpAddr), AttachmentId>,
    /// Those that a cloud has made a port for.
    pub(crate) clouded: BTreeSet<AttachmentId>,
}

#[derive(Default)]
struct Turns {
    held: Mutex<BTreeSet<AttachmentId>>,
    given: Condvar,
}

struct LockGuard(Arc<Turns>, AttachmentId);

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.0.held.lock().unwrap().remove(&self.1);
        self.0.given.notify_all();
    }
}

pub(crate) struct Rig {
    store: Memory,
    ipam: Mutex<()>,
    pub(crate) kernel: Mutex<Kernel>,
    pub(crate) log: Mutex<Vec<String>>,
    /// Ports on which a process listens.
    pub(crate) listens: Mutex<BTreeSet<u16>>,
    pub(crate) gone: Mutex<BTreeSet<AttachmentId>>,
    pub(crate) fails: Mutex<Option<&'static str>>,
    /// What restored attachments had.
    pub(crate) restored: Mutex<Vec<Wiring>>,
    /// How many side effects happen before the process dies.
    fuse: AtomicI64,
    /// What happens once while something is being attached or restored.
    pub(crate) meanwhile: Mutex<Option<Meanwhile>>,
    /// What happens once before a lock is taken.
    pub(crate) before_turn: Mutex<Option<Meanwhile>>,
    /// What happens once before something is committed.
    pub(crate) before_commit: Mutex<Option<Meanwhile>>,
    /// What no record knows.
    pub(crate) strays: Mutex<Vec<(Stray, Presence)>>,
    /// Of attachments.
    pub(crate) damaged: Mutex<Vec<Damaged>>,
    pid: Mutex<u32>,
    pub(crate) now: Mutex<u64>,
    turns: Arc<Turns>,
}

pub(crate) type Meanwhile = Box<dyn FnOnce(&Rig) + Send>;

fn cut() -> Error {
    Error::new(Kind::Kernel, "the power is cut")
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self {
            store: Memory::new(),
            ipam: Mutex::default(),
            kernel: Mutex::default(),
            log: Mutex::default(),
            listens: Mutex::default(),
            gone: Mutex::default(),
            fails: Mutex::default(),
            restored: Mutex::default(),
            fuse: AtomicI64::new(i64::MAX),
            meanwhile: Mutex::default(),
            before_turn: Mutex::default(),
            before_commit: Mutex::default(),
            strays: Mutex::default(),
            damaged: Mutex::default(),
            pid: Mutex::new(1),
            now: Mutex::new(1_000),
            turns: Arc::default(),
        }
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&Engine<'_>) -> T) -> T {
        let directory = Directory::default();
        work(&Engine::new(self, self, &directory, self))
    }

    /// The process dies before its side effect of this number, counted from 0.
    pub(crate) fn die_before(&self, effect: i64) {
        self.fuse.store(effect, Ordering::SeqCst);
    }

    /// Another process comes.
    pub(crate) fn reborn(&self) {
        *self.pid.lock().unwrap() += 1;
        self.fuse.store(i64::MAX, Ordering::SeqCst);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.fuse.load(Ordering::SeqCst) <= 0
    }

    pub(crate) fn reboot(&self) {
        self.store.reboot();
        *self.kernel.lock().unwrap() = Kernel::default();
        self.reborn();
    }

    pub(crate) fn kernel(&self) -> Kernel {
        self.kernel.lock().unwrap().clone()
    }

    /// The dataplane's calls since the last look.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }

    fn effect(&self, what: &str, id: &dyn std::fmt::Display) -> Result<()> {
        if self.fuse.fetch_sub(1, Ordering::SeqCst) <= 0 {
            self.fuse.store(0, Ordering::SeqCst);
            return Err(cut());
        }
        self.log.lock().unwrap().push(format!("{what} {id}"));
        let _one_at_a_time = self.ipam.lock().unwrap();
        Ok(())
    }

    fn failing(&self, what: &str) -> Result<()> {
        match *self.fails.lock().unwrap() {
            Some(fails) if fails == what => Err(Error::new(Kind::Kernel, "the dataplane fails")),
            Some(_) | None => Ok(()),
        }
    }

    fn install(&self, attachment: &Attachment) -> Result<()> {
        let mut kernel = self.kernel.lock().unwrap();
        for (key, map) in elements(attachment) {
            let holder = kernel.ports.get(&key).filter(|holder| **holder != attachment.id);
            if let Some(holder) = holder {
                return Err(Error::conflict(format!("{map} leads to {holder}")));
            }
        }
        for (key, _) in elements(attachment) {
            kernel.ports.insert(key, attachment.id.clone());
        }
        Ok(())
    }
}

impl Driver for Rig {
    fn fence(&self, _: &Attachment) -> Result<()> {
        Ok(())
    }

    fn attach(&self, attachment: &Attachment) -> Result<Attached> {
        self.effect("attach", &label(attachment))?;
        let listens = self.listens.lock().unwrap().clone();
        for (_, map) in elements(attachment) {
            if listens.contains(&map.host_port.get()) {
                return Err(Error::conflict(format!("a process listens on {map}")));
            }
        }
        if attachment.wiring.link.is_some() {
            let (id, sandbox) = (attachment.id.clone(), attachment.sandbox.clone());
            self.kernel.lock().unwrap().links.insert(id, sandbox);
        }
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile(self);
        }
        self.failing("attach")?;
        self.install(attachment)?;
        Ok(Attached { addresses: attachment.addresses.clone(), ..Attached::default() })
    }

    fn offer(&self, attachment: &Attachment) -> Result<engine::port::Offer> {
        self.effect("offer", &label(attachment))?;
        self.kernel.lock().unwrap().clouded.insert(attachment.id.clone());
        self.failing("offer")?;
        Ok(super::cloud::offer(attachment))
    }

    fn withdraw(&self, attachment: &Attachment) -> Result<()> {
        let had_port = self.kernel.lock().unwrap().clouded.contains(&attachment.id);
        self.detach(attachment)?;
        if had_port {
            self.kernel.lock().unwrap().clouded.insert(attachment.id.clone());
        }
        Ok(())
    }

    fn detach(&self, attachment: &Attachment) -> Result<()> {
        self.effect("detach", &label(attachment))?;
        self.failing("detach")?;
        let mut kernel = self.kernel.lock().unwrap();
        if attachment.wiring.link.is_some() {
            kernel.links.remove(&attachment.id);
            kernel.clouded.remove(&attachment.id);
        }
        for (key, _) in elements(attachment) {
            if kernel.ports.get(&key) == Some(&attachment.id) {
                kernel.ports.remove(&key);
            }
        }
        Ok(())
    }

    fn check(&self, _: &Attachment, _: &Attached) -> Result<()> {
        Ok(())
    }

    fn presence(&self, attachment: &Attachment) -> Presence {
        let gone = self.gone.lock().unwrap().contains(&attachment.id);
        match !gone && self.kernel.lock().unwrap().links.contains_key(&attachment.id) {
            true => Presence::Alive,
            false => Presence::Gone,
        }
    }

    fn restore(&self, attachment: &Attachment) -> Result<bool> {
        self.effect("restore", &label(attachment))?;
        self.restored.lock().unwrap().push(attachment.wiring.clone());
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile(self);
        }
        let before = self.kernel();
        self.install(attachment)?;
        self.failing("restore")?;
        Ok(self.kernel() != before)
    }

    fn unfilter(&self, attachment: &Attachment) -> Result<()> {
        self.effect("unfilter", &label(attachment))?;
        let mut kernel = self.kernel.lock().unwrap();
        kernel.ports.retain(|_, holder| *holder != attachment.id);
        Ok(())
    }

    fn withdraw_addresses(&self, before: &Attachment, now: &Attachment) -> Result<()> {
        let to = now.addresses.first().map(|held| held.address.to_string()).unwrap_or_default();
        self.effect("withdraw_addresses", &format!("{} {to}", label(before)))
    }

    fn limit(&self, attachment: &Attachment) -> Result<()> {
        self.effect("limit", &label(attachment))
    }

    fn withdraw_ports(&self, rest: &Attachment, gone: &[PortMap]) -> Result<()> {
        let mut lost = rest.clone();
        lost.wiring.publish.as_mut().unwrap().ports = gone.to_vec();
        self.effect("withdraw_ports", &label(&lost))?;
        let lost = elements(&lost);
        let is_lost = |key: &(Protocol, u16, IpAddr)| lost.iter().any(|(its, _)| its == key);
        let mut kernel = self.kernel.lock().unwrap();
        kernel.ports.retain(|key, holder| *holder != rest.id || !is_lost(key));
        Ok(())
    }

    fn hardware_address(&self, attachment: &Attachment) -> Option<Mac> {
        if attachment.wiring.chooses_addresses() {
            return attachment.wiring.link.as_ref()?.mac;
        }
        let octet = match attachment.addresses.first()?.address.addr() {
            IpAddr::V4(v4) => v4.octets()[3],
            IpAddr::V6(v6) => v6.octets()[15],
        };
        Some(Mac::local([0, 0, 0, 0, 0, octet]))
    }

    fn up(&self, network: &Network) -> Result<()> {
        self.effect("up", &network.name)?;
        self.failing("up")?;
        self.kernel.lock().unwrap().bridges.insert(network.name.clone());
        Ok(())
    }

    fn revise(&self, before: &Attachment, after: &Attachment) -> Result<()> {
        assert_eq!(before.id, after.id);
        let mtu = after.wiring.link.as_ref().and_then(|link| link.mtu).map_or(0, Mtu::bytes);
        self.effect("revise", &format!("{} {mtu}", label(after)))?;
        self.failing("revise")
    }

    fn retune(&self, network: &Network) -> Result<()> {
        self.effect("retune", &network.name)
    }

    fn refuse_sources(&self, _: &Network) -> Result<()> {
        self.failing("refuse_sources")
    }

    fn refuse_way(&self, _: &Network) -> Result<()> {
        self.failing("refuse_way")
    }

    fn lead(&self, network: &Network, _: &[Attachment], still: Still<'_>) -> Result<()> {
        assert!(still()?);
        let via = network.wiring.via.as_ref().map_or("none".to_owned(), Via::to_string);
        self.effect("lead", &format!("{} by {via}", network.name))
    }

    fn remove(&self, network: &Network) -> Result<()> {
        self.effect("remove", &network.name)?;
        self.kernel.lock().unwrap().bridges.remove(&network.name);
        Ok(())
    }
}

impl HostDataplane for Rig {
    fn strays(&self, _: &dyn Fn() -> Result<Vec<Attachment>>) -> Result<Vec<(Stray, Presence)>> {
        Ok(self.strays.lock().unwrap().clone())
    }

    fn is_of(&self, stray: &Stray, record: &Attachment) -> bool {
        *stray == Stray::Elements(record.id.to_string())
    }

    fn remove_stray(&self, stray: &Stray) -> Result<()> {
        self.strays.lock().unwrap().retain(|(other, _)| other != stray);
        Ok(())
    }
}

impl Store for Rig {
    fn get(&self, key: &Key) -> Result<Option<Versioned>> {
        if self.is_dead() { Err(cut()) } else { self.store.get(key) }
    }

    fn list(&self, prefix: &Prefix) -> Result<Vec<(Key, Versioned)>> {
        if self.is_dead() { Err(cut()) } else { self.store.list(prefix) }
    }

    fn commit(&self, txn: &Txn) -> Result<Outcome> {
        let before = self.before_commit.lock().unwrap().take();
        if let Some(before) = before {
            before(self);
        }
        if self.fuse.fetch_sub(1, Ordering::SeqCst) <= 0 {
            self.fuse.store(0, Ordering::SeqCst);
            return Err(cut());
        }
        self.store.commit(txn)
    }

    fn damaged(&self, prefix: Option<&Prefix>) -> Result<Vec<Damaged>> {
        let below = match prefix {
            None => String::new(),
            Some(Prefix::Attachments) => "attachments/".to_owned(),
            Some(Prefix::AttachmentsOf(network)) => format!("attachments/{network}/"),
            Some(Prefix::Aliases) => "aliases/".to_owned(),
            Some(_) => return Ok(Vec::new()),
        };
        let mut damaged = self.damaged.lock().unwrap().clone();
        damaged.retain(|it| it.path.starts_with(&below));
        Ok(damaged)
    }
}

impl Host for Rig {
    fn me(&self) -> Process {
        Process { pid: *self.pid.lock().unwrap(), start: 1 }
    }

    fn now(&self) -> Timestamp {
        Timestamp(*self.now.lock().unwrap())
    }

    fn is_running(&self, process: &Process) -> bool {
        process.pid >= *self.pid.lock().unwrap()
    }

    fn lock_attachment(&self, id: &AttachmentId) -> AttachmentLock {
        let before = self.before_turn.lock().unwrap().take();
        if let Some(before) = before {
            before(self);
        }
        let held = self.turns.held.lock().unwrap();
        let mut held = self.turns.given.wait_while(held, |held| held.contains(id)).unwrap();
        held.insert(id.clone());
        Box::new(LockGuard(self.turns.clone(), id.clone()))
    }

    fn try_lock_attachment(&self, id: &AttachmentId) -> Option<AttachmentLock> {
        let is_free = self.turns.held.lock().unwrap().insert(id.clone());
        is_free.then(|| Box::new(LockGuard(self.turns.clone(), id.clone())) as AttachmentLock)
    }

    fn occupied(&self) -> Result<Vec<Occupied>> {
        Ok(Vec::new())
    }

    fn wait_for_end(&self, process: &Process, _: Duration) -> bool {
        !self.is_running(process)
    }
}

/// A network of Docker's, of both families.
pub(crate) fn docker(name: &str, v4: &str, v6: &str) -> Network {
    let mut pools = vec![pool(name, v4, Order::LowestFree)];
    let mut second = pool(name, v6, Order::LowestFree);
    second.id.index = 1;
    pools.push(second);
    let mut made = network(name, Ipam::Book { pools });
    made.runtime = Runtime::Docker;
    let name = format!("br-{name:.8}");
    let kind = doubles::bridge(&name, Gateway::Address);
    made.wiring.link = Some(Link { kind, name: None, mac: None, mtu: None });
    made
}

pub(crate) fn front() -> Network {
    docker("front", "10.0.0.0/29", "fd00::/125")
}

pub(crate) fn id(text: &str) -> AliasId {
    text.parse().unwrap()
}

/// What Docker's CreateEndpoint asks for with our addresses.
pub(crate) fn both(network: &Network, container: &str, last: u8) -> Request {
    let prefix =
        if network.name.as_str() == "front" { ("10.0.0", "fd00") } else { ("10.1.0", "fd01") };
    let v4 = format!("{}.{last}/29", prefix.0);
    let v6 = format!("{}::{last}/125", prefix.1);
    endpoint(network, container, &[&v4, &v6])
}

pub(crate) fn joining(sandbox: &str, handoff: Handoff) -> Joining {
    Joining {
        sandbox: Sandbox { path: format!("/netns/{sandbox}").into(), inode: 7 },
        handoff,
        name: (handoff == Handoff::Finish).then(|| "eth0".parse().unwrap()),
        sysctls: Vec::new(),
    }
}

/// An enrolled network with a reserved and joined endpoint `container` in the sandbox `sandbox`.
pub(crate) fn up(
    engine: &Engine<'_>,
    network: &Network,
    container: &str,
    sandbox: &str,
) -> AttachmentId {
    let known = alias(&format!("id-{}", network.name), network);
    engine.networks.enroll(&known, network).unwrap();
    let last = container.as_bytes()[0] - b'a' + 2;
    let asked = both(network, container, last);
    let made = engine.attachments.reserve(&asked, &known.id).unwrap();
    engine.attachments.join(&made.id, &joining(sandbox, Handoff::Finish)).unwrap();
    made.id
}
