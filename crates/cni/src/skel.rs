//! A plugin from its environment to its exit code.
//!
//! Errors are found in the order, and reported in the words, of the reference plugins' skeleton.
//! Only the namespace is checked earlier: before any change, not after.

mod capability;
mod several;

use std::fmt::Write as _;
use std::io::Read;
use std::path::PathBuf;

use engine::Request;
use model::{
    Attached, Attachment, AttachmentId, ContainerId, Error, IfName, Layer, Network, Phase, Result,
    Sandbox,
};
use serde_json::{Value, json};

use crate::call::{Call, Context};
use crate::chain;
use crate::namespace::NamespaceKind;
use crate::output::Output;
use crate::plugin::{self, Plan};
use crate::plugin_type::Plugin;
use crate::wire::{
    Args, Command, Configuration, Document, Environment, Failure, Interface, NO_ADDRESS, Success,
    Version,
};
use crate::words::{self, reported};

/// Runs `plugin` with `environment` and `input`. Without a command it describes itself.
///
/// VERSION reads `input` too, as the specification demands; pass an empty one if there is no
/// writer.
pub fn run(
    plugin: Plugin,
    environment: &Environment,
    input: &mut dyn Read,
    context: &Context<'_>,
) -> Output {
    if let Some(output) = introduce(plugin, environment, input) {
        return output;
    }
    let mut run = Run {
        plugin,
        environment,
        context,
        version: Version::LATEST,
        notes: String::new(),
        unreported: Vec::new(),
    };
    match run.answer(input) {
        Ok(answer) => Output {
            stdout: answer.map(|value| format!("{value}\n")).unwrap_or_default(),
            stderr: run.notes,
            code: 0,
            unreported: run.unreported,
        },
        Err(failure) => Output {
            stdout: format!("{}\n", failure.render(run.version)),
            stderr: run.notes,
            code: 1,
            unreported: Vec::new(),
        },
    }
}

/// The answer to a call that needs nothing to work with: VERSION, or no command at all.
pub fn introduce(
    plugin: Plugin,
    environment: &Environment,
    input: &mut dyn Read,
) -> Option<Output> {
    match environment.command.as_str() {
        "" => Some(about(plugin)),
        "VERSION" => {
            Some(Output { stdout: format!("{}\n", versions(plugin, input)), ..Output::default() })
        }
        _ => None,
    }
}

fn about(plugin: Plugin) -> Output {
    let stderr = format!(
        "CNI {} plugin of spoke {}\nCNI protocol versions supported: {}\n",
        plugin.name(),
        env!("CARGO_PKG_VERSION"),
        spoken(plugin).join(", ")
    );
    Output { stderr, ..Output::default() }
}

/// The versions in which a plugin works, the oldest first.
fn spoken(plugin: Plugin) -> Vec<&'static str> {
    let since = match plugin {
        // It limits an interface, and older results name none.
        Plugin::Bandwidth => Version::V030,
        _ => Version::V010,
    };
    let spoken = Version::ALL.iter().filter(|version| **version >= since);
    spoken.map(|version| version.as_str()).collect()
}

struct Run<'a> {
    plugin: Plugin,
    environment: &'a Environment,
    context: &'a Context<'a>,
    /// The version of errors.
    version: Version,
    notes: String,
    unreported: Vec<(AttachmentId, Layer)>,
}

