//! The files by which Podman and CNI know a network.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use host::podman_networks;
use host::time::rfc3339;
use model::{ENGINE_LABEL, Error, NetworkName, Result};
use serde_json::{Value, json};

use crate::Daemon;
use crate::hosts::member;

/// Where CNI has its network configuration lists, and Podman 4 with CNI its networks.
const LISTS: &str = "/etc/cni/net.d";
/// What a host has on which Podman is, or was set up.
const PODMAN: [&str; 3] = ["/etc/containers", "/usr/bin/podman", "/usr/local/bin/podman"];
/// The configuration of Podman that an operator writes.
const CONF: &str = "/etc/containers/containers.conf";
/// Where Podman 4 has written down by what it makes networks.
const BACKEND: &str = "/var/lib/containers/storage/defaultNetworkBackend";
/// What libcni takes for a list, or for a plugin by itself.
const LIST_EXTENSIONS: [&str; 3] = ["conflist", "conf", "json"];
/// Larger files are not read, in bytes.
const LARGEST: u64 = 1 << 20;

/// Writes Podman's file of a network; `false` where this host has no Podman.
pub(super) fn write_podmans(daemon: &Daemon, name: &NetworkName, has_names: bool) -> Result<bool> {
    if !PODMAN.iter().any(|path| Path::new(path).exists()) {
        return Ok(false);
    }
    if has_cni() {
        return write_list(name, has_names).map(|()| true);
    }
    let declared =
        daemon.context_pool.with(|host_context| host_context.engine().records.declared(name))?;
    let network =
        declared.ok_or_else(|| Error::try_again(format!("network {name} is not made yet")))?;
    let file = podman::shared_file(&network, &rfc3339(network.since));
    let is_ours = |there: &Value| podman::is_shared(there, name);
    let joins = |there: &Value| podman::is_joined(there, name);
    write(&podmans(name)?, &file, (is_ours, joins)).map(|()| true)
}

/// Removes it, if the daemon wrote it.
pub(super) fn remove_podmans(name: &NetworkName) -> Result<()> {
    remove(&podmans(name)?, |there| podman::is_shared(there, name))?;
    match has_cni() {
        true => remove_list(name),
        false => Ok(()),
    }
}

/// Writes CNI's network configuration list.
///
/// # Errors
/// `Conflict` where another file has a network of this name: the reader takes the first one that it finds.
pub(super) fn write_list(name: &NetworkName, has_names: bool) -> Result<()> {
    write_list_in(Path::new(LISTS), name, has_names)
}

fn write_list_in(lists: &Path, name: &NetworkName, has_names: bool) -> Result<()> {
    let path = of_list(lists, name);
    let joins = |there: &Value| is_joined_list(there, name);
    if let Some((other, there)) = other_list(lists, name) {
        return match joins(&there) {
            true => Ok(()),
            false => Err(Error::conflict(format!(
                "{} is of another network {name}: remove that, and {} is written",
                other.display(),
                path.display()
            ))),
        };
    }
    let mut list = json!({
        "cniVersion": "1.0.0",
        "name": name,
        ENGINE_LABEL: name,
        "plugins": [{"type": "spoke", "network": name, "capabilities": {"ips": true, "portMappings": true}}],
    });
    if has_names {
        list["plugins"][0]["capabilities"]["aliases"] = true.into();
    }
    write(&path, &list, (|there: &Value| is_our_list(there, name), joins))
}

/// Removes it, if the daemon wrote it.
pub(super) fn remove_list(name: &NetworkName) -> Result<()> {
    remove(&of_list(Path::new(LISTS), name), |there| is_our_list(there, name))
}

/// Whether Podman makes networks by CNI, as Podman 4 does where its configuration says so, or where it began with that.
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
    there[ENGINE_LABEL] == name.as_str()
}

/// In the directory that holds for root's Podman.
fn podmans(name: &NetworkName) -> Result<PathBuf> {
    let (places, unread) = podman_networks::directories(Path::new("/"), |_| None);
    unread.map_or(Ok(()), Err)?;
    let place =
        places.last().ok_or_else(|| Error::bug("no network directory of Podman is known"))?;
    Ok(place.join(format!("{name}.json")))
}

fn of_list(lists: &Path, name: &NetworkName) -> PathBuf {
    lists.join(format!("{name}.conflist"))
}

/// Whether containers on a list, or on a plugin by itself, are on the network of Spoke's: it joins that, or asked for it.
fn is_joined_list(there: &Value, name: &NetworkName) -> bool {
    let plugins = there["plugins"].as_array();
    let mut all = plugins.into_iter().flatten().chain([there]);
    let asks = |it: &Value| !it["hosts"].is_null() && there["name"] == name.as_str();
    all.any(|it| it["type"] == "spoke" && (it["network"] == name.as_str() || asks(it)))
}

