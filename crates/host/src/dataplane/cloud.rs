//! Attachments on Neutron's networks: the cloud's part, and around the kernel's the switch's.

use std::borrow::Cow;
use std::sync::Arc;

use config::{CloudSettings, Config};
use engine::port::{Driver, Offer};
use linux::Linux;
use model::{Attached, Attachment, Error, Layer, LinkKind, Mac, Network, Result};
use netlink::HostLock;
use neutron::Neutron;

use super::Opened;
use super::link_driver::LinkDriver;

/// Neutron, opened when the first attachment on it comes: a process without one does not even read
/// the credentials.
pub(crate) struct Cloud {
    config: Arc<Config>,
    opened: Opened,
}

pub(super) fn open(config: &Config) -> Result<Neutron> {
    let given = config.neutron.as_ref().ok_or_else(|| {
        Error::unsupported(
            "no cloud is configured: add [neutron] to the configuration of this host",
        )
    })?;
    // The daemon reports the notes, once.
    let CloudSettings { mut settings, .. } =
        given.settings(&config.kuryr, &|name| std::env::var(name).ok())?;
    settings.plugging.lock = HostLock::below(&config.store.runtime);
    Neutron::connect(settings, config.store.runtime.join("neutron"))
}

impl Cloud {
    /// As this host is configured.
    pub(crate) fn new(config: Arc<Config>, opened: Opened) -> Self {
        Self { config, opened }
    }

    fn neutron(&self) -> Result<Arc<Neutron>> {
        self.opened.neutron(&self.config)
    }

    fn detach_all(&self, linux: &Linux, attachment: &Attachment) -> Result<()> {
        let parted = self.part(linux, attachment, |attachment| linux.detach(attachment));
        if self.config.neutron.is_none() && !is_bound(attachment) {
            // Without Neutron there is no port.
            return parted;
        }
        let found = match is_bound(attachment) {
            true => Ok(()),
            false => self.part_found(linux, attachment),
        };
        let ended = self.neutron().and_then(|neutron| neutron.end(attachment));
        parted.and(found).and(ended)
    }

    /// Of a record that knows no port Neutron may.
    fn part_found(&self, linux: &Linux, attachment: &Attachment) -> Result<()> {
        let mut parted = Ok(());
        for found in self.neutron()?.found(attachment)? {
            parted = parted.and(self.part(linux, &found, |attachment| linux.detach(attachment)));
            parted = parted.and(self.neutron()?.drop_foreign_end(&found));
        }
        parted
    }

    /// The switch first, then the pair.
    fn part(
        &self,
        linux: &Linux,
        attachment: &Attachment,
        undo: impl FnOnce(&Attachment) -> Result<()>,
    ) -> Result<()> {
        let Some(made) = neutron::port::kernel(attachment)? else {
            return undo(&attachment.without_link());
        };
        // An attempt that met another container's link has connected nothing.
        if linux.is_anothers(&made)? {
            return undo(&made);
        }
        let neutron = self.neutron();
        let of_it = |work: fn(&Neutron, &Attachment) -> Result<()>| match &neutron {
            Ok(neutron) => work(neutron, attachment),
            Err(error) => Err(Error::new(error.kind(), error.to_string())),
        };
        let unplugged = of_it(Neutron::unplug);
        let undone = undo(&made);
        unplugged.and(undone).and(of_it(Neutron::release))
    }
}

impl LinkDriver for Cloud {
    fn on_host<'a>(&self, attachment: &'a Attachment) -> Result<Cow<'a, Attachment>> {
        let made = neutron::port::kernel(attachment)?;
        Ok(Cow::Owned(made.unwrap_or_else(|| attachment.without_link())))
    }

    fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        self.neutron()?.offer(attachment)
    }

    /// The pair first, then the switch.
    fn attach(&self, linux: &Linux, attachment: &Attachment) -> Result<Attached> {
        let made = neutron::port::kernel(attachment)?.ok_or_else(|| {
            Error::bug(format!("{} is to be attached and has no port of Neutron's", attachment.id))
        })?;
        let neutron = self.neutron()?;
        neutron.prepare(attachment)?;
        let attached = linux.attach(&made)?;
        neutron.plug(attachment)?;
        linux.announce_plugged(&made, &attached);
        Ok(attached)
    }

    fn withdraw(&self, linux: &Linux, attachment: &Attachment) -> Result<()> {
        self.part(linux, attachment, |attachment| linux.withdraw(attachment))
    }

    /// All of it is tried, whatever the first result: no work on this host waits for the cloud for
    /// long.
    fn detach(&self, linux: &Linux, attachment: &Attachment) -> Result<()> {
        match self.neutron() {
            Ok(neutron) => neutron.promptly(|| self.detach_all(linux, attachment)),
            Err(_) => self.detach_all(linux, attachment),
        }
    }

    fn check(&self, linux: &Linux, attachment: &Attachment, attached: &Attached) -> Result<()> {
        linux.check(&*self.on_host(attachment)?, attached)?;
        self.neutron()?.check(attachment)
    }

    fn hardware_address(&self, _linux: &Linux, attachment: &Attachment) -> Option<Mac> {
        neutron::port::hardware_address(attachment)
    }

    fn status(&self, _linux: &Linux, network: &Network) -> Result<()> {
        self.neutron()?.status(network)
    }
}

fn is_bound(attachment: &Attachment) -> bool {
    match attachment.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Neutron(link)) => link.binding.is_some(),
        Some(_) | None => false,
    }
}

/// Whether the record is that of a Neutron port's link.
pub(super) fn is_port(attachment: &Attachment) -> bool {
    attachment.layer == Layer::Link && is_neutron(attachment.wiring.link.as_ref())
}

pub(super) fn is_neutron(link: Option<&model::Link>) -> bool {
    matches!(link.map(|link| &link.kind), Some(LinkKind::Neutron(_)))
}
