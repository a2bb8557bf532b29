//! Endpoints after a reboot: the durable record says how each is made again.

use model::{
    Attachment, AttachmentId, ContainerId, Error, Layer, Network, NetworkName, Phase, Result,
    Runtime,
};

use super::{shown, unknown};
use crate::attach::{RACES, held};
use crate::book::{Read, passable};
use crate::detach::Meaning;
use crate::endpoint::{is_filled, was_reserved};
use crate::gc::all_of;
use crate::port::{Expect, Key, Outcome, Prefix, Record, Txn};
use crate::{Engine, Request};

impl Engine<'_> {
    /// The link's record of an endpoint, made again if a reboot took it.
    pub(super) fn endpoint_of(&self, id: &AttachmentId) -> Result<Read<Box<Attachment>>> {
        for _ in 0..RACES {
            if let Some(read) = self.record_of(id, Layer::Link)? {
                if read.value.runtime != Runtime::Spoke {
                    return Err(unknown(id));
                }
                self.refuse_if_busy(&read.value)?;
                if was_reserved(&read.value) {
                    return Ok(read);
                }
                // One that a dead process was creating or removing does not count.
                let _lock = self.host.lock_attachment(id);
                self.detach_record(read, Meaning::Classified)?;
                continue;
            }
            if self.kept_of(id)?.is_none() {
                return Err(unknown(id));
            }
            self.revive(id)?;
        }
        Err(Error::try_again(format!("{} changes all the time", shown(id))))
    }

    pub(super) fn kept_of(&self, id: &AttachmentId) -> Result<Option<Read<Box<Attachment>>>> {
        let key = Key::Endpoint(id.clone());
        let Some(found) = self.store.get(&key)? else { return Ok(None) };
        match found.record {
            Record::Attachment(value) => Ok(Some(Read { value, revision: found.revision })),
            _ => Err(Error::bug(format!("the store holds something else under {key:?}"))),
        }
    }

    /// The endpoint of this name on a network, whether it is in a sandbox or not, and whether it was made
    /// apart from that or connected at once; also one that a dead process has not finished. Of several the
    /// first.
    pub fn endpoint_named(
        &self,
        network: &NetworkName,
        name: &ContainerId,
    ) -> Result<Option<AttachmentId>> {
        let is_it = |record: &Attachment| {
            record.id.container == *name
                && record.id.network == *network
                && (record.layer, record.runtime) == (Layer::Link, Runtime::Spoke)
        };
        let here = self.attachments_of(name)?.into_iter();
        let kept = self.kept_endpoints(Some(network))?.into_iter();
        Ok(here.chain(kept).find(is_it).map(|record| record.id))
    }

    /// The endpoints that users keep apart from sandboxes, on one network or on all, in the state
    /// of one that is in no sandbox. Damaged records are reported elsewhere
    /// ([`crate::port::Store::damaged`]).
    pub fn kept_endpoints(&self, network: Option<&NetworkName>) -> Result<Vec<Attachment>> {
        let prefix = network.map_or(Prefix::Endpoints, |name| Prefix::EndpointsOf(name.clone()));
        let found = self.store.list(&prefix)?.into_iter();
        Ok(found
            .filter_map(|(_, found)| match found.record {
                Record::Attachment(kept) => Some(*kept),
                _ => None,
            })
            .collect())
    }

    /// Makes again what a reboot took of endpoints, on one network or on all. What exists stays as
    /// it is. An error does not end the work; all errors are reported.
    pub fn revive_endpoints(&self, network: Option<&NetworkName>) -> Result<()> {
        let mut failures = Vec::new();
        for kept in self.kept_endpoints(network)? {
            if !matches!(passable(self.record_of(&kept.id, Layer::Link))?, Some(None)) {
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
        let Some(kept) = self.kept_of(id)? else { return Ok(true) };
        let network = self.network_of(&id.network)?;
        let request = again(&kept.value, network);
        let is_filled = is_filled(&request);
        let mut started = kept.value.clone();
        if is_filled {
            // Until it is complete, the attachment is undone if this process dies.
            started.phase = Phase::Attaching { by: self.host.me() };
            started.kept = false;
        }
        let key = Key::Attachment(id.clone(), Layer::Link);
        let txn = Txn::new().expect(key.clone(), Expect::Absent);
        let txn = txn.expect(Key::Endpoint(id.clone()), Expect::At(kept.revision));
        let (_, txn) = self.expect_open(&request.network, Layer::Link, txn)?;
        let txn = self.take(&started, &started.leases, txn);
        let txn = txn.put(key.clone(), Record::Attachment(started.clone()));
        match self.store.commit(&txn)? {
            Outcome::Done(revision) if is_filled => {
                self.fill_again(&request, Read { value: started, revision }).map(|()| true)
            }
            Outcome::Done(_) => Ok(true),
            Outcome::Lost(Key::Lease(space, address)) => match self.holder_of(&space, address)? {
                Some(read) => Err(held(&read.value)),
                None => Err(Error::try_again(format!("address {address} was just given back"))),
            },
            Outcome::Lost(Key::Configured(_)) => Ok(false),
            // Another process made it, or removes it.
            Outcome::Lost(_) => Ok(true),
        }
    }

    /// Asks those again who decide on its addresses.
    fn fill_again(&self, request: &Request, mut read: Read<Box<Attachment>>) -> Result<()> {
        let filled = self.reach(request, &mut read).and_then(|()| {
            let mut complete = read.value.clone();
            complete.phase = Phase::Reserved;
            let txn = self.keep_again(&mut complete, Txn::new());
            self.replace(&mut read, complete, txn)
        });
        filled.inspect_err(|_| {
            let id = read.value.id.clone();
            // The durable record stays, and this can be repeated.
            let _ = self.detach_record(read, Meaning::Classified);
            self.let_go(&id, Layer::Link);
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
        owner: kept.owner.clone(),
        sandbox: None,
        wiring: kept.wiring.clone(),
        ipam: kept.ipam.clone(),
        wanted: kept.leases.iter().map(|lease| lease.address.addr()).collect(),
        addresses: Vec::new(),
        labels: kept.labels.clone(),
    }
}