impl Run<'_> {
    fn answer(&mut self, input: &mut dyn Read) -> Result<Option<Value>, Failure> {
        let environment = self.environment;
        environment.require()?;
        let subject = environment.subject().inspect_err(|_| {
            let (container, ifname) = (&environment.container, &environment.ifname);
            let _ = writeln!(self.notes, "CNI_CONTAINERID={container}, CNI_IFNAME={ifname}");
        })?;
        let document = Document::read(input)?;
        self.version = document.version().unwrap_or(Version::LATEST);
        document.name()?;
        let command = Command::parse(&environment.command).ok_or_else(|| {
            let msg = format!("unknown CNI_COMMAND: {}", environment.command);
            Failure::new(Failure::ENVIRONMENT, msg)
        })?;
        let version = document.version()?;
        refuse_unspoken(self.plugin, version, command)?;
        allows(version, command)?;
        let config = chain::inside(Configuration::of(document)?, &environment.chain)?;
        let (sandbox, strange) = self.sandbox(command)?;
        let mut call = Call {
            plugin: self.plugin,
            command,
            environment,
            config: &config,
            subject: subject.filter(|_| !matches!(command, Command::Gc | Command::Status)),
            sandbox,
            previous: None,
            context: self.context,
        };
        let read = crate::previous::of(&call).map(|previous| call.previous = previous);
        let done = read.and_then(|()| self.perform(&call)).map_err(|error| {
            let (failure, ours) = words::failure(&call, &error);
            if let Some(ours) = ours {
                let _ = writeln!(self.notes, "{ours}");
            }
            failure
        })?;
        strange.map_or(Ok(done), Err)
    }

    fn perform(&mut self, call: &Call<'_>) -> Result<Option<Value>> {
        match call.command {
            Command::Add => self.add(call).map(Some),
            Command::Del => self.del(call).map(|()| None),
            Command::Check => check(call).map(|()| None),
            Command::Gc => gc(call).map(|()| None),
            Command::Status => {
                let plan = plugin::plan(call)?;
                several::status(call, &plan).map(|()| None)
            }
            Command::Version => Ok(None),
        }
    }

    /// The container's namespace. DEL works without one, and never enters its own; that is reported
    /// in the end, when everything else has been released.
    fn sandbox(&self, command: Command) -> Result<(Option<Sandbox>, Option<Failure>), Failure> {
        let path = PathBuf::from(&self.environment.netns);
        let unused = matches!(command, Command::Gc | Command::Status | Command::Version);
        if unused || self.environment.netns.is_empty() {
            return Ok((None, None));
        }
        let found = match self.context.namespaces.inspect(&path) {
            Ok(found) => found,
            Err(_) if command == Command::Del => return Ok((None, None)),
            Err(error) => {
                let msg = format!("failed to open netns {path:?}: {error}");
                return Err(Failure::new(Failure::NAMESPACE, msg));
            }
        };
        let own = || {
            let msg = "plugin's netns and netns from CNI_NETNS should not be the same";
            Failure::new(Failure::NAMESPACE, msg)
        };
        let is_optional = command == Command::Del || self.plugin.layer() == Layer::Address;
        match found {
            NamespaceKind::Other(inode) => Ok((Some(Sandbox { path, inode }), None)),
            NamespaceKind::Own(inode) if self.environment.allows_own_namespace() => {
                Ok((Some(Sandbox { path, inode }), None))
            }
            NamespaceKind::Own(_) if command == Command::Del => Ok((None, Some(own()))),
            NamespaceKind::Own(_) => Err(own()),
            NamespaceKind::Nothing(_) if is_optional => Ok((None, None)),
            NamespaceKind::Nothing(what) => {
                let msg = match self.plugin {
                    Plugin::Loopback => what,
                    _ => format!("failed to open netns {path:?}: {what}"),
                };
                Err(Failure::new(Failure::NAMESPACE, msg))
            }
        }
    }

    fn add(&mut self, call: &Call<'_>) -> Result<Value> {
        let plan = plugin::plan(call)?;
        if let Some(note) = &plan.note {
            let _ = writeln!(self.notes, "{note}");
        }
        let (result, unreported) = add(call, plan)?;
        self.unreported = unreported;
        Ok(result)
    }

    /// A configuration that is not understood is no reason to keep anything.
    fn del(&mut self, call: &Call<'_>) -> Result<()> {
        let plan = plugin::plan(call).unwrap_or_else(|error| {
            let _ = writeln!(self.notes, "DEL goes by the container alone: {error}");
            plugin::remnant(call)
        });
        match call.plugin {
            Plugin::Spoke => several::del(call, plan),
            _ => call.context.engine.links.detach(&request(call, plan)?),
        }
    }
}

/// A removal need not be refused for what cannot be made.
fn refuse_unspoken(plugin: Plugin, version: Version, command: Command) -> Result<(), Failure> {
    let spoken = spoken(plugin);
    if command == Command::Del || spoken.contains(&version.as_str()) {
        return Ok(());
    }
    let spoken: Vec<String> = spoken.iter().map(|version| format!("{version:?}")).collect();
    let (version, spoken) = (version.as_str(), spoken.join(" "));
    let failure = Failure::new(Failure::VERSION, "incompatible CNI versions");
    Err(failure.details(format!("config is {version:?}, plugin supports [{spoken}]")))
}

