//! Lists what the store has, for those who show it.

use std::net::IpAddr;

use model::{
    Attachment, AttachmentOutline, Claim, ContainerId, Error, Holder, Layer, Protocol, Reservation,
    Result, Space,
};

use crate::Records;
use crate::port::{Key, Prefix, Record};
use crate::records::book::passable;

impl Records<'_> {
    /// Every record of every attachment, in the order of their identities; those that a reboot took, and
    /// that their users keep, as they will be.
    pub fn attachments(&self) -> Result<Vec<Attachment>> {
        let records = self.attachments_in(&Prefix::Attachments)?.into_iter();
        let mut records: Vec<Attachment> = records.map(|read| *read.value).collect();
        let mut kept = self.kept_endpoints(None)?;
        kept.retain(|kept| !records.iter().any(|record| record.id == kept.id));
        if !kept.is_empty() {
            records.append(&mut kept);
            records.sort_by(|one, other| (&one.id, one.layer).cmp(&(&other.id, other.layer)));
        }
        Ok(records)
    }

    /// The records of this boot whose containers may be called `name` ([`Record::may_be_called`]), in the order of
    /// [`Records::attachments`].
    ///
    /// # Errors
    /// Where the book cannot be read.
    pub fn attachments_called(&self, name: &str) -> Result<Vec<Attachment>> {
        let found = self.store.attachments_called(name)?.into_iter();
        Ok(found
            .filter_map(|(_, found)| match found.record {
                Record::Attachment(held) => Some(*held),
                _ => None,
            })
            .collect())
    }

    /// The outline of each of [`Records::attachments`], in the same order.
    ///
    /// # Errors
    /// Where the book cannot be read.
    pub fn attachment_outlines(&self) -> Result<Vec<AttachmentOutline>> {
        let mut all = self.store.attachment_outlines()?;
        let mut kept = self.kept_endpoints(None)?;
        kept.retain(|kept| !all.iter().any(|outline| outline.id == kept.id));
        if !kept.is_empty() {
            all.extend(kept.iter().map(AttachmentOutline::of));
            all.sort_by(|one, other| (&one.id, one.layer).cmp(&(&other.id, other.layer)));
        }
        Ok(all)
    }

    /// The record of which this is the outline, as [`Records::attachments`] has it; `None` where it is gone by now, or
    /// damaged.
    ///
    /// # Errors
    /// Where the book cannot be read.
    pub fn attachment_outlined(&self, outline: &AttachmentOutline) -> Result<Option<Attachment>> {
        let here = passable(self.record_of(&outline.id, outline.layer))?.flatten();
        let read = match here {
            Some(read) => Some(read),
            None if outline.layer == Layer::Link => passable(self.kept_of(&outline.id))?.flatten(),
            None => None,
        };
        Ok(read.map(|read| *read.value))
    }

    /// As [`Records::attachments`], and none is left out.
    ///
    /// # Errors
    /// [`model::Kind::Conflict`] where a record is damaged: what has no record may be that
    /// attachment's. Who removes what no record speaks of asks here.
    pub fn intact_attachments(&self) -> Result<Vec<Attachment>> {
        let all = self.attachments()?;
        self.refuse_damaged(&[Prefix::Attachments, Prefix::Endpoints])?;
        Ok(all)
    }

    /// Fails with [`model::Kind::Conflict`] where a record of one of these kinds is damaged. Call it after they
    /// are read.
    pub fn refuse_damaged(&self, prefixes: &[Prefix]) -> Result<()> {
        for prefix in prefixes {
            if let Some(damaged) = self.store.damaged(Some(prefix))?.first() {
                let why = &damaged.why;
                return Err(Error::conflict(format!(
                    "nothing goes while a record is unknown: {why}"
                )));
            }
        }
        Ok(())
    }

    /// Every record of every attachment of a container, from any front end.
    pub fn attachments_of(&self, container: &ContainerId) -> Result<Vec<Attachment>> {
        let records = self.attachments_in(&Prefix::AttachmentsOfContainer(container.clone()))?;
        Ok(records.into_iter().map(|read| *read.value).collect())
    }

    /// The attachments of a container that Spoke itself connects to networks, whatever phase they are in.
    pub fn connected(&self, container: &ContainerId) -> Result<Vec<Attachment>> {
        self.sandbox_record_of(container)?
            .map_or(Ok(Vec::new()), |read| self.members_of(&read.value))
    }

    /// Every held address.
    pub fn holders(&self) -> Result<Vec<Holder>> {
        Ok(self.holders_in(&Prefix::AllLeases)?.into_iter().map(|read| read.value).collect())
    }

    /// Every address that is kept back.
    pub fn reservations(&self) -> Result<Vec<Reservation>> {
        let reserved = self.reservations_in(&Prefix::Reservations)?;
        Ok(reserved.into_iter().map(|read| read.value).collect())
    }

    /// Every host port that is taken, with its holders.
    pub fn ports(&self) -> Result<Vec<(Protocol, u16, Vec<Claim>)>> {
        let mut ports = Vec::new();
        for (key, versioned) in self.store.list(&Prefix::Ports)? {
            if let (Key::Port(protocol, port), Record::Port(claims)) = (key, versioned.record) {
                ports.push((protocol, port.get(), claims));
            }
        }
        Ok(ports)
    }

    /// The holder of the address.
    pub fn holder(&self, space: &Space, address: IpAddr) -> Result<Option<Holder>> {
        Ok(self.holder_of(space, address)?.map(|read| read.value))
    }
}
