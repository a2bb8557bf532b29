//! systemd's units: what is written says of itself that it is ours, so that only that is removed.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::{Error, Result};
use sha2::{Digest, Sha256};

use super::super::World;

/// How the first line of a unit of ours begins; the digest of everything below it follows.
const MARK: &str = "# Written by `spoke docker install`; ";

const SOCKET: &str = include_str!("../../../../../packaging/systemd/spoke.socket");
const SERVICE: &str = include_str!("../../../../../packaging/systemd/spoke.service");

/// A unit as it should be.
pub(super) struct Unit {
    pub(super) name: &'static str,
    text: String,
}

/// Whose the file is that has the unit's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// There is none.
    Missing,
    /// It is as we would write it.
    Ours,
    /// We wrote it, with another build or configuration.
    Older,
    /// Somebody else wrote or changed it.
    Foreign,
}

/// The units of this host.
pub(super) fn all(world: &World) -> Result<Vec<Unit>> {
    let program = quoted(&world.executable)?;
    let socket = quoted(&world.socket)?;
    let fill = |text: &str| text.replace("@SPOKE@", &program).replace("@SOCKET@", &socket);
    let unit = |name, template| Unit { name, text: marked(&fill(template)) };
    Ok(vec![unit("spoke.socket", SOCKET), unit("spoke.service", SERVICE)])
}

/// A path in a unit: `%` begins a specifier there, and white space ends the word.
fn quoted(path: &Path) -> Result<String> {
    let text = path.to_str().unwrap_or_default();
    let is_plain =
        |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '\'' | '\\');
    match !text.is_empty() && text.chars().all(is_plain) {
        true => Ok(text.replace('%', "%%").replace('$', "$$")),
        false => Err(Error::invalid(format!("{path:?} cannot be named in a unit of systemd"))),
    }
}

fn marked(text: &str) -> String {
    format!("{MARK}{}\n{text}", digest(text))
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl Unit {
    pub(super) fn path(&self, directory: &Path) -> PathBuf {
        directory.join(self.name)
    }

    pub(super) fn state(&self, directory: &Path) -> Result<State> {
        let path = self.path(directory);
        let there = match fs::read_to_string(&path) {
            Ok(there) => there,
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(State::Missing),
            Err(cause) if cause.kind() == ErrorKind::InvalidData => return Ok(State::Foreign),
            Err(cause) => return Err(Error::os(format!("reading {}", path.display()), cause)),
        };
        let body = there.strip_prefix(MARK).and_then(|rest| rest.split_once('\n'));
        Ok(match body {
            _ if there == self.text => State::Ours,
            Some((mark, body)) if mark == digest(body) => State::Older,
            Some(_) | None => State::Foreign,
        })
    }

    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        let path = self.path(directory);
        let doing = || format!("writing {}", path.display());
        let new = directory.join(format!(".{}.new", self.name));
        let written = fs::create_dir_all(directory)
            .and_then(|()| fs::write(&new, &self.text))
            .and_then(|()| fs::rename(&new, &path));
        written.map_err(|cause| Error::os(doing(), cause))
    }

    pub(super) fn remove(&self, directory: &Path) -> Result<()> {
        let path = self.path(directory);
        fs::remove_file(&path)
            .map_err(|cause| Error::os(format!("removing {}", path.display()), cause))
    }
}
