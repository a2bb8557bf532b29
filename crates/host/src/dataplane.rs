//! The makers of an attachment's parts: third-party CNI plugins make the link of a network of
//! theirs, Neutron the port of a network of its own, Docker plugins their part, Open vSwitch the port
//! of a segment of its own, and the kernel's dataplane everything else. `Dataplane::maker_of_link`
//! chooses, and nothing else does.

mod chain;
mod cloud;
mod link_driver;
mod opened;
mod remote;
mod switch;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use cni::Chain;
use config::Config;
use engine::port::{
    Driver, HostDataplane, Metered, Near, Neighbours, Note, Offer, Presence, Still, Stray,
};
use linux::Linux;
use linux::identity::Identity;
use linux::names::Names;
use model::{
    Attached, Attachment, AttachmentId, ContainerId, Family, IfName, LinkKind, Mac, Namespace,
    Network, PortMap, Result, Sandbox,
};
use netlink::HostLock;

use crate::follow::Follow;
use cloud::Cloud;
use link_driver::{Kernel, LinkDriver};
pub use opened::Opened;
pub use remote::Foreign;
pub(crate) use remote::Plugins;
pub use remote::open as plugins_of;
use switch::Switch;
pub use switch::{bridge as bridge_of, displaced, is_port, of as segment_of};

/// All of them.
pub(crate) struct Dataplane {
    linux: Linux,
    chain: Chain,
    cloud: Cloud,
    remote: Plugins,
    switch: Switch,
    names: Names,
    follow: Follow,
}

impl Dataplane {
    /// With what others may have opened in this process.
    pub(crate) fn new(config: &Arc<Config>, opened: Opened) -> Self {
        Self {
            linux: Linux::locked_by(HostLock::below(&config.store.runtime), opened.life),
            chain: Chain::new(&config.store.runtime, waiting, report),
            cloud: Cloud::new(Arc::clone(config), opened.clone()),
            switch: Switch::new(opened.switches()),
            remote: Plugins::new(Arc::clone(config), opened),
            names: Names::new("/", &config.store.runtime),
            follow: Follow::of(config),
        }
    }

    /// The firewall that published ports obey.
    pub(crate) fn follow(&self) -> &Follow {
        &self.follow
    }

    /// The kernel's dataplane alone, for work without an attachment.
    pub(crate) fn linux(&self) -> &Linux {
        &self.linux
    }

    /// The maker of an attachment's link. A layer beside a link of Neutron's, of a Docker
    /// plugin's or of Open vSwitch has no part of it.
    fn maker(&self, attachment: &Attachment) -> &dyn LinkDriver {
        let link = attachment.wiring.link.as_ref();
        let is_beside = match link.map(|link| &link.kind) {
            Some(LinkKind::Neutron(_)) => !cloud::is_port(attachment),
            Some(LinkKind::Remote(_)) => !remote::is_part(attachment),
            Some(LinkKind::Ovs(_)) => !switch::is_port(attachment),
            Some(_) | None => false,
        };
        if is_beside { &Kernel } else { self.maker_of_link(link) }
    }

    /// Opens ports: the firewall that they obey is there before, and judges what goes to the container.
    fn published<T>(&self, attachment: &Attachment, open: impl FnOnce() -> Result<T>) -> Result<T> {
        self.follow.ensure(attachment)?;
        self.follow.opened(attachment, &self.linux)?;
        let opened = open()?;
        self.follow.opened(attachment, &self.linux)?;
        Ok(opened)
    }

    fn maker_of(&self, network: &Network) -> &dyn LinkDriver {
        self.maker_of_link(network.wiring.link.as_ref())
    }

    fn maker_of_link(&self, link: Option<&model::Link>) -> &dyn LinkDriver {
        match link.map(|link| &link.kind) {
            Some(LinkKind::Neutron(_)) => &self.cloud,
            Some(LinkKind::Chain(_)) => &self.chain,
            Some(LinkKind::Remote(_)) => &self.remote,
            Some(LinkKind::Ovs(_)) => &self.switch,
            Some(_) | None => &Kernel,
        }
    }
}

