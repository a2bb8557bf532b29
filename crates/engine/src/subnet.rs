//! Subnets and addresses that a runtime asks for by themselves, before there is a network or a
//! container for them (libnetwork's IPAM driver).

mod address;
mod files;
mod handout;
mod place;
mod room;

pub use handout::name_of;

use model::{
    Family, IpNet, NetworkName, Order, OwnerName, Result, Runtime, Space, Sticky, Subnet, SubnetId,
    Want,
};

use crate::Engine;
use crate::port::Prefix;

/// Whose the reservation of a requested gateway is. No runtime has a container of such a name.
pub const GATEWAY: &str = "@gateway";

/// Whose the reservation of a requested auxiliary address is.
pub const AUXILIARY: &str = "@auxiliary";

/// Which subnet a runtime wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubnetWish {
    /// This one; addresses are chosen from `part` of it where that is given.
    Exactly {
        /// The subnet.
        net: IpNet,
        /// The part of it.
        part: Option<IpNet>,
    },
    /// One of our choice.
    Any {
        /// Of this family.
        family: Family,
        /// So large; of our choice where none is given.
        prefix_len: Option<u8>,
    },
}

/// What is asked of [`Engine::request_subnet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubnetRequest {
    /// Where the subnet must overlap no other.
    pub space: Space,
    /// Which.
    pub wish: SubnetWish,
    /// The network that it is for: where there is one of this name its subnet is shared, otherwise
    /// one will be made under this name. Named after the subnet where none is given.
    pub network: Option<NetworkName>,
    /// Who asks.
    pub runtime: Runtime,
    /// In which order its addresses are handed out.
    pub order: Order,
    /// For whom addresses are kept.
    pub sticky: Sticky,
    /// Take it although somebody outside the book uses an overlapping one.
    pub despite_others: bool,
}

/// What an address is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The network's gateway: kept for good, until it is released.
    Gateway,
    /// A device outside of any container: kept for good, until it is released.
    Auxiliary,
    /// A container; its lasting name where one is known.
    Container(Option<OwnerName>),
}

/// What is asked of [`Engine::request_address`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRequest {
    /// From which subnet.
    pub subnet: SubnetId,
    /// Which address.
    pub want: Want,
    /// What it is for.
    pub purpose: Purpose,
    /// In which order to look; the subnet's own where none is given.
    pub order: Option<Order>,
}

impl Engine<'_> {
    /// Every subnet that is handed out.
    pub fn subnets(&self) -> Result<Vec<Subnet>> {
        Ok(self.subnets_in(&Prefix::Subnets)?.into_iter().map(|read| read.value).collect())
    }

    /// The subnet of this name.
    pub fn subnet(&self, id: &SubnetId) -> Result<Option<Subnet>> {
        Ok(self.subnet_of(id)?.map(|read| read.value))
    }
}
