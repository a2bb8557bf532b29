//! RequestAddress.

use std::net::IpAddr;
use std::sync::Arc;

use engine::port::AddressSpec;
use model::{Error, Family, IpNet, Nesting, Ownership, ResourceId, Result};

use super::mark::{AUXILIARY_NAME, PortPurpose, auxiliary_mark, make};
use crate::Neutron;
use crate::allocated::AllocatedPort;
use crate::api::{FixedIp, NewPort, PortChange, PortResource};
use crate::contract;
use crate::pool_memory::PoolSubnet;
use crate::stock_key::PortUse;

impl Neutron {
    /// The gateway of a pool's addresses. No port is made of it.
    pub(super) fn gateway_address(&self, spec: &AddressSpec) -> Result<IpNet> {
        let found = self.pool_state(&spec.pool)?;
        let address = match &found.place {
            Some(place) => gateway_of(place, spec.address)?,
            None => match spec.address {
                Some(address) => usable(found.net, address)?,
                None => model::hosts_of(&found.net).0,
            },
        };
        if !found.is_used {
            self.memory.take_turn(&spec.pool, found.net)?;
        }
        prefixed(address, &found.net)
    }

    fn keep_back(
        &self,
        spec: &AddressSpec,
        net: IpNet,
        place: Option<&PoolSubnet>,
        address: IpAddr,
    ) -> Result<IpNet> {
        let address = usable(net, address)?;
        match place {
            Some(place) => {
                // With several networks of this host it is unknown which one asks.
                let host = &self.settings.host;
                let is_ours = |tag: &&String| contract::is_use_of(tag, host);
                let mut uses = place.subnet.tags.iter().filter(is_ours);
                let once = uses.next().filter(|_| uses.next().is_none());
                let at = (&place.subnet.network_id, &place.subnet.id);
                self.reserve(at, address, once.map(String::as_str))?;
            }
            None => self.memory.keep_back(&spec.pool, net, address),
        }
        prefixed(address, &net)
    }

    /// Makes a port that keeps an address from being allocated, for the use of the subnet that has
    /// this tag. An address that has a port already is not allocated either.
    pub(super) fn reserve(
        &self,
        (network, subnet): (&ResourceId, &ResourceId),
        address: IpAddr,
        once: Option<&str>,
    ) -> Result<()> {
        let mark = auxiliary_mark(&self.settings.host, once).to_string();
        let port = NewPort {
            name: AUXILIARY_NAME.to_owned(),
            network_id: Some(network.clone()),
            fixed_ips: Some(vec![fixed(subnet, Some(address))]),
            admin_state_up: true,
            description: mark.clone(),
            is_unique: true,
            ..NewPort::default()
        };
        let made = make(
            || self.api().create_port(&port),
            || self.api().ports(&[("description", mark.clone())]),
        );
        match made {
            Err(error) if error.status() == Some(409) => Ok(()),
            made => made.map(drop),
        }
    }

    /// An address for a container, with a port that has it.
    pub(super) fn container_address(&self, spec: &AddressSpec) -> Result<IpNet> {
        let found = self.pool_state(&spec.pool)?;
        // Engines do not say that an address is auxiliary. Before the network exists, it must be.
        if let (false, Some(address), None) = (found.is_used, spec.address, spec.mac) {
            return self.keep_back(spec, found.net, found.place.as_deref(), address);
        }
        let Some(place) = found.place else {
            return Err(Error::not_found(format!(
                "there is no subnet of Neutron's of pool {} ({}) yet: addresses are allocated \
                 once there is a network",
                spec.pool, found.net
            )));
        };
        match self.port_with_address(spec, &place) {
            Err(error) if matches!(error.status(), Some(400 | 404)) => {
                self.memory.misplace(&spec.pool);
                match self.pool_state(&spec.pool)?.place {
                    Some(now) if now.subnet.id != place.subnet.id => {
                        self.port_with_address(spec, &now)
                    }
                    _ => Err(error),
                }
            }
            done => done,
        }
    }

