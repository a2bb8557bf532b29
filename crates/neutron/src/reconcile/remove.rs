//! Removes resources without an owner.

use model::{Error, Kind, ResourceId, Result};

use super::classify::{Verdict, exposed_port};
use super::{Fate, Orphan, OrphanKind, Version};
use crate::Neutron;
use crate::api::{FloatingIp, PortResource, Request, Tagged, Verb};
use crate::cloud::Live;
use crate::facts::Facts;

/// Refusals that are not for what was asked: who we are, or how much at once.
const GENERAL: [u16; 3] = [401, 408, 429];

/// The result for an orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// It is gone.
    Deleted,
    /// It is reset, and available in the stock.
    Restocked,
    /// It has an owner after all, or changed a moment ago, or Neutron does not delete it.
    Kept,
}

impl Neutron {
    /// Removes orphans, the inner ones first. Each is read again: one that has an owner now, or has
    /// changed, stays. `facts` is called after Neutron.
    ///
    /// # Errors
    /// Where Neutron or the store does not answer: then the rest stays.
    pub fn remove_orphans(
        &self,
        orphans: &[Orphan],
        facts: &dyn Fn() -> Result<Facts>,
    ) -> Result<Vec<(Orphan, Removed)>> {
        let mut orphans = orphans.to_vec();
        orphans.sort_by_key(|orphan| orphan.thing);
        let mut removed = Vec::new();
        let again = match orphans.iter().any(is_wide) {
            true => self.find_wide_orphans(facts)?.orphans,
            false => Vec::new(),
        };
        for orphan in orphans {
            let is_same = |now: &Orphan| {
                (now.thing, &now.id, now.fate) == (orphan.thing, &orphan.id, orphan.fate)
            };
            let what = match is_wide(&orphan) && !again.iter().any(is_same) {
                true => Removed::Kept,
                false => self.remove_orphan(&orphan, facts)?,
            };
            removed.push((orphan, what));
        }
        Ok(removed)
    }

    fn remove_orphan(&self, orphan: &Orphan, facts: &dyn Fn() -> Result<Facts>) -> Result<Removed> {
        let gone = match orphan.thing {
            OrphanKind::Port => return self.remove_port(orphan, facts),
            OrphanKind::SwitchPort => return self.remove_switch_port(orphan, facts),
            OrphanKind::Use => self.remove_uses(orphan),
            OrphanKind::Group => return self.remove_group(orphan, facts),
            OrphanKind::FloatingIp => {
                let now = self.api().floating_ips(&[("id", orphan.id.to_string())])?;
                let is_it = |ip: &FloatingIp| Version::Text(format!("{ip:?}")) == orphan.version;
                if !now.iter().any(is_it) {
                    return Ok(Removed::Kept);
                }
                self.api().delete_floating_ip(&orphan.id)
            }
            OrphanKind::Subnet => self
                .drop_ports(&orphan.id, &Live::of(facts()?))
                .and_then(|()| self.api().delete_subnet(&orphan.id)),
            OrphanKind::Network => {
                self.drain_stock(&orphan.id)?;
                self.api().delete_network(&orphan.id)
            }
            OrphanKind::Pool => self.api().delete_pool(&orphan.id, orphan.version.revision()),
        };
        unless_changed(gone)
    }

    fn remove_port(&self, orphan: &Orphan, facts: &dyn Fn() -> Result<Facts>) -> Result<Removed> {
        let Some(port) = self.api().port(&orphan.id)? else {
            self.stock_files().drop_lent(&orphan.id)?;
            return Ok(Removed::Deleted);
        };
        let facts = facts()?;
        let again = self.classify(&facts)?.orphan(&port);
        if again.as_ref().map(|again| &again.version) != Some(&orphan.version) {
            return Ok(Removed::Kept);
        }
        let port = match self.parted(port, &facts) {
            Err(error) if is_of_the_port(&error) => return Ok(Removed::Kept),
            parted => parted?,
        };
        let Some(port) = port else { return Ok(Removed::Kept) };
        if orphan.fate == Fate::Stock && self.return_to_stock(&port.id)? {
            return Ok(Removed::Restocked);
        }
        let removed = self.delete_unchanged(&port.id, Version::of_port(&port).revision())?;
        if removed == Removed::Deleted {
            // Also where it was ready, of a stock that is not kept any more.
            self.stock_files().claim_port(&port.id)?;
            self.stock_files().settle(&port.id)?;
            self.stock_files().drop_lent(&port.id)?;
        }
        Ok(removed)
    }

