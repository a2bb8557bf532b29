//! Resolves an argument to a container, this host or an address, with what the book says of it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use engine::Engine;
use explain::{Bridging, End, Kernel, Netlink, Plug, Published, Site, Space, Standing, Which};
use linux::identity::Identity;
use model::{
    Alias, Attachment, AttachmentId, AttachmentOutline, EgressPolicy, Error, Family, IfName,
    IngressPolicy, InterfaceNamespace, Layer, Phase, PortMap, Result, Runtime, Sandbox,
};

use super::beside;
use crate::mapped::Mapped;
use crate::titles::Titles;
use crate::view::of_one;

/// No more other containers are looked into for duplicates of an address.
const RIVALS: usize = 32;

/// The attachments of this host. Only the records of containers that are asked for are read.
pub(super) struct HostRecords<'a> {
    engine: &'a Engine<'a>,
    /// In the order of their identities.
    outlines: &'a [AttachmentOutline],
    /// What runtimes call networks.
    aliases: &'a [Alias],
    titles: &'a Titles,
    /// What Docker maps.
    mapped: &'a Mapped,
}

/// Who is meant.
pub(super) struct ResolvedEnd {
    pub(super) end: End,
    /// The address that was given, or that a name leads to.
    pub(super) address: Option<IpAddr>,
    /// A name that leads nowhere.
    pub(super) is_lost: bool,
}

impl ResolvedEnd {
    pub(super) fn at(end: End, address: Option<IpAddr>) -> Self {
        Self { end, address, is_lost: false }
    }
}

