//! Ports of the host, and which attachment may have one. The store decides, so that a second
//! runtime gets an error with the holder's name and does not take the port over.

use std::collections::{BTreeMap, BTreeSet};

use model::{Attachment, AttachmentId, Claim, Error, Layer, PortMap, Result};

use crate::Addresses;
use crate::port::{Key, Record, Txn};
use crate::records::book::{Read, unchanged};

pub(crate) fn key_of(map: &PortMap) -> Key {
    Key::Port(map.protocol, map.host_port)
}

/// The claims of some ports, as they were read.
pub(crate) type Claims = BTreeMap<Key, Option<Read<Vec<Claim>>>>;

impl Addresses<'_> {
    /// Adds the claims for every port that the attachment publishes.
    pub(crate) fn claim_ports(&self, attachment: &Attachment, mut txn: Txn) -> Result<Txn> {
        let mut wanted: BTreeMap<Key, Vec<&PortMap>> = BTreeMap::new();
        for map in attachment.published() {
            wanted.entry(key_of(map)).or_default().push(map);
        }
        for (key, maps) in wanted {
            let read = self.records.claims_of(&key)?;
            let mut claims = others(read.as_ref(), &attachment.id);
            for map in &maps {
                let clash = |claim: &&Claim| claim.clashes(map.host) && !is_own(claim, attachment);
                if let Some(other) = claims.iter().find(clash) {
                    return Err(self.taken(map, &other.holder));
                }
            }
            // A port that is named twice, or on one address and on all, belongs to one container.
            for claim in maps.into_iter().map(|map| claim(map, attachment)) {
                if !claims.contains(&claim) {
                    claims.push(claim);
                }
            }
            txn = txn.require(key.clone(), unchanged(read.as_ref())).put(key, Record::Port(claims));
        }
        Ok(txn)
    }

    /// Drops every claim of the attachment.
    pub(crate) fn disclaim_ports(&self, attachment: &Attachment, mut txn: Txn) -> Result<Txn> {
        let mut keys: Vec<Key> = attachment.published().iter().map(key_of).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            let Some(read) = self.records.claims_of(&key)? else { continue };
            let claims = others(Some(&read), &attachment.id);
            txn = txn.require(key.clone(), unchanged(Some(&read)));
            txn = match claims.is_empty() {
                true => txn.delete(key),
                false => txn.put(key, Record::Port(claims)),
            };
        }
        Ok(txn)
    }

    /// Adds that the attachment has these ports and no others of those whose claims were read.
    pub(crate) fn hold_ports(
        &self,
        attachment: &Attachment,
        held: &[PortMap],
        read: &Claims,
        mut txn: Txn,
    ) -> Txn {
        for (key, read) in read {
            let mut claims = others(read.as_ref(), &attachment.id);
            for map in held.iter().filter(|map| key_of(map) == *key) {
                let claim = claim(map, attachment);
                if !claims.contains(&claim) {
                    claims.push(claim);
                }
            }
            txn = txn.require(key.clone(), unchanged(read.as_ref()));
            txn = match claims.is_empty() {
                true => txn.delete(key.clone()),
                false => txn.put(key.clone(), Record::Port(claims)),
            };
        }
        txn
    }

    /// The claims of the ports.
    pub(crate) fn claims_on<'m>(&self, maps: impl Iterator<Item = &'m PortMap>) -> Result<Claims> {
        let keys: BTreeSet<Key> = maps.map(key_of).collect();
        keys.into_iter().map(|key| Ok((key.clone(), self.records.claims_of(&key)?))).collect()
    }

    /// The error that names the holder of a port, and its runtime.
    pub(crate) fn taken(&self, map: &PortMap, holder: &AttachmentId) -> Error {
        let mut records = Layer::ALL
            .iter()
            .filter_map(|layer| self.records.record_of(holder, *layer).ok().flatten());
        let runtime = records.next().map(|read| format!(" (runtime {})", read.value.runtime));
        Error::conflict(format!(
            "host port {}/{} ({map}) is held by {}{}; `spoke port ls` lists all",
            map.host_port,
            map.protocol,
            self.records.whose(holder, None),
            runtime.unwrap_or_default()
        ))
    }

    /// The attachment that keeps the request from its ports, if one does.
    pub(crate) fn port_holder(&self, attachment: &Attachment) -> Result<Option<AttachmentId>> {
        Ok(self.taken_port(attachment)?.map(|(_, holder)| holder))
    }

    /// Fails where another container has one of the ports.
    pub(crate) fn refuse_taken_ports(&self, attachment: &Attachment) -> Result<()> {
        match self.taken_port(attachment)? {
            Some((map, holder)) => Err(self.taken(map, &holder)),
            None => Ok(()),
        }
    }

    /// The first port that another container has.
    fn taken_port<'a>(
        &self,
        attachment: &'a Attachment,
    ) -> Result<Option<(&'a PortMap, AttachmentId)>> {
        for map in attachment.published() {
            let read = self.records.claims_of(&key_of(map))?;
            let clash = |claim: &Claim| claim.clashes(map.host) && !is_own(claim, attachment);
            if let Some(claim) = others(read.as_ref(), &attachment.id).into_iter().find(clash) {
                return Ok(Some((map, claim.holder)));
            }
        }
        Ok(None)
    }
}

fn others(read: Option<&Read<Vec<Claim>>>, id: &AttachmentId) -> Vec<Claim> {
    let claims = read.map_or(&[][..], |read| &read.value);
    claims.iter().filter(|claim| claim.holder != *id).cloned().collect()
}

pub(crate) fn claim(map: &PortMap, attachment: &Attachment) -> Claim {
    let sandbox = attachment.sandbox.as_ref().map(|sandbox| sandbox.path.clone());
    Claim { host: map.host, holder: attachment.id.clone(), sandbox }
}

/// A container may have its port on several of its networks (libnetwork programs each of them), and
/// by several interfaces of one.
fn is_own(claim: &Claim, attachment: &Attachment) -> bool {
    let is_other_network = claim.holder.network != attachment.id.network;
    // Where Spoke itself connects a sandbox, its ports are those of all its endpoints.
    let is_led = attachment.gateway_role.is_some();
    is_in_sandbox(claim, attachment) && (is_other_network || is_led)
        || is_sibling(claim, attachment)
}

/// Whether another attachment of the same container, in the same namespace, has the port.
pub(crate) fn is_sibling(claim: &Claim, attachment: &Attachment) -> bool {
    is_in_sandbox(claim, attachment)
        && claim.holder.container == attachment.id.container
        && claim.holder != attachment.id
}

fn is_in_sandbox(claim: &Claim, attachment: &Attachment) -> bool {
    let sandbox = attachment.sandbox.as_ref().map(|sandbox| &sandbox.path);
    sandbox.is_some() && claim.sandbox.as_ref() == sandbox
}
