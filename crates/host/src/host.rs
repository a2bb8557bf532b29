//! The facts of this host that the engine asks for.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use config::Config;
use engine::port::{AttachmentLock, Described, Host, Occupied};
use model::{AttachmentId, Backend, NetworkName, OwnerName, Process, Result, Timestamp};
use sha2::{Digest, Sha256};

use crate::described;
use crate::hosts::{self, Ask, Reply};
use crate::podman_networks;
use crate::shared::Shared;
use crate::time::now;

/// This host, seen by this process.
pub(crate) struct ThisHost {
    me: Process,
    config: Arc<Config>,
    shared: Shared,
}

impl ThisHost {
    /// Learns who we are; threads that have the same `shared` take turns. Fails where `/proc` is not mounted.
    pub(crate) fn new(config: &Arc<Config>, shared: Shared) -> Result<Self> {
        Ok(Self { me: netlink::process::me()?, config: Arc::clone(config), shared })
    }

    /// Only the daemon speaks to the other hosts.
    fn ask(&self, ask: &Ask) -> Result<Reply> {
        let store = &self.config.store;
        hosts::ask_restarted(&store.runtime, &store.state, ask)
    }
}

impl Host for ThisHost {
    fn me(&self) -> Process {
        self.me
    }

    fn now(&self) -> Timestamp {
        now()
    }

    fn is_running(&self, process: &Process) -> bool {
        netlink::process::is_running(process)
    }

    fn lock_attachment(&self, id: &AttachmentId) -> AttachmentLock {
        self.shared.locks.take(id)
    }

    fn try_lock_attachment(&self, id: &AttachmentId) -> Option<AttachmentLock> {
        self.shared.locks.try_take(id)
    }

    fn pin(&self, network: &NetworkName, address: IpAddr, by: &str) -> Result<bool> {
        if !self.has_hosts(network) {
            return Ok(false);
        }
        let ask = Ask::Pin { network: network.clone(), address, by: by.to_owned() };
        self.ask(&ask).map(|_| true)
    }

    fn follow(&self, network: &NetworkName, name: &OwnerName) -> Result<()> {
        let ask = Ask::Follow { network: network.clone(), name: name.clone() };
        self.ask(&ask).map(drop)
    }

    fn has_hosts(&self, network: &NetworkName) -> bool {
        hosts::networks(&hosts::place(&self.config.store.state)).join(network.as_str()).exists()
    }

    fn backend(&self) -> Backend {
        self.config.firewall.backend
    }

    fn occupied(&self) -> Result<Vec<Occupied>> {
        let mut occupied = linux::occupied()?;
        occupied.extend(declared(Path::new("/")));
        Ok(self.shared.neighbours.name(occupied))
    }

    fn described(&self) -> Vec<Described> {
        let site = (self.config.firewall.backend, now());
        described::described(Path::new("/"), |name| std::env::var_os(name), site)
    }

    fn site(&self) -> [u8; 5] {
        site()
    }

    fn wait_for_end(&self, process: &Process, limit: Duration) -> bool {
        netlink::process::wait_for_end(process, limit)
    }
}

/// Where a host's lasting identity is (machine-id(5)).
const MACHINE_IDS: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// What this host's unique local addresses begin with (RFC 4193 §3.2.2).
pub fn site() -> [u8; 5] {
    let id = MACHINE_IDS.iter().find_map(|path| std::fs::read(path).ok());
    site_of(id.as_deref().map_or(&[], <[u8]>::trim_ascii))
}

/// The identity must not be shown to others, so it is hashed, as machine-id(5) demands.
fn site_of(machine_id: &[u8]) -> [u8; 5] {
    let digest: [u8; 32] =
        Sha256::new_with_prefix(b"spoke site").chain_update(machine_id).finalize().into();
    [digest[0], digest[1], digest[2], digest[3], digest[4]]
}

/// The subnets that the configurations below `root` declare, whether or not anything is up.
fn declared(root: &Path) -> Vec<Occupied> {
    let in_directory = |(directory, owner): (PathBuf, &str)| {
        let of_network = |network: cni::list::Declared| {
            let by = format!("{owner} network {}", network.name);
            let occupied = |net| Occupied { net, by: by.clone() };
            network.subnets.into_iter().map(occupied).collect::<Vec<_>>()
        };
        let networks = cni::list::declared(&directory);
        networks.into_iter().flat_map(of_network).collect::<Vec<_>>()
    };
    let (podmans, _) = podman_networks::directories(root, |name| std::env::var_os(name));
    let podmans = podmans.into_iter().map(|place| (place, "Podman"));
    std::iter::once((root.join(podman_networks::LISTS), "CNI"))
        .chain(podmans)
        .flat_map(in_directory)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_podman_and_cni_declare_is_in_use() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| crate::test_file::put(root.path(), path, text);
        put(
            "etc/containers/networks/p.json",
            r#"{"name":"p","subnets":[{"subnet":"10.89.0.0/24"}]}"#,
        );
        put(
            "etc/cni/net.d/c.conflist",
            r#"{"name":"c","plugins":[{"ipam":{"subnet":"fd00::/64"}}]}"#,
        );
        put("etc/cni/net.d/broken.conf", "{");
        let shown: Vec<String> =
            declared(root.path()).iter().map(|one| format!("{} {}", one.net, one.by)).collect();
        assert_eq!(shown, ["fd00::/64 CNI network c", "10.89.0.0/24 Podman network p"]);
    }
}
