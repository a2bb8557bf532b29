//! The ways out of networks: held before the first interface is there, and gone with the bridge.

use model::{Attachment, NetworkName, Result, Wiring};

use super::Policy;
use super::fence::refuse_foreign;
use crate::way::{self, WayOut};

impl Policy {
    /// Holds the packets of a network to its way, where it has one.
    pub(crate) fn hold_to_way(&self, network: &NetworkName, wiring: &Wiring) -> Result<()> {
        let Some(way) = WayOut::of(network, wiring)? else { return Ok(()) };
        refuse_foreign(network, &way.bridge, "via")?;
        self.with(|socket| way::ensure(socket, &way))
    }

    /// The same of what is attached, where somebody removed what holds it.
    pub(super) fn hold_again(&self, attachment: &Attachment) -> Result<bool> {
        let way = WayOut::of(&attachment.id.network, &attachment.wiring)?;
        way.map_or(Ok(false), |way| self.with(|socket| way::ensure(socket, &way)).map(|()| false))
    }
}