/// The name in the host's namespace of an interface that its runtime moves.
fn waiting(id: &AttachmentId) -> Result<IfName> {
    Identity::of(id).guest_link()
}

fn report(what: &str) {
    let _ = writeln!(std::io::stderr(), "spoke: {what}");
}

/// The attachment as the kernel's dataplane is to see it, where that makes the link.
fn plain(attachment: &Attachment) -> Cow<'_, Attachment> {
    let link = attachment.wiring.link.as_ref();
    let is_others = cloud::is_neutron(link) || switch::of(link).is_some();
    match is_others || attachment.wiring.is_remote() {
        true => Cow::Owned(attachment.without_link()),
        false => Cow::Borrowed(attachment),
    }
}

impl Driver for Dataplane {
    fn attach(&self, attachment: &Attachment) -> Result<Attached> {
        self.published(attachment, || self.maker(attachment).attach(&self.linux, attachment))
    }

    fn connect(&self, attachment: &Attachment) -> Result<()> {
        self.linux.connect(attachment)
    }

    fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        self.maker(attachment).offer(attachment)
    }

    fn complete(&self, attachment: &Attachment) -> Result<Attached> {
        self.published(attachment, || self.maker(attachment).complete(&self.linux, attachment))
    }

    fn answers(&self, attachment: &Attachment) -> Result<Vec<IpAddr>> {
        self.linux.answers(attachment)
    }

    fn withdraw(&self, attachment: &Attachment) -> Result<()> {
        self.maker(attachment).withdraw(&self.linux, attachment)
    }

    fn detach(&self, attachment: &Attachment) -> Result<()> {
        let detach = || self.maker(attachment).detach(&self.linux, attachment);
        self.follow.closed(attachment, &self.linux, detach)
    }

    fn check(&self, attachment: &Attachment, attached: &Attached) -> Result<()> {
        self.maker(attachment).check(&self.linux, attachment, attached)
    }

    fn presence(&self, attachment: &Attachment) -> Presence {
        self.maker(attachment).presence(&self.linux, attachment)
    }

    fn restore(&self, attachment: &Attachment) -> Result<bool> {
        self.published(attachment, || self.maker(attachment).restore(&self.linux, attachment))
    }

    fn unfilter(&self, attachment: &Attachment) -> Result<()> {
        let maker = self.maker(attachment);
        self.follow.closed(attachment, &self.linux, || maker.unfilter(&self.linux, attachment))
    }

    fn withdraw_addresses(&self, before: &Attachment, now: &Attachment) -> Result<()> {
        self.maker(before).withdraw_addresses(&self.linux, before, now)
    }

    fn refuse_port(&self, attachment: &Attachment, map: &PortMap) -> Result<()> {
        self.linux.refuse_port(attachment, map)
    }

    fn withdraw_ports(&self, attachment: &Attachment, gone: &[PortMap]) -> Result<()> {
        self.maker(attachment).withdraw_ports(&self.linux, attachment, gone)
    }

    fn limit(&self, attachment: &Attachment) -> Result<()> {
        self.maker(attachment).limit(&self.linux, attachment)
    }

    fn metered(&self, attachment: &Attachment) -> Result<Option<Metered>> {
        self.linux.metered(attachment)
    }

    fn meter(&self, attachment: &Attachment, metered: Metered) -> Result<()> {
        self.linux.meter(attachment, metered)
    }

    fn unmeter(&self, attachment: &Attachment) -> Result<()> {
        self.linux.unmeter(attachment)
    }

    fn refuse_fence(&self, attachment: &Attachment) -> Result<()> {
        self.linux.refuse_fence(attachment)
    }

    fn shut_neighbours(&self, now: &Attachment, neighbours: Neighbours<'_>) -> Result<()> {
        self.linux.shut_neighbours(now, neighbours)
    }

    fn fence(&self, now: &Attachment) -> Result<()> {
        self.linux.fence(now)
    }

    fn revise(&self, before: &Attachment, after: &Attachment) -> Result<()> {
        self.linux.revise(before, after)
    }

    fn retune(&self, network: &Network) -> Result<()> {
        self.linux.retune(network)
    }

    fn refuse_sources(&self, network: &Network) -> Result<()> {
        self.linux.refuse_sources(network)
    }

    fn refuse_way(&self, network: &Network) -> Result<()> {
        self.linux.refuse_way(network)
    }

    fn lead(&self, network: &Network, attachments: &[Attachment], still: Still<'_>) -> Result<()> {
        self.linux.lead(network, attachments, still)
    }

    fn restore_shared(&self, attachment: &Attachment) -> Result<bool> {
        self.maker(attachment).restore_shared(&self.linux, attachment)
    }

    fn refuse_bridge(&self, network: &Network) -> Result<()> {
        self.linux.refuse_bridge(network)
    }

    fn shared_hardware(&self, network: &Network) -> Result<Option<Mac>> {
        self.linux.shared_hardware(network)
    }

    fn hardware_address(&self, attachment: &Attachment) -> Option<Mac> {
        self.maker(attachment).hardware_address(&self.linux, attachment)
    }

    fn status(&self, network: &Network) -> Result<()> {
        self.maker_of(network).status(&self.linux, network)
    }

    fn create(&self, network: &Network) -> Result<()> {
        self.maker_of(network).create(network)
    }

    fn pause(&self) {
        self.remote.pause();
    }

    fn sets_gateway_at_once(&self, attachment: &Attachment) -> bool {
        self.maker(attachment).sets_gateway_at_once()
    }

    fn set_gateway(&self, attachment: &Attachment, families: &[Family]) -> Result<()> {
        let set = || self.maker(attachment).set_gateway(&self.linux, attachment, families);
        self.published(attachment, set)
    }

    fn up(&self, network: &Network) -> Result<()> {
        self.maker_of(network).up(&self.linux, network)
    }

    fn remove(&self, network: &Network) -> Result<()> {
        self.maker_of(network).remove(&self.linux, network)
    }
}

