//! The records that have a container's ports, as they were read.

use model::{
    Alias, Attached, Attachment, AttachmentId, ContainerId, Error, Family, Ipam, Layer, LinkKind,
    NetworkName, Phase, PortMap, Publish, Publisher, Result, Runtime, SandboxRecord, Wiring,
};

use crate::Attachments;
use crate::contention::RACES;
use crate::links::sandbox_ports::is_carrier;
use crate::port::{AttachmentLock, Expect, Key, Presence, Record, Revision, Txn};
use crate::records::book::{Read, unchanged};

/// One record that has the ports, or is made with the first.
#[derive(Clone, Debug)]
pub(super) struct PortHolder {
    pub(super) record: Box<Attachment>,
    expect: Expect,
}

/// All of them.
#[derive(Clone, Debug)]
pub(super) struct Holders {
    /// The record of the link, or of the first layer where others made the link.
    pub(super) link: Box<Attachment>,
    /// Of the link's record, where that does not have the ports itself.
    beside: Option<Revision>,
    pub(super) records: Vec<PortHolder>,
    sandbox: Option<(ContainerId, Read<SandboxRecord>)>,
    /// How ports are published where there is none yet.
    fresh: Publish,
    /// The host's address where none is named.
    publish_on: Option<std::net::IpAddr>,
}

impl Attachments<'_> {
    /// The turn of a thread that changes the ports of an attachment.
    pub(super) fn lock_of_ports(&self, id: &AttachmentId) -> Result<AttachmentLock> {
        match self.records.record_of(id, Layer::Link)? {
            Some(read) if read.value.gateway_role.is_some() => {
                self.links.lock_of(read.value.sandbox_name())
            }
            Some(_) | None => Ok(self.host.lock_attachment(id)),
        }
    }

    /// Who has the ports of the container, whose attachment is complete.
    pub(super) fn port_holders(&self, id: &AttachmentId) -> Result<Holders> {
        for _ in 0..RACES {
            let holders = self.holders_as_they_are(id)?;
            let mut leaving = holders
                .records
                .iter()
                .filter(|it| crate::attachments::amend::has_leaving(&it.record));
            match leaving.next() {
                Some(held) => self.finish_withdrawal(&held.record.id, held.record.layer)?,
                None => return Ok(holders),
            }
        }
        Err(Error::try_again(format!("the ports of {id} change all the time")))
    }

    /// The same, with ports that are being withdrawn.
    pub(super) fn holders_as_they_are(&self, id: &AttachmentId) -> Result<Holders> {
        let link = self.records.record_of(id, Layer::Link)?;
        let published = self.records.record_of(id, Layer::Publish)?;
        let Some(base) = link.as_ref().or(published.as_ref()) else { return Err(not_attached(id)) };
        let is_attached = matches!(base.value.phase, Phase::Attached(_));
        if !is_attached || self.links.presence(&base.value) == Presence::Gone {
            return Err(not_attached(id));
        }
        let (base, revision) = (base.value.clone(), base.revision);
        let alias = base.alias.as_ref().map(|id| self.records.alias_of(id)).transpose()?.flatten();
        let alias = alias.map(|read| read.value);
        refuse_portless(&base, alias.as_ref())?;
        let (fresh, publish_on) =
            (self.usual_publish(&base, alias.as_ref())?, alias.and_then(|it| it.publish_on));
        let mut holders = Holders {
            link: base,
            beside: None,
            records: Vec::new(),
            sandbox: None,
            fresh,
            publish_on,
        };
        if holders.link.gateway_role.is_some() {
            self.add_sandbox(&mut holders)?;
        } else if let Some(read) = published {
            holders.records.push(PortHolder::of(read)?);
        } else if holders.link.runtime == Runtime::Docker {
            // Ports end with the interface: it must stay until they are in the book.
            holders.beside = Some(revision);
            let record = Box::new(ports_alone(&holders.link));
            holders.records.push(PortHolder { record, expect: Expect::Absent });
        } else if let Some(read) = link {
            holders.records.push(PortHolder::of(read)?);
        }
        Ok(holders)
    }

    /// The ports of a sandbox that Spoke connects are in the records of all its attachments that
    /// can be its default gateway.
    fn add_sandbox(&self, holders: &mut Holders) -> Result<()> {
        let container = holders.link.sandbox_name().clone();
        for _ in 0..RACES {
            let Some(read) = self.records.sandbox_record_of(&container)? else { break };
            if let Some(other) = self.links.other_changer(&read.value) {
                self.links.outwait(&read, other, &container)?;
                continue;
            }
            for id in &read.value.members {
                let member = self.records.record_of(id, Layer::Link)?;
                let is_ready = |it: &Read<Box<Attachment>>| {
                    matches!(it.value.phase, Phase::Attached(_)) && is_carrier(&it.value)
                };
                if let Some(member) = member.filter(is_ready) {
                    holders.records.push(PortHolder::of(member)?);
                }
            }
            holders.sandbox = Some((container, read));
            return Ok(());
        }
        Err(Error::try_again(format!("the networks of container {container} change all the time")))
    }

    /// As the network publishes ports of a container from its start.
    pub(super) fn usual_publish(
        &self,
        link: &Attachment,
        alias: Option<&Alias>,
    ) -> Result<Publish> {
        let network = self.records.named(&link.id.network)?;
        let template = network.and_then(|network| network.wiring.publish);
        let filter = link.wiring.firewall.as_ref().map(|firewall| firewall.backend);
        let backend = || match link.runtime {
            Runtime::Docker => filter.unwrap_or(self.host.backend()),
            _ => self.host.backend(),
        };
        let bridge = link.wiring.bridge();
        let behind = bridge.map(|bridge| bridge.name.clone());
        let template = template.unwrap_or_else(|| Publish::new(backend()));
        // The container's default route leads elsewhere: answers find back only to this host.
        let masquerade_all = alias.is_some_and(|alias| alias.publisher == Publisher::Runtime);
        Ok(Publish { ports: Vec::new(), behind, masquerade_all, ..template })
    }
}

