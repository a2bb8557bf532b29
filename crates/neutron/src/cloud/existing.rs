//! Ports that exist already where an address is requested.

use std::net::IpAddr;

use engine::port::AddressSpec;
use model::{Error, Ownership, Result};

use super::mark::PortPurpose;
use crate::Neutron;
use crate::api::{PortResource, Tagged};
use crate::contract::{self, EXISTING_PORT, Mark};
use crate::pool_memory::PoolSubnet;

/// The standing of a port that has the requested address.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    /// It may be used, and has this ownership then.
    Free(Ownership),
    /// It may not, because.
    Taken(&'static str),
}

impl Neutron {
    /// The port that has the address or the hardware address, if it may be used.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`] with its user; Neutron's refusal where no port has the address.
    pub(super) fn taken(
        &self,
        spec: &AddressSpec,
        place: &PoolSubnet,
        refusal: Error,
    ) -> Result<(PortResource, Ownership)> {
        let Some(port) = self.holder(spec, place)? else { return Err(refusal) };
        let subnet = &place.subnet.id;
        let standing = self.standing(spec, &port);
        let has_it = match spec.address {
            Some(address) => port.has(address),
            None => port.address_in(subnet).is_some(),
        };
        if !has_it {
            // Of our own it is the one for the other family, of which another life knew.
            return match standing {
                Standing::Free(Ownership::Requested) if port.address_in(subnet).is_none() => {
                    let extended = self.extend(&port, subnet, spec.address)?;
                    Ok((extended, Ownership::Requested))
                }
                _ => Err(refused(&port, "it has the hardware address that was asked for")),
            };
        }
        match standing {
            Standing::Taken(why) => Err(refused(&port, why)),
            Standing::Free(ownership) => {
                if let Some(stored) = self.take_port_from_stock(&port.id)? {
                    return Ok((stored, Ownership::Requested));
                }
                if ownership == Ownership::Borrowed && !port.is_tagged(EXISTING_PORT) {
                    self.api().add_tag(Tagged::Ports, &port.id, EXISTING_PORT)?;
                }
                // The port as the change of its tags left it.
                let port = self.api().port(&port.id)?.unwrap_or(port);
                Ok((port, ownership))
            }
        }
    }

    fn holder(&self, spec: &AddressSpec, place: &PoolSubnet) -> Result<Option<PortResource>> {
        let network = ("network_id", place.subnet.network_id.to_string());
        if let Some(address) = spec.address {
            let filter = [network.clone(), ("fixed_ips", format!("ip_address={address}"))];
            // Neutron compares beginnings where it has the extension for that.
            let ports = self.api().ports(&filter)?;
            if let Some(port) = ports.into_iter().find(|port| port.has(address)) {
                return Ok(Some(port));
            }
        }
        let Some(mac) = spec.mac else { return Ok(None) };
        Ok(self.api().ports(&[network, ("mac_address", mac.to_string())])?.pop())
    }

    fn standing(&self, spec: &AddressSpec, port: &PortResource) -> Standing {
        let host = self.settings.host.as_str();
        if !matches!(port.device_owner.as_str(), "" | contract::OWNER) {
            return Standing::Taken("it is of something that is no container");
        }
        if port.host().is_some_and(|other| other != host) {
            return Standing::Taken("it is bound to another host");
        }
        if has_endpoint(port) || self.is_getting_a_name(&port.id, None) {
            return Standing::Taken("a container has it");
        }
        let is_same = spec.mac.is_none_or(|mac| mac == port.mac_address);
        match Mark::read(&port.description) {
            Some(mark) => self.standing_of_ours(spec, port, &mark),
            None if contract::is_kuryrs(port) && port.host().is_none() => {
                Standing::Free(Ownership::Requested)
            }
            None if port.host().is_some() && !is_same => {
                Standing::Taken("it is bound to this host with another hardware address")
            }
            None if self.is_allocated_to_another(spec, port) => {
                Standing::Taken("a container is getting it")
            }
            None => Standing::Free(Ownership::Borrowed),
        }
    }

    fn standing_of_ours(&self, spec: &AddressSpec, port: &PortResource, mark: &Mark) -> Standing {
        let is_stock = mark.what.starts_with("stock-");
        match PortPurpose::of(mark) {
            _ if !mark.is_of(&self.settings.host) => {
                Standing::Taken("another host made it for itself")
            }
            Some(PortPurpose::Auxiliary) => Standing::Taken("the address is kept back"),
            None if is_stock && self.is_allocated_to_another(spec, port) => {
                Standing::Taken("a container is getting it")
            }
            None if is_stock && port.device_id.is_empty() && spec.mac.is_none() => {
                Standing::Free(Ownership::Requested)
            }
            None => Standing::Taken("it was made for another container"),
            Some(PortPurpose::Request) if self.is_allocated_to_another(spec, port) => {
                Standing::Taken("a container is getting it")
            }
            Some(PortPurpose::Request) if spec.mac == Some(port.mac_address) => {
                Standing::Free(Ownership::Requested)
            }
            Some(PortPurpose::Request) => Standing::Taken("it was requested for another container"),
        }
    }

    /// Whether some other request has got it and no container has yet.
    fn is_allocated_to_another(&self, spec: &AddressSpec, port: &PortResource) -> bool {
        let addresses = port.fixed_ips.iter().filter_map(|ip| ip.ip_address);
        let mut allocated = addresses.filter_map(|ip| self.allocated.port(&port.network_id, ip));
        allocated.any(|known| known.asked.is_none() || known.asked != spec.mac)
    }
}

/// Whether a container's endpoint has it.
fn has_endpoint(port: &PortResource) -> bool {
    contract::id_of_tags(port.tags.iter().map(String::as_str)).is_some()
}

fn refused(port: &PortResource, why: &str) -> Error {
    let reported = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
    let addresses = port.fixed_ips.iter().filter_map(|ip| ip.ip_address);
    let addresses: Vec<String> = addresses.map(|address: IpAddr| address.to_string()).collect();
    Error::conflict(format!(
        "port {} ({}, {}) is not to be used: {why} (device_owner {}, device_id {}, host {})",
        port.id,
        addresses.join(", "),
        port.mac_address,
        reported(&port.device_owner),
        reported(&port.device_id),
        reported(port.host().unwrap_or_default())
    ))
}
