//! Opens what names lead to, and reports what fences refuse.

mod again;
mod near;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

use ::names::{Entry, FenceHost, Judged, Refusal, ServedGateway, Table, Why};
use config::Config;
use host::denied::{Act, Denied, path};
use host::event::EventFile;
use host::shared::locked;
use host::time;
use linux::filter::fence::{self, Checked, Fenced, Opening, Own, Readable, Sent};
use model::{Attachment, DomainName, Error, IfName, Result};
use netlink::{Socket, nft};

use self::near::Surroundings;
use super::memory::{self, Memory};
use super::records::Records;
use super::unread::Unread;

/// In which time names of one container are counted that are reported ([`REPORTED`]).
const COUNTED: Duration = Duration::from_secs(1);
/// How often others may change the ruleset first.
const ATTEMPTS: usize = 64;
/// No attempt begins later than this: the others whose answers open something wait meanwhile.
const LONGEST: Duration = Duration::from_secs(1);
/// Names of one container that are reported in a second, and how many containers are counted apart.
const REPORTED: u32 = 100;
const SOURCES: usize = 4096;

/// Containers that are gone: the bridge, where it is known, and the addresses.
type Gone = (Option<IfName>, Vec<IpAddr>);

/// What threads share that deal with fences.
pub(crate) struct FenceGate {
    socket: Mutex<Option<Socket>>,
    /// Locked before the socket, and the records after it: by [`FenceGate::memory`].
    memory: Mutex<Memory>,
    /// Held by who waits for memory. Who has just let go of it waits behind that one.
    next: Mutex<()>,
    /// Which flows go on, as of the last time that was asked.
    flows: Mutex<Option<(Instant, Arc<HashSet<Sent>>)>>,
    /// What memory has not forgotten yet, because it was locked. It is locked for moments only.
    gone: Mutex<Vec<Gone>>,
    records: Mutex<Records>,
    near: Mutex<Surroundings>,
    /// Behind which bridges containers send in no other name. Locked before the records.
    checked: Mutex<Checked>,
    /// Bridges that have lost their rules, and have them back when a record can be read again: it is said which.
    shut: Mutex<BTreeMap<IfName, String>>,
    table: Mutex<Option<Arc<RwLock<Table>>>>,
    file: EventFile,
    reported: Mutex<HashMap<IpAddr, (Instant, u32, String)>>,
    /// Names, addresses of answers and packets that were refused, and what was learned.
    pub(crate) counts: Arc<Counts>,
}

/// How much was refused.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) names: AtomicU64,
    pub(crate) addresses: AtomicU64,
    pub(crate) packets: AtomicU64,
    pub(crate) learned: AtomicU64,
}

impl FenceGate {
    /// What is refused is written beside the file of events.
    pub(crate) fn new(config: &Config, counts: Arc<Counts>) -> Self {
        let (runtime, state) = (config.store.runtime.clone(), config.store.state.clone());
        let near = Surroundings::new(runtime.clone(), state.clone());
        Self {
            socket: Mutex::default(),
            memory: Mutex::default(),
            next: Mutex::default(),
            flows: Mutex::default(),
            gone: Mutex::default(),
            records: Mutex::new(Records::new(runtime, state)),
            near: Mutex::new(near),
            checked: Mutex::default(),
            shut: Mutex::default(),
            table: Mutex::default(),
            file: EventFile::new(path(&config.events.path)),
            reported: Mutex::default(),
            counts,
        }
    }

    /// Who is who, from now on.
    pub(crate) fn set_table(&self, table: Arc<RwLock<Table>>) {
        *locked(&self.table) = Some(table);
    }

    /// Where names are asked for.
    pub(crate) fn places(&self) -> Vec<ServedGateway> {
        let table = locked(&self.table).clone();
        let places =
            |table: &RwLock<Table>| table.read().unwrap_or_else(PoisonError::into_inner).places();
        table.as_deref().map(places).unwrap_or_default()
    }