impl PortHolder {
    fn of(read: Read<Box<Attachment>>) -> Result<Self> {
        match read.value.phase {
            Phase::Attached(_) => {
                let expect = unchanged(Some(&read));
                Ok(Self { record: read.value, expect })
            }
            Phase::Reserved | Phase::Attaching { .. } | Phase::Detaching { .. } => {
                Err(Error::try_again(format!("{} is being changed right now", read.value.id)))
            }
        }
    }

    /// The record, as it is in the book.
    pub(super) fn read(&self) -> Result<Read<Box<Attachment>>> {
        match self.expect {
            Expect::At(revision) => Ok(Read { value: self.record.clone(), revision }),
            Expect::Absent => Err(Error::bug(format!("{} is in no book yet", self.record.id))),
        }
    }

    pub(super) fn publish(&self) -> Option<&Publish> {
        self.record.wiring.publish.as_ref()
    }
}

impl Holders {
    /// The layer whose records have the ports.
    pub(super) fn layer(&self) -> Layer {
        self.records.first().map_or(Layer::Link, |held| held.record.layer)
    }

    /// The network whose changes these are; ports of a sandbox are of all its networks.
    pub(super) fn network(&self) -> Option<&NetworkName> {
        self.sandbox.is_none().then_some(&self.link.id.network)
    }

    /// The port at the address of the host that the network uses where none is named.
    pub(super) fn usual(&self, map: &PortMap) -> Result<PortMap> {
        if self.records.is_empty() {
            return Err(Error::unsupported(format!(
                "no port of the host can lead to {}: none of its networks is reached from outside",
                self.link.container_name()
            )));
        }
        Ok(PortMap { host: map.host.or(self.publish_on), ..map.clone() })
    }

    pub(super) fn has_added(&self, map: &PortMap) -> bool {
        self.records.iter().all(|held| held.publish().is_some_and(|it| it.added.contains(map)))
    }

    /// The ports that were added, and those that are being withdrawn.
    pub(super) fn added(&self) -> Vec<PortMap> {
        let mut added: Vec<PortMap> = Vec::new();
        for publish in self.records.iter().filter_map(PortHolder::publish) {
            for map in publish.added.iter().chain(&publish.leaving) {
                if !added.contains(map) {
                    added.push(map.clone());
                }
            }
        }
        added
    }

    /// The ports that the runtime gave.
    pub(super) fn given(&self) -> impl Iterator<Item = &PortMap> {
        self.records.iter().filter_map(PortHolder::publish).flat_map(|publish| &publish.ports)
    }

