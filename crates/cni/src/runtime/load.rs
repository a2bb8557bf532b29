//! Finding a network's configuration in a directory.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::{Error, Result};

use super::{NetworkList, PluginConfig};
use crate::wire::LONGEST;

/// The network called `name` in `directory`: the lists in the order of their names (`.conflist`),
/// and then the single plugins (`.conf`, `.json`). To a list belong the files
/// `<directory>/<name>/*.conf` too, unless it says that they do not.
///
/// # Errors
/// [`model::Kind::NotFound`] where there is none; [`model::Kind::Invalid`] where one of the files
/// before it is no configuration.
pub fn load(directory: &Path, name: &str) -> Result<NetworkList> {
    let lists = files(directory, &["conflist"])?;
    for file in &lists {
        let list = load_list(file)?;
        if list.name.as_str() == name {
            return Ok(list);
        }
    }
    let singles = files(directory, &["conf", "json"])?;
    for file in &singles {
        let text = read(file)?;
        let named = PluginConfig::parse(&text)?;
        if named.fields().get("name").and_then(|it| it.as_str()) == Some(name) {
            return NetworkList::parse_single(&text);
        }
    }
    let shown = directory.display();
    Err(Error::not_found(match lists.is_empty() && singles.is_empty() {
        true => format!("no net configurations found in {shown}"),
        false => format!("no net configuration with name \"{name}\" in {shown}"),
    }))
}

/// Every configuration of a directory in the order in which [`load`] reads them, with its file.
///
/// # Errors
/// Where the directory exists and cannot be read.
pub fn configured(directory: &Path) -> Result<Vec<(PathBuf, Result<NetworkList>)>> {
    let mut files = files(directory, &["conflist"])?;
    files.extend(self::files(directory, &["conf", "json"])?);
    let read = |file: PathBuf| {
        let list = NetworkList::read(&file);
        (file, list)
    };
    Ok(files.into_iter().map(read).collect())
}

/// The list in `file`, with the plugins of the directory beside it.
pub(super) fn load_list(file: &Path) -> Result<NetworkList> {
    let mut list = NetworkList::parse(&read(file)?)?;
    if !list.only_inlined {
        let beside = file.parent().unwrap_or(Path::new(".")).join(list.name.as_str());
        for file in files(&beside, &["conf"])? {
            list.plugins.push(PluginConfig::parse(&read(&file)?)?);
        }
    }
    match list.plugins.is_empty() {
        true => Err(Error::invalid(format!("no plugin configs found: {}", file.display()))),
        false => Ok(list),
    }
}

impl NetworkList {
    /// The list in `file`, whatever it is called there; a single plugin becomes one.
    ///
    /// # Errors
    /// As [`load`].
    pub fn read(file: &Path) -> Result<Self> {
        match file.extension().and_then(OsStr::to_str) {
            Some("conf" | "json") => {
                let text = read(file)?;
                match PluginConfig::parse(&text) {
                    Ok(_) => Self::parse_single(&text),
                    Err(_) => load_list(file),
                }
            }
            _ => load_list(file),
        }
    }
}

/// In the order of their names; none where there is no such directory.
fn files(directory: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let failed = |cause| Error::os(format!("reading {}", directory.display()), cause);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let extension = path.extension().and_then(OsStr::to_str);
        if extension.is_some_and(|it| extensions.contains(&it)) && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    file::read(path, LONGEST)
        .map_err(|cause| file::failed(format!("error reading {}", path.display()), cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn kinds(list: &NetworkList) -> Vec<&str> {
        list.plugins.iter().map(|plugin| plugin.kind.as_str()).collect()
    }

    #[test]
    fn lists_come_before_single_plugins() {
        let root = directory(&[
            ("00.conf", r#"{"name":"a","type":"single"}"#),
            ("20.conflist", r#"{"name":"a","plugins":[{"type":"second"}]}"#),
            ("10.conflist", r#"{"name":"a","plugins":[{"type":"first"}]}"#),
            ("30.json", r#"{"name":"b","type":"json"}"#),
            ("40.txt", "{"),
        ]);
        assert_eq!(kinds(&load(root.path(), "a").unwrap()), ["first"]);
        assert_eq!(kinds(&load(root.path(), "b").unwrap()), ["json"]);
        let sentence = load(root.path(), "c").unwrap_err().to_string();
        assert!(sentence.starts_with("no net configuration with name \"c\" in "), "{sentence}");
        let sentence = load(&root.path().join("x"), "c").unwrap_err().to_string();
        assert!(sentence.starts_with("no net configurations found in "), "{sentence}");
    }

    #[test]
    fn plugins_of_the_directory_are_added() {
        let root = directory(&[
            ("a.conflist", r#"{"name":"a","plugins":[{"type":"inlined"}]}"#),
            ("a/2.conf", r#"{"type":"two"}"#),
            ("a/1.conf", r#"{"type":"one"}"#),
            ("a/3.conflist", "{"),
            ("b.conflist", r#"{"name":"b"}"#),
            (
                "c.conflist",
                r#"{"name":"c","loadOnlyInlinedPlugins":"true","plugins":[{"type":"x"}]}"#,
            ),
            ("c/1.conf", r#"{"type":"one"}"#),
        ]);
        let list = load(root.path(), "a").unwrap();
        assert_eq!(kinds(&list), ["inlined", "one", "two"]);
        let again = NetworkList::parse(list.whole().as_bytes()).unwrap();
        assert_eq!(kinds(&again), ["inlined", "one", "two"]);
        let sentence = load(root.path(), "b").unwrap_err().to_string();
        assert!(sentence.starts_with("no plugin configs found"), "{sentence}");
        fs::remove_file(root.path().join("b.conflist")).unwrap();
        assert_eq!(kinds(&load(root.path(), "c").unwrap()), ["x"]);
    }

    #[test]
    fn a_broken_file_before_it_is_reported() {
        let root = directory(&[("1.conflist", "{"), ("2.conflist", r#"{"name":"a"}"#)]);
        assert!(load(root.path(), "a").unwrap_err().to_string().contains("configuration list"));
    }
}
