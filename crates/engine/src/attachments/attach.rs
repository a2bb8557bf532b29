//! Attaching: intent first, then the addresses of others, then the kernel, then the result.

use std::borrow::Cow;

use model::{
    Attachment, AttachmentId, Error, InterfaceAddress, Ipam, Layer, Lease, Phase, Result, Route,
    Space,
};

use crate::addresses::search::Avoid;
use crate::attachments::begin::{Role, Started, address_of, wanted_of};
use crate::contention::{RACES, lost, overtaken};
use crate::links::detach::Meaning;
use crate::links::sandbox::set_gateway_where_it_can;
use crate::links::settings::Following;
use crate::port::{Granted, Key, Offer, Txn};
use crate::records::book::Read;
use crate::{Attachments, Request};

impl Attachments<'_> {
    /// Makes one layer of an attachment: addresses first, then the dataplane. The record that is
    /// returned is in phase [`Phase::Attached`].
    ///
    /// What a dead process began for the same attachment is taken over, with its addresses.
    /// Fails with [`model::Kind::Conflict`] where the layer is already complete, or where an address or
    /// port is held; after any failure nothing is left.
    pub fn attach(&self, request: &Request) -> Result<Attachment> {
        self.attach_as(request, Role::Alone)
    }

    /// The same for a caller that reports the result itself, and calls [`Attachments::answered`] after
    /// that. If its process dies before, the same call has the same result again.
    pub fn attach_unreported(&self, request: &Request) -> Result<Attachment> {
        self.attach_as(request, Role::Unreported)
    }

    /// Notes that the caller of the layer has its result. From now on the layer blocks another
    /// call.
    pub fn answered(&self, id: &AttachmentId, layer: Layer) -> Result<()> {
        self.store.mark_answered(&Key::Attachment(id.clone(), layer))
    }

    /// The same for one that has a part in something larger.
    pub(crate) fn attach_as(&self, request: &Request, role: Role<'_>) -> Result<Attachment> {
        let mut started = self.begin(request, role)?;
        match self.make(request, &mut started) {
            Ok(()) => Ok(*started.read.value),
            Err(error) => {
                // Detaching is the only way to undo. If it fails the record stays, and the next
                // detach, attach or reconcile finds it. If the record has another owner now, that
                // process undoes it.
                let _ = self.links.detach_record(started.read, Meaning::Classified);
                self.links.let_go(&request.id(), request.layer);
                Err(error)
            }
        }
    }

    fn make(&self, request: &Request, started: &mut Started) -> Result<()> {
        if let Some(old) = started.inherited.take() {
            if old.ipam.asks_over_link() {
                self.ipam.release(&old)?;
            }
            self.driver.detach(&old)?;
        }
        let read = &mut started.read;
        self.links.shut_neighbours(&read.value)?;
        self.reach(request, read)?;
        let is_started = self.probe(request, read)?
            || read.value.ipam.asks_over_link()
            || read.value.wiring.chooses_addresses();
        let serving = self.links.serving(&read.value)?;
        let attached = match is_started {
            true => self.driver.complete(&serving)?,
            false => self.driver.attach(&serving)?,
        };
        self.links.follow_fence(&serving)?;
        self.links.meter_made(&serving)?;
        let served = match serving {
            Cow::Borrowed(_) => None,
            Cow::Owned(serving) => serving.wiring.publish.map(|publish| publish.ports),
        };
        let mut complete = read.value.clone();
        complete.phase = Phase::Attached(attached);
        set_gateway_where_it_can(&mut complete);
        let txn = match complete.teller {
            Some(_) => Txn::new().unreported(),
            None => Txn::new(),
        };
        self.records.replace(read, complete, txn)?;
        if let Some(served) = served {
            self.links.serve_the_rest(&read.value, &served)?;
        }
        // A command that changed the network meanwhile left out what was being made.
        self.links.follow_settings(&request.id(), request.layer, Following::Differing)
    }

    /// Gets the addresses that the store does not decide alone, over the link where that is the
    /// way.
    pub(crate) fn reach(
        &self,
        request: &Request,
        started: &mut Read<Box<Attachment>>,
    ) -> Result<()> {
        if started.value.wiring.chooses_addresses() {
            // The maker of such a link needs the addresses (libnetwork's CreateEndpoint).
            if started.value.ipam.remote().is_some() {
                self.obtain(request, started)?;
            }
            let offer = self.driver.offer(&started.value)?;
            return self.accept(started, offer, Giver::Driver);
        }
        if started.value.ipam.asks_over_link() {
            self.driver.connect(&started.value)?;
        }
        self.obtain(request, started)
    }

    pub(super) fn obtain(
        &self,
        request: &Request,
        started: &mut Read<Box<Attachment>>,
    ) -> Result<()> {
        if !started.value.ipam.is_shared() {
            return Ok(());
        }
        let mut avoid = Avoid::new();
        loop {
            match self.ipam.lease(&started.value)? {
                Granted::Chosen => return Ok(()),
                Granted::Held { address, by, all } => {
                    if request.wanted.contains(&address) || !avoid.insert(address) {
                        let what = format!("address {address} is held by {by}");
                        return Err(Error::conflict(what).about(wanted_of(request, address)));
                    }
                    avoid.extend(all);
                    self.choose_again(request, started, &mut avoid)?;
                }
                Granted::Offered(offer) => {
                    return self.accept(started, *offer, Giver::Source);
                }
            }
        }
    }

    /// Records what a source chose. The address of a server or of another program is unique on this
    /// host too, so the store has it.
    fn accept(
        &self,
        started: &mut Read<Box<Attachment>>,
        offer: Offer,
        giver: Giver,
    ) -> Result<()> {
        let mut reported = started.value.clone();
        let mut txn = Txn::new();
        let is_remote = reported.ipam.remote().is_some();
        if matches!(reported.ipam, Ipam::Dhcp(_))
            || is_remote
            || reported.wiring.chooses_addresses()
        {
            let fresh = self.unknown_of(&reported, &offer)?;
            txn = self.addresses.take(&reported, &fresh, txn);
            reported.leases.extend(fresh);
        }
        // The caller did not know the subnet of the requested address.
        for lease in &mut reported.leases {
            let mut given = offer.addresses.iter();
            if let Some(held) = given.find(|held| held.address.addr() == lease.address.addr()) {
                lease.address = held.address;
                lease.gateway = lease.gateway.or(held.gateway);
            }
        }
        reported.addresses = offer.addresses;
        let more = std::mem::replace(&mut reported.routes, offer.routes);
        if is_remote && giver == Giver::Source {
            // Such a source knows of no routes: what the network says holds.
            reported.routes = [more, std::mem::take(&mut reported.routes)].concat();
        } else if reported.wiring.chooses_addresses() {
            add_routes(&mut reported.routes, more);
        }
        reported.wiring.link = offer.link.or(reported.wiring.link);
        reported.drop_routed();
        if reported.dns == model::Dns::default() {
            reported.dns = offer.dns;
        }
        // Nothing was chosen but what is written down already.
        if reported == started.value {
            return Ok(());
        }
        match self.records.try_replace(started, reported, txn)? {
            None => Ok(()),
            Some(Key::Lease(space, address)) => match self.records.holder_of(&space, address)? {
                Some(read) => Err(self.records.held(&read.value)),
                None => Err(Error::try_again(format!("address {address} was just released"))),
            },
            Some(_) => Err(overtaken(&started.value.id)),
        }
    }

    /// The leases of an offer that the store does not have yet. It has those that the source was
    /// asked for, and those that a plugin of Spoke's, called by the source, has recorded.
    fn unknown_of(&self, reported: &Attachment, offer: &Offer) -> Result<Vec<Lease>> {
        let gives = |lease: &Lease| {
            offer.addresses.iter().any(|given| given.address.addr() == lease.address.addr())
        };
        if let Some(lease) = reported.leases.iter().find(|lease| !gives(lease)) {
            return Err(Error::conflict(format!(
                "{} was to get the address {}, and its plugins gave another",
                reported.id,
                lease.address.addr()
            )));
        }
        let mut fresh = Vec::new();
        let space = reported.wiring.space(&reported.id.network);
        for held in &offer.addresses {
            let lease = lease_of(held, space.clone());
            let address = lease.address.addr();
            let holder = self.records.holder_of(&lease.space, address)?;
            let is_inner =
                holder.as_ref().and_then(|read| read.value.attachment()).is_some_and(|id| {
                    reported.wiring.chooses_addresses()
                        && *id != reported.id
                        && (&id.container, &id.ifname)
                            == (&reported.id.container, &reported.id.ifname)
                });
            let is_remote =
                reported.leases.iter().any(|reported| reported.address.addr() == address);
            if !is_inner && !is_remote {
                fresh.push(lease);
            }
        }
        Ok(fresh)
    }

    pub(super) fn choose_again(
        &self,
        request: &Request,
        started: &mut Read<Box<Attachment>>,
        avoid: &mut Avoid,
    ) -> Result<()> {
        for _ in 0..RACES {
            let choice = self.addresses.choose(request, avoid)?;
            let mut again = started.value.clone();
            let old = std::mem::replace(&mut again.leases, choice.leases.clone());
            again.addresses = choice.leases.iter().map(address_of).collect();
            let mut txn = Txn::new();
            let fresh: Vec<Lease> =
                choice.leases.iter().filter(|lease| !old.contains(lease)).cloned().collect();
            let lost: Vec<&Lease> =
                old.iter().filter(|lease| !choice.leases.contains(lease)).collect();
            for lease in &lost {
                txn = txn.delete(Key::Lease(lease.space.clone(), lease.address.addr()));
            }
            txn = self.addresses.keep_instead(request, &lost, &choice.leases, txn)?;
            txn = choice.advance(self.addresses.take(&again, &fresh, txn));
            match self.records.try_replace(started, again, txn)? {
                None => return Ok(()),
                Some(Key::Lease(_, lost) | Key::Reservation(_, lost)) => {
                    avoid.insert(lost);
                }
                Some(Key::Sticky(..)) => {}
                Some(_) => return Err(overtaken(&started.value.id)),
            }
        }
        Err(lost(&started.value))
    }
}

/// What makes an offer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Giver {
    /// The maker of the link.
    Driver,
    /// The address source.
    Source,
}

/// The settings of an offered default route hold for that route; other routes are added.
fn add_routes(offered: &mut Vec<Route>, more: Vec<Route>) {
    for route in more {
        match offered.iter_mut().find(|offered| offered.dst == route.dst) {
            Some(same) => same.priority = route.priority.or(same.priority),
            None if route.is_default() => {}
            None => offered.push(route),
        }
    }
}

fn lease_of(held: &InterfaceAddress, space: Space) -> Lease {
    Lease { space, pool: None, address: held.address, gateway: held.gateway }
}
