//! The back end of the plugin for Docker: contexts for its calls, and the contents of sandboxes.

use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use cni::runtime::NetworkList;
use config::{Config, Scope};
use docker::api::Network;
use docker::driver::{Backstage, Docker, Sandboxes, Settings, UnnamedManyHosts, Within};
use docker::server::Plugin;
use engine::Engine;
use engine::port::Cloud;
use host::time;
use model::{AliasId, Error, PluginChain, Result, SubnetId, Timestamp};

use super::{Daemon, client_files};

/// Which ports the kernel chooses from, by default (ip-sysctl.rst).
const EPHEMERAL: (u16, u16) = (32_768, 60_999);

/// Where it says so.
const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// The directories of third-party plugins: those of runtimes, and Debian's.
const PLUGINS: [&str; 2] = ["/opt/cni/bin", "/usr/lib/cni"];

/// The daemon, as the plugin sees it.
pub(super) struct Stage(pub(super) Arc<Daemon>);

impl Daemon {
    /// The plugin that Docker calls.
    pub(super) fn plugin(self: &Arc<Self>) -> Result<Arc<dyn Plugin>> {
        let settings = settings(self.context_pool.config());
        Ok(Arc::new(Docker::new(Stage(Arc::clone(self)), settings)?))
    }
}

fn settings(config: &Config) -> Settings {
    Settings {
        scope: scope_of(config.docker.scope),
        requires_mac: config.docker.requires_mac_address,
        backend: config.firewall.backend,
        ephemeral: ephemeral_here(),
    }
}

pub(super) fn scope_of(scope: Scope) -> libnetwork::Scope {
    match scope {
        Scope::Local => libnetwork::Scope::Local,
        Scope::Global => libnetwork::Scope::Global,
    }
}

/// The range that this host's kernel chooses from.
pub(super) fn ephemeral_here() -> RangeInclusive<NonZeroU16> {
    ephemeral(&std::fs::read_to_string(RANGE).unwrap_or_default())
}

/// The range that the kernel's own words say; its default where they say none.
fn ephemeral(text: &str) -> RangeInclusive<NonZeroU16> {
    let mut ends = text.split_whitespace().map(str::parse::<NonZeroU16>);
    match (ends.next(), ends.next()) {
        (Some(Ok(first)), Some(Ok(last))) if first <= last => first..=last,
        _ => {
            let port = |port| NonZeroU16::new(port).unwrap_or(NonZeroU16::MAX);
            port(EPHEMERAL.0)..=port(EPHEMERAL.1)
        }
    }
}

impl Sandboxes for Stage {
    fn inspect(&self, path: &Path) -> Result<Option<Within>> {
        host::sandbox::inspect(path)
    }

    fn may_restore(&self) -> bool {
        let config = &self.0.context_pool.config().docker;
        let known = self.0.restoring.lock().unwrap_or_else(PoisonError::into_inner);
        config.api.iter().any(|engine| known.get(engine) != Some(&false))
    }
}

impl Backstage for Stage {
    fn with_engine<T>(&self, work: impl FnOnce(&Engine<'_>) -> Result<T>) -> Result<T> {
        self.0.context_pool.with(|host_context| work(&host_context.engine()))
    }

    fn now(&self) -> Timestamp {
        time::now()
    }

    fn plugins(&self, file: &Path) -> Result<PluginChain> {
        let reading = || format!("reading the list of plugins {}", file.display());
        let list = client_files::file(file).and_then(|file| NetworkList::read(&file));
        let list = list.map_err(|error| error.context(reading()))?;
        cni::chain::plugin_chain(&list, PLUGINS.map(PathBuf::from).to_vec())
    }

    fn abandon(&self, network: &AliasId) -> Result<()> {
        let records = || self.with_engine(|engine| engine.records.intact_attachments());
        self.0.context_pool.neutron()?.delete_network(network, &records)
    }

    fn share(&self, wanted: &UnnamedManyHosts) -> Result<()> {
        let none = || Error::unsupported("-o hosts: this daemon takes no part in a cluster");
        let hosts = self.0.many.get().ok_or_else(none)?;
        refuse_unasked(&self.0.context_pool.config().docker.api)?;
        hosts.share(wanted)
    }

    fn is_awaited(&self, subnet: &SubnetId) -> bool {
        self.0.many.get().is_some_and(|hosts| hosts.is_awaited(subnet))
    }

    fn await_shared(&self, subnet: &SubnetId) -> Result<()> {
        self.0.many.get().map_or(Ok(()), |hosts| hosts.await_shared(subnet))
    }

    fn see(&self, networks: &[Network]) {
        self.0.context_pool.neighbours().replace(networks);
    }
}

/// The name of a network of many hosts is learned from an engine's API.
fn refuse_unasked(engines: &[PathBuf]) -> Result<()> {
    match engines.is_empty() {
        false => Ok(()),
        true => Err(Error::unsupported(
            "-o hosts: Docker's API says what the network is called, and `api` under [docker] in \
             /etc/spoke/config.toml names no engine: name this one's socket there, and start the daemon anew",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_many_hosts_needs_an_engine_that_is_asked() {
        let refused = refuse_unasked(&[]).unwrap_err();
        assert!(refused.to_string().contains("`api` under [docker]"), "{refused}");
        refuse_unasked(&["/var/run/docker.sock".into()]).unwrap();
    }

    #[test]
    fn reads_the_kernels_range() {
        let range = |text| {
            let range = ephemeral(text);
            (range.start().get(), range.end().get())
        };
        assert_eq!(range("40000\t50000\n"), (40_000, 50_000));
        for bad in ["", "5", "9 3", "0 9", "a b"] {
            assert_eq!(range(bad), EPHEMERAL, "{bad}");
        }
    }
}
