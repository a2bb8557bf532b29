//! systemd's units, and the commands that install them. Each written unit says that it is Spoke's,
//! so that only those are removed.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::{Error, Result};
use sha2::{Digest, Sha256};

use crate::answer::{Answer, FOUND};
use crate::context::CommandContext;
use crate::output::Output;
use crate::status_table::{self, StatusRow};

/// Where the units of packages are, which those of the administrator's directory take the place of.
const PACKAGED: [&str; 2] = ["/usr/lib/systemd/system", "/lib/systemd/system"];
/// The administrator's directory.
const ADMINISTRATED: &str = "/etc/systemd/system";

/// A larger file is refused, in bytes.
const LARGEST: u64 = 1 << 20;

/// Units that belong together, and the command that installs them.
pub(super) struct Set<'a> {
    /// `spoke …`, before `install` and `uninstall`.
    pub(super) command: &'static str,
    /// The units with their templates: a socket, and the service that comes with its first call too.
    pub(super) templates: &'static [(&'static str, &'static str)],
    /// The path to listen at.
    pub(super) socket: &'a Path,
    /// The service of another set that is passed the socket: systemd passes it only at its start.
    pub(super) passed_to: Option<&'static str>,
    /// The advice where systemd does not run.
    pub(super) otherwise: String,
}

/// A unit as it should be.
struct Unit {
    name: &'static str,
    /// How the first line begins; the digest of everything below it follows.
    mark: String,
    text: String,
}

/// The owner of the file with the unit's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is none.
    Missing,
    /// The file is as this program would write it.
    Ours,
    /// We wrote it, with another build or configuration.
    Older,
    /// Another program or a person wrote or changed it.
    Foreign,
    /// A package brought it, and it is as we would write it.
    Packaged,
}

impl Set<'_> {
    /// The units of this host.
    fn units(&self, context: &CommandContext) -> Result<Vec<Unit>> {
        let program = quoted(&context.executable)?;
        let socket = quoted(self.socket)?;
        let mark = format!("# Written by `spoke {} install`; ", self.command);
        let unit = |(name, template): &(&'static str, &str)| {
            let text = template.replace("@SPOKE@", &program).replace("@SOCKET@", &socket);
            let text = format!("{mark}{}\n{text}", digest(&text));
            Unit { name, mark: mark.clone(), text }
        };
        Ok(self.templates.iter().map(unit).collect())
    }

    pub(super) fn install(
        &self,
        directory: &Path,
        enable: bool,
        context: &CommandContext,
    ) -> Result<Answer> {
        let units = self.units(context)?;
        let names: Vec<&str> = units.iter().map(|unit| unit.name).collect();
        let states = units.iter().map(|unit| unit.state(directory)).collect::<Result<Vec<_>>>()?;
        for (unit, state) in units.iter().zip(&states) {
            if *state == State::Foreign {
                return Err(Error::conflict(format!(
                    "{} is of another program, or was changed by hand; move it away",
                    unit.path(directory).display()
                )));
            }
        }
        let mut text = String::new();
        for (unit, state) in units.iter().zip(states) {
            if state == State::Packaged {
                text.push_str(&format!("{} is the package's\n", unit.name));
                continue;
            }
            unit.write(directory)?;
            text.push_str(&format!("wrote {}\n", unit.path(directory).display()));
        }
        let mut notes = Vec::new();
        match context.systemctl {
            Some(systemctl) if enable => {
                systemctl(&["daemon-reload"])?;
                let stop = |service| systemctl(&["stop", service]);
                self.passed_to.map_or(Ok(()), stop)?;
                systemctl(&[&["enable", "--now"], &names[..]].concat())?;
                self.passed_to.map_or(Ok(()), |service| systemctl(&["start", service]))?;
                text.push_str(&format!("enabled {}\n", names.join(" and ")));
            }
            Some(_) => notes.push(format!(
                "to begin: systemctl daemon-reload && systemctl enable --now {}",
                names.join(" ")
            )),
            None => notes.push(format!("systemd does not run here; {}", self.otherwise)),
        }
        Ok(Answer { notes, ..Answer::text(text) })
    }

    pub(super) fn uninstall(&self, directory: &Path, context: &CommandContext) -> Result<Answer> {
        let units = self.units(context)?;
        let mut ours = Vec::new();
        let mut notes = Vec::new();
        for unit in &units {
            match unit.state(directory)? {
                State::Ours | State::Older => ours.push(unit),
                State::Foreign => notes.push(format!(
                    "{} was changed by hand and stays",
                    unit.path(directory).display()
                )),
                State::Packaged => notes.push(format!(
                    "{} goes with its package; `systemctl disable --now {0}` ends it",
                    unit.name
                )),
                State::Missing => {}
            }
        }
        if ours.is_empty() && notes.is_empty() {
            let what = format!(
                "`spoke {} install` wrote nothing to {}",
                self.command,
                directory.display()
            );
            return Err(Error::not_found(what));
        }
        if let (Some(systemctl), false) = (context.systemctl, ours.is_empty()) {
            let names: Vec<&str> = ours.iter().map(|unit| unit.name).collect();
            systemctl(&[&["disable", "--now"], &names[..]].concat())?;
        }
        let mut text = String::new();
        for unit in &ours {
            unit.remove(directory)?;
            text.push_str(&format!("removed {}\n", unit.path(directory).display()));
        }
        if let (Some(systemctl), false) = (context.systemctl, ours.is_empty()) {
            systemctl(&["daemon-reload"])?;
            let restart = |service| systemctl(&["try-restart", service]);
            self.passed_to.map_or(Ok(()), restart)?;
        }
        Ok(Answer { notes, ..Answer::text(text) })
    }

    /// The state of the installation, with `answer` about the program at the socket.
    pub(super) fn status(
        &self,
        directory: &Path,
        context: &CommandContext,
        output: Output,
        answer: std::result::Result<String, String>,
    ) -> Result<Answer> {
        self.status_with(directory, context, output, (answer, Vec::new()))
    }

    /// The same with more lines, each with a name and whether it is as it should be.
    pub(super) fn status_with(
        &self,
        directory: &Path,
        context: &CommandContext,
        output: Output,
        (answer, more): (std::result::Result<String, String>, More),
    ) -> Result<Answer> {
        let mut parts = Vec::new();
        for unit in self.units(context)? {
            parts.push(self.part(&unit, unit.state(directory)?));
        }
        let code = if answer.is_ok() { 0 } else { FOUND };
        let part = format!("socket {}", self.socket.display());
        let (good, state) = answer.map_or_else(|why| (false, why), |what| (true, what));
        parts.push(StatusRow { part, good, state });
        let more = more.into_iter();
        parts.extend(more.map(|(part, good, state)| StatusRow {
            part: part.to_owned(),
            good,
            state,
        }));
        Ok(Answer { code, ..status_table::render(output, &parts)? })
    }

    fn part(&self, unit: &Unit, state: State) -> StatusRow {
        let (good, state) = match state {
            State::Ours => (true, "installed".to_owned()),
            State::Older => {
                let again = format!("`spoke {} install` renews it", self.command);
                (true, format!("installed by another build; {again}"))
            }
            State::Foreign => (false, "of another program, or changed by hand".to_owned()),
            State::Packaged => (true, "installed by the package".to_owned()),
            State::Missing => (false, "not installed".to_owned()),
        };
        StatusRow { part: unit.name.to_owned(), good, state }
    }
}

