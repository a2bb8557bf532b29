//! The CNI plugin `spoke-image`: another CNI plugin, run out of its image. What a runtime says goes
//! to that plugin and what that says to the runtime; in between stands only the image's container.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni::wire::{Command, Document, Environment, Failure, Version};
use cni::{Output, Plugin};
use config::Config;
use container::{Ended, Ending};
use host::exit;
use kurma::config::Sandboxing;
use kurma::exec_cni::{self, Shown, Tenancy};
use kurma::plugin::{Direct, PluginSpec};
use model::{Error, PluginName, Result};
use netlink::Netns;
use rustix::process::geteuid;
use serde_json::{Map, Value};

use crate::plugin::input;
use host::kurma::{Host, image, text};

/// How long the image's plugin may take. Runtimes give up after two minutes.
const LIMIT: Duration = Duration::from_secs(100);

/// The fields of the configuration that are Spoke's, and not the image's plugin's.
const OURS: [&str; 10] = [
    "type",
    "image",
    "plugin",
    "digest",
    "keys",
    "mounts",
    "privileged",
    "grant",
    "engine",
    "capabilities",
];

/// The properties that a configuration asks for.
struct Spec {
    wanted: PluginSpec,
    plugin: PluginName,
    network: String,
    /// The standard input of the image's plugin.
    input: Vec<u8>,
}

/// Answers the request that environment and standard input make; returns the exit code.
pub(crate) fn run() -> u8 {
    let environment = Environment::read(|name| std::env::var(name).ok());
    let output = answer(&environment, &mut *input());
    let _ = std::io::stderr().write_all(output.stderr.as_bytes());
    match (u8::try_from(output.code), exit::deliver(&output.stdout)) {
        (Ok(code), Ok(())) => code,
        (_, _) => 1,
    }
}

fn answer(environment: &Environment, input: &mut dyn Read) -> Output {
    if let Some(reported) = cni::introduce(Plugin::Spoke, environment, input) {
        return reported;
    }
    let (mut version, command) = (Version::LATEST, Command::parse(&environment.command));
    let document = Document::read(input);
    if let Ok(known) = document.as_ref().map_err(Failure::clone).and_then(Document::version) {
        version = known;
    }
    let answered = document.and_then(|document| {
        environment.require()?;
        environment.subject()?;
        document.name()?;
        let command = command.ok_or_else(|| {
            let msg = format!("unknown CNI_COMMAND: {}", environment.command);
            Failure::new(Failure::ENVIRONMENT, msg)
        })?;
        let done = call(&document, environment, command);
        done.map_err(|error| Failure::of(&error, command))
    });
    answered.unwrap_or_else(|failure| refused(&failure, version, String::new()))
}

fn refused(failure: &Failure, version: Version, stderr: String) -> Output {
    Output {
        stdout: format!("{}\n", failure.render(version)),
        stderr,
        code: 1,
        unreported: Vec::new(),
    }
}

fn call(document: &Document, environment: &Environment, command: Command) -> Result<Output> {
    let spec = Spec::of(document)?;
    let config = Config::of_this_host()?;
    let host = Host::new(&config, &|name| std::env::var_os(name).map(PathBuf::from));
    let variables = environment.variables();
    // `CNI_PATH` is the image's own matter, and the namespace is put in where it is shown.
    let is_reported = |name: &str| !matches!(name, "CNI_PATH" | "CNI_NETNS");
    let variables: Vec<(&str, &str)> = variables
        .into_iter()
        .filter(|(name, value)| is_reported(name) && !value.is_empty())
        .collect();
    let parts = [&environment.container, &environment.ifname, &spec.network].map(String::as_str);
    let shown = Shown::new(&environment.netns, &[&parts[..], &[spec.plugin.as_str()]].concat());
    // The runtime's path may be one of its own mounts.
    let netns = Netns::open(Path::new(&environment.netns)).ok();
    let shown = match &netns {
        Some(netns) => shown.open_at(format!("/proc/self/fd/{}", netns.as_fd().as_raw_fd()).into()),
        None => shown,
    };
    if geteuid().is_root() {
        container::host::enter()?;
    }
    let tenancy = match command {
        Command::Del => Tenancy::Ends,
        Command::Add | Command::Check | Command::Gc | Command::Status | Command::Version => {
            Tenancy::Stays
        }
    };
    let pod = host.pod()?;
    let direct =
        Direct { plugin: &spec.plugin, environment: &variables, input: &spec.input, limit: LIMIT };
    let ended = exec_cni::run(&pod, &spec.wanted, &direct, &shown, tenancy)?;
    Ok(passed_on(&ended, &spec, document.version().unwrap_or(Version::LATEST)))
}

