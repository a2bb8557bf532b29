//! The port.

use std::ops::ControlFlow;
use std::time::Duration;

use model::{Error, HostName, Kind, Result};

use crate::View;
use crate::record::{Change, Key, Record, Revision};

/// What a record can depend on: it goes when its host has not renewed the lease in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseId(pub i64);

/// What must be true of a key for a transaction to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// There is no record.
    Absent,
    /// There is one, whatever it is.
    Present,
    /// The record is still the one of this transaction.
    At(Revision),
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Writes the record.
    Put(Key, Record, Option<LeaseId>),
    /// Deletes it; no error where there is none.
    Delete(Key),
    /// Deletes every [`Key::Endpoint`] of a host.
    DeleteEndpointsOf(HostName),
}

/// Changes that happen all or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// Checked first.
    pub expect: Vec<(Key, Expect)>,
    /// Checked too: since this transaction no [`Key::Pin`] was written.
    pub no_pin_since: Option<Revision>,
    /// Checked too: since this transaction no [`Key::Certificate`] of this host was written.
    pub no_certificate_since: Option<(HostName, Revision)>,
    /// Made then; at most [`Txn::MOST`].
    pub writes: Vec<Write>,
}

impl Txn {
    /// etcd takes 128 operations in one transaction unless it is configured otherwise.
    pub const MOST: usize = 100;

    /// Only if `key` is as expected.
    #[must_use]
    pub fn require(mut self, key: Key, expect: Expect) -> Self {
        self.expect.push((key, expect));
        self
    }

    /// Writes a record.
    #[must_use]
    pub fn put(mut self, key: Key, record: Record) -> Self {
        self.writes.push(Write::Put(key, record, None));
        self
    }

    /// Deletes a record.
    #[must_use]
    pub fn delete(mut self, key: Key) -> Self {
        self.writes.push(Write::Delete(key));
        self
    }
}

/// Whether a transaction happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it.
    Done(Revision),
    /// Nothing: something was not as expected.
    Lost,
}

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// The caller wanted no more, or nothing came for as long as was to be waited. It goes on
    /// behind the last revision that was reported.
    Over,
    /// What happened since then is not kept any more: everything has to be read again.
    Compacted,
}

/// Hears of the changes of one revision.
pub type Listener<'a> = dyn FnMut(Revision, Vec<Change>) -> ControlFlow<()> + 'a;

/// Whether the cluster has answered that it takes no write: it has no room, or this host may not write. Reads and the
/// renewal of leases go on then.
pub fn is_refusal(error: &Error) -> bool {
    matches!(error.kind(), Kind::Exhausted | Kind::Denied)
}

/// Where records are kept that hosts share.
pub trait Cluster {
    /// All records, of one moment.
    fn read(&self) -> Result<View>;

    /// Checks and writes in one step. Fails with `TryAgain` where the cluster cannot be reached: then
    /// it is unknown whether it happened; as [`is_refusal`] says where it takes no writes.
    fn commit(&self, txn: &Txn) -> Result<Outcome>;

    /// A lease of so many seconds.
    fn grant(&self, seconds: u32) -> Result<LeaseId>;

    /// Renews a lease; `false` where it has ended.
    fn renew(&self, lease: LeaseId) -> Result<bool>;

    /// Tells what changes behind `after`, in order and each change once, until `listener` breaks or
    /// nothing has come for `quiet`.
    fn watch(
        &self,
        after: Revision,
        quiet: Duration,
        listener: &mut Listener<'_>,
    ) -> Result<WatchEnd>;
}
