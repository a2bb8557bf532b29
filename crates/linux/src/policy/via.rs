//! The ways out of networks: held before the first interface is there, and gone with the bridge.

use engine::port::Still;
use model::{Attachment, Network, NetworkName, Result, Wiring};

use super::fence::refuse_foreign;
use super::{Policy, or_nothing};
use crate::way::{self, Candidate, Flows, Hold, WayOut};

impl Policy {
    /// Holds the packets of a network to its way, where it has one.
    pub(crate) fn hold_to_way(&self, network: &NetworkName, wiring: &Wiring) -> Result<()> {
        let Some(way) = WayOut::of(network, wiring)? else { return Ok(()) };
        refuse_foreign(network, &way.bridge, "via")?;
        self.with(|socket| way::ensure(socket, &way))
    }

    /// The same of what is attached, where another program removed what holds it.
    pub(super) fn hold_again(&self, attachment: &Attachment) -> Result<bool> {
        let way = WayOut::of(&attachment.id.network, &attachment.wiring)?;
        way.map_or(Ok(false), |way| self.with(|socket| way::ensure(socket, &way)).map(|()| false))
    }

    /// Refuses a way past which the bridge may lead, or whose table another bridge has.
    pub(crate) fn refuse_way(&self, network: &Network) -> Result<()> {
        let Some(way) = WayOut::of_network(network)? else { return Ok(()) };
        refuse_foreign(&network.name, &way.bridge, "via")?;
        way::refuse_shared(&way)
    }

    /// Has the network leave by the way that it has now, or as the host does. `attachments`: one of them may be
    /// the way. `still`: whether the network's record says so by now.
    pub(crate) fn lead(
        &self,
        network: &Network,
        attachments: &[Attachment],
        still: Still<'_>,
    ) -> Result<()> {
        let link = network.wiring.link.as_ref();
        let Some(bridge) = link.and_then(|link| link.kind.bridge()) else { return Ok(()) };
        self.deleted.set(true);
        match WayOut::of_network(network)? {
            Some(way) => {
                refuse_foreign(&network.name, &way.bridge, "via")?;
                let candidates: Vec<_> = attachments.iter().filter_map(Candidate::of).collect();
                let peer = way.peer(candidates.iter());
                let how = Hold { flows: Flows::End, relays: None, still };
                self.with(|socket| way::hold(socket, &way, peer, &how)).map(drop)
            }
            None => or_nothing(self.with(|socket| way::forget_while(socket, &bridge.name, still))),
        }
    }
}
