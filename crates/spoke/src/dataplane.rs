//! Who makes an attachment's parts: third-party plugins its link, where its network is theirs,
//! Neutron its port, where its network is Neutron's, Docker plugins what they do, and the kernel's
//! dataplane everything else.

mod cloud;
mod opened;
mod remote;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use cni::Chain;
use engine::port::{Driver, Near, Note, Offer, Presence, Stray};
use linux::Linux;
use linux::identity::Identity;
use linux::names::Names;
use model::{
    Attached, Attachment, AttachmentId, ContainerId, Family, IfName, LinkKind, Mac, Namespace,
    Network, Result, Sandbox,
};

use crate::config::Config;
use cloud::Cloud;
pub(crate) use opened::Opened;
#[cfg(test)]
pub(crate) use remote::open as plugins_of;
pub(crate) use remote::{Foreign, Plugins};

/// All of them.
pub(crate) struct Dataplane {
    linux: Linux,
    chain: Chain,
    cloud: Cloud,
    remote: Plugins,
    names: Names,
}

/// Who makes a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maker {
    Kernel,
    Plugins,
    Cloud,
    Remote,
}

impl Dataplane {
    /// With what others may have opened in this process.
    pub(crate) fn new(config: &Arc<Config>, opened: Opened) -> Self {
        Self {
            linux: Linux::new(opened.life),
            chain: Chain::new(&config.store.runtime, waiting, report),
            cloud: Cloud::new(Arc::clone(config), opened.clone()),
            remote: Plugins::new(Arc::clone(config), opened),
            names: Names::new("/", &config.store.runtime),
        }
    }

    /// The kernel alone, for what is nobody's attachment.
    pub(crate) fn linux(&self) -> &Linux {
        &self.linux
    }
}

/// What a runtime that moves interfaces itself finds in the host's namespace.
fn waiting(id: &AttachmentId) -> Result<IfName> {
    Identity::of(id).guest_link()
}

fn report(what: &str) {
    let _ = writeln!(std::io::stderr(), "spoke: {what}");
}

impl Maker {
    /// Of an attachment's link. A layer beside a port of Neutron's has nothing of it.
    fn of(attachment: &Attachment) -> Self {
        match Self::of_link(attachment.wiring.link.as_ref()) {
            Self::Cloud if !cloud::is_port(attachment) => Self::Kernel,
            Self::Remote if !remote::is_part(attachment) => Self::Kernel,
            maker => maker,
        }
    }

    fn of_link(link: Option<&model::Link>) -> Self {
        match link.map(|link| &link.kind) {
            Some(LinkKind::Neutron(_)) => Self::Cloud,
            Some(LinkKind::Chain(_)) => Self::Plugins,
            Some(LinkKind::Remote(_)) => Self::Remote,
            Some(_) | None => Self::Kernel,
        }
    }
}

/// The attachment as the kernel's dataplane is to see it, where that makes the link.
fn plain(attachment: &Attachment) -> Cow<'_, Attachment> {
    let link = attachment.wiring.link.as_ref();
    match cloud::is_neutron(link) || attachment.wiring.is_remote() {
        true => Cow::Owned(rest(attachment)),
        false => Cow::Borrowed(attachment),
    }
}

/// What of an attachment is not its link.
fn rest(attachment: &Attachment) -> Attachment {
    let mut rest = attachment.clone();
    rest.wiring.link = None;
    rest
}

impl Driver for Dataplane {
    fn attach(&self, attachment: &Attachment) -> Result<Attached> {
        match Maker::of(attachment) {
            Maker::Kernel => self.linux.attach(&plain(attachment)),
            Maker::Cloud => self.cloud.attach(&self.linux, attachment),
            Maker::Remote => self.remote.attach(&self.linux, attachment),
            Maker::Plugins => {
                let attached = self.chain.join(attachment)?;
                self.linux.attach(&rest(attachment)).map(|_| attached)
            }
        }
    }

    fn connect(&self, attachment: &Attachment) -> Result<()> {
        self.linux.connect(attachment)
    }

    fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        match Maker::of(attachment) {
            Maker::Cloud => self.cloud.offer(attachment),
            Maker::Remote => self.remote.offer(attachment),
            Maker::Plugins | Maker::Kernel => self.chain.offer(attachment),
        }
    }

    fn complete(&self, attachment: &Attachment) -> Result<Attached> {
        match Maker::of(attachment) {
            Maker::Kernel => self.linux.complete(&plain(attachment)),
            Maker::Cloud => self.cloud.attach(&self.linux, attachment),
            Maker::Remote => self.remote.attach(&self.linux, attachment),
            Maker::Plugins => {
                self.linux.attach(&rest(attachment))?;
                self.chain.complete(attachment)
            }
        }
    }

    fn answers(&self, attachment: &Attachment) -> Result<Vec<IpAddr>> {
        self.linux.answers(attachment)
    }

    fn withdraw(&self, attachment: &Attachment) -> Result<()> {
        match Maker::of(attachment) {
            Maker::Kernel => self.linux.withdraw(&plain(attachment)),
            Maker::Cloud => self.cloud.withdraw(&self.linux, attachment),
            Maker::Remote => self.remote.withdraw(&self.linux, attachment),
            Maker::Plugins => {
                let undone = self.linux.detach(&rest(attachment));
                undone.and(self.chain.withdraw(attachment))
            }
        }
    }

    fn detach(&self, attachment: &Attachment) -> Result<()> {
        match Maker::of(attachment) {
            Maker::Kernel => self.linux.detach(&plain(attachment)),
            Maker::Cloud => self.cloud.detach(&self.linux, attachment),
            Maker::Remote => self.remote.detach(&self.linux, attachment),
            Maker::Plugins => {
                let undone = self.linux.detach(&rest(attachment));
                // Both are tried, whatever the first one says.
                let detached = self.chain.detach(attachment);
                undone.and(detached)
            }
        }
    }

    fn check(&self, attachment: &Attachment, attached: &Attached) -> Result<()> {
        match Maker::of(attachment) {
            Maker::Kernel => self.linux.check(&plain(attachment), attached),
            Maker::Cloud => self.cloud.check(&self.linux, attachment, attached),
            Maker::Remote => self.remote.check(&self.linux, attachment, attached),
            Maker::Plugins => {
                self.chain.check(attachment)?;
                self.linux.check(&rest(attachment), attached)
            }
        }
    }

    fn presence(&self, attachment: &Attachment) -> Presence {
        match Maker::of(attachment) {
            Maker::Kernel => self.linux.presence(&plain(attachment)),
            Maker::Plugins => self.chain.presence(attachment),
            Maker::Cloud => match cloud::on_host(attachment) {
                Ok(made) => self.linux.presence(&made),
                Err(_) => Presence::Doubtful,
            },
            Maker::Remote => self.remote.presence(&self.linux, attachment),
        }
    }

    fn restore(&self, attachment: &Attachment) -> Result<bool> {
        match Maker::of(attachment) {
            Maker::Kernel => self.linux.restore(&plain(attachment)),
            Maker::Plugins => self.linux.restore(&rest(attachment)),
            Maker::Cloud => self.linux.restore(&cloud::on_host(attachment)?),
            Maker::Remote => self.remote.restore(&self.linux, attachment),
        }
    }

    fn restore_shared(&self, attachment: &Attachment) -> Result<bool> {
        match Maker::of(attachment) {
            Maker::Kernel => self.linux.restore_shared(&plain(attachment)),
            Maker::Plugins => self.linux.restore_shared(&rest(attachment)),
            Maker::Cloud => self.linux.restore_shared(&cloud::on_host(attachment)?),
            Maker::Remote => self.remote.restore_shared(&self.linux, attachment),
        }
    }

    fn hardware_address(&self, attachment: &Attachment) -> Option<Mac> {
        match Maker::of(attachment) {
            Maker::Kernel => self.linux.hardware_address(&plain(attachment)),
            Maker::Plugins => self.chain.hardware_address(attachment),
            Maker::Cloud => neutron::port::hardware_address(attachment),
            Maker::Remote => self.remote.hardware_address(attachment),
        }
    }

    fn status(&self, network: &Network) -> Result<()> {
        match Maker::of_link(network.wiring.link.as_ref()) {
            Maker::Kernel => self.linux.status(network),
            Maker::Plugins => self.chain.status(network),
            Maker::Cloud => self.cloud.status(network),
            Maker::Remote => self.remote.status(network),
        }
    }

    fn create(&self, network: &Network) -> Result<()> {
        match Maker::of_link(network.wiring.link.as_ref()) {
            Maker::Plugins | Maker::Cloud | Maker::Kernel => Ok(()),
            Maker::Remote => self.remote.create(network),
        }
    }

    fn namespace(&self, sandbox: &Sandbox) -> Option<Namespace> {
        crate::sandbox::namespace(sandbox).ok().flatten()
    }

    fn is_ended(&self, namespace: &Namespace) -> bool {
        crate::sandbox::is_ended(namespace).unwrap_or(false)
    }

    fn pause(&self) {
        self.remote.pause();
    }

    fn sets_gateway_at_once(&self, attachment: &Attachment) -> bool {
        matches!(Maker::of(attachment), Maker::Remote)
    }

    fn set_gateway(&self, attachment: &Attachment, families: &[Family]) -> Result<()> {
        match Maker::of(attachment) {
            Maker::Kernel | Maker::Plugins => self.linux.set_gateway(&plain(attachment), families),
            Maker::Cloud => self.linux.set_gateway(&cloud::on_host(attachment)?, families),
            Maker::Remote => self.remote.set_gateway(&self.linux, attachment, families),
        }
    }

    fn up(&self, network: &Network) -> Result<()> {
        // Others make what their attachments share when the first of them comes.
        match Maker::of_link(network.wiring.link.as_ref()) {
            Maker::Plugins | Maker::Cloud | Maker::Remote => Ok(()),
            Maker::Kernel => self.linux.up(network),
        }
    }

    fn remove(&self, network: &Network) -> Result<()> {
        match Maker::of_link(network.wiring.link.as_ref()) {
            Maker::Plugins | Maker::Cloud => Ok(()),
            Maker::Remote => self.remote.remove(network),
            Maker::Kernel => self.linux.remove(network),
        }
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

    fn remove_stray(&self, stray: &Stray) -> Result<()> {
        match stray {
            Stray::Parking(name) => self.chain.remove_stray(name),
            Stray::Names(name) => self.names.forget(name),
            Stray::Link(_) | Stray::Elements(_) => self.linux.remove_stray(stray),
        }
    }
}
