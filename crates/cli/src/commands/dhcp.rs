//! `spoke dhcp`: the daemon that keeps leases, on a host that has nothing else for `spoke serve` to do.

use std::path::Path;

use cni::dhcp::{Daemon, SOCKET as AT};
use model::{Error, Result};

use crate::answer::Answer;
use crate::args::DhcpCommand;
use crate::context::CommandContext;
use crate::output::Output;
use crate::units::Set;

const SOCKET: &str = include_str!("../../../../packaging/systemd/spoke-dhcp.socket");
const SERVICE: &str = include_str!("../../../../packaging/systemd/spoke-dhcp.service");

/// The other unit that serves DHCP: systemd would end it when this one begins.
const OTHER: &str = "spoke.service";

pub(crate) fn run(
    command: &DhcpCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let socket = Path::new(AT);
    let set = Set {
        command: "dhcp",
        templates: &[("spoke-dhcp.socket", SOCKET), ("spoke-dhcp.service", SERVICE)],
        socket,
        passed_to: None,
        otherwise: format!("start `{} dhcp daemon`", context.executable.display()),
    };
    match command {
        DhcpCommand::Install { units, no_enable } => {
            if units.unit_dir.join(OTHER).exists() {
                let what = format!("`spoke serve` runs here as {OTHER}, and keeps DHCP leases too");
                return Err(Error::conflict(what));
            }
            set.install(&units.unit_dir, !no_enable, context)
        }
        DhcpCommand::Uninstall { units } => set.uninstall(&units.unit_dir, context),
        DhcpCommand::Status { units } => {
            let asked = Daemon::at(socket).status();
            let answer = asked.map(|()| "answers".to_owned()).map_err(|error| error.to_string());
            set.status(&units.unit_dir, context, output, answer)
        }
    }
}
