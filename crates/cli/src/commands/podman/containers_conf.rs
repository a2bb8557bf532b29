//! The directories of netavark's plugins (containers.conf(5), `netavark_plugin_dirs`).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::{Error, Result};
use toml::Value;

use super::driver_file::DriverFile;

/// The default directories.
const DEFAULT: [&str; 4] = [
    "/usr/local/libexec/netavark",
    "/usr/libexec/netavark",
    "/usr/local/lib/netavark",
    "/usr/lib/netavark",
];

/// Files that are read one after the other, and directories of which every file is.
const FILES: [&str; 2] = ["usr/share/containers/containers.conf", "etc/containers/containers.conf"];
const DIRECTORIES: [&str; 2] =
    ["usr/share/containers/containers.conf.d", "etc/containers/containers.conf.d"];

/// Spoke's file among them.
const NAME: &str = "50-spoke.conf";

const MARK: &str = "# Written by `spoke podman install`.";

/// A larger file is refused, in bytes.
const LARGEST: u64 = 1 << 20;

/// The combined settings of a host's files.
#[derive(Debug)]
pub(super) struct ContainersConf {
    directories: Vec<PathBuf>,
}

impl ContainersConf {
    /// Reads the files below `root`. One that is not TOML says nothing: Podman refuses it by
    /// itself.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut directories: Vec<PathBuf> = DEFAULT.iter().map(PathBuf::from).collect();
        for path in files(root) {
            if let Some(given) = given(&path)? {
                given.apply(&mut directories);
            }
        }
        Ok(Self { directories })
    }

    pub(super) fn searches(&self, directory: &Path) -> bool {
        self.directories.iter().any(|searched| searched == directory)
    }

    pub(super) fn directories(&self) -> String {
        let shown: Vec<String> =
            self.directories.iter().map(|path| path.display().to_string()).collect();
        shown.join(", ")
    }

    /// The program that is found before this place, if there is one.
    pub(super) fn first_of(&self, place: &DriverFile) -> Option<String> {
        let before = self.directories.iter().take_while(|path| *path != place.directory());
        let found = before.map(|path| DriverFile::new(path)).find(|other| other.path().exists())?;
        Some(format!("Podman finds {} first", found.path().display()))
    }
}

fn files(root: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = FILES.iter().map(|file| root.join(file)).collect();
    for directory in DIRECTORIES {
        let entries = fs::read_dir(root.join(directory)).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        found.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
        found.sort();
        files.extend(found);
    }
    files
}

/// The settings of one file.
#[derive(Debug, PartialEq, Eq)]
struct FileOptions {
    directories: Vec<PathBuf>,
    /// Whether it adds to earlier settings: `["/dir", {append = true}]`.
    adds: bool,
}

impl FileOptions {
    fn apply(self, to: &mut Vec<PathBuf>) {
        if !self.adds {
            to.clear();
        }
        to.extend(self.directories);
    }
}

fn given(path: &Path) -> Result<Option<FileOptions>> {
    let text = match file::text(path, LARGEST) {
        Err(cause) if matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => {
            return Ok(None);
        }
        text => text.map_err(|cause| file::failed(format!("reading {}", path.display()), cause))?,
    };
    Ok(parse(&text))
}

fn parse(text: &str) -> Option<FileOptions> {
    let file: toml::Table = toml::from_str(text).ok()?;
    let list = file.get("network")?.get("netavark_plugin_dirs")?.as_array()?;
    let adds = |value: &Value| value.get("append").and_then(Value::as_bool) == Some(true);
    let directories = list.iter().filter_map(Value::as_str).map(PathBuf::from);
    Some(FileOptions { directories: directories.collect(), adds: list.iter().any(adds) })
}

/// The file that adds a directory.
pub(super) struct Snippet {
    directory: PathBuf,
    path: PathBuf,
}

impl Snippet {
    pub(super) fn below(root: &Path) -> Self {
        let directory = root.join("etc/containers/containers.conf.d");
        Self { path: directory.join(NAME), directory }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn write(&self, plugins: &Path) -> Result<()> {
        let doing = || format!("writing {}", self.path.display());
        if let Ok(there) = fs::read_to_string(&self.path)
            && !there.starts_with(MARK)
        {
            return Err(Error::conflict("it is of another program; move it away").context(doing()));
        }
        let new = self.directory.join(format!(".{NAME}.new"));
        let text = text(plugins);
        let written = fs::create_dir_all(&self.directory)
            .and_then(|()| file::replace_with_mode(&self.path, &new, text.as_bytes(), 0o666));
        written.map_err(|cause| Error::os(doing(), cause))
    }

    /// Removes the file that says this directory; `false` where there is none.
    pub(super) fn remove(&self, plugins: &Path) -> Result<bool> {
        if !fs::read_to_string(&self.path).is_ok_and(|there| there == text(plugins)) {
            return Ok(false);
        }
        fs::remove_file(&self.path)
            .map_err(|cause| Error::os(format!("removing {}", self.path.display()), cause))?;
        Ok(true)
    }
}

fn text(plugins: &Path) -> String {
    // A string of JSON is one of TOML.
    let plugins = serde_json::Value::from(plugins.display().to_string());
    format!("{MARK}\n[network]\nnetavark_plugin_dirs = [{plugins}, {{append = true}}]\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_replace_or_add() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| crate::test_file::put(root.path(), path, text);
        let shown = || ContainersConf::read(root.path()).unwrap().directories();
        assert!(shown().ends_with("/usr/local/lib/netavark, /usr/lib/netavark"));
        put("etc/containers/containers.conf.d/1.conf", "this is no TOML");
        put("usr/share/containers/containers.conf", "[network]\nnetavark_plugin_dirs = [\"/a\"]");
        put("etc/containers/containers.conf", "[containers]\nlog_driver = \"x\"");
        assert_eq!(shown(), "/a");
        Snippet::below(root.path()).write(Path::new("/b")).unwrap();
        assert_eq!(shown(), "/a, /b");
        assert!(Snippet::below(root.path()).remove(Path::new("/b")).unwrap());
        put("etc/containers/containers.conf.d/50-spoke.conf", "[network]\n# by hand");
        let error = Snippet::below(root.path()).write(Path::new("/b")).unwrap_err();
        assert!(error.to_string().contains("of another program"), "{error}");
        assert!(!Snippet::below(root.path()).remove(Path::new("/b")).unwrap());
    }
}