impl HostDataplane for Dataplane {
    fn namespace(&self, sandbox: &Sandbox) -> Option<Namespace> {
        crate::sandbox::namespace(sandbox).ok().flatten()
    }

    fn is_ended(&self, namespace: &Namespace) -> bool {
        crate::sandbox::is_ended(namespace).unwrap_or(false)
    }

    fn name(&self, records: &dyn Fn() -> Result<Vec<Attachment>>) -> Result<Vec<Note>> {
        self.names.write(records)
    }

    fn name_near(&self, path: &Path, near: &dyn Fn() -> Result<Near>) -> Result<Vec<Note>> {
        self.names.write_near(path, near)
    }

    fn namespace_named(&self, path: &Path) -> Option<(String, BTreeSet<ContainerId>)> {
        self.names.named_with(path)
    }

    fn strays(
        &self,
        records: &dyn Fn() -> Result<Vec<Attachment>>,
    ) -> Result<Vec<(Stray, Presence)>> {
        let mut strays = self.linux.strays(records)?;
        strays.extend(self.chain.strays(records)?);
        strays.extend(self.names.strays(records)?);
        Ok(strays)
    }

    fn is_of(&self, stray: &Stray, record: &Attachment) -> bool {
        match stray {
            Stray::Parking(name) => Chain::is_parked_for(name, record),
            Stray::Names(name) => self.names.is_for(name, record),
            Stray::SwitchPort { owner, .. } => switch::is_of(owner, record),
            Stray::Link(_) | Stray::Elements(_) => self.linux.is_of(stray, record),
        }
    }

    fn switch_strays(
        &self,
        networks: &[Network],
        records: &dyn Fn() -> Result<Vec<Attachment>>,
    ) -> Result<Vec<(Stray, Presence)>> {
        switch::strays(networks, records)
    }

    fn remove_stray(&self, stray: &Stray) -> Result<()> {
        match stray {
            Stray::Parking(name) => self.chain.remove_stray(name),
            Stray::Names(name) => self.names.forget(name),
            Stray::SwitchPort { database, name, owner } => {
                switch::remove_stray(database, name, owner)
            }
            Stray::Link(_) | Stray::Elements(_) => self.linux.remove_stray(stray),
        }
    }
}
