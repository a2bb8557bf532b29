//! A user's options of a network and of its endpoints for which the model has no types: the texts
//! in a [`RemoteLink`](model::RemoteLink). Only this module reads or writes them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU16;

use model::{Error, IpNet, Protocol, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Exposed;

/// A longer text is not Spoke's: 4096 options of 4 KiB would not fit into a request.
const LONGEST: usize = 1 << 20;

/// The scope of a network: one host, or all of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScopeParameter {
    /// One host.
    Local,
    /// All hosts of a cluster.
    Global,
}

/// The options with which a network is created (`docker network create`). Its name and its labels
/// are absent: libnetwork never sends them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NetworkParameters {
    /// `--opt KEY=VALUE`: `com.docker.network.generic`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Whether it has IPv4 (`--ipv4`).
    pub ipv4: bool,
    /// Whether it has IPv6 (`--ipv6`).
    #[serde(default)]
    pub ipv6: bool,
    /// Whether it is cut off from everything else (`--internal`): no ports are published.
    #[serde(default)]
    pub internal: bool,
    /// Its scope (`--scope`); the driver's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeParameter>,
    /// `--aux-address NAME=ADDRESS`, where the addresses are the store's. A remote IPAM driver's
    /// are in its pools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub auxiliary: BTreeMap<String, IpAddr>,
}

/// The options with which an endpoint is created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct EndpointParameters {
    /// `--driver-opt KEY=VALUE`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// `--expose`: ports that its container listens on, beside those that are published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exposed: Vec<ExposedParameter>,
    /// `--dns`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dns: Vec<IpAddr>,
}

/// A port of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExposedParameter {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number.
    pub port: NonZeroU16,
}

impl Default for NetworkParameters {
    /// The defaults of `docker network create`.
    fn default() -> Self {
        Self {
            options: BTreeMap::new(),
            ipv4: true,
            ipv6: false,
            internal: false,
            scope: None,
            auxiliary: BTreeMap::new(),
        }
    }
}

impl NetworkParameters {
    /// For [`model::RemoteLink::network`].
    pub fn to_text(&self) -> Result<String> {
        write("network", self)
    }

    /// Reads [`model::RemoteLink::network`]; the defaults where it is empty. Fails with
    /// [`model::Kind::Invalid`] where another program wrote it.
    pub fn read(text: &str) -> Result<Self> {
        read("network", text)
    }

    /// The named addresses of a subnet.
    pub fn auxiliary_of(&self, net: &IpNet) -> BTreeMap<String, IpAddr> {
        let within = self.auxiliary.iter().filter(|(_, address)| net.contains(*address));
        within.map(|(name, address)| (name.clone(), *address)).collect()
    }
}

impl EndpointParameters {
    /// For [`model::RemoteLink::endpoint`]: empty where there is nothing to say.
    pub fn to_text(&self) -> Result<String> {
        match *self == Self::default() {
            true => Ok(String::new()),
            false => write("endpoint", self),
        }
    }

    /// From [`model::RemoteLink::endpoint`]. Fails as [`NetworkParameters::read`] does.
    pub fn read(text: &str) -> Result<Self> {
        read("endpoint", text)
    }
}

impl From<ExposedParameter> for Exposed {
    fn from(parameters: ExposedParameter) -> Self {
        Self { protocol: parameters.protocol, port: parameters.port }
    }
}

fn write<T: Serialize>(what: &str, parameters: &T) -> Result<String> {
    let text = serde_json::to_string(parameters)
        .map_err(|cause| Error::bug(format!("writing the options of the {what}")).because(cause))?;
    bounded(what, &text).map(|()| text)
}

fn read<T: DeserializeOwned + Default>(what: &str, text: &str) -> Result<T> {
    bounded(what, text)?;
    if text.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_str(text).map_err(|cause| {
        let what = format!("the record's options of the {what} were not written by this Spoke");
        Error::invalid(what).because(cause)
    })
}

fn bounded(what: &str, text: &str) -> Result<()> {
    match text.len() <= LONGEST {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "the options of the {what} are {} bytes long; no more than {LONGEST} are possible",
            text.len()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_said_is_the_default() {
        assert_eq!(NetworkParameters::read("").unwrap(), NetworkParameters::default());
        assert_eq!(EndpointParameters::read("").unwrap(), EndpointParameters::default());
        assert_eq!(EndpointParameters::default().to_text().unwrap(), "");
    }

    #[test]
    fn what_another_program_wrote_is_refused() {
        for text in ["[]", "{", "{\"ipv4\":1}", "{\"ipv4\":true,\"else\":1}", "null"] {
            assert_eq!(
                NetworkParameters::read(text).unwrap_err().kind(),
                model::Kind::Invalid,
                "{text}"
            );
        }
        assert_eq!(
            EndpointParameters::read(&" ".repeat(LONGEST + 1)).unwrap_err().kind(),
            model::Kind::Invalid
        );
    }

    proptest! {
        #[test]
        fn networks_come_back(
            options in prop::collection::btree_map(".{0,9}", ".{0,9}", 0..4),
            flags in any::<[bool; 3]>(),
            scope in prop::option::of(prop::sample::select(vec![ScopeParameter::Local, ScopeParameter::Global])),
            auxiliary in prop::collection::btree_map("[a-z]{1,5}", any::<IpAddr>(), 0..3),
        ) {
            let [ipv4, ipv6, internal] = flags;
            let parameters = NetworkParameters { options, ipv4, ipv6, internal, scope, auxiliary };
            prop_assert_eq!(NetworkParameters::read(&parameters.to_text().unwrap()).unwrap(), parameters);
        }

        #[test]
        fn endpoints_come_back(
            options in prop::collection::btree_map(".{0,9}", ".{0,9}", 0..4),
            ports in prop::collection::vec(any::<NonZeroU16>(), 0..4),
            dns in prop::collection::vec(any::<IpAddr>(), 0..3),
        ) {
            let exposed = |port| ExposedParameter { protocol: Protocol::Udp, port };
            let parameters = EndpointParameters { options, exposed: ports.into_iter().map(exposed).collect(), dns };
            prop_assert_eq!(EndpointParameters::read(&parameters.to_text().unwrap()).unwrap(), parameters);
        }

        #[test]
        fn reading_never_panics(text in ".*") {
            let _ = NetworkParameters::read(&text);
            let _ = EndpointParameters::read(&text);
        }
    }
}