impl<'a> HostRecords<'a> {
    pub(super) fn new(
        (engine, outlines): (&'a Engine<'a>, &'a [AttachmentOutline]),
        (aliases, titles): (&'a [Alias], &'a Titles),
        mapped: &'a Mapped,
    ) -> Self {
        Self { engine, outlines, aliases, titles, mapped }
    }

    /// Who begins.
    pub(super) fn sender(&self, word: &str, kernel: &mut Netlink) -> Result<ResolvedEnd> {
        let unknown = || {
            let shown = model::text::shown(word);
            Error::not_found(format!("no container is called '{shown}'; `spoke ps` lists them"))
        };
        self.receiver(word, None, kernel)?.ok_or_else(unknown)
    }

    /// Who is called by the one who begins, but for names that only networks know.
    pub(super) fn receiver(
        &self,
        word: &str,
        from: Option<&ResolvedEnd>,
        kernel: &mut Netlink,
    ) -> Result<Option<ResolvedEnd>> {
        match word {
            "host" => return Ok(Some(ResolvedEnd::at(End::Host, None))),
            "outside" => return Ok(Some(ResolvedEnd::at(End::Outside, None))),
            _ => {}
        }
        if let Ok(address) = word.parse::<IpAddr>() {
            // An IPv4-mapped address is how programs write one of IPv4: no packet has it.
            let address = address.to_canonical();
            return self.of_address(address, from, kernel).map(Some);
        }
        let meant: Vec<&AttachmentOutline> =
            self.outlines.iter().filter(|it| is_called(it, word)).collect();
        let exact: Vec<&AttachmentOutline> =
            meant.iter().copied().filter(|it| is_named(it, word)).collect();
        let meant = if exact.is_empty() { meant } else { exact };
        let Some(first) = meant.first() else { return Ok(None) };
        if let Some(other) = meant.iter().find(|other| !is_same(first, other)) {
            return Err(Error::conflict(format!(
                "'{}' may be {} or {}: say which, as RUNTIME/NAME or by its id",
                model::text::shown(word),
                full_name(first),
                full_name(other)
            )));
        }
        let site = self.site(first, kernel)?;
        Ok(Some(ResolvedEnd::at(End::Container(site), None)))
    }

    /// Who has an address. Networks of tenants may have the same ones: those of the one who begins come
    /// first, then those of the same address space.
    pub(super) fn of_address(
        &self,
        address: IpAddr,
        from: Option<&ResolvedEnd>,
        kernel: &mut Netlink,
    ) -> Result<ResolvedEnd> {
        let has = |it: &&AttachmentOutline| it.addresses.contains(&address);
        let plugs = from.and_then(|from| from.end.site()).map_or(&[][..], |site| &site.plugs);
        let is_on = |it: &AttachmentOutline| {
            plugs.iter().any(|plug| plug.network.as_str() == it.network().as_str())
        };
        let space = |it: &AttachmentOutline| it.address_space.clone();
        let spaces: Vec<_> = match plugs.is_empty() {
            true => vec![None],
            false => {
                let on = self.outlines.iter().filter(|it| is_on(it));
                on.map(space).collect::<BTreeSet<_>>().into_iter().collect()
            }
        };
        let distance = |it: &&AttachmentOutline| (!is_on(it), !spaces.contains(&space(it)));
        let all = self.outlines.iter().filter(has);
        let all = all.filter(|it| matches!(it.layer, Layer::Link | Layer::Address));
        if let Some(outline) = all.min_by_key(distance) {
            let site = self.site(outline, kernel)?;
            return Ok(ResolvedEnd::at(End::Container(site), Some(address)));
        }
        let end = match address.is_loopback() || kernel.owner(Space::HOST, address)?.is_some() {
            true => End::Host,
            false => End::Address(address),
        };
        Ok(ResolvedEnd::at(end, Some(address)))
    }

    fn site(&self, outline: &AttachmentOutline, kernel: &mut Netlink) -> Result<Site> {
        let mut records = Vec::new();
        for other in self.outlines.iter().filter(|other| is_same(outline, other)) {
            records.extend(self.engine.records.attachment_outlined(other)?);
        }
        let is_it = |it: &&Attachment| it.id == outline.id && it.layer == outline.layer;
        let Some(record) = records.iter().find(is_it) else {
            let name = outline.container_name();
            return Err(Error::try_again(format!("{name} is being changed: ask again")));
        };
        let of_it = || records.iter();
        let links = of_it().filter(|it| matches!(it.layer, Layer::Link | Layer::Address));
        let plug = |link| {
            let plug = plug(link, self.aliases, of_it())?;
            Some(Plug {
                title: self.titles.other_name(link),
                in_commands: Some(self.titles.in_commands(link)),
                ..plug
            })
        };
        let mut plugs: Vec<Plug> = links.filter_map(plug).collect();
        let path =
            record.sandbox.as_ref().map_or(String::new(), |it| it.path.display().to_string());
        let standing = standing(record, kernel);
        if let Standing::Open(space) = standing {
            plugs.iter_mut().for_each(|plug| rename(plug, space, kernel));
        }
        let mapped: Vec<PortMap> =
            of_it().filter_map(|it| self.theirs((&it.id, it.layer))).flatten().cloned().collect();
        self.add_mapped(&mapped, &standing, &mut plugs, kernel);
        let (name, runtime) = (self.name(outline), record.runtime);
        Ok(Site { name, runtime, standing, path, plugs })
    }

    /// The ports that Docker maps to a container of the book.
    fn theirs(&self, (id, layer): (&AttachmentId, Layer)) -> Option<&[PortMap]> {
        let target = self.mapped.to(&id.container).filter(|_| layer == Layer::Link);
        target.map(|target| target.ports.as_slice())
    }

    /// They lead to an interface that Docker made beside.
    fn add_mapped(
        &self,
        ports: &[PortMap],
        standing: &Standing,
        plugs: &mut Vec<Plug>,
        kernel: &mut Netlink,
    ) {
        if ports.is_empty() {
            return;
        }
        let beside = match standing {
            Standing::Open(space) => beside::plug(*space, plugs, ports, kernel).ok().flatten(),
            Standing::Gone(_) | Standing::Closed(_) | Standing::Machine(_) => None,
        };
        match (beside, plugs.first_mut()) {
            (Some(plug), _) => plugs.push(plug),
            (None, Some(first)) => first.ports.extend(ports.iter().cloned()),
            (None, None) => {}
        }
    }

    /// What a container is called: not every layer of it has its lasting name.
    fn name(&self, outline: &AttachmentOutline) -> String {
        let mut layers = of_one(self.outlines, &outline.id, |other| &other.id).iter();
        let named = layers.find(|it| it.owner.is_some()).or_else(|| {
            self.outlines.iter().find(|other| other.owner.is_some() && is_same(outline, other))
        });
        named.unwrap_or(outline).container_name()
    }

    /// The ports of this host that lead to containers.
    pub(super) fn published(&self) -> Vec<Published> {
        let mut all = Vec::new();
        for it in self.outlines.iter().filter(|it| it.is_attached && !it.ports.is_empty()) {
            let of_it = of_one(self.outlines, &it.id, |other| &other.id).iter();
            let to: Vec<IpAddr> = of_it.flat_map(|it| it.addresses.iter().copied()).collect();
            let name = self.name(it);
            all.extend(it.ports.iter().map(|map| Published {
                map: map.clone(),
                name: name.clone(),
                to: to.clone(),
                in_table: it.is_in_table,
            }));
        }
        for it in self.outlines {
            all.extend(self.theirs((&it.id, it.layer)).into_iter().flatten().map(|map| {
                let (map, to) = (map.clone(), it.addresses.clone());
                Published { map, name: self.name(it), to, in_table: false }
            }));
        }
        all
    }

    /// The containers to which a port of this host leads.
    pub(super) fn others(&self, port: u16, kernel: &mut Netlink) -> Result<Vec<Site>> {
        let leads = |it: &&AttachmentOutline| {
            let theirs = self.theirs((&it.id, it.layer)).into_iter().flatten();
            it.ports.iter().chain(theirs).any(|map| map.host_port.get() == port)
        };
        let leading = self.outlines.iter().filter(leads);
        leading.map(|outline| self.site(outline, kernel)).collect()
    }

    /// Other containers of the networks of both.
    pub(super) fn rivals(
        &self,
        (from, to): (&ResolvedEnd, &ResolvedEnd),
        kernel: &mut Netlink,
    ) -> Vec<(String, Space)> {
        let sites: Vec<&Site> =
            [from, to].into_iter().filter_map(|found| found.end.site()).collect();
        let networks: Vec<&str> =
            sites.iter().flat_map(|it| &it.plugs).map(|plug| plug.network.as_str()).collect();
        let paths: Vec<&str> = sites.iter().map(|site| site.path.as_str()).collect();
        let is_rival = |it: &&AttachmentOutline| {
            let path = it.sandbox.as_ref().map(|sandbox| sandbox.path.to_string_lossy());
            it.layer == Layer::Link
                && networks.contains(&it.network().as_str())
                && path.is_some_and(|path| !paths.contains(&path.as_ref()))
        };
        let rivals = self.outlines.iter().filter(is_rival).take(RIVALS);
        let open = rivals.filter_map(|rival| {
            let Sandbox { path, inode } = rival.sandbox.as_ref()?;
            Some((rival.container_name(), kernel.open(path, *inode).ok()?))
        });
        let mut open: Vec<(String, Space)> = open.collect();
        open.extend(sites.iter().filter_map(|it| Some((it.name.clone(), it.space()?))));
        open
    }
}

/// Whether both are of one container.
fn is_same(one: &AttachmentOutline, other: &AttachmentOutline) -> bool {
    match (&one.sandbox, &other.sandbox) {
        (Some(here), Some(there)) => here == there,
        _ => one.sandbox_name() == other.sandbox_name() && one.runtime == other.runtime,
    }
}

/// What its user calls a container, with its runtime's own part of that and without.
fn name_of(outline: &AttachmentOutline) -> (&str, &str) {
    let id = outline.id.container.as_str();
    let name = outline.owner.as_ref().map_or(id, |owner| owner.as_str());
    (name, name.rsplit('/').next().unwrap_or(name))
}

/// Whether a container is called so.
fn is_named(outline: &AttachmentOutline, word: &str) -> bool {
    let (name, _) = name_of(outline);
    let own = [outline.id.container.as_str(), outline.sandbox_name().as_str()];
    let is_owner = |word| model::is_owner_called(name, word);
    own.contains(&word) || is_owner(word) || behind(outline.runtime, word).is_some_and(is_owner)
}

fn full_name(outline: &AttachmentOutline) -> String {
    format!("{}/{}", outline.runtime, name_of(outline).1)
}

/// The start of an id is at least this long.
const SHORTEST: usize = 4;

fn is_called(outline: &AttachmentOutline, word: &str) -> bool {
    let starts = |id: &str| id.len() >= SHORTEST && outline.id.container.as_str().starts_with(id);
    starts(word) || is_named(outline, word) || behind(outline.runtime, word).is_some_and(starts)
}

/// What a word says besides the runtime, where it names that.
fn behind(runtime: Runtime, word: &str) -> Option<&str> {
    let (of, rest) = word.split_once(['/', ':'])?;
    (of == runtime.to_string()).then_some(rest)
}

/// An interface as the book has it.
fn plug<'a>(
    record: &Attachment,
    aliases: &[Alias],
    of_it: impl Iterator<Item = &'a Attachment>,
) -> Option<Plug> {
    let Phase::Attached(attached) = &record.phase else { return None };
    let inside = attached.interfaces.iter().find(|it| it.place == InterfaceNamespace::Sandbox);
    let interface: IfName = inside.map_or(&record.id.ifname, |it| &it.name).clone();
    let layers: Vec<&Attachment> = of_it.filter(|it| it.id == record.id).collect();
    let ports = layers.iter().filter_map(|it| it.wiring.publish.as_ref());
    let firewalls = || layers.iter().filter_map(|it| it.wiring.firewall.as_ref());
    let kind = record.wiring.link.as_ref().map(|link| &link.kind);
    let bridging = match kind {
        Some(kind) if kind.is_pair() => {
            kind.bridge().map_or(Bridging::None, |bridge| Bridging::In(bridge.name.clone()))
        }
        _ => Bridging::Foreign,
    };
    let held = if record.addresses.is_empty() { &attached.addresses } else { &record.addresses };
    Some(Plug {
        network: record.network().to_string(),
        title: None,
        in_commands: Some(record.network().to_string()),
        known_as: known_as(record, aliases),
        interface,
        addresses: held.iter().map(|it| (it.address, it.gateway)).collect(),
        mac: inside.and_then(|it| it.mac).or(record.wiring.link.as_ref().and_then(|link| link.mac)),
        bridging,
        kind: kind.map_or("?", |kind| kind.traits().name),
        is_isolated: record.wiring.bridge().is_some_and(|bridge| bridge.port.isolated)
            || firewalls().any(|it| it.ingress == IngressPolicy::Isolated),
        is_internal: firewalls().any(|it| it.egress == EgressPolicy::Internal),
        via: record.wiring.via.as_ref().map(ToString::to_string),
        hides: hides(&layers),
        direct: record.wiring.let_by_route(),
        ports: ports.flat_map(|publish| publish.ports.clone()).collect(),
    })
}

