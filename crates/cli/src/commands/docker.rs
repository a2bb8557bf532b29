//! `spoke docker`: what a Docker Engine needs in order to find us.

mod image;
mod plugin;
pub(crate) mod probe;

use host::serving::is_served;
use model::Result;

use crate::answer::Answer;
use crate::args::DockerCommand;
use crate::context::CommandContext;
use crate::output::Output;
use crate::units::Set;

const SOCKET: &str = include_str!("../../../../packaging/systemd/spoke.socket");
const SERVICE: &str = include_str!("../../../../packaging/systemd/spoke.service");

pub(crate) fn run(
    command: &DockerCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let set = set(context);
    match command {
        DockerCommand::Install(how) => set.install(&how.units.unit_dir, !how.no_enable, context),
        DockerCommand::Uninstall { units } => set.uninstall(&units.unit_dir, context),
        DockerCommand::Status { units } => {
            let answer = probe::ask(&context.socket).map(|drivers| format!("answers as {drivers}"));
            let answer = answer.map_err(|why| beside(why, context));
            set.status(&units.unit_dir, context, output, answer)
        }
        DockerCommand::Image(wanted) => image::write(wanted, output, context),
        DockerCommand::Plugin { directory } => plugin::write(directory, context),
    }
}

/// A daemon that Docker manages, as a plugin, has its socket elsewhere.
fn beside(why: String, context: &CommandContext) -> String {
    let is_elsewhere = !context.socket.exists() && is_served(&context.runtime) == Some(true);
    match is_elsewhere {
        true => "is not there, and a daemon serves the book: the managed plugin, as `docker plugin ls` shows, or one with \
                 another socket"
            .to_owned(),
        false => why,
    }
}

pub(crate) fn set<'a>(context: &'a CommandContext) -> Set<'a> {
    Set {
        command: "docker",
        templates: &[("spoke.socket", SOCKET), ("spoke.service", SERVICE)],
        socket: &context.socket,
        passed_to: None,
        otherwise: format!(
            "start `{} serve` before dockerd, and again whenever it ends (with \
             systemd-socket-activate no call is lost meanwhile)",
            context.executable.display()
        ),
    }
}
