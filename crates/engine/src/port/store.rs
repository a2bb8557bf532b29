//! The store port: records under keys, changed by compare-and-swap.

use std::net::IpAddr;
use std::num::NonZeroU16;

use model::{
    Alias, AliasId, Amendment, Attachment, AttachmentId, AttachmentOutline, Claim, ContainerId,
    Cursor, Holder, IfName, Layer, Network, NetworkName, OwnerName, PoolId, Protocol, Reservation,
    Result, Runtime, SandboxRecord, Space, Subnet, SubnetId, Usage,
};

use super::Outline;

/// The name of a record.
///
/// Durable keys outlive a reboot. The others are discarded with the kernel state that they
/// describe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A network that was created by a command. Durable.
    Network(NetworkName),
    /// A network as a runtime's configuration last described it.
    Configured(NetworkName),
    /// The name that a declared network has, is given or leaves: of two transactions that do so, the second one
    /// finds it changed. What networks are called their own records say; without this record none is called so
    /// since this boot.
    Title(NetworkName),
    /// One layer of an attachment.
    Attachment(AttachmentId, Layer),
    /// A held address.
    Lease(Space, IpAddr),
    /// Where a pool's search continues.
    Cursor(PoolId),
    /// The holders of a host port.
    Port(Protocol, NonZeroU16),
    /// An address kept back. Durable.
    Reservation(Space, IpAddr),
    /// The addresses that an owner gets again. Durable.
    Sticky(NetworkName, OwnerName),
    /// A subnet that a runtime requested. Durable.
    Subnet(SubnetId),
    /// A network under a runtime's own id. Durable.
    Alias(AliasId),
    /// The attachments of a sandbox that Spoke itself connects.
    Sandbox(ContainerId),
    /// An attachment that its user keeps apart from any sandbox, as it is when it is in none. Durable.
    Endpoint(AttachmentId),
    /// What commands changed of the running containers of a name. Durable.
    Amendment(NetworkName, Runtime, OwnerName),
    /// What the containers of a name have used of their quota, each by its interface of this name. Durable.
    Usage(NetworkName, Runtime, OwnerName, IfName),
}

/// The value under a [`Key`] of the same name.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Under [`Key::Network`] and [`Key::Configured`].
    Network(Box<Network>),
    /// Under [`Key::Title`]: the name in the book of the network that got it.
    Title(NetworkName),
    /// Under [`Key::Attachment`] and [`Key::Endpoint`].
    Attachment(Box<Attachment>),
    /// Under [`Key::Lease`].
    Lease(Holder),
    /// Under [`Key::Cursor`].
    Cursor(Cursor),
    /// Under [`Key::Port`]; never empty.
    Port(Vec<Claim>),
    /// Under [`Key::Reservation`].
    Reservation(Reservation),
    /// Under [`Key::Sticky`].
    Sticky(Vec<IpAddr>),
    /// Under [`Key::Subnet`].
    Subnet(Subnet),
    /// Under [`Key::Alias`].
    Alias(Alias),
    /// Under [`Key::Sandbox`]; never without members.
    Sandbox(SandboxRecord),
    /// Under [`Key::Amendment`]; never empty.
    Amendment(Box<Amendment>),
    /// Under [`Key::Usage`].
    Usage(Usage),
}

/// A set of keys that can be listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// Every [`Key::Network`].
    Networks,
    /// Every [`Key::Configured`].
    Configured,
    /// Every [`Key::Attachment`].
    Attachments,
    /// Every [`Key::Attachment`] of one network.
    AttachmentsOf(NetworkName),
    /// Every [`Key::Attachment`] of one container. The keys name the container, so other records
    /// are not read.
    AttachmentsOfContainer(ContainerId),
    /// Every [`Key::Lease`] of one space.
    Leases(Space),
    /// Every [`Key::Lease`] of every space.
    AllLeases,
    /// Every [`Key::Port`].
    Ports,
    /// Every [`Key::Reservation`].
    Reservations,
    /// Every [`Key::Sticky`] of one network.
    StickyOf(NetworkName),
    /// Every [`Key::Subnet`].
    Subnets,
    /// Every [`Key::Alias`].
    Aliases,
    /// Every [`Key::Sandbox`].
    Sandboxes,
    /// Every [`Key::Endpoint`].
    Endpoints,
    /// Every [`Key::Endpoint`] of one network.
    EndpointsOf(NetworkName),
    /// Every [`Key::Amendment`].
    Amendments,
    /// Every [`Key::Amendment`] of one network.
    AmendmentsOf(NetworkName),
    /// Every [`Key::Usage`].
    Usages,
    /// Every [`Key::Usage`] of one network.
    UsagesOf(NetworkName),
}

/// Changes whenever a record is written; never the same again for the same key, not even after the
/// record was deleted and made again. Of two writings of durable keys, also of different ones, the
/// later has the greater revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A record as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Versioned {
    /// The record.
    pub record: Record,
    /// Of which writing.
    pub revision: Revision,
}

/// Something that stands where a record should, and is none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damaged {
    /// Where it is.
    pub path: String,
    /// What is wrong with it, and what to do.
    pub why: String,
}

/// The condition on a key for a transaction to commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// There is no record.
    Absent,
    /// The record is still the one that was read.
    At(Revision),
}

impl Expect {
    /// Whether a key whose record has revision `found` is as expected.
    pub fn holds(self, found: Option<Revision>) -> bool {
        match self {
            Expect::Absent => found.is_none(),
            Expect::At(revision) => found == Some(revision),
        }
    }
}

