//! The networks of a host's configuration (Kurma Network Specification, "Kurma Configuration").
//!
//! Each entry is read on its own: a wrong one is a network that does not work, and no reason for
//! the others not to.

mod grant;
mod network;

use std::path::Path;

use model::{Error, Kind, Result, text};
use serde_json::Value;

pub use grant::Grant;
pub use network::{Mount, NetworkConfig, OnError, Sandboxing, keys};

use crate::Name;

/// The names that the list has had: in the specification, in Kurma's program, and before both.
const KEYS: [&str; 3] = ["pod_networks", "podNetworks", "container_networks"];

/// A longer file is refused, in bytes.
const LONGEST: u64 = 1 << 20;

/// More networks are refused.
const MOST: usize = 1000;

/// The networks that pods can be connected to, in the configuration's order.
#[derive(Debug, Default)]
pub struct PodNetworks {
    entries: Vec<Result<NetworkConfig, Refused>>,
}

/// The name of the host's own network, as of `--net host` in the original. Where a network is configured
/// under it, that is meant.
pub const HOST: &str = "host";

/// The networks of a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice<'a> {
    /// The host's own network: no plugin is called.
    Host,
    /// A namespace of its own, connected to these, in order.
    Networks(Vec<&'a NetworkConfig>),
}

/// An entry that is no network.
#[derive(Debug)]
pub struct Refused {
    /// Its place in the list, from 0 on.
    pub index: usize,
    /// Its name, where that is text.
    pub name: Option<String>,
    /// Why: the file, the place, the field, its value, and what is wrong with it.
    pub error: Error,
    /// What else is wrong with it.
    pub more: Vec<Error>,
    /// Whether pods that name no networks were to get it. An unreadable `default` counts as yes.
    pub is_default: bool,
    /// What becomes of a pod that it cannot connect.
    pub on_error: OnError,
}

impl Refused {
    fn new(index: usize, name: Option<String>, error: Error, value: &Value) -> Self {
        let field = |name: &str| value.get(name).filter(|value| !value.is_null());
        let is_default = field("default").is_some_and(|value| value.as_bool().unwrap_or(true));
        let skips = field("on_error").and_then(Value::as_str) == Some("skip");
        let on_error = if skips { OnError::Skip } else { OnError::Fail };
        Self { index, name, error, more: Vec::new(), is_default, on_error }
    }

    /// The error of a pod that was to be connected to it.
    fn refusal(&self) -> Error {
        let error = &self.error;
        let which = match &self.name {
            Some(name) => format!("network \"{name}\""),
            None => format!("entry {} of the networks", self.index),
        };
        Error::new(error.kind(), format!("{which} is refused: {error}"))
    }
}

impl PodNetworks {
    /// Reads a file. One that is not there has no networks.
    ///
    /// # Errors
    /// [`Kind::Invalid`] where it is neither JSON nor YAML, or holds no list of networks where it
    /// should; [`Kind::Denied`] and [`Kind::Kernel`] where it cannot be read.
    pub fn load(path: &Path) -> Result<Self> {
        let failed = |cause| file::failed(format!("reading {}", path.display()), cause);
        let text = match file::text(path, LONGEST) {
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            text => text.map_err(failed)?,
        };
        Self::read(&text, &path.display().to_string())
    }

