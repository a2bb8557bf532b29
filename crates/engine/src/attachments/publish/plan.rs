//! The plan for publishing ports, as data: which host ports, and which attachments lose them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;

use model::{
    Attachment, AttachmentId, Claim, Error, Family, Ipam, Layer, Phase, PortMap, Protocol, Publish,
    Result, Wiring, hosts_clash,
};

use crate::Attachments;
use crate::addresses::claim::{Claims, key_of};
use crate::attachments::publish::{OpenPort, Publishing, Refused, Siblings};
use crate::links::detach::Meaning;
use crate::port::{Key, Revision};
use crate::records::book::Read;

impl Attachments<'_> {
    pub(super) fn plan(
        &self,
        id: &AttachmentId,
        wanted: &Publishing,
        refused: &Refused,
    ) -> Result<Planned> {
        let link = self.records.record_of(id, Layer::Link)?;
        let Some(Read { value: link, revision }) = link else { return Err(not_joined(id)) };
        if !matches!(link.phase, Phase::Attached(_)) {
            return Err(not_joined(id));
        }
        let old = self.settled(&link)?;
        let mut plan = Plan::new(link, revision, old);
        for map in &wanted.publish.ports {
            for map in plan.split(map.host, |host| PortMap { host, ..map.clone() }) {
                if let Some(held) = self.admit(&mut plan, map, wanted.siblings)? {
                    return Ok(held);
                }
            }
        }
        for open in &wanted.open {
            self.choose_port(&mut plan, open, refused)?;
        }
        self.keep_added(&mut plan)?;
        Ok(Planned::Plan(plan))
    }

    /// The previously published ports, if the call continues from them.
    fn settled(&self, link: &Attachment) -> Result<Option<Read<Box<Attachment>>>> {
        self.finish_withdrawal(&link.id, Layer::Publish)?;
        let Some(read) = self.records.record_of(&link.id, Layer::Publish)? else { return Ok(None) };
        let same = read.value.sandbox == link.sandbox && read.value.addresses == link.addresses;
        let busy = match &read.value.phase {
            Phase::Attaching { by } => *by != self.host.me() && self.host.is_running(by),
            Phase::Reserved | Phase::Attached(_) => false,
            Phase::Detaching { .. } => true,
        };
        match same && !busy {
            true => Ok(Some(read)),
            false => self.links.detach_record(read, Meaning::Whatever).map(|_| None),
        }
    }

    /// Ports that a command added stay, unless the runtime publishes them itself by now.
    fn keep_added(&self, plan: &mut Plan) -> Result<()> {
        for map in plan.added().to_vec() {
            let is_same = |other: &PortMap| {
                key_of(other) == key_of(&map) && hosts_clash(other.host, map.host)
            };
            if !plan.maps.iter().any(is_same) {
                self.clashes(plan, &map)?;
                plan.maps.push(map);
            }
        }
        Ok(())
    }

    /// Adds a port to the plan, unless a sibling keeps it.
    fn admit(&self, plan: &mut Plan, map: PortMap, siblings: Siblings) -> Result<Option<Planned>> {
        if plan.maps.contains(&map) {
            return Ok(None);
        }
        let is_same = |other: &&PortMap| key_of(other) == key_of(&map);
        if plan.maps.iter().filter(is_same).any(|other| hosts_clash(other.host, map.host)) {
            let what = format!("host port {}/{} is asked for twice", map.host_port, map.protocol);
            return Err(Error::conflict(format!("{what} by {}", plan.link.id)));
        }
        let mut losers = Vec::new();
        for claim in self.clashes(plan, &map)? {
            match (self.is_sibling(plan, &claim)?, siblings) {
                (false, _) => return Ok(Some(Planned::Held(map, claim.holder))),
                (true, Siblings::GiveWay) => return Ok(None),
                (true, Siblings::TakeOver) => losers.push(claim),
            }
        }
        for Claim { host, holder, .. } in losers {
            plan.losers.entry(holder).or_default().push((key_of(&map), host));
        }
        plan.maps.push(map);
        Ok(None)
    }

    /// The claims of others that keep the plan from a port.
    fn clashes(&self, plan: &mut Plan, map: &PortMap) -> Result<Vec<Claim>> {
        let key = key_of(map);
        if !plan.claims.contains_key(&key) {
            plan.claims.insert(key.clone(), self.records.claims_of(&key)?);
        }
        let claims = plan.claims.get(&key).and_then(Option::as_ref);
        let clash = |claim: &&Claim| claim.holder != plan.link.id && claim.clashes(map.host);
        Ok(claims.into_iter().flat_map(|read| &read.value).filter(clash).cloned().collect())
    }

    /// Whether the port is served for the same sandbox, by a record of published ports alone: what
    /// came with a link goes with it.
    fn is_sibling(&self, plan: &Plan, claim: &Claim) -> Result<bool> {
        let sandbox = plan.link.sandbox.as_ref().map(|sandbox| &sandbox.path);
        let same = sandbox.is_some() && claim.sandbox.as_ref() == sandbox;
        Ok(same && self.records.record_of(&claim.holder, Layer::Publish)?.is_some())
    }

    /// The number that it had before, or else the first free one.
    fn choose_port(&self, plan: &mut Plan, open: &OpenPort, refused: &Refused) -> Result<()> {
        let (protocol, container_port) = (open.protocol, open.container_port);
        let mut before = plan.before().iter().filter(|map| {
            (map.protocol, map.container_port) == (protocol, container_port)
                && open.among.contains(&map.host_port)
        });
        let kept = before.next().map(|map| map.host_port);
        let searched = (protocol, open.host, *open.among.start());
        let first = plan.next.get(&searched).copied().unwrap_or(open.among.start().get());
        let numbers = first..=open.among.end().get();
        for number in kept.into_iter().chain(numbers.filter_map(NonZeroU16::new)) {
            if refused.contains(&(protocol, number)) {
                continue;
            }
            let map = |host| PortMap { host, host_port: number, container_port, protocol };
            let maps = plan.split(open.host, map);
            if self.all_free(plan, &maps)? {
                plan.maps.extend(maps);
                plan.chosen.push((protocol, number));
                if Some(number) != kept {
                    plan.next.insert(searched, number.get().saturating_add(1));
                }
                return Ok(());
            }
        }
        Err(Error::exhausted(format!(
            "every port {}-{}/{protocol} of this host is taken; `spoke port ls` lists the holders",
            open.among.start(),
            open.among.end()
        )))
    }

    fn all_free(&self, plan: &mut Plan, maps: &[PortMap]) -> Result<bool> {
        for map in maps {
            let own = plan.maps.iter().any(|other| key_of(other) == key_of(map));
            if own || !self.clashes(plan, map)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

pub(super) enum Planned {
    Plan(Plan),
    Held(PortMap, AttachmentId),
}

/// The state in the store, and the state to reach.
pub(super) struct Plan {
    pub(super) link: Box<Attachment>,
    pub(super) revision: Revision,
    /// The record of what was published before.
    pub(super) old: Option<Read<Box<Attachment>>>,
    /// The ports to publish: each with an address of the host.
    pub(super) maps: Vec<PortMap>,
    pub(super) chosen: Vec<(Protocol, NonZeroU16)>,
    /// Where the search for a number continues, by protocol, address and where it began: a
    /// container may want thousands.
    next: BTreeMap<(Protocol, Option<IpAddr>, NonZeroU16), u16>,
    /// The siblings that give something up, and what.
    pub(super) losers: BTreeMap<AttachmentId, Vec<(Key, Option<IpAddr>)>>,
    /// Every claim that was read.
    pub(super) claims: Claims,
}

impl Plan {
    fn new(link: Box<Attachment>, revision: Revision, old: Option<Read<Box<Attachment>>>) -> Self {
        Self {
            link,
            revision,
            old,
            maps: Vec::new(),
            chosen: Vec::new(),
            next: BTreeMap::new(),
            losers: BTreeMap::new(),
            claims: Claims::new(),
        }
    }

    pub(super) fn before(&self) -> &[PortMap] {
        self.old.as_ref().map_or(&[], |old| old.value.published())
    }

    /// Those of them that a command added.
    fn added(&self) -> &[PortMap] {
        let publish = self.old.as_ref().and_then(|old| old.value.wiring.publish.as_ref());
        publish.map_or(&[], |publish| &publish.added)
    }

    /// A port of every address of the host is one of each family that the attachment has.
    fn split(&self, host: Option<IpAddr>, map: impl Fn(Option<IpAddr>) -> PortMap) -> Vec<PortMap> {
        let every = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        let named: &[IpAddr] = host.as_ref().map_or(&every, std::slice::from_ref);
        let serves = |host: &&IpAddr| {
            let family = if host.is_ipv4() { Family::V4 } else { Family::V6 };
            self.link.first(family).is_some()
        };
        named.iter().filter(serves).map(|host| map(Some(*host))).collect()
    }

    pub(super) fn record(
        &self,
        publish: &Publish,
        ports: Vec<PortMap>,
        phase: Phase,
    ) -> Attachment {
        let link = &self.link;
        let behind = || {
            let bridge = link.wiring.link.as_ref()?.kind.bridge()?;
            Some(bridge.name.clone())
        };
        let behind = publish.behind.clone().or_else(behind);
        let added = self.added().iter().filter(|map| ports.contains(map)).cloned().collect();
        let publish = Publish { ports, added, leaving: Vec::new(), behind, ..publish.clone() };
        // A third-party Docker plugin publishes the ports of its networks.
        let reported = link.wiring.link.as_ref().filter(|_| link.wiring.is_remote()).cloned();
        Attachment {
            layer: Layer::Publish,
            wiring: Wiring { link: reported, publish: Some(publish), ..Wiring::default() },
            ipam: Ipam::None,
            leases: Vec::new(),
            routes: Vec::new(),
            dns: model::Dns::default(),
            phase,
            ..(**link).clone()
        }
    }

    /// Whether what is reached at the container's own address stays.
    pub(super) fn serves_as_before(&self, publish: &Publish) -> bool {
        let Some(old) = &self.old else { return true };
        old.value.wiring.publish.as_ref().is_none_or(|old| old.served == publish.served)
    }

    /// Some of the ports that were published before, and all that was served.
    pub(super) fn only_before(&self, publish: &Publish, ports: Vec<PortMap>) -> Attachment {
        let old = self.old.as_ref().and_then(|old| old.value.wiring.publish.as_ref());
        let served = old.map_or_else(Vec::new, |old| old.served.clone());
        self.only(&Publish { served, ..publish.clone() }, ports)
    }

    pub(super) fn only(&self, publish: &Publish, ports: Vec<PortMap>) -> Attachment {
        self.record(publish, ports, Phase::Reserved)
    }

    pub(super) fn served(&self, publish: &Publish) -> Attachment {
        self.only(publish, self.maps.clone())
    }

    /// Of all claims that were read, those of the ports to publish.
    pub(super) fn claims_for_maps(&self) -> Claims {
        let wanted = |key: &Key| self.maps.iter().any(|map| key_of(map) == *key);
        let claims = self.claims.iter().filter(|(key, _)| wanted(key));
        claims.map(|(key, read)| (key.clone(), read.clone())).collect()
    }

    pub(super) fn is_done(&self, publish: &Publish) -> bool {
        let Some(old) = &self.old else {
            return self.maps.is_empty() && publish.served.is_empty();
        };
        matches!(old.value.phase, Phase::Attached(_))
            && self.losers.is_empty()
            && old.value.wiring == self.served(publish).wiring
    }
}

fn not_joined(id: &AttachmentId) -> Error {
    Error::not_found(format!("{id} is in no sandbox; it must be joined before its ports"))
}
