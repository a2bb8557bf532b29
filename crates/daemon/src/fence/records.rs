//! Whether what was judged a moment ago still holds, as the records say now.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::PathBuf;

use ::names::{Holder, Judged};
use engine::port::{Key, Prefix, Record, Store};
use linux::filter::fence::{BoundPort, ContainerPort, Fenced, Opening, Own, Readable};
use model::{
    Attachment, DomainName, Error, Fence, IfName, IpNet, Layer, Network, NetworkName, Phase,
    Result, Wiring,
};
use store::{Embedded, Roots};

use super::fenced;
use super::unread::Unread;
use crate::recorded::{Declared, by_bridge};

/// The ports of containers behind fences.
#[derive(Default)]
pub(super) struct Ports {
    pub(super) all: Vec<BoundPort>,
    /// The bridges behind which one may be that is not among these, each with the reason.
    pub(super) failed: Vec<(IfName, Error)>,
}

impl Ports {
    /// Those that are to be checked behind a bridge.
    ///
    /// # Errors
    /// Where there may be others.
    pub(super) fn of(self, bridge: &IfName) -> Result<Vec<BoundPort>> {
        match self.failed.into_iter().find(|(it, _)| it == bridge) {
            Some((_, error)) => Err(error),
            None => Ok(self.all),
        }
    }
}

/// The records, opened when they are first read.
pub(super) struct Records {
    runtime: PathBuf,
    state: PathBuf,
    store: Option<Embedded>,
}

impl Records {
    pub(super) fn new(runtime: PathBuf, state: PathBuf) -> Self {
        Self { runtime, state, store: None }
    }

    fn store(&mut self) -> Result<&Embedded> {
        match &mut self.store {
            Some(store) => Ok(store),
            empty => {
                let roots = Roots { runtime: self.runtime.clone(), state: self.state.clone() };
                Ok(empty.insert(Embedded::open(roots, &store::boot_id()?)?))
            }
        }
    }

    /// Refuses what was judged by other rules than those of now, or for an attachment that has ended.
    ///
    /// # Errors
    /// Where that is so ([`model::Kind::TryAgain`]), and where the records cannot be read.
    pub(super) fn refuse_stale(&mut self, judged: &Judged) -> Result<()> {
        let attachment = self.attached(&judged.holder)?;
        let has_ended = attachment.is_none();
        let own = attachment.and_then(|it| it.wiring.own_fence);
        let rules = match own {
            Some(own) => Some(own),
            None => self.fence(&judged.network)?,
        };
        if has_ended || rules.is_some_and(|rules| !rules.same_rules(&judged.fence)) {
            let what = if has_ended { "the container has ended" } else { "the rules have changed" };
            return Err(Error::try_again(format!("opening {}: {what}", judged.name)));
        }
        Ok(())
    }

