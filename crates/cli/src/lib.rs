//! The command line: what was typed is parsed once, each command answers with text and an exit
//! code, and only [`run`] writes.

mod answer;
mod args;
mod backup;
mod check;
mod claims;
mod cni;
mod completion;
mod container;
mod context;
mod daemon;
mod denied;
mod dhcp;
mod dns;
mod docker;
mod doctor;
mod draft;
mod egress;
mod endpoint;
mod events;
mod explain;
mod finding_table;
mod findings;
mod firewall;
mod groups;
mod host;
mod install;
mod ipam;
mod kurma;
mod kuryr;
mod limit;
mod manual;
mod mapped;
mod network;
mod orphans;
mod output;
mod pending;
mod plugin;
mod podman;
mod port;
mod ports;
mod ps;
mod reference;
mod shell;
mod shown;
mod status_table;
mod stock;
mod summary;
mod table;
mod titles;
mod traffic;
mod units;
mod usage;
mod via;
mod view;
mod web;
mod yaml;

use std::error::Error as _;
use std::ffi::OsString;
use std::io::Write;

use ::host::exit;
use ::host::exit::exit_code;
use clap::error::{ContextKind, ContextValue};
use model::{Kind, Result};

use answer::Answer;
pub use answer::sentence;
use args::{Cli, Command};
pub use cni::run_tool;
pub use context::{CommandContext, Report};
pub use shown::content;
pub use summary::{clashes, finding, pools};

/// Runs the command that `args` names (its own name first) and returns the exit code.
pub fn run(
    args: Vec<OsString>,
    context: &CommandContext,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let cli = match groups::parse(args) {
        Ok(cli) => cli,
        Err(usage) => return refuse(&usage, out, err),
    };
    match dispatch(&cli, context, out) {
        Ok(answer) => {
            for note in answer.notes.iter().chain(&daemon::note(&cli.command, context)) {
                let _ = writeln!(err, "spoke: {}", sentence(note));
            }
            written(exit::write(out, &answer.text), answer.code, err)
        }
        Err(error) => {
            // What the kernel denies, and not an image that is not signed, or a cloud.
            let is_the_kernels = error.kind() == Kind::Denied && error.source().is_some();
            let who = match is_the_kernels && !rustix::process::geteuid().is_root() {
                true => "; run it as root",
                false => "",
            };
            let _ = writeln!(err, "spoke: {}{who}", sentence(&error));
            exit_code(error.kind())
        }
    }
}

/// The exit code of what was done, where its result was written.
fn written(written: Result<bool>, code: u8, err: &mut dyn Write) -> u8 {
    match written {
        Ok(_) => code,
        Err(error) => {
            let _ = writeln!(err, "spoke: {}", sentence(&error));
            code.max(exit_code(error.kind()))
        }
    }
}

fn refuse(usage: &clap::Error, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let text = usage.render().to_string();
    if usage.use_stderr() {
        let text = bounded(usage, text);
        // A command without the one that it needs shows its help: that is no sentence about an error.
        let _ = match text.strip_prefix("error: ") {
            Some(text) => writeln!(err, "spoke: {}", sentence(&text)),
            None => writeln!(err, "{}", sentence(&text)),
        };
        exit_code(Kind::Invalid)
    } else {
        written(exit::write(out, &text), 0, err)
    }
}

/// Command-line text may come from anywhere: its quote is neither long, nor more than one line.
fn bounded(usage: &clap::Error, text: String) -> String {
    let kinds =
        [ContextKind::InvalidValue, ContextKind::InvalidArg, ContextKind::InvalidSubcommand];
    kinds.iter().filter_map(|kind| usage.get(*kind)).fold(text, |text, given| match given {
        ContextValue::String(given) => match model::text::shown(given) {
            shown if shown == *given => text,
            shown => text.replace(given.as_str(), &shown),
        },
        _ => text,
    })
}

fn dispatch(cli: &Cli, context: &CommandContext, out: &mut dyn Write) -> Result<Answer> {
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

#[cfg(test)]
#[path = "../../host/src/test_file.rs"]
mod test_file;
#[cfg(test)]
mod tests;
