//! ReleaseAddress.

use std::net::IpAddr;

use engine::port::Records;
use model::{Kind, Ownership, ResourceId, Result};

use super::live::{Live, in_use};
use super::mark::PortPurpose;
use crate::Neutron;
use crate::api::{PortChange, PortResource, Tagged, gone_is_done};
use crate::contract::{self, EXISTING_PORT, Mark};
use crate::pool_memory::PoolSubnet;

impl Neutron {
    /// Takes an address back.
    pub(super) fn take_address_back(
        &self,
        pool: &ResourceId,
        address: IpAddr,
        records: &Records<'_>,
    ) -> Result<()> {
        self.memory.let_go(pool, address);
        let found = match self.pool_state(pool) {
            Err(error) if error.kind() == Kind::NotFound => return Ok(()),
            found => found?,
        };
        let Some(place) = &found.place else { return Ok(()) };
        let subnet = &place.subnet;
        match self.allocated.port(&subnet.network_id, address) {
            Some(port) => {
                // A port whose attachment ended in this process has no user.
                if !port.is_ended && Live::read(records)?.names(&port.id) {
                    return Err(in_use(&port.id, address));
                }
                self.end_allocated(&port.id, port.ownership)?;
            }
            None if subnet.gateway_ip == Some(address) => {}
            None => self.end_found(place, address, &Live::read(records)?)?,
        }
        Ok(())
    }

    /// Of a port that this process allocated.
    fn end_allocated(&self, id: &ResourceId, ownership: Ownership) -> Result<()> {
        match ownership {
            Ownership::Borrowed => {
                if let Some(port) = self.api().port(id)? {
                    self.unbind(&port)?;
                }
            }
            Ownership::Own | Ownership::Requested => {
                if !self.return_to_stock(id)? {
                    self.abandon(id)?;
                }
            }
        }
        self.allocated.remove(id);
        Ok(())
    }

    /// Of a port that only Neutron knows.
    fn end_found(&self, place: &PoolSubnet, address: IpAddr, live: &Live) -> Result<()> {
        let subnet = &place.subnet;
        let network = ("network_id", subnet.network_id.to_string());
        let filter = [network, ("fixed_ips", format!("ip_address={address}"))];
        for port in self.api().ports(&filter)? {
            if !port.has(address) || port.address_in(&subnet.id).is_none() {
                continue;
            }
            if live.has(&port) {
                return Err(in_use(&port.id, address));
            }
            let host = self.settings.host.as_str();
            let is_elsewhere = port.host().is_some_and(|other| other != host);
            match Mark::read(&port.description) {
                Some(mark) if self.is_requested(&mark, &port) => {
                    self.unnest_lost(&port, &[])?;
                    self.end_allocated(&port.id, Ownership::Requested)?;
                }
                Some(_) => {}
                None if is_elsewhere => {}
                None if port.is_tagged(EXISTING_PORT) => self.unbind(&port)?,
                None if contract::is_kuryrs(&port) => self.api().delete_port(&port.id)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Whether a port goes with its address, and is not an attachment's alone.
    fn is_requested(&self, mark: &Mark, port: &PortResource) -> bool {
        let has_container = port.is_tagged(contract::OWNER);
        let is_of_stock = mark.what.starts_with("stock-") && has_container;
        mark.is_of(&self.settings.host) && (PortPurpose::of(mark).is_some() || is_of_stock)
    }

    /// Frees a port that existed before.
    fn unbind(&self, port: &PortResource) -> Result<()> {
        let tags = || port.tags.iter().map(String::as_str);
        let endpoint = contract::id_of_tags(tags());
        let halves = endpoint.as_deref().map(contract::id_tags).unwrap_or_default();
        let host = self.settings.host.as_str();
        if port.host().is_none_or(|other| other == host) {
            let is_endpoints = endpoint.as_deref() == Some(port.device_id.as_str());
            let change = PortChange {
                device_id: is_endpoints.then(String::new),
                device_owner: Some(String::new()),
                host: Some(String::new()),
                ..PortChange::default()
            };
            gone_is_done(self.api().change_port(&port.id, &change, None).map(drop))?;
        }
        let is_ours = |tag: &&str| *tag == EXISTING_PORT || halves.iter().any(|half| half == tag);
        let remaining: Vec<String> =
            tags().filter(|tag| !is_ours(tag)).map(str::to_owned).collect();
        match remaining == port.tags {
            true => Ok(()),
            false => gone_is_done(self.api().set_tags(Tagged::Ports, &port.id, &remaining)),
        }
    }
}