    /// The port, once it is no longer nested in this instance's. None where it is gone or got a user
    /// meanwhile.
    fn parted(&self, port: PortResource, facts: &Facts) -> Result<Option<PortResource>> {
        if !self.unnest_lost(&port, &facts.nestings)? {
            return Ok(Some(port));
        }
        let now = self.api().port(&port.id)?;
        let is_same = |now: &PortResource| {
            let is_user = now.device_id.is_empty() || now.device_id == port.device_id;
            is_user && now.tags == port.tags
        };
        Ok(now.filter(is_same))
    }

    /// A port that existed before may have the group still.
    fn remove_group(&self, orphan: &Orphan, facts: &dyn Fn() -> Result<Facts>) -> Result<Removed> {
        let now = self.api().groups(&[("id", orphan.id.to_string())])?;
        let host = &self.settings.host;
        let of = now.iter().find_map(|group| exposed_port(group, host).map(|port| (group, port)));
        let Some((group, port)) = of else { return Ok(Removed::Kept) };
        let there = self.api().port(&port)?;
        let facts = facts()?;
        let classify = self.classify(&facts)?;
        let is_known = there.is_some_and(|port| classify.port(&port) == Verdict::Known);
        let known = is_known.then(|| port.clone()).into_iter().collect();
        if classify.group(group, &known).is_none() {
            return Ok(Removed::Kept);
        }
        let taken_off = self.take_off(&port, std::slice::from_ref(&orphan.id));
        unless_changed(taken_off.and_then(|()| self.api().delete_group(&orphan.id)))
    }

    /// Takes the tags away that an orphan's title lists.
    fn remove_uses(&self, orphan: &Orphan) -> Result<()> {
        let mut tags = orphan.title.split(',');
        tags.try_for_each(|tag| self.api().remove_tag(Tagged::Subnets, &orphan.id, tag))
    }

    /// Deletes a port, if it still has this revision.
    fn delete_unchanged(&self, id: &ResourceId, revision: Option<u64>) -> Result<Removed> {
        let path = format!("v2.0/ports/{id}");
        let request = Request { revision, ..Request::of(Verb::Delete, &path) };
        let done = match self.transport.carry(&request) {
            Err(error) if error.status() == Some(404) => Ok(()),
            done => done.map(drop),
        };
        unless_changed(done)
    }
}

/// Whether it is not found by a port of this host.
fn is_wide(orphan: &Orphan) -> bool {
    matches!(
        orphan.thing,
        OrphanKind::Use | OrphanKind::Subnet | OrphanKind::Network | OrphanKind::Pool
    )
}

fn unless_changed(done: Result<()>) -> Result<Removed> {
    match done {
        Ok(()) => Ok(Removed::Deleted),
        // One that Neutron never deletes must not keep all others.
        Err(error) if error.status().is_some_and(is_of_this_one) => Ok(Removed::Kept),
        Err(error) => Err(error),
    }
}

/// Whether a port cannot be parted for a reason that keeps no other orphan. Without a status it is what this
/// process found: several ports with the hardware address of the instance, for example.
fn is_of_the_port(error: &Error) -> bool {
    match error.status() {
        Some(status) => is_of_this_one(status),
        None => error.kind() == Kind::Conflict,
    }
}

fn is_of_this_one(status: u16) -> bool {
    (400..500).contains(&status) && !GENERAL.contains(&status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_cannot_be_parted_keeps_no_other() {
        assert!(is_of_the_port(&Error::conflict("several ports have the hardware address")));
        assert!(is_of_the_port(&Error::try_again("changed all the time").with_status(412)));
        assert!(!is_of_the_port(&Error::try_again("no answer")));
        assert!(!is_of_the_port(&Error::conflict("no answer").with_status(503)));
    }

    #[test]
    fn what_neutron_does_not_let_go_keeps_no_other() {
        let refused = |status| Err(Error::new(Kind::Denied, "refused").with_status(status));
        for status in [400, 403, 409, 412] {
            assert_eq!(unless_changed(refused(status)).unwrap(), Removed::Kept, "{status}");
        }
        for status in [401, 429, 500, 503] {
            let error = unless_changed(refused(status)).unwrap_err();
            assert_eq!(error.status(), Some(status));
        }
        let error = unless_changed(Err(Error::try_again("no answer"))).unwrap_err();
        assert_eq!(error.kind(), Kind::TryAgain);
    }
}
