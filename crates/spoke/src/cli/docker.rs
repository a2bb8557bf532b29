//! `spoke docker`: what a Docker Engine needs in order to find us.

mod plugin;
pub(super) mod probe;

use model::Result;

use super::args::{DockerCommand, Output};
use super::units::Set;
use super::{Answer, World};

const SOCKET: &str = include_str!("../../../../packaging/systemd/spoke.socket");
const SERVICE: &str = include_str!("../../../../packaging/systemd/spoke.service");

pub(super) fn run(command: &DockerCommand, output: Output, world: &World) -> Result<Answer> {
    let set = set(world);
    match command {
        DockerCommand::Install { units, no_enable } => {
            set.install(&units.unit_dir, !no_enable, world)
        }
        DockerCommand::Uninstall { units } => set.uninstall(&units.unit_dir, world),
        DockerCommand::Status { units } => {
            let answer = probe::ask(&world.socket).map(|drivers| format!("answers as {drivers}"));
            set.status(&units.unit_dir, world, output, answer)
        }
        DockerCommand::Plugin { directory } => plugin::write(directory, world),
    }
}

pub(super) fn set<'a>(world: &'a World) -> Set<'a> {
    Set {
        command: "docker",
        templates: &[("spoke.socket", SOCKET), ("spoke.service", SERVICE)],
        socket: &world.socket,
        passed_to: None,
        otherwise: format!(
            "start `{} serve` before dockerd, and again whenever it ends (with \
             systemd-socket-activate no call is lost meanwhile)",
            world.executable.display()
        ),
    }
}
