//! Frees what a runtime made and no longer lists. The runtime says what it knows; the store has the
//! rest.

use std::collections::BTreeSet;
use std::time::Duration;

use model::{
    Alias, AliasId, Attachment, AttachmentId, Error, Holder, NetworkName, Result, Runtime, Space,
    Subnet, SubnetId, Tenant, Timestamp,
};

use crate::finding::{Finding, Garbage, Mode, Reconciled, Remedy};
use crate::port::{Prefix, Presence};
use crate::records::book::{Read, passable};
use crate::{Live, Repair};

/// What is being done to it, for a sentence.
fn doing(finding: &Finding) -> String {
    match &finding.what {
        Garbage::Attachment(id) => format!("freeing {id}"),
        Garbage::Lease(lease) => format!("freeing address {}", lease.address.addr()),
        Garbage::Alias(id) => format!("freeing network {id}"),
        Garbage::Subnet(id) => format!("freeing subnet {id}"),
        other => format!("freeing {other:?}"),
    }
}

impl Repair<'_> {
    /// Finds what a runtime made, no longer lists, and made longer than `grace` ago; in
    /// [`Mode::Mend`] frees it. These stay: an attachment that is being made, what belongs to
    /// another runtime, and what the hosts of a cluster share ([`Space::Global`]), because one host
    /// does not know its users. A network that the runtime does not list stays while a container on
    /// it exists or is new. What cannot be freed keeps nothing else.
    ///
    /// A runtime's list is never exact while it works. Pass [`Live::or`] of two observations, and a
    /// `grace` that began before the first one.
    pub fn reclaim_unlisted(
        &self,
        runtime: Runtime,
        live: &Live,
        grace: Duration,
        mode: Mode,
    ) -> Result<Reconciled> {
        let mut search = self.search(runtime, live, grace)?;
        self.find_attachments(&mut search)?;
        // The network of an id that cannot be read may be one that the runtime lists.
        let is_whole = !self.records.has_damaged(&Prefix::Aliases)?;
        if is_whole {
            self.find_leases(&mut search)?;
        }
        self.find_aliases(&mut search)?;
        if is_whole {
            self.find_subnets(&mut search)?;
        }
        let mut unlisted = Reconciled::default();
        let mut busy = BTreeSet::new();
        for found in search.found {
            let freed = if mode == Mode::Mend { self.free(&found, &mut busy) } else { Ok(()) };
            let finding = found.finding();
            let freed = freed.map_err(|error| error.context(doing(&finding)));
            unlisted.add(finding, freed);
        }
        Ok(unlisted)
    }

    fn search<'l>(&self, runtime: Runtime, live: &'l Live, grace: Duration) -> Result<Search<'l>> {
        let before = Timestamp(self.host.now().0.saturating_sub(grace.as_secs()));
        let aliases = self.records.aliases()?;
        let of = |wanted: &dyn Fn(&Alias) -> bool| {
            aliases.iter().filter(|alias| wanted(alias)).map(|a| a.network.clone()).collect()
        };
        let opaque = of(&|alias| matches!(live.networks.get(&alias.id), Some(None)));
        let known = of(&|alias| live.networks.contains_key(&alias.id));
        let (in_use, dead) = (BTreeSet::new(), BTreeSet::new());
        Ok(Search { runtime, live, before, opaque, known, in_use, dead, found: Vec::new() })
    }

    fn find_attachments(&self, search: &mut Search<'_>) -> Result<()> {
        for read in self.records.attachments_in(&Prefix::Attachments)? {
            let Attachment { id, alias, since, runtime, .. } = &*read.value;
            let Some(alias) = alias.as_ref().filter(|_| *runtime == search.runtime) else {
                continue;
            };
            if search.live.has(alias, &id.container) {
                continue;
            }
            let is_young = !search.is_old(*runtime, *since) || self.is_being_attached(&read.value);
            let is_known = search.live.networks.contains_key(alias);
            if !is_known && (is_young || self.links.presence(&read.value) == Presence::Alive) {
                search.in_use.insert(alias.clone());
            } else if is_young {
                // The runtime may not know it yet.
            } else if search.dead.insert(id.clone()) {
                search.found.push(Unlisted::Attachment(read));
            }
        }
        Ok(())
    }

    fn find_leases(&self, search: &mut Search<'_>) -> Result<()> {
        for Read { value: holder, .. } in self.records.holders_in(&Prefix::AllLeases)? {
            let Tenant::Request { subnet, user } = &holder.tenant else { continue };
            let address = (holder.lease.space.clone(), holder.lease.address.addr());
            let used = match user {
                Some(user) => !search.dead.contains(user) && self.records.has_record(user)?,
                None => false,
            };
            let forgotten = search.is_old(holder.runtime, holder.since)
                && subnet.space != Space::Global
                && !used
                && !search.live.addresses.contains(&address)
                && !self.is_opaque(subnet, search)?;
            if forgotten {
                search.found.push(Unlisted::Lease(subnet.clone(), Box::new(holder)));
            }
        }
        Ok(())
    }

    fn is_opaque(&self, subnet: &SubnetId, search: &Search<'_>) -> Result<bool> {
        let subnet = passable(self.records.subnet(subnet))?;
        // The network of a damaged subnet is unknown.
        let known = |subnet: Subnet| search.opaque.contains(&subnet.network);
        Ok(subnet.is_none_or(|subnet| subnet.is_some_and(known)))
    }

    fn find_aliases(&self, search: &mut Search<'_>) -> Result<()> {
        for alias in self.records.aliases()? {
            let known = search.live.networks.contains_key(&alias.id);
            let in_use = search.in_use.contains(&alias.id);
            if !known && !in_use && search.is_old(alias.runtime, alias.since) {
                search.found.push(Unlisted::Alias(alias.id));
            }
        }
        Ok(())
    }

    /// A subnet is in use as long as an address of it is, or the network that it is for.
    fn find_subnets(&self, search: &mut Search<'_>) -> Result<()> {
        for subnet in self.records.subnets()? {
            let forgotten = search.is_old(subnet.runtime, subnet.since)
                && subnet.id.space != Space::Global
                && !search.live.subnets.contains(&subnet.id)
                && !search.known.contains(&subnet.network)
                && !self.has_others(&subnet, search)?;
            if forgotten {
                search.found.push(Unlisted::Subnet(Box::new(subnet)));
            }
        }
        Ok(())
    }

    /// Whether a listed container has an address that was requested from the subnet.
    fn has_others(&self, subnet: &Subnet, search: &Search<'_>) -> Result<bool> {
        let holders = self.records.holders_in(&Prefix::Leases(subnet.id.space.clone()))?;
        let requested = |holder: &Holder| matches!(&holder.tenant, Tenant::Request { subnet: from, .. } if *from == subnet.id);
        Ok(holders.iter().any(|read| requested(&read.value) && !search.has_found(&read.value)))
    }

    /// The networks in `busy` have an attachment on which another thread works, and stay with it.
    fn free(&self, found: &Unlisted, busy: &mut BTreeSet<AliasId>) -> Result<()> {
        match found {
            Unlisted::Attachment(read) => self.free_unlisted(read, busy),
            Unlisted::Lease(subnet, holder) => self.free_requested(subnet, holder),
            Unlisted::Alias(id) if busy.contains(id) => {
                Err(Error::try_again("an endpoint of it is being worked on"))
            }
            Unlisted::Alias(id) => self.networks.withdraw(id),
            Unlisted::Subnet(subnet) => self.free_subnet(subnet),
        }
    }

    /// Only the record that was classified: one that joined since then is in use. One on which another
    /// thread works is found again, if it stays.
    fn free_unlisted(
        &self,
        classified: &Read<Box<Attachment>>,
        busy: &mut BTreeSet<AliasId>,
    ) -> Result<()> {
        let id = &classified.value.id;
        let Some(_lock) = self.host.try_lock_attachment(id) else {
            busy.extend(classified.value.alias.clone());
            return Err(Error::try_again(format!("{id} is being worked on")));
        };
        let now = self.records.record_of(id, classified.value.layer)?;
        match now.is_some_and(|now| now.revision == classified.revision) {
            true => self.links.detach_layers(id),
            false => Ok(()),
        }
    }

    /// Only if the holder is the classified one: its lease has lost its user with the attachment. A
    /// user that came since then keeps the lease.
    fn free_requested(&self, subnet: &SubnetId, classified: &Holder) -> Result<()> {
        let Some(now) =
            self.records.holder_of(&classified.lease.space, classified.lease.address.addr())?
        else {
            return Ok(());
        };
        let is_used = match now.value.attachment() {
            Some(user) => self.records.has_record(user)?,
            None => false,
        };
        let is_classified = now.value.since == classified.since
            && is_unchanged(&now.value.tenant, &classified.tenant);
        match is_classified && !is_used {
            true => self.subnets.free_unused(subnet, &now).map(drop),
            false => Ok(()),
        }
    }

    /// As often as it was requested: with the last share go its gateways and auxiliary addresses.
    fn free_subnet(&self, subnet: &Subnet) -> Result<()> {
        let id = &subnet.id;
        (0..subnet.references.max(1)).try_for_each(|_| self.subnets.release_subnet(id))
    }
}

