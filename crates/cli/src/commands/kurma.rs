//! `spoke kurma`: pods, the networking pod that connects them, and images.

mod abandon;
mod package;
mod show;
pub(crate) mod unused;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use ::kurma::config::NetworkConfig;
use ::kurma::plugin::Key;
use ::kurma::{Name, NetworkingPod, PodId, PodNetworks, Pods, metadata};
use cni::Plugin;
use host::exit::exit_code;
use host::kurma::named_by_cni;
use image::{AppName, Image, ImageId, Images, Locator, Source};
use model::{Error, Layer, Result};
use serde_json::Value;

use crate::answer::Answer;
use crate::args::kurma::KurmaCommand;
use crate::context::CommandContext;
use crate::output::{Output, names, render};

/// Where a host says how it resolves names.
const RESOLVER: &str = "etc/resolv.conf";

/// A longer resolver file says nothing, in bytes.
const LONGEST_RESOLVER: u64 = 1 << 16;

pub(crate) fn run(
    command: &KurmaCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    match command {
        KurmaCommand::Validate { file } => validate(file.as_deref(), output, context),
        KurmaCommand::BuildImage(wanted) => package::build(wanted, output, context),
        KurmaCommand::Install { directory } => package::install(directory, output, context),
        KurmaCommand::Pull { locator, name } => pull(locator, name.as_ref(), output, context),
        KurmaCommand::Images => images(output, context),
        _ => {
            let stay = context.kurma.enter()?;
            let (networks, plugins) = (context.kurma.networks()?, context.kurma.pod()?);
            let answer = with(command, output, context, (&plugins, &networks));
            let ended = context.kurma.leave(stay);
            let mut answer = answer?;
            ended?;
            let refused = networks.refused().count();
            if refused > 0 && !matches!(command, KurmaCommand::Status) {
                answer.notes.push(format!(
                    "networks that cannot be used: {refused}; `spoke kurma validate` says why"
                ));
            }
            Ok(answer)
        }
    }
}

/// The commands that need the networking pod.
fn with(
    command: &KurmaCommand,
    output: Output,
    context: &CommandContext,
    (plugins, networks): (&NetworkingPod, &PodNetworks),
) -> Result<Answer> {
    let pods = Pods::new(plugins, networks);
    match command {
        KurmaCommand::Provision { uuid, networks } => {
            show::provisioned(&pods.provision(uuid, networks)?, output)
        }
        KurmaCommand::Deprovision { uuid, force: false } => {
            pods.deprovision(uuid).map(|()| Answer::default())
        }
        KurmaCommand::Deprovision { uuid, force: true } => {
            abandon::run(&pods, plugins, uuid, output, context)
        }
        KurmaCommand::Status => show::status(&plugins.status(networks)?, output),
        KurmaCommand::Pods => show::pods(&pods.list()?, output),
        KurmaCommand::Up { networks: names } => up(plugins, networks, names),
        KurmaCommand::Down { names } => down(plugins, names),
        KurmaCommand::Restart { names } => restart(plugins, networks, names),
        KurmaCommand::Resolv { uuid } => resolv(&pods, uuid, context),
        KurmaCommand::Gc => {
            let by_cni = named_by_cni(&context.root);
            let of_networks = networks.networks().map(|network| network.image.clone());
            let named: Vec<Locator> = of_networks.chain(by_cni.iter().cloned()).collect();
            let images = context.kurma.images()?;
            gc(&pods, plugins, (&named, &by_cni, &images), output)
        }
        KurmaCommand::Validate { .. }
        | KurmaCommand::BuildImage(_)
        | KurmaCommand::Install { .. }
        | KurmaCommand::Pull { .. }
        | KurmaCommand::Images => Err(Error::bug("the command needs no networking pod")),
    }
}

/// Whatever one network's plugin lacks does not keep the others from running.
fn up(plugins: &NetworkingPod, networks: &PodNetworks, names: &[Name]) -> Result<Answer> {
    let wanted = match names {
        [] => networks.networks().collect(),
        names => networks.chosen(names)?,
    };
    let mut answer = Answer::default();
    for refused in networks.refused().filter(|_| names.is_empty()) {
        answer.code = answer.code.max(exit_code(refused.error.kind()));
        answer.notes.push(refused.error.to_string());
    }
    for network in wanted {
        if let Err(error) = plugins.up(network) {
            answer.code = answer.code.max(exit_code(error.kind()));
            answer.notes.push(format!("network \"{}\": {error}", network.name));
        }
    }
    Ok(answer)
}

fn down(plugins: &NetworkingPod, names: &[Key]) -> Result<Answer> {
    match names {
        [] => plugins.down_all()?,
        names => names.iter().try_for_each(|name| plugins.down(name))?,
    }
    Ok(Answer::default())
}

fn restart(plugins: &NetworkingPod, networks: &PodNetworks, names: &[Key]) -> Result<Answer> {
    for name in names {
        match name {
            Key::Network(network) => {
                let chosen = networks.chosen(std::slice::from_ref(network))?;
                chosen.into_iter().try_for_each(|network| plugins.restart(network))?;
            }
            Key::Image(_) => plugins.renew_with_next_call(name)?,
        }
    }
    Ok(Answer::default())
}

fn resolv(pods: &Pods<'_>, uuid: &PodId, context: &CommandContext) -> Result<Answer> {
    let record = pods.get(uuid)?;
    let host = file::text(&context.root.join(RESOLVER), LONGEST_RESOLVER).unwrap_or_default();
    Ok(Answer::text(metadata::resolv(&record, &host)))
}

