//! Called by Podman or netavark as a network plugin: one document, one answer, exit.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use config::Config;
use engine::Mode;
use host::exit;
use host::host_context::HostContext;
use host::hosts::{self, SharedNetworkSpec};
use host::podman_networks::{PodmanNetworks, known};
use host::time;
use model::Result;
use podman::{Context, DRIVER, ManyHosts, Output, Verb};

use crate::plugin::input;
use crate::rootless;

/// The command, if a program of this name and with these arguments is called as a plugin.
pub(crate) fn called(name: Option<&OsStr>, args: &[OsString]) -> Option<Verb> {
    let words: Option<Vec<String>> =
        args.iter().skip(1).map(|word| word.to_str().map(str::to_owned)).collect();
    Verb::parse(&words?).filter(|_| name == Some(OsStr::new(DRIVER)))
}

/// Answers the document on standard input; returns the exit code.
pub(crate) fn run(verb: &Verb) -> u8 {
    let output = match podman::introduce(verb) {
        Some(reported) => reported,
        None => answer(verb).unwrap_or_else(|error| Output::error(&error)),
    };
    match exit::deliver(&output.stdout) {
        Ok(()) => output.code,
        Err(_) => 1,
    }
}

fn answer(verb: &Verb) -> Result<Output> {
    if rootless::is_declared() {
        return Err(rootless::refusal());
    }
    let config = match Config::of_this_host() {
        // A mistake in it is no reason to keep a container's network alive.
        Err(_) if matches!(verb, Verb::Teardown(_)) => Config::default(),
        read => read?,
    };
    let host_context = HostContext::open(&config)?;
    let engine = host_context.engine();
    let PodmanNetworks { networks, unread } = match verb {
        Verb::Create => known(Path::new("/")),
        Verb::Setup(_) | Verb::Teardown(_) | Verb::Info => PodmanNetworks::default(),
    };
    if *verb == Verb::Create && unread.is_none() {
        // Networks that Podman has removed must not clash with the new one. If this fails, they do.
        let _ = podman::forgotten(&engine, &networks, Mode::Mend);
    }
    let context = Context {
        engine: &engine,
        backend: config.firewall.backend,
        now: time::now(),
        declare: &|many| declare(&config.store.runtime, many),
        networks: &networks,
    };
    Ok(podman::run(verb, &mut *input(), &context))
}

/// Has the daemon make a network for many hosts.
fn declare(runtime: &Path, many: &ManyHosts) -> Result<()> {
    let wanted = SharedNetworkSpec::of(&many.name, &many.subnets, &many.spec)?;
    hosts::declare(runtime, SharedNetworkSpec { ipv6: many.ipv6, ..wanted })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn only_under_the_driver_s_name() {
        let called = |name: &str, line: &str| called(Some(OsStr::new(name)), &args(line));
        assert_eq!(called("spoke", "spoke create"), Some(Verb::Create));
        assert_eq!(called("spoke", "spoke network create"), None);
        assert_eq!(called("bridge", "bridge create"), None);
    }
}
