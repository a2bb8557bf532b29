//! Decides whether a resource of Neutron's has an owner.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::ResourceId;

use super::{Fate, GRACE, Orphan, OrphanKind, TIMEOUT, Version};
use crate::api::{FloatingIp, PortResource, SecurityGroup};
use crate::cloud::{PortPurpose, network_use, use_of_auxiliary};
use crate::contract::{self, HostId, Mark, OWNER, is_kuryrs_address};
use crate::facts::Facts;
use crate::nested::SUBPORT;
use crate::stock_key::KeyDigest;

/// The prefix of marks of security groups for a port's exposed ports.
const EXPOSED: &str = "exposed-";

/// The prefix of marks of floating IP addresses of a port.
const FLOATING: &str = "floating-";

/// The number of digits of a request's mark that hold its time, in seconds since 1970.
const SECONDS: usize = 8;

/// The facts for a decision.
pub(super) struct Classifier<'a> {
    pub(super) host: &'a HostId,
    pub(super) facts: &'a Facts,
    /// Whether a stock is kept.
    pub(super) is_kept: bool,
    /// Ports that are ready, or will be, or are being given their names.
    pub(super) shelved: BTreeSet<ResourceId>,
    /// Ports that were taken from the stock, and when.
    pub(super) lent: BTreeMap<ResourceId, Option<SystemTime>>,
    /// Ports that were allocated and wait for an attachment.
    pub(super) allocated: BTreeSet<ResourceId>,
    pub(super) now: SystemTime,
}

/// The class of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Not Spoke's.
    Foreign,
    /// In use on this host.
    Known,
    /// Made ahead of need, and only its file is missing.
    Ready,
    /// Without an owner.
    Orphan(String, Fate),
}

