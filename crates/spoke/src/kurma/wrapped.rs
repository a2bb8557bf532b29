//! A network of Kurma made by CNI plugins: Spoke's own in this process, any other out of the
//! image's directories, one alone or several in a chain.
//!
//! Whatever version the plugins use, the result has the form that Kurma keeps.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni::runtime::{CACHE, Cache, NetworkList, Programs, Runtime, Target};
use cni::wire::{Command, Environment, Failure, Object, Version};
use cni::{Output, Plugin};
use kurma::call::Call;
use kurma::reply::Reply;
use model::{Error, Kind, Result};
use serde_json::{Map, Value, json};

use crate::plugin;

/// The directories of an image's CNI plugins. No others: `type` is never a path.
pub(super) const PATH: [&str; 4] = ["/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni", "/usr/bin"];

/// How long one plugin may take: Kurma ends the whole call after a minute, and what began has to be
/// undone before.
const LIMIT: Duration = Duration::from_secs(50);

/// The version of a chain with programs that names none. Older ones have no lists, and newer ones
/// not every program.
const CHAINED: Version = Version::V040;

/// The fields that are Kurma's and its engine's. Our plugins refuse what they do not know; those
/// of others get everything.
const FIELDS_OF_KURMA: [&str; 11] = [
    "aci",
    "containerInterface",
    "default",
    "digest",
    "engine",
    "grant",
    "keys",
    "limit",
    "mounts",
    "on_error",
    "privileged",
];

/// A network's configuration.
#[derive(Debug)]
pub(super) struct Wrapped {
    list: NetworkList,
    path: Vec<PathBuf>,
}

impl Wrapped {
    /// Reads what Kurma sends.
    pub(super) fn parse(text: &[u8]) -> Result<Self> {
        let doing = |why: &dyn std::fmt::Display| {
            Error::invalid(format!("reading the network's configuration: {why}"))
        };
        let value: Value = serde_json::from_slice(text).map_err(|why| doing(&why))?;
        let Value::Object(mut fields) = value else { return Err(doing(&"it is no object")) };
        let reported = match fields.get("cniVersion") {
            None => None,
            Some(version) => Some(version.as_str().and_then(Version::parse).ok_or_else(|| {
                doing(&format_args!("\"cniVersion\" is {version}, which is none that is known"))
            })?),
        };
        let is_chain = fields.contains_key("plugins");
        let kinds = kinds(&fields);
        if !is_chain && kinds.is_empty() {
            return Err(doing(&"\"type\" is missing: no CNI plugin is named"));
        }
        let is_native = kinds.iter().all(|kind| Plugin::named(kind).is_some());
        let version = match (is_native, is_chain) {
            (true, _) => Version::LATEST,
            (false, true) => reported.unwrap_or(CHAINED),
            (false, false) => reported.unwrap_or(Version::V010),
        };
        if is_native || is_chain {
            fields.retain(|key, _| !FIELDS_OF_KURMA.contains(&key.as_str()));
            fields.insert("cniVersion".into(), json!(version.as_str()));
        }
        let text = Value::Object(fields).to_string();
        let list = match is_chain {
            true => NetworkList::parse(text.as_bytes()),
            false => NetworkList::parse_single(text.as_bytes()),
        };
        Ok(Self { list: list?, path: PATH.map(PathBuf::from).to_vec() })
    }

    /// Whether the plugins are there and our own understand their part. Changes nothing.
    pub(super) fn validate(&self) -> Result<()> {
        let quiet = |_: &[u8]| {};
        let programs = Programs::new(self.path.clone(), &quiet);
        for config in &self.list.plugins {
            match Plugin::named(&config.kind) {
                Some(plugin) => self.understands(plugin, config.fields())?,
                None => drop(programs.find(&config.kind)?),
            }
        }
        Ok(())
    }

    /// Only what will never be otherwise counts: a network that is full now is well configured.
    fn understands(&self, plugin: Plugin, fields: &Map<String, Value>) -> Result<()> {
        let mut config = fields.clone();
        config.insert("name".into(), json!(self.list.name.as_str()));
        config.insert("cniVersion".into(), json!(Version::V110.as_str()));
        let environment = Environment {
            command: Command::Status.as_str().to_owned(),
            path: self.path_text(),
            ..Environment::default()
        };
        let text = Value::Object(config).to_string();
        let output = plugin::call(plugin, &environment, &mut text.as_bytes());
        let failure = match output.code {
            0 => return Ok(()),
            _ => failure_in(&output),
        };
        match failure.kind() {
            Kind::Invalid | Kind::Unsupported => Err(reported(failure)),
            Kind::NotFound
            | Kind::Conflict
            | Kind::Exhausted
            | Kind::TryAgain
            | Kind::Denied
            | Kind::Kernel
            | Kind::Bug => Ok(()),
        }
    }

