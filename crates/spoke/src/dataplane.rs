//! Who makes an attachment's parts: plugins of somebody else its link, where its network is theirs,
//! and the kernel's dataplane everything else.

use std::io::Write;
use std::net::IpAddr;
use std::path::Path;

use cni::Chain;
use engine::port::{Driver, Offer, Presence, Stray};
use linux::identity::Identity;
use linux::{Life, Linux};
use model::{Attached, Attachment, AttachmentId, IfName, Mac, Network, Result};

/// Both of them.
pub(crate) struct Dataplane {
    linux: Linux,
    chain: Chain,
}

impl Dataplane {
    /// For a process of this life; what the plugins of others make is remembered below `directory`.
    pub(crate) fn new(life: Life, directory: &Path) -> Self {
        Self { linux: Linux::new(life), chain: Chain::new(directory, waiting, tell) }
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

fn tell(what: &str) {
    let _ = writeln!(std::io::stderr(), "spoke: {what}");
}

fn is_chain(attachment: &Attachment) -> bool {
    attachment.wiring.chooses_addresses()
}

/// What of a chain's attachment is not its link.
fn rest(attachment: &Attachment) -> Attachment {
    let mut rest = attachment.clone();
    rest.wiring.link = None;
    rest
}

impl Driver for Dataplane {
    fn attach(&self, attachment: &Attachment) -> Result<Attached> {
        if !is_chain(attachment) {
            return self.linux.attach(attachment);
        }
        let attached = self.chain.join(attachment)?;
        self.linux.attach(&rest(attachment)).map(|_| attached)
    }

    fn connect(&self, attachment: &Attachment) -> Result<()> {
        self.linux.connect(attachment)
    }

    fn offer(&self, attachment: &Attachment) -> Result<Offer> {
        self.chain.offer(attachment)
    }

    fn complete(&self, attachment: &Attachment) -> Result<Attached> {
        if !is_chain(attachment) {
            return self.linux.complete(attachment);
        }
        self.linux.attach(&rest(attachment))?;
        self.chain.complete(attachment)
    }

    fn answers(&self, attachment: &Attachment) -> Result<Vec<IpAddr>> {
        self.linux.answers(attachment)
    }

    fn withdraw(&self, attachment: &Attachment) -> Result<()> {
        if !is_chain(attachment) {
            return self.linux.withdraw(attachment);
        }
        let undone = self.linux.detach(&rest(attachment));
        undone.and(self.chain.withdraw(attachment))
    }

    fn detach(&self, attachment: &Attachment) -> Result<()> {
        if !is_chain(attachment) {
            return self.linux.detach(attachment);
        }
        let undone = self.linux.detach(&rest(attachment));
        // Both are tried, whatever the first one says.
        let detached = self.chain.detach(attachment);
        undone.and(detached)
    }

    fn check(&self, attachment: &Attachment, attached: &Attached) -> Result<()> {
        if !is_chain(attachment) {
            return self.linux.check(attachment, attached);
        }
        self.chain.check(attachment)?;
        self.linux.check(&rest(attachment), attached)
    }

    fn presence(&self, attachment: &Attachment) -> Presence {
        match is_chain(attachment) {
            true => self.chain.presence(attachment),
            false => self.linux.presence(attachment),
        }
    }

    fn restore(&self, attachment: &Attachment) -> Result<bool> {
        match is_chain(attachment) {
            true => self.linux.restore(&rest(attachment)),
            false => self.linux.restore(attachment),
        }
    }

    fn hardware_address(&self, attachment: &Attachment) -> Option<Mac> {
        match is_chain(attachment) {
            true => self.chain.hardware_address(attachment),
            false => self.linux.hardware_address(attachment),
        }
    }

    fn status(&self, network: &Network) -> Result<()> {
        match network.wiring.chooses_addresses() {
            true => self.chain.status(network),
            false => self.linux.status(network),
        }
    }

    fn up(&self, network: &Network) -> Result<()> {
        // Plugins make what their attachments share when the first of them comes.
        match network.wiring.chooses_addresses() {
            true => Ok(()),
            false => self.linux.up(network),
        }
    }

    fn remove(&self, network: &Network) -> Result<()> {
        match network.wiring.chooses_addresses() {
            true => Ok(()),
            false => self.linux.remove(network),
        }
    }

    fn strays(
        &self,
        records: &dyn Fn() -> Result<Vec<Attachment>>,
    ) -> Result<Vec<(Stray, Presence)>> {
        let mut strays = self.linux.strays(records)?;
        strays.extend(self.chain.strays(records)?);
        Ok(strays)
    }

    fn remove_stray(&self, stray: &Stray) -> Result<()> {
        match stray {
            Stray::Parking(name) => self.chain.remove_stray(name),
            Stray::Link(_) | Stray::Elements(_) => self.linux.remove_stray(stray),
        }
    }
}
