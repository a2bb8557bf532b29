//! The one binary. Its name decides what it is: called as a CNI plugin (`bridge`, `host-local`,
//! …) it works and exits; called as `spoke` it is the command line, or the plugin of that type
//! where a CNI runtime calls it.

mod cli;
mod config;
mod facts;
mod host;
mod plugin;
mod world;

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use linux::Life;
use model::Error;

use crate::config::Config;
use crate::world::World;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let name = args.first().and_then(|path| Path::new(path).file_name());
    let code = match name.and_then(OsStr::to_str).and_then(plugin::named) {
        Some(plugin) => plugin::run(plugin),
        None => command(args),
    };
    ExitCode::from(code)
}

/// The command line. The book is opened by the commands that need it.
fn command(args: Vec<OsString>) -> u8 {
    let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr().lock());
    let config = match Config::of_this_host() {
        Ok(config) => config,
        Err(error) => {
            let _ = writeln!(err, "spoke: {error}");
            return cli::exit_code(error.kind());
        }
    };
    let opened = OnceCell::new();
    let engine = || match opened.get_or_init(|| World::open(&config, Life::Long)) {
        Ok(world) => Ok(world.engine()),
        Err(error) => Err(Error::new(error.kind(), error.to_string())),
    };
    let shown = cli::World {
        engine: &engine,
        facts: &facts::gather,
        root: "/".into(),
        executable: std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into()),
        store: vec![config.store.runtime.clone(), config.store.state.clone()],
        backend: config.firewall.backend,
        now: host::now(),
    };
    cli::run(args, &shown, &mut out, &mut err)
}
