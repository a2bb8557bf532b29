//! What a command changed of a running container.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    Attachment, Bandwidth, Error, Fence, Layer, NetworkName, OwnerName, PortMap, Quota, Result,
    Runtime, hosts_clash,
};

/// What commands changed of a running container on one network. It belongs to the container's name:
/// when a container of the same runtime and name is attached again, it has the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amendment {
    /// The network.
    pub network: NetworkName,
    /// The container's runtime.
    pub runtime: Runtime,
    /// The container's lasting name, or else the id that its runtime gave it.
    pub name: OwnerName,
    /// Whether `name` is the id of an endpoint of Docker's, whose container had no name yet: no other one gets it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_endpoint: bool,
    /// The layer whose record has the ports.
    pub layer: Layer,
    /// The ports that were added to those that the runtime published.
    #[serde(default)]
    pub ports: Vec<PortMap>,
    /// The limits instead of those that the runtime set. None where these hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
    /// Where it may go, instead of what its runtime or its network says. None where that holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Fence>,
}

/// A part of an [`Amendment`] that a command can have forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmendmentPart {
    /// Rates and quota.
    Limits,
    /// Rates alone.
    Rates,
    /// The quota alone.
    Quota,
    /// Egress rules.
    Egress,
}

impl fmt::Display for AmendmentPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AmendmentPart::Limits => "limits",
            AmendmentPart::Rates => "rates",
            AmendmentPart::Quota => "quota",
            AmendmentPart::Egress => "egress",
        })
    }
}

impl Amendment {
    /// The quota that it keeps, if any.
    pub fn quota(&self) -> Option<Quota> {
        self.bandwidth.as_ref().and_then(|limits| limits.quota)
    }

    /// Nothing yet, of the container whose attachment this is.
    ///
    /// # Errors
    /// [`crate::Kind::Unsupported`] where its runtime gave it no name, and an id that is none.
    pub fn of(attachment: &Attachment) -> Result<Self> {
        Ok(Self {
            network: attachment.id.network.clone(),
            runtime: attachment.runtime,
            name: Self::name_of(attachment)?,
            is_of_endpoint: attachment.runtime == Runtime::Docker && attachment.owner.is_none(),
            layer: attachment.layer,
            ports: Vec::new(),
            bandwidth: None,
            egress: None,
        })
    }

    /// The name under which the container's changes are kept.
    ///
    /// # Errors
    /// As [`Amendment::of`].
    pub fn name_of(attachment: &Attachment) -> Result<OwnerName> {
        let id = || attachment.sandbox_name().as_str().parse();
        attachment.owner.clone().map_or_else(id, Ok).map_err(|error: Error| {
            Error::unsupported(format!("{} has no lasting name: {error}", attachment.id))
        })
    }

    /// Whether it comes to nothing.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.bandwidth.is_none() && self.egress.is_none()
    }

    /// Adds what another one has and this lacks.
    pub fn complete(&mut self, other: &Self) {
        if self.ports.is_empty() {
            self.layer = other.layer;
        }
        for map in &other.ports {
            let is_there = |it: &PortMap| {
                (it.host_port, it.protocol) == (map.host_port, map.protocol)
                    && hosts_clash(it.host, map.host)
            };
            if !self.ports.iter().any(is_there) {
                self.ports.push(map.clone());
            }
        }
        self.bandwidth = self.bandwidth.take().or_else(|| other.bandwidth.clone());
        self.egress = self.egress.take().or_else(|| other.egress.clone());
    }

    /// Whether it holds such a part.
    pub fn has(&self, part: AmendmentPart) -> bool {
        match part {
            AmendmentPart::Limits => self.bandwidth.is_some(),
            AmendmentPart::Rates => self.bandwidth.as_ref().is_some_and(Bandwidth::has_rates),
            AmendmentPart::Quota => self.quota().is_some(),
            AmendmentPart::Egress => self.egress.is_some(),
        }
    }

    /// Takes a part out.
    pub fn clear(&mut self, part: AmendmentPart) {
        match part {
            AmendmentPart::Egress => self.egress = None,
            AmendmentPart::Limits => self.bandwidth = None,
            AmendmentPart::Rates => {
                let rest = Bandwidth { quota: self.quota(), ..Bandwidth::default() };
                self.bandwidth = Some(rest).filter(Bandwidth::is_any);
            }
            AmendmentPart::Quota => {
                let rest = self.bandwidth.take().map(|it| Bandwidth { quota: None, ..it });
                self.bandwidth = rest.filter(Bandwidth::is_any);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Period, Protocol, Quota, Rate};

    /// Of a container with rates, a quota and rules.
    fn whole() -> Amendment {
        let rate = Some(Rate { rate: 1_000_000, burst: 12_000 });
        let quota = Some(Quota { bytes: 1_000_000, period: Period::Day });
        Amendment {
            network: "lan".parse().unwrap(),
            runtime: Runtime::Docker,
            name: "web".parse().unwrap(),
            is_of_endpoint: false,
            layer: Layer::Link,
            ports: Vec::new(),
            bandwidth: Some(Bandwidth { ingress: rate, egress: rate, quota, device: None }),
            egress: Some(Fence::default()),
        }
    }

    #[test]
    fn a_part_is_taken_out_and_the_others_stay() {
        for (part, stays) in [
            (AmendmentPart::Limits, vec![AmendmentPart::Egress]),
            (AmendmentPart::Rates, vec![AmendmentPart::Quota, AmendmentPart::Egress]),
            (AmendmentPart::Quota, vec![AmendmentPart::Rates, AmendmentPart::Egress]),
            (AmendmentPart::Egress, vec![AmendmentPart::Rates, AmendmentPart::Quota]),
        ] {
            let mut rest = whole();
            rest.clear(part);
            assert!(!rest.has(part), "{part}");
            assert!(stays.iter().all(|other| rest.has(*other)), "{part}");
        }
    }

    #[test]
    fn limits_without_any_are_none() {
        let mut rest = whole();
        rest.clear(AmendmentPart::Rates);
        rest.clear(AmendmentPart::Quota);
        assert_eq!(rest.bandwidth, None);
    }

    #[test]
    fn what_it_lacks_comes_from_another_one() {
        let port = |host: u16| PortMap {
            host: None,
            host_port: host.try_into().unwrap(),
            container_port: 80.try_into().unwrap(),
            protocol: Protocol::Tcp,
        };
        let nothing = Amendment { bandwidth: None, egress: None, ..whole() };
        let other = Amendment { layer: Layer::Publish, ports: vec![port(8080)], ..whole() };
        let mut one = nothing.clone();
        one.complete(&other);
        assert_eq!(one, other);
        let own = Some("a.example:443".parse().unwrap());
        let mut one =
            Amendment { ports: vec![port(8080), port(9)], egress: own.clone(), ..nothing };
        one.complete(&other);
        assert_eq!((one.ports, one.layer), (vec![port(8080), port(9)], Layer::Link));
        assert_eq!((one.egress, one.bandwidth), (own, other.bandwidth));
    }
}
