//! Attachments whose network has a way out of its own. The network need not have names: what their sandbox
//! asks at another network leaves by the way all the same.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use model::{Attachment, AttachmentId};

/// The way of one attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Led {
    sandbox: PathBuf,
    inode: u64,
    mark: u32,
}

/// All of them, by sandbox.
#[derive(Debug, Default)]
pub(super) struct Ways {
    all: BTreeMap<AttachmentId, Led>,
    by_sandbox: HashMap<PathBuf, BTreeSet<AttachmentId>>,
}

impl Ways {
    /// An attachment is as it says now, or gone. It counts from when its sandbox is recorded, which is before it
    /// has a link. Whether anything has changed.
    pub(super) fn put(&mut self, id: &AttachmentId, now: Option<&Attachment>) -> bool {
        let led = now.and_then(Led::of);
        if self.all.get(id) == led.as_ref() {
            return false;
        }
        if let Some(before) = self.all.remove(id) {
            super::drop_member(&mut self.by_sandbox, &before.sandbox, id);
        }
        if let Some(led) = led {
            self.by_sandbox.entry(led.sandbox.clone()).or_default().insert(id.clone());
            self.all.insert(id.clone(), led);
        }
        true
    }

    /// The mark that leads to the way of a sandbox: of several the first by the network's name.
    pub(super) fn of(&self, sandbox: &Path, inode: u64) -> Option<u32> {
        let ids = self.by_sandbox.get(sandbox)?;
        let mut all = ids.iter().filter_map(|id| self.all.get(id));
        all.find(|led| super::is_same(led.inode, inode)).map(|led| led.mark)
    }
}

impl Led {
    fn of(attachment: &Attachment) -> Option<Self> {
        let sandbox = attachment.sandbox.as_ref()?;
        let mark = super::way_of(&attachment.wiring)?;
        Some(Self { sandbox: sandbox.path.clone(), inode: sandbox.inode, mark })
    }
}
