//! This host resolves the names of its networks, where its operator wants that: systemd-resolved is configured by which bridge,
//! and at which gateway, Spoke answers about which domain.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ::names::{ServedGateway, reverse_domain};
use linux::filter::fence::NAMES_PORT;
use linux::identity::GROUP;
use linux::resolved::{LinkNames, Resolved};
use model::{Error, IfName, Result};
use netlink::{At, Socket};

use crate::Daemon;

/// How often the bridges are compared with what was configured: a network has names on this host soon after its first container.
const GLANCE: Duration = Duration::from_millis(500);
/// How often it is looked whether resolved is another one, and how long to wait after a failure.
const AGAIN: Duration = Duration::from_secs(5);
/// What an earlier life has configured, below the runtime directory.
const FILE: &str = "names-resolved.json";
/// A longer file is none of ours, in bytes.
const LONGEST: u64 = 1 << 20;

/// What was configured, by bridge.
type Configured = BTreeMap<IfName, LinkNames>;

/// Configures it until the daemon stops, and takes it back then: no server would answer.
pub(super) fn keep(daemon: &Daemon) {
    let config = daemon.context_pool.config();
    let path = config.store.runtime.join(FILE);
    let mut keeper = Keeper {
        daemon,
        path,
        bridges: Bridges::new(),
        configured: Configured::new(),
        owner: String::new(),
        looked: None,
        failure: None,
    };
    keeper.take_back(read(&keeper.path).unwrap_or_default());
    while config.names.host && !daemon.sleep(GLANCE) {
        keeper.glance();
    }
    keeper.take_back(indices(&keeper.configured));
}

struct Keeper<'a> {
    daemon: &'a Daemon,
    path: PathBuf,
    bridges: Bridges,
    configured: Configured,
    /// The resolved that was configured, as the bus calls it.
    owner: String,
    /// When it was looked for last.
    looked: Option<Instant>,
    /// What did not work then.
    failure: Option<String>,
}

impl Keeper<'_> {
    fn glance(&mut self) {
        let configured = match self.wanted() {
            Ok(wanted) if !self.is_due(&wanted) => return,
            Ok(wanted) => self.configure(wanted),
            Err(error) => Err(error),
        };
        self.looked = Some(Instant::now());
        let failure = configured.err().map(|error| error.to_string());
        if let Some(what) = failure.as_ref().filter(|_| self.failure != failure) {
            self.daemon.journal.warn(&format!("names on this host: {what}"));
        }
        self.failure = failure;
    }

    /// What resolved is to be configured. A bridge that is not Spoke's is reported once.
    fn wanted(&mut self) -> Result<Configured> {
        let places = self.daemon.fence.places();
        let bridges = bridges(&places, &self.bridges, &mut Socket::route()?)?;
        let seen = std::mem::replace(&mut self.bridges, bridges);
        for (bridge, found) in &self.bridges {
            if !found.is_made && seen.get(bridge) != Some(found) {
                self.daemon.journal.warn(&format!(
                    "names on this host: {bridge} is no bridge of Spoke's, so systemd-resolved keeps the servers that \
                     this host has there; `spoke dns host` says what else can ask for the names behind it"
                ));
            }
        }
        Ok(wanted(&places, &self.bridges))
    }

    fn is_due(&self, wanted: &Configured) -> bool {
        let is_time = self.looked.is_none_or(|at| at.elapsed() >= AGAIN);
        let is_nothing = wanted.is_empty() && self.configured.is_empty();
        let is_new = self.failure.is_none() && *wanted != self.configured;
        !is_nothing && (is_time || is_new)
    }

    fn configure(&mut self, wanted: Configured) -> Result<()> {
        let Some((mut resolved, owner)) = Resolved::connect()? else {
            return Err(Error::not_found(
                "systemd-resolved does not run; `spoke dns host` says what else can ask for them",
            ));
        };
        if self.owner != owner {
            // It may have forgotten what another one was configured, or may have kept it: all is set again, and what
            // is not wanted any more is still taken back.
            self.configured.values_mut().for_each(|link| link.servers.clear());
            self.owner = owner;
        }
        // The intent, before the first side effect.
        let both = indices(&self.configured).into_iter().chain(indices(&wanted)).collect();
        write(&self.path, &both)?;
        let reverted = self.revert_others(&wanted, &mut resolved);
        reverted.and(self.set(wanted, &mut resolved))
    }

    /// Takes back what is not wanted any more: all that can be; the first failure.
    fn revert_others(&mut self, wanted: &Configured, resolved: &mut Resolved) -> Result<()> {
        let mut worked = Ok(());
        self.configured.retain(|bridge, link| {
            if wanted.contains_key(bridge) {
                return true;
            }
            let reverted = resolved.revert(link.index).map_err(|error| error.context(bridge));
            let is_left = reverted.is_err();
            worked = std::mem::replace(&mut worked, Ok(())).and(reverted);
            is_left
        });
        worked
    }

    /// Configures what is not configured yet: all that can be; the first failure.
    fn set(&mut self, wanted: Configured, resolved: &mut Resolved) -> Result<()> {
        let mut worked = Ok(());
        for (bridge, link) in wanted {
            if self.configured.get(&bridge) == Some(&link) {
                continue;
            }
            match resolved.set(&link) {
                Ok(true) => drop(self.configured.insert(bridge, link)),
                Ok(false) => {}
                Err(error) => worked = worked.and(Err(error.context(&bridge))),
            }
        }
        worked
    }

    /// What was configured of these devices, where they are still there.
    fn take_back(&mut self, configured: Indices) {
        if configured.is_empty() {
            return;
        }
        match Socket::route().and_then(|mut route| revert(&configured, &mut route)) {
            // Without the file nothing is taken back at the next start, and nothing has to be.
            Ok(()) => drop(fs::remove_file(&self.path)),
            Err(error) => self.daemon.journal.failed("taking back names on this host", &error),
        }
    }
}

