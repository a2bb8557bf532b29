//! The stock: ports that are made ahead of need, so that a container does not wait for Neutron.
//!
//! A ready port is a file, and the process that moves the file has the port: threads of the daemon
//! as well as plugins. Only the daemon makes ports, and resets those that return.

mod drain;
mod fill;
mod make;
mod recover;
mod show;
mod stock_files;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use model::{ResourceId, Result};

use crate::Neutron;
use crate::api::PortResource;
use crate::config::Identity;
use crate::contract::{self, Mark};
use crate::notifier::Notifier;
use crate::stock_key::{KeyDigest, PortUse, StockKey};
pub use fill::{Filler, Round};
pub use show::StockKind;
pub(crate) use stock_files::{StockDemand, StockFiles, Stored};

impl Neutron {
    /// Notifies from now on when a port is taken, missing or returned, and when a resource stays
    /// without an owner.
    pub fn notifier(&self) -> Result<Notifier> {
        let mut notified = self.stock_files().notified()?.to_vec();
        notified.push(self.given_up().notifier()?);
        Notifier::at(&notified)
    }

    /// The key of the network's ports without requested properties. Subnets, security groups and
    /// more may be added.
    pub fn stock_key(&self, place: PortUse, network: &ResourceId) -> StockKey {
        StockKey {
            host: self.settings.host.as_str().to_owned(),
            place,
            project: project(&self.settings.access.identity),
            network: network.clone(),
            subnets: Default::default(),
            groups: None,
            port_security: None,
            qos_policy: None,
        }
    }

    /// Takes a port of this kind, exclusively; `None` where none is ready, or no stock is kept. In
    /// both cases the daemon makes another one for the next call. No request is made.
    ///
    /// The port is as [`StockKey`] says, bound (see [`PortUse`]), has `device_owner` and mark, no
    /// `device_id` and at most the tag `compute:kuryr`.
    pub fn take_from_stock(&self, key: &StockKey) -> Result<Option<PortResource>> {
        if self.settings.stock.is_none() {
            return Ok(None);
        }
        let stock_files = self.stock_files();
        let port = stock_files.claim(&key.digest()?)?;
        // Only the next one would miss it.
        let _ = stock_files.want(key);
        Ok(port)
    }

    /// Takes this very port, if it is ready: its address was requested.
    pub fn take_port_from_stock(&self, port: &ResourceId) -> Result<Option<PortResource>> {
        match self.settings.stock {
            Some(_) => self.stock_files().claim_port(port),
            None => Ok(None),
        }
    }

    /// Lets a port that was made because none was ready come to the stock when it is released. It
    /// must be what the key says, and not yet be changed in any way.
    pub fn lend_from_stock(&self, key: &StockKey, port: &PortResource) -> Result<()> {
        if self.settings.stock.is_none() {
            return Ok(());
        }
        let key = key.digest()?;
        let mut port = port.clone();
        port.name = contract::PORT_NAME.to_owned();
        port.description = key.mark(&self.settings.host).to_string();
        port.tags = vec![contract::OWNER.to_owned()];
        port.device_id.clear();
        self.stock_files().lend(&Stored { key, port })
    }

    /// Returns a port that was taken or lent. `false` where it is not of the stock, or no daemon
    /// would reset it: then the caller deletes it. No request is made; the daemon undoes the
    /// changes of the port, or deletes it.
    pub fn return_to_stock(&self, port: &ResourceId) -> Result<bool> {
        if !self.is_for_stock(port) {
            return Ok(false);
        }
        // The process that resets the port waits for an update in progress.
        self.port_updates().cancel_idle(port)?;
        self.stock_files().give_back(port)
    }

    /// Whether a port would return to the stock, and a daemon would reset it.
    pub(crate) fn is_for_stock(&self, port: &ResourceId) -> bool {
        let stock_files = self.stock_files();
        self.settings.stock.is_some() && stock_files.is_lent(port) && stock_files.is_filled()
    }

    /// How many ports of each network are ready, of those networks whose ports are wanted.
    pub fn stock_levels(&self) -> Result<BTreeMap<ResourceId, usize>> {
        let stock_files = self.stock_files();
        let mut levels = BTreeMap::new();
        for wanted in stock_files.wanted()? {
            *levels.entry(wanted.key.network).or_default() +=
                stock_files.ready_ports(&wanted.digest)?.len();
        }
        Ok(levels)
    }

    /// Whether this host made the port ahead of need.
    pub(crate) fn is_of_stock(&self, port: &PortResource) -> bool {
        let mark = Mark::read(&port.description).filter(|mark| mark.is_of(&self.settings.host));
        mark.is_some_and(|mark| KeyDigest::of_mark(&mark).is_some())
    }

    pub(crate) fn stock_files(&self) -> StockFiles {
        StockFiles::at(&self.directory)
    }
}

/// The project that things are made in, in the words that we know it by.
fn project(identity: &Identity) -> String {
    match identity {
        Identity::None { project } => project.clone().unwrap_or_default(),
        Identity::Password { project, .. } => format!("{project:?}"),
        Identity::Application { credential, .. } => format!("{credential:?}"),
        Identity::Token { project, .. } => format!("{project:?}"),
    }
}
