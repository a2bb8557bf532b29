//! The engine's port to the address sources that CNI knows beside the store: the directory of the
//! reference plugin `host-local`, and third-party IPAM plugins.

mod dhcp;
mod directory;
mod foreign;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use engine::Members;
use engine::port::{Granted, Ipam};
use model::{Attachment, Network, Result};

use directory::Directory;

/// The address sources beside the store.
#[derive(Clone, Debug)]
pub struct Delegates {
    /// `/proc/stat` and `/dev`: they know since when this boot is.
    stat: PathBuf,
    devices: PathBuf,
    /// Where one plugin at a time has the lock of an attachment, even if its caller has died.
    locks: Option<PathBuf>,
}

/// Where locks are, below the directory of what goes with the boot.
const LOCKS: &str = "sources";

impl Default for Delegates {
    fn default() -> Self {
        Self { stat: PathBuf::from("/proc/stat"), devices: PathBuf::from("/dev"), locks: None }
    }
}

impl Delegates {
    /// The sources of this host, with locks below `runtime`, which does not outlive the boot: a third-party
    /// plugin whose caller was killed ends before another one is called for its attachment.
    pub fn with_locks(runtime: &Path) -> Self {
        Self { locks: Some(runtime.join(LOCKS)), ..Self::default() }
    }

    fn lock(&self, attachment: &Attachment) -> Option<PathBuf> {
        let locks = self.locks.as_ref()?;
        Some(locks.join(crate::chain::file_name(&attachment.id)))
    }

    fn directory<'a>(&'a self, path: &'a Path) -> Directory<'a> {
        Directory { path, stat: &self.stat, devices: &self.devices }
    }
}

impl Ipam for Delegates {
    fn lease(&self, attachment: &Attachment) -> Result<Granted> {
        match &attachment.ipam {
            model::Ipam::HostLocal { directory, .. } => self.directory(directory).claim(attachment),
            model::Ipam::Foreign(ipam) => foreign::add(ipam, attachment, self.lock(attachment))
                .map(Box::new)
                .map(Granted::Offered),
            model::Ipam::Dhcp(dhcp) => {
                dhcp::lease(dhcp, attachment).map(Box::new).map(Granted::Offered)
            }
            model::Ipam::None
            | model::Ipam::Book { .. }
            | model::Ipam::Fixed { .. }
            | model::Ipam::Requested { .. }
            | model::Ipam::Remote(_) => Ok(Granted::Chosen),
        }
    }

    fn release(&self, attachment: &Attachment) -> Result<()> {
        match &attachment.ipam {
            model::Ipam::HostLocal { directory, .. } => {
                self.directory(directory).release(attachment)
            }
            model::Ipam::Foreign(ipam) => foreign::del(ipam, attachment, self.lock(attachment)),
            model::Ipam::Dhcp(dhcp) => dhcp::release(dhcp, attachment),
            model::Ipam::None
            | model::Ipam::Book { .. }
            | model::Ipam::Fixed { .. }
            | model::Ipam::Requested { .. }
            | model::Ipam::Remote(_) => Ok(()),
        }
    }

    fn check(&self, attachment: &Attachment) -> Result<()> {
        match &attachment.ipam {
            model::Ipam::HostLocal { directory, .. } => self.directory(directory).check(attachment),
            model::Ipam::Foreign(ipam) => foreign::check(ipam, attachment, self.lock(attachment)),
            model::Ipam::Dhcp(dhcp) => dhcp::check(dhcp, attachment),
            model::Ipam::None
            | model::Ipam::Book { .. }
            | model::Ipam::Fixed { .. }
            | model::Ipam::Requested { .. }
            | model::Ipam::Remote(_) => Ok(()),
        }
    }

    fn gc(&self, network: &Network, valid: &Members) -> Result<()> {
        match &network.ipam {
            model::Ipam::HostLocal { directory, .. } => self.directory(directory).gc(valid),
            model::Ipam::Foreign(ipam) => foreign::gc(ipam, valid),
            model::Ipam::Dhcp(dhcp) => dhcp::gc(dhcp, network, valid),
            model::Ipam::None
            | model::Ipam::Book { .. }
            | model::Ipam::Fixed { .. }
            | model::Ipam::Requested { .. }
            | model::Ipam::Remote(_) => Ok(()),
        }
    }

    fn status(&self, network: &Network) -> Result<()> {
        match &network.ipam {
            model::Ipam::HostLocal { directory, pools } => self.directory(directory).status(pools),
            model::Ipam::Foreign(ipam) => foreign::status(ipam),
            model::Ipam::Dhcp(dhcp) => dhcp::status(dhcp),
            model::Ipam::None
            | model::Ipam::Book { .. }
            | model::Ipam::Fixed { .. }
            | model::Ipam::Requested { .. }
            | model::Ipam::Remote(_) => Ok(()),
        }
    }

    fn remove(&self, network: &Network) -> Result<()> {
        match &network.ipam {
            model::Ipam::HostLocal { directory, .. } => self.directory(directory).remove(),
            model::Ipam::None
            | model::Ipam::Book { .. }
            | model::Ipam::Fixed { .. }
            | model::Ipam::Requested { .. }
            | model::Ipam::Dhcp(_)
            | model::Ipam::Remote(_)
            | model::Ipam::Foreign(_) => Ok(()),
        }
    }
}
