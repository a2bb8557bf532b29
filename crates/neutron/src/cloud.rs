//! Networks, pools and addresses as a runtime asks for them (libnetwork's remote drivers), with the
//! names and tags of kuryr-libnetwork 18.
//!
//! Each pool that a runtime requests is a subnet pool of its own, also where its addresses are
//! those of an existing subnet or subnet pool. So a network owns what it is made of, and both are
//! deleted together. The exception is an operator's pool that is requested as a whole: it is the
//! answer itself. A resource that several networks, of several hosts, use has one tag of each
//! (`contract::use_tag`); the network that removes the last tag deletes what Spoke made.

mod address;
mod carve;
mod drop;
mod existing;
mod given_up;
mod live;
mod mark;
mod network;
mod pool;
mod pool_state;
mod release;
mod subnet;
mod template;
mod unfinished;

use std::net::IpAddr;

use engine::port::{
    AddressSpec, AddressUse, Cloud, CloudNetwork, CloudPool, ExposedPort, PoolSpec, PortStatus,
    Records,
};
use model::{AliasId, Attachment, IpNet, Network, ResourceId, Result};

use crate::Neutron;
pub(crate) use given_up::GivenUp;
pub(crate) use live::Live;
#[cfg(test)]
pub(crate) use mark::auxiliary_mark;
pub(crate) use mark::{PortPurpose, network_use, pool_made_at, use_of_auxiliary};
pub(crate) use unfinished::Progress;

impl Cloud for Neutron {
    fn request_pool(&self, spec: &PoolSpec) -> Result<CloudPool> {
        self.hand_out_pool(spec)
    }

    fn release_pool(&self, pool: &ResourceId, records: &Records<'_>) -> Result<()> {
        self.take_pool_back(pool, records)
    }

    fn request_address(&self, spec: &AddressSpec) -> Result<IpNet> {
        match spec.purpose {
            AddressUse::Gateway => self.gateway_address(spec),
            AddressUse::Container => self.container_address(spec),
        }
    }

    fn release_address(
        &self,
        pool: &ResourceId,
        address: IpAddr,
        records: &Records<'_>,
    ) -> Result<()> {
        self.promptly(|| self.take_address_back(pool, address, records))
    }

    fn create_network(&self, network: &CloudNetwork) -> Result<Network> {
        self.make_network(network)
    }

    fn settle_network(&self, id: &AliasId) {
        self.unfinished().settle(id);
    }

    fn delete_network(&self, id: &AliasId, records: &Records<'_>) -> Result<()> {
        self.give_network_up(id, records)
    }

    fn given_up(&self) -> Result<Vec<AliasId>> {
        GivenUp::at(&self.directory).all()
    }

    fn network(&self, id: &AliasId) -> Result<Option<Network>> {
        self.promptly(|| self.network_of(id))
    }

    fn port_status(&self, attachment: &Attachment) -> Result<PortStatus> {
        self.status_of(attachment)
    }

    fn expose(&self, attachment: &Attachment, ports: &[ExposedPort]) -> Result<()> {
        self.expose_ports(attachment, ports)
    }

    fn conceal(&self, attachment: &Attachment) -> Result<()> {
        self.promptly(|| self.conceal_ports(attachment))
    }
}
