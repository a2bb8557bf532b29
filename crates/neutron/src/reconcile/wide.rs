//! Resources that are not found by their port.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use model::{ResourceId, Result};

use super::{Fate, Findings, Orphan, OrphanKind, Version};
use crate::Neutron;
use crate::api::{
    FloatingIp, NetworkResource, PortResource, SecurityGroup, SubnetPool, SubnetResource,
};
use crate::cloud::{Progress, network_use, pool_made_at};
use crate::contract::{self, HostId, Mark};
use crate::facts::Facts;

/// No engine takes so long from a pool's request to the network that is made of it.
const IDLE: Duration = Duration::from_secs(3600);

impl Neutron {
    /// Resources for networks of runtimes whose runtime has no such network on this host any more.
    /// Those are deleted automatically that no runtime got, that one released, or that no engine
    /// lists. Where no list is complete a runtime may still know the rest, if the store was lost:
    /// that is deleted only on an operator's request.
    ///
    /// # Errors
    /// Where Neutron or the store does not answer.
    pub fn find_wide_orphans(&self, facts: &dyn Fn() -> Result<Facts>) -> Result<Findings> {
        let networks = self.api().networks(&[])?;
        let subnets = self.api().subnets(&[])?;
        let pools = self.api().pools(&[])?;
        let facts = facts()?;
        let mut unfinished = BTreeMap::new();
        for network in &networks {
            let Some(id) = runtimes_id(network, &self.settings.host) else { continue };
            if let Some(progress) = self.unfinished().progress(&id)? {
                unfinished.insert(id, progress);
            }
        }
        let now = SystemTime::now();
        let (host, is_swarm) = (&self.settings.host, self.settings.kuryr.is_swarm);
        let wide = Wide { host, is_swarm, networks, subnets, pools, unfinished, now };
        Ok(Findings { orphans: wide.orphans(&facts), ..Findings::default() })
    }

    /// The filters of the projects that this host's ports are of, and of the own one: its last port may
    /// be gone, and what was made for that not. Where no project is known it is whatever we see.
    fn projects(
        &self,
        ports: &BTreeMap<ResourceId, PortResource>,
    ) -> Result<Vec<Vec<(&'static str, String)>>> {
        let mut all = projects(ports);
        all.extend(self.transport.project()?);
        Ok(match all.is_empty() {
            true => vec![Vec::new()],
            false => all.into_iter().map(|project| vec![("project_id", project)]).collect(),
        })
    }

    /// The security groups of exposed ports, in the projects that this host's ports are of.
    pub(super) fn exposed_groups_of(
        &self,
        ports: &BTreeMap<ResourceId, PortResource>,
    ) -> Result<Vec<SecurityGroup>> {
        let mut found = Vec::new();
        for filter in self.projects(ports)? {
            found.extend(self.api().groups(&filter)?);
        }
        Ok(found)
    }

    /// The floating IP addresses of those projects; none where Neutron has no routers.
    pub(super) fn floating_ips_of(
        &self,
        ports: &BTreeMap<ResourceId, PortResource>,
    ) -> Result<Vec<FloatingIp>> {
        let mut found = Vec::new();
        for filter in self.projects(ports)? {
            match self.api().floating_ips(&filter) {
                Err(error) if error.status() == Some(404) => {}
                ips => found.extend(ips?),
            }
        }
        Ok(found)
    }
}

/// The resources in Neutron.
struct Wide<'a> {
    host: &'a HostId,
    /// Whether networks are a swarm's.
    is_swarm: bool,
    networks: Vec<NetworkResource>,
    subnets: Vec<SubnetResource>,
    pools: Vec<SubnetPool>,
    /// The progress of networks whose runtime does not have the answer yet.
    unfinished: BTreeMap<String, Progress>,
    now: SystemTime,
}

