//! The ports of a sandbox (libnetwork's port map). They do not belong to one attachment: the
//! default-gateway endpoint publishes them.
//!
//! Each attachment that could be the default gateway has them in its record, and holds them in the
//! store. So they stay when the attachment goes that was requested with them. Drivers serve them at
//! the default gateway only ([`crate::port::Driver::set_gateway`]).

use model::{
    Attachment, Backend, ContainerId, EgressPolicy, Error, Layer, LinkKind, Phase, PortMap,
    Publish, Result,
};

use crate::Links;
use crate::contention::RACES;
use crate::port::Txn;

/// The ports that an attachment was named with.
pub(crate) fn named(attachment: &Attachment) -> &[PortMap] {
    match &attachment.spec {
        Some(spec) => spec.publish.as_ref().map_or(&[], |publish| &publish.ports),
        None => attachment.published(),
    }
}

/// All ports of a sandbox: those that it had, and those that these were named with, once.
pub(crate) fn all(had: &[PortMap], members: &[Attachment]) -> Vec<PortMap> {
    let mut ports = had.to_vec();
    for map in members.iter().flat_map(named) {
        if !ports.contains(map) {
            ports.push(map.clone());
        }
    }
    ports
}

/// The ports of its sandbox that an attachment's record gets: all of them, where a port can lead to
/// it.
pub(crate) fn share<'a>(attachment: &'a Attachment, ports: &'a [PortMap]) -> &'a [PortMap] {
    if is_carrier(attachment) { ports } else { attachment.published() }
}

/// Others are reached past the host's packet filter, or not from outside.
pub(crate) fn is_carrier(attachment: &Attachment) -> bool {
    let firewall = attachment.wiring.firewall.as_ref();
    let kind = attachment.wiring.link.as_ref().map(|link| &link.kind);
    kind.is_some_and(LinkKind::has_ports)
        && firewall.is_none_or(|it| it.egress != EgressPolicy::Internal)
}

/// The same attachment with these ports, of which some were added while the sandbox ran.
fn with(
    mut attachment: Box<Attachment>,
    (ports, added): (&[PortMap], &[PortMap]),
    backend: Backend,
) -> Box<Attachment> {
    let bridge = attachment.wiring.bridge();
    let behind = bridge.map(|bridge| bridge.name.clone());
    let fresh = || Publish { behind, ..Publish::new(backend) };
    let publish = attachment.wiring.publish.get_or_insert_with(fresh);
    publish.ports = ports.to_vec();
    publish.added = added.iter().filter(|map| ports.contains(map)).cloned().collect();
    attachment
}

impl Links<'_> {
    /// The ports of the container's sandbox, where Spoke connects that, and those of them that were
    /// added while it ran.
    fn ports_of(&self, container: &ContainerId) -> Result<(Vec<PortMap>, Vec<PortMap>)> {
        let read = self.records.sandbox_record_of(container)?;
        Ok(read.map(|read| (read.value.ports, read.value.added)).unwrap_or_default())
    }

    /// Has one that is to be attached bring the ports that its sandbox has already.
    pub(crate) fn bring_ports(&self, attachment: Attachment) -> Result<Attachment> {
        let (had, added) = self.ports_of(attachment.sandbox_name())?;
        let ports = all(&had, std::slice::from_ref(&attachment));
        if share(&attachment, &ports) == attachment.published() {
            return Ok(attachment);
        }
        Ok(*with(Box::new(attachment), (&ports, &added), self.host.backend()))
    }

    /// Writes into the record of a member, and into the store, that it has its share of these ports
    /// and no others; as the record is then.
    pub(crate) fn carry(&self, member: &Attachment, ports: &[PortMap]) -> Result<Attachment> {
        for _ in 0..RACES {
            let read = self.records.record_of(&member.id, Layer::Link)?;
            let Some(mut read) = read.filter(|it| matches!(it.value.phase, Phase::Attached(_)))
            else {
                // It is being removed and serves no port.
                return Ok(member.clone());
            };
            let share = share(&read.value, ports);
            if read.value.published() == share {
                return Ok(*read.value);
            }
            let (_, added) = self.ports_of(read.value.sandbox_name())?;
            let now = with(read.value.clone(), (share, &added), self.host.backend());
            let claims = self.addresses.claims_on(read.value.published().iter().chain(share))?;
            let txn = self.addresses.hold_ports(&now, share, &claims, Txn::new());
            if self.records.try_replace(&mut read, now, txn)?.is_none() {
                return Ok(*read.value);
            }
        }
        Err(Error::try_again(format!("{} changes all the time", member.id)))
    }
}
