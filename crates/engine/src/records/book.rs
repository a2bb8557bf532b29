//! Typed reading of the store: what is under which key, or the invariant that is broken.

use std::net::IpAddr;

use model::{
    Alias, AliasId, Amendment, Attachment, AttachmentId, Claim, ContainerId, Cursor, Error, Holder,
    Layer, Network, NetworkName, OwnerName, PoolId, Reservation, Result, SandboxRecord, Space,
    Subnet, SubnetId, Usage,
};

use crate::Records;
use crate::port::{Expect, Key, Outcome, Prefix, Record, Revision, Txn, Versioned};

/// A record and the writing of it that was read.
#[derive(Clone, Debug)]
pub(crate) struct Read<T> {
    pub(crate) value: T,
    pub(crate) revision: Revision,
}

fn misplaced(key: &Key) -> Error {
    Error::bug(format!("the store holds something else under {key:?}"))
}

macro_rules! reader {
    ($name:ident, $variant:ident, $value:ty) => {
        fn $name(key: &Key, versioned: Versioned) -> Result<Read<$value>> {
            match versioned.record {
                Record::$variant(value) => {
                    Ok(Read { value: value.into(), revision: versioned.revision })
                }
                _ => Err(misplaced(key)),
            }
        }
    };
}

reader!(attachment, Attachment, Box<Attachment>);

reader!(network, Network, Box<Network>);

reader!(title, Title, NetworkName);

reader!(holder, Lease, Holder);

reader!(cursor, Cursor, Cursor);

reader!(claims, Port, Vec<Claim>);

reader!(reservation, Reservation, Reservation);

reader!(sticky, Sticky, Vec<IpAddr>);

reader!(subnet, Subnet, Subnet);

reader!(alias, Alias, Alias);

reader!(sandbox_record, Sandbox, SandboxRecord);

reader!(amendment, Amendment, Box<Amendment>);

reader!(usage, Usage, Usage);

