//! The address of a plugin that the user names.

use std::path::{Path, PathBuf};

use ::remote::address::{Address, Trust, Url};
use ::remote::discover::PluginDirectories;
use model::{Error, Result};

use crate::context::CommandContext;

/// The directories in which engines search plugins: sockets, then descriptions.
const SOCKETS: &str = "run/docker/plugins";
const DESCRIPTIONS: [&str; 2] = ["etc/docker/plugins", "usr/lib/docker/plugins"];

/// The address of a URL, a socket, a `.spec` or `.json`, or a plugin's name as engines resolve it.
pub(super) fn find(named: &str, context: &CommandContext) -> Result<Address> {
    if named.contains("://") {
        return Ok(match Url::read(named)? {
            Url::Unix(path) => Address::Unix(path),
            Url::Plain(host) => Address::Tcp(host),
            Url::Secure(host) => {
                let trust = Trust::read(&host, None)?;
                Address::Tls(host, trust)
            }
        });
    }
    let path = Path::new(named);
    if !named.contains('/') {
        let descriptions = DESCRIPTIONS.map(|directory| context.root.join(directory)).to_vec();
        return installed(named, vec![context.root.join(SOCKETS)], descriptions);
    }
    let described = ["spec", "json"].iter().any(|ends| path.extension() == Some(ends.as_ref()));
    match (path.parent(), path.file_stem().and_then(|stem| stem.to_str())) {
        (Some(directory), Some(name)) if described => {
            installed(name, Vec::new(), vec![directory.to_owned()])
        }
        _ => Ok(Address::Unix(path.to_owned())),
    }
}

fn installed(name: &str, sockets: Vec<PathBuf>, descriptions: Vec<PathBuf>) -> Result<Address> {
    let name = name.parse().map_err(|error: Error| error.context("plugin name"))?;
    Ok(PluginDirectories { sockets, descriptions }.find(&name, None)?.address)
}
