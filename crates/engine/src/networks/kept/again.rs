//! Endpoints after a reboot: the durable record says how each is made again.

use model::{Attachment, AttachmentId, Error, Layer, Network, NetworkName, Phase, Result, Runtime};

use crate::attachments::endpoint::is_filled;
use crate::contention::RACES;
use crate::failures::all_of;
use crate::links::detach::Meaning;
use crate::links::rewind::was_reserved;
use crate::networks::kept::refuse::unknown;
use crate::port::{Expect, Key, Outcome, Record, Txn};
use crate::records::book::{Read, passable};
use crate::records::endpoint::shown;
use crate::{Networks, Request};

impl Networks<'_> {
    /// The link's record of an endpoint, made again if a reboot took it.
    pub(super) fn endpoint_of(&self, id: &AttachmentId) -> Result<Read<Box<Attachment>>> {
        for _ in 0..RACES {
            if let Some(read) = self.records.record_of(id, Layer::Link)? {
                if read.value.runtime != Runtime::Spoke {
                    return Err(unknown(id));
                }
                self.records.refuse_if_busy(&read.value)?;
                if was_reserved(&read.value) {
                    return Ok(read);
                }
                // One that a dead process was creating or removing does not count.
                let _lock = self.host.lock_attachment(id);
                self.links.detach_record(read, Meaning::Classified)?;
                continue;
            }
            if self.records.kept_of(id)?.is_none() {
                return Err(unknown(id));
            }
            self.revive(id)?;
        }
        Err(Error::try_again(format!("{} changes all the time", shown(id))))
    }

    /// Makes again what a reboot took of endpoints, on one network or on all. What exists stays as
    /// it is. An error does not end the work; all errors are reported.
    pub fn revive_endpoints(&self, network: Option<&NetworkName>) -> Result<()> {
        let mut failures = Vec::new();
        for kept in self.records.kept_endpoints(network)? {
            if !matches!(passable(self.records.record_of(&kept.id, Layer::Link))?, Some(None)) {
                continue;
            }
            let revived = self.revive(&kept.id);
            let context = || format!("making {} again after a reboot", shown(&kept.id));
            failures.extend(revived.err().map(|error| error.context(context())));
        }
        all_of(failures)
    }

    fn revive(&self, id: &AttachmentId) -> Result<()> {
        let _lock = self.host.lock_attachment(id);
        for _ in 0..RACES {
            if self.revive_once(id)? {
                return Ok(());
            }
        }
        Err(Error::try_again(format!("network {} changes all the time", id.network)))
    }

    /// Whether that is decided: not where the network's configuration became another meanwhile, as it does with the
    /// first attachment after a boot.
    fn revive_once(&self, id: &AttachmentId) -> Result<bool> {
        let Some(kept) = self.records.kept_of(id)? else { return Ok(true) };
        let network = self.records.network_of(&id.network)?;
        let request = again(&kept.value, network);
        let is_filled = is_filled(&request);
        let mut started = kept.value.clone();
        if is_filled {
            // Until it is complete, the attachment is undone if this process dies.
            started.phase = Phase::Attaching { by: self.host.me() };
            started.kept = false;
        }
        let key = Key::Attachment(id.clone(), Layer::Link);
        let txn = Txn::new().require(key.clone(), Expect::Absent);
        let txn = txn.require(Key::Endpoint(id.clone()), Expect::At(kept.revision));
        let (_, txn) = self.records.expect_open(&request.network, Layer::Link, txn)?;
        let txn = self.addresses.take(&started, &started.leases, txn);
        let txn = txn.put(key.clone(), Record::Attachment(started.clone()));
        match self.store.commit(&txn)? {
            Outcome::Done(revision) if is_filled => {
                self.fill_again(&request, Read { value: started, revision }).map(|()| true)
            }
            Outcome::Done(_) => Ok(true),
            Outcome::Lost(Key::Lease(space, address)) => {
                match self.records.holder_of(&space, address)? {
                    Some(read) => Err(self.records.held(&read.value)),
                    None => Err(Error::try_again(format!("address {address} was just released"))),
                }
            }
            Outcome::Lost(Key::Configured(_)) => Ok(false),
            // Another process made it, or removes it.
            Outcome::Lost(_) => Ok(true),
        }
    }

    /// Asks those again who decide on its addresses.
    fn fill_again(&self, request: &Request, mut read: Read<Box<Attachment>>) -> Result<()> {
        let filled = self.attachments.reach(request, &mut read).and_then(|()| {
            let mut complete = read.value.clone();
            complete.phase = Phase::Reserved;
            let txn = self.addresses.keep_again(&mut complete, Txn::new());
            self.records.replace(&mut read, complete, txn)
        });
        filled.inspect_err(|_| {
            let id = read.value.id.clone();
            // The durable record stays, and this can be repeated.
            let _ = self.links.detach_record(read, Meaning::Classified);
            self.links.let_go(&id, Layer::Link);
        })
    }
}

/// The request that creates an endpoint again.
fn again(kept: &Attachment, network: Network) -> Request {
    Request {
        network,
        layer: Layer::Link,
        container: kept.id.container.clone(),
        ifname: kept.id.ifname.clone(),
        names: Vec::new(),
        dns: model::Dns::default(),
        owner: kept.owner.clone(),
        sandbox: None,
        wiring: kept.wiring.clone(),
        ipam: kept.ipam.clone(),
        wanted: kept.leases.iter().map(|lease| lease.address.addr()).collect(),
        addresses: Vec::new(),
        labels: kept.labels.clone(),
    }
}
