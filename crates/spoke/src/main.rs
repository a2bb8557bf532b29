//! The one binary. Its name decides what it is: called as a CNI plugin (`bridge`, `host-local`,
//! …) it works and exits; called as `spoke` it is the command line, or the plugin of that type
//! where a CNI runtime calls it. In a directory `network` it is the executables of a Kurma plugin.

mod kurma;
mod netavark;
mod plugin;
mod rootless;

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use ::kurma::call::Verb;
use config::Config;
use engine::port::Prefix;
use host::dataplane::Opened;
use host::host_context::{self, HostContext};
use host::views::Views;
use host::{cloud, engines, exit, facts, time};
use linux::Life;
use model::{Error, Kind, Result};
use neutron::Neutron;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let name = args.first().and_then(|path| Path::new(path).file_name());
    if let Some(arguments) = dhcp_daemon(name, &args) {
        return ExitCode::from(daemon::dhcp::daemon(arguments));
    }
    if let Some(verb) = Verb::of_process(&args) {
        return ExitCode::from(kurma::run(verb, &args));
    }
    let code = match name.and_then(OsStr::to_str).and_then(plugin::named) {
        Some(plugin) => plugin::run(plugin),
        None if name == Some(OsStr::new(host::kurma::TYPE)) => kurma::run_out_of_image(),
        None if name == Some(OsStr::new("cnitool")) => tool(&args),
        None => match netavark::called(name, &args) {
            Some(verb) => netavark::run(&verb),
            None => command(args),
        },
    };
    ExitCode::from(code)
}

/// The arguments of `dhcp daemon`, where that is what this process is: by its name, or as a command.
fn dhcp_daemon<'a>(name: Option<&OsStr>, args: &'a [OsString]) -> Option<&'a [OsString]> {
    let is_named = name == Some(OsStr::new("dhcp"));
    match args {
        [_, verb, rest @ ..] if is_named && verb == "daemon" => Some(rest),
        [_, noun, verb, rest @ ..] if !is_named && noun == "dhcp" && verb == "daemon" => Some(rest),
        _ => None,
    }
}

/// CNI's reference program, which has no store.
fn tool(args: &[OsString]) -> u8 {
    let variable = |name: &str| std::env::var(name).ok();
    cli::run_tool(args, &variable, &mut std::io::stdout(), &mut std::io::stderr())
}

/// The command line. The store is opened by the commands that need it.
fn command(args: Vec<OsString>) -> u8 {
    // Not locked: the daemon's threads write to them too.
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let config = match Config::of_this_host() {
        Ok(config) => config,
        Err(error) => {
            let _ = writeln!(err, "spoke: {}", cli::sentence(&error));
            return exit::exit_code(error.kind());
        }
    };
    let (opened, asked) = (OnceCell::new(), Opened::new(Life::Short));
    let engine = || match opened.get_or_init(|| HostContext::asking(&config, &asked)) {
        Ok(host_context) => Ok(host_context.engine()),
        Err(error) => Err(Error::new(error.kind(), error.to_string())),
    };
    let listening = linux::Listening::default();
    let context = cli::CommandContext {
        engine: &engine,
        facts: &facts::read,
        taken: &|map| listening.taken(map),
        root: "/".into(),
        executable: std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into()),
        runtime: config.store.runtime.clone(),
        store: vec![config.store.runtime.clone(), config.store.state.clone()],
        backend: config.firewall.backend,
        now: time::now(),
        socket: config.docker.socket.clone(),
        neutron: &|| neutron_of(&config),
        listed: &|| cloud::listed(&config.docker, engines::TIMEOUT),
        docker_networks: &|| engines::networks(&config.docker),
        docker_driver: config.docker.enabled.then(|| config.docker.driver().to_owned()),
        kurma: host::kurma::Host::new(&config, &|name| std::env::var_os(name).map(PathBuf::from)),
        names_host: config.names.host,
        kuryr: config.kuryr.enabled.then(|| config.kuryr.socket.clone()),
        foreign: &|| asked.foreign(&config),
        running: &|| engines::running(&config.docker),
        runs: &|name| engines::runs(&config.docker, name),
        watch: &|| host_context::open_store(&config)?.watch(&[Prefix::Attachments]),
        events: config.events.path.clone(),
        serve: &|| daemon::run(config.clone(), VIEWS),
        systemctl: Path::new(SYSTEMD).exists().then_some(&systemctl),
    };
    cli::run(args, &context, &mut out, &mut err)
}

/// What the daemon reports as commands show it.
const VIEWS: Views = Views {
    content: cli::content,
    clashes: cli::clashes,
    pools: cli::pools,
    finding: cli::finding,
};

/// Neutron, where anything is configured of it.
fn neutron_of(config: &Config) -> Result<Option<Arc<Neutron>>> {
    let is_configured = config.kuryr.enabled || config.neutron.is_some();
    is_configured.then(|| Opened::new(Life::Short).neutron(config)).transpose()
}

/// There where systemd is the service manager (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";

fn systemctl(arguments: &[&str]) -> Result<()> {
    let doing = || format!("running systemctl {}", arguments.join(" "));
    let output = Command::new("systemctl").args(arguments).output();
    let output = output.map_err(|cause| Error::os(doing(), cause))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let given = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(Error::new(Kind::Kernel, given).context(doing()))
        }
    }
}
