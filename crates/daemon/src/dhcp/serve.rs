//! The DHCP daemon inside `spoke serve`: it renews the leases of containers, for every caller of
//! the reference's protocol.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use cni::dhcp::Server;
use config::Level;
use dhcp::{ContainerLocator, Keeper, LeaseStore, News, Pace, Terms};
use host::event::{Event, What};
use host::time;
use model::{AttachmentId, Ipv4Net, Result};

use super::leases::{Leases, is_link_of, lease_store_of};
use crate::Daemon;
use crate::journal::Journal;
use crate::sockets::Inherited;

/// Where containers are now, as the store says: Docker moves a link after its lease was asked for.
struct StoreLocator(Arc<Daemon>);

impl ContainerLocator for StoreLocator {
    fn sandbox(&self, id: &AttachmentId) -> Option<PathBuf> {
        let found = self
            .0
            .context_pool
            .with(|host_context| host_context.engine().records.attachment(id))
            .ok()??;
        found.sandbox.map(|sandbox| sandbox.path)
    }

    fn is_link_of(&self, id: &AttachmentId, group: u32) -> bool {
        is_link_of(id, group)
    }
}

/// The listener that systemd passed for DHCP, which the others are not for.
pub(crate) fn inherited(
    inherited: &mut Inherited,
    config: &config::Config,
) -> Option<UnixListener> {
    let is_it = |listener: &UnixListener| {
        let address = listener.local_addr().ok();
        address.is_some_and(|address| address.as_pathname() == Some(&config.dhcp.socket))
    };
    let at = inherited.unix.iter().position(is_it)?;
    Some(inherited.unix.remove(at))
}

impl Daemon {
    /// Serves DHCP's callers. Where that does not work the daemon serves all others.
    pub(crate) fn serve_dhcp(self: &Arc<Self>, listener: UnixListener) {
        let served = self.keep_leases().and_then(|keeper| {
            let service = Leases { keeper, prefix: String::new() };
            let server = Server::new(Arc::new(service));
            self.spawn("dhcp-listen", move |daemon| {
                if let Err(error) = server.run(&listener, &daemon.stop) {
                    daemon.journal.failed("serving DHCP", &error);
                }
            })
        });
        if let Err(error) = served {
            self.journal.failed("serving DHCP", &error);
        }
    }

    fn keep_leases(self: &Arc<Self>) -> Result<Keeper> {
        let config = self.context_pool.config();
        let directory = lease_store_of(config, &config.dhcp.socket);
        let lease_store = LeaseStore::open(&directory, store::boot_id()?)?;
        let pace = Pace {
            give_up: std::time::Duration::from_secs(config.dhcp.timeout_seconds),
            broadcast: config.dhcp.broadcast,
            ..Pace::default()
        };
        let journal = Arc::clone(&self.journal);
        let report = Box::new(move |news| report(&journal, news));
        Keeper::start(lease_store, pace, Box::new(StoreLocator(Arc::clone(self))), report)
    }
}

/// A lease that ends without a call is an event; a renewal is a debug message.
fn report(journal: &Journal, news: News) {
    let event = |what, id: &AttachmentId, message: String| {
        journal.report(&Event::new(what, time::now(), message).to(id));
    };
    match news {
        News::Lost(id, terms, why) => {
            let address = terms.address.addr();
            let message = format!("{id} lost its address {address}, and seeks another: {why}");
            event(What::LeaseLost, &id, message);
        }
        News::Regained(id, terms, first) => {
            let message = regained(&id, &terms, first);
            event(What::LeaseRegained, &id, message);
        }
        News::Unread(what) => journal.report(&Event::new(What::Failed, time::now(), what)),
        News::Trouble(id, what) => event(What::Failed, &id, format!("DHCP for {id}: {what}")),
        News::Bound(id, terms) | News::Renewed(id, terms) => {
            let until = match terms.lease {
                u32::MAX => "for ever".to_owned(),
                seconds => format!("for {seconds} s"),
            };
            let message = format!("{} gave {} {until} to {id}", terms.server, terms.address);
            journal.log.say(Level::Debug, &message, &[]);
        }
    }
}

/// The record of an attachment is not changed afterwards: its runtime did not ask for that.
fn regained(id: &AttachmentId, terms: &Terms, first: Ipv4Net) -> String {
    let again = format!("{id} has an address again, {} from {}", terms.address, terms.server);
    match terms.address == first {
        true => again,
        false => format!(
            "{again}; it was attached with {first}, which is what its record and its runtime still say"
        ),
    }
}
