//! Subnets and addresses that a runtime asks for by themselves, before there is a network or a
//! container for them (libnetwork's IPAM driver).

mod address;
pub(crate) mod allocation;
mod auxiliary;
mod files;
mod label;
mod ranges;
mod room;
mod surplus;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use model::{
    EngineId, Family, IpNet, NetworkName, Order, OwnerName, Result, Runtime, Space, Sticky, Subnet,
    SubnetId, Timestamp, Want,
};

use crate::port::{Host, Ipam, Key, Prefix, Record, Store, Txn};
use crate::records::book::{Read, unchanged};
use crate::service::service;
use crate::{Addresses, Links, Records};

/// Which subnet a runtime wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubnetSpec {
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

/// The parameters of [`Subnets::request_subnet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubnetRequest {
    /// Where the subnet must overlap no other.
    pub space: Space,
    /// Which.
    pub spec: SubnetSpec,
    /// The network that it is for: where there is one of this name its subnet is shared, otherwise
    /// one will be made under this name. Named after the subnet where none is given.
    pub network: Option<NetworkName>,
    /// The runtime that asks.
    pub runtime: Runtime,
    /// In which order its addresses are allocated.
    pub order: Order,
    /// The key by which addresses are kept.
    pub sticky: Sticky,
    /// Allocate it although an overlapping subnet is in use outside the store.
    pub despite_others: bool,
}

/// The purpose of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The network's gateway: kept permanently, until it is released.
    Gateway,
    /// A device outside of any container: kept permanently, until it is released.
    Auxiliary,
    /// A container; its lasting name where one is known.
    Container(Option<OwnerName>),
}

/// The parameters of [`Subnets::request_address`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressRequest {
    /// From which subnet.
    pub subnet: SubnetId,
    /// Which address.
    pub want: Want,
    /// The purpose of the address.
    pub purpose: Purpose,
    /// The order of the search. Without one, the subnet's own.
    pub order: Option<Order>,
}

service! {
    /// Allocates subnets and addresses by request (libnetwork's IPAM driver).
    pub struct Subnets<'a> { store: Store, ipam: Ipam, host: Host }
    over { records: Records, addresses: Addresses, links: Links }
}

impl Subnets<'_> {
    /// Records that an asked runtime has listed a network of this subnet, and which engine of it, where that
    /// is known. Once the runtime no longer lists one, the subnet is garbage. One that is not there, or changes
    /// at this moment, stays as it is.
    pub fn set_listed(&self, id: &SubnetId, by: Option<&EngineId>) -> Result<()> {
        let lister = by.cloned();
        let is_new = |subnet: &Subnet| !subnet.listed || (by.is_some() && subnet.lister != lister);
        let Some(read) = self.records.subnet_of(id)?.filter(|read| is_new(&read.value)) else {
            return Ok(());
        };
        let key = Key::Subnet(id.clone());
        let txn = Txn::new().require(key.clone(), unchanged(Some(&read)));
        let listed = Subnet { listed: true, lister, ..read.value };
        self.store.commit(&txn.put(key, Record::Subnet(listed))).map(|_| ())
    }

    /// The subnets that came to no network: nothing is held or kept in them, no network was made
    /// of them, and they were requested at least `age` ago.
    pub fn idle_subnets(&self, age: Duration) -> Result<BTreeSet<SubnetId>> {
        let before = Timestamp(self.host.now().0.saturating_sub(age.as_secs()));
        let mut idle = self.records.subnets()?;
        idle.retain(|subnet| !subnet.listed && subnet.since <= before);
        if idle.is_empty() {
            return Ok(BTreeSet::new());
        }
        let kept = self.records.reservations_in(&Prefix::Reservations)?.into_iter();
        let kept = kept.map(|Read { value, .. }| (value.space, value.address));
        let held = self.records.holders_in(&Prefix::AllLeases)?.into_iter();
        let held = held.map(|Read { value, .. }| (value.lease.space, value.lease.address.addr()));
        let used: BTreeSet<(Space, IpAddr)> = kept.chain(held).collect();
        let aliases = self.records.aliases()?;
        let made: BTreeSet<_> = aliases.iter().map(|alias| &alias.network).collect();
        idle.retain(|Subnet { id, network, .. }| {
            let first = (id.space.clone(), id.net.network());
            let last = (id.space.clone(), id.net.broadcast());
            used.range(first..=last).next().is_none() && !made.contains(network)
        });
        Ok(idle.into_iter().map(|subnet| subnet.id).collect())
    }
}