    fn port_with_address(&self, spec: &AddressSpec, place: &Arc<PoolSubnet>) -> Result<IpNet> {
        let subnet = &place.subnet;
        if let Some(address) = spec.address {
            usable(subnet.cidr, address)?;
        }
        if let Some(waiting) = self.waiting_port(spec, place)
            && let Some(address) = self.address_of(spec, place, waiting)?
        {
            return prefixed(address, &subnet.cidr);
        }
        let (port, ownership) = match self.ready_port(spec, place)? {
            Some(port) => (port, Ownership::Requested),
            None => match self.new_port_with(spec, place) {
                Err(error) if error.status() == Some(409) => self.taken(spec, place, error)?,
                made => (made?, Ownership::Requested),
            },
        };
        let address = spec.address.or_else(|| port.address_in(&subnet.id)).ok_or_else(|| {
            Error::try_again(format!("Neutron's port {} has no address in {}", port.id, subnet.id))
        })?;
        self.allocated.add(port, address, spec.mac, ownership);
        prefixed(address, &subnet.cidr)
    }

    /// A port that was allocated for the same interface a moment ago: for its other family, or in
    /// an answer that was lost.
    fn waiting_port(&self, spec: &AddressSpec, place: &PoolSubnet) -> Option<AllocatedPort> {
        let network = &place.subnet.network_id;
        match spec.mac {
            Some(mac) => self.allocated.of_mac(network, mac),
            // Engines ask for IPv4 first: what waits with another family is another's.
            None if place.subnet.cidr.addr().is_ipv4() => None,
            None => self.allocated.only_without(network, |address| address.is_ipv6()),
        }
    }

    /// The address that it has, or gets; none where it cannot be the port that is meant.
    fn address_of(
        &self,
        spec: &AddressSpec,
        place: &PoolSubnet,
        allocated: AllocatedPort,
    ) -> Result<Option<IpAddr>> {
        let Some(port) = allocated.waiting else { return Ok(None) };
        let has = port.address_in(&place.subnet.id);
        let port = match (has, spec.address) {
            (Some(has), Some(wanted)) if has != wanted && !port.has(wanted) => return Ok(None),
            (Some(_), _) => port,
            (None, _) if allocated.ownership == Ownership::Borrowed => return Ok(None),
            (None, wanted) => match self.extend(&port, &place.subnet.id, wanted) {
                // It gets a port of its own then; the attachment of both joins them.
                Err(error) if matches!(error.status(), Some(404 | 409)) => return Ok(None),
                extended => extended?,
            },
        };
        let address = spec.address.or_else(|| port.address_in(&place.subnet.id));
        if let Some(address) = address {
            self.allocated.add(port, address, spec.mac, allocated.ownership);
        }
        Ok(address)
    }

    /// Gives a port of Spoke's an address of one more subnet.
    pub(super) fn extend(
        &self,
        port: &PortResource,
        subnet: &ResourceId,
        address: Option<IpAddr>,
    ) -> Result<PortResource> {
        let mut fixed_ips = port.fixed_ips.clone();
        fixed_ips.push(fixed(subnet, address));
        let change = PortChange { fixed_ips: Some(fixed_ips), ..PortChange::default() };
        self.api().change_port(&port.id, &change, None)
    }

    /// A port that was made ahead of need. Its hardware address and its addresses are what they are.
    fn ready_port(&self, spec: &AddressSpec, place: &PoolSubnet) -> Result<Option<PortResource>> {
        if self.settings.stock.is_none() {
            return Ok(None);
        }
        self.note_passed_over(spec.mac.is_some());
        if spec.mac.is_some() || spec.address.is_some() {
            return Ok(None);
        }
        let Some(spot) = self.stock_place() else { return Ok(None) };
        let mut key = self.stock_key(spot, &place.subnet.network_id);
        key.subnets.clone_from(&place.siblings);
        self.take_from_stock(&key)
    }

