//! The files by which Podman and CNI know a network.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::{Error, NetworkName, Result};
use serde_json::{Value, json};

use super::super::member;
use crate::cli::time::rfc3339;
use crate::serve::Daemon;

/// Where root's Podman has its networks (containers.conf(5), `network_config_dir`).
const PODMANS: &str = "/etc/containers/networks";
/// Where CNI has its network configuration lists, and Podman 4 with CNI its networks.
const LISTS: &str = "/etc/cni/net.d";
/// What a host has on which Podman is, or was set up.
const PODMAN: [&str; 3] = ["/etc/containers", "/usr/bin/podman", "/usr/local/bin/podman"];
/// The configuration of Podman that an operator writes.
const CONF: &str = "/etc/containers/containers.conf";
/// Where Podman 4 has written down by what it makes networks.
const BACKEND: &str = "/var/lib/containers/storage/defaultNetworkBackend";
/// By which the daemon knows its lists again.
const MARK: &str = "spoke.cluster";
/// Larger files are not read, in bytes.
const LARGEST: u64 = 1 << 20;

/// Writes Podman's file of a network; `false` where this host has no Podman.
pub(super) fn write_podmans(daemon: &Daemon, name: &NetworkName) -> Result<bool> {
    if !PODMAN.iter().any(|path| Path::new(path).exists()) {
        return Ok(false);
    }
    if has_cni() {
        return write_list(name).map(|()| true);
    }
    let declared = daemon.context_pool.with(|host_context| host_context.engine().declared(name))?;
    let network =
        declared.ok_or_else(|| Error::try_again(format!("network {name} is not made yet")))?;
    let file = podman::shared_file(&network, &rfc3339(network.since));
    let is_ours = |there: &Value| podman::is_shared(there, name);
    let joins = |there: &Value| podman::is_joined(there, name);
    write(&podmans(name), &file, (is_ours, joins)).map(|()| true)
}

/// Removes it, if the daemon wrote it.
pub(super) fn remove_podmans(name: &NetworkName) -> Result<()> {
    remove(&podmans(name), |there| podman::is_shared(there, name))?;
    match has_cni() {
        true => remove_list(name),
        false => Ok(()),
    }
}

/// Writes CNI's network configuration list.
pub(super) fn write_list(name: &NetworkName) -> Result<()> {
    let list = json!({
        "cniVersion": "1.0.0",
        "name": name,
        MARK: name,
        "plugins": [{"type": "spoke", "network": name, "capabilities": {"ips": true, "portMappings": true}}],
    });
    let plugins = |there: &Value| there["plugins"].as_array().cloned().unwrap_or_default();
    let joins = |there: &Value| {
        let on_it = |it: &Value| it["type"] == "spoke" && it["network"] == name.as_str();
        plugins(there).iter().any(on_it)
    };
    write(&of_list(name), &list, (|there: &Value| is_our_list(there, name), joins))
}

/// Removes it, if the daemon wrote it.
pub(super) fn remove_list(name: &NetworkName) -> Result<()> {
    remove(&of_list(name), |there| is_our_list(there, name))
}

/// Whether Podman makes networks by CNI, as Podman 4 does where it is told to, or where it began with that.
fn has_cni() -> bool {
    let conf = file::text(Path::new(CONF), LARGEST).ok();
    let conf = conf.and_then(|text| toml::from_str::<toml::Table>(&text).ok());
    let named =
        conf.as_ref().and_then(|conf| conf.get("network")?.get("network_backend")?.as_str());
    match named {
        Some(named) if !named.is_empty() => named == "cni",
        Some(_) | None => {
            file::text(Path::new(BACKEND), LARGEST).is_ok_and(|text| text.trim() == "cni")
        }
    }
}

fn is_our_list(there: &Value, name: &NetworkName) -> bool {
    there[MARK] == name.as_str()
}

fn podmans(name: &NetworkName) -> PathBuf {
    Path::new(PODMANS).join(format!("{name}.json"))
}

fn of_list(name: &NetworkName) -> PathBuf {
    Path::new(LISTS).join(format!("{name}.conflist"))
}

/// Writes a file, unless one is there that is another's. One by which an operator joins the network is as good.
fn write(
    path: &Path,
    wanted: &Value,
    (is_ours, joins): (impl Fn(&Value) -> bool, impl Fn(&Value) -> bool),
) -> Result<()> {
    match there(path)? {
        Some(there) if there == *wanted => return Ok(()),
        Some(there) if !is_ours(&there) && joins(&there) => return Ok(()),
        Some(there) if !is_ours(&there) => {
            return Err(Error::conflict(format!(
                "{} is of another network: remove that, and it is written",
                path.display()
            )));
        }
        Some(_) | None => {}
    }
    let failed = |cause| Error::os(format!("writing {}", path.display()), cause);
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).map_err(failed)?;
    let draft = path.with_extension("spoke-new");
    let text = format!("{wanted:#}\n");
    fs::write(&draft, text).and_then(|()| fs::rename(&draft, path)).map_err(failed)
}

fn remove(path: &Path, is_ours: impl Fn(&Value) -> bool) -> Result<()> {
    match there(path)? {
        Some(there) if is_ours(&there) => member::remove(path),
        Some(_) | None => Ok(()),
    }
}

/// What is in a file; what is no JSON is another's.
fn there(path: &Path) -> Result<Option<Value>> {
    match file::read(path, LARGEST) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).unwrap_or(Value::Null))),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(file::failed(format!("reading {}", path.display()), cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_daemon_are_changed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("new/front.conflist");
        let is_ours = |there: &Value| there[MARK] == "front";
        let (one, two) = (json!({MARK: "front"}), json!({MARK: "front", "more": 1}));
        let joins = |there: &Value| there["network"] == "front";
        write(&path, &one, (is_ours, joins)).unwrap();
        write(&path, &two, (is_ours, joins)).unwrap();
        assert_eq!(there(&path).unwrap(), Some(two));
        remove(&path, is_ours).unwrap();
        remove(&path, is_ours).unwrap();
        assert_eq!(fs::read_dir(root.path().join("new")).unwrap().count(), 0);
        for theirs in ["{}", "no JSON"] {
            fs::write(&path, theirs).unwrap();
            let error = write(&path, &one, (is_ours, joins)).unwrap_err();
            assert_eq!(error.kind(), model::Kind::Conflict);
            remove(&path, is_ours).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), theirs);
        }
        let by_hand = r#"{"network":"front"}"#;
        fs::write(&path, by_hand).unwrap();
        write(&path, &one, (is_ours, joins)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), by_hand);
    }
}
