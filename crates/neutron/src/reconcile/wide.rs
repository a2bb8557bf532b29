//! What is not found by its port.

use std::collections::{BTreeMap, BTreeSet};

use model::{ResourceId, Result};

use super::{Facts, Fate, Findings, Orphan, Thing, Version};
use crate::Neutron;
use crate::api::{
    FloatingIp, NetworkResource, PortResource, SecurityGroup, SubnetPool, SubnetResource,
};
use crate::cloud::network_use;
use crate::contract::{self, HostId, Mark};

impl Neutron {
    /// What was made for networks of runtimes and whose runtime has no such network on this host any
    /// more, as far as the book says. A runtime may still know it where the book was lost: so these
    /// go only when somebody says so.
    ///
    /// # Errors
    /// Where Neutron or the book does not answer.
    pub fn look_wide(&self, facts: &dyn Fn() -> Result<Facts>) -> Result<Findings> {
        let networks = self.api().networks(&[])?;
        let subnets = self.api().subnets(&[])?;
        let pools = self.api().pools(&[])?;
        let facts = facts()?;
        let wide = Wide { host: &self.settings.host, networks, subnets, pools };
        Ok(Findings { orphans: wide.orphans(&facts), ..Findings::default() })
    }

    /// The security groups of exposed ports, in the projects that this host's ports are of.
    pub(super) fn exposed_groups_of(
        &self,
        ports: &BTreeMap<ResourceId, PortResource>,
    ) -> Result<Vec<SecurityGroup>> {
        let mut found = Vec::new();
        for project in projects(ports) {
            found.extend(self.api().groups(&[("project_id", project)])?);
        }
        Ok(found)
    }

    /// The floating IP addresses of those projects; none where Neutron has no routers.
    pub(super) fn floating_ips_of(
        &self,
        ports: &BTreeMap<ResourceId, PortResource>,
    ) -> Result<Vec<FloatingIp>> {
        let mut found = Vec::new();
        for project in projects(ports) {
            match self.api().floating_ips(&[("project_id", project)]) {
                Err(error) if error.status() == Some(404) => {}
                ips => found.extend(ips?),
            }
        }
        Ok(found)
    }
}

/// What Neutron has.
struct Wide<'a> {
    host: &'a HostId,
    networks: Vec<NetworkResource>,
    subnets: Vec<SubnetResource>,
    pools: Vec<SubnetPool>,
}

