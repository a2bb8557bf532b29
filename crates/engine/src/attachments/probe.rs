//! Addresses that a host on the segment uses and that no store knows.

use std::net::IpAddr;

use model::{Attached, Attachment, Error, Ipam, LinkKind, Macvlan, Result};

use crate::addresses::search::Avoid;
use crate::records::book::Read;
use crate::{Attachments, Request};

/// How many addresses are tried: each takes a fraction of a second.
const TRIES: usize = 8;

impl Attachments<'_> {
    /// Where probing is requested, makes only the link, asks over it whether the attachment's
    /// addresses are in use, and chooses others until no host answers. Returns whether the link was
    /// made.
    pub(super) fn probe(
        &self,
        request: &Request,
        started: &mut Read<Box<Attachment>>,
    ) -> Result<bool> {
        if !is_probed(&started.value) {
            return Ok(false);
        }
        self.driver.connect(&started.value)?;
        let mut avoid = Avoid::new();
        for _ in 0..TRIES {
            let taken = self.driver.answers(&started.value)?;
            let Some(first) = taken.first() else { return Ok(true) };
            let is_exact = |address: &IpAddr| request.wanted.contains(address);
            if let Some(address) = taken.iter().find(|address| is_exact(address)) {
                return Err(answered(&started.value, *address));
            }
            if !is_chosen(&started.value.ipam) {
                return Err(answered(&started.value, *first));
            }
            if started.value.ipam.is_shared() {
                self.ipam.release(&started.value)?;
            }
            avoid.extend(taken);
            self.choose_again(request, started, &mut avoid)?;
            self.obtain(request, started)?;
        }
        Err(Error::exhausted(format!(
            "{}: {TRIES} addresses in a row answer on the segment, and the book knows of none of them; give the network a range that no other device uses",
            started.value.id
        )))
    }

    /// Makes the link of an attachment whose addresses cannot be chosen again.
    pub(crate) fn make_link(&self, attachment: &Attachment) -> Result<Attached> {
        let attached = self.make_probed(attachment)?;
        self.links.follow_fence(attachment)?;
        self.links.meter_made(attachment)?;
        Ok(attached)
    }

    fn make_probed(&self, attachment: &Attachment) -> Result<Attached> {
        if !is_probed(attachment) {
            return self.driver.attach(attachment);
        }
        self.driver.connect(attachment)?;
        match self.driver.answers(attachment)?.first() {
            Some(address) => Err(answered(attachment, *address)),
            None => self.driver.complete(attachment),
        }
    }
}

/// The client of a server that is asked over the link probes itself.
fn is_probed(attachment: &Attachment) -> bool {
    let kind = attachment.wiring.link.as_ref().map(|link| &link.kind);
    matches!(kind, Some(LinkKind::Macvlan(Macvlan { probe: true, .. })))
        && !attachment.addresses.is_empty()
        && !attachment.ipam.asks_over_link()
}

/// Whether the store has others to choose from.
fn is_chosen(ipam: &Ipam) -> bool {
    match ipam {
        Ipam::Book { .. } | Ipam::HostLocal { .. } => true,
        Ipam::None
        | Ipam::Fixed { .. }
        | Ipam::Requested { .. }
        | Ipam::Foreign(_)
        | Ipam::Dhcp(_)
        | Ipam::Remote(_) => false,
    }
}

fn answered(attachment: &Attachment, address: IpAddr) -> Error {
    Error::conflict(format!(
        "another device on the segment of network {} uses address {address}; choose another, or switch the probe off",
        attachment.id.network
    ))
}
