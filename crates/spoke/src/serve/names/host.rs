//! This host resolves the names of its networks, where its operator wants that: systemd-resolved is configured by which bridge,
//! and at which gateway, Spoke answers about which domain.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ::names::{Place, reverse_domain};
use linux::filter::fence::NAMES_PORT;
use linux::resolved::{LinkNames, Resolved};
use model::{Error, IfName, Result, name_domain};
use netlink::Socket;

use crate::serve::Daemon;

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

/// Configures it until the daemon stops, and takes it back then: nobody would answer.
pub(super) fn keep(daemon: &Daemon) {
    let config = daemon.context_pool.config();
    let path = config.store.runtime.join(FILE);
    let mut keeper = Keeper {
        daemon,
        path,
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
        let wanted =
            Socket::route().and_then(|mut route| wanted(&self.daemon.fence.places(), &mut route));
        let configured = match wanted {
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
            // It may have forgotten what another one was configured.
            self.configured.clear();
            self.owner = owner;
        }
        // The intent, before the first side effect.
        let both = indices(&self.configured).into_iter().chain(indices(&wanted)).collect();
        write(&self.path, &both)?;
        let is_gone = |bridge: &IfName| !wanted.contains_key(bridge);
        let gone: Vec<IfName> = self.configured.keys().filter(|it| is_gone(it)).cloned().collect();
        for bridge in gone {
            if let Some(link) = self.configured.remove(&bridge) {
                resolved.revert(link.index)?;
            }
        }
        for (bridge, link) in wanted {
            if self.configured.get(&bridge) != Some(&link) && resolved.set(&link)? {
                self.configured.insert(bridge, link);
            }
        }
        Ok(())
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

/// What resolved is to be configured: of each bridge that is there.
fn wanted(places: &[Place], route: &mut Socket) -> Result<Configured> {
    let mut wanted = Configured::new();
    for place in places {
        let Some(index) = route.link_index(&place.bridge)? else { continue };
        let new =
            || LinkNames { index, servers: Vec::new(), port: NAMES_PORT, domains: Vec::new() };
        let link = wanted.entry(place.bridge.clone()).or_insert_with(new);
        link.servers.push(place.address());
        for domain in
            std::iter::once(name_domain(&place.network)).chain(reverse_domain(&place.gateway))
        {
            if !link.domains.contains(&domain) {
                link.domains.push(domain);
            }
        }
    }
    Ok(wanted)
}

/// By bridge, the index of the device that was configured of.
type Indices = BTreeMap<IfName, u32>;

fn indices(configured: &Configured) -> Indices {
    configured.iter().map(|(bridge, link)| (bridge.clone(), link.index)).collect()
}

/// Another device that has the name by now was configured of by nobody.
fn revert(indices: &Indices, route: &mut Socket) -> Result<()> {
    let Some((mut resolved, _)) = Resolved::connect()? else { return Ok(()) };
    for (bridge, index) in indices {
        if route.link_index(bridge)? == Some(*index) {
            resolved.revert(*index)?;
        }
    }
    Ok(())
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
