//! Who reaches the containers of a network of many hosts, and where these may go.

use serde::{Deserialize, Deserializer, Serialize};

use super::Unknown;
use crate::{EgressRule, Error, Fence, IngressPolicy, Result, Wiring};

/// Who reaches the containers of a network of many hosts, and where these may go. Each host applies it to its own
/// containers, and to what it routes to those of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedRules {
    /// From where its containers are reached, besides the network itself.
    #[serde(default = "open", skip_serializing_if = "is_open")]
    pub ingress: IngressPolicy,
    /// Whether nothing passes between it and anything else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub internal: bool,
    /// Where its containers may go; everywhere without any.
    #[serde(default, deserialize_with = "egress", skip_serializing_if = "Option::is_none")]
    pub egress: Option<Fence>,
    /// Whether it has a rule that only later versions know. Such a network is not used.
    #[serde(skip)]
    pub is_unknown: bool,
}

impl SharedRules {
    /// Those of a network of which containers are reached from everywhere.
    pub const OPEN: Self =
        Self { ingress: IngressPolicy::Open, internal: false, egress: None, is_unknown: false };

    /// Those with which a host has made such a network. What it learns is its own.
    pub fn of(wiring: &Wiring) -> Self {
        let firewall = wiring.firewall.as_ref();
        Self {
            ingress: firewall.map_or(IngressPolicy::Open, |it| it.ingress),
            internal: wiring.is_internal(),
            egress: wiring.fence.clone().map(|fence| Fence { learning: None, ..fence }),
            is_unknown: false,
        }
    }

    /// Whether a network with these does for a caller who asks for those: who asks for none takes it as it is.
    pub fn satisfy(&self, asked: &Self) -> bool {
        asked.is_open() || self == asked
    }

    /// Whether there are none: versions that know no rules use such a network as it is meant.
    pub fn is_open(&self) -> bool {
        *self == Self::OPEN
    }

    /// Whether this version cannot apply them.
    pub fn are_unknown(&self) -> bool {
        self.is_unknown || self.ingress == IngressPolicy::Isolated
    }

    /// Whether they hold only where every packet between hosts stays on the bridges of the network.
    pub fn need_vxlan(&self) -> bool {
        self.internal || self.egress.is_some()
    }

    /// Fails with `Unsupported` where a network of many hosts does not have them.
    pub fn check(&self) -> Result<()> {
        if self.internal && self.egress.is_some() {
            return Err(Error::invalid(
                "egress says where an internal network's packets may go: leave out one of both",
            ));
        }
        match self.ingress {
            IngressPolicy::Open | IngressPolicy::SameBridge => Ok(()),
            IngressPolicy::Isolated => Err(Error::unsupported(
                "containers of a network of many hosts reach each other: it is not isolated from itself; leave that \
                 out, or keep it from other networks alone (--ingress same-bridge, with Docker -o isolation=network)",
            )),
        }
    }
}

impl Default for SharedRules {
    fn default() -> Self {
        Self::OPEN
    }
}

impl Unknown for SharedRules {
    fn unknown() -> Self {
        Self { is_unknown: true, ..Self::OPEN }
    }
}

/// As it is written for other hosts: what only later versions know in it is a rule that this one cannot apply, and what one
/// host learns is its own.
fn egress<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Fence>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Egress {
        rules: Vec<EgressRule>,
        #[serde(default)]
        strict: bool,
    }
    let read = Option::<Egress>::deserialize(from)?;
    Ok(read.map(|Egress { rules, strict }| Fence { rules, strict, learning: None }))
}

fn open() -> IngressPolicy {
    IngressPolicy::Open
}

fn is_open(policy: &IngressPolicy) -> bool {
    *policy == IngressPolicy::Open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_network_of_many_hosts_does_not_have_is_refused() {
        let isolated = SharedRules { ingress: IngressPolicy::Isolated, ..SharedRules::OPEN };
        assert!(isolated.check().unwrap_err().to_string().contains("same-bridge"));
        let both =
            SharedRules { internal: true, egress: Some(Fence::default()), ..SharedRules::OPEN };
        assert!(both.check().unwrap_err().to_string().contains("leave out one"));
    }
}