impl Records<'_> {
    fn read<T>(
        &self,
        key: &Key,
        parse: impl FnOnce(&Key, Versioned) -> Result<Read<T>>,
    ) -> Result<Option<Read<T>>> {
        self.store.get(key)?.map(|versioned| parse(key, versioned)).transpose()
    }

    fn read_all<T>(
        &self,
        prefix: &Prefix,
        parse: impl Fn(&Key, Versioned) -> Result<Read<T>>,
    ) -> Result<Vec<Read<T>>> {
        let found = self.store.list(prefix)?;
        found.into_iter().map(|(key, versioned)| parse(&key, versioned)).collect()
    }

    pub(crate) fn record_of(
        &self,
        id: &AttachmentId,
        layer: Layer,
    ) -> Result<Option<Read<Box<Attachment>>>> {
        self.read(&Key::Attachment(id.clone(), layer), attachment)
    }

    pub(crate) fn attachments_in(&self, prefix: &Prefix) -> Result<Vec<Read<Box<Attachment>>>> {
        self.read_all(prefix, attachment)
    }

    pub(crate) fn holder_of(&self, space: &Space, address: IpAddr) -> Result<Option<Read<Holder>>> {
        self.read(&Key::Lease(space.clone(), address), holder)
    }

    pub(crate) fn holders_in(&self, prefix: &Prefix) -> Result<Vec<Read<Holder>>> {
        self.read_all(prefix, holder)
    }

    pub(crate) fn cursor_of(&self, pool: &PoolId) -> Result<Option<Read<Cursor>>> {
        self.read(&Key::Cursor(pool.clone()), cursor)
    }

    pub(crate) fn claims_of(&self, key: &Key) -> Result<Option<Read<Vec<Claim>>>> {
        self.read(key, claims)
    }

    pub(crate) fn reservation_of(
        &self,
        space: &Space,
        address: IpAddr,
    ) -> Result<Option<Read<Reservation>>> {
        let key = Key::Reservation(space.clone(), address);
        match self.read(&key, reservation)? {
            // What finds none here expects that none is there.
            Some(read) if self.is_over(&read.value) => self.end_over(key, &read),
            read => Ok(read),
        }
    }

    /// Removes a reservation that is over; the one that is there instead.
    fn end_over(&self, key: Key, over: &Read<Reservation>) -> Result<Option<Read<Reservation>>> {
        let txn = Txn::new().require(key.clone(), unchanged(Some(over))).delete(key.clone());
        match self.store.commit(&txn)? {
            Outcome::Done(_) => Ok(None),
            Outcome::Lost(_) => self.read(&key, reservation),
        }
    }

    /// Removes every reservation that is over, or that ends with its network.
    pub(crate) fn end_all_over(&self) -> Result<()> {
        for (key, versioned) in self.store.list(&Prefix::Reservations)? {
            // One that is damaged is reported elsewhere.
            let Ok(read) = reservation(&key, versioned) else { continue };
            if self.is_over(&read.value) || self.is_for_nothing(&read.value)? {
                self.end_over(key, &read)?;
            }
        }
        Ok(())
    }

    /// Whether it is for a container that comes back to a network, and that is gone.
    fn is_for_nothing(&self, reservation: &Reservation) -> Result<bool> {
        let network = reservation.until.and(reservation.network.as_ref());
        network.map_or(Ok(false), |name| Ok(self.named(name)?.is_none()))
    }

    pub(crate) fn reservations_in(&self, prefix: &Prefix) -> Result<Vec<Read<Reservation>>> {
        let mut read = self.read_all(prefix, reservation)?;
        read.retain(|read| !self.is_over(&read.value));
        Ok(read)
    }

    pub(crate) fn sticky_of(
        &self,
        network: &NetworkName,
        owner: &OwnerName,
    ) -> Result<Option<Read<Vec<IpAddr>>>> {
        self.read(&Key::Sticky(network.clone(), owner.clone()), sticky)
    }

    pub(crate) fn subnet_of(&self, id: &SubnetId) -> Result<Option<Read<Subnet>>> {
        self.read(&Key::Subnet(id.clone()), subnet)
    }

    pub(crate) fn subnets_in(&self, prefix: &Prefix) -> Result<Vec<Read<Subnet>>> {
        self.read_all(prefix, subnet)
    }

    pub(crate) fn alias_of(&self, id: &AliasId) -> Result<Option<Read<Alias>>> {
        self.read(&Key::Alias(id.clone()), alias)
    }

    pub(crate) fn aliases_in(&self, prefix: &Prefix) -> Result<Vec<Read<Alias>>> {
        self.read_all(prefix, alias)
    }

    pub(crate) fn sandbox_record_of(
        &self,
        container: &ContainerId,
    ) -> Result<Option<Read<SandboxRecord>>> {
        self.read(&Key::Sandbox(container.clone()), sandbox_record)
    }

    pub(crate) fn amendment_under(&self, key: &Key) -> Result<Option<Read<Box<Amendment>>>> {
        self.read(key, amendment)
    }

    pub(crate) fn usage_under(&self, key: &Key) -> Result<Option<Read<Usage>>> {
        self.read(key, usage)
    }

    pub(crate) fn amendments_in(&self, prefix: &Prefix) -> Result<Vec<Read<Box<Amendment>>>> {
        self.read_all(prefix, amendment)
    }

    /// The attachments of a sandbox that have a record, whatever phase they are in.
    pub(crate) fn members_of(&self, sandbox_record: &SandboxRecord) -> Result<Vec<Attachment>> {
        let mut members = Vec::with_capacity(sandbox_record.members.len());
        for id in &sandbox_record.members {
            members.extend(self.record_of(id, Layer::Link)?.map(|read| *read.value));
        }
        Ok(members)
    }

    /// Fails where an attachment of the network is damaged: what would have to be undone is
    /// unknown.
    pub(crate) fn refuse_if_unreadable(&self, name: &NetworkName) -> Result<()> {
        match self.store.damaged(Some(&Prefix::AttachmentsOf(name.clone())))?.first() {
            Some(damaged) => Err(Error::conflict(format!(
                "network {name} still has an attachment that cannot be read: {}",
                damaged.why
            ))),
            None => Ok(()),
        }
    }

    /// Whether a record under the prefix cannot be read: a list of them is not whole then.
    pub(crate) fn has_damaged(&self, prefix: &Prefix) -> Result<bool> {
        Ok(!self.store.damaged(Some(prefix))?.is_empty())
    }

    pub(crate) fn network_under(&self, key: &Key) -> Result<Option<Read<Box<Network>>>> {
        self.read(key, network)
    }

    pub(crate) fn title_under(&self, key: &Key) -> Result<Option<Read<NetworkName>>> {
        self.read(key, title)
    }

    pub(crate) fn networks_in(&self, prefix: &Prefix) -> Result<Vec<Read<Box<Network>>>> {
        self.read_all(prefix, network)
    }
}

/// The record that was read; `None` where it is damaged. Damaged records are reported elsewhere and
/// do not stop others.
pub(crate) fn passable<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(found) => Ok(Some(found)),
        // The store has no other cause for this kind.
        Err(error) if error.kind() == model::Kind::Invalid => Ok(None),
        Err(error) => Err(error),
    }
}

/// The condition of a transaction that a record which was read (or was absent) is unchanged.
pub(crate) fn unchanged<T>(read: Option<&Read<T>>) -> Expect {
    read.map_or(Expect::Absent, |read| Expect::At(read.revision))
}

/// Where a change is kept.
pub(crate) fn key_of_amendment(amendment: &Amendment) -> Key {
    Key::Amendment(amendment.network.clone(), amendment.runtime, amendment.name.clone())
}
