//! A third-party IPAM plugin, executed (CNI 1.1.0 §4, "Plugin Delegation").

use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};
use std::{fs, io};

use engine::Members;
use engine::port::Offer;
use model::{Attachment, Error, ForeignIpam, InterfaceAddress, Result, Sandbox};
use serde_json::{Value, json};

use crate::execute::{Input, LIMIT, execute, find, program_lock, refusal as failure_of};
use crate::wire::{Command, Document, Environment, LONGEST, Object, Success, Version};

/// The lock of an attachment, which the plugin has while it runs.
type Lock = Option<PathBuf>;

/// Asks for addresses. The caller releases them, also after a failure.
pub(super) fn add(ipam: &ForeignIpam, attachment: &Attachment, lock: Lock) -> Result<Offer> {
    let (mut config, version) = configuration(ipam)?;
    remove_previous(&mut config);
    let environment = environment(Command::Add, ipam, Some(attachment));
    let output = call(ipam, &environment, &config, lock)?;
    let doing = || format!("reading the result of the IPAM plugin {}", ipam.plugin);
    let document = Document::parse(&output).map_err(|failure| failure.into_error(doing()))?;
    let success = Success::parse(&document.root(), version).map_err(|e| e.context(doing()))?;
    if success.ips.is_empty() && attachment.wiring.link.is_some() {
        return Err(Error::invalid(format!(
            "IPAM plugin returned missing IP config: {} gave no address",
            ipam.plugin
        )));
    }
    let mut addresses = success.addresses();
    if has_gateway(attachment) {
        addresses.iter_mut().for_each(name_gateway);
    }
    Ok(Offer { addresses, routes: success.routes, dns: success.dns, link: None })
}

/// Releases what the plugin gave. A plugin that still asks, because only its caller was killed, ends first:
/// otherwise it would allocate what nothing releases.
pub(super) fn del(ipam: &ForeignIpam, attachment: &Attachment, lock: Lock) -> Result<()> {
    let config = with_previous(ipam, attachment)?;
    let environment = environment(Command::Del, ipam, Some(attachment));
    call(ipam, &environment, &config, lock.clone())?;
    match lock.map(fs::remove_file) {
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::os(format!("removing the lock of {}", attachment.id), error))
        }
        _ => Ok(()),
    }
}

/// Asks the plugin whether it still holds what it gave.
pub(super) fn check(ipam: &ForeignIpam, attachment: &Attachment, lock: Lock) -> Result<()> {
    let config = with_previous(ipam, attachment)?;
    let environment = environment(Command::Check, ipam, Some(attachment));
    call(ipam, &environment, &config, lock).map(|_| ())
}

/// Passes the valid attachments to the plugin. Before 1.1.0 there was no such command.
pub(super) fn gc(ipam: &ForeignIpam, valid: &Members) -> Result<()> {
    let (mut config, version) = configuration(ipam)?;
    if version < Version::V110 {
        return Ok(());
    }
    let member = |(container, ifname): &(model::ContainerId, model::IfName)| json!({"containerID": container.as_str(), "ifname": ifname.as_str()});
    let members: Vec<Value> = valid.iter().map(member).collect();
    if let Some(object) = config.as_object_mut() {
        object.insert("cni.dev/valid-attachments".into(), Value::Array(members));
    }
    call(ipam, &environment(Command::Gc, ipam, None), &config, None).map(|_| ())
}

/// Asks the plugin whether it is ready. Before 1.1.0 there was no such command.
pub(super) fn status(ipam: &ForeignIpam) -> Result<()> {
    let (config, version) = configuration(ipam)?;
    match version < Version::V110 {
        true => Ok(()),
        false => call(ipam, &environment(Command::Status, ipam, None), &config, None).map(|_| ()),
    }
}