    /// Reads a document that `file` is the name of.
    ///
    /// # Errors
    /// [`Kind::Invalid`] where it is neither JSON nor YAML, or its networks are no list.
    pub fn read(document: &str, file: &str) -> Result<Self> {
        // Kurma read all of it as YAML, which may begin with a byte order mark (YAML 1.2, 5.2).
        let document = document.strip_prefix('\u{feff}').unwrap_or(document);
        let is_json = document.trim_start().starts_with('{');
        let value = match is_json {
            true => serde_json::from_str(document)
                .map_err(|cause| Error::invalid("it is no JSON").because(cause)),
            false => yaml::read(document),
        };
        let value: Value = value.map_err(|error| error.context(file))?;
        let configuration = match &value {
            Value::Null => return Ok(Self::default()),
            Value::Object(configuration) => configuration,
            _ => return Err(Error::invalid(format!("{file}: it should be an object"))),
        };
        let mut lists = KEYS.iter().filter_map(|key| Some((*key, configuration.get(*key)?)));
        let Some((key, list)) = lists.next() else { return Ok(Self::default()) };
        if let Some((other, _)) = lists.next() {
            let what = format!("{file}: both {key} and {other} are given: leave one");
            return Err(Error::invalid(what));
        }
        let list = match list {
            Value::Null => return Ok(Self::default()),
            Value::Array(list) if list.len() <= MOST => list,
            Value::Array(_) => {
                return Err(Error::invalid(format!("{file}: {key} has more than {MOST} networks")));
            }
            other => {
                let shown = text::shown(&other.to_string());
                let what = format!("{file}: {key} is {shown}: it should be a list of networks");
                return Err(Error::invalid(what));
            }
        };
        let mut networks = Self::default();
        for (index, value) in list.iter().enumerate() {
            let name = value.get("name").and_then(Value::as_str).map(text::shown);
            // People know a network by its name, and find a nameless one by its place.
            let at = match &name {
                Some(name) => format!("{file}: network \"{name}\": {key}[{index}]"),
                None => format!("{file}: {key}[{index}]"),
            };
            let entry = NetworkConfig::read(value, &at).and_then(|network| {
                networks.refuse_second(&network, &at)?;
                Ok(network)
            });
            let refused = |error| {
                let error: Error = error;
                let mut more = NetworkConfig::mistakes(value, &at);
                more.retain(|mistake| mistake.to_string() != error.to_string());
                Refused { more, ..Refused::new(index, name, error, value) }
            };
            networks.entries.push(entry.map_err(refused));
        }
        Ok(networks)
    }

    fn refuse_second(&self, network: &NetworkConfig, at: &str) -> Result<()> {
        match self.networks().any(|other| other.name == network.name) {
            false => Ok(()),
            true => Err(Error::new(
                Kind::Conflict,
                format!("{at}.name is {:?}: another network has that name", network.name.as_str()),
            )),
        }
    }

    /// Those that can be used, in order.
    pub fn networks(&self) -> impl Iterator<Item = &NetworkConfig> {
        self.entries.iter().filter_map(|entry| entry.as_ref().ok())
    }

    /// Those that cannot.
    pub fn refused(&self) -> impl Iterator<Item = &Refused> {
        self.entries.iter().filter_map(|entry| entry.as_ref().err())
    }

    /// Whether nothing is configured.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The one of that name.
    ///
    /// # Errors
    /// [`Kind::NotFound`] where there is none; why it was refused where it was.
    pub fn network(&self, name: &Name) -> Result<&NetworkConfig> {
        if let Some(network) = self.networks().find(|network| network.name == *name) {
            return Ok(network);
        }
        let mut refused = self.refused();
        match refused.find(|refused| refused.name.as_deref() == Some(name.as_str())) {
            Some(refused) => Err(refused.refusal()),
            None => Err(Error::not_found(format!("network \"{name}\" does not exist"))),
        }
    }

    /// The networks of a pod: [`HOST`], or those of [`PodNetworks::chosen`].
    ///
    /// # Errors
    /// As [`PodNetworks::chosen`]; [`Kind::Invalid`] where a pod asks for the host's network and
    /// another one.
    pub fn choice(&self, names: &[Name]) -> Result<Choice<'_>> {
        let is_host = |name: &Name| {
            let is_unknown = |error: Error| error.kind() == Kind::NotFound;
            name.as_str() == HOST && self.network(name).is_err_and(is_unknown)
        };
        match names {
            [name] if is_host(name) => Ok(Choice::Host),
            names if names.iter().any(is_host) => Err(Error::invalid(format!(
                "\"{HOST}\" is the host's own network: a pod in it has no others"
            ))),
            names => self.chosen(names).map(Choice::Networks),
        }
    }

    /// The networks to which a pod is connected: those that it names, in its order, or all default
    /// ones.
    ///
    /// # Errors
    /// As [`PodNetworks::network`] for the first that does not exist; why a default one was
    /// refused, unless it is to be skipped.
    pub fn chosen(&self, names: &[Name]) -> Result<Vec<&NetworkConfig>> {
        if names.is_empty() {
            return self.default_ones();
        }
        names.iter().map(|name| self.network(name)).collect()
    }

    fn default_ones(&self) -> Result<Vec<&NetworkConfig>> {
        let keeps_out =
            |refused: &&Refused| refused.is_default && refused.on_error == OnError::Fail;
        match self.refused().find(keeps_out) {
            Some(refused) => Err(refused.refusal()),
            None => Ok(self.networks().filter(|network| network.is_default).collect()),
        }
    }
}

#[cfg(test)]
mod tests;
