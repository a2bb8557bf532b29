//! Findings of a comparison of the records with the present state.

use model::{
    AliasId, AttachmentId, Claim, ContainerId, Error, Lease, NetworkName, Result, SubnetId,
};

use crate::port::{Damaged, Stray};

/// A thing that has no owner, or perhaps none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The thing.
    pub what: Garbage,
    /// What was done about it, or would be.
    pub remedy: Remedy,
}

/// The kinds of garbage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Garbage {
    /// An attachment whose process died before the end, or whose container is gone.
    Attachment(AttachmentId),
    /// An attachment whose process died while it made or unmade the interface: that goes, and the
    /// attachment is reserved as before.
    Unfinished(AttachmentId),
    /// An attachment whose container is not provably gone.
    Doubtful(AttachmentId),
    /// A held address without an attachment.
    Lease(Box<Lease>),
    /// A host port of an attachment that has no record.
    Port(Claim),
    /// Something in the kernel without a record.
    Stray(Stray),
    /// An id of a network that its runtime does not know any more.
    Alias(AliasId),
    /// A subnet that its runtime does not use any more.
    Subnet(SubnetId),
    /// A network without attachments that its runtime no longer lists; or the half of one that a
    /// dead process made.
    Network(NetworkName),
    /// A sandbox that Spoke itself connects, and that does not have the default gateway that was
    /// chosen.
    Sandbox(ContainerId),
    /// Something that stands in the store where a record should.
    Damaged(Damaged),
}

/// The remedies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// It goes.
    Free,
    /// Its addresses are not allocated until it is known.
    Quarantine,
}

/// What a comparison with the present state found. What cannot be mended or read does not hide the rest.
#[derive(Debug, Default)]
pub struct Reconciled {
    /// What has no owner, or perhaps none; in [`Mode::Mend`] its remedy was carried out.
    pub findings: Vec<Finding>,
    /// What [`Mode::Mend`] could not mend.
    pub unmended: Vec<Finding>,
    /// The reasons, and what could not be examined.
    pub failures: Vec<Error>,
}

/// Whether findings are acted upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only report.
    DryRun,
    /// Report and repair.
    Mend,
}

impl Reconciled {
    /// Notes a finding, and what became of its remedy.
    pub fn add(&mut self, finding: Finding, mended: Result<()>) {
        match mended {
            Ok(()) => self.findings.push(finding),
            Err(error) => {
                self.unmended.push(finding);
                self.failures.push(error);
            }
        }
    }

    pub(crate) fn note(&mut self, examined: Result<()>) {
        self.failures.extend(examined.err());
    }
}