impl Wide<'_> {
    fn orphans(&self, facts: &Facts) -> Vec<Orphan> {
        let networks: Vec<(&NetworkResource, String)> =
            self.networks.iter().filter_map(|of| Some((of, self.lost(of, facts)?))).collect();
        let gone: BTreeMap<&ResourceId, Fate> =
            networks.iter().map(|(of, id)| (&of.id, self.fate(id, facts))).collect();
        let mut orphans = Vec::new();
        for subnet in &self.subnets {
            let Some(fate) = gone.get(&subnet.network_id) else { continue };
            let why = format!("it is of network {}", subnet.network_id);
            let orphan = orphan(OrphanKind::Subnet, &subnet.id, &subnet.name, why, text(subnet));
            orphans.push(Orphan { fate: *fate, ..orphan });
        }
        for (network, id) in &networks {
            let why = format!("no runtime here has network {id}, for which it was made");
            let orphan =
                orphan(OrphanKind::Network, &network.id, &network.name, why, text(network));
            orphans.push(Orphan { fate: self.fate(id, facts), ..orphan });
        }
        for pool in &self.pools {
            let Some(fate) = self.pool(pool, facts, &gone) else { continue };
            let version = pool.revision_number.map_or_else(|| text(pool), Version::Revision);
            let why = "no network here is made of it".to_owned();
            let orphan = orphan(OrphanKind::Pool, &pool.id, &pool.name, why, version);
            orphans.push(Orphan { fate, ..orphan });
        }
        let gone = gone.into_keys().collect();
        orphans.extend(self.lost_uses(facts, &gone));
        orphans
    }

    /// Of a network that the store does not know.
    fn fate(&self, id: &str, facts: &Facts) -> Fate {
        match self.unfinished.get(id) {
            Some(Progress::Over) => Fate::Delete,
            Some(Progress::Working) => Fate::Wait,
            None => self.fate_of_unknown(facts),
        }
    }

    /// The remedy for what a runtime got and the store does not know. A swarm's node learns late of
    /// existing networks.
    fn fate_of_unknown(&self, facts: &Facts) -> Fate {
        match facts.listed.is_some() && !self.is_swarm {
            true => Fate::Delete,
            false => Fate::OnlyIfForced,
        }
    }

    /// The remedy for a pool of Spoke's; `None` where a network is made of it. One without a subnet
    /// is of no use: its requester released it, or made no network of it and is gone.
    fn pool(
        &self,
        pool: &SubnetPool,
        facts: &Facts,
        gone: &BTreeMap<&ResourceId, Fate>,
    ) -> Option<Fate> {
        let mark = self.mark(&pool.description)?;
        if self.is_shared(&pool.tags) {
            return None;
        }
        let known = self.uses(facts);
        if pool.tags.iter().any(|tag| known.contains(tag)) {
            return None;
        }
        let of_it = self.subnets.iter().filter(|of| of.subnetpool_id.as_ref() == Some(&pool.id));
        let mut fates = Vec::new();
        for subnet in of_it {
            fates.push(*gone.get(&subnet.network_id)?);
        }
        if fates.contains(&Fate::OnlyIfForced) {
            return Some(Fate::OnlyIfForced);
        }
        if fates.contains(&Fate::Wait) {
            return Some(Fate::Wait);
        }
        let is_used = |tag: &&String| contract::is_use(tag);
        let mut uses = pool.tags.iter().filter(is_used).peekable();
        if uses.peek().is_none() {
            if self.is_swarm {
                // A node may learn of the network late.
                return Some(Fate::OnlyIfForced);
            }
            let is_idle = pool_made_at(&mark).is_some_and(|at| self.is_old(at));
            return Some(if is_idle { Fate::Delete } else { Fate::Wait });
        }
        // One of a subnet that existed before: that bears the same tag.
        let mut with_tag = uses.filter(|tag| self.subnets.iter().any(|of| of.tags.contains(tag)));
        Some(if with_tag.next().is_some() { self.fate_of_unknown(facts) } else { Fate::Delete })
    }

    fn is_old(&self, at: SystemTime) -> bool {
        // An age below zero comes from a clock that was set back.
        self.now.duration_since(at).is_ok_and(|age| age >= IDLE)
    }

    /// The tags of the networks that are known here.
    fn uses(&self, facts: &Facts) -> BTreeSet<String> {
        let ids = facts.aliases.iter().chain(facts.listed.iter().flatten());
        let ids = ids.filter_map(|id| id.parse().ok());
        ids.map(|id| network_use(self.host, &id)).collect()
    }

    /// This host's tags of subnets that stay, of which no network here is.
    fn lost_uses(&self, facts: &Facts, gone: &BTreeSet<&ResourceId>) -> Vec<Orphan> {
        let known = self.uses(facts);
        let is_lost = |tag: &str| contract::is_use_of(tag, self.host) && !known.contains(tag);
        let lost = |subnet: &SubnetResource| {
            let tags = subnet.tags.iter().map(String::as_str).filter(|tag| is_lost(tag));
            let tags = tags.collect::<Vec<_>>().join(",");
            let why = "no network here uses the subnet that it is a tag of".to_owned();
            let fate = self.fate_of_unknown(facts);
            let orphan = || orphan(OrphanKind::Use, &subnet.id, &tags, why, text(subnet));
            (!tags.is_empty()).then(|| Orphan { fate, ..orphan() })
        };
        let stay = self.subnets.iter().filter(|subnet| !gone.contains(&subnet.network_id));
        stay.filter_map(lost).collect()
    }

    /// The runtime's id of a network that we made, if no runtime knows it.
    fn lost(&self, network: &NetworkResource, facts: &Facts) -> Option<String> {
        let id = runtimes_id(network, self.host)?;
        let is_listed = facts.listed.as_ref().is_some_and(|listed| listed.contains(&id));
        let is_known = facts.aliases.contains(&id) || self.is_shared(&network.tags);
        (!is_known && !is_listed).then_some(id)
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

/// The runtime's id of a network that this host made.
fn runtimes_id(network: &NetworkResource, host: &HostId) -> Option<String> {
    let mark = Mark::read(&network.description).filter(|mark| mark.is_of(host))?;
    let tagged = contract::id_of_tags(network.tags.iter().map(String::as_str));
    Some(tagged.unwrap_or(mark.what))
}

fn text(of: &impl std::fmt::Debug) -> Version {
    Version::Text(format!("{of:?}"))
}

fn orphan(thing: OrphanKind, id: &ResourceId, name: &str, why: String, version: Version) -> Orphan {
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
        let wide = Wide { subnets: vec![subnet.unwrap()], ..nothing(&host) };
        let facts = Facts { aliases: BTreeSet::from([id("a")]), ..Facts::default() };
        let found = wide.orphans(&facts);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].thing, found[0].fate), (OrphanKind::Use, Fate::OnlyIfForced));
        assert_eq!(found[0].title, lost);
        let facts = Facts { listed: Some(BTreeSet::new()), ..facts };
        assert_eq!(wide.orphans(&facts)[0].fate, Fate::Delete, "no engine has the network");
        let facts = Facts { listed: Some(BTreeSet::from([id("b")])), ..facts };
        assert!(wide.orphans(&facts).is_empty(), "an engine has it");
    }

    /// Of a host whose Neutron has nothing, at 0x2000 seconds after 1970.
    fn nothing(host: &HostId) -> Wide<'_> {
        Wide {
            host,
            is_swarm: false,
            networks: Vec::new(),
            subnets: Vec::new(),
            pools: Vec::new(),
            unfinished: BTreeMap::new(),
            now: SystemTime::UNIX_EPOCH + Duration::from_secs(0x2000),
        }
    }

    #[test]
    fn a_pool_goes_by_itself_where_no_network_can_have_it() {
        let host = HostId::try_from("node".to_owned()).unwrap();
        let id = |digit: &str| digit.repeat(64);
        let of = |digit: &str| network_use(&host, &id(digit).parse().unwrap());
        let other =
            network_use(&HostId::try_from("other".to_owned()).unwrap(), &id("c").parse().unwrap());
        let facts = Facts { aliases: BTreeSet::from([id("a")]), ..Facts::default() };
        let subnet = |network: &str, pool: Option<&str>, tags: &[String]| -> SubnetResource {
            serde_json::from_value(json!({
                "id": "s", "name": "s", "network_id": network, "ip_version": 4,
                "cidr": "10.0.0.0/24", "subnetpool_id": pool, "tags": tags,
            }))
            .unwrap()
        };
        let network =
            json!({ "id": "lost", "name": "n", "description": format!("spoke:node:{}", id("f")) });
        let (known, gone) = (of("a"), of("b"));
        let (old, young) = ("pool-00000100ffffffff", "pool-00001fffffffffff");
        for (mark, tags, subnets, is_swarm, expected) in [
            (old, vec![], vec![], false, Some(Fate::Delete)),
            (young, vec![], vec![], false, Some(Fate::Wait)),
            (old, vec![], vec![], true, Some(Fate::OnlyIfForced)),
            (young, vec![gone.clone()], vec![], false, Some(Fate::Delete)),
            (old, vec![known.clone()], vec![], false, None),
            (old, vec![other], vec![], false, None),
            // The operator's subnet bears the tag of a network that a runtime may know.
            (
                old,
                vec![gone.clone()],
                vec![subnet("n", None, std::slice::from_ref(&gone))],
                false,
                Some(Fate::OnlyIfForced),
            ),
            (
                old,
                vec![gone.clone()],
                vec![subnet("lost", Some("p"), &[])],
                false,
                Some(Fate::OnlyIfForced),
            ),
            (old, vec![gone], vec![subnet("n", Some("p"), &[])], false, None),
        ] {
            let pool = serde_json::from_value(json!({
                "id": "p", "name": "kuryrPool-10.0.0.0/24", "prefixes": ["10.0.0.0/24"],
                "description": format!("spoke:node:{mark}"), "tags": tags,
            }));
            let wide = Wide {
                pools: vec![pool.unwrap()],
                subnets,
                networks: vec![serde_json::from_value(network.clone()).unwrap()],
                is_swarm,
                ..nothing(&host)
            };
            let found = wide.orphans(&facts);
            let fate = found.iter().find(|of| of.thing == OrphanKind::Pool).map(|of| of.fate);
            assert_eq!(fate, expected, "{mark} {:?} {:?}", wide.pools[0].tags, wide.subnets);
        }
    }

    #[test]
    fn a_network_goes_by_itself_of_which_no_runtime_heard() {
        let host = HostId::try_from("node".to_owned()).unwrap();
        let id = "f".repeat(64);
        let network = json!({ "id": "n", "name": "n", "description": format!("spoke:node:{id}") });
        for (unfinished, expected) in [
            (Some(Progress::Over), Fate::Delete),
            (Some(Progress::Working), Fate::Wait),
            (None, Fate::OnlyIfForced),
        ] {
            let wide = Wide {
                networks: vec![serde_json::from_value(network.clone()).unwrap()],
                unfinished: unfinished.into_iter().map(|progress| (id.clone(), progress)).collect(),
                ..nothing(&host)
            };
            assert_eq!(wide.orphans(&Facts::default())[0].fate, expected);
            let facts = Facts { aliases: BTreeSet::from([id.clone()]), ..Facts::default() };
            assert!(wide.orphans(&facts).is_empty());
        }
    }

    #[test]
    fn a_network_that_the_book_lost_goes_where_no_engine_lists_it() {
        let host = HostId::try_from("node".to_owned()).unwrap();
        let id = "f".repeat(64);
        let network = json!({ "id": "n", "name": "n", "description": format!("spoke:node:{id}") });
        for (is_swarm, listed, expected) in [
            (false, None, Some(Fate::OnlyIfForced)),
            (false, Some(vec![]), Some(Fate::Delete)),
            (false, Some(vec!["e".repeat(64)]), Some(Fate::Delete)),
            (false, Some(vec![id.clone()]), None),
            (true, Some(vec![]), Some(Fate::OnlyIfForced)),
        ] {
            let networks = vec![serde_json::from_value(network.clone()).unwrap()];
            let wide = Wide { networks, is_swarm, ..nothing(&host) };
            let listed = listed.map(|ids| ids.into_iter().collect());
            let found = wide.orphans(&Facts { listed, ..Facts::default() });
            assert_eq!(found.first().map(|of| of.fate), expected, "{is_swarm}");
        }
    }
}