fn configuration(ipam: &ForeignIpam) -> Result<(Value, Version)> {
    let broken = |why: &dyn std::fmt::Display| {
        Error::bug(format!("the recorded configuration of {} is broken: {why}", ipam.plugin))
    };
    let config: Value = serde_json::from_str(&ipam.config).map_err(|why| broken(&why))?;
    let object = config.as_object().ok_or_else(|| broken(&"it is not an object"))?;
    let version = Object::new("", object).text("cniVersion")?.unwrap_or_default();
    let version = Version::parse(version).ok_or_else(|| broken(&version))?;
    Ok((config, version))
}

/// From 0.4.0 on the plugin gets its own result back.
fn with_previous(ipam: &ForeignIpam, attachment: &Attachment) -> Result<Value> {
    let (mut config, version) = configuration(ipam)?;
    if version >= Version::V040 && !attachment.addresses.is_empty() {
        let previous = Success::of_leases(attachment).render(version)?;
        remove_previous(&mut config);
        if let Some(object) = config.as_object_mut() {
            object.insert("prevResult".into(), previous);
        }
    }
    Ok(config)
}

/// However it is written.
fn remove_previous(config: &mut Value) {
    if let Some(object) = config.as_object_mut() {
        object.retain(|key, _| !key.eq_ignore_ascii_case("prevResult"));
    }
}

fn environment(
    command: Command,
    ipam: &ForeignIpam,
    attachment: Option<&Attachment>,
) -> Environment {
    let path: Vec<String> = ipam.path.iter().map(|dir| dir.display().to_string()).collect();
    let netns = |sandbox: &Sandbox| sandbox.path.display().to_string();
    let mut environment = Environment {
        command: command.as_str().to_owned(),
        args: ipam.args.clone(),
        path: path.join(":"),
        netns_override: if ipam.own_namespace { "1".to_owned() } else { String::new() },
        ..Environment::default()
    };
    if let Some(attachment) = attachment {
        environment.container = attachment.id.container.to_string();
        environment.ifname = attachment.id.ifname.to_string();
        environment.netns = attachment.sandbox.as_ref().map(netns).unwrap_or_default();
    }
    environment
}

/// What is left at least for a plugin that had to wait for another one.
const SHORTEST: Duration = Duration::from_secs(10);

/// The plugin's output when it succeeds.
fn call(
    ipam: &ForeignIpam,
    environment: &Environment,
    config: &Value,
    lock: Lock,
) -> Result<Vec<u8>> {
    let found = find(ipam.plugin.as_str(), &ipam.path);
    let file = found.map_err(|error| Error::invalid(error.to_string()))?;
    let start = Instant::now();
    let input = match lock {
        Some(lock) => Input::File(program_lock::take(&lock, &config.to_string(), LIMIT)?),
        None => Input::Text(config.to_string()),
    };
    let rest = LIMIT.saturating_sub(start.elapsed()).max(SHORTEST);
    let ended = execute(&file, environment, input, rest)?;
    if ended.stdout.len() as u64 > LONGEST {
        let msg = format!("the IPAM plugin {} printed more than {LONGEST} bytes", ipam.plugin);
        return Err(Error::invalid(msg));
    }
    match ended.status.success() {
        true => Ok(ended.stdout),
        false => Err(refusal(ipam, environment, &ended)),
    }
}

fn refusal(ipam: &ForeignIpam, environment: &Environment, ended: &Output) -> Error {
    // Its output is passed on, also where it has no code or is no error object.
    let failure = failure_of(&ended.stdout, &ended.stderr, ended.status);
    failure.into_error(format!("{} by the IPAM plugin {}", environment.command, ipam.plugin))
}

/// Whether the host has the gateway's address on this link.
fn has_gateway(attachment: &Attachment) -> bool {
    attachment.wiring.link.as_ref().is_some_and(|link| link.kind.has_gateway())
}

fn name_gateway(held: &mut InterfaceAddress) {
    held.gateway = held.gateway.or_else(|| model::first_host(&held.address));
}
