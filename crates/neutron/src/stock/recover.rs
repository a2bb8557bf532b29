//! Ports made ahead of need whose files went with the boot, and files whose ports went.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use model::{ResourceId, Result};

use super::Stored;
use crate::Neutron;
use crate::api::PortResource;
use crate::contract::{self, Mark};
use crate::reconcile::Findings;
use crate::stock_key::{KeyDigest, PortUse, StockKey};

/// The name of each project's own security group.
const DEFAULT: &str = "default";

/// A file that is younger may be of a port that Neutron's answer does not have yet.
const YOUNG: Duration = Duration::from_secs(60);

impl Neutron {
    /// Puts ports back to the stock that were found in Neutron only, and drops files whose ports are
    /// gone. How many came back. Those that cannot be used any more are deleted.
    ///
    /// # Errors
    /// Where Neutron does not answer; what was done until then is done.
    pub fn mend_stock(&self, findings: &Findings) -> Result<usize> {
        if self.settings.stock.is_none() {
            return Ok(0);
        }
        self.drop_stale(findings)?;
        let mut defaults = BTreeMap::new();
        let mut back = 0;
        for port in &findings.restorable {
            match self.key_of_port(port, &mut defaults)? {
                Some(key) if !self.has_floating_ip(&port.id)? => {
                    back += usize::from(self.restore(&key, port)?);
                }
                Some(_) | None => self.api().delete_port(&port.id)?,
            }
        }
        Ok(back)
    }

    fn restore(&self, key: &StockKey, port: &PortResource) -> Result<bool> {
        let stock_files = self.stock_files();
        let digest = key.digest()?;
        let _lock = stock_files.making(&digest)?;
        // Its network may have been emptied since.
        if self.api().port(&port.id)?.as_ref() != Some(port) {
            return Ok(false);
        }
        if !stock_files.is_wanted(&digest) {
            stock_files.want(key)?;
        }
        stock_files.put(&Stored { key: digest, port: port.clone() })?;
        Ok(true)
    }

    /// A mark has the digest of a key: whichever gives the same is what it was.
    fn key_of_port(
        &self,
        port: &PortResource,
        defaults: &mut BTreeMap<String, BTreeSet<ResourceId>>,
    ) -> Result<Option<StockKey>> {
        let mark = Mark::read(&port.description).filter(|mark| mark.is_of(&self.settings.host));
        let Some(digest) = mark.and_then(|mark| KeyDigest::of_mark(&mark)) else { return Ok(None) };
        let is_plain = port.name == contract::PORT_NAME
            && port.admin_state_up
            && port.allowed_address_pairs.is_empty()
            && port.dns_name.as_ref().is_none_or(String::is_empty);
        if !is_plain {
            return Ok(None);
        }
        for key in self.keys_like(port) {
            if key.digest()? != digest {
                continue;
            }
            let is_as_made = match key.groups {
                Some(_) => true,
                None => self.has_default_groups(port, defaults)?,
            };
            return Ok(is_as_made.then_some(key));
        }
        Ok(None)
    }

    /// Every key that a port could be of.
    fn keys_like(&self, port: &PortResource) -> Vec<StockKey> {
        let place = if port.host().is_some() { PortUse::Host } else { PortUse::Nested };
        let groups: BTreeSet<ResourceId> = port.security_groups.iter().cloned().collect();
        let subnets = port.fixed_ips.iter().filter_map(|ip| ip.subnet_id.clone());
        let mut keys = vec![self.stock_key(place, &port.network_id)];
        let subnets: BTreeSet<ResourceId> = subnets.collect();
        keys = either(keys, |key| key.subnets.clone_from(&subnets));
        keys = either(keys, |key| key.groups = Some(groups.clone()));
        keys = either(keys, |key| key.port_security = port.port_security_enabled);
        either(keys, |key| key.qos_policy.clone_from(&port.qos_policy_id))
    }

    fn has_default_groups(
        &self,
        port: &PortResource,
        defaults: &mut BTreeMap<String, BTreeSet<ResourceId>>,
    ) -> Result<bool> {
        if !defaults.contains_key(&port.project_id) {
            let filter = [("name", DEFAULT.to_owned()), ("project_id", port.project_id.clone())];
            let ids = self.api().groups(&filter)?.into_iter().map(|group| group.id).collect();
            defaults.insert(port.project_id.clone(), ids);
        }
        let default = &defaults[&port.project_id];
        Ok(port.security_groups.iter().all(|group| default.contains(group)))
    }

    /// A port that is missing in Neutron's answer is requested by itself before it counts as gone.
    fn drop_stale(&self, findings: &Findings) -> Result<()> {
        let stock_files = self.stock_files();
        for id in stock_files.lent_ports()?.into_iter().filter(|id| !findings.ports.contains(id)) {
            let is_young = stock_files.lent_since(&id).is_none_or(is_young);
            if !is_young && self.api().port(&id)?.is_none() {
                stock_files.drop_lent(&id)?;
            }
        }
        for digest in stock_files.kinds()? {
            let ready = stock_files.ready_ports(&digest)?.into_iter();
            for id in ready.filter(|id| !findings.ports.contains(id)) {
                if self.api().port(&id)?.is_none() && stock_files.claim_port(&id)?.is_some() {
                    stock_files.drop_lent(&id)?;
                }
            }
        }
        Ok(())
    }
}

fn is_young(since: SystemTime) -> bool {
    since.elapsed().map_or(true, |age| age < YOUNG)
}

/// Each as it is, and each changed.
fn either(keys: Vec<StockKey>, change: impl Fn(&mut StockKey)) -> Vec<StockKey> {
    let mut all = keys.clone();
    for mut key in keys {
        change(&mut key);
        all.push(key);
    }
    all
}
