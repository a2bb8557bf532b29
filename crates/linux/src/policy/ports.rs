//! Published ports that come and go while the container runs.

use model::{Attachment, Backend, Family, PortMap, Result};

use super::Policy;
use super::flows::Stale;
use super::wanted::{self, Wanted};
use crate::iptables::{Iptables, Part, Variant};
use crate::listener;

impl Policy {
    /// Refuses a port that this host cannot lead to the attachment: a program has it, whichever
    /// runtime that program works for, or the kernel does not speak the protocol.
    pub(crate) fn refuse_port(&self, attachment: &Attachment, map: &PortMap) -> Result<()> {
        listener::refuse_unspoken(map)?;
        listener::refuse_any(map).map_err(|error| error.context(attachment.container_name()))
    }

    /// Removes what only these ports need. `attachment` has the ports that stay.
    pub(crate) fn withdraw_ports(&self, attachment: &Attachment, gone: &[PortMap]) -> Result<()> {
        let Some(publish) = &attachment.wiring.publish else { return Ok(()) };
        let mut before = attachment.clone();
        if let Some(publish) = &mut before.wiring.publish {
            publish.ports.extend(gone.iter().cloned());
        }
        match publish.backend {
            Backend::Iptables => self.withdraw_rules(attachment)?,
            Backend::Nftables => self.withdraw_elements(&before, attachment)?,
        }
        let mut flows = before;
        if let Some(publish) = &mut flows.wiring.publish {
            publish.ports = gone.to_vec();
        }
        match Stale::after(&flows) {
            Some(stale) => self.if_there(|socket| stale.forget(socket)),
            None => Ok(()),
        }
    }

    fn withdraw_elements(&self, before: &Attachment, after: &Attachment) -> Result<()> {
        let both = [Family::V4, Family::V6];
        // The ports may be led here in a family that the record does not know.
        let (before, after) =
            (wanted::gateway_route(before, &both), wanted::gateway_route(after, &both));
        let Some(wanted) = Wanted::of(&before)? else { return Ok(()) };
        let elements = match Wanted::of(&after)? {
            Some(rest) => wanted.elements.without(&rest.elements),
            None => wanted.elements,
        };
        if elements.is_empty() {
            return Ok(());
        }
        self.deleted.set(true);
        self.take_out(&elements)
    }

    fn withdraw_rules(&self, after: &Attachment) -> Result<()> {
        let iptables = Iptables::new(Variant::Host);
        let remains = after.wiring.publish.as_ref().is_some_and(|it| !it.ports.is_empty());
        match remains {
            true => iptables.install(after).map(drop),
            false => iptables.remove_parts(&after.id, &[Part::Publish], &after.addresses),
        }
    }
}
