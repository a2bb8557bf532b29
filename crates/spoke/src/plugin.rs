//! Called as a CNI plugin: one request, one answer, exit.

use std::io::{IsTerminal, Read, Write};
use std::path::Path;

use cni::wire::{Command, Environment, Failure, Version};
use cni::{Context, ManyHosts, Output, Plugin};
use config::{Config, StoreConfig};
use engine::Engine;
use host::exit;
use host::host_context::HostContext;
use host::hosts::{self, SharedNetworkSpec};
use host::replaced;
use host::time;
use linux::identity::bridge_mac;
use model::{Error, Network, NetworkName, Result, SharedRules};
use netlink::{At, Socket};

use crate::rootless;

/// Which sysctls the plugin `tuning` may set; where the reference plugin has it.
const ALLOWLIST: &str = "/etc/cni/tuning/allowlist.conf";

/// The plugin of this name, if there is one. As `spoke` it is the plugin of that type only where a
/// CNI runtime calls.
pub(crate) fn named(name: &str) -> Option<Plugin> {
    let called = std::env::var_os("CNI_COMMAND").is_some();
    Plugin::named(name).filter(|plugin| *plugin != Plugin::Spoke || called)
}

/// Answers the request that environment and standard input make; returns the exit code.
pub(crate) fn run(plugin: Plugin) -> u8 {
    let environment = Environment::read(|name| std::env::var(name).ok());
    let mut is_written = true;
    let admit = |store: &StoreConfig| admit(plugin, store);
    let output = deliver(plugin, &environment, &mut *input(), &admit, &mut |output| {
        let _ = std::io::stderr().write_all(output.stderr.as_bytes());
        is_written = exit::deliver(&output.stdout).is_ok();
        is_written
    });
    match u8::try_from(output.code) {
        Ok(code) if is_written => code,
        Ok(_) | Err(_) => 1,
    }
}

/// The plugin's answer to a request of any caller.
pub(crate) fn call(plugin: Plugin, environment: &Environment, input: &mut dyn Read) -> Output {
    deliver(plugin, environment, input, &|_| Ok(()), &mut |_| true)
}

/// Leaves the call of a user, who may not write the records of this host, to the plugin that Spoke's replaced.
///
/// # Errors
/// Where there is none.
fn admit(plugin: Plugin, store: &StoreConfig) -> Result<()> {
    if !rootless::is_shut_out(store) {
        return Ok(());
    }
    replaced::execute(plugin.name())?;
    Err(rootless::refusal())
}

/// Passes the answer to `report`, which returns whether it was delivered. `admit` is asked before anything is read of
/// `input` for a call that needs the records.
fn deliver(
    plugin: Plugin,
    environment: &Environment,
    input: &mut dyn Read,
    admit: &dyn Fn(&StoreConfig) -> Result<()>,
    report: &mut dyn FnMut(&Output) -> bool,
) -> Output {
    if let Some(output) = cni::introduce(plugin, environment, input) {
        report(&output);
        return output;
    }
    let read = Config::of_this_host();
    let admitted = match &read {
        Ok(config) => admit(&config.store),
        // A user may not be able to read it.
        Err(_) => admit(&StoreConfig::default()),
    };
    let answered = admitted.and_then(|()| answer(plugin, environment, input, read, report));
    answered.unwrap_or_else(|error| {
        let command = Command::parse(&environment.command).unwrap_or(Command::Add);
        let failure = Failure::of(&error, command).render(Version::LATEST);
        let output = Output { stdout: format!("{failure}\n"), code: 1, ..Output::default() };
        report(&output);
        output
    })
}

fn answer(
    plugin: Plugin,
    environment: &Environment,
    input: &mut dyn Read,
    config: Result<Config>,
    report: &mut dyn FnMut(&Output) -> bool,
) -> Result<Output> {
    let (config, note) = match config {
        // A mistake in it is no reason to keep a container's network alive.
        Err(error) if environment.command == "DEL" => {
            (Config::default(), format!("DEL goes by the default configuration: {error}\n"))
        }
        read => (read?, String::new()),
    };
    let host_context = HostContext::open(&config)?;
    let engine = host_context.engine();
    let context = Context {
        engine: &engine,
        backend: config.firewall.backend,
        namespaces: &cni::Kernel,
        now: time::now(),
        allowlist: Path::new(ALLOWLIST),
        share: &|many| share(&config, &engine, many),
    };
    let mut output = cni::run(plugin, environment, input, &context);
    output.stderr.insert_str(0, &note);
    if report(&output) {
        for (id, layer) in &output.unreported {
            // Where it cannot be noted, the worst is that a second ADD is not refused.
            let _ = engine.attachments.answered(id, *layer);
        }
    }
    Ok(output)
}

/// Has the daemon declare a network of many hosts, unless this host has it: then the daemon is not asked.
fn share(config: &Config, engine: &Engine<'_>, many: &ManyHosts) -> Result<Option<Network>> {
    let made = hosts::networks(&hosts::place(&config.store.state)).join(many.name.as_str());
    // The file says that the daemon is about to make it, the record that it has: the daemon is asked in between.
    let known = match made.exists() {
        true => engine.records.declared(&many.name)?,
        false => None,
    };
    if let Some(known) = &known {
        refuse_other_rules(known, many)?;
    }
    if known.is_some() && is_linked(&many.name)? {
        return Ok(known);
    }
    let wanted = SharedNetworkSpec::of(&many.name, &many.subnets, &many.spec)?;
    // Another process or host may be declaring it at this moment, by the same list.
    match hosts::declare(&config.store.runtime, SharedNetworkSpec { or_join: true, ..wanted }) {
        // What this host has is of use also while the daemon, or etcd, is away.
        Err(_) if known.is_some() => Ok(known),
        declared => declared.and_then(|()| engine.records.declared(&many.name)),
    }
}

/// A list without rules takes the network as it is.
fn refuse_other_rules(known: &Network, many: &ManyHosts) -> Result<()> {
    match SharedRules::of(&known.wiring).satisfy(&many.spec.rules) {
        true => Ok(()),
        false => Err(Error::conflict(format!(
            "network {} of the cluster has other rules (ingressPolicy, egress, egressStrict) than this list asks for, and \
             rules do not change: remove the network, or take these fields out of the list",
            many.name
        ))),
    }
}

/// Whether the bridge has the hardware address of this host: until it is linked to other hosts it has that of its name, which
/// would be reported to the container's runtime as the gateway's.
fn is_linked(name: &NetworkName) -> Result<bool> {
    let bridge = model::bridge_name(name)?;
    let link = Socket::route()?.link(At::Name(&bridge))?;
    Ok(link.is_some_and(|link| link.mac != Some(bridge_mac(&bridge))))
}

/// A person who tries a plugin by hand has no standard input.
pub(crate) fn input() -> Box<dyn Read> {
    let stdin = std::io::stdin();
    match stdin.is_terminal() {
        true => Box::new(std::io::empty()),
        false => Box::new(stdin),
    }
}
