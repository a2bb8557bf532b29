//! The makers of networks' links: one implementation for each.

use std::borrow::Cow;

use engine::port::{Driver, Offer, Presence};
use linux::Linux;
use model::{Attached, Attachment, Error, Family, Mac, Network, PortMap, Result};

use super::plain;

/// Makes the links of some networks. `linux` makes the kernel's part of them, and every other part of
/// an attachment: published ports, the packet filter, limits.
///
/// Each method is that of [`Driver`] of the same name, and is repeated and undone as that says.
pub(super) trait LinkDriver {
    /// The kernel's part of an attachment.
    ///
    /// # Errors
    /// Where its record does not say it.
    fn on_host<'a>(&self, attachment: &'a Attachment) -> Result<Cow<'a, Attachment>>;

    fn attach(&self, linux: &Linux, attachment: &Attachment) -> Result<Attached>;

    /// Where the maker does not choose addresses it fails.
    fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        Err(Error::unsupported(format!("{}: its driver chooses no addresses", attachment.id)))
    }

    fn complete(&self, linux: &Linux, attachment: &Attachment) -> Result<Attached> {
        self.attach(linux, attachment)
    }

    fn withdraw(&self, linux: &Linux, attachment: &Attachment) -> Result<()>;

    fn detach(&self, linux: &Linux, attachment: &Attachment) -> Result<()>;

    fn check(&self, linux: &Linux, attachment: &Attachment, attached: &Attached) -> Result<()>;

    fn presence(&self, linux: &Linux, attachment: &Attachment) -> Presence {
        match self.on_host(attachment) {
            Ok(made) => linux.presence(&made),
            Err(_) => Presence::Doubtful,
        }
    }

    fn restore(&self, linux: &Linux, attachment: &Attachment) -> Result<bool> {
        linux.restore(&*self.on_host(attachment)?)
    }

    fn unfilter(&self, linux: &Linux, attachment: &Attachment) -> Result<()> {
        linux.unfilter(&*self.on_host(attachment)?)
    }

    fn withdraw_addresses(
        &self,
        linux: &Linux,
        before: &Attachment,
        now: &Attachment,
    ) -> Result<()> {
        linux.withdraw_addresses(&*self.on_host(before)?, &*self.on_host(now)?)
    }

    fn withdraw_ports(
        &self,
        linux: &Linux,
        attachment: &Attachment,
        gone: &[PortMap],
    ) -> Result<()> {
        linux.withdraw_ports(&*self.on_host(attachment)?, gone)
    }

    fn limit(&self, linux: &Linux, attachment: &Attachment) -> Result<()> {
        linux.limit(&*self.on_host(attachment)?)
    }

    fn restore_shared(&self, linux: &Linux, attachment: &Attachment) -> Result<bool> {
        linux.restore_shared(&*self.on_host(attachment)?)
    }

    fn hardware_address(&self, linux: &Linux, attachment: &Attachment) -> Option<Mac> {
        linux.hardware_address(&*self.on_host(attachment).ok()?)
    }

    fn sets_gateway_at_once(&self) -> bool {
        false
    }

    fn set_gateway(
        &self,
        linux: &Linux,
        attachment: &Attachment,
        families: &[Family],
    ) -> Result<()> {
        linux.set_gateway(&*self.on_host(attachment)?, families)
    }

    fn status(&self, linux: &Linux, network: &Network) -> Result<()>;

    /// Called for makers that need to know the network.
    fn create(&self, _network: &Network) -> Result<()> {
        Ok(())
    }

    /// Other makers than the kernel make what attachments share with the first of them.
    fn up(&self, _linux: &Linux, _network: &Network) -> Result<()> {
        Ok(())
    }

    fn remove(&self, _linux: &Linux, _network: &Network) -> Result<()> {
        Ok(())
    }
}

/// The kernel alone.
pub(super) struct Kernel;

impl LinkDriver for Kernel {
    fn on_host<'a>(&self, attachment: &'a Attachment) -> Result<Cow<'a, Attachment>> {
        Ok(plain(attachment))
    }

    fn attach(&self, linux: &Linux, attachment: &Attachment) -> Result<Attached> {
        linux.attach(&plain(attachment))
    }

    fn complete(&self, linux: &Linux, attachment: &Attachment) -> Result<Attached> {
        linux.complete(&plain(attachment))
    }

    fn withdraw(&self, linux: &Linux, attachment: &Attachment) -> Result<()> {
        linux.withdraw(&plain(attachment))
    }

    fn detach(&self, linux: &Linux, attachment: &Attachment) -> Result<()> {
        linux.detach(&plain(attachment))
    }

    fn check(&self, linux: &Linux, attachment: &Attachment, attached: &Attached) -> Result<()> {
        linux.check(&plain(attachment), attached)
    }

    fn status(&self, linux: &Linux, network: &Network) -> Result<()> {
        linux.status(network)
    }

    fn up(&self, linux: &Linux, network: &Network) -> Result<()> {
        linux.up(network)
    }

    fn remove(&self, linux: &Linux, network: &Network) -> Result<()> {
        linux.remove(network)
    }
}
