//! Ports that were added are withdrawn: first from the records, as leaving; then from the kernel;
//! then their claims.

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU16;

use model::{
    Amendment, AttachmentId, Error, Layer, NetworkName, OwnerName, Phase, PortMap, Protocol,
    Result, Runtime,
};

use crate::Attachments;
use crate::attachments::amend::holders::Holders;
use crate::attachments::amend::{Tried, has_leaving};
use crate::contention::RACES;
use crate::port::{Key, Outcome, Prefix, Record, Txn};
use crate::records::book::{Read, passable, unchanged};

/// A port of the host, as it is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// Only at this address of the host; wherever it was added, where none is given.
    pub host: Option<IpAddr>,
    /// Its number.
    pub port: NonZeroU16,
    /// Its protocol.
    pub protocol: Protocol,
    /// Only where it leads to this port of the container; wherever it leads, where none is given.
    pub container: Option<NonZeroU16>,
}

impl HostPort {
    /// Whether it is that port.
    pub fn is(&self, map: &PortMap) -> bool {
        (self.port, self.protocol) == (map.host_port, map.protocol)
            && self.host.is_none_or(|host| map.host == Some(host))
            && self.container.is_none_or(|port| map.container_port == port)
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Some(IpAddr::V6(host)) => write!(f, "[{host}]:")?,
            Some(host) => write!(f, "{host}:")?,
            None => {}
        }
        write!(f, "{}", self.port)?;
        match self.container {
            Some(port) => write!(f, ":{port}/{}", self.protocol),
            None => write!(f, "/{}", self.protocol),
        }
    }
}