    /// Of these openings those that may be open: their container is there, and its network's rules allow a
    /// name that led to them.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub(super) fn retain(
        &mut self,
        all: &mut Vec<(Opening, Vec<DomainName>, Holder)>,
    ) -> Result<()> {
        let holders: BTreeSet<Holder> = all.iter().map(|(.., holder)| holder.clone()).collect();
        let mut fences: BTreeMap<Holder, Fence> = BTreeMap::new();
        for holder in holders {
            let Some(attachment) = self.attached(&holder)? else { continue };
            let rules = match attachment.wiring.own_fence {
                Some(own) => Some(own),
                None => self.fence(&holder.id.network)?.or(attachment.wiring.fence),
            };
            fences.extend(rules.map(|rules| (holder, rules)));
        }
        all.retain(|(opening, names, holder)| {
            let fence = fences.get(holder);
            fence.is_some_and(|fence| fence.allows_by_name(names, opening.protocol, opening.port))
        });
        Ok(())
    }

    /// Who has which address behind which bridge.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub(super) fn holders(&mut self) -> Result<HashMap<(IfName, IpAddr), Holder>> {
        let mut all = HashMap::new();
        for (_, held) in self.store()?.list(&Prefix::Attachments)? {
            let Record::Attachment(attachment) = held.record else { continue };
            let link = attachment.wiring.link.as_ref();
            let Some(bridge) = link.and_then(|link| link.kind.bridge()) else { continue };
            let holder = Holder { id: attachment.id.clone(), since: attachment.since };
            for held in &attachment.addresses {
                all.insert((bridge.name.clone(), held.address.addr()), holder.clone());
            }
        }
        Ok(all)
    }

    /// The containers that have rules of their own, or had until their end is complete, and behind which bridges others
    /// may have some. What cannot have any has been refused before it was attached.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub(super) fn own(&mut self) -> Result<(Vec<Own>, Unread)> {
        let mut unread = self.unread()?;
        let mut all = Vec::new();
        for (_, held) in self.store()?.list(&Prefix::Attachments)? {
            let Record::Attachment(attachment) = held.record else { continue };
            match (own_of(&attachment), attachment.wiring.bridge()) {
                (Err(error), Some(bridge)) => unread.add(&bridge.name, error.to_string()),
                (own, _) => all.extend(own?),
            }
        }
        Ok((all, unread))
    }

    /// The ports of containers that have rules, or whose networks have, as long as something of their interfaces may
    /// be there; and the bridges of which that is not known of a port.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub(super) fn ports(&mut self) -> Result<Ports> {
        let mut ports = Ports::default();
        for (_, held) in self.store()?.list(&Prefix::Attachments)? {
            let Record::Attachment(attachment) = held.record else { continue };
            let is_reserved = matches!(attachment.phase, Phase::Reserved);
            if attachment.layer != Layer::Link || is_reserved {
                continue;
            }
            match (port_of(&attachment), attachment.wiring.bridge()) {
                (Err(error), Some(bridge)) => ports.failed.push((bridge.name.clone(), error)),
                (port, _) => ports.all.extend(port?),
            }
        }
        Ok(ports)
    }

    /// The subnets of the networks that this host routes, where it knows them.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub(super) fn routed(&mut self) -> Result<Vec<IpNet>> {
        let mut all = Vec::new();
        for prefix in [Prefix::Networks, Prefix::Configured] {
            for (_, held) in self.store()?.list(&prefix)? {
                let Record::Network(network) = held.record else { continue };
                if is_routed(&network.wiring) {
                    let ranges = network.ipam.pools().iter().flat_map(|pool| &pool.ranges);
                    all.extend(ranges.map(|range| range.subnet.trunc()));
                }
            }
        }
        Ok(all)
    }

    /// The fences of networks, as can be read of them.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub(super) fn networks(&mut self) -> Result<Vec<Fenced>> {
        let (mut recorded, mut declared) = (BTreeMap::new(), Declared::default());
        for prefix in [Prefix::Networks, Prefix::Configured] {
            for (key, held) in self.store()?.list(&prefix)? {
                declared.note(&key, true);
                let Record::Network(network) = held.record else { continue };
                // What cannot be is reported where the record is learned.
                recorded.extend(fenced(&network).ok().flatten().map(|fenced| (key, fenced)));
            }
        }
        let all = by_bridge((&recorded, &declared), |it: &Fenced| (&it.network, &it.bridge));
        Ok(all.into_values().collect())
    }

    /// What can be read of attachments that have ports, by the names of these.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub(super) fn by_port(&mut self) -> Result<BTreeMap<IfName, Attachment>> {
        let mut all = BTreeMap::new();
        for (_, held) in self.store()?.list(&Prefix::Attachments)? {
            let Record::Attachment(attachment) = held.record else { continue };
            if let Some(port) = ContainerPort::name_of(&attachment)? {
                all.insert(port, *attachment);
            }
        }
        Ok(all)
    }

    /// What can be read of rules, by these attachments and by networks.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub(super) fn readable(&mut self, known: &BTreeMap<IfName, Attachment>) -> Result<Readable> {
        let mut readable = Readable::of(known.values())?;
        readable.fenced = self.networks()?.into_iter().map(|network| network.bridge).collect();
        readable.ruleless = self.ruleless()?;
        Ok(readable)
    }

    /// The bridges of networks without names: no container there can have rules of its own. Where the record of a
    /// network is damaged none is known to be one.
    fn ruleless(&mut self) -> Result<BTreeSet<IfName>> {
        let unread = self.unread()?;
        let store = self.store()?;
        let (mut all, mut with_names) = (BTreeSet::new(), BTreeSet::new());
        for prefix in [Prefix::Networks, Prefix::Configured] {
            if unread.is_anywhere() || !store.damaged(Some(&prefix))?.is_empty() {
                return Ok(BTreeSet::new());
            }
        }
        for prefix in [Prefix::Networks, Prefix::Configured, Prefix::Attachments] {
            for (_, held) in store.list(&prefix)? {
                let (wiring, is_network) = match &held.record {
                    Record::Network(network) => (&network.wiring, true),
                    Record::Attachment(attachment) => (&attachment.wiring, false),
                    _ => continue,
                };
                let Some(bridge) = wiring.bridge() else { continue };
                if wiring.has_names() || wiring.own_fence.is_some() {
                    with_names.insert(bridge.name.clone());
                } else if is_network {
                    all.insert(bridge.name.clone());
                }
            }
        }
        all.retain(|bridge| !with_names.contains(bridge));
        Ok(all)
    }

    /// Whether the network of a container has rules, as its record says, or without one that of the container.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub(super) fn has_network_rules(&mut self, attachment: &Attachment) -> Result<bool> {
        let network = self.network(&attachment.id.network)?;
        let wiring = network.as_ref().map_or(&attachment.wiring, |network| &network.wiring);
        Ok(wiring.fence.is_some())
    }

    /// Which records of attachments are damaged: which rules their containers have is unknown then.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub(super) fn unread(&mut self) -> Result<Unread> {
        Unread::of(self.store()?)
    }

    /// The attachment, as long as it is attached.
    fn attached(&mut self, holder: &Holder) -> Result<Option<Attachment>> {
        let key = Key::Attachment(holder.id.clone(), Layer::Link);
        let record = self.store()?.get(&key)?.map(|read| read.record);
        let Some(Record::Attachment(now)) = record else { return Ok(None) };
        let is_same = now.since == holder.since && matches!(now.phase, Phase::Attached(_));
        Ok(is_same.then_some(*now))
    }

    /// The rules of a network that has a record: a declared one, or else one that a configuration
    /// describes. Without a record they do not change.
    fn fence(&mut self, name: &NetworkName) -> Result<Option<Fence>> {
        Ok(self.network(name)?.map(|network| network.wiring.fence.unwrap_or_default()))
    }

    fn network(&mut self, name: &NetworkName) -> Result<Option<Network>> {
        for key in [Key::Network(name.clone()), Key::Configured(name.clone())] {
            if let Some(Record::Network(network)) = self.store()?.get(&key)?.map(|it| it.record) {
                return Ok(Some(*network));
            }
        }
        Ok(None)
    }
}

