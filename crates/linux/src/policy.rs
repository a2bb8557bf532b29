//! What is done with an attachment's packets, in whichever filter its record names.

mod flows;

use std::cell::{Cell, RefCell};
use std::net::IpAddr;

use model::{
    Attachment, Backend, Family, Firewall, IfName, IngressPolicy, Kind, Layer, LinkKind, Publish,
    Result, Runtime, Wiring,
};
use netlink::wire::Batch;
use netlink::{At, Change, Socket, nft};

use self::flows::Stale;
use crate::filter::{self, Elements, Owner};
use crate::identity::{self, Identity};
use crate::iptables::{Iptables, Part, Variant};
use crate::{listener, reference};

/// The packet filters of this host.
#[derive(Default)]
pub(crate) struct Policy {
    /// Opened once.
    socket: RefCell<Option<Socket>>,
    /// Whether something was deleted through it: closing it then blocks for an RCU grace period.
    deleted: Cell<bool>,
}

impl Policy {
    /// Refuses ports that a process of this host listens on.
    pub(crate) fn probe(&self, attachment: &Attachment) -> Result<()> {
        let published = attachment.wiring.publish.as_ref();
        let mut ports = published.map_or(&[][..], |publish| &publish.ports).iter();
        ports.try_for_each(listener::refuse)
    }

    /// Makes the parts that the wiring has.
    pub(crate) fn install(&self, attachment: &Attachment) -> Result<()> {
        let behind = behind(attachment)?;
        if let (Some(publish), Some(behind)) = (&attachment.wiring.publish, &behind)
            && publish.snat
            && attachment.first(Family::V4).is_some()
        {
            route_loopback(behind)?;
        }
        isolate(attachment)?;
        Iptables::new(Variant::Host).install(attachment)?;
        self.install_elements(attachment)?;
        match Stale::before(attachment)? {
            Some(stale) => self.if_there(|socket| stale.forget(socket)),
            None => Ok(()),
        }
    }

    fn install_elements(&self, attachment: &Attachment) -> Result<()> {
        let Some(wanted) = Wanted::of(attachment)? else { return Ok(()) };
        let host_end = Identity::of(&attachment.id).host_link()?;
        let is_gone = |owner: &Owner| is_gone(owner, &host_end);
        self.with(|socket| filter::install(socket, &wanted.elements, is_gone))?;
        let Some(firewall) = &attachment.wiring.firewall else { return Ok(()) };
        let (Backend::Nftables, Some(behind)) = (firewall.backend, &wanted.behind) else {
            return Ok(());
        };
        let forwarding = self.with(|socket| filter::allow_forwarding(socket, behind))?;
        if forwarding.legacy.is_empty() {
            return Ok(());
        }
        match Iptables::new(Variant::Legacy).install(&in_iptables(attachment)) {
            // Someone whose programs are not here has those rules (k3s, Docker in a container).
            // They need not drop anything; `spoke doctor` looks whether they do.
            Err(error) if error.kind() == Kind::Unsupported => Ok(()),
            installed => installed,
        }
    }

    /// Removes them; what is gone is done. Of an attachment without a record also what the
    /// reference plugins would have made for it. Everything is tried; the first failure is told.
    pub(crate) fn remove(&self, attachment: &Attachment) -> Result<()> {
        let rules = match attachment.runtime {
            Runtime::Reference => self.remove_reference(attachment),
            Runtime::Cni | Runtime::Podman | Runtime::Spoke | Runtime::Docker => {
                Iptables::new(Variant::Host).remove(attachment)
            }
        };
        let elements = self.remove_elements(attachment);
        let flows = match Stale::after(attachment) {
            Some(stale) => self.if_there(|socket| stale.forget(socket)),
            None => Ok(()),
        };
        rules.and(elements).and(flows)
    }

    fn remove_reference(&self, attachment: &Attachment) -> Result<()> {
        let part = match attachment.layer {
            Layer::Link => Part::Masquerade,
            Layer::Publish => Part::Publish,
            Layer::Firewall => Part::Firewall,
            Layer::Address | Layer::Tuning => return Ok(()),
        };
        self.deleted.set(true);
        let (id, addresses) = (&attachment.id, &attachment.addresses);
        let rules = self.if_there(|socket| reference::remove(socket, id, attachment.layer));
        let chains = self.each_variant(|iptables| iptables.remove_parts(id, &[part], addresses));
        rules.and(chains)
    }

    /// Works on every iptables that has chains of the reference plugins; the first failure.
    fn each_variant(&self, work: impl Fn(Iptables) -> Result<()>) -> Result<()> {
        let nft = self.if_there(reference::nft_in_use);
        let used = [
            (Variant::Nft, matches!(nft, Ok(true))),
            (Variant::Legacy, reference::legacy_in_use()),
        ];
        let used = used.into_iter().filter(|(_, used)| *used);
        let worked = used.map(|(variant, _)| work(Iptables::new(variant)));
        worked.fold(nft.map(drop), Result::and)
    }

