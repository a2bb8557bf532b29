//! `spoke cni add` and its siblings: the calls of a CNI runtime, by hand.

mod tool;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use ::cni::runtime::{
    Cache, CachedAttachment, NetworkList, Programs, Runtime, Target, Valid, configured,
    container_of, load, parse_args,
};
use ::cni::wire::{Failure, Object, Success, Version};
use model::{ContainerId, Error, IfName, Kind, Result};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::args::cni::{AttachmentsArgs, Directories, GcArgs, ListArgs, OneArgs, RuntimeCommand};
use crate::context::CommandContext;
use crate::output::table::Table;
use crate::output::{Output, render};
pub use tool::run as run_tool;

pub(crate) fn run(
    command: &RuntimeCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    match command {
        RuntimeCommand::Add(wanted) => add(wanted, output),
        RuntimeCommand::Del(wanted) => del(wanted),
        RuntimeCommand::Check(wanted) => check(wanted),
        RuntimeCommand::Gc(wanted) => gc(wanted, context),
        RuntimeCommand::List(wanted) => list(wanted, output),
        RuntimeCommand::Attachments(wanted) => attachments(wanted, output),
    }
}

/// Whether the network is ready for containers.
pub(crate) fn status(network: &str, place: &Directories) -> Result<Answer> {
    let list = load(&place.conf_dir, network)?;
    with(place, |runtime| runtime.status(&list))?;
    Ok(Answer::default())
}

fn with<T>(
    place: &Directories,
    work: impl FnOnce(&Runtime<'_>) -> std::result::Result<T, Failure>,
) -> Result<T> {
    let programs = Programs::new(place.path.clone(), &complain);
    let cache = Cache::new(&place.kept.cache_dir);
    work(&Runtime { programs: &programs, cache: &cache }).map_err(reported)
}

/// Plugins' standard error is for the caller.
pub(crate) fn complain(given: &[u8]) {
    // Without standard error there is no reader.
    let _ = std::io::stderr().write_all(given);
}

fn reported(failure: Failure) -> Error {
    Error::new(failure.kind(), failure.to_string())
}

fn add(wanted: &OneArgs, output: Output) -> Result<Answer> {
    let list = load(&wanted.place.conf_dir, &wanted.network)?;
    let target = target(wanted)?;
    let result = with(&wanted.place, |runtime| runtime.add(&list, &target))?;
    Ok(Answer::text(render(output, &result, || indented(&result) + "\n")?))
}

fn del(wanted: &OneArgs) -> Result<Answer> {
    let (list, target) = made(wanted)?;
    with(&wanted.place, |runtime| runtime.del(&list, &target))?;
    Ok(Answer::default())
}

fn check(wanted: &OneArgs) -> Result<Answer> {
    let (list, target) = made(wanted)?;
    with(&wanted.place, |runtime| runtime.check(&list, &target))?;
    Ok(Answer::default())
}

/// An existing attachment, with its plugins' stored parameters unless others are given. A network
/// that is not configured any more is as it was then.
fn made(wanted: &OneArgs) -> Result<(NetworkList, Target)> {
    let mut target = target(wanted)?;
    let name = wanted.network.parse()?;
    let known = Cache::new(&wanted.place.kept.cache_dir).recall(&name, &target);
    let list = match (load(&wanted.place.conf_dir, &wanted.network), &known) {
        (Err(error), Some(known)) if error.kind() == Kind::NotFound => {
            NetworkList::parse(&known.config)?
        }
        (list, _) => list?,
    };
    if let Some(CachedAttachment { target: then, .. }) = known {
        if target.netns.is_empty() {
            target.netns = then.netns;
        }
        if target.args.is_empty() {
            target.args = then.args;
        }
        if target.capabilities.is_empty() {
            target.capabilities = then.capabilities;
        }
    }
    Ok((list, target))
}

fn target(wanted: &OneArgs) -> Result<Target> {
    let netns = wanted.netns.as_deref().map(absolute).transpose()?;
    let container = match (&wanted.container, &netns) {
        (Some(container), _) => container.clone(),
        (None, Some(netns)) => container_of(netns)?,
        (None, None) => return Err(Error::invalid("no network namespace and no container")),
    };
    let netns = netns.map(|netns| netns.display().to_string()).unwrap_or_default();
    Ok(Target {
        args: parse_args(&wanted.args)?,
        capabilities: capabilities(&wanted.capabilities)?,
        ..Target::new(container, netns, wanted.ifname.clone())
    })
}

/// The path from the root, with `.`, `..` and repeated slashes resolved as text.
fn absolute(path: &Path) -> Result<PathBuf> {
    let doing = || format!("the path of {}", path.display());
    let path = std::path::absolute(path).map_err(|cause| Error::os(doing(), cause))?;
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                clean.pop();
            }
            part => clean.push(part),
        }
    }
    Ok(clean)
}