    /// Connects a pod.
    pub(super) fn add(&self, call: &Call) -> Result<Reply> {
        let target = self.target(call)?;
        let result = match self.alone() {
            Some((plugin, config)) => native_add(plugin, &self.environment("ADD", &target), config),
            None => self.with(|runtime| runtime.add(&self.list, &target)),
        };
        Reply::from_value(&result?).map_err(|error| error.context("the plugins' result"))
    }

    /// Disconnects it. What is gone is gone, also the namespace. Where no interface is named, ADD was
    /// refused before a plugin was called: there is nothing to undo.
    pub(super) fn del(&self, call: &Call) -> Result<()> {
        if call.interface.is_none() && !self.is_loopback() {
            return Ok(());
        }
        let target = self.target(call)?;
        match self.alone() {
            Some((plugin, config)) => {
                let environment = self.environment("DEL", &target);
                let output = plugin::call(plugin, &environment, &mut config.as_bytes());
                match output.code {
                    0 => Ok(()),
                    _ => Err(reported(failure_in(&output))),
                }
            }
            None => self.with(|runtime| runtime.del(&self.list, &target)),
        }
    }

    /// The only plugin if it is one of Spoke's, which needs no state but the store.
    fn alone(&self) -> Option<(Plugin, String)> {
        let [config] = self.list.plugins.as_slice() else { return None };
        let plugin = Plugin::named(&config.kind)?;
        let mut fields = config.fields().clone();
        fields.insert("name".into(), json!(self.list.name.as_str()));
        fields.insert("cniVersion".into(), json!(Version::LATEST.as_str()));
        Some((plugin, Value::Object(fields).to_string()))
    }

    fn target(&self, call: &Call) -> Result<Target> {
        let interface = match &call.interface {
            Some(interface) => interface.clone(),
            None if self.is_loopback() => "lo".parse()?,
            None => {
                return Err(Error::invalid(format!(
                    "the network {} has no containerInterface, and its plugins make an interface: \
                     name it, for example \"eth{{{{num}}}}\"",
                    self.list.name
                )));
            }
        };
        let netns = call.netns.display().to_string();
        let mut target = Target::new(call.container.clone(), netns, interface);
        let whole: Map<String, Value> =
            serde_json::from_slice(self.list.text()).unwrap_or_default();
        if let Some(Value::Object(arguments)) = whole.get("runtimeConfig") {
            target.capabilities = arguments.clone();
        }
        Ok(target)
    }

    /// Whether its plugins bring up `lo`, which needs no name from anyone.
    fn is_loopback(&self) -> bool {
        self.list.plugins.iter().all(|config| config.kind == "loopback")
    }

    fn environment(&self, command: &str, target: &Target) -> Environment {
        Environment {
            command: command.to_owned(),
            container: target.container.to_string(),
            netns: target.netns.clone(),
            ifname: target.ifname.to_string(),
            path: self.path_text(),
            runtime: Some(model::Runtime::Kurma),
            ..Environment::default()
        }
    }

    fn path_text(&self) -> String {
        let path: Vec<String> = self.path.iter().map(|dir| dir.display().to_string()).collect();
        path.join(":")
    }

