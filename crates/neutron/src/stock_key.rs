//! The properties in which ports of one kind are equal.

use std::collections::BTreeSet;

use model::{ResourceId, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::api::{FixedIp, NewPort};
use crate::contract::{self, HostId, Mark};

/// The prefix of marks of ports that were made ahead of need.
const STOCK: &str = "stock-";

/// Where a port can be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortUse {
    /// It is bound to this host.
    Host,
    /// On this host it lends its address to an interface of the instance; it is not bound.
    Nested,
    /// As a subport of this trunk.
    Trunk(ResourceId),
}

/// The properties in which ports of one kind are equal: an attachment that wants one takes any of
/// them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StockKey {
    /// This host, as Neutron knows it.
    pub host: String,
    /// Where on it.
    pub place: PortUse,
    /// The project, however it was named to us.
    pub project: String,
    /// The network.
    pub network: ResourceId,
    /// The subnets, one address of each; Neutron's choice where none is named.
    pub subnets: BTreeSet<ResourceId>,
    /// The security groups; the project's default by default.
    pub groups: Option<BTreeSet<ResourceId>>,
    /// Whether senders are checked; the network's choice by default.
    pub port_security: Option<bool>,
    /// The QoS policy.
    pub qos_policy: Option<ResourceId>,
}

/// A [`StockKey`] in short: 32 hexadecimal digits, fit for a file's name and for a mark.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct KeyDigest(String);

impl StockKey {
    /// In short.
    pub(crate) fn digest(&self) -> Result<KeyDigest> {
        let text = serde_json::to_vec(self)
            .map_err(|cause| model::Error::bug("writing what a port is like").because(cause))?;
        let digest = Sha256::digest(&text);
        Ok(KeyDigest(digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The port that is to be made ahead of need.
    pub(crate) fn port(&self, host: &HostId) -> Result<NewPort> {
        let ip =
            |subnet: &ResourceId| FixedIp { subnet_id: Some(subnet.clone()), ip_address: None };
        let is_bound = self.place == PortUse::Host;
        Ok(NewPort {
            name: contract::PORT_NAME.to_owned(),
            network_id: Some(self.network.clone()),
            fixed_ips: (!self.subnets.is_empty()).then(|| self.subnets.iter().map(ip).collect()),
            admin_state_up: true,
            device_owner: contract::OWNER.to_owned(),
            host: is_bound.then(|| host.as_str().to_owned()),
            description: self.digest()?.mark(host).to_string(),
            security_groups: self.groups.as_ref().map(|groups| groups.iter().cloned().collect()),
            port_security_enabled: self.port_security,
            qos_policy_id: self.qos_policy.clone(),
            ..NewPort::default()
        })
    }
}

impl KeyDigest {
    /// As text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The mark of a port that was made ahead of need.
    pub(crate) fn mark(&self, host: &HostId) -> Mark {
        Mark::new(host, format!("{STOCK}{}", self.0))
    }

    /// The key in a port's mark; `None` where it was not made ahead of need.
    pub(crate) fn of_mark(mark: &Mark) -> Option<Self> {
        Self::try_from(mark.what.strip_prefix(STOCK)?.to_owned()).ok()
    }
}

impl TryFrom<String> for KeyDigest {
    type Error = model::Error;

    fn try_from(text: String) -> Result<Self> {
        let is_plain = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match text.len() == 32 && text.bytes().all(is_plain) {
            true => Ok(Self(text)),
            false => Err(model::Error::invalid(format!("{text:?} is no digest"))),
        }
    }
}

impl From<KeyDigest> for String {
    fn from(digest: KeyDigest) -> Self {
        digest.0
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn key(network: &str) -> StockKey {
        StockKey {
            host: "node".into(),
            place: PortUse::Host,
            project: "p".into(),
            network: network.parse().unwrap(),
            subnets: BTreeSet::new(),
            groups: None,
            port_security: None,
            qos_policy: None,
        }
    }

    #[test]
    fn marks_name_the_key() {
        let host = HostId::try_from("node:1".to_owned()).unwrap();
        let digest = key("n").digest().unwrap();
        let mark = Mark::read(&key("n").port(&host).unwrap().description).unwrap();
        assert!(mark.is_of(&host));
        assert_eq!(KeyDigest::of_mark(&mark), Some(digest.clone()));
        assert_eq!(KeyDigest::of_mark(&Mark::new(&host, "4f")), None);
        assert_eq!(KeyDigest::of_mark(&Mark::new(&host, "stock-../../etc")), None);
        assert_ne!(digest, key("m").digest().unwrap());
        let other = StockKey { groups: Some(BTreeSet::new()), ..key("n") };
        assert_ne!(digest, other.digest().unwrap());
    }

    #[test]
    fn only_ports_of_the_host_are_bound() {
        let host = HostId::try_from("node".to_owned()).unwrap();
        let trunk = StockKey { place: PortUse::Trunk("t".parse().unwrap()), ..key("n") };
        assert_eq!(trunk.port(&host).unwrap().host, None);
        assert_eq!(key("n").port(&host).unwrap().host.as_deref(), Some("node"));
    }
}
