//! Binds a subnet to its network once the runtime names it.

use model::{Error, NetworkName, Result, SubnetId};

use crate::Subnets;
use crate::port::{Key, Outcome, Record, Txn};
use crate::records::book::unchanged;

/// How often a changed record is read again.
const RACES: usize = 50;

impl Subnets<'_> {
    /// Says that the subnet is for `network` and not for the one that it was requested for: a
    /// runtime may request each subnet by itself and make one network of them (libnetwork). The
    /// network must not be made under its old name. Repeating it is no error.
    pub fn relabel_subnet(&self, id: &SubnetId, network: &NetworkName) -> Result<()> {
        for _ in 0..RACES {
            let Some(read) = self.records.subnet_of(id)? else {
                return Err(Error::not_found(format!("subnet {id} is not allocated")));
            };
            if read.value.network == *network {
                return Ok(());
            }
            let key = Key::Subnet(id.clone());
            let mut subnet = read.value.clone();
            subnet.network = network.clone();
            let txn = Txn::new().require(key.clone(), unchanged(Some(&read)));
            if let Outcome::Done(_) = self.store.commit(&txn.put(key, Record::Subnet(subnet)))? {
                return Ok(());
            }
        }
        Err(Error::try_again(format!("subnet {id} changes all the time")))
    }
}
