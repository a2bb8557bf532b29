//! Changes the fence of a network that exists.

use model::{Error, Fence, Network, NetworkName, Result};

use crate::Networks;
use crate::links::fence::RACES;
use crate::port::{Key, Outcome, Record, Txn};
use crate::records::book::unchanged;

impl Networks<'_> {
    /// Changes where the containers of a network may go. The caller makes the kernel follow. A network gets no
    /// fence in this way: its containers would not know its names.
    ///
    /// # Errors
    /// [`model::Kind::Unsupported`] where the network has no fence, or a runtime's configuration says what it
    /// is.
    pub fn change_fence(&self, name: &NetworkName, change: &dyn Fn(&mut Fence)) -> Result<Network> {
        for _ in 0..RACES {
            // The caller calls it so.
            let called = name;
            let network = self.records.network(called)?;
            let name = network.name.clone();
            let unsupported =
                |why: &str| Err(Error::unsupported(format!("network {called} {why}")));
            let key = Key::Network(name.clone());
            let Some(read) = self.records.network_under(&key)? else {
                return unsupported(
                    "is described by its runtime's configuration: change \"egress\" there, or make the \
                     network with `spoke network create --egress` and join it with network=NAME",
                );
            };
            let mut changed = (*read.value).clone();
            let Some(fence) = &mut changed.wiring.fence else {
                return unsupported("has no egress rules: it was made without --egress");
            };
            change(fence);
            changed.refuse_fence()?;
            let record = Record::Network(Box::new(changed.clone()));
            let txn = Txn::new().require(key.clone(), unchanged(Some(&read))).put(key, record);
            if let Outcome::Done(_) = self.store.commit(&txn)? {
                return Ok(changed);
            }
        }
        Err(Error::try_again(format!("network {name} keeps being changed")))
    }
}
