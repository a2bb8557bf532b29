//! Answering queries for the names of containers, for networks that ask for it.

mod host;
mod inside;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ::host::event::{Event, What};
use ::names::{Door, FenceHost, NameSource, Sandbox, ServedGateway, Server, Table};
use engine::port::{Key, Prefix, Record};
use linux::filter::fence::NAMES_PORT;
use linux::filter::{NameServer, keep_names, unload_names};
use model::{Error, Result};
use netlink::{Socket, nft};
use rustix::event::epoll;
use store::{Changed, Watch};

use super::Daemon;
use super::elsewhere::Names;

/// Where this host's servers are named.
pub(crate) const RESOLVER: &str = "/etc/resolv.conf";

/// How long to wait before the records are watched anew.
const AGAIN: Duration = Duration::from_secs(5);

/// The records, and the packet filter.
struct Records<'a> {
    daemon: &'a Daemon,
    watch: Watch,
    /// Readable when the watch is, or when other hosts have sent something.
    wakes: OwnedFd,
    /// What they have sent, as the table has it.
    elsewhere: Option<Names>,
    socket: Socket,
    /// What was led here when the ruleset was of this generation.
    kept: Option<(u32, Vec<ServedGateway>)>,
    is_failing: bool,
}

/// Answers until the daemon stops.
pub(super) fn answer(daemon: &Daemon) {
    // It ends with the daemon, and what other hosts sent ends with it.
    std::thread::scope(|scope| {
        let host = std::thread::Builder::new().name("names-host".to_owned());
        let host = host.stack_size(super::STACK).spawn_scoped(scope, || host::keep(daemon));
        if let Err(cause) = host {
            let error = Error::os("starting the thread names-host", cause);
            daemon.journal.failed("names on this host", &error);
        }
        answer_containers(daemon);
    });
}

fn answer_containers(daemon: &Daemon) {
    while let Err(error) = answer_until_lost(daemon) {
        daemon.journal.failed("answering queries for names", &error);
        daemon.fd_store.discard_all();
        if daemon.sleep(AGAIN) {
            break;
        }
    }
    // Queries go again where they went before. Where it fails another program had the table.
    let _ = Socket::netfilter().and_then(|mut socket| unload_names(&mut socket));
}

fn answer_until_lost(daemon: &Daemon) -> Result<()> {
    let store = ::host::host_context::open_store(daemon.context_pool.config())?;
    let records = [Prefix::Networks, Prefix::Configured, Prefix::Aliases, Prefix::Attachments];
    let watch = store.watch(&records)?;
    let wakes = both(watch.as_fd(), daemon.elsewhere.as_fd())?;
    let (socket, elsewhere, kept, is_failing) = (Socket::netfilter()?, None, None, false);
    let mut records = Records { daemon, watch, wakes, elsewhere, socket, kept, is_failing };
    let counters = daemon.journal.metrics.names();
    let shared = (counters, Arc::clone(&daemon.fence) as Arc<dyn FenceHost>);
    let mut server = Server::new(&mut records, NAMES_PORT, Path::new(RESOLVER), shared)?;
    daemon.fence.set_table(server.table());
    server.run(daemon.stop.as_fd())
}

/// A descriptor that is readable when one of these is.
fn both(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> Result<OwnedFd> {
    let failed = |cause: rustix::io::Errno| Error::os("watching the records", cause.into());
    let both = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
    for fd in [one, other] {
        let data = epoll::EventData::new_u64(0);
        epoll::add(&both, fd, data, epoll::EventFlags::IN).map_err(failed)?;
    }
    Ok(both)
}

impl Records<'_> {
    fn learn(&self, table: &mut Table, Changed { key, now }: Changed) {
        let now = now.map(|now| now.record);
        match (&key, &now) {
            (Key::Network(name), Some(Record::Network(network))) => {
                table.put_network(name, true, Some(network));
            }
            (Key::Configured(name), Some(Record::Network(network))) => {
                table.put_network(name, false, Some(network));
            }
            (Key::Network(name), _) => table.put_network(name, true, None),
            (Key::Configured(name), _) => table.put_network(name, false, None),
            (Key::Alias(id), Some(Record::Alias(alias))) => table.put_alias(id, Some(alias)),
            (Key::Alias(id), _) => table.put_alias(id, None),
            (Key::Attachment(id, layer), now) => {
                let now = match now {
                    Some(Record::Attachment(now)) => Some(&**now),
                    _ => None,
                };
                let bridge = table.bridge_of(&id.network).cloned();
                let gone = table.put_attachment(id, *layer, now);
                // Before the next container that has the address is known, which may open something then.
                self.daemon.fence.note_gone(bridge, gone);
            }
            (_, _) => {}
        }
    }
}