    /// Refuses a port on an address of a family that the container does not have.
    pub(super) fn refuse_familyless(&self, map: &PortMap) -> Result<()> {
        let Some(host) = map.host else { return Ok(()) };
        let family = Family::of(&model::host_net(host));
        match self.records.iter().any(|held| held.record.first(family).is_some()) {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "host address {host}: container {} has no address of the same family; name one of the family that it has, \
                 or none",
                self.link.container_name()
            ))),
        }
    }

    pub(super) fn add(&mut self, map: &PortMap) {
        for held in &mut self.records {
            let bridge = held.record.wiring.bridge();
            let behind = bridge.map(|bridge| bridge.name.clone()).or(self.fresh.behind.clone());
            let fresh = || Publish { behind, ..self.fresh.clone() };
            let publish = held.record.wiring.publish.get_or_insert_with(fresh);
            publish.ports.push(map.clone());
            publish.added.push(map.clone());
        }
        if let Some((_, read)) = &mut self.sandbox {
            read.value.ports.push(map.clone());
            read.value.added.push(map.clone());
        }
    }

    /// Marks added ports as leaving.
    pub(super) fn remove(&mut self, gone: &[PortMap]) {
        let stays = |map: &PortMap| !gone.contains(map);
        for publish in self.records.iter_mut().filter_map(|it| it.record.wiring.publish.as_mut()) {
            let leaving = publish.added.iter().filter(|map| gone.contains(map)).cloned();
            publish.leaving.extend(leaving);
            publish.ports.retain(stays);
            publish.added.retain(stays);
        }
        if let Some((_, read)) = &mut self.sandbox {
            read.value.ports.retain(stays);
            read.value.added.retain(stays);
        }
    }

    /// Adds to a transaction that the records are so now.
    pub(super) fn write(&self, mut txn: Txn) -> Txn {
        for held in &self.records {
            let key = Key::Attachment(held.record.id.clone(), held.record.layer);
            let record = Record::Attachment(held.record.clone());
            txn = txn.require(key.clone(), held.expect).put(key, record);
        }
        if let Some(revision) = self.beside {
            let link = Key::Attachment(self.link.id.clone(), Layer::Link);
            txn = txn.require(link, Expect::At(revision));
        }
        match &self.sandbox {
            Some((container, read)) => {
                let key = Key::Sandbox(container.clone());
                let record = Record::Sandbox(read.value.clone());
                txn.require(key.clone(), Expect::At(read.revision)).put(key, record)
            }
            None => txn,
        }
    }

    pub(super) fn committed(&mut self, revision: Revision) {
        for held in &mut self.records {
            held.expect = Expect::At(revision);
        }
        if let Some((_, read)) = &mut self.sandbox {
            read.revision = revision;
        }
    }
}

/// A record of ports beside the link's, as Docker's calls make it.
fn ports_alone(link: &Attachment) -> Attachment {
    Attachment {
        layer: Layer::Publish,
        wiring: Wiring::default(),
        ipam: Ipam::None,
        leases: Vec::new(),
        routes: Vec::new(),
        dns: model::Dns::default(),
        phase: Phase::Attached(Attached {
            addresses: link.addresses.clone(),
            ..Attached::default()
        }),
        ..link.clone()
    }
}

/// Refuses a container to which ports of Spoke's cannot lead.
fn refuse_portless(link: &Attachment, alias: Option<&Alias>) -> Result<()> {
    let network = &link.id.network;
    let why = match link.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Neutron(_)) => Some(
            "Neutron's: its containers are reached at their own addresses; open the port with a \
             security group"
                .to_owned(),
        ),
        Some(LinkKind::Remote(remote)) => {
            Some(format!("the Docker plugin {}'s, which maps the ports of its containers", remote.driver))
        }
        Some(kind) if !kind.has_ports() => Some(
            "on a segment that is reached past this host's packet filter; ask for the container at \
             its own address"
                .to_owned(),
        ),
        _ if link.wiring.address_space.is_some() => {
            Some("a tenant's, which this host does not route".to_owned())
        }
        _ if alias.is_some_and(|alias| alias.publisher == Publisher::None) => Some(
            "routed: its containers are reached at their own addresses, at the ports that the \
             runtime publishes"
                .to_owned(),
        ),
        _ => None,
    };
    // A sandbox of several networks may have another one that leads out.
    let is_internal = link.wiring.is_internal() && link.gateway_role.is_none();
    let why = why.or(is_internal.then(|| "internal: nothing reaches it from outside".to_owned()));
    match why {
        Some(why) => Err(Error::unsupported(format!(
            "no port can be added to {}: network {network} is {why}",
            link.container_name()
        ))),
        None => Ok(()),
    }
}

pub(super) fn not_attached(id: &AttachmentId) -> Error {
    Error::not_found(format!("{id} is not attached; `spoke ps` lists what is"))
}