/// The first file besides the daemon's own that has a network of this name. What cannot be read is none.
fn other_list(lists: &Path, name: &NetworkName) -> Option<(PathBuf, Value)> {
    let entries = fs::read_dir(lists).into_iter().flatten().flatten();
    let is_list = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| LIST_EXTENSIONS.contains(&extension))
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_list).collect();
    paths.sort();
    let own = of_list(lists, name);
    paths.into_iter().filter(|path| *path != own).find_map(|path| match there(&path) {
        Ok(FileContent::Json(there))
            if there["name"] == name.as_str() && !is_our_list(&there, name) =>
        {
            Some((path, there))
        }
        Ok(_) | Err(_) => None,
    })
}

/// Writes a file, unless one is there that is another's. One by which an operator joins the network is as good.
fn write(
    path: &Path,
    wanted: &Value,
    (is_ours, joins): (impl Fn(&Value) -> bool, impl Fn(&Value) -> bool),
) -> Result<()> {
    match there(path)? {
        FileContent::Json(there) if there == *wanted => return Ok(()),
        FileContent::Json(there) if is_ours(&there) => {}
        FileContent::Json(there) if joins(&there) => return Ok(()),
        FileContent::Json(_) | FileContent::Other => {
            return Err(Error::conflict(format!(
                "{} is of another network: remove that, and it is written",
                path.display()
            )));
        }
        FileContent::Nothing | FileContent::Empty => {}
    }
    replace(path, format!("{wanted:#}\n").as_bytes())
        .map_err(|cause| Error::os(format!("writing {}", path.display()), cause))
}

/// Writes it whole or not at all, for good, and for all to read, as programs without privileges list networks.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    file::replace_durably(path, &path.with_extension("spoke-new"), bytes, 0o644)
}

fn remove(path: &Path, is_ours: impl Fn(&Value) -> bool) -> Result<()> {
    match there(path)? {
        FileContent::Json(there) if is_ours(&there) => member::remove(path),
        FileContent::Empty => member::remove(path),
        FileContent::Json(_) | FileContent::Other | FileContent::Nothing => Ok(()),
    }
}

/// What is in the place of a file.
#[derive(Debug, PartialEq)]
enum FileContent {
    Nothing,
    /// A power cut leaves files empty that were just written; one of an engine has at least a name.
    Empty,
    Json(Value),
    /// What the daemon never writes.
    Other,
}

fn there(path: &Path) -> Result<FileContent> {
    match file::read(path, LARGEST) {
        Ok(bytes) if bytes.is_empty() => Ok(FileContent::Empty),
        Ok(bytes) => {
            Ok(serde_json::from_slice(&bytes).map_or(FileContent::Other, FileContent::Json))
        }
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(FileContent::Nothing),
        Err(cause) => Err(file::failed(format!("reading {}", path.display()), cause)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_files_of_the_daemon_are_changed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("new/front.conflist");
        let is_ours = |there: &Value| there[ENGINE_LABEL] == "front";
        let (one, two) =
            (json!({ENGINE_LABEL: "front"}), json!({ENGINE_LABEL: "front", "more": 1}));
        let joins = |there: &Value| there["network"] == "front";
        write(&path, &one, (is_ours, joins)).unwrap();
        write(&path, &two, (is_ours, joins)).unwrap();
        assert_eq!(there(&path).unwrap(), FileContent::Json(two));
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
    #[test]
    fn a_file_that_a_power_cut_left_empty_is_written_again() {
        let root = tempfile::tempdir().unwrap();
        let name: NetworkName = "front".parse().unwrap();
        let path = of_list(root.path(), &name);
        fs::write(&path, "").unwrap();
        write_list_in(root.path(), &name, false).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains(ENGINE_LABEL));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        fs::write(&path, "").unwrap();
        remove(&path, |there| is_our_list(there, &name)).unwrap();
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn another_file_that_has_the_name_is_seen() {
        let name: NetworkName = "front".parse().unwrap();
        let joins = r#"{"name": "front", "plugins": [{"type": "spoke", "network": "front"}]}"#;
        for (file, text, is_theirs) in [
            ("10-other.conflist", r#"{"name": "front", "plugins": [{"type": "bridge"}]}"#, true),
            ("10-other.conf", r#"{"name": "front", "type": "bridge"}"#, true),
            ("other.json", r#"{"name": "front", "type": "bridge"}"#, true),
            ("other.json", r#"{"name": "back", "type": "bridge"}"#, false),
            ("other.json", "no JSON", false),
            ("other.txt", r#"{"name": "front", "type": "bridge"}"#, false),
        ] {
            let root = tempfile::tempdir().unwrap();
            fs::write(root.path().join(file), text).unwrap();
            let written = write_list_in(root.path(), &name, false);
            assert_eq!(written.is_err(), is_theirs, "{file} {text}: {written:?}");
            assert_eq!(of_list(root.path(), &name).exists(), !is_theirs, "{file} {text}");
        }
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("10-mine.conflist"), joins).unwrap();
        write_list_in(root.path(), &name, false).unwrap();
        assert!(!of_list(root.path(), &name).exists());
    }
}