    /// Where ports made ahead of need are used; none where that depends on more than the host.
    fn stock_place(&self) -> Option<PortUse> {
        match &self.settings.plugging.nesting {
            None => Some(PortUse::Host),
            Some(Nesting::Macvlan { .. } | Nesting::Ipvlan { .. }) => Some(PortUse::Nested),
            Some(Nesting::Trunk { .. }) => None,
        }
    }

    fn new_port_with(&self, spec: &AddressSpec, place: &PoolSubnet) -> Result<PortResource> {
        let mark = PortPurpose::Request.mark(&self.settings.host).to_string();
        let is_nested = self.settings.plugging.nesting.is_some();
        let port = NewPort {
            name: contract::PORT_NAME.to_owned(),
            network_id: Some(place.subnet.network_id.clone()),
            fixed_ips: Some(vec![fixed(&place.subnet.id, spec.address)]),
            mac_address: spec.mac,
            admin_state_up: true,
            device_owner: contract::OWNER.to_owned(),
            host: (!is_nested).then(|| self.settings.host.to_string()),
            description: mark.clone(),
            is_unique: true,
            ..NewPort::default()
        };
        make(
            || self.api().create_port(&port),
            || self.api().ports(&[("description", mark.clone())]),
        )
    }
}

fn fixed(subnet: &ResourceId, address: Option<IpAddr>) -> FixedIp {
    FixedIp { subnet_id: Some(subnet.clone()), ip_address: address }
}

/// The gateway of a subnet that exists. Where it has none, kuryr-libnetwork's answer.
fn gateway_of(place: &PoolSubnet, wanted: Option<IpAddr>) -> Result<IpAddr> {
    let subnet = &place.subnet;
    match (wanted, subnet.gateway_ip) {
        (Some(wanted), Some(gateway)) if wanted == gateway => Ok(gateway),
        (Some(wanted), gateway) => Err(Error::conflict(format!(
            "gateway {wanted} is asked for, and that of Neutron's subnet {} ({}) is {}",
            subnet.id,
            subnet.cidr,
            gateway.map_or_else(|| "none".to_owned(), |gateway| gateway.to_string())
        ))),
        (None, Some(gateway)) => Ok(gateway),
        (None, None) => Ok(Family::of(&subnet.cidr).unspecified()),
    }
}

/// The address, if something in the subnet can have it.
fn usable(net: IpNet, address: IpAddr) -> Result<IpAddr> {
    let (first, last) = model::hosts_of(&net);
    // In IPv6 the address of the subnet itself belongs to its routers (RFC 4291 section 2.6.1).
    let first = if address.is_ipv6() { net.network() } else { first };
    match net.contains(&address) && first <= address && address <= last {
        true => Ok(address),
        false => Err(Error::invalid(format!("{address} is no address of a host in {net}"))),
    }
}

/// With the prefix length of its subnet. No address is of every subnet.
fn prefixed(address: IpAddr, net: &IpNet) -> Result<IpNet> {
    let length = if address.is_unspecified() { 0 } else { net.prefix_len() };
    IpNet::new(address, length)
        .map_err(|_| Error::invalid(format!("{address} has no prefix of {length} bits")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_hosts_are_usable() {
        let (four, six): (IpNet, IpNet) =
            ("10.0.0.0/24".parse().unwrap(), "fe81::/64".parse().unwrap());
        let is_usable = |net, address: &str| usable(net, address.parse().unwrap()).is_ok();
        assert!(is_usable(four, "10.0.0.1") && is_usable(six, "fe81::"));
        for bad in ["10.0.0.0", "10.0.0.255", "10.0.1.1", "fe81::1"] {
            assert!(!is_usable(four, bad), "{bad}");
        }
    }

    #[test]
    fn no_gateway_is_of_every_subnet() {
        let net = "10.0.0.0/24".parse().unwrap();
        let reported =
            |address: &str| prefixed(address.parse().unwrap(), &net).unwrap().to_string();
        assert_eq!(reported("10.0.0.1"), "10.0.0.1/24");
        assert_eq!(reported("0.0.0.0"), "0.0.0.0/0");
    }
}
