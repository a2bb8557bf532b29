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
    /// By the name that its runtime gives it, and by its id; never by an alias, which others choose. `None`
    /// where the attachment is not complete, or its link does not end in this host.
    pub fn of(attachment: &Attachment) -> Option<Self> {
        if attachment.layer != Layer::Link {
            return None;
        }
        let own = attachment.owner.as_ref().and_then(|it| it.as_str().rsplit('/').next());
        let own = own.map(str::to_owned);
        Some(Self {
            runtime: attachment.runtime,
            names: own.into_iter().chain([attachment.id.container.to_string()]).collect(),
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
