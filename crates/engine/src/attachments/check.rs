//! CHECK: compares an attachment with what it became.

use model::{Attached, Attachment, Error, Network, Phase, Result};

use crate::port::Prefix;
use crate::{Attachments, Request};

impl Attachments<'_> {
    /// Compares the kernel and the store with what was attached, and names the first difference.
    pub fn check(&self, request: &Request, attached: &Attached) -> Result<()> {
        let attachment = match self.records.record_of(&request.id(), request.layer)? {
            Some(read) => self.check_record(*read.value)?,
            None => match self.links.renamed(request)? {
                Some(read) => self.check_record(*read.value)?,
                None => self.assumed(request, attached),
            },
        };
        let serving = self.links.serving(&attachment)?;
        self.driver.check(&serving, attached)?;
        self.ipam.check(&attachment)
    }

    pub(super) fn check_record(&self, attachment: Attachment) -> Result<Attachment> {
        if !matches!(attachment.phase, Phase::Attached(_)) {
            return Err(Error::not_found(format!("{} is not completely attached", attachment.id)));
        }
        for lease in &attachment.leases {
            let address = lease.address.addr();
            let holder = self.records.holder_of(&lease.space, address)?;
            if holder.is_none_or(|read| read.value.attachment() != Some(&attachment.id)) {
                return Err(Error::not_found(format!(
                    "the book does not hold {address} for {}; detach and attach it again",
                    attachment.id
                )));
            }
        }
        Ok(attachment)
    }

    /// Whether the address source beside the store still has what it gave.
    pub fn check_source(&self, request: &Request) -> Result<()> {
        match self.records.record_of(&request.id(), request.layer)? {
            Some(read) => self.ipam.check(&read.value),
            None => self.ipam.check(&self.assumed(request, &Attached::default())),
        }
    }

    /// What the reference plugins attached has no record in Spoke's store.
    fn assumed(&self, request: &Request, attached: &Attached) -> Attachment {
        let phase = Phase::Attached(attached.clone());
        let mut assumed = request.record(model::Runtime::Reference, self.host.now(), phase);
        if assumed.addresses.is_empty() {
            assumed.addresses.clone_from(&attached.addresses);
        }
        assumed
    }

    /// Whether the network could take another attachment now: it takes containers on this host, what it
    /// is made on is there, each of its pools has a free address, and its address source is ready.
    pub fn status(&self, network: &Network) -> Result<()> {
        self.records.refuse_unmade(network)?;
        self.driver.status(network)?;
        for pool in network.ipam.pools() {
            let held = self.records.holders_in(&Prefix::Leases(pool.space.clone()))?;
            let inside = |address| pool.range_of(address).is_some() && !pool.is_gateway(address);
            let taken = held.iter().filter(|read| inside(read.value.lease.address.addr())).count();
            let reserved = self.records.reservations_in(&Prefix::Reservations)?;
            let kept = reserved.iter().filter(|read| {
                read.value.space == pool.space
                    && inside(read.value.address)
                    && held.iter().all(|held| held.value.lease.address.addr() != read.value.address)
            });
            let used = (taken + kept.count()) as u128;
            if used >= pool.capacity() {
                return Err(Error::exhausted(format!(
                    "all {} addresses of network {} are taken; `spoke ipam show {}` lists the holders",
                    pool.capacity(),
                    network.name,
                    network.name
                )));
            }
        }
        self.ipam.status(network)
    }
}
