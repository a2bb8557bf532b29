//! `spoke docker`: what a Docker Engine needs in order to find us.

mod image;
mod plugin;
pub(super) mod probe;

use host::serving::is_served;
use model::Result;

use super::args::DockerCommand;
use super::units::Set;
use crate::answer::Answer;
use crate::context::HostContext;
use crate::output::Output;

const SOCKET: &str = include_str!("../../../packaging/systemd/spoke.socket");
const SERVICE: &str = include_str!("../../../packaging/systemd/spoke.service");

pub(super) fn run(
    command: &DockerCommand,
    output: Output,
    host_context: &HostContext,
) -> Result<Answer> {
    let set = set(host_context);
    match command {
        DockerCommand::Install(how) => {
            set.install(&how.units.unit_dir, !how.no_enable, host_context)
        }
        DockerCommand::Uninstall { units } => set.uninstall(&units.unit_dir, host_context),
        DockerCommand::Status { units } => {
            let answer =
                probe::ask(&host_context.socket).map(|drivers| format!("answers as {drivers}"));
            let answer = answer.map_err(|why| beside(why, host_context));
            set.status(&units.unit_dir, host_context, output, answer)
        }
        DockerCommand::Image(wanted) => image::write(wanted, output, host_context),
        DockerCommand::Plugin { directory } => plugin::write(directory, host_context),
    }
}

/// A daemon that Docker manages, as a plugin, has its socket elsewhere.
fn beside(why: String, host_context: &HostContext) -> String {
    let is_elsewhere =
        !host_context.socket.exists() && is_served(&host_context.runtime) == Some(true);
    match is_elsewhere {
        true => "is not there, and a daemon serves the book: the managed plugin, as `docker plugin ls` shows, or one with \
                 another socket"
            .to_owned(),
        false => why,
    }
}

pub(super) fn set<'a>(host_context: &'a HostContext) -> Set<'a> {
    Set {
        command: "docker",
        templates: &[("spoke.socket", SOCKET), ("spoke.service", SERVICE)],
        socket: &host_context.socket,
        passed_to: None,
        otherwise: format!(
            "start `{} serve` before dockerd, and again whenever it ends (with \
             systemd-socket-activate no call is lost meanwhile)",
            host_context.executable.display()
        ),
    }
}