    /// Plugins' standard error is reported where one of them fails.
    fn with<T>(
        &self,
        work: impl FnOnce(&Runtime<'_>) -> std::result::Result<T, Failure>,
    ) -> Result<T> {
        let complaints = RefCell::new(Vec::new());
        let complain = |printed: &[u8]| complaints.borrow_mut().extend_from_slice(printed);
        let native = |kind: &str, environment: &Environment, input: &str| {
            let plugin = Plugin::named(kind)?;
            let ours = Environment { runtime: Some(model::Runtime::Kurma), ..environment.clone() };
            Some(plugin::call(plugin, &ours, &mut input.as_bytes()))
        };
        let programs = Programs {
            limit: LIMIT,
            native: Some(&native),
            ..Programs::new(self.path.clone(), &complain)
        };
        let cache = Cache::new(Path::new(CACHE));
        work(&Runtime { programs: &programs, cache: &cache }).map_err(|failure| {
            let complaints = complaints.borrow();
            let printed = String::from_utf8_lossy(&complaints);
            let error = reported(failure);
            match printed.trim() {
                "" => error,
                printed => {
                    Error::new(error.kind(), format!("{error}; plugins complained: {printed}"))
                }
            }
        })
    }
}

/// The types that a configuration names.
fn kinds(fields: &Map<String, Value>) -> Vec<&str> {
    match fields.get("plugins") {
        Some(plugins) => {
            let plugins = plugins.as_array().into_iter().flatten();
            plugins.filter_map(|config| config.get("type").and_then(Value::as_str)).collect()
        }
        None => {
            let kind = fields.get("type").and_then(Value::as_str);
            kind.into_iter().filter(|kind| !kind.is_empty()).collect()
        }
    }
}

fn native_add(plugin: Plugin, environment: &Environment, config: String) -> Result<Value> {
    let output = plugin::call(plugin, environment, &mut config.as_bytes());
    match output.code {
        0 => serde_json::from_str(&output.stdout)
            .map_err(|why| Error::bug("reading our own result").because(why)),
        _ => Err(reported(failure_in(&output))),
    }
}

/// The error that a plugin of Spoke's printed.
fn failure_in(output: &Output) -> Failure {
    let object: Map<String, Value> = serde_json::from_str(&output.stdout).unwrap_or_default();
    let failure = Failure::parse(&Object::new("", &object));
    failure.unwrap_or_else(|| Failure::new(Failure::INTERNAL, output.stdout.trim()))
}

fn reported(failure: Failure) -> Error {
    Error::new(failure.kind(), failure.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(config: &Value) -> Result<Wrapped> {
        Wrapped::parse(config.to_string().as_bytes())
    }

    #[test]
    fn our_own_plugins_get_no_field_of_kurma() {
        let config = json!({"name": "n", "aci": "x", "default": true, "containerInterface": "a",
            "on_error": "skip", "type": "spoke", "bridge": "b"});
        let (plugin, text) = parse(&config).unwrap().alone().unwrap();
        let given: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(plugin, Plugin::Spoke);
        let rest = json!({"name": "n", "cniVersion": "1.1.0", "type": "spoke", "bridge": "b"});
        assert_eq!(given, rest);
    }

    #[test]
    fn programs_get_everything_in_the_version_that_they_know() {
        let config = json!({"name": "n", "aci": "x", "type": "weave"});
        let wrapped = parse(&config).unwrap();
        assert!(wrapped.alone().is_none());
        assert_eq!(wrapped.list.version, Version::V010);
        assert_eq!(wrapped.list.plugins[0].fields()["aci"], "x");
        let chain = json!({"name": "n", "plugins": [{"type": "weave"}, {"type": "portmap"}]});
        assert_eq!(parse(&chain).unwrap().list.version, Version::V040);
    }

    #[test]
    fn names_what_is_wrong_before_anything_is_done() {
        for (config, word) in [
            (json!([]), "it is no object"),
            (json!({"name": "n"}), "\"type\" is missing"),
            (json!({"name": "n", "type": ""}), "\"type\" is missing"),
            (json!({"type": "bridge"}), "no name"),
            (json!({"name": "n", "type": "bridge", "cniVersion": "9"}), "\"cniVersion\" is"),
            (json!({"name": "n", "plugins": []}), "no plugins in list"),
        ] {
            let error = parse(&config).unwrap_err().to_string();
            assert!(error.contains(word), "{config}: {error}");
        }
        let strange = parse(&json!({"name": "n", "type": "../../bin/sh"})).unwrap();
        assert!(strange.validate().unwrap_err().to_string().contains("invalid plugin name"));
    }

    #[test]
    fn without_an_interface_there_is_only_loopback() {
        let call = Call { netns: "/n".into(), container: "u".parse().unwrap(), interface: None };
        let loopback = parse(&json!({"name": "n", "type": "loopback"})).unwrap();
        assert_eq!(loopback.target(&call).unwrap().ifname.as_str(), "lo");
        let bridge = parse(&json!({"name": "n", "type": "bridge"})).unwrap();
        let error = bridge.target(&call).unwrap_err().to_string();
        assert!(error.contains("has no containerInterface"), "{error}");
        bridge.del(&call).unwrap();
    }
}