impl Wide<'_> {
    fn orphans(&self, facts: &Facts) -> Vec<Orphan> {
        let networks: Vec<(&NetworkResource, String)> =
            self.networks.iter().filter_map(|of| Some((of, self.lost(of, facts)?))).collect();
        let gone: BTreeSet<&ResourceId> = networks.iter().map(|(of, _)| &of.id).collect();
        let mut orphans = Vec::new();
        for subnet in self.subnets.iter().filter(|subnet| gone.contains(&subnet.network_id)) {
            let why = format!("it is of network {}", subnet.network_id);
            orphans.push(orphan(Thing::Subnet, &subnet.id, &subnet.name, why, text(subnet)));
        }
        for (network, id) in &networks {
            let why = format!("no runtime here has network {id}, for which it was made");
            orphans.push(orphan(Thing::Network, &network.id, &network.name, why, text(network)));
        }
        for pool in self.pools.iter().filter(|pool| self.is_lost(pool, &gone)) {
            let version = pool.revision_number.map_or_else(|| text(pool), Version::Revision);
            let why = "no network here is made of it".to_owned();
            orphans.push(orphan(Thing::Pool, &pool.id, &pool.name, why, version));
        }
        orphans.extend(self.lost_uses(facts, &gone));
        orphans
    }

    /// This host's tags of subnets that stay, of which no network here is.
    fn lost_uses(&self, facts: &Facts, gone: &BTreeSet<&ResourceId>) -> Vec<Orphan> {
        let ids = facts.aliases.iter().filter_map(|id| id.parse().ok());
        let known: BTreeSet<String> = ids.map(|id| network_use(self.host, &id)).collect();
        let is_lost = |tag: &str| contract::is_use_of(tag, self.host) && !known.contains(tag);
        let lost = |subnet: &SubnetResource| {
            let tags = subnet.tags.iter().map(String::as_str).filter(|tag| is_lost(tag));
            let tags = tags.collect::<Vec<_>>().join(",");
            let why = "no network here uses the subnet that it is a tag of".to_owned();
            (!tags.is_empty()).then(|| orphan(Thing::Use, &subnet.id, &tags, why, text(subnet)))
        };
        let stay = self.subnets.iter().filter(|subnet| !gone.contains(&subnet.network_id));
        stay.filter_map(lost).collect()
    }

    /// The runtime's id of a network that we made, if no runtime knows it.
    fn lost(&self, network: &NetworkResource, facts: &Facts) -> Option<String> {
        let mark = self.mark(&network.description)?;
        let tagged = contract::id_of_tags(network.tags.iter().map(String::as_str));
        let id = tagged.unwrap_or(mark.what);
        let is_known = facts.aliases.contains(&id) || self.is_shared(&network.tags);
        (!is_known).then_some(id)
    }

    /// Whether a pool was made by us, and nothing is made of it but what is gone too.
    fn is_lost(&self, pool: &SubnetPool, gone: &BTreeSet<&ResourceId>) -> bool {
        let is_ours = self.mark(&pool.description).is_some();
        let mut of_it =
            self.subnets.iter().filter(|subnet| subnet.subnetpool_id.as_ref() == Some(&pool.id));
        let is_used = of_it.any(|subnet| !gone.contains(&subnet.network_id));
        let mut uses = pool.tags.iter().filter(|tag| contract::is_use(tag));
        let is_named = uses.any(|tag| {
            let mut of_tag = self.networks.iter().filter(|network| network.tags.contains(tag));
            of_tag.any(|network| !gone.contains(&network.id))
        });
        is_ours && !is_used && !is_named && !self.is_shared(&pool.tags)
    }

    fn mark(&self, description: &str) -> Option<Mark> {
        Mark::read(description).filter(|mark| mark.is_of(self.host))
    }

    /// Whether another host uses it too.
    fn is_shared(&self, tags: &[String]) -> bool {
        let mut uses = tags.iter().filter(|tag| contract::is_use(tag));
        uses.any(|tag| !contract::is_use_of(tag, self.host))
    }
}

fn text(of: &impl std::fmt::Debug) -> Version {
    Version::Text(format!("{of:?}"))
}

fn orphan(thing: Thing, id: &ResourceId, name: &str, why: String, version: Version) -> Orphan {
    Orphan { thing, id: id.clone(), title: name.to_owned(), why, fate: Fate::OnlyIfForced, version }
}

fn projects(ports: &BTreeMap<ResourceId, PortResource>) -> BTreeSet<String> {
    let all = ports.values().filter(|port| Mark::read(&port.description).is_some());
    all.map(|port| port.project_id.clone()).filter(|project| !project.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tags_of_networks_that_are_gone_are_found() {
        let [host, other] =
            ["node", "other"].map(|name| HostId::try_from(name.to_owned()).unwrap());
        let id = |digit: &str| digit.repeat(64);
        let of = |host: &HostId, digit: &str| network_use(host, &id(digit).parse().unwrap());
        let (known, lost) = (of(&host, "a"), of(&host, "b"));
        let subnet = serde_json::from_value(json!({
            "id": "s", "name": "operators", "network_id": "n", "ip_version": 4,
            "cidr": "10.0.0.0/24", "tags": [known, lost, of(&other, "c"), "theirs"],
        }));
        let wide = Wide {
            host: &host,
            networks: Vec::new(),
            subnets: vec![subnet.unwrap()],
            pools: Vec::new(),
        };
        let facts = Facts { aliases: BTreeSet::from([id("a")]), ..Facts::default() };
        let found = wide.orphans(&facts);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].thing, found[0].fate), (Thing::Use, Fate::OnlyIfForced));
        assert_eq!(found[0].title, lost);
    }
}
