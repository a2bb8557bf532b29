//! Answering queries for the names of containers, for networks that ask for it.

mod inside;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::names::{Book, Gate, Opened, Place, Sandbox, Server, Table};
use engine::port::{Key, Prefix, Record};
use linux::filter::fence::NAMES_PORT;
use linux::filter::{NameServer, keep_names, unload_names};
use model::{Error, Result};
use netlink::{Socket, nft};
use store::{Changed, Watch};

use super::Daemon;

/// Where this host's servers are named.
pub(crate) const RESOLVER: &str = "/etc/resolv.conf";

/// How long to wait before the records are watched anew.
const AGAIN: Duration = Duration::from_secs(5);

/// The records, and the packet filter.
struct Records<'a> {
    daemon: &'a Daemon,
    watch: Watch,
    socket: Socket,
    /// What was led here when the ruleset was of this generation.
    kept: Option<(u32, Vec<Place>)>,
    is_failing: bool,
}

/// Answers until the daemon stops.
pub(super) fn answer(daemon: &Daemon) {
    while let Err(error) = answer_until_lost(daemon) {
        daemon.journal.failed("answering queries for names", &error);
        daemon.fd_store.discard_all();
        if daemon.sleep(AGAIN) {
            break;
        }
    }
    // Queries go again where they went before. Where it fails somebody else had the table.
    let _ = Socket::netfilter().and_then(|mut socket| unload_names(&mut socket));
}

fn answer_until_lost(daemon: &Daemon) -> Result<()> {
    let store = crate::host_context::open_store(daemon.context_pool.config())?;
    let watch = store.watch(&[Prefix::Networks, Prefix::Configured, Prefix::Attachments])?;
    let (socket, kept, is_failing) = (Socket::netfilter()?, None, false);
    let mut records = Records { daemon, watch, socket, kept, is_failing };
    let counters = daemon.journal.metrics.names();
    let shared = (counters, Arc::clone(&daemon.fence) as Arc<dyn Gate>);
    let mut server = Server::new(&mut records, NAMES_PORT, Path::new(RESOLVER), shared)?;
    daemon.fence.set_table(server.table());
    server.run(daemon.stop.as_fd())
}

impl Book for Records<'_> {
    fn refresh(&mut self, table: &mut Table) -> Result<()> {
        table.set_time(crate::host::moment().ok());
        for Changed { key, now } in self.watch.wait(Duration::ZERO)? {
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
                (Key::Attachment(id, layer), Some(Record::Attachment(now))) => {
                    let bridge = table.bridge_of(&id.network).cloned();
                    let gone = table.put_attachment(id, *layer, Some(now));
                    self.daemon.fence.forget(bridge.as_ref(), &gone);
                }
                (Key::Attachment(id, layer), _) => {
                    let bridge = table.bridge_of(&id.network).cloned();
                    let gone = table.put_attachment(id, *layer, None);
                    self.daemon.fence.forget(bridge.as_ref(), &gone);
                }
                (_, _) => {}
            }
        }
        Ok(())
    }

    fn wakes(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    fn keep(&mut self, places: &[Place], port: u16) -> Result<()> {
        let is_known = |(_, kept): &(u32, Vec<Place>)| kept == places;
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
        // What somebody else changes meanwhile has a later generation.
        let after = nft::generation(&mut self.socket)?;
        let generation = if after == before { before } else { before.wrapping_add(1) };
        self.kept = Some((generation, places.to_vec()));
        Ok(())
    }

    fn enter(&mut self, sandbox: &Sandbox) -> Result<Option<Opened>> {
        inside::enter(&self.daemon.fd_store, sandbox)
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

    fn failed(&mut self, doing: &str, error: &Error) {
        if !std::mem::replace(&mut self.is_failing, true) {
            self.daemon.journal.failed(doing, error);
        }
    }
}