/// Whether the lease is the classified one, or has only lost its user since then.
fn is_unchanged(now: &Tenant, classified: &Tenant) -> bool {
    match (now, classified) {
        (Tenant::Request { subnet, user: None }, Tenant::Request { subnet: classified, .. }) => {
            subnet == classified
        }
        (now, classified) => now == classified,
    }
}

struct Search<'l> {
    runtime: Runtime,
    live: &'l Live,
    /// Later attachments are skipped.
    before: Timestamp,
    /// Networks whose attachments the runtime does not list.
    opaque: BTreeSet<NetworkName>,
    /// Networks that the runtime knows.
    known: BTreeSet<NetworkName>,
    /// Unlisted networks with a container that provably exists or is new. No runtime removes such a
    /// network, so it must belong to a runtime that was not asked.
    in_use: BTreeSet<AliasId>,
    dead: BTreeSet<AttachmentId>,
    found: Vec<Unlisted>,
}

impl Search<'_> {
    fn is_old(&self, runtime: Runtime, since: Timestamp) -> bool {
        runtime == self.runtime && since < self.before
    }

    fn has_found(&self, holder: &Holder) -> bool {
        self.found
            .iter()
            .any(|found| matches!(found, Unlisted::Lease(_, known) if **known == *holder))
    }
}

enum Unlisted {
    Attachment(Read<Box<Attachment>>),
    Lease(SubnetId, Box<Holder>),
    Alias(AliasId),
    Subnet(Box<Subnet>),
}

impl Unlisted {
    fn finding(self) -> Finding {
        let what = match self {
            Unlisted::Attachment(read) => Garbage::Attachment(read.value.id),
            Unlisted::Lease(_, holder) => Garbage::Lease(Box::new(holder.lease)),
            Unlisted::Alias(id) => Garbage::Alias(id),
            Unlisted::Subnet(subnet) => Garbage::Subnet(subnet.id),
        };
        Finding { what, remedy: Remedy::Free }
    }
}
