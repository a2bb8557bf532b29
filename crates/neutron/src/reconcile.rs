//! Finds resources of this host in Neutron that have no owner here any more.
//!
//! Neutron is asked first, then the store, the memory and the stock's files: all of those are
//! written before or with Neutron's resources. So a resource that is in Neutron's answer and not in
//! theirs was made by a process that died, or is just being made. Hence a resource is deleted only
//! if it was seen twice, some time apart and unchanged between, and still has no owner at the
//! deletion. An answer that fails or is incomplete does not count.

mod classify;
mod remove;
mod sweep;
mod switch;
mod wide;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use model::{ResourceId, Result};

use crate::Neutron;
use crate::api::PortResource;
use crate::contract;
use crate::facts::Facts;
use crate::nested::SUBPORT;
use classify::{Classifier, Verdict};
pub use remove::Removed;
pub use sweep::{GRACE, Sweep};

/// So long an address that was allocated may wait for its container: a host that is to run it may
/// have to fetch its image first.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// The kinds of resources that can be left behind in Neutron.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OrphanKind {
    /// A tag that says that this host uses something.
    Use,
    /// A floating IP address.
    FloatingIp,
    /// A port.
    Port,
    /// A security group of exposed ports.
    Group,
    /// A subnet.
    Subnet,
    /// A network.
    Network,
    /// A subnet pool.
    Pool,
    /// A port of Open vSwitch, on this host.
    SwitchPort,
}

/// A resource without an owner on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The resource.
    pub thing: OrphanKind,
    /// Neutron's id of it.
    pub id: ResourceId,
    /// Its name for people: addresses, a name.
    pub title: String,
    /// Why it is taken for an orphan.
    pub why: String,
    /// The remedy.
    pub fate: Fate,
    /// A value that any change of the resource changes.
    pub(crate) version: Version,
}

/// How much is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breadth {
    /// Ports.
    Ports,
    /// Resources beside ports, too: security groups, floating IP addresses, places on the switch.
    Everything,
}

/// The remedy for an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is deleted.
    Delete,
    /// It comes back to the stock, or is deleted where none is kept.
    Stock,
    /// It stays until an operator removes it: a runtime that is not seen here may know it.
    OnlyIfForced,
    /// It is too young to decide.
    Wait,
}

/// A resource's revision, or all of it where it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Revision(u64),
    Text(String),
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Resources without an owner.
    pub orphans: Vec<Orphan>,
    /// Ports made ahead of need whose files went with the boot.
    pub(crate) restorable: Vec<PortResource>,
    /// Every port of this host that Neutron has.
    pub(crate) ports: BTreeSet<ResourceId>,
}

impl OrphanKind {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            OrphanKind::SwitchPort => "switch-port",
            OrphanKind::Use => "use-tag",
            OrphanKind::FloatingIp => "floating-ip",
            OrphanKind::Port => "neutron-port",
            OrphanKind::Group => "security-group",
            OrphanKind::Subnet => "subnet",
            OrphanKind::Network => "neutron-network",
            OrphanKind::Pool => "subnet-pool",
        }
    }
}