/// Changes that happen all or not at all, also when the process is killed in between.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Txn {
    /// Checked first, in order.
    pub expect: Vec<(Key, Expect)>,
    /// Written in order; `None` deletes, and deleting what is absent is no error.
    pub changes: Vec<(Key, Option<Record>)>,
    /// Whether the caller of what is written does not have its result yet
    /// ([`Store::mark_answered`]).
    pub unreported: bool,
}

/// Whether a transaction happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was written; every record that the transaction put has this revision.
    Done(Revision),
    /// Nothing was written: this key was not as expected.
    Lost(Key),
}

/// Where records are kept. Several processes use one store at the same time.
pub trait Store {
    /// The record under `key`.
    fn get(&self, key: &Key) -> Result<Option<Versioned>>;

    /// All readable records under `prefix`, in the order of their keys. Damaged ones are left out,
    /// so that they do not stop others; [`Store::damaged`] lists them, and [`Store::get`] refuses
    /// them.
    fn list(&self, prefix: &Prefix) -> Result<Vec<(Key, Versioned)>>;

    /// Those of [`Prefix::Attachments`] whose containers may be called `name` ([`Record::may_be_called`]). A store may
    /// know the others without decoding them.
    fn attachments_called(&self, name: &str) -> Result<Vec<(Key, Versioned)>> {
        let mut found = self.list(&Prefix::Attachments)?;
        found.retain(|(_, held)| held.record.may_be_called(name));
        Ok(found)
    }

    /// The outline of each of [`Prefix::Attachments`], in the order of their keys. A store may know them without reading
    /// the records.
    fn attachment_outlines(&self) -> Result<Vec<AttachmentOutline>> {
        let of = |(_, held): &(Key, Versioned)| match &held.record {
            Record::Attachment(held) => Some(AttachmentOutline::of(held)),
            _ => None,
        };
        Ok(self.list(&Prefix::Attachments)?.iter().filter_map(of).collect())
    }

    /// What cannot be read as a record, under `prefix` or anywhere.
    fn damaged(&self, _prefix: Option<&Prefix>) -> Result<Vec<Damaged>> {
        Ok(Vec::new())
    }

    /// Reports the [`Outline`]s of every declared network and every allocated subnet, in no order,
    /// as far as their records can be read. A store may know them without reading the records.
    fn outline(&self, report: &mut dyn FnMut(&Outline<'_>)) -> Result<()> {
        for prefix in [Prefix::Networks, Prefix::Subnets] {
            for (key, held) in self.list(&prefix)? {
                Outline::each_of(&key, &held.record, report);
            }
        }
        Ok(())
    }

    /// Checks and writes in one step.
    fn commit(&self, txn: &Txn) -> Result<Outcome>;

    /// Notes that the caller that asked for the record under `key` has its result. Costs next to
    /// nothing, and changes neither record nor revision. Every later transaction that writes the
    /// record keeps the note, unless it is [`Txn::unreported`].
    fn mark_answered(&self, _key: &Key) -> Result<()> {
        Ok(())
    }

    /// Whether that was noted, or need not be.
    fn is_answered(&self, _key: &Key) -> Result<bool> {
        Ok(true)
    }
}

impl Record {
    /// Whether a command that says `name` may mean the container of this attachment: by its id, by the start of that,
    /// by the name of its sandbox, or by its lasting name, of which a part is enough ([`model::is_owner_called`]).
    pub fn may_be_called(&self, name: &str) -> bool {
        let Record::Attachment(held) = self else { return false };
        let owner = held.owner.as_ref().map_or("", |owner| owner.as_str());
        Self::may_mean((held.id.container.as_str(), held.sandbox_name().as_str(), owner), name)
    }

    /// The same of an id, of a sandbox's name, and of a lasting name, which is empty where there is none.
    pub fn may_mean((id, sandbox, owner): (&str, &str, &str), name: &str) -> bool {
        id.starts_with(name) || sandbox == name || model::is_owner_called(owner, name)
    }
}

impl Txn {
    /// A transaction that changes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only if `key` is as expected.
    #[must_use]
    pub fn require(mut self, key: Key, expect: Expect) -> Self {
        self.expect.push((key, expect));
        self
    }

    /// What is expected and changed by both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.expect.extend(other.expect);
        self.changes.extend(other.changes);
        self
    }

    /// The caller does not have the result of what is written yet.
    #[must_use]
    pub fn unreported(self) -> Self {
        Self { unreported: true, ..self }
    }

    /// Writes `record`.
    #[must_use]
    pub fn put(mut self, key: Key, record: Record) -> Self {
        self.changes.push((key, Some(record)));
        self
    }

    /// Deletes the record.
    #[must_use]
    pub fn delete(mut self, key: Key) -> Self {
        self.changes.push((key, None));
        self
    }
}

impl Key {
    /// Whether the record outlives a reboot.
    pub fn is_durable(&self) -> bool {
        match self {
            Key::Network(_)
            | Key::Reservation(..)
            | Key::Sticky(..)
            | Key::Subnet(_)
            | Key::Alias(_)
            | Key::Amendment(..)
            | Key::Usage(..)
            | Key::Endpoint(_) => true,
            Key::Configured(_)
            | Key::Title(_)
            | Key::Attachment(..)
            | Key::Lease(..)
            | Key::Cursor(_)
            | Key::Port(..)
            | Key::Sandbox(_) => false,
        }
    }
}
