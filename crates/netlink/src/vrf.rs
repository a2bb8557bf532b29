//! VRFs: devices that give their members a routing table of their own (ip-link(8),
//! `Documentation/networking/vrf.rst`).

use model::{IfName, Result};

use crate::link::{self, INFO, iff, ifla};
use crate::wire::{Batch, CREATE, DUMP, EXCLUSIVE, Message};
use crate::{At, Change, Errno, Socket};

/// `IFLA_VRF_TABLE`.
const TABLE: u16 = 1;
/// `RTM_GETLINK`.
const GET: u16 = 18;

/// A VRF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vrf {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: IfName,
    /// The routing table of its members.
    pub table: u32,
}

impl Batch {
    /// Makes a VRF, up; returns the message's index. EEXIST if there is a link of its name,
    /// EOPNOTSUPP if the kernel knows no VRFs.
    pub fn new_vrf(&mut self, name: &IfName, table: u32) -> usize {
        let about = format!("making VRF {name} with table {table}");
        let mut request = self.request(link::NEW, CREATE | EXCLUSIVE, about);
        request.bytes(&link::info(0, iff::UP, iff::UP)).text(ifla::IFNAME, name.as_str());
        request.nest(ifla::LINKINFO, |info| {
            info.text(ifla::INFO_KIND, "vrf").nest(ifla::INFO_DATA, |data| {
                data.u32(TABLE, table);
            });
        });
        self.count() - 1
    }
}

impl Socket {
    /// Every VRF.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn vrfs(&mut self) -> Result<Vec<Vrf>> {
        let mut batch = Batch::new();
        let mut request = batch.request(GET, DUMP, "listing VRFs");
        request.bytes(&link::info(0, 0, 0)).nest(ifla::LINKINFO, |info| {
            info.text(ifla::INFO_KIND, "vrf");
        });
        self.dump(&mut batch, &[Errno::OPNOTSUPP], read)
    }

    /// Puts the link with this index into a VRF, or out of any.
    ///
    /// # Errors
    /// As [`Socket::send`], and a refusal.
    pub fn enslave(&mut self, link: u32, vrf: Option<u32>) -> Result<()> {
        let mut batch = Batch::new();
        batch.change_link(At::Index(link), &[Change::Master(vrf)]);
        self.send(&mut batch)?.into_result()
    }
}

pub(crate) fn read(message: &Message<'_>) -> Option<Vrf> {
    let link = link::read(message)?;
    let info = message.attributes(INFO).find_kind(ifla::LINKINFO)?.nested();
    if info.find_kind(ifla::INFO_KIND)?.text()? != "vrf" {
        return None;
    }
    let table = info.find_kind(ifla::INFO_DATA)?.nested().find_kind(TABLE)?.u32()?;
    Some(Vrf { index: link.index, name: link.name, table })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Messages;

    #[test]
    fn what_is_written_is_read() {
        let mut batch = Batch::new();
        batch.new_vrf(&"blue".parse().unwrap(), 1000);
        let bytes = batch.seal(1).to_vec();
        let vrf = Vrf { index: 0, name: "blue".parse().unwrap(), table: 1000 };
        assert_eq!(read(&Messages::new(&bytes).next().unwrap()), Some(vrf));
    }

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..256)) {
            let message = Message { kind: link::NEW, flags: 0, sequence: 0, payload: &payload };
            let _ = read(&message);
        }
    }
}
