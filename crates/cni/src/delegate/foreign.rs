//! An IPAM plugin of somebody else, executed (CNI 1.1.0 §4, "Plugin Delegation").

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command as Process, ExitStatus, Stdio};

use engine::Members;
use engine::port::Offer;
use model::{Attachment, Error, ForeignIpam, Gateway, InterfaceAddress, LinkKind, Result, Sandbox};
use serde_json::{Value, json};

use crate::source::first_of;
use crate::wire::{Command, Document, Environment, Failure, LONGEST, Object, Success, Version};

/// Asks for addresses. Whoever called gives them back, also after a failure.
pub(super) fn add(ipam: &ForeignIpam, attachment: &Attachment) -> Result<Offer> {
    let (mut config, version) = configuration(ipam)?;
    config.as_object_mut().map(|object| object.remove("prevResult"));
    let environment = environment(Command::Add, ipam, Some(attachment));
    let output = execute(ipam, &environment, &config)?;
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
    Ok(Offer { addresses, routes: success.routes, dns: success.dns })
}

/// Gives back what the plugin gave.
pub(super) fn del(ipam: &ForeignIpam, attachment: &Attachment) -> Result<()> {
    let config = with_previous(ipam, attachment)?;
    let environment = environment(Command::Del, ipam, Some(attachment));
    execute(ipam, &environment, &config).map(|_| ())
}

/// Asks the plugin whether it still holds what it gave.
pub(super) fn check(ipam: &ForeignIpam, attachment: &Attachment) -> Result<()> {
    let config = with_previous(ipam, attachment)?;
    let environment = environment(Command::Check, ipam, Some(attachment));
    execute(ipam, &environment, &config).map(|_| ())
}

/// Tells the plugin who is left. Before 1.1.0 there was no such command.
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
    execute(ipam, &environment(Command::Gc, ipam, None), &config).map(|_| ())
}

/// Asks the plugin whether it is ready. Before 1.1.0 there was no such command.
pub(super) fn status(ipam: &ForeignIpam) -> Result<()> {
    let (config, version) = configuration(ipam)?;
    match version < Version::V110 {
        true => Ok(()),
        false => execute(ipam, &environment(Command::Status, ipam, None), &config).map(|_| ()),
    }
}

fn configuration(ipam: &ForeignIpam) -> Result<(Value, Version)> {
    let broken = |why: &dyn std::fmt::Display| {
        Error::bug(format!("the recorded configuration of {} is broken: {why}", ipam.plugin))
    };
    let config: Value = serde_json::from_str(&ipam.config).map_err(|why| broken(&why))?;
    let version = config.get("cniVersion").and_then(Value::as_str).unwrap_or_default();
    let version = Version::parse(version).ok_or_else(|| broken(&version))?;
    Ok((config, version))
}

/// From 0.4.0 on the plugin gets its own result back.
fn with_previous(ipam: &ForeignIpam, attachment: &Attachment) -> Result<Value> {
    let (mut config, version) = configuration(ipam)?;
    if version >= Version::V040 && !attachment.addresses.is_empty() {
        let previous = Success::of_leases(attachment).render(version)?;
        if let Some(object) = config.as_object_mut() {
            object.insert("prevResult".into(), previous);
        }
    }
    Ok(config)
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
        ..Environment::default()
    };
    if let Some(attachment) = attachment {
        environment.container = attachment.id.container.to_string();
        environment.ifname = attachment.id.ifname.to_string();
        environment.netns = attachment.sandbox.as_ref().map(netns).unwrap_or_default();
    }
    environment
}

/// The first regular file of that name in the directories, in order.
fn find(ipam: &ForeignIpam) -> Result<PathBuf> {
    let files = ipam.path.iter().map(|directory| directory.join(ipam.plugin.as_str()));
    files.into_iter().find(|file| file.is_file()).ok_or_else(|| {
        let path: Vec<String> = ipam.path.iter().map(|dir| dir.display().to_string()).collect();
        Error::invalid(format!(
            "failed to find plugin {:?} in path [{}]",
            ipam.plugin.as_str(),
            path.join(" ")
        ))
    })
}

/// Runs the plugin to its end; its standard error is ours.
fn execute(ipam: &ForeignIpam, environment: &Environment, config: &Value) -> Result<Vec<u8>> {
    let file = find(ipam)?;
    let failed = |cause| Error::os(format!("executing {}", file.display()), cause);
    let mut process = Process::new(&file);
    for (name, value) in environment.variables() {
        match value.is_empty() && name != "CNI_NETNS" {
            true => process.env_remove(name),
            false => process.env(name, value),
        };
    }
    let mut child = process.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let text = config.to_string();
    let mut said = Vec::new();
    // A plugin may answer before it has read everything, or without reading at all.
    let read = std::thread::scope(|scope| {
        scope.spawn(|| input.map(|mut input| input.write_all(text.as_bytes())));
        output.map_or(Ok(0), |output| output.take(LONGEST + 1).read_to_end(&mut said))
    });
    let status = child.wait().map_err(failed)?;
    read.map_err(failed)?;
    if said.len() as u64 > LONGEST {
        let msg = format!("the IPAM plugin {} printed more than {LONGEST} bytes", ipam.plugin);
        return Err(Error::invalid(msg));
    }
    match status.success() {
        true => Ok(said),
        false => Err(refusal(ipam, environment, &said, status)),
    }
}

fn refusal(
    ipam: &ForeignIpam,
    environment: &Environment,
    said: &[u8],
    status: ExitStatus,
) -> Error {
    let value: Option<Value> = serde_json::from_slice(said).ok();
    let object = value.as_ref().and_then(Value::as_object);
    let failure = object.and_then(|map| Failure::parse(&Object::new("", map)));
    let failure = failure.unwrap_or_else(|| {
        let msg = format!("IPAM plugin {} failed without an error message: {status}", ipam.plugin);
        Failure::new(999, msg)
    });
    failure.into_error(format!("{} by the IPAM plugin {}", environment.command, ipam.plugin))
}

/// Whether the host has the gateway's address on this link.
fn has_gateway(attachment: &Attachment) -> bool {
    match attachment.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Bridge(bridge)) => bridge.gateway != Gateway::None,
        Some(LinkKind::Ptp(_)) => true,
        Some(LinkKind::Loopback) | None => false,
    }
}

fn name_gateway(held: &mut InterfaceAddress) {
    held.gateway = held.gateway.or_else(|| first_of(&held.address));
}
