//! `spoke docker`: what a Docker Engine needs in order to find us.

mod plugin;
mod probe;
mod unit;

use std::path::Path;

use model::{Error, Result};
use serde::Serialize;

use super::args::{DockerCommand, Output};
use super::output::render;
use super::table::Table;
use super::{Answer, FOUND, World};
use unit::{State, Unit};

/// What systemd is asked to start; the service comes with the socket's first call too.
const ENABLED: [&str; 2] = ["spoke.socket", "spoke.service"];

pub(super) fn run(command: &DockerCommand, output: Output, world: &World) -> Result<Answer> {
    match command {
        DockerCommand::Install { units, no_enable } => install(&units.unit_dir, !no_enable, world),
        DockerCommand::Uninstall { units } => uninstall(&units.unit_dir, world),
        DockerCommand::Status { units } => status(&units.unit_dir, output, world),
        DockerCommand::Plugin { directory } => plugin::write(directory, world),
    }
}

fn install(directory: &Path, enable: bool, world: &World) -> Result<Answer> {
    let units = unit::all(world)?;
    for unit in &units {
        if unit.state(directory)? == State::Foreign {
            return Err(Error::conflict(format!(
                "{} is somebody else's, or was changed by hand; move it away",
                unit.path(directory).display()
            )));
        }
    }
    units.iter().try_for_each(|unit| unit.write(directory))?;
    let mut text = String::new();
    for unit in &units {
        text.push_str(&format!("wrote {}\n", unit.path(directory).display()));
    }
    let mut notes = Vec::new();
    match world.systemctl {
        Some(systemctl) if enable => {
            systemctl(&["daemon-reload"])?;
            systemctl(&[&["enable", "--now"], &ENABLED[..]].concat())?;
            text.push_str(&format!("enabled {}\n", ENABLED.join(" and ")));
        }
        Some(_) => notes.push(format!(
            "to begin: systemctl daemon-reload && systemctl enable --now {}",
            ENABLED.join(" ")
        )),
        None => notes.push(format!(
            "systemd does not run here; start `{} serve` before dockerd, and again whenever it \
             ends (with systemd-socket-activate no call is lost meanwhile)",
            world.executable.display()
        )),
    }
    Ok(Answer { notes, ..Answer::text(text) })
}

fn uninstall(directory: &Path, world: &World) -> Result<Answer> {
    let units = unit::all(world)?;
    let mut ours = Vec::new();
    let mut notes = Vec::new();
    for unit in &units {
        match unit.state(directory)? {
            State::Ours | State::Older => ours.push(unit),
            State::Foreign => notes
                .push(format!("{} was changed by hand and stays", unit.path(directory).display())),
            State::Missing => {}
        }
    }
    if ours.is_empty() && notes.is_empty() {
        let what = format!("`spoke docker install` wrote nothing to {}", directory.display());
        return Err(Error::not_found(what));
    }
    if let (Some(systemctl), false) = (world.systemctl, ours.is_empty()) {
        let names: Vec<&str> = ours.iter().map(|unit| unit.name).collect();
        systemctl(&[&["disable", "--now"], &names[..]].concat())?;
    }
    let mut text = String::new();
    for unit in &ours {
        unit.remove(directory)?;
        text.push_str(&format!("removed {}\n", unit.path(directory).display()));
    }
    if let (Some(systemctl), false) = (world.systemctl, ours.is_empty()) {
        systemctl(&["daemon-reload"])?;
    }
    Ok(Answer { notes, ..Answer::text(text) })
}

/// One thing that Docker needs.
#[derive(Debug, Serialize)]
struct Part {
    part: String,
    /// Whether it is as it should be.
    good: bool,
    state: String,
}

fn status(directory: &Path, output: Output, world: &World) -> Result<Answer> {
    let mut parts = Vec::new();
    for unit in unit::all(world)? {
        parts.push(of_unit(&unit, unit.state(directory)?));
    }
    let answers = probe::ask(&world.socket);
    let socket = format!("socket {}", world.socket.display());
    let works = answers.is_ok();
    parts.push(match answers {
        Ok(drivers) => Part { part: socket, good: true, state: format!("answers as {drivers}") },
        Err(why) => Part { part: socket, good: false, state: why },
    });
    let code = if works { 0 } else { FOUND };
    Ok(Answer { code, ..Answer::text(render(output, &parts, || table(&parts).text())?) })
}

fn of_unit(unit: &Unit, state: State) -> Part {
    let (good, state) = match state {
        State::Ours => (true, "installed"),
        State::Older => (true, "installed by another build; `spoke docker install` renews it"),
        State::Foreign => (false, "somebody else's, or changed by hand"),
        State::Missing => (false, "not installed"),
    };
    Part { part: unit.name.to_owned(), good, state: state.to_owned() }
}

fn table(parts: &[Part]) -> Table {
    let mut table = Table::new(&["PART", "STATE"]);
    for part in parts {
        table.row([part.part.clone(), part.state.clone()]);
    }
    table
}
