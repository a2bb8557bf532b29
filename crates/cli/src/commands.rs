//! Every command: a file has what its group of commands does.

pub(crate) mod backup;
pub(crate) mod cni;
pub(crate) mod completion;
pub(crate) mod denied;
pub(crate) mod dhcp;
pub(crate) mod dns;
pub(crate) mod docker;
pub(crate) mod doctor;
pub(crate) mod egress;
pub(crate) mod endpoint;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod findings;
pub(crate) mod firewall;
pub(crate) mod host;
pub(crate) mod install;
pub(crate) mod ipam;
pub(crate) mod kurma;
pub(crate) mod kuryr;
pub(crate) mod limit;
pub(crate) mod manual;
pub(crate) mod network;
pub(crate) mod orphans;
pub(crate) mod pending;
pub(crate) mod plugin;
pub(crate) mod podman;
pub(crate) mod port;
pub(crate) mod ports;
pub(crate) mod ps;
pub(crate) mod shell;
pub(crate) mod stock;
pub(crate) mod traffic;
pub(crate) mod web;

use std::io::Write;

use model::Result;

use crate::answer::Answer;
use crate::args::{Cli, Command};
use crate::context::CommandContext;

/// Has the command that was typed do its work.
pub(crate) fn dispatch(cli: &Cli, context: &CommandContext, out: &mut dyn Write) -> Result<Answer> {
    cli.refuse_routes()?;
    match &cli.command {
        Command::Serve => (context.serve)().map(|()| Answer::default()),
        Command::Dhcp(command) => dhcp::run(command, cli.output, context),
        Command::Dns(command) => dns::run(command, cli.output, context),
        Command::Egress(command) => egress::run(command, cli.output, context),
        Command::Denied(wanted) if wanted.follow => {
            denied::follow(wanted, cli.output, context, out)
        }
        Command::Denied(wanted) => denied::show(wanted, cli.output, context),
        Command::Docker(command) => docker::run(command, cli.output, context),
        Command::Kurma(command) => kurma::run(command, cli.output, context),
        Command::Kuryr(command) => kuryr::run(command, cli.output, context),
        Command::Neutron(command) => stock::run(command, cli.output, context),
        Command::Plugin(command) => plugin::run(command, cli.output, context),
        Command::Podman(command) => podman::run(command, cli.output, context),
        Command::Events(wanted) if wanted.follow => {
            events::follow(wanted, cli.output, context, out)
        }
        Command::Events(wanted) => events::show(wanted, cli.output, context),
        Command::Traffic(command) => traffic::run(command, cli.output, context, out),
        Command::Explain(wanted) => explain::run(wanted, cli.output, context),
        Command::Ports(wanted) => ports::run(wanted, cli.output, context),
        Command::Limit(wanted) => limit::run(wanted, cli.output, context),
        Command::Port(command) => port::run(command, cli.output, context),
        Command::Firewall(command) => firewall::run(command, cli.output, context),
        Command::Endpoint(command) => endpoint::run(command, cli.output, context),
        Command::Host(command) => host::run(command, cli.output, context),
        Command::Network(command) => network::run(command, cli.output, context),
        Command::Ps(wanted) => ps::run(wanted, cli.output, context),
        Command::Ipam(command) => ipam::run(command, cli.output, context),
        Command::Gc(gc) => findings::collect(gc, cli.output, context),
        Command::Backup(wanted) => backup::backup(wanted, cli.output, context),
        Command::Restore(wanted) => backup::restore(wanted, cli.output, context),
        Command::Doctor => doctor::run(cli.output, context),
        Command::Cni(command) => install::run(command, cli.output, context),
        Command::Version => shell::version(cli.output),
        Command::Web(wanted) => web::run(wanted, cli.output, context, out),
        Command::Completion { shell } => completion::script(*shell),
        Command::Complete { words } => completion::names(words, context),
        Command::Man { directory } => manual::write(directory),
    }
}