impl Neutron {
    /// Compares Neutron's ports of this host with what is known here. Changes nothing.
    ///
    /// # Errors
    /// Where Neutron or the store does not answer: then nothing is known.
    pub fn find_orphans(
        &self,
        breadth: Breadth,
        facts: &dyn Fn() -> Result<Facts>,
    ) -> Result<Findings> {
        let mut ports = self.ports_of_host()?;
        if self.settings.plugging.nesting.is_none() && facts()?.has_trunks() {
            self.add_subports(&mut ports)?;
        }
        let (groups, floating) = match breadth {
            Breadth::Ports => (Vec::new(), Vec::new()),
            Breadth::Everything => (self.exposed_groups_of(&ports)?, self.floating_ips_of(&ports)?),
        };
        let plugged = match breadth {
            Breadth::Ports => Vec::new(),
            Breadth::Everything => self.plugged_by_us(),
        };
        let facts = facts()?;
        let classify = self.classify(&facts)?;
        let ids = ports.keys().cloned().collect();
        let mut findings = Findings { ports: ids, ..Findings::default() };
        let mut known = BTreeSet::new();
        for port in ports.values() {
            match classify.port(port) {
                Verdict::Orphan(why, fate) => {
                    findings.orphans.push(Orphan::port(port, why, fate));
                }
                Verdict::Ready => findings.restorable.push(port.clone()),
                Verdict::Known => drop(known.insert(port.id.clone())),
                Verdict::Foreign => {}
            }
        }
        findings.orphans.extend(groups.iter().filter_map(|group| classify.group(group, &known)));
        findings.orphans.extend(floating.iter().filter_map(|ip| classify.floating_ip(ip, &known)));
        let strays = plugged.iter().filter(|of| !ports.contains_key(&of.port));
        findings.orphans.extend(strays.filter_map(|of| switch::orphan(of, &facts)));
        Ok(findings)
    }

    fn classify<'a>(&'a self, facts: &'a Facts) -> Result<Classifier<'a>> {
        let stock_files = self.stock_files();
        let mut shelved: BTreeSet<ResourceId> = BTreeSet::new();
        // In the order in which a port goes round, and the first place again: so none is missed that
        // moves meanwhile.
        let ready = || -> Result<Vec<ResourceId>> {
            let mut all = Vec::new();
            for digest in stock_files.kinds()? {
                all.extend(stock_files.ready_ports(&digest)?);
            }
            Ok(all)
        };
        let is_kept = self.settings.stock.is_some();
        if is_kept {
            shelved.extend(ready()?);
        }
        let lent = stock_files.lent_ports()?.into_iter();
        let lent = lent.map(|id| (id.clone(), stock_files.lent_since(&id))).collect();
        if is_kept {
            shelved.extend(stock_files.returned_ports()?);
            shelved.extend(ready()?);
        }
        // Neutron does not have the users of these ports yet.
        shelved.extend(self.port_updates().pending_ports()?);
        let allocated = self.allocated.recent(TIMEOUT);
        let host = &self.settings.host;
        Ok(Classifier { host, facts, is_kept, shelved, lent, allocated, now: SystemTime::now() })
    }

    /// The ports that are bound to this host, and those that it made and that are not bound.
    pub(crate) fn ports_of_host(&self) -> Result<BTreeMap<ResourceId, PortResource>> {
        let host = self.settings.host.as_str().to_owned();
        let owner = || ("device_owner", contract::OWNER.to_owned());
        let mut found = self.api().ports(&[("binding:host_id", host)])?;
        found.extend(self.api().ports(&[owner(), ("binding:host_id", String::new())])?);
        let mut ports = found.into_iter().map(|port| (port.id.clone(), port)).collect();
        if self.settings.plugging.nesting.is_some() {
            self.add_subports(&mut ports)?;
        }
        Ok(ports)
    }

    /// Neutron binds those to the host of the instance.
    fn add_subports(&self, ports: &mut BTreeMap<ResourceId, PortResource>) -> Result<()> {
        let found = self.api().ports(&[("device_owner", SUBPORT.to_owned())])?;
        ports.extend(found.into_iter().map(|port| (port.id.clone(), port)));
        Ok(())
    }
}

impl Orphan {
    fn port(port: &PortResource, why: String, fate: Fate) -> Self {
        let addresses = port.fixed_ips.iter().filter_map(|ip| ip.ip_address);
        let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
        Self {
            thing: OrphanKind::Port,
            id: port.id.clone(),
            title: addresses.join(", "),
            why,
            fate,
            version: Version::of_port(port),
        }
    }
}

impl Version {
    fn of_port(port: &PortResource) -> Self {
        match port.revision_number {
            Some(revision) => Self::Revision(revision),
            None => Self::Text(format!("{port:?}")),
        }
    }

    fn revision(&self) -> Option<u64> {
        match self {
            Self::Revision(revision) => Some(*revision),
            Self::Text(_) => None,
        }
    }
}
