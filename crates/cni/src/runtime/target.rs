//! The container and interface that plugins are called for.

use std::path::Path;

use model::{ContainerId, Error, IfName, Result};
use serde_json::{Map, Value};
use sha2::{Digest, Sha512};

use crate::wire::Environment;

/// One interface of one container, with the runtime's parameters for plugins.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The container.
    pub container: ContainerId,
    /// The path of its network namespace; may be empty where that is gone.
    pub netns: String,
    /// The interface.
    pub ifname: IfName,
    /// The pairs of `CNI_ARGS`.
    pub args: Vec<(String, String)>,
    /// The arguments of capabilities.
    pub capabilities: Map<String, Value>,
}

impl Target {
    /// An interface of a container, without arguments.
    pub fn new(container: ContainerId, netns: impl Into<String>, ifname: IfName) -> Self {
        let (args, capabilities) = (Vec::new(), Map::new());
        Self { container, netns: netns.into(), ifname, args, capabilities }
    }

    /// The environment of a plugin that is called for it; whatever names the call is still empty.
    pub(super) fn environment(&self) -> Environment {
        let pairs: Vec<String> =
            self.args.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Environment {
            container: self.container.to_string(),
            netns: self.netns.clone(),
            ifname: self.ifname.to_string(),
            args: pairs.join(";"),
            ..Environment::default()
        }
    }
}

/// The pairs in a text such as `CNI_ARGS`; none in an empty one.
///
/// # Errors
/// [`model::Kind::Invalid`] where a pair is none, or half of it is empty.
pub fn parse_args(text: &str) -> Result<Vec<(String, String)>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let pair = |pair: &str| match pair.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() && !value.contains('=') => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err(Error::invalid(format!("invalid CNI_ARGS pair {pair:?}"))),
    };
    text.split(';').map(pair).collect()
}

/// The container id that the reference program `cnitool` gives to the namespace at this absolute
/// path.
///
/// # Errors
/// None that can be caused: every such name is a valid id.
pub fn container_of(netns: &Path) -> Result<ContainerId> {
    let digest = Sha512::digest(netns.as_os_str().as_encoded_bytes());
    let hex: String = digest.iter().take(10).map(|byte| format!("{byte:02x}")).collect();
    format!("cnitool-{hex}").parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_called_as_the_reference_calls_them() {
        // printf /run/netns/testing | sha512sum | cut -c-20
        let container = container_of(Path::new("/run/netns/testing")).unwrap();
        assert_eq!(container.as_str(), "cnitool-43057b9dcc39fe733071");
    }

    #[test]
    fn half_a_pair_is_none() {
        let pairs = parse_args("A=b;C=d").unwrap();
        assert_eq!(pairs, [("A".into(), "b".into()), ("C".into(), "d".into())]);
        for bad in ["A", "A=", "=b", "A=b;", "A=b=c"] {
            assert!(parse_args(bad).unwrap_err().to_string().contains("invalid CNI_ARGS pair"));
        }
        assert!(parse_args("").unwrap().is_empty());
    }
}
