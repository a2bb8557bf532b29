//! Opens what names lead to, and reports what fences refuse.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use ::names::{Gate, Judged, Refusal, Table, Why};
use linux::filter::fence::{self, Fenced, Opening};
use model::{DomainName, Error, Result};
use netlink::Socket;

use super::memory::Memory;
use crate::denied::{Act, Denied, path};
use crate::event::EventFile;
use crate::host;

/// How long the host's addresses are taken for known.
const FRESH: Duration = Duration::from_secs(1);
/// Names of one container that are reported in a second, and how many containers are told apart.
const REPORTED: u32 = 100;
const SOURCES: usize = 4096;

/// What threads share that deal with fences.
pub(crate) struct FenceGate {
    socket: Mutex<Option<Socket>>,
    memory: Mutex<Memory>,
    host: Mutex<Option<(Instant, BTreeSet<IpAddr>)>>,
    table: Mutex<Option<Arc<RwLock<Table>>>>,
    file: EventFile,
    reported: Mutex<HashMap<IpAddr, (Instant, u32, String)>>,
    /// Names and packets that were refused, and what was learned.
    pub(in crate::serve) counts: Arc<Counts>,
}

/// How much was refused.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) names: AtomicU64,
    pub(crate) packets: AtomicU64,
    pub(crate) learned: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FenceGate {
    /// What is refused is written beside the file of events.
    pub(crate) fn new(events: &Path, counts: Arc<Counts>) -> Self {
        Self {
            socket: Mutex::default(),
            memory: Mutex::default(),
            host: Mutex::default(),
            table: Mutex::default(),
            file: EventFile::new(path(events)),
            reported: Mutex::default(),
            counts,
        }
    }

    /// Who is who, from now on.
    pub(crate) fn set_table(&self, table: Arc<RwLock<Table>>) {
        *locked(&self.table) = Some(table);
    }

    /// What an earlier life of the daemon opened.
    pub(super) fn remember(&self, socket: &mut Socket) {
        // What cannot be read is not opened again, should it be lost.
        let Ok(opened) = fence::opened(socket) else { return };
        let mut memory = locked(&self.memory);
        for (opening, (names, remaining)) in opened {
            if let Some(name) = names.first() {
                memory.led(opening.source, opening.destination, name);
            }
            memory.add(opening, names, remaining);
        }
    }

    /// Opens again what is open.
    pub(super) fn open_again(&self, socket: &mut Socket) -> Result<()> {
        let open = locked(&self.memory).open();
        let mut by_time: HashMap<u64, Vec<(Opening, Vec<DomainName>)>> = HashMap::new();
        for (opening, names, remaining) in open {
            by_time.entry(remaining.as_secs().max(1)).or_default().push((opening, names));
        }
        for (seconds, all) in by_time {
            fence::open(socket, &all, Duration::from_secs(seconds))?;
        }
        Ok(())
    }

    /// Whether a name opened this since the daemon knows.
    pub(super) fn knows(&self, opening: &Opening) -> bool {
        locked(&self.memory).knows(opening)
    }

    /// Forgets what a network's rules allow no more.
    pub(super) fn forget_names(&self, fenced: &Fenced) {
        locked(&self.memory).forget(|opening, names| {
            !fenced.contains(opening.source) || fenced.allows_by_name(opening, names)
        });
    }

    /// Forgets containers that are gone: others may get their addresses.
    pub(crate) fn forget(&self, sources: &[IpAddr]) {
        if sources.is_empty() {
            return;
        }
        let mut memory = locked(&self.memory);
        memory.forget(|opening, _| !sources.contains(&opening.source));
        memory.forget_led(sources);
    }

    /// The name that led a container to an address.
    pub(super) fn name_of(&self, source: IpAddr, address: IpAddr) -> Option<String> {
        locked(&self.memory).name_of(source, address).map(ToString::to_string)
    }

    /// Looks up who has an address behind a bridge.
    pub(super) fn look_up<T>(&self, look: impl FnOnce(&Table) -> T) -> Option<T> {
        let table = locked(&self.table).clone()?;
        let table = table.read().unwrap_or_else(PoisonError::into_inner);
        Some(look(&table))
    }

    /// Writes down what was refused. Where that fails there is nobody to tell but the log of the events.
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

    /// Whether a name is to be reported: not the same one twice in a second, and not too many.
    fn is_due(&self, refusal: &Refusal) -> bool {
        let now = Instant::now();
        let mut reported = locked(&self.reported);
        if reported.len() > SOURCES {
            reported.retain(|_, (at, ..)| now.saturating_duration_since(*at) < FRESH);
        }
        let entry = reported.entry(refusal.source).or_insert((now, 0, String::new()));
        if now.saturating_duration_since(entry.0) >= FRESH {
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

impl Gate for FenceGate {
    fn is_host(&self, address: IpAddr) -> bool {
        let mut host = locked(&self.host);
        let is_fresh = host.as_ref().is_some_and(|(at, _)| at.elapsed() < FRESH);
        if !is_fresh {
            let there = Socket::route().and_then(|mut socket| socket.addresses(None));
            let Ok(there) = there else { return true };
            let all = there.into_iter().map(|held| held.address.addr()).collect();
            *host = Some((Instant::now(), all));
        }
        host.as_ref().is_none_or(|(_, all)| all.contains(&address))
    }

    fn open(&self, judged: &Judged) -> Result<()> {
        let (mut all, mut shut) = (Vec::new(), Vec::new());
        {
            let mut memory = locked(&self.memory);
            for source in &judged.sources {
                for address in &judged.addresses {
                    memory.led(*source, *address, &judged.name);
                }
                let is_same = |to: &IpAddr| to.is_ipv4() == source.is_ipv4();
                for (destination, service) in judged.opened.iter().filter(|(to, _)| is_same(to)) {
                    for port in service.ports() {
                        let (source, destination) = (*source, *destination);
                        let protocol = service.protocol;
                        let opening = Opening { source, destination, protocol, port };
                        let names = memory.names(&opening, &judged.name);
                        all.push((opening, names));
                    }
                }
                let Some(gone) = memory.make_room(*source, all.len()) else {
                    let what = format!("{source} has opened too many addresses");
                    return Err(Error::new(model::Kind::Exhausted, what));
                };
                shut.extend(gone);
            }
        }
        if all.is_empty() {
            return Ok(());
        }
        self.with_socket(|socket| {
            fence::forget_opened(socket, &shut)?;
            fence::open(socket, &all, judged.limit)
        })?;
        let mut memory = locked(&self.memory);
        all.into_iter().for_each(|(opening, names)| memory.add(opening, names, judged.limit));
        Ok(())
    }

    fn refused(&self, refusal: &Refusal) {
        let (act, counter) = match refusal.why {
            Why::Learned => (Act::Learned, &self.counts.learned),
            Why::Private(_) => (Act::AddressDropped, &self.counts.names),
            Why::NoRule | Why::NotOpened => (Act::NameRefused, &self.counts.names),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if !self.is_due(refusal) {
            return;
        }
        let network = &refusal.network;
        let mut denied = Denied::new(host::now(), network.to_string(), refusal.source, act);
        denied.name = Some(refusal.name.clone());
        denied.why = match refusal.why {
            Why::NoRule => format!("not in egress of {network}"),
            Why::Learned => format!("not in egress of {network}, which learns"),
            Why::Private(address) => {
                denied.address = Some(address);
                "the address is not a public one, and no rule allows it".to_owned()
            }
            Why::NotOpened => "its addresses could not be opened".to_owned(),
        };
        let who = self.look_up(|table| {
            let entry = table.holder(&[network], refusal.source)?;
            Some((entry.name.clone(), entry.runtime.to_string()))
        });
        if let Some((container, runtime)) = who.flatten() {
            (denied.container, denied.runtime) = (Some(container), Some(runtime));
        }
        self.report(&denied);
    }
}