impl Attachments<'_> {
    /// Withdraws a port that [`Attachments::add_port`] published, and forgets it. Returns what was
    /// withdrawn.
    ///
    /// Fails with [`model::Kind::NotFound`] where the container has no such port, and with
    /// [`model::Kind::Unsupported`] where its runtime published it.
    pub fn remove_port(&self, id: &AttachmentId, port: &HostPort) -> Result<Vec<PortMap>> {
        let _lock = self.lock_of_ports(id)?;
        for _ in 0..RACES {
            let holders = self.holders_as_they_are(id)?;
            let mut gone = holders.added();
            gone.retain(|map| port.is(map));
            if gone.is_empty() {
                return self.forget_unserved(&holders, port);
            }
            if self.take_away(&holders, &gone)? {
                return Ok(gone);
            }
        }
        Err(Error::try_again(format!("withdrawing {port} of {id}: lost {RACES} races in a row")))
    }

    /// Forgets a port that the containers of a name would get again, where none is attached. Returns
    /// what was forgotten.
    pub fn forget_port(
        &self,
        (runtime, name): (Runtime, &OwnerName),
        network: Option<&NetworkName>,
        port: &HostPort,
    ) -> Result<Vec<PortMap>> {
        for _ in 0..RACES {
            let known = self.amendments_of(runtime, name, network)?;
            let ports = known.iter().flat_map(|read| &read.value.ports);
            let gone: Vec<PortMap> = ports.filter(|map| port.is(map)).cloned().collect();
            if gone.is_empty() {
                return Ok(gone);
            }
            let txn = self.without(&known, &gone, Txn::new())?;
            if let Outcome::Done(_) = self.store.commit(&txn)? {
                return Ok(gone);
            }
        }
        Err(Error::try_again(format!("forgetting {port} of {name}: lost {RACES} races in a row")))
    }

    /// A port that the container's name keeps although it could not be published again.
    fn forget_unserved(&self, holders: &Holders, port: &HostPort) -> Result<Vec<PortMap>> {
        let amendment = Amendment::of(&holders.link)?;
        let whose = (amendment.runtime, &amendment.name);
        let gone = self.forget_port(whose, holders.network(), port)?;
        let name = holders.link.container_name();
        match (gone.is_empty(), holders.given().any(|map| port.is(map))) {
            (false, _) => Ok(gone),
            (true, true) => Err(Error::unsupported(format!(
                "host port {port} of {name} was published by its runtime ({}), which alone can \
                 withdraw it; `spoke port ls` shows which ports were added",
                holders.link.runtime
            ))),
            (true, false) => Err(Error::not_found(format!(
                "{name} has no host port {port}; `spoke port ls` shows those that it has"
            ))),
        }
    }

    /// Withdraws added ports, and forgets them; `false` where another process changed a record
    /// meanwhile.
    pub(super) fn take_away(&self, holders: &Holders, gone: &[PortMap]) -> Result<bool> {
        let mut changed = holders.clone();
        changed.remove(gone);
        let amendment = Amendment::of(&holders.link)?;
        let known = self.amendments_of(amendment.runtime, &amendment.name, holders.network())?;
        let txn = self.without(&known, gone, changed.write(Txn::new()))?;
        match self.settle(changed, &txn)? {
            Tried::Done(changed) => {
                for held in &changed.records {
                    self.finish_withdrawal(&held.record.id, held.record.layer)?;
                }
                Ok(true)
            }
            Tried::Lost | Tried::Held(_) | Tried::Forgotten => Ok(false),
        }
    }

    /// Completes what a command began that withdraws ports, dead or alive.
    pub(crate) fn finish_withdrawal(&self, id: &AttachmentId, layer: Layer) -> Result<()> {
        for _ in 0..RACES {
            let Some(read) = self.records.record_of(id, layer)? else { return Ok(()) };
            let is_attached = matches!(read.value.phase, Phase::Attached(_));
            let Some(publish) = &read.value.wiring.publish else { return Ok(()) };
            if !is_attached || !has_leaving(&read.value) {
                return Ok(());
            }
            self.driver.withdraw_ports(&read.value, &publish.leaving)?;
            let claims = self.addresses.claims_on(publish.leaving.iter())?;
            let mut now = read.value.clone();
            let mut is_over = false;
            if let Some(publish) = &mut now.wiring.publish {
                publish.leaving.clear();
                is_over = publish.is_empty();
            }
            let held = now.wiring.publish.as_ref().map_or(Vec::new(), |it| it.ports.clone());
            let key = Key::Attachment(id.clone(), layer);
            let txn = Txn::new().require(key.clone(), unchanged(Some(&read)));
            let txn = self.addresses.hold_ports(&now, &held, &claims, txn);
            if is_over {
                now.wiring.publish = None;
            }
            let txn = match is_over && layer == Layer::Publish {
                true => txn.delete(key),
                false => txn.put(key, Record::Attachment(now)),
            };
            if let Outcome::Done(_) = self.store.commit(&txn)? {
                return Ok(());
            }
        }
        Err(Error::try_again(format!("the ports of {id} change all the time")))
    }

    /// What is kept under a name, on one network or on every one.
    pub(super) fn amendments_of(
        &self,
        runtime: Runtime,
        name: &OwnerName,
        network: Option<&NetworkName>,
    ) -> Result<Vec<Read<Box<Amendment>>>> {
        if let Some(network) = network {
            let key = Key::Amendment(network.clone(), runtime, name.clone());
            return Ok(passable(self.records.amendment_under(&key))?
                .flatten()
                .into_iter()
                .collect());
        }
        let mut known = self.records.amendments_in(&Prefix::Amendments)?;
        known.retain(|read| (read.value.runtime, &read.value.name) == (runtime, name));
        Ok(known)
    }

    /// Adds to a transaction that these no longer have the ports.
    fn without(
        &self,
        known: &[Read<Box<Amendment>>],
        gone: &[PortMap],
        mut txn: Txn,
    ) -> Result<Txn> {
        for read in known {
            let mut rest = read.value.clone();
            rest.ports.retain(|map| !gone.contains(map));
            if rest.ports.len() == read.value.ports.len() {
                continue;
            }
            txn = self.kept(Some(read), rest, txn)?;
        }
        Ok(txn)
    }
}