impl Classifier<'_> {
    pub(super) fn port(&self, port: &PortResource) -> Verdict {
        let mark = Mark::read(&port.description);
        let is_ours = match &mark {
            Some(mark) => mark.is_of(self.host),
            None => is_kuryrs_address(port) && port.host() == Some(self.host.as_str()),
        };
        let is_elsewhere =
            port.host().is_some_and(|host| host != self.host.as_str()) && !is_subport(port);
        let is_containers = matches!(port.device_owner.as_str(), OWNER | SUBPORT | "");
        if !is_ours || is_elsewhere || !is_containers {
            return Verdict::Foreign;
        }
        if self.is_held(port, mark.as_ref()) {
            return Verdict::Known;
        }
        match mark {
            Some(mark) => self.marked(port, &mark),
            None => self.unmarked(port),
        }
    }

    /// The same, where it is one that may go.
    pub(super) fn orphan(&self, port: &PortResource) -> Option<Orphan> {
        match self.port(port) {
            Verdict::Orphan(why, fate) => Some(Orphan::port(port, why, fate)),
            Verdict::Foreign | Verdict::Known | Verdict::Ready => None,
        }
    }

    fn is_held(&self, port: &PortResource, mark: Option<&Mark>) -> bool {
        let device = |id: &str| !id.is_empty() && self.facts.devices.contains(id);
        let tagged = contract::id_of_tags(port.tags.iter().map(String::as_str));
        self.facts.ports.contains(&port.id)
            || self.shelved.contains(&port.id)
            || self.allocated.contains(&port.id)
            || device(&port.device_id)
            || mark.is_some_and(|mark| device(&mark.what))
            || tagged.is_some_and(|id| device(&id))
    }

    fn marked(&self, port: &PortResource, mark: &Mark) -> Verdict {
        let orphan = |why: &str, fate| Verdict::Orphan(why.to_owned(), fate);
        if let Some(since) = self.lent.get(&port.id) {
            let is_young = since.is_none_or(|since| self.is_young(since));
            let fate = if is_young { Fate::Wait } else { Fate::Stock };
            return orphan("it was taken from the stock, and no container has it", fate);
        }
        if KeyDigest::of_mark(mark).is_some() {
            return match is_like_new(port) {
                true if self.is_kept => Verdict::Ready,
                true => orphan("it was made ahead of need, and no stock is kept", Fate::Delete),
                false => orphan("it was of the stock, and no container has it", Fate::Delete),
            };
        }
        match PortPurpose::of(mark) {
            Some(PortPurpose::Auxiliary) => self.auxiliary(mark),
            Some(PortPurpose::Request) => {
                let is_young = asked_at(mark).is_none_or(|at| self.is_young(at));
                let fate = if is_young { Fate::Wait } else { Fate::Delete };
                orphan("its address was requested, and no container has it", fate)
            }
            None => orphan("it was made for a container of which there is no record", Fate::Delete),
        }
    }

    /// One that keeps an address back for a network.
    fn auxiliary(&self, mark: &Mark) -> Verdict {
        let orphan = |why: &str, fate| Verdict::Orphan(why.to_owned(), fate);
        let Some(once) = use_of_auxiliary(self.host, mark) else {
            let why = "it keeps an address of a network back, which has no record";
            return orphan(why, Fate::OnlyIfForced);
        };
        let known = self.facts.aliases.iter().chain(self.facts.listed.iter().flatten());
        let mut known = known.filter_map(|id| id.parse().ok());
        if known.any(|id| network_use(self.host, &id) == once) {
            return Verdict::Known;
        }
        let is_reported = self.facts.listed.is_some();
        let fate = if is_reported { Fate::Delete } else { Fate::OnlyIfForced };
        orphan("it keeps an address back for a network that no runtime here has", fate)
    }

    /// Another program of the same contract may run on this host: where the device is still there
    /// that it makes for a port, the port is in use.
    fn unmarked(&self, port: &PortResource) -> Verdict {
        if self.facts.links.contains(&format!("tap{}", port.id.short())) {
            return Verdict::Known;
        }
        let why = "kuryr-libnetwork made it for a container that is not on this host any more";
        Verdict::Orphan(why.to_owned(), Fate::Delete)
    }

    /// A group for this port, which has an owner (`known`) or none.
    pub(super) fn group(
        &self,
        group: &SecurityGroup,
        known: &BTreeSet<ResourceId>,
    ) -> Option<Orphan> {
        let port = exposed_port(group, self.host)?;
        (!self.facts.ports.contains(&port) && !known.contains(&port)).then(|| Orphan {
            thing: OrphanKind::Group,
            id: group.id.clone(),
            title: group.name.clone(),
            why: format!("no container here has port {port}, whose exposed ports it is for"),
            fate: Fate::Delete,
            version: Version::Text(format!("{group:?}")),
        })
    }

    /// The same.
    pub(super) fn floating_ip(
        &self,
        ip: &FloatingIp,
        known: &BTreeSet<ResourceId>,
    ) -> Option<Orphan> {
        let mark = Mark::read(&ip.description).filter(|mark| mark.is_of(self.host))?;
        let made_for: ResourceId = mark.what.strip_prefix(FLOATING)?.parse().ok()?;
        // Its user may have moved it to another port since.
        let is_led_away = ip.port_id.as_ref().is_some_and(|port| *port != made_for);
        let is_held = self.facts.ports.contains(&made_for) || known.contains(&made_for);
        (!is_led_away && !is_held).then(|| Orphan {
            thing: OrphanKind::FloatingIp,
            id: ip.id.clone(),
            title: ip.floating_ip_address.to_string(),
            why: "it leads to no container here".to_owned(),
            fate: Fate::Delete,
            version: Version::Text(format!("{ip:?}")),
        })
    }

    fn is_young(&self, since: SystemTime) -> bool {
        // An age below zero comes from a clock that was set back.
        let grace = if self.facts.is_asked { GRACE } else { TIMEOUT };
        self.now.duration_since(since).map_or(true, |age| age < grace)
    }
}

/// The port whose exposed ports this host's group is for.
pub(super) fn exposed_port(group: &SecurityGroup, host: &HostId) -> Option<ResourceId> {
    let mark = Mark::read(&group.description).filter(|mark| mark.is_of(host))?;
    mark.what.strip_prefix(EXPOSED)?.parse().ok()
}

fn is_subport(port: &PortResource) -> bool {
    port.device_owner == SUBPORT
}

/// Whether it has no user, and does not name one.
fn is_like_new(port: &PortResource) -> bool {
    port.device_id.is_empty()
        && port.device_owner == OWNER
        && port.tags.iter().all(|tag| tag == OWNER)
}

/// When an address was requested, by this host's clock.
fn asked_at(mark: &Mark) -> Option<SystemTime> {
    let nonce = mark.what.rsplit('-').next()?;
    let seconds = u64::from_str_radix(nonce.get(..SECONDS)?, 16).ok()?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests;