/// Every mistake, one line each.
fn validate(file: Option<&Path>, output: Output, context: &CommandContext) -> Result<Answer> {
    let networks = match file {
        Some(file) if !file.exists() => {
            return Err(Error::not_found(format!("there is no file {}", file.display())));
        }
        Some(file) => PodNetworks::load(file)?,
        None => context.kurma.networks()?,
    };
    let refused = networks.refused().flat_map(|one| std::iter::once(&one.error).chain(&one.more));
    let mut wrong: Vec<String> = refused.map(ToString::to_string).collect();
    wrong.extend(networks.networks().filter_map(missing_image));
    let code = if wrong.is_empty() { 0 } else { exit_code(model::Kind::Invalid) };
    let table = || match wrong.is_empty() {
        true => {
            let (unnamed, named): (Vec<_>, Vec<_>) =
                networks.networks().partition(|one| lacks_type(one) || lacks_interface(one));
            let names: Vec<&str> = named.iter().map(|one| one.name.as_str()).collect();
            let remarks: String = unnamed.into_iter().map(remark).collect();
            match names.is_empty() {
                true if remarks.is_empty() => "no networks\n".to_owned(),
                true => remarks,
                false => format!("nothing wrong with {}\n{remarks}", names.join(", ")),
            }
        }
        false => wrong.iter().map(|error| format!("{error}\n")).collect(),
    };
    Ok(Answer { code, ..Answer::text(render(output, &wrong, table)?) })
}

/// Whether a plugin of the network makes an interface that the network does not name.
fn lacks_interface(network: &&NetworkConfig) -> bool {
    let document = network.document();
    let list = document.get("plugins").and_then(Value::as_array);
    let kinds = list.into_iter().flatten().chain([document]).filter_map(|it| it.get("type"));
    let mut plugins = kinds.filter_map(Value::as_str).filter_map(Plugin::named);
    let makes_one = |it: Plugin| it.layer() == Layer::Link && it != Plugin::Loopback;
    network.interface.source().is_empty() && plugins.any(makes_one)
}

/// An image in a file that is not there.
fn missing_image(network: &NetworkConfig) -> Option<String> {
    let (Source::File(path) | Source::Layout { path, .. } | Source::Archive { path, .. }) =
        network.image.source()
    else {
        return None;
    };
    let is_missing = matches!(path.try_exists(), Ok(false));
    is_missing
        .then(|| format!("network \"{}\": its image {} is not there", network.name, path.display()))
}

/// Whether the network names no plugin of CNI's: by its type an image of Spoke's knows which one it is.
fn lacks_type(network: &NetworkConfig) -> bool {
    let document = network.document();
    document.get("type").is_none() && document.get("plugins").is_none()
}

/// No error: which image it is, and whether that chooses a name or a plugin itself, only a call tells.
fn remark(network: &NetworkConfig) -> String {
    if lacks_type(network) {
        return format!(
            "network \"{}\" has no type: an image of Spoke's refuses every pod; name it, for example \"bridge\"\n",
            network.name
        );
    }
    format!(
        "network \"{}\" has no containerInterface: an image of Spoke's refuses every pod; name it, \
         for example \"eth{{{{num}}}}\"\n",
        network.name
    )
}

fn pull(
    locator: &Locator,
    name: Option<&AppName>,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let stay = context.kurma.enter()?;
    let image = context.kurma.images().and_then(|images| match name {
        Some(name) => images.pull_as(locator, name),
        None => images.pull(locator),
    });
    let ended = context.kurma.leave(stay);
    let image = image?;
    ended?;
    show::pulled(&image, locator, output)
}

fn images(output: Output, context: &CommandContext) -> Result<Answer> {
    let stay = context.kurma.enter()?;
    let images: Vec<Image> = context.kurma.images()?.list()?;
    context.kurma.leave(stay)?;
    show::images(&images, output)
}

/// Pending calls are retried; then unused images are removed.
fn gc(
    pods: &Pods<'_>,
    plugins: &NetworkingPod,
    (named, by_cni, images): (&[Locator], &[Locator], &Images),
    output: Output,
) -> Result<Answer> {
    let mut answer = Answer::default();
    let mut done = Vec::new();
    for (pod, settled) in pods.settle()? {
        match settled {
            Ok(()) => done.push(format!("pod {pod}")),
            Err(error) => {
                answer.code = answer.code.max(exit_code(error.kind()));
                answer.notes.push(format!("pod {pod}: {error}"));
            }
        }
    }
    if let Err(error) = pods.sweep() {
        answer.code = answer.code.max(exit_code(error.kind()));
        answer.notes.push(error.to_string());
    }
    let (ended, unended) = plugins.end_unused(by_cni);
    done.extend(ended.iter().map(|key| format!("container {key}")));
    if let Err(error) = unended {
        answer.code = answer.code.max(exit_code(error.kind()));
        answer.notes.push(error.to_string());
    }
    // An image that a network names and a pod may ask for next stays, also where CNI's files name it.
    let mut keep: BTreeSet<ImageId> = plugins.images_in_use()?;
    for locator in named {
        keep.extend(images.cached(locator)?.map(|image| image.id));
    }
    let removed = images.gc(&keep, Duration::ZERO)?;
    done.extend(removed.iter().map(|id| format!("image {id}")));
    answer.text = names(output, &done)?;
    Ok(answer)
}
