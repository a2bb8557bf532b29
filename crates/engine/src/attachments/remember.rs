//! Records that an attach writes and that outlast the attachment.

use model::{Attachment, Layer, Network, Result};

use crate::port::{Key, Record, Txn};
use crate::records::book::Read;
use crate::{Attachments, Request};

impl Attachments<'_> {
    /// Adds to an attach what outlasts it: the network as it is described now, and which addresses
    /// its owner gets again.
    pub(super) fn remember(
        &self,
        request: &Request,
        attachment: &Attachment,
        txn: Txn,
    ) -> Result<Txn> {
        let (known, mut txn) = self.records.expect_open(&request.network, request.layer, txn)?;
        if request.layer == Layer::Link {
            let wiring = &request.network.wiring;
            if wiring.via.is_some() || wiring.fence.is_some() {
                self.addresses.refuse_rivals(&request.network)?;
            }
            if !is_described(known.as_ref(), &request.network) {
                self.records.refuse_own_container(&request.network)?;
                self.addresses.refuse_taken(&request.network)?;
                let key = Key::Configured(request.network.name.clone());
                txn = txn.put(key, Record::Network(Box::new(request.network.clone())));
            }
        }
        match request.sticky_owner() {
            Some(owner) => {
                self.addresses.keep(&request.network.name, owner, &attachment.leases, txn)
            }
            None => Ok(txn),
        }
    }
}

fn is_described(known: Option<&Read<Box<Network>>>, network: &Network) -> bool {
    known.is_some_and(|read| {
        let known = &*read.value;
        *known == Network { since: known.since, runtime: known.runtime, ..network.clone() }
    })
}