/// A bridge that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BridgeLink {
    index: u32,
    /// Spoke made it. What resolved was configured of another one is the host's own: the servers of an uplink, say.
    is_made: bool,
}

type Bridges = BTreeMap<IfName, BridgeLink>;

/// The bridges that are there. Of one that was `seen` the index alone is asked for, which does not wait for others.
fn bridges(places: &[ServedGateway], seen: &Bridges, route: &mut Socket) -> Result<Bridges> {
    let mut bridges = Bridges::new();
    for ServedGateway { bridge, .. } in places {
        let Some(index) = route.link_index(bridge)? else { continue };
        let found = match seen.get(bridge).filter(|seen| seen.index == index) {
            Some(seen) => *seen,
            None => match route.link(At::Index(index))? {
                Some(link) => BridgeLink { index, is_made: link.group == GROUP },
                None => continue,
            },
        };
        bridges.insert(bridge.clone(), found);
    }
    Ok(bridges)
}

/// What resolved is to be configured: of each of these bridges that Spoke made.
fn wanted(places: &[ServedGateway], bridges: &Bridges) -> Configured {
    let mut wanted = Configured::new();
    for place in places {
        let found = bridges.get(&place.bridge).filter(|found| found.is_made);
        let Some(BridgeLink { index, .. }) = found.copied() else { continue };
        let new =
            || LinkNames { index, servers: Vec::new(), port: NAMES_PORT, domains: Vec::new() };
        let link = wanted.entry(place.bridge.clone()).or_insert_with(new);
        link.servers.push(place.address());
        for domain in place.domains(places).into_iter().chain(reverse_domain(&place.gateway)) {
            if !link.domains.contains(&domain) {
                link.domains.push(domain);
            }
        }
    }
    wanted
}

/// By bridge, the index of the device that was configured of.
type Indices = BTreeMap<IfName, u32>;

fn indices(configured: &Configured) -> Indices {
    configured.iter().map(|(bridge, link)| (bridge.clone(), link.index)).collect()
}