/// More lines: the name, whether it is as it should be, and the state.
pub(super) type More = Vec<(&'static str, bool, String)>;

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

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl Unit {
    fn path(&self, directory: &Path) -> PathBuf {
        directory.join(self.name)
    }

    fn state(&self, directory: &Path) -> Result<State> {
        let path = self.path(directory);
        let there = match file::text(&path, LARGEST) {
            Ok(there) => there,
            Err(cause) if cause.kind() == ErrorKind::NotFound => {
                let is_packaged = directory == Path::new(ADMINISTRATED) && self.is_packaged();
                return Ok(if is_packaged { State::Packaged } else { State::Missing });
            }
            Err(cause) if cause.kind() == ErrorKind::InvalidData => return Ok(State::Foreign),
            Err(cause) => return Err(file::failed(format!("reading {}", path.display()), cause)),
        };
        let body = there.strip_prefix(&self.mark).and_then(|rest| rest.split_once('\n'));
        Ok(match body {
            _ if there == self.text => State::Ours,
            Some((mark, body)) if mark == digest(body) => State::Older,
            Some(_) | None => State::Foreign,
        })
    }

    /// Whether a package brought the same unit: with this program, and this socket.
    fn is_packaged(&self) -> bool {
        let wanted = self.text.split_once('\n').map(|(_, body)| body);
        PACKAGED.iter().any(|directory| {
            let there = file::text(&self.path(Path::new(directory)), LARGEST).ok();
            there.is_some() && there.as_deref() == wanted
        })
    }

    fn write(&self, directory: &Path) -> Result<()> {
        let path = self.path(directory);
        let doing = || format!("writing {}", path.display());
        let new = directory.join(format!(".{}.new", self.name));
        let written = fs::create_dir_all(directory)
            .and_then(|()| file::replace_with_mode(&path, &new, self.text.as_bytes(), 0o666));
        written.map_err(|cause| Error::os(doing(), cause))
    }

    fn remove(&self, directory: &Path) -> Result<()> {
        let path = self.path(directory);
        fs::remove_file(&path)
            .map_err(|cause| Error::os(format!("removing {}", path.display()), cause))
    }
}
