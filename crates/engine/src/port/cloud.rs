//! The port to a cloud that owns networks, subnets and addresses itself.
//!
//! An attachment on a cloud's network goes through [`super::Driver`] as every other one does. What
//! is here is what a runtime asks for before there is an attachment, or beside it, where the cloud
//! and not the store answers (libnetwork's IPAM driver and networks; kuryr-libnetwork).

use std::net::IpAddr;

use std::num::NonZeroU16;

use model::{
    AliasId, Attachment, Family, IpNet, Mac, Network, Protocol, ResourceId, ResourceRef, Result,
};

/// Which addresses a runtime wants to allocate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// The subnet; one of the cloud's default pool where none is named.
    pub net: Option<IpNet>,
    /// The part of it from which any address is chosen.
    pub part: Option<IpNet>,
    /// Of this family, where no subnet is named.
    pub family: Family,
    /// An existing subnet.
    pub subnet: Option<ResourceRef>,
    /// An existing subnet pool.
    pub pool: Option<ResourceRef>,
    /// An existing network, one of whose subnets may be the requested one.
    pub network: Option<ResourceRef>,
    /// The address scope of a pool that is made.
    pub address_scope: Option<ResourceRef>,
    /// Whether a pool that is made is seen by other projects.
    pub shared: Option<bool>,
}

/// A pool that was allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudPool {
    /// Its id for later calls.
    pub id: ResourceId,
    /// Its addresses.
    pub net: IpNet,
}

/// The use of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressUse {
    /// The network's gateway.
    Gateway,
    /// A container.
    Container,
}

/// Which address is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSpec {
    /// Of which pool.
    pub pool: ResourceId,
    /// This one; any where none is named.
    pub address: Option<IpAddr>,
    /// The hardware address of the interface that will have it, where it is known.
    pub mac: Option<Mac>,
    /// The use of the address.
    pub purpose: AddressUse,
}

/// One family's part of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubnetPlan {
    /// The whole subnet.
    pub net: IpNet,
    /// Its gateway.
    pub gateway: Option<IpAddr>,
    /// Addresses that are never allocated.
    pub auxiliary: Vec<IpAddr>,
    /// An existing subnet.
    pub subnet: Option<ResourceRef>,
    /// An existing subnet pool.
    pub pool: Option<ResourceRef>,
}

/// A network that a runtime creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudNetwork {
    /// The runtime's id.
    pub id: AliasId,
    /// An existing network of the cloud.
    pub existing: Option<ResourceRef>,
    /// Whether it is seen by other projects; must agree with an existing one.
    pub shared: Option<bool>,
    /// Its subnets, at most one of a family.
    pub subnets: Vec<SubnetPlan>,
    /// Whether addresses are allocated by the runtime's own IPAM, and not by
    /// [`Cloud::request_address`].
    pub foreign_addresses: bool,
    /// The requested properties of its containers' ports.
    pub ports: model::PortSpec,
}

/// A port of a container that others may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExposedPort {
    /// The protocol.
    pub protocol: Protocol,
    /// In the container.
    pub port: NonZeroU16,
}

/// Whether a port passes traffic, in the cloud's own word (`ACTIVE`, `DOWN`, …).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus(pub String);

/// The store's attachments, read on demand: all of them, or an error. An attachment in them has its port.
pub type Records<'a> = dyn Fn() -> Result<Vec<Attachment>> + 'a;

/// The back end of a plugin whose networks are a cloud's. Calls come on several threads at once.
/// Every method may be repeated after a failure, also where the effect of the failed call is
/// unknown. None deletes or unbinds what others made.
pub trait Cloud {
    /// Allocates a pool.
    fn request_pool(&self, spec: &PoolSpec) -> Result<CloudPool>;

    /// Takes one use of a pool back; what this host made goes with its last use, on whatever host
    /// that is. A subnet in which an attachment has an address stays, and goes with its network. One
    /// that is not there is no error.
    fn release_pool(&self, pool: &ResourceId, records: &Records<'_>) -> Result<()>;

    /// Allocates an address, with the prefix length of its subnet. Fails with
    /// [`model::Kind::Conflict`], naming the holder, where an exact one is taken.
    fn request_address(&self, spec: &AddressSpec) -> Result<IpNet>;

    /// Releases an address; the port that was made for it is deleted. An address that is not
    /// allocated, or that has another owner, is no error and stays. Fails with
    /// [`model::Kind::Conflict`] where an attachment has it.
    fn release_address(
        &self,
        pool: &ResourceId,
        address: IpAddr,
        records: &Records<'_>,
    ) -> Result<()>;

    /// Creates a network, or joins one, and returns the template of its attachments. Repeating it
    /// is no error.
    fn create_network(&self, network: &CloudNetwork) -> Result<Network>;

    /// Called when the runtime or the store has the network. From now on only
    /// [`Cloud::delete_network`] removes it. Until then what a failure leaves is removed
    /// automatically.
    fn settle_network(&self, id: &AliasId);

    /// Releases a network: what was made for it is deleted, unless others use it. An unknown
    /// network is no error. Fails with [`model::Kind::Conflict`], before anything is deleted, where
    /// a port of it is in use.
    fn delete_network(&self, id: &AliasId, records: &Records<'_>) -> Result<()>;

    /// The networks that were released and that the cloud did not delete, for another reason than
    /// that they are in use. Their callers do not ask again.
    fn given_up(&self) -> Result<Vec<AliasId>>;

    /// The network that some earlier life, or another program of the same contract, made or joined
    /// under this id.
    fn network(&self, id: &AliasId) -> Result<Option<Network>>;

    /// Whether the attachment's port passes traffic.
    fn port_status(&self, attachment: &Attachment) -> Result<PortStatus>;

    /// Lets traffic to these ports of the attachment's container in (a security group of its own).
    fn expose(&self, attachment: &Attachment, ports: &[ExposedPort]) -> Result<()>;

    /// The opposite; what is not exposed is done.
    fn conceal(&self, attachment: &Attachment) -> Result<()>;
}