/// Another device that has the name by now was not configured.
fn revert(indices: &Indices, route: &mut Socket) -> Result<()> {
    let Some((mut resolved, _)) = Resolved::connect()? else { return Ok(()) };
    let mut worked = Ok(());
    for (bridge, index) in indices {
        if route.link_index(bridge)? == Some(*index) {
            worked = worked.and(resolved.revert(*index).map_err(|error| error.context(bridge)));
        }
    }
    worked
}

fn read(path: &Path) -> Option<Indices> {
    serde_json::from_str(&file::text(path, LONGEST).ok()?).ok()
}

fn write(path: &Path, configured: &Indices) -> Result<()> {
    let bytes = serde_json::to_vec(configured)
        .map_err(|cause| Error::bug("indices of bridges as JSON").because(cause))?;
    let written = file::replace(path, &path.with_extension("new"), &bytes);
    written.map_err(|cause| Error::os(format!("writing {}", path.display()), cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(network: &str, bridge: &str, gateway: &str) -> ServedGateway {
        let network: model::NetworkName = network.parse().unwrap();
        let (bridge, gateway) = (bridge.parse().unwrap(), gateway.parse().unwrap());
        ServedGateway { called: network.clone(), former: vec![], network, bridge, gateway }
    }

    #[test]
    fn bridges_of_the_host_keep_their_servers() {
        let places = [
            place("front", "sp-front", "10.71.1.1/24"),
            place("lan", "br0", "192.0.2.1/24"),
            place("later", "sp-later", "10.71.2.1/24"),
        ];
        let bridges = Bridges::from([
            ("sp-front".parse().unwrap(), BridgeLink { index: 7, is_made: true }),
            ("br0".parse().unwrap(), BridgeLink { index: 8, is_made: false }),
        ]);
        let wanted: Vec<LinkNames> = wanted(&places, &bridges).into_values().collect();
        let front = LinkNames {
            index: 7,
            servers: vec!["10.71.1.1".parse().unwrap()],
            port: NAMES_PORT,
            domains: vec!["front.spoke".to_owned(), "1.71.10.in-addr.arpa".to_owned()],
        };
        assert_eq!(wanted, [front]);
    }

    #[test]
    fn a_former_name_is_the_present_holders() {
        let renamed = ServedGateway {
            called: "edge".parse().unwrap(),
            ..place("front", "sp-1", "10.71.1.1/24")
        };
        let second = ServedGateway {
            called: "front".parse().unwrap(),
            ..place("front-2", "sp-2", "10.71.2.1/24")
        };
        let bridges = Bridges::from([
            ("sp-1".parse().unwrap(), BridgeLink { index: 7, is_made: true }),
            ("sp-2".parse().unwrap(), BridgeLink { index: 8, is_made: true }),
        ]);
        let domains = |places: &[ServedGateway], bridge: &str| {
            let link = wanted(places, &bridges).remove(&bridge.parse::<IfName>().unwrap()).unwrap();
            let is_name = |it: &String| it.ends_with(".spoke");
            link.domains.into_iter().filter(is_name).collect::<Vec<_>>()
        };
        assert_eq!(domains(std::slice::from_ref(&renamed), "sp-1"), ["edge.spoke", "front.spoke"]);
        let former = |name: &str, order| model::FormerName { name: name.parse().unwrap(), order };
        let twice = ServedGateway {
            called: "third".parse().unwrap(),
            former: vec![former("front", 1), former("edge", 1)],
            ..renamed.clone()
        };
        let all = ["third.spoke", "edge.spoke", "front.spoke"];
        assert_eq!(domains(std::slice::from_ref(&twice), "sp-1"), all);
        let later = ServedGateway {
            called: "last".parse().unwrap(),
            former: vec![former("edge", 2)],
            ..second.clone()
        };
        let of_both = [twice, later];
        assert_eq!(domains(&of_both, "sp-1"), ["third.spoke", "front.spoke"]);
        assert_eq!(domains(&of_both, "sp-2"), ["last.spoke", "edge.spoke", "front-2.spoke"]);
        let both = [renamed, second];
        assert_eq!(domains(&both, "sp-1"), ["edge.spoke"]);
        assert_eq!(domains(&both, "sp-2"), ["front.spoke", "front-2.spoke"]);
    }
}
