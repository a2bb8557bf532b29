//! The command line: what was typed is parsed once, each command answers with text and an exit
//! code, and only [`run`] writes.

mod args;
mod backup;
mod claims;
mod cni;
mod container;
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

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use ::docker::api::Container;
use ::host::cloud::Listed;
use ::host::dataplane::Foreign;
use ::host::facts::HostFacts;
use ::host::kurma::Host;
use ::host::standard;
use ::host::standard::exit_code;
use ::neutron::Neutron;
use clap::error::{ContextKind, ContextValue};
use engine::Engine;
use model::{Backend, Kind, PortMap, Result, Timestamp};

use args::{Cli, Command, Output};
pub use cni::run_tool;
pub use shown::content;
pub use summary::{clashes, finding, pools};

/// Everything outside the process that commands read or change.
pub struct HostContext<'a> {
    /// Opens the store; called only by commands that need it.
    pub engine: &'a dyn Fn() -> Result<Engine<'a>>,
    /// The kernel's links, routes and packet filter of this host.
    pub facts: &'a dyn Fn() -> Result<HostFacts>,
    /// The program that listens on a port of this host.
    pub taken: &'a dyn Fn(&PortMap) -> linux::Taken,
    /// The root of the file system: `/`, or a test's directory.
    pub root: PathBuf,
    /// The running executable, which `cni install` copies.
    pub executable: PathBuf,
    /// Where the daemon's sockets are.
    pub runtime: PathBuf,
    /// The directories that the book is kept in.
    pub store: Vec<PathBuf>,
    /// The packet filter that new networks use.
    pub backend: Backend,
    /// The time.
    pub now: Timestamp,
    /// The socket at which Docker calls.
    pub socket: PathBuf,
    /// The networking pod.
    pub kurma: Host,
    /// Whether this host resolves names of its networks.
    pub names_host: bool,
    /// The socket at which Docker calls the plugin kuryr, where that is served.
    pub kuryr: Option<PathBuf>,
    /// Neutron, where this host is configured for one.
    pub neutron: &'a dyn Fn() -> Result<Option<Arc<Neutron>>>,
    /// The ids of the networks that the Docker Engines of this host list; `None` where not all of them
    /// answer, or none is asked.
    pub listed: &'a dyn Fn() -> Option<Listed>,
    /// The third-party Docker plugins.
    pub foreign: &'a dyn Fn() -> Result<Arc<Foreign>>,
    /// The running containers of each Docker Engine of this host, `NotFound` where there is none; called only where
    /// Docker maps ports, or these are listed.
    pub running: &'a dyn Fn() -> Vec<Result<Vec<Container>>>,
    /// Reports the changes of attachments' records, for commands that follow them.
    pub watch: &'a dyn Fn() -> Result<store::Watch>,
    /// Where the daemon writes what happens.
    pub events: PathBuf,
    /// Runs the daemon until it is stopped.
    pub serve: &'a dyn Fn() -> Result<()>,
    /// Calls the service manager of this host; `None` where there is none.
    pub systemctl: Option<&'a Report<'a>>,
}

/// Calls another program.
pub type Report<'a> = dyn Fn(&[&str]) -> Result<()> + 'a;

/// The output of a command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    /// For standard output.
    text: String,
    /// For standard error, one line each.
    notes: Vec<String>,
    /// The exit code.
    code: u8,
}

impl Answer {
    fn text(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

/// The exit code of a check that found something.
const FOUND: u8 = 1;

/// Runs the command that `args` names (its own name first) and returns the exit code.
pub fn run(
    args: Vec<OsString>,
    host_context: &HostContext,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let cli = match groups::parse(args) {
        Ok(cli) => cli,
        Err(usage) => return refuse(&usage, out, err),
    };
    match dispatch(&cli, host_context, out) {
        Ok(answer) => {
            for note in &answer.notes {
                let _ = writeln!(err, "spoke: {}", sentence(note));
            }
            written(standard::write(out, &answer.text), answer.code, err)
        }
        Err(error) => {
            let _ = writeln!(err, "spoke: {}", sentence(&error));
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

/// An error that quotes a third party must not control the terminal.
pub fn sentence(text: &impl std::fmt::Display) -> String {
    text.to_string().lines().map(table::clean).collect::<Vec<_>>().join("\n")
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
        written(standard::write(out, &text), 0, err)
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

fn dispatch(cli: &Cli, host_context: &HostContext, out: &mut dyn Write) -> Result<Answer> {
    cli.output.refuse_routes(&cli.command)?;
    match &cli.command {
        Command::Serve => (host_context.serve)().map(|()| Answer::default()),
        Command::Dhcp(command) => dhcp::run(command, cli.output, host_context),
        Command::Dns(command) => dns::run(command, cli.output, host_context),
        Command::Egress(command) => egress::run(command, cli.output, host_context),
        Command::Denied(wanted) if wanted.follow => {
            denied::follow(wanted, cli.output, host_context, out)
        }
        Command::Denied(wanted) => denied::show(wanted, cli.output, host_context),
        Command::Docker(command) => docker::run(command, cli.output, host_context),
        Command::Kurma(command) => kurma::run(command, cli.output, host_context),
        Command::Kuryr(command) => kuryr::run(command, cli.output, host_context),
        Command::Neutron(command) => stock::run(command, cli.output, host_context),
        Command::Plugin(command) => plugin::run(command, cli.output, host_context),
        Command::Podman(command) => podman::run(command, cli.output, host_context),
        Command::Events(wanted) if wanted.follow => {
            events::follow(wanted, cli.output, host_context, out)
        }
        Command::Events(wanted) => events::show(wanted, cli.output, host_context),
        Command::Traffic(command) => traffic::run(command, cli.output, host_context, out),
        Command::Explain(wanted) => explain::run(wanted, cli.output, host_context),
        Command::Ports(wanted) => ports::run(wanted, cli.output, host_context),
        Command::Limit(wanted) => limit::run(wanted, cli.output, host_context),
        Command::Port(command) => port::run(command, cli.output, host_context),
        Command::Firewall(command) => firewall::run(command, cli.output, host_context),
        Command::Endpoint(command) => endpoint::run(command, cli.output, host_context),
        Command::Host(command) => host::run(command, cli.output, host_context),
        Command::Network(command) => network::run(command, cli.output, host_context),
        Command::Ps(wanted) => ps::run(wanted, cli.output, host_context),
        Command::Ipam(command) => ipam::run(command, cli.output, host_context),
        Command::Gc(gc) => findings::collect(gc, cli.output, host_context),
        Command::Backup(wanted) => backup::backup(wanted, host_context),
        Command::Restore(wanted) => backup::restore(wanted, cli.output, host_context),
        Command::Doctor => doctor::run(cli.output, host_context),
        Command::Cni(command) => install::run(command, cli.output, host_context),
        Command::Version => shell::version(cli.output),
        Command::Web(wanted) => web::run(wanted, cli.output, host_context, out),
        Command::Completion { shell } => shell::completion(*shell),
        Command::Man { directory } => manual::write(directory),
    }
}

#[cfg(test)]
#[path = "../../host/src/test_file.rs"]
mod test_file;
#[cfg(test)]
mod tests;