    /// What an earlier life of the daemon opened.
    pub(super) fn remember(&self, socket: &mut Socket) {
        let mut memory = self.memory();
        // What cannot be read is not opened again, should it be lost.
        let Ok(opened) = fence::opened(socket) else { return };
        let holders = locked(&self.records).holders().unwrap_or_default();
        for (opening, (names, remaining)) in opened {
            if let Some(name) = names.first() {
                memory.led(opening.source, opening.destination, name);
            }
            let holder = holders.get(&(opening.bridge.clone(), opening.source)).cloned();
            memory.add(opening, (names, remaining), holder);
        }
    }

    /// Whether a name opened this since the daemon knows.
    pub(super) fn knows(&self, opening: &Opening) -> bool {
        self.memory().knows(opening)
    }

    /// Forgets what a network's rules allow no more, but not of containers with rules of their own.
    pub(super) fn forget_names<'a>(
        &self,
        fenced: &Fenced,
        own: impl Iterator<Item = &'a Own> + Clone,
    ) {
        self.memory().forget(|opening, names| {
            opening.bridge != fenced.bridge
                || own.clone().any(|own| own.has_opened(opening))
                || fenced.allows_by_name(opening, names)
        });
    }

    /// Forgets what a container's own rules allow no more.
    pub(super) fn forget_own_names(&self, own: &Own) {
        self.memory().forget(|opening, names| {
            !own.has_opened(opening) || own.allows_by_name(opening, names)
        });
    }

    /// Which records of containers cannot be read, which may have rules of their own.
    pub(super) fn unread(&self) -> Result<Unread> {
        locked(&self.records).unread()
    }

    /// What can be read of attachments that have ports, by the names of these.
    pub(super) fn by_port(&self) -> Result<BTreeMap<IfName, Attachment>> {
        locked(&self.records).by_port()
    }

    /// What records say of rules, these attachments among them.
    pub(super) fn readable(&self, known: &BTreeMap<IfName, Attachment>) -> Result<Readable> {
        locked(&self.records).readable(known)
    }

    /// Whether the network of a container has rules.
    pub(super) fn has_network_rules(&self, attachment: &Attachment) -> Result<bool> {
        locked(&self.records).has_network_rules(attachment)
    }

    /// These containers are gone: others may get their addresses. Without a bridge it is not known behind which
    /// one they were. Whatever looks into memory from now on knows it, and it waits for nothing.
    pub(crate) fn note_gone(&self, bridge: Option<IfName>, sources: Vec<IpAddr>) {
        if !sources.is_empty() {
            locked(&self.gone).push((bridge, sources));
        }
    }

    /// Forgets them now, unless memory is locked: who locked it, or does next, does that.
    pub(crate) fn forget_gone(&self) {
        if locked(&self.gone).is_empty() {
            return;
        }
        match self.memory.try_lock() {
            Ok(mut memory) => self.forget_noted(&mut memory),
            Err(TryLockError::Poisoned(poisoned)) => self.forget_noted(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    fn forget_noted(&self, memory: &mut Memory) {
        // Who notes more meanwhile does not wait.
        let gone = std::mem::take(&mut *locked(&self.gone));
        for (bridge, sources) in gone {
            memory.forget(|opening, _| {
                let is_there = bridge.as_ref().is_none_or(|bridge| opening.bridge == *bridge);
                !is_there || !sources.contains(&opening.source)
            });
            memory.forget_led(&sources);
        }
    }

    /// Memory, as of now.
    fn memory(&self) -> MutexGuard<'_, Memory> {
        let next = locked(&self.next);
        let mut memory = locked(&self.memory);
        drop(next);
        self.forget_noted(&mut memory);
        memory
    }

    /// The name that led a container to an address.
    pub(super) fn name_of(&self, source: IpAddr, address: IpAddr) -> Option<String> {
        self.memory().name_of(source, address).map(ToString::to_string)
    }

    /// Looks up who has an address behind a bridge.
    pub(super) fn look_up<T>(&self, look: impl FnOnce(&Table) -> T) -> Option<T> {
        let table = locked(&self.table).clone()?;
        let table = table.read().unwrap_or_else(PoisonError::into_inner);
        Some(look(&table))
    }

    /// Writes down what was refused. Where that fails only the log of the events says so.
    pub(super) fn report(&self, denied: &Denied) {
        let _ = self.file.append(denied);
    }

    fn with_socket<T>(&self, work: impl Fn(&mut Socket) -> Result<T>) -> Result<T> {
        let mut socket = locked(&self.socket);
        let worked = match socket.as_mut() {
            Some(socket) => work(socket),
            None => work(socket.insert(Socket::netfilter()?)),
        };
        if worked.is_err() {
            *socket = None;
        }
        worked
    }

    /// Opens them, as long as the rules and the container are those for which it was judged. Changes of
    /// rules, and the end of a container, are recorded before they change the ruleset: what is recorded after
    /// the look into the records changes the ruleset before it is opened, and then nothing is. Nor is anything while
    /// a neighbour could use it: a flush of the packet filter changes the ruleset, too.
    fn open_as_judged(
        &self,
        socket: &mut Socket,
        judged: &Judged,
        (all, gone): (&[(Opening, Vec<DomainName>)], &[Opening]),
    ) -> Result<()> {
        for _ in attempts() {
            let generation = nft::generation(socket)?;
            locked(&self.records).refuse_stale(judged)?;
            if !self.is_checked(socket, &judged.bridge)? {
                continue;
            }
            if fence::open(socket, generation, (all, limit(judged)), gone)? {
                return Ok(());
            }
        }
        Err(Error::try_again(format!("opening {}: others keep changing the rules", judged.name)))
    }

    /// Whether what containers behind a bridge send was checked already. Where it was not it is from now on, by another
    /// ruleset.
    fn is_checked(&self, socket: &mut Socket, bridge: &IfName) -> Result<bool> {
        if let Some(why) = locked(&self.shut).get(bridge) {
            return Err(staying_shut(bridge, why));
        }
        let mut checked = locked(&self.checked);
        if checked.has(socket, bridge)? {
            return Ok(true);
        }
        let ports = locked(&self.records).ports()?.of(bridge)?;
        checked.check(socket, bridge, &ports).map(|()| false)
    }

    /// What has to go for these: the kernel forgets it by the same change that opens them, and memory after that.
    fn room(
        &self,
        memory: &Memory,
        judged: &Judged,
        all: &[(Opening, Vec<DomainName>)],
    ) -> Result<Vec<Opening>> {
        let container = &judged.holder.id.container;
        let wanted = all.iter().map(|(opening, _)| opening).collect();
        memory.room(container, &wanted, || self.flows()).ok_or_else(|| {
            let what = format!("{container} has opened too many addresses; close some connections");
            Error::new(model::Kind::Exhausted, what)
        })
    }

    /// Where flows lead that go on. Where that is unknown, none.
    fn flows(&self) -> Arc<HashSet<Sent>> {
        let mut known = locked(&self.flows);
        if known.as_ref().is_none_or(|(at, _)| at.elapsed() >= memory::FRESH) {
            let at = Instant::now();
            *known = self.with_socket(fence::flows).ok().map(|all| (at, Arc::new(all)));
        }
        known.as_ref().map(|(_, all)| Arc::clone(all)).unwrap_or_default()
    }

    /// Whether this name has opened all of it already, for as long as the answer lives: then the ruleset is left
    /// as it is.
    fn is_open(
        &self,
        memory: &Memory,
        judged: &Judged,
        all: &[(Opening, Vec<DomainName>)],
    ) -> Result<bool> {
        let is_known = |(opening, _): &(Opening, _)| {
            memory.is_led(opening, &judged.name, &judged.holder)
                && memory.remaining(opening) >= judged.limit
        };
        if !all.iter().all(is_known) {
            return Ok(false);
        }
        // Another process may have closed it, and memory learns of it later.
        let openings: Vec<&Opening> = all.iter().map(|(opening, _)| opening).collect();
        self.with_socket(|socket| fence::is_open(socket, &openings, &judged.name))
    }

    /// Whether a name is to be reported: not the same one twice in a second, and not too many.
    fn is_due(&self, refusal: &Refusal) -> bool {
        let now = Instant::now();
        let mut reported = locked(&self.reported);
        if reported.len() > SOURCES {
            reported.retain(|_, (at, ..)| now.saturating_duration_since(*at) < COUNTED);
        }
        let entry = reported.entry(refusal.source).or_insert((now, 0, String::new()));
        if now.saturating_duration_since(entry.0) >= COUNTED {
            *entry = (now, 0, String::new());
        }
        let key = format!("{} {:?}", refusal.name, refusal.why);
        if entry.1 >= REPORTED || entry.2 == key {
            return false;
        }
        entry.1 += 1;
        entry.2 = key;
        true
    }
}

/// Nothing is opened behind this bridge.
pub(super) fn staying_shut(bridge: &IfName, why: &str) -> Error {
    Error::try_again(format!("egress of containers behind bridge {bridge} stays shut: {why}"))
}

/// At least one.
fn attempts() -> impl Iterator<Item = usize> {
    let began = Instant::now();
    (0..ATTEMPTS).take_while(move |done| *done == 0 || began.elapsed() < LONGEST)
}

/// For how long something is opened: longer than the answer lives, so that not each answer to who asks again and
/// again changes the ruleset.
fn limit(judged: &Judged) -> Duration {
    judged.limit + judged.limit / 8
}

/// What an answer opens, each with the names that have led there.
fn ways(memory: &mut Memory, judged: &Judged) -> Vec<(Opening, Vec<DomainName>)> {
    let mut all = Vec::new();
    for source in &judged.sources {
        for address in &judged.addresses {
            memory.led(*source, *address, &judged.name);
        }
        let is_same = |to: &IpAddr| to.is_ipv4() == source.is_ipv4();
        for (destination, service) in judged.opened.iter().filter(|(to, _)| is_same(to)) {
            for port in service.ports() {
                let (bridge, source, destination) = (judged.bridge.clone(), *source, *destination);
                let protocol = service.protocol;
                let opening = Opening { bridge, source, destination, protocol, port };
                let names = memory.names(&opening, &judged.name);
                all.push((opening, names));
            }
        }
    }
    all
}

impl FenceHost for FenceGate {
    fn is_host(&self, address: IpAddr) -> bool {
        // What cannot be read may be. The table of names is locked by who asks.
        locked(&self.near).now().map_or(true, |near| near.is_host(address))
    }

    fn is_near(&self, address: IpAddr) -> bool {
        locked(&self.near).now().and_then(|near| near.has(address)).unwrap_or(true)
    }

    fn open(&self, judged: &Judged) -> Result<()> {
        // It stays locked until all of it is remembered: what a change of rules or the end of a container
        // forgets is forgotten after that, or has been, and then the records say so.
        let mut memory = self.memory();
        let all = ways(&mut memory, judged);
        if all.is_empty() {
            return Ok(());
        }
        if self.is_open(&memory, judged, &all)? {
            return locked(&self.records).refuse_stale(judged);
        }
        let gone = self.room(&memory, judged, &all)?;
        self.with_socket(|socket| self.open_as_judged(socket, judged, (&all, &gone)))?;
        memory.remove(&gone);
        let limit = limit(judged);
        for (opening, names) in all {
            memory.add(opening, (names, limit), Some(judged.holder.clone()));
        }
        Ok(())
    }

    fn refused(&self, refusal: &Refusal) {
        let (act, counter) = match refusal.why {
            Why::Learned => (Act::Learned, &self.counts.learned),
            Why::Private(_) => (Act::AddressDropped, &self.counts.addresses),
            Why::NoRule | Why::NotOpened => (Act::NameRefused, &self.counts.names),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if !self.is_due(refusal) {
            return;
        }
        let network = &refusal.network;
        let mut denied = Denied::new(time::now(), network.to_string(), refusal.source, act);
        denied.name = Some(refusal.name.clone());
        let who = self.look_up(|table| table.holder(&[network], refusal.source).cloned()).flatten();
        let is_own = who.as_ref().is_some_and(Entry::has_own_fence);
        denied.by_own_rules = is_own;
        denied.why = match refusal.why {
            Why::NoRule if is_own => format!("not in its own egress on {network}"),
            Why::NoRule => format!("not in egress of {network}"),
            Why::Learned => format!("not in egress of {network}, which learns"),
            Why::Private(address) => {
                denied.address = Some(address);
                "the address is not a public one, and no rule allows it".to_owned()
            }
            Why::NotOpened => "its addresses could not be opened".to_owned(),
        };
        if let Some(entry) = &who {
            denied.of(entry);
        }
        self.report(&denied);
    }
}