impl NameSource for Records<'_> {
    fn refresh(&mut self, table: &RwLock<Table>) -> Result<()> {
        let now = ::host::time::moment().ok();
        let elsewhere = self.daemon.elsewhere.hear();
        let changes = self.watch.wait(Duration::ZERO)?;
        {
            let mut table = table.write().unwrap_or_else(PoisonError::into_inner);
            table.set_time(now);
            table.set_host(self.daemon.context_pool.config().names.host);
            if !self.elsewhere.as_ref().is_some_and(|known| Arc::ptr_eq(known, &elsewhere)) {
                table.put_elsewhere(&elsewhere);
                self.elsewhere = Some(elsewhere);
            }
            changes.into_iter().for_each(|change| self.learn(&mut table, change));
        }
        self.daemon.fence.forget_gone();
        Ok(())
    }

    fn wakes(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }

    fn keep(&mut self, places: &[ServedGateway], port: u16) -> Result<()> {
        let is_known = |(_, kept): &(u32, Vec<ServedGateway>)| kept == places;
        if places.is_empty() && self.kept.as_ref().is_some_and(is_known) {
            return Ok(());
        }
        let before = nft::generation(&mut self.socket)?;
        let kept = self.kept.as_ref().filter(|kept| is_known(kept));
        if kept.is_some_and(|(generation, _)| *generation == before) {
            return Ok(());
        }
        let servers = places
            .iter()
            .map(|place| NameServer { bridge: place.bridge.clone(), address: place.gateway });
        keep_names(&mut self.socket, &servers.collect::<Vec<_>>(), port)?;
        self.is_failing = false;
        // What another program changes meanwhile has a later generation.
        let after = nft::generation(&mut self.socket)?;
        let generation = if after == before { before } else { before.wrapping_add(1) };
        self.kept = Some((generation, places.to_vec()));
        Ok(())
    }

    fn door(&self) -> Arc<dyn Door> {
        Arc::new(inside::SandboxDoor(Arc::clone(&self.daemon.fd_store)))
    }

    fn take(&mut self, name: &str) -> Option<OwnedFd> {
        self.daemon.fd_store.take(name)
    }

    fn leave(&mut self, name: &str, socket: BorrowedFd<'_>) {
        self.daemon.fd_store.keep(name, socket);
    }

    fn discard(&mut self, name: &str) {
        self.daemon.fd_store.discard(name);
    }

    fn discard_rest(&mut self) {
        self.daemon.fd_store.discard_rest();
    }

    fn restored(&mut self, container: Option<&str>, sandbox: &Sandbox) {
        let who = container.map_or_else(|| sandbox.path.display().to_string(), str::to_owned);
        let message = format!(
            "container {who} took away the rules of its own packet filter that lead its queries to Spoke; \
             they were put back. Until then its names could leave this host: it has NET_ADMIN"
        );
        let event = Event::new(What::Healed, ::host::time::now(), message);
        self.daemon.journal.report(&Event { container: container.map(str::to_owned), ..event });
    }

    fn failed(&mut self, doing: &str, error: &Error) {
        if !std::mem::replace(&mut self.is_failing, true) {
            self.daemon.journal.failed(doing, error);
        }
    }
}