/// The families in which what an attachment sends is masqueraded.
fn hides(layers: &[&Attachment]) -> Vec<Family> {
    let is_of = |family: &Family| {
        let mut all = layers.iter().filter_map(|it| it.wiring.masquerade.as_ref());
        all.any(|masquerade| masquerade.is_of(*family))
    };
    [Family::V4, Family::V6].into_iter().filter(is_of).collect()
}

/// What runtimes call the record's network. Podman's networks have one name; an engine's may have a title.
fn known_as(record: &Attachment, aliases: &[Alias]) -> Vec<(Runtime, String)> {
    let network = &record.id.network;
    let aliases = aliases.iter().filter(|alias| alias.network == *network);
    let title = |alias: &Alias| {
        let title = alias.title.as_ref().map_or_else(|| alias.id.to_string(), ToString::to_string);
        (alias.runtime, title)
    };
    let own = (record.runtime == Runtime::Podman)
        .then(|| (Runtime::Podman, record.network().to_string()));
    aliases.map(title).chain(own).collect()
}

/// Interfaces with higher indices are not looked at.
const INTERFACES: u32 = 64;

/// Calls an interface as its runtime named it, which the book need not know: it is the one that has its
/// addresses, or its hardware address.
fn rename(plug: &mut Plug, space: Space, kernel: &mut Netlink) {
    let named = kernel.link(space, &Which::Name(plug.interface.clone()));
    if !matches!(named, Ok(None)) {
        return;
    }
    let mut addresses = plug.addresses.iter().map(|(net, _)| net.addr());
    let owner = addresses.find_map(|address| kernel.owner(space, address).ok().flatten());
    let mut indices = owner.map_or(1..=INTERFACES, |owner| owner..=owner);
    let found = indices.find_map(|index| {
        let link = kernel.link(space, &Which::Index(index)).ok().flatten()?;
        (owner.is_some() || plug.mac.is_some() && link.mac == plug.mac).then_some(link)
    });
    if let Some(link) = found {
        plug.interface = link.name;
    }
}