/// Whether packets to its containers go by this host.
fn is_routed(wiring: &Wiring) -> bool {
    wiring.address_space.is_none()
        && wiring.link.as_ref().is_some_and(|link| link.kind.has_gateway())
}

/// The port of a container that has rules, or whose network has. The container may send as long as there is the port, and
/// the check goes after it.
fn port_of(attachment: &Attachment) -> Result<Option<BoundPort>> {
    let Some(port) = BoundPort::of(attachment)? else { return Ok(None) };
    let is_going = matches!(attachment.phase, Phase::Detaching { .. });
    Ok(if !is_going || port.is_there()? { Some(port) } else { None })
}

/// The rules that a container has alone, as long as something of its interface may be there.
pub(super) fn own_of(attachment: &Attachment) -> Result<Option<Own>> {
    match attachment.phase {
        _ if attachment.layer != Layer::Link => Ok(None),
        Phase::Reserved => Ok(None),
        Phase::Attaching { .. } | Phase::Attached(_) | Phase::Detaching { .. } => {
            Own::of(attachment)
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::port::Txn;
    use model::{Gateway, Ipam, Link, Process, Runtime, Timestamp};

    use super::*;

    #[test]
    fn what_is_not_known_of_one_port_shuts_no_other_bridge() {
        let [known, unknown] = ["br0", "br1"].map(|name| name.parse::<IfName>().unwrap());
        let ports = || Ports {
            all: Vec::new(),
            failed: vec![(unknown.clone(), Error::try_again("no answer"))],
        };
        assert!(ports().of(&known).is_ok());
        assert!(ports().of(&unknown).unwrap_err().to_string().contains("no answer"));
    }

    fn wiring(bridge: &str) -> Wiring {
        let kind = doubles::bridge(bridge, Gateway::Default);
        Wiring { link: Some(Link { kind, name: None, mac: None, mtu: None }), ..Wiring::default() }
    }

    /// A container whose network had rules when it came.
    fn attachment(network: &str, bridge: &str) -> Attachment {
        let phase = Phase::Attaching { by: Process { pid: 1, start: 1 } };
        let id = doubles::attachment_id(network, "one");
        let mut it = Attachment::new(id, Layer::Link, Runtime::Cni, Timestamp(0), phase);
        it.wiring = Wiring { fence: Some(Fence::default()), ..wiring(bridge) };
        it
    }

    #[test]
    fn a_network_has_the_rules_that_its_record_says() {
        let root = tempfile::tempdir().unwrap();
        let mut records = Records::new(root.path().join("run"), root.path().join("state"));
        let mut write = |key: Key, record: Record| {
            let changes = vec![(key, Some(record))];
            let txn = Txn { changes, ..Txn::default() };
            records.store().unwrap().commit(&txn).unwrap();
        };
        for (name, bridge, names) in [("bare", "br0", false), ("named", "br1", true)] {
            let mut network = doubles::network(name, Ipam::Book { pools: Vec::new() });
            network.wiring = Wiring { names, ..wiring(bridge) };
            write(Key::Network(network.name.clone()), Record::Network(Box::new(network)));
        }
        let [bare, unknown] = [attachment("bare", "br2"), attachment("unknown", "br3")];
        assert!(!records.has_network_rules(&bare).unwrap());
        assert!(records.has_network_rules(&unknown).unwrap());
        assert_eq!(records.ruleless().unwrap(), BTreeSet::from(["br0".parse().unwrap()]));
        // One that came while the network had rules may have some.
        let held = attachment("bare", "br0");
        let key = Key::Attachment(held.id.clone(), Layer::Link);
        let changes = vec![(key, Some(Record::Attachment(Box::new(held))))];
        let txn = Txn { changes, ..Txn::default() };
        records.store().unwrap().commit(&txn).unwrap();
        assert!(records.ruleless().unwrap().is_empty());
    }
}
