//! `spoke kuryr`: the plugin of kuryr-libnetwork's name, and what its configuration comes to here.

mod import;

use std::path::Path;

use model::{Error, Result};

use crate::answer::Answer;
use crate::args::kuryr::KuryrCommand;
use crate::commands::docker::{self, probe};
use crate::commands::stock;
use crate::context::CommandContext;
use crate::output::Output;
use crate::units::{More, Set};

const SOCKET: &[(&str, &str)] =
    &[("spoke-kuryr.socket", include_str!("../../../../packaging/systemd/spoke-kuryr.socket"))];

/// The unit that gets the socket, beside its own.
const SERVICE: &str = "spoke.service";

pub(crate) fn run(
    command: &KuryrCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let socket = context.kuryr.as_deref().unwrap_or(Path::new(USUAL));
    match command {
        KuryrCommand::Install(_) if context.kuryr.is_none() => Err(not_enabled()),
        KuryrCommand::Install(how) => install(&how.units.unit_dir, !how.no_enable, socket, context),
        KuryrCommand::ImportConfig { file } => import::import(file),
        KuryrCommand::Uninstall { units } => {
            set(socket, context).uninstall(&units.unit_dir, context)
        }
        KuryrCommand::Status { units } => {
            let answer = match &context.kuryr {
                Some(socket) => probe::ask(socket).map(|drivers| format!("answers as {drivers}")),
                None => Err(not_enabled().to_string()),
            };
            set(socket, context).status_with(
                &units.unit_dir,
                context,
                output,
                (answer, stock(context)),
            )
        }
    }
}

/// The ports that are ready, and what is wrong with them.
fn stock(context: &CommandContext) -> More {
    let Ok(Some(neutron)) = (context.neutron)() else { return Vec::new() };
    let kinds = neutron.stock().unwrap_or_default();
    let summary = stock::summary(&neutron, &kinds).map(|state| ("stock", true, state));
    let troubles = stock::troubles(&neutron, &kinds).into_iter();
    let troubles = troubles.map(|(what, fix)| ("stock", false, format!("{what}; {fix}")));
    summary.into_iter().chain(troubles).collect()
}

/// Where the socket is unless the configuration says otherwise.
const USUAL: &str = "/run/docker/plugins/kuryr.sock";

fn not_enabled() -> Error {
    Error::invalid("the plugin is not served: set enabled = true in [kuryr] of the configuration")
}

fn install(
    directory: &Path,
    enable: bool,
    socket: &Path,
    context: &CommandContext,
) -> Result<Answer> {
    let mut text = String::new();
    let mut notes = Vec::new();
    if !directory.join(SERVICE).exists() {
        let service = docker::set(context).install(directory, enable, context)?;
        text.push_str(&service.text);
        notes.extend(service.notes);
    }
    let installed = set(socket, context).install(directory, enable, context)?;
    text.push_str(&installed.text);
    notes.extend(installed.notes);
    Ok(Answer { notes, ..Answer::text(text) })
}

fn set<'a>(socket: &'a Path, context: &'a CommandContext) -> Set<'a> {
    Set {
        command: "kuryr",
        templates: SOCKET,
        socket,
        passed_to: Some(SERVICE),
        otherwise: format!(
            "start `{} serve` before dockerd, and again whenever it ends",
            context.executable.display()
        ),
    }
}