/// Which commands a version has.
fn allows(version: Version, command: Command) -> Result<(), Failure> {
    let since = match command {
        Command::Check => Version::V040,
        Command::Gc | Command::Status => Version::V110,
        Command::Add | Command::Del | Command::Version => Version::V010,
    };
    match version >= since {
        true => Ok(()),
        false => Err(Failure::new(
            Failure::VERSION,
            format!("config version does not allow {}", command.as_str()),
        )),
    }
}

/// The requested version is part of the answer, if it is one; old runtimes sent none.
fn versions(plugin: Plugin, input: &mut dyn Read) -> Value {
    let asked = Document::read(input).and_then(|document| document.version());
    let version = asked.unwrap_or(Version::LATEST);
    json!({"cniVersion": version.as_str(), "supportedVersions": spoken(plugin)})
}

/// A result, and the records to mark once the result is printed.
type Added = (Value, Vec<(AttachmentId, Layer)>);

fn add(call: &Call<'_>, plan: Plan) -> Result<Added> {
    require_previous(call)?;
    let version = call.config.version();
    if plan.idle {
        return Ok((call.previous.clone().unwrap_or_default().render(version)?, Vec::new()));
    }
    if several::is_joining(&plan) {
        return several::add(call, plan);
    }
    let request = request(call, plan)?;
    // A result that this version cannot say must not be found out when all is made.
    let needs_address = version < Version::V030 && request.layer == Layer::Link;
    let has_none = request.ipam == model::Ipam::None && !request.wiring.chooses_addresses();
    if needs_address && has_none && call.plugin != Plugin::Loopback {
        let more = format!("; a result of version {version} needs one, and \"ipam\" gives none");
        return Err(reported(NO_ADDRESS, &more));
    }
    let attachment = call.context.engine.attachments.attach_unreported(&request)?;
    let success = match (call.previous.clone(), request.layer) {
        (_, Layer::Address) => Success::of_leases(&attachment),
        (Some(previous), Layer::Publish | Layer::Firewall | Layer::Vrf | Layer::SourceRouting) => {
            previous
        }
        (Some(previous), Layer::Bandwidth) => with_interfaces(previous, &attachment),
        (Some(previous), Layer::Tuning) => retuned(previous, &request),
        (Some(previous), Layer::Link) if call.plugin == Plugin::Loopback => previous,
        (_, _) => match &attachment.phase {
            Phase::Attached(attached) => Success::of(attached, &call.environment.netns),
            Phase::Reserved | Phase::Attaching { .. } | Phase::Detaching { .. } => {
                return Err(Error::bug(format!("{} is not attached", attachment.id)));
            }
        },
    };
    let rendered = success.render(version).inspect_err(|_| {
        // An attachment whose result cannot be printed must not stay.
        let _ = call.context.engine.links.detach(&request);
    })?;
    Ok((rendered, vec![(attachment.id, attachment.layer)]))
}

/// The result of the earlier plugin with the hardware address that its interface now has.
fn retuned(mut previous: Success, request: &Request) -> Success {
    let mac = request.wiring.tuning.as_ref().and_then(|tuning| tuning.mac);
    if let Some(mac) = mac {
        let named = previous.interfaces.iter_mut();
        for interface in named.filter(|interface| interface.name == request.ifname.as_str()) {
            interface.mac = mac.to_string();
        }
    }
    previous
}

/// The result of the earlier plugin with the interfaces that were made for its packets.
fn with_interfaces(mut previous: Success, attachment: &Attachment) -> Success {
    if let Phase::Attached(attached) = &attachment.phase {
        let made = Success::of(attached, "").interfaces.into_iter();
        let known = previous.interfaces.clone();
        let is_new = |it: &Interface| known.iter().all(|old| old.name != it.name);
        previous.interfaces.extend(made.filter(is_new));
    }
    previous
}

/// As the reference: what the address source misses goes before what the plugin itself does.
fn check(call: &Call<'_>) -> Result<()> {
    let plan = plugin::plan(call)?;
    let asks = matches!(plan.source.ipam, model::Ipam::HostLocal { .. });
    let source = (asks && !several::is_joining(&plan)).then(|| request(call, plan.clone()));
    check_as(call, plan).map_err(|error| {
        let source = source.and_then(Result::ok);
        let missed =
            source.and_then(|request| call.context.engine.attachments.check_source(&request).err());
        missed.unwrap_or(error)
    })
}