/// Whether the container's namespace is there.
fn standing(record: &Attachment, kernel: &mut Netlink) -> Standing {
    match (&record.phase, &record.sandbox) {
        (Phase::Reserved, _) => Standing::Gone("its endpoint is in no sandbox".to_owned()),
        (Phase::Attaching { .. }, _) => Standing::Closed("it is being attached".to_owned()),
        (Phase::Detaching { .. }, _) => Standing::Closed("it is being detached".to_owned()),
        (Phase::Attached(_), None) if record.tap().is_some() => {
            match linux::guest::device_name(record) {
                Ok(device) => Standing::Machine(device),
                Err(error) => Standing::Closed(error.to_string()),
            }
        }
        (Phase::Attached(_), None) => Standing::Closed("its runtime did not say where".to_owned()),
        (Phase::Attached(_), Some(sandbox)) => match kernel.open(&sandbox.path, sandbox.inode) {
            Ok(space) => Standing::Open(space),
            Err(error) => gone(record, &error, kernel),
        },
    }
}

/// A namespace that cannot be opened may be mounted elsewhere; without the host's end it is gone.
fn gone(record: &Attachment, error: &Error, kernel: &mut Netlink) -> Standing {
    let is_pair = record.wiring.link.as_ref().is_some_and(|link| link.kind.is_pair());
    let end = Identity::of(&record.id).host_link().ok().filter(|_| is_pair);
    let there = end.map(|end| kernel.link(Space::HOST, &Which::Name(end)));
    match there {
        Some(Ok(None)) => Standing::Gone("its network namespace has ended".to_owned()),
        _ => Standing::Closed(error.to_string()),
    }
}
