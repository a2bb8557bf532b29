//! One call that makes several attachments of a container: all of them or none.

use model::{
    Attached, Attachment, AttachmentId, Error, Family, Interface, Layer, Origin, Phase, Result,
};

use crate::attachments::begin::Role;
use crate::failures::all_of;
use crate::links::detach::Meaning;
use crate::port::Prefix;
use crate::records::book::Read;
use crate::{Attachments, Request};

impl Attachments<'_> {
    /// Makes the attachments in their order, each a transaction of its own. After any failure
    /// nothing is left of those before it. Its caller reports the result itself, and then
    /// calls [`Attachments::answered`] for each, in the same order. If its process dies before, the same
    /// call gets the same result again.
    ///
    /// For each family the first that has a default route keeps it; the later ones get none. The
    /// records are marked with `origin`, so that [`Attachments::detach_several`] finds them after a
    /// process died in between.
    pub fn attach_several(&self, origin: &Origin, requests: &[Request]) -> Result<Vec<Attachment>> {
        let mut origin = origin.clone();
        let mut made = Vec::with_capacity(requests.len());
        for request in requests {
            match self.attach_as(request, Role::Of(&origin)) {
                Ok(attachment) => {
                    origin.routed.extend(routed(&attachment));
                    made.push(attachment);
                }
                Err(error) => {
                    for earlier in requests.iter().take(made.len()).rev() {
                        // What stays is found by the next detach, as after a crash.
                        let _ = self.links.detach(earlier);
                    }
                    return Err(error);
                }
            }
        }
        Ok(made)
    }

    /// Removes whatever the call made, as the store knows it, and what `requests` name besides: the
    /// call may say something else by now. An error does not end the work; all errors are reported.
    pub fn detach_several(&self, origin: &Origin, requests: &[Request]) -> Result<()> {
        if let [only] = requests {
            let _lock = self.host.lock_attachment(&only.id());
            if let Some(read) = self.records.record_of(&only.id(), only.layer).ok().flatten()
                && read.value.origin.is_none()
            {
                return self.links.detach_record(read, Meaning::Whatever).map(|_| ());
            }
        }
        let mut failures = Vec::new();
        let made = match self.made_by(origin, requests) {
            Ok(made) => made,
            Err(error) => {
                failures.push(error);
                Vec::new()
            }
        };
        for request in requests {
            if !self.is_of_another(origin, request) {
                failures.extend(self.links.detach(request).err());
            }
        }
        for read in made {
            let _lock = self.host.lock_attachment(&read.value.id);
            // Named by a request, it is gone.
            match self.records.record_of(&read.value.id, read.value.layer) {
                Ok(Some(read)) => {
                    failures.extend(self.links.detach_record(read, Meaning::Whatever).err());
                }
                Ok(None) => {}
                Err(error) => failures.push(error),
            }
        }
        all_of(failures)
    }

    /// Compares the kernel and the store with each attachment that the call made, and names the
    /// first difference. `attached` is what all of them became together.
    pub fn check_several(
        &self,
        origin: &Origin,
        requests: &[Request],
        attached: &Attached,
    ) -> Result<()> {
        let made = self.made_by(origin, requests)?;
        let is_made = |id: &AttachmentId| made.iter().any(|read| read.value.id == *id);
        if let Some(missing) = requests.iter().find(|request| !is_made(&request.id())) {
            return Err(Error::not_found(format!("{} is not attached", missing.id())));
        }
        for read in made {
            let attachment = self.check_record(*read.value)?;
            let Phase::Attached(own) = &attachment.phase else { continue };
            let serving = self.links.serving(&attachment)?;
            self.driver.check(&serving, &part(attached, own))?;
            self.ipam.check(&attachment)?;
        }
        Ok(())
    }

    /// The link layers of what the call made, those that the requests name among them.
    fn made_by(&self, origin: &Origin, requests: &[Request]) -> Result<Vec<Read<Box<Attachment>>>> {
        let Some(container) = requests.first().map(|request| &request.container) else {
            return Ok(Vec::new());
        };
        let mut made =
            self.records.attachments_in(&Prefix::AttachmentsOfContainer(container.clone()))?;
        made.retain(|read| {
            let of_call = read.value.origin.as_ref().is_some_and(|its| its.is_same_call(origin));
            read.value.layer == Layer::Link && of_call
        });
        Ok(made)
    }

    /// Whether another call made the attachment.
    fn is_of_another(&self, origin: &Origin, request: &Request) -> bool {
        // `detach` reads a record that is unreadable here once more, and fails with its error, as a DEL of one does.
        let read = self.records.record_of(&request.id(), request.layer).ok().flatten();
        let its = read.and_then(|read| read.value.origin);
        its.is_some_and(|its| !its.is_same_call(origin))
    }
}

/// The families of which the attachment has a default route.
fn routed(attachment: &Attachment) -> Vec<Family> {
    let Phase::Attached(attached) = &attachment.phase else { return Vec::new() };
    let defaults = attached.routes.iter().filter(|route| route.is_default());
    defaults.map(|route| Family::of(&route.dst)).collect()
}

/// The part of `all` that concerns the interfaces and routes in `own`.
fn part(all: &Attached, own: &Attached) -> Attached {
    let is_own = |interface: &Interface| {
        own.interfaces.iter().any(|it| (&it.name, it.place) == (&interface.name, interface.place))
    };
    let places: Vec<usize> = (0..all.interfaces.len())
        .filter(|place| all.interfaces.get(*place).is_some_and(is_own))
        .collect();
    let interfaces = places.iter().filter_map(|place| all.interfaces.get(*place)).cloned();
    let addresses = all.addresses.iter().filter_map(|held| {
        let place = places.iter().position(|place| Some(*place) == held.interface)?;
        Some(model::InterfaceAddress { interface: Some(place), ..held.clone() })
    });
    let is_there = |route: &&model::Route| own.routes.iter().any(|its| its.dst == route.dst);
    Attached {
        interfaces: interfaces.collect(),
        addresses: addresses.collect(),
        routes: all.routes.iter().filter(is_there).cloned().collect(),
        dns: all.dns.clone(),
        keeps_in: own.keeps_in,
        prefix: own.prefix.clone(),
    }
}
