//! The networks that configuration files describe.

use std::path::{Path, PathBuf};

use model::NetworkName;

use crate::list::{files, objects, read_object};
use crate::plugin;
use crate::wire::Object;

/// The networks that Spoke's plugins make as the configuration files of a directory describe them, each with its file.
/// A list that joins a network, or one that only another plugin makes, describes none.
pub fn networks(directory: &Path) -> Vec<(NetworkName, PathBuf)> {
    let named = |path: PathBuf| Some((described_in(&path)?, path));
    let paths = files(directory, &["conflist", "conf"]).unwrap_or_default();
    paths.into_iter().filter_map(named).collect()
}

fn described_in(path: &Path) -> Option<NetworkName> {
    let object = read_object(path)?;
    let config = Object::new("", &object);
    let main = match config.get("plugins") {
        Some(_) => objects(config.list("plugins").ok()?).into_iter().next()?,
        None => config.clone(),
    };
    let name = config.text("name").ok().flatten()?;
    if plugin::describes_network(&main) { name.parse().ok() } else { None }
}