    fn remove_elements(&self, attachment: &Attachment) -> Result<()> {
        let Some(owner) = owner(attachment)? else { return Ok(()) };
        let legacy = match attachment.wiring.firewall.is_some() && reference::legacy_in_use() {
            true => Iptables::new(Variant::Legacy).remove(&in_iptables(attachment)),
            false => Ok(()),
        };
        // Without a record the addresses may be unknown, and the host's routes may have changed
        // since: then what bears the mark is removed.
        let wanted = match attachment.runtime != Runtime::Reference && is_told(attachment) {
            true => Wanted::of(attachment)?,
            false => None,
        };
        if wanted.as_ref().is_some_and(|wanted| wanted.elements.is_empty()) {
            return legacy;
        }
        self.deleted.set(true);
        let elements = self.if_there(|socket| match &wanted {
            Some(wanted) => filter::remove(socket, &wanted.elements),
            None => {
                filter::find_owned(socket, &owner).and_then(|owned| filter::remove(socket, &owned))
            }
        });
        legacy.and(elements)
    }

    /// Names the first part that is missing.
    pub(crate) fn check(&self, attachment: &Attachment) -> Result<()> {
        Iptables::new(Variant::Host).check(attachment)?;
        match Wanted::of(attachment)? {
            Some(wanted) => self.with(|socket| filter::verify(socket, &wanted.elements)),
            None => Ok(()),
        }
    }

    /// Removes what attachments of a bridge shared.
    pub(crate) fn forget_bridge(&self, bridge: &IfName) -> Result<()> {
        let ours = self.if_there(|socket| {
            filter::disallow_forwarding(socket, bridge)?;
            filter::forget_bridge(socket, bridge)?;
            filter::unload_unowned(socket)
        });
        ours.and(self.each_variant(|iptables| iptables.remove_bridge(bridge)))
    }

    /// The marks of everybody who has elements.
    pub(crate) fn marks(&self) -> Result<Vec<String>> {
        let owners = self.if_there(filter::list_owners)?;
        Ok(owners.keys().map(|owner| owner.as_str().to_owned()).collect())
    }

    /// Removes everything that bears the mark.
    pub(crate) fn remove_marked(&self, mark: &str) -> Result<()> {
        let owner = mark.parse()?;
        self.if_there(|socket| {
            let owned = filter::find_owned(socket, &owner)?;
            filter::remove(socket, &owned)
        })
    }

    /// The socket, if whoever ends soon must not be the last to close it.
    pub(crate) fn take_socket(&self) -> Option<Socket> {
        self.socket.borrow_mut().take().filter(|_| self.deleted.get())
    }

    /// As [`Policy::with`], for what looks or removes: in a kernel without nftables is nothing.
    fn if_there<T: Default>(&self, work: impl FnOnce(&mut Socket) -> Result<T>) -> Result<T> {
        match self.with(work) {
            Err(_) if !nft::is_supported() => Ok(T::default()),
            worked => worked,
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Socket) -> Result<T>) -> Result<T> {
        let mut socket = self.socket.borrow_mut();
        match socket.as_mut() {
            Some(socket) => work(socket),
            None => work(socket.insert(Socket::netfilter()?)),
        }
    }
}

/// Lets packets from this host's loopback addresses reach the container. Where that can neither be
/// set nor is so already, the ports cannot be reached there, as they are promised to be: an error,
/// as with the reference plugin.
fn route_loopback(behind: &IfName) -> Result<()> {
    let parameter = |which: &str| format!("net/ipv4/conf/{which}/route_localnet");
    match netlink::sysctl::ensure(parameter(behind.as_str()), "1") {
        // What is set for all interfaces holds for each.
        Err(_) if netlink::sysctl::read(parameter("all")).is_ok_and(|all| all == "1") => Ok(()),
        ensured => ensured,
    }
}

/// Whether the owner of an element gives way to the attachment with this `host_end`: a dead
/// container does, whose host's end went with it. One whose link another plugin made has no host's
/// end of ours, dead or alive, and gives way too, as do the other layers of the same attachment.
fn is_gone(owner: &Owner, host_end: &IfName) -> Result<bool> {
    match identity::host_link_of(owner.as_str()) {
        Some(link) if link == *host_end => Ok(true),
        Some(link) => Ok(Socket::route()?.link(At::Name(&link))?.is_none()),
        None => Ok(true),
    }
}

/// The elements of an attachment, and the host's interface that leads to it.
struct Wanted {
    elements: Elements,
    behind: Option<IfName>,
}

impl Wanted {
    /// `None` where nothing of the wiring is in our table.
    fn of(attachment: &Attachment) -> Result<Option<Self>> {
        let Some(owner) = owner(attachment)? else { return Ok(None) };
        let mut wanted = Self { elements: Elements::new(owner), behind: behind(attachment)? };
        wanted.masquerade(attachment);
        wanted.publish(attachment);
        wanted.firewall(attachment);
        Ok(Some(wanted))
    }

