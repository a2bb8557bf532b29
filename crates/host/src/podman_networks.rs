//! Where Podman keeps its networks (containers.conf(5), `network_config_dir`).

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::{Error, Result};
use podman::Declared;
use serde::Deserialize;

/// Where root's Podman has them by itself: netavark's, and where its storage says so.
const USUAL: [&str; 2] = ["etc/containers/networks", "var/lib/containers/storage/networks"];
/// Its configuration: the distribution's, the operator's, and parts of the latter, in Podman's order.
const FILES: [&str; 2] = ["usr/share/containers/containers.conf", "etc/containers/containers.conf"];
const PARTS: [&str; 3] = [
    "usr/share/containers/containers.conf.d",
    "etc/containers/containers.conf.d",
    "etc/containers/containers.rootful.conf.d",
];
/// One file instead of those, and one after all others.
const VARIABLES: [&str; 2] = ["CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE"];
/// Where CNI has its network configurations, below the root, and Podman 4 with it.
pub const LISTS: &str = "etc/cni/net.d";
/// A larger file is no configuration, in bytes.
const LARGEST: u64 = 1 << 20;

#[derive(Default, Deserialize)]
struct Containers {
    #[serde(default)]
    network: Network,
}

#[derive(Default, Deserialize)]
struct Network {
    network_config_dir: Option<PathBuf>,
}

/// The networks of Podman, as its files have them.
#[derive(Debug, Default)]
pub struct PodmanNetworks {
    /// Those that could be read.
    pub networks: Vec<Declared>,
    /// Why there may be more. Then none may be taken for removed.
    pub unread: Option<Error>,
}

/// The networks that Podman has below `root`, and those that CNI has.
pub fn known(root: &Path) -> PodmanNetworks {
    let (mut directories, unread) = directories(root, |name| std::env::var_os(name));
    directories.push(root.join(LISTS));
    let mut known = PodmanNetworks { unread, ..PodmanNetworks::default() };
    for directory in directories {
        let (declared, unread) = cni::list::declared_or_unread(&directory);
        known.networks.extend(declared.into_iter().filter_map(|network| {
            Some(Declared { name: network.name.parse().ok()?, subnets: network.subnets })
        }));
        if let Some(path) = unread.first() {
            let what = format!("{} declares networks, and cannot be read", path.display());
            known.unread.get_or_insert(Error::invalid(what));
        }
    }
    known
}

/// The directories below `root`, the one that holds last. A directory too many keeps a network that Podman has
/// removed; one too few removes a network that Podman has. So all count that any file names. The error says why
/// there may be more: a file of the configuration is there and cannot be read.
pub fn directories(
    root: &Path,
    variable: impl Fn(&str) -> Option<OsString>,
) -> (Vec<PathBuf>, Option<Error>) {
    let mut unread = None;
    let mut places: Vec<PathBuf> = USUAL.iter().rev().map(|usual| root.join(usual)).collect();
    let mut files: Vec<PathBuf> = FILES.iter().map(|file| root.join(file)).collect();
    for parts in PARTS {
        files.extend(parts_in(&root.join(parts)).unwrap_or_else(|error| {
            unread.get_or_insert(error);
            Vec::new()
        }));
    }
    files.extend(VARIABLES.into_iter().filter_map(variable).map(PathBuf::from));
    for file in files {
        let named = named_in(&file).unwrap_or_else(|error| {
            unread.get_or_insert(error);
            None
        });
        let Some(named) = named else { continue };
        let place = root.join(named.strip_prefix("/").unwrap_or(&named));
        places.retain(|other| *other != place);
        places.push(place);
    }
    (places, unread)
}

fn parts_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(Error::os(format!("reading {}", directory.display()), error)),
    };
    let mut parts: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    parts.retain(|part| part.extension().is_some_and(|extension| extension == "conf"));
    parts.sort();
    Ok(parts)
}

/// The directory that a file names, if there is such a file, and it names one.
fn named_in(file: &Path) -> Result<Option<PathBuf>> {
    let broken = |why: &dyn std::fmt::Display| {
        Error::invalid(format!("reading {}, Podman's configuration: {why}", file.display()))
    };
    let text = match file::read(file, LARGEST) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(broken(&error)),
    };
    let text = String::from_utf8(text).map_err(|error| broken(&error))?;
    let read: Containers = toml::from_str(&text).map_err(|error| broken(&error.message()))?;
    Ok(read.network.network_config_dir.filter(|named| !named.as_os_str().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRONT: &str = r#"{"name": "front", "subnets": [{"subnet": "10.1.0.0/24"}]}"#;

    #[test]
    fn every_directory_that_a_file_names_counts() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| crate::test_file::put(root.path(), path, text);
        let said = |variable: &str| {
            let of = |name: &str| (name == variable).then(|| root.path().join("over.conf").into());
            let (places, unread) = directories(root.path(), of);
            let below =
                |place: &PathBuf| place.strip_prefix(root.path()).unwrap().display().to_string();
            (places.iter().map(below).collect::<Vec<_>>(), unread.map(|error| error.to_string()))
        };
        let usual = [USUAL[1], USUAL[0]];
        assert_eq!(said("none"), (usual.map(String::from).to_vec(), None));
        put(FILES[0], "[network]\nnetwork_config_dir = \"/a\"\n[engine]\nruntime = \"crun\"\n");
        put(FILES[1], "[network]\nnetwork_config_dir = \"\"\ndns_bind_port = 53\n");
        put("etc/containers/containers.conf.d/1.conf", "[network]\nnetwork_config_dir = \"/b\"");
        put("etc/containers/containers.conf.d/0.txt", "{");
        put("over.conf", "network.network_config_dir = \"/etc/containers/networks\"");
        assert_eq!(said("none").0, [usual[0], usual[1], "a", "b"]);
        assert_eq!(said(VARIABLES[1]).0, [usual[0], "a", "b", usual[1]]);
        put("etc/containers/containers.conf.d/2.conf", "[network");
        let (places, error) = said("none");
        assert_eq!(places, [usual[0], usual[1], "a", "b"]);
        let error = error.unwrap();
        assert!(error.contains("containers.conf.d/2.conf, Podman's configuration"), "{error}");
    }

    #[test]
    fn what_podman_has_is_known() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("etc/containers/networks");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("front.json"), FRONT).unwrap();
        let front = Declared {
            name: "front".parse().unwrap(),
            subnets: vec!["10.1.0.0/24".parse().unwrap()],
        };
        let read = known(root.path());
        assert_eq!(read.networks, std::slice::from_ref(&front));
        assert!(read.unread.is_none());
        std::fs::write(directory.join("broken.json"), "{").unwrap();
        let read = known(root.path());
        assert_eq!(read.networks, [front]);
        assert!(read.unread.unwrap().to_string().contains("networks/broken.json"));
    }
}
