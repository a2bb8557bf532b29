//! Where a plugin is that somebody names.

use std::fs;
use std::path::Path;

use model::{Error, Result};

use super::super::World;
use crate::kit::Address;

/// Where engines look for plugins: sockets, then descriptions.
const SOCKETS: &str = "run/docker/plugins";
const DESCRIPTIONS: [&str; 2] = ["etc/docker/plugins", "usr/lib/docker/plugins"];

/// The address of a URL, a socket, a `.spec`, or a plugin's name as engines look for it.
pub(super) fn find(named: &str, world: &World) -> Result<Address> {
    if named.contains("://") {
        return Address::parse(named);
    }
    if named.contains('/') {
        return at(Path::new(named));
    }
    let sockets = world.root.join(SOCKETS);
    let mut places = vec![
        sockets.join(format!("{named}.sock")),
        sockets.join(named).join(format!("{named}.sock")),
    ];
    for directory in DESCRIPTIONS {
        let directory = world.root.join(directory);
        places.push(directory.join(format!("{named}.spec")));
        places.push(directory.join(named).join(format!("{named}.spec")));
    }
    let found = places.iter().find(|place| place.exists());
    let found = found.ok_or_else(|| {
        Error::not_found(format!(
            "plugin {named}: neither a socket in /{SOCKETS} nor a .spec in /{}",
            DESCRIPTIONS.join(" or /")
        ))
    })?;
    at(found)
}

fn at(path: &Path) -> Result<Address> {
    if path.extension().is_none_or(|extension| extension != "spec") {
        return Ok(Address::Unix(path.to_owned()));
    }
    let failed = |cause| Error::os(format!("reading {}", path.display()), cause);
    Address::parse(&fs::read_to_string(path).map_err(failed)?)
}
