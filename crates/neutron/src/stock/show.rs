//! The ready ports, for people and for repairs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use model::{Nesting, ResourceId, ResourceRef, Result};

use super::StockFiles;
use crate::Neutron;
use crate::facts::Facts;
use crate::stock_key::KeyDigest;

/// Ports of one kind: an attachment that wants one takes any of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockKind {
    /// Their network.
    pub network: ResourceId,
    /// Distinguishes the kinds of a network.
    pub kind: String,
    /// How many wait for a container.
    pub ready: usize,
    /// How many containers have, or are getting.
    pub in_use: usize,
    /// How many came back and are not like new yet.
    pub returned: usize,
    /// When one was last wanted; `None` where no more are made.
    pub wanted: Option<SystemTime>,
}

/// The users on this host of Neutron's networks.
#[derive(Debug, Default)]
pub(super) struct Users {
    /// With a container.
    pub(super) attached: BTreeSet<ResourceId>,
    /// By a network of some runtime.
    pub(super) declared: BTreeSet<ResourceId>,
}

impl Neutron {
    /// The ports that were made ahead of need, and those that go back there, by network and kind. No
    /// request is made.
    ///
    /// # Errors
    /// Where the files cannot be read.
    pub fn stock(&self) -> Result<Vec<StockKind>> {
        let stock_files = self.stock_files();
        let mut kinds: BTreeMap<KeyDigest, StockKind> = BTreeMap::new();
        let add = |kinds: &mut BTreeMap<_, _>, digest: &KeyDigest, network: &ResourceId| {
            kinds.entry(digest.clone()).or_insert_with(|| StockKind {
                network: network.clone(),
                kind: digest.as_str()[..8].to_owned(),
                ready: 0,
                in_use: 0,
                returned: 0,
                wanted: None,
            });
        };
        for wanted in stock_files.wanted()? {
            add(&mut kinds, &wanted.digest, &wanted.key.network);
            kinds.entry(wanted.digest).and_modify(|kind| kind.wanted = Some(wanted.last));
        }
        for digest in stock_files.kinds()? {
            let Some(first) = stock_files.first(&digest)? else { continue };
            add(&mut kinds, &digest, &first.port.network_id);
            let ready = stock_files.ready_ports(&digest)?.len();
            kinds.entry(digest).and_modify(|kind| kind.ready = ready);
        }
        for stored in stock_files.lent_all()? {
            add(&mut kinds, &stored.key, &stored.port.network_id);
            kinds.entry(stored.key).and_modify(|kind| kind.in_use += 1);
        }
        for stored in stock_files.returned()? {
            add(&mut kinds, &stored.key, &stored.port.network_id);
            kinds.entry(stored.key).and_modify(|kind| kind.returned += 1);
        }
        let mut all: Vec<StockKind> = kinds.into_values().collect();
        all.sort_by(|one, other| (&one.network, &one.kind).cmp(&(&other.network, &other.kind)));
        Ok(all)
    }

    /// Whether ports are made ahead of need, as this host is configured.
    pub fn keeps_stock(&self) -> bool {
        self.settings.stock.is_some()
    }

    /// Whether a daemon fills and resets them now.
    pub fn is_stock_kept(&self) -> bool {
        self.stock_files().is_filled()
    }

    /// Whether the last address that an engine asked for was for a hardware address, which no port
    /// that is ready has: engines ask what the plugin requires when they start.
    pub fn is_stock_passed_over(&self) -> bool {
        self.settings.stock.is_some() && self.stock_files().is_passed_over()
    }

    /// Whether containers of this host are connected so that no port can be made before its container
    /// is known.
    pub fn is_stock_of_no_use(&self) -> bool {
        matches!(self.settings.plugging.nesting, Some(Nesting::Trunk { .. }))
    }

    /// Empties the stocks of these networks, or all: of what Neutron has of them, too, although no
    /// file of this host reports it. How many ports of each network there were.
    ///
    /// # Errors
    /// [`model::Kind::NotFound`] where there is no such network; what Neutron refuses.
    pub fn drain_stocks(&self, only: &[ResourceRef]) -> Result<Vec<(ResourceId, usize)>> {
        let mut networks = BTreeSet::new();
        for which in only {
            networks.insert(self.known_network(which)?.network.id);
        }
        if only.is_empty() {
            networks.extend(self.stock()?.into_iter().map(|kind| kind.network));
            let ports = self.ports_of_host()?.into_values();
            let ready = ports.filter(|port| self.is_of_stock(port) && port.device_id.is_empty());
            networks.extend(ready.map(|port| port.network_id));
        }
        let drained = networks.into_iter().map(|network| {
            let gone = self.drain_stock(&network)?;
            Ok((network, gone))
        });
        let drained: Result<Vec<_>> = drained.collect();
        Ok(drained?.into_iter().filter(|(_, gone)| *gone > 0).collect())
    }

    /// Empties the stock of a network without a user on this host; returns how many ports there
    /// were. No request is made where this host has none.
    ///
    /// # Errors
    /// Neutron's refusal.
    pub fn drain_unused(&self, which: &ResourceRef, facts: &Facts) -> Result<usize> {
        if self.stock()?.is_empty() {
            return Ok(0);
        }
        let network = self.known_network(which)?.network.id;
        let users = self.users(facts)?;
        match users.attached.contains(&network) || users.declared.contains(&network) {
            true => Ok(0),
            false => self.drain_stock(&network),
        }
    }

    /// The users of networks, by the store.
    pub(super) fn users(&self, facts: &Facts) -> Result<Users> {
        let mut declared = BTreeSet::new();
        for which in &facts.declared {
            match which {
                ResourceRef::Id(id) => drop(declared.insert(id.clone())),
                ResourceRef::Name(_) => match self.known_network(which) {
                    Ok(known) => drop(declared.insert(known.network.id)),
                    // A network that does not exist has no users.
                    Err(error) if error.kind() == model::Kind::NotFound => {}
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(Users { attached: facts.networks.clone(), declared })
    }

    /// Notes whether an engine could have had a port that is ready.
    pub(crate) fn note_passed_over(&self, is_passed_over: bool) {
        // It is only shown to people.
        let _ = self.stock_files().pass_over(is_passed_over);
    }
}

impl StockFiles {
    fn pass_over(&self, is_passed_over: bool) -> Result<()> {
        match (is_passed_over, self.is_passed_over()) {
            (true, false) => self.note(&self.passed_over()),
            (false, true) => self.forget_note(&self.passed_over()),
            (true, true) | (false, false) => Ok(()),
        }
    }

    fn is_passed_over(&self) -> bool {
        self.passed_over().exists()
    }
}