fn check_as(call: &Call<'_>, plan: Plan) -> Result<()> {
    require_previous(call)?;
    if plan.idle {
        return Ok(());
    }
    if several::is_joining(&plan) {
        return several::check(call, plan);
    }
    let request = request(call, plan)?;
    let attached = match &call.previous {
        None => Attached::default(),
        Some(previous) => {
            // A device that a program has is no interface.
            let is_given_away = call.plugin == Plugin::HostDevice && previous.interfaces.is_empty();
            let has_interface = call.plugin != Plugin::Loopback && !is_given_away;
            if has_interface && request.wiring.link.is_some() {
                require_interface(call, previous, &request)?;
            }
            previous.attached()?
        }
    };
    call.context.engine.attachments.check(&request, &attached)
}

fn require_previous(call: &Call<'_>) -> Result<()> {
    match (&call.previous, call.plugin.misses_previous(call.command)) {
        (None, Some(sentence)) => Err(Error::invalid(sentence)),
        (_, _) => Ok(()),
    }
}

fn require_interface(call: &Call<'_>, previous: &Success, request: &Request) -> Result<()> {
    let netns = &call.environment.netns;
    let mut named =
        previous.interfaces.iter().filter(|it| it.name == request.ifname.as_str()).peekable();
    let sandbox = named.peek().map(|it| it.sandbox.clone()).unwrap_or_default();
    let word = if call.plugin == Plugin::Macvlan { "sandbox" } else { "Sandbox" };
    match named.any(|it| it.sandbox == *netns) {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "{word} in prevResult {sandbox} doesn't match configured netns: {netns}"
        ))),
    }
}

/// Without a list no attachment counts as gone.
fn gc(call: &Call<'_>) -> Result<()> {
    let Some(mut valid) = call.config.valid_attachments()? else { return Ok(()) };
    // `loopback` brings up `lo`, whatever interface the runtime names.
    let loopback: IfName = "lo".parse()?;
    let containers: Vec<ContainerId> =
        valid.iter().map(|(container, _)| container.clone()).collect();
    valid.extend(containers.into_iter().map(|container| (container, loopback.clone())));
    let plan = plugin::plan(call).unwrap_or_else(|_| plugin::remnant(call));
    match call.plugin {
        Plugin::Spoke => several::gc(call, &plan, valid),
        _ => call.context.engine.repair.gc(&network(call, &plan), &valid),
    }
}

fn network(call: &Call<'_>, plan: &Plan) -> Network {
    let args = Args::parse(&call.environment.args).unwrap_or_default();
    Network {
        name: plan.network.as_ref().unwrap_or(call.config.name()).clone(),
        runtime: call.environment.runtime.unwrap_or_else(|| args.runtime()),
        since: call.context.now,
        wiring: plan.template.clone(),
        ipam: plan.source.ipam.clone(),
        routes: plan.source.routes.clone(),
        dns: plan.source.dns.clone(),
        sticky: plan.sticky,
        labels: plan.labels.clone(),
        settings: model::Settings::default(),
        stage: plan.stage,
        unsupported: plan.unsupported,
        title: plan.title.clone(),
        former: Vec::new(),
    }
}

fn request(call: &Call<'_>, plan: Plan) -> Result<Request> {
    let network = network(call, &plan);
    let Some((container, ifname)) = call.subject.clone() else {
        return Err(Error::bug("a container's command came without a container"));
    };
    let args = Args::parse(&call.environment.args).unwrap_or_default();
    Ok(Request {
        // Plugins skip the labels if they do not know them.
        labels: call.config.args_labels().unwrap_or_default(),
        network,
        layer: call.plugin.layer(),
        container,
        ifname: plan.ifname.unwrap_or(ifname),
        names: capability::aliases(call),
        dns: capability::dns(call)?,
        owner: args.owner(),
        sandbox: call.sandbox.clone(),
        wiring: plan.wiring,
        ipam: plan.source.ipam,
        wanted: plan.source.wanted,
        addresses: plan.addresses,
    })
}
