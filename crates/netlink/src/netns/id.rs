//! The kernel's ids of other namespaces, seen from the calling thread's (ip-netns(8), "nsid";
//! `linux/net_namespace.h`).
//!
//! Such an id is removed at the end of its namespace, and never before: there is no message that
//! would. So a namespace that is not in the list any more is gone, wherever it was mounted and
//! whatever had it open.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::AsRawFd;

use model::Result;

use super::Netns;
use crate::wire::{Batch, DUMP, Message};
use crate::{Errno, Socket};

const NEW: u16 = 88;
const GET: u16 = 90;

/// Length of `struct rtgenmsg`, aligned.
const HEADER: usize = 4;

/// `NETNSA_NSID`, `NETNSA_FD`.
const ID: u16 = 1;
const FD: u16 = 3;

/// A number that is not among the lowest.
fn unlikely(inode: u64) -> u32 {
    let hash = RandomState::new().hash_one(inode);
    u32::try_from(hash & 0x3fff_ffff).unwrap_or_default() | 1 << 30
}

impl Socket {
    /// The id of the namespace, seen from this socket's. It gets an id where it has none: one that
    /// no other is likely to get later, where the kernel would take the lowest free one.
    ///
    /// # Errors
    /// As [`Socket::send`], and a refusal.
    pub fn namespace_id(&mut self, of: &Netns) -> Result<u32> {
        let fd = u32::try_from(of.fd.as_raw_fd()).unwrap_or_default();
        if let Some(id) = self.known_id(fd, of.inode)? {
            return Ok(id);
        }
        let mut batch = Batch::new();
        let mut request = batch.request(NEW, 0, format!("numbering namespace {}", of.inode));
        request.bytes(&[0; HEADER]).u32(ID, unlikely(of.inode)).u32(FD, fd);
        // Another process may have done it meanwhile, or another namespace may have this id.
        self.send(&mut batch)?.except(Errno::EXIST).into_result()?;
        let none = || model::Error::bug(format!("namespace {} has no number", of.inode));
        self.known_id(fd, of.inode)?.ok_or_else(none)
    }

    fn known_id(&mut self, fd: u32, inode: u64) -> Result<Option<u32>> {
        let mut batch = Batch::new();
        let mut request = batch.request(GET, 0, format!("asking what namespace {inode} is called"));
        request.bytes(&[0; HEADER]).u32(FD, fd);
        Ok(self.get(&mut batch, &[], read)?.and_then(|id| u32::try_from(id).ok()))
    }

    /// The numbers of all namespaces that have one and are there.
    ///
    /// # Errors
    /// As [`Socket::dump`].
    pub fn namespace_ids(&mut self) -> Result<BTreeSet<u32>> {
        let mut batch = Batch::new();
        batch.request(GET, DUMP, "listing the numbers of namespaces").bytes(&[0; HEADER]);
        let ids = self.dump(&mut batch, &[], read)?;
        Ok(ids.into_iter().filter_map(|id| u32::try_from(id).ok()).collect())
    }
}

fn read(message: &Message<'_>) -> Option<i32> {
    if message.kind != NEW {
        return None;
    }
    message.attributes(HEADER).find_kind(ID)?.i32()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_payload_is_read(payload in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = read(&Message { kind: NEW, flags: 0, sequence: 0, payload: &payload });
        }
    }
}
