//! Links that third-party CNI plugins make, one after the other.

use std::borrow::Cow;

use cni::Chain;
use engine::port::{Driver, Offer, Presence};
use linux::Linux;
use model::{Attached, Attachment, Family, Mac, Network, Result};

use super::link_driver::LinkDriver;
use super::plain;

impl LinkDriver for Chain {
    fn on_host<'a>(&self, attachment: &'a Attachment) -> Result<Cow<'a, Attachment>> {
        Ok(Cow::Owned(attachment.without_link()))
    }

    fn attach(&self, linux: &Linux, attachment: &Attachment) -> Result<Attached> {
        let attached = self.join(attachment)?;
        linux.attach(&attachment.without_link()).map(|_| attached)
    }

    fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        Chain::offer(self, attachment)
    }

    fn complete(&self, linux: &Linux, attachment: &Attachment) -> Result<Attached> {
        linux.attach(&attachment.without_link())?;
        Chain::complete(self, attachment)
    }

    fn withdraw(&self, linux: &Linux, attachment: &Attachment) -> Result<()> {
        let undone = linux.detach(&attachment.without_link());
        undone.and(Chain::withdraw(self, attachment))
    }

    /// Both are tried, whatever the first one says.
    fn detach(&self, linux: &Linux, attachment: &Attachment) -> Result<()> {
        let undone = linux.detach(&attachment.without_link());
        let detached = Chain::detach(self, attachment);
        undone.and(detached)
    }

    fn check(&self, linux: &Linux, attachment: &Attachment, attached: &Attached) -> Result<()> {
        Chain::check(self, attachment)?;
        linux.check(&attachment.without_link(), attached)
    }

    fn presence(&self, _linux: &Linux, attachment: &Attachment) -> Presence {
        Chain::presence(self, attachment)
    }

    fn hardware_address(&self, _linux: &Linux, attachment: &Attachment) -> Option<Mac> {
        Chain::hardware_address(self, attachment)
    }

    fn set_gateway(
        &self,
        linux: &Linux,
        attachment: &Attachment,
        families: &[Family],
    ) -> Result<()> {
        linux.set_gateway(&plain(attachment), families)
    }

    fn status(&self, _linux: &Linux, network: &Network) -> Result<()> {
        Chain::status(self, network)
    }
}
