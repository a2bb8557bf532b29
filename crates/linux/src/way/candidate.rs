//! The container that is the way of a network.

use model::{Attachment, Layer, NetworkName, Runtime, Via};

use super::{Peer, WayOut};

/// A container that could forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    runtime: Runtime,
    names: Vec<String>,
    network: NetworkName,
    peer: Peer,
}

impl Candidate {
    /// By the names that [`Attachment::known_as`] lists. `None` where the attachment is not complete, or its link does not end in this host.
    pub fn of(attachment: &Attachment) -> Option<Self> {
        if attachment.layer != Layer::Link {
            return None;
        }
        Some(Self {
            runtime: attachment.runtime,
            names: attachment.known_as().map(str::to_owned).collect(),
            network: attachment.id.network.clone(),
            peer: Peer::of(attachment)?,
        })
    }
}

impl WayOut {
    /// The container that is the way: on another network, the first of several by the network's name.
    pub fn peer<'a>(&self, all: impl Iterator<Item = &'a Candidate>) -> Option<&'a Peer> {
        let found = self.candidates(all);
        found.min_by(|one, other| one.network.cmp(&other.network)).map(|it| &it.peer)
    }

    /// Every interface of the container that is the way: what it forwards may come in by each of them.
    pub fn peers<'a>(
        &self,
        all: impl Iterator<Item = &'a Candidate>,
    ) -> impl Iterator<Item = &'a Peer> {
        self.candidates(all).map(|it| &it.peer)
    }

    fn candidates<'a>(
        &self,
        all: impl Iterator<Item = &'a Candidate>,
    ) -> impl Iterator<Item = &'a Candidate> {
        all.filter(|it| match &self.via {
            Via::Container(runtime, name) => {
                it.runtime == *runtime && it.network != self.network && it.names.contains(name)
            }
            _ => false,
        })
    }
}