fn capabilities(text: &str) -> Result<Map<String, Value>> {
    match text.is_empty() {
        true => Ok(Map::new()),
        false => serde_json::from_str(text).map_err(|why| {
            Error::invalid(format!("the arguments of capabilities are no JSON object: {why}"))
        }),
    }
}

/// As Go's library prints results.
fn indented(value: &Value) -> String {
    let mut text = Vec::new();
    let form = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut writer = serde_json::Serializer::with_formatter(&mut text, form);
    match value.serialize(&mut writer) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) => value.to_string(),
    }
}

fn gc(wanted: &GcArgs, context: &CommandContext) -> Result<Answer> {
    let list = load(&wanted.place.conf_dir, &wanted.network)?;
    let mut valid: Vec<(ContainerId, IfName)> = wanted.keep.clone();
    if !wanted.all {
        let known = Cache::new(&wanted.place.kept.cache_dir).attachments(None)?;
        let of_network = known.into_iter().filter(|it| it.network == list.name);
        let (alive, gone): (Vec<_>, Vec<_>) =
            of_network.partition(|it| is_namespace(Path::new(&it.target.netns)));
        let member = |it: CachedAttachment| (it.target.container, it.target.ifname);
        valid.extend(alive.into_iter().map(member));
        // Other runtimes keep theirs elsewhere. Of those that are kept here the cache knows.
        let gone: BTreeSet<_> = gone.into_iter().map(member).collect();
        let recorded = (context.engine)()?.repair.remaining(&list.name)?;
        valid.extend(recorded.into_iter().filter(|it| !gone.contains(it)));
    }
    with(&wanted.place, |runtime| runtime.gc(&list, Valid::These(&valid)))?;
    Ok(Answer::default())
}

/// A path that cannot be checked may be a namespace.
fn is_namespace(path: &Path) -> bool {
    match netlink::Netns::open(path) {
        Ok(_) => true,
        Err(error) => error.kind() != Kind::Invalid,
    }
}

#[derive(Serialize)]
struct ListView {
    name: String,
    version: String,
    plugins: Vec<String>,
    file: String,
    /// Why it is no configuration.
    problem: Option<String>,
}

fn list(wanted: &ListArgs, output: Output) -> Result<Answer> {
    let view = |(file, list): (PathBuf, Result<NetworkList>)| {
        let file = file.display().to_string();
        match list {
            Ok(list) => ListView {
                name: list.name.to_string(),
                version: list.version.to_string(),
                plugins: list.plugins.iter().map(|plugin| plugin.kind.clone()).collect(),
                file,
                problem: None,
            },
            Err(error) => {
                let (name, version, plugins) = Default::default();
                ListView { name, version, plugins, file, problem: Some(error.to_string()) }
            }
        }
    };
    let rows: Vec<ListView> = configured(&wanted.conf_dir)?.into_iter().map(view).collect();
    let notes =
        rows.iter().filter_map(|row| Some(format!("{}: {}", row.file, row.problem.as_ref()?)));
    let notes = if output == Output::Table { notes.collect() } else { Vec::new() };
    let table = || {
        let mut table = Table::new(&["NAME", "VERSION", "PLUGINS", "FILE"]);
        for row in rows.iter().filter(|row| row.problem.is_none()) {
            let plugins = row.plugins.join(",");
            table.row([row.name.clone(), row.version.clone(), plugins, row.file.clone()]);
        }
        table.text()
    };
    Ok(Answer { notes, ..Answer::text(render(output, &rows, table)?) })
}

#[derive(Serialize)]
struct AttachmentView {
    network: String,
    container: String,
    ifname: String,
    netns: String,
    addresses: Vec<String>,
    result: Value,
}

fn attachments(wanted: &AttachmentsArgs, output: Output) -> Result<Answer> {
    let known = Cache::new(&wanted.kept.cache_dir).attachments(wanted.container.as_ref())?;
    let rows: Vec<AttachmentView> = known.into_iter().map(view).collect();
    let table = || {
        let mut table = Table::new(&["NETWORK", "CONTAINER", "INTERFACE", "ADDRESSES", "NETNS"]);
        for row in &rows {
            table.row([
                row.network.clone(),
                row.container.clone(),
                row.ifname.clone(),
                row.addresses.join(","),
                row.netns.clone(),
            ]);
        }
        table.text()
    };
    Ok(Answer::text(render(output, &rows, table)?))
}

fn view(known: CachedAttachment) -> AttachmentView {
    let fields = known.result.as_object();
    let parsed = fields.map(|it| Success::parse(&Object::new("result", it), Version::V010));
    let success = parsed.and_then(Result::ok).unwrap_or_default();
    AttachmentView {
        network: known.network.to_string(),
        container: known.target.container.to_string(),
        ifname: known.target.ifname.to_string(),
        netns: known.target.netns,
        addresses: success.ips.iter().map(|ip| ip.address.to_string()).collect(),
        result: known.result,
    }
}
