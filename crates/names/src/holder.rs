//! Who has an address.

use std::net::IpAddr;

use model::{AttachmentId, ContainerId, Timestamp};

/// Which attachment has an address: not the next one that gets it, and not what was called the same before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The attachment.
    pub id: AttachmentId,
    /// When it began.
    pub since: Timestamp,
}

/// Whose queries are counted together: a container's, on all of its networks, by all of its addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    Container(ContainerId),
    /// What is no container's: this host's.
    Address(IpAddr),
}

impl Client {
    pub(crate) fn new(holder: Option<&Holder>, address: IpAddr) -> Self {
        match holder {
            Some(holder) => Self::Container(holder.id.container.clone()),
            None => Self::Address(address),
        }
    }
}

/// The client with the most entries of a full table, if it has more than the newcomer: it loses some of them.
pub(crate) fn who_has_most<'a>(
    counts: impl Iterator<Item = (&'a Client, usize)>,
    newcomer: usize,
) -> Option<Client> {
    let more = counts.filter(|(_, count)| *count > newcomer);
    more.max_by_key(|(_, count)| *count).map(|(client, _)| client.clone())
}
