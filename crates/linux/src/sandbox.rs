//! The network namespaces of containers, as the records of attachments name them.

use model::{Attachment, Error, Handoff, Result, Runtime, Sandbox};
use netlink::Netns;

use crate::parts;

/// The container's namespace, where we work in it.
pub(crate) fn entered(attachment: &Attachment) -> Result<Option<Netns>> {
    match attachment.handoff {
        Handoff::Finish => attachment.sandbox.as_ref().map(open).transpose(),
        Handoff::Caller => Ok(None),
    }
}

/// The container's namespace, where it still exists and something is to be undone in it. A pair is
/// deleted by its host's end.
pub(crate) fn remaining(attachment: &Attachment) -> Option<Netns> {
    let is_single = |link: &model::Link| !link.kind.is_pair();
    let inside = attachment.wiring.tuning.is_some()
        || attachment.runtime == Runtime::Reference
        || parts::reach_inside(attachment)
        || attachment.wiring.link.as_ref().is_some_and(is_single);
    let sandbox = attachment.sandbox.as_ref().filter(|_| inside)?;
    open(sandbox).ok()
}

/// Opens the namespace that the record means; another one at its path is none.
fn open(sandbox: &Sandbox) -> Result<Netns> {
    let netns = Netns::open(&sandbox.path)?;
    if netns.inode() != sandbox.inode {
        return Err(Error::not_found(format!(
            "{} is another network namespace by now",
            sandbox.path.display()
        )));
    }
    Ok(netns)
}