    fn masquerade(&mut self, attachment: &Attachment) {
        let nftables = |part: &model::Masquerade| part.backend == Backend::Nftables;
        if !attachment.wiring.masquerade.as_ref().is_some_and(nftables) {
            return;
        }
        let bridged = attachment.wiring.link.as_ref().is_some_and(is_bridged);
        for container in attachment.addresses.iter().map(|held| held.address.addr()) {
            self.elements.masquerade(container);
            match &self.behind {
                Some(behind) if bridged => self.elements.home(behind, container),
                Some(_) | None => self.elements.routed(container),
            };
        }
    }

    fn publish(&mut self, attachment: &Attachment) {
        let Some(publish) = &attachment.wiring.publish else { return };
        if publish.backend != Backend::Nftables || publish.ports.is_empty() {
            return;
        }
        for container in published(attachment) {
            for port in &publish.ports {
                self.elements.publish(port, container);
            }
            self.translate(publish, container);
        }
    }

    fn translate(&mut self, publish: &Publish, container: IpAddr) {
        if let (true, Some(behind)) = (publish.snat, &self.behind) {
            self.elements.hairpin(behind, container);
        }
        if publish.masquerade_all {
            self.elements.masquerade_all(container);
        }
    }

    fn firewall(&mut self, attachment: &Attachment) {
        let Some(firewall) = &attachment.wiring.firewall else { return };
        let Some(behind) = self.behind.clone() else { return };
        if firewall.backend != Backend::Nftables {
            return;
        }
        for container in attachment.addresses.iter().map(|held| held.address.addr()) {
            self.elements.ingress(firewall.ingress, &behind, container);
        }
    }
}

/// Whose the elements of an attachment are; `None` where nothing of the wiring is in our table.
fn owner(attachment: &Attachment) -> Result<Option<Owner>> {
    let wiring = &attachment.wiring;
    let ours = [
        wiring.masquerade.as_ref().map(|part| part.backend),
        wiring.publish.as_ref().map(|part| part.backend),
        wiring.firewall.as_ref().map(|part| part.backend),
    ];
    match ours.contains(&Some(Backend::Nftables)) {
        true => Identity::of(&attachment.id).mark(attachment.layer).parse().map(Some),
        false => Ok(None),
    }
}

fn is_bridged(link: &model::Link) -> bool {
    matches!(link.kind, LinkKind::Bridge(_))
}

/// Neighbours on one bridge never pass the packet filter: their ports keep them apart. A host's end
/// that is not ours is left as it is.
fn isolate(attachment: &Attachment) -> Result<()> {
    let isolated = |part: &Firewall| part.ingress == IngressPolicy::Isolated;
    if !attachment.wiring.firewall.as_ref().is_some_and(isolated) {
        return Ok(());
    }
    let mut socket = Socket::route()?;
    let host_end = Identity::of(&attachment.id).host_link()?;
    match socket.link(At::Name(&host_end))? {
        Some(link) if link.port.is_some() => {
            let mut batch = Batch::new();
            batch.change_link(At::Index(link.index), &[Change::Isolated(true)]);
            socket.send(&mut batch)?.into_result()
        }
        Some(_) | None => Ok(()),
    }
}

/// The attachment as far as the old iptables must let its packets pass, which our table cannot make
/// it do.
fn in_iptables(attachment: &Attachment) -> Attachment {
    let firewall = attachment.wiring.firewall.clone();
    let firewall = firewall.map(|part| Firewall { backend: Backend::Iptables, ..part });
    Attachment { wiring: Wiring { firewall, ..Wiring::default() }, ..attachment.clone() }
}

/// The addresses that published ports lead to: the first of each family.
fn published(attachment: &Attachment) -> impl Iterator<Item = IpAddr> {
    [Family::V4, Family::V6]
        .into_iter()
        .filter_map(|family| attachment.first(family))
        .map(|net| net.addr())
}

/// The host's interface that leads to the container: its bridge, its own host end, or where the
/// host's routes say.
fn behind(attachment: &Attachment) -> Result<Option<IfName>> {
    if let Some(link) = &attachment.wiring.link {
        return match &link.kind {
            LinkKind::Bridge(bridge) => Ok(Some(bridge.name.clone())),
            LinkKind::Ptp(_) => Identity::of(&attachment.id).host_link().map(Some),
            LinkKind::Loopback => Ok(None),
        };
    }
    match (told(attachment), published(attachment).next()) {
        (Some(told), _) => Ok(Some(told.clone())),
        (None, Some(container)) => routed_through(container),
        (None, None) => Ok(None),
    }
}

fn told(attachment: &Attachment) -> Option<&IfName> {
    let wiring = &attachment.wiring;
    let publish = wiring.publish.as_ref().and_then(|publish| publish.behind.as_ref());
    publish.or_else(|| wiring.firewall.as_ref().and_then(|part| part.bridge.as_ref()))
}

/// Whether the record itself says which interface leads to the container.
fn is_told(attachment: &Attachment) -> bool {
    attachment.wiring.link.is_some() || told(attachment).is_some()
}

fn routed_through(container: IpAddr) -> Result<Option<IfName>> {
    let mut socket = Socket::route()?;
    let Some(index) = socket.route_to(container)?.and_then(|route| route.link) else {
        return Ok(None);
    };
    Ok(socket.link(At::Index(index))?.map(|link| link.name))
}
