//! Where addresses come from that are not the store's: third-party Docker IPAM plugins, and what
//! CNI knows.

use std::path::Path;
use std::sync::Arc;

use engine::Members;
use engine::port::{Granted, Ipam};
use model::{Attachment, IpNet, Network, Result};

use crate::dataplane::{Foreign, Plugins};

/// All of them.
pub(crate) struct Sources {
    delegates: cni::Delegates,
    plugins: Plugins,
}

impl Sources {
    /// Those of this host; `runtime` does not outlive the boot.
    pub(crate) fn new(plugins: Plugins, runtime: &Path) -> Self {
        Self { delegates: cni::Delegates::with_locks(runtime), plugins }
    }

    /// The Docker plugin that is asked, if the source is one.
    fn foreign(&self, ipam: &model::Ipam) -> Result<Option<Arc<Foreign>>> {
        ipam.remote().map(|_| self.plugins.foreign()).transpose()
    }
}

impl Ipam for Sources {
    fn request(&self, network: &Network) -> Result<model::Ipam> {
        match self.foreign(&network.ipam)? {
            Some(foreign) => foreign.remote.request(network, &busy),
            None => self.delegates.request(network),
        }
    }

    fn lease(&self, attachment: &Attachment) -> Result<Granted> {
        match self.foreign(&attachment.ipam)? {
            Some(foreign) => foreign.remote.lease(attachment).map(Box::new).map(Granted::Offered),
            None => self.delegates.lease(attachment),
        }
    }

    fn release(&self, attachment: &Attachment) -> Result<()> {
        match self.foreign(&attachment.ipam)? {
            Some(foreign) => foreign.remote.release(attachment),
            None => self.delegates.release(attachment),
        }
    }

    fn check(&self, attachment: &Attachment) -> Result<()> {
        match self.foreign(&attachment.ipam)? {
            Some(foreign) => foreign.remote.check_addresses(attachment),
            None => self.delegates.check(attachment),
        }
    }

    fn gc(&self, network: &Network, valid: &Members) -> Result<()> {
        self.delegates.gc(network, valid)
    }

    fn status(&self, network: &Network) -> Result<()> {
        match self.foreign(&network.ipam)? {
            Some(foreign) => foreign.remote.address_status(network),
            None => self.delegates.status(network),
        }
    }

    fn remove(&self, network: &Network) -> Result<()> {
        match self.foreign(&network.ipam)? {
            Some(foreign) => foreign.remote.remove_pools(network),
            None => self.delegates.remove(network),
        }
    }
}

/// The subnets that this host is connected to.
fn busy() -> Result<Vec<IpNet>> {
    Ok(linux::occupied()?.into_iter().map(|occupied| occupied.net).collect())
}
