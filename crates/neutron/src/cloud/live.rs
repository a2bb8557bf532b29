//! Which ports attachments of this host have: no call about pools, addresses or networks takes one.

use std::net::IpAddr;

use engine::port::Records;
use model::{Error, Phase, ResourceId, Result};

use crate::api::PortResource;
use crate::contract::{self, Mark};
use crate::facts::Facts;

/// The attachments of this host that have ports.
#[derive(Debug, Default)]
pub(crate) struct Live(Facts);

impl Live {
    /// As the store says now. One that is being removed has its port no longer: what is left of
    /// that goes with its address.
    pub(super) fn read(records: &Records<'_>) -> Result<Self> {
        let mut all = records()?;
        all.retain(|record| !matches!(record.phase, Phase::Detaching { .. }));
        Ok(Self(Facts::of(&all, &[])))
    }

    /// As a reconciler has read it.
    pub(crate) fn of(facts: Facts) -> Self {
        Self(facts)
    }

    /// Whether an attachment's record names the port.
    pub(super) fn names(&self, port: &ResourceId) -> bool {
        self.0.ports.contains(port)
    }

    /// Whether an attachment has the port.
    pub(super) fn has(&self, port: &PortResource) -> bool {
        let Self(facts) = self;
        let device = |id: &str| !id.is_empty() && facts.devices.contains(id);
        let tagged = contract::id_of_tags(port.tags.iter().map(String::as_str));
        facts.ports.contains(&port.id)
            || device(&port.device_id)
            || tagged.is_some_and(|id| device(&id))
            || Mark::read(&port.description).is_some_and(|mark| device(&mark.what))
    }
}

/// Why an address stays allocated.
pub(super) fn in_use(port: &ResourceId, address: IpAddr) -> Error {
    Error::conflict(format!(
        "address {address} (port {port}) is that of an endpoint: delete the endpoint first"
    ))
    .with_status(409)
}
