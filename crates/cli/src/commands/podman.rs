//! `spoke podman`: what Podman 5 needs in order to find us: a program named `spoke` in a directory
//! of netavark's plugins.

mod containers_conf;
mod driver_file;

use std::path::Path;

use model::{Error, Result};

use crate::answer::{Answer, FOUND};
use crate::args::podman::PodmanCommand;
use crate::context::CommandContext;
use crate::output::Output;
use crate::status_table::{self, StatusRow};
use containers_conf::{ContainersConf, Snippet};
use driver_file::{DriverFile, State};

pub(crate) fn run(
    command: &PodmanCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    match command {
        PodmanCommand::Install { plugins } => install(&plugins.dir, context),
        PodmanCommand::Uninstall { plugins } => uninstall(&plugins.dir, context),
        PodmanCommand::Status { plugins } => status(&plugins.dir, output, context),
    }
}

fn install(directory: &Path, context: &CommandContext) -> Result<Answer> {
    refuse_relative(directory)?;
    let place = DriverFile::new(directory);
    let mut text = String::new();
    match place.state(&context.executable)? {
        State::Foreign => {
            return Err(Error::conflict(format!(
                "{} is of another program; move it away, or choose another directory with --dir",
                place.path().display()
            )));
        }
        State::Ours => text.push_str(&format!("{} is there\n", place.path().display())),
        State::Missing | State::Older => {
            place.make(&context.executable)?;
            text.push_str(&format!(
                "made {}, a link to {}\n",
                place.path().display(),
                context.executable.display()
            ));
        }
    }
    let conf = ContainersConf::read(&context.root)?;
    if !conf.searches(directory) {
        let snippet = Snippet::below(&context.root);
        snippet.write(directory)?;
        text.push_str(&format!("wrote {}\n", snippet.path().display()));
    }
    Ok(Answer { notes: notes(&place, context)?, ..Answer::text(text) })
}

/// Warnings about settings that keep Podman from finding the program.
fn notes(place: &DriverFile, context: &CommandContext) -> Result<Vec<String>> {
    let conf = ContainersConf::read(&context.root)?;
    Ok(match conf.searches(place.directory()) {
        true => conf.first_of(place).into_iter().collect(),
        false => vec![format!(
            "Podman does not look in {}: another file in {} says where it looks",
            place.directory().display(),
            Snippet::below(&context.root).directory().display()
        )],
    })
}

fn uninstall(directory: &Path, context: &CommandContext) -> Result<Answer> {
    refuse_relative(directory)?;
    let place = DriverFile::new(directory);
    let snippet = Snippet::below(&context.root);
    let mut answer = Answer::default();
    match place.state(&context.executable)? {
        State::Ours | State::Older => {
            place.remove()?;
            answer.text.push_str(&format!("removed {}\n", place.path().display()));
        }
        State::Foreign => {
            answer
                .notes
                .push(format!("{} is of another program and stays", place.path().display()));
        }
        State::Missing => {}
    }
    if snippet.remove(directory)? {
        answer.text.push_str(&format!("removed {}\n", snippet.path().display()));
    }
    if answer.text.is_empty() && answer.notes.is_empty() {
        answer.text = format!("nothing of Spoke's is in {}\n", directory.display());
    }
    Ok(answer)
}

fn status(directory: &Path, output: Output, context: &CommandContext) -> Result<Answer> {
    refuse_relative(directory)?;
    let place = DriverFile::new(directory);
    let conf = ContainersConf::read(&context.root)?;
    let hidden = conf.first_of(&place);
    let searched = conf.searches(directory);
    let parts = vec![
        of_place(&place, place.state(&context.executable)?),
        StatusRow {
            part: format!("directory {}", directory.display()),
            good: searched && hidden.is_none(),
            state: match (searched, hidden) {
                (true, None) => "Podman looks there".to_owned(),
                (true, Some(hidden)) => hidden,
                (false, _) => format!(
                    "Podman looks in {} only; `spoke podman install` mends it",
                    conf.directories()
                ),
            },
        },
    ];
    let code = if parts.iter().all(|part| part.good) { 0 } else { FOUND };
    Ok(Answer { code, ..status_table::render(output, &parts)? })
}

fn of_place(place: &DriverFile, state: State) -> StatusRow {
    let (good, state) = match state {
        State::Ours => (true, "installed"),
        State::Older => (true, "another build of Spoke; `spoke podman install` renews it"),
        State::Foreign => (false, "of another program"),
        State::Missing => (false, "not installed"),
    };
    StatusRow { part: place.path().display().to_string(), good, state: state.to_owned() }
}

/// Podman ignores a directory that depends on its working directory.
fn refuse_relative(directory: &Path) -> Result<()> {
    match directory.is_absolute() {
        true => Ok(()),
        false => {
            let what = format!("--dir {} is not an absolute path", directory.display());
            Err(Error::invalid(what))
        }
    }
}