/// The output of the image's plugin, unchanged. A failure without standard output gets an error
/// made of standard error, because runtimes show nothing else.
fn passed_on(ended: &Ended, spec: &Spec, version: Version) -> Output {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&ended.stdout), text(&ended.stderr));
    let how = match ended.status {
        Ending::Exited(code) if code == 0 || !stdout.trim().is_empty() => {
            return Output { stdout, stderr, code, unreported: Vec::new() };
        }
        Ending::Exited(code) => format!("exited {code}"),
        Ending::Signaled(signal) => format!("was ended by signal {signal}"),
        Ending::TimedOut => format!("took longer than {} s and was ended", LIMIT.as_secs()),
        Ending::Unseen => "ended with its container".to_owned(),
    };
    let code = match ended.status {
        Ending::Exited(_) => Failure::INTERNAL,
        Ending::Signaled(_) | Ending::TimedOut | Ending::Unseen => Failure::TRY_AGAIN,
    };
    let (plugin, image) = (&spec.plugin, &spec.wanted.image);
    let failure = Failure::new(code, format!("the plugin {plugin} of {image} {how}"));
    refused(&failure.details(stderr.trim()), version, stderr.clone())
}

impl Spec {
    fn of(document: &Document) -> Result<Self> {
        let fields: Map<String, Value> = document.fields().clone();
        let image = image(&fields)?;
        let Some(Value::Object(plugin)) = fields.get("plugin") else {
            let what = "\"plugin\" is missing: give the configuration of the image's plugin";
            return Err(Error::invalid(what));
        };
        let kind = plugin.get("type").and_then(Value::as_str).unwrap_or_default();
        let name: PluginName =
            kind.parse().map_err(|error: Error| error.context("\"plugin.type\""))?;
        let whole = Value::Object(fields.clone());
        let keys = kurma::config::keys(&whole, "configuration")?;
        let sandboxing = Sandboxing::read(&whole, "configuration")?;
        let mut config = plugin.clone();
        for (key, value) in fields.iter().filter(|(key, _)| !OURS.contains(&key.as_str())) {
            config.insert(key.clone(), value.clone());
        }
        Ok(Self {
            wanted: PluginSpec::image(image, keys, sandboxing),
            plugin: name,
            network: text(&fields, "name")?.unwrap_or_default().to_owned(),
            input: Value::Object(config).to_string().into_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(config: &Value) -> Result<Spec> {
        Spec::of(&Document::parse(config.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn the_images_plugin_gets_its_own_fields_and_the_runtimes() {
        let config = json!({"type": "spoke-image", "name": "n", "cniVersion": "1.0.0",
            "image": "file:///i.aci", "privileged": true, "capabilities": {"mac": true},
            "runtimeConfig": {"mac": "m"}, "prevResult": {}, "args": {"cni": {}},
            "plugin": {"type": "bridge", "bridge": "b", "name": "other"}});
        let spec = spec(&config).unwrap();
        let input: Value = serde_json::from_slice(&spec.input).unwrap();
        assert_eq!(
            input,
            json!({"type": "bridge", "bridge": "b", "name": "n", "cniVersion": "1.0.0",
                "runtimeConfig": {"mac": "m"}, "prevResult": {}, "args": {"cni": {}}})
        );
        assert_eq!((spec.plugin.as_str(), spec.network.as_str()), ("bridge", "n"));
        assert!(spec.wanted.sandboxing.privileged);
    }

    #[test]
    fn names_what_is_wrong() {
        for (config, word) in [
            (json!({"name": "n"}), "\"image\" is missing"),
            (json!({"image": 7}), "\"image\" is 7"),
            (json!({"image": "gopher://x"}), "not supported"),
            (json!({"image": "file:///i"}), "\"plugin\" is missing"),
            (json!({"image": "file:///i", "plugin": {"type": "../sh"}}), "\"plugin.type\""),
            (json!({"image": "file:///i", "plugin": {}}), "\"plugin.type\""),
        ] {
            let error = spec(&config).err().unwrap().to_string();
            assert!(error.contains(word), "{config}: {error}");
        }
    }
}
