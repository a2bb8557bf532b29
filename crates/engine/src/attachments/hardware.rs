//! The hardware address that a caller asks for.

use model::{Attachment, Error, Mac, Result, Runtime};

use crate::Attachments;
use crate::attachments::begin::Draft;
use crate::port::Prefix;

impl Attachments<'_> {
    /// Refuses an address that no interface can have; and where our own command line asks for it, also one that another
    /// interface of the network has. Other runtimes choose addresses of their own, and their own bridges take such
    /// a one, too.
    pub(super) fn refuse_hardware(&self, draft: &Draft<'_>) -> Result<()> {
        let blank = &draft.blank;
        let tuned = blank.wiring.tuning.as_ref().and_then(|tuning| tuning.mac);
        tuned.map_or(Ok(()), Mac::refuse_unusable)?;
        let Some(mac) = blank.wiring.link.as_ref().and_then(|link| link.mac) else { return Ok(()) };
        mac.refuse_unusable()?;
        match draft.request.network.runtime {
            Runtime::Spoke => self.refuse_taken_hardware(blank, mac, draft),
            _ => Ok(()),
        }
    }

    fn refuse_taken_hardware(&self, blank: &Attachment, mac: Mac, draft: &Draft<'_>) -> Result<()> {
        let network = &draft.request.network;
        let taken = |who: &str| {
            Err(Error::conflict(format!(
                "--mac-address {mac}: {who} of network {} has this address: choose another one, or leave it out",
                network.called()
            )))
        };
        if self.driver.shared_hardware(network)? == Some(mac) {
            return taken("the bridge");
        }
        let all = self.records.attachments_in(&Prefix::AttachmentsOf(network.name.clone()))?;
        let others = all.iter().map(|read| &*read.value).filter(|other| other.id != blank.id);
        for other in others {
            if self.driver.hardware_address(other) == Some(mac) {
                return taken(&format!("container {}", other.container_name()));
            }
        }
        Ok(())
    }
}
