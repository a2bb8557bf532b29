//! Pods: network namespaces that are connected to networks.

mod deprovision;
mod provision;
mod record;
mod record_store;

use model::{Error, Result};

pub use deprovision::{Abandoned, PendingDel};
pub use record::{Attachment, Record, Stage, State};

use crate::PodId;
use crate::call::Call;
use crate::config::PodNetworks;
use crate::plugin::NetworkingPod;
use crate::volume::{INSIDE, Volume};
use record_store::RecordStore;

/// The pods of a host.
#[derive(Clone, Copy, Debug)]
pub struct Pods<'a> {
    plugins: &'a NetworkingPod,
    networks: &'a PodNetworks,
}

impl<'a> Pods<'a> {
    /// Pods that `plugins` connect to `networks`.
    pub fn new(plugins: &'a NetworkingPod, networks: &'a PodNetworks) -> Self {
        Self { plugins, networks }
    }

    /// Every pod that something was done for.
    ///
    /// # Errors
    /// Where a record cannot be read.
    pub fn list(&self) -> Result<Vec<Record>> {
        let record_store = self.record_store();
        let mut records = Vec::new();
        for pod in record_store.pods()? {
            records.extend(record_store.read(&pod)?);
        }
        Ok(records)
    }

    /// One pod.
    ///
    /// # Errors
    /// [`model::Kind::NotFound`] where nothing was done for it.
    pub fn get(&self, pod: &PodId) -> Result<Record> {
        let none = || Error::not_found(format!("pod {pod} is not provisioned"));
        self.record_store().read(pod)?.ok_or_else(none)
    }

    fn record_store(&self) -> RecordStore {
        RecordStore::new(self.plugins.directories.pods())
    }

    fn volume(&self) -> Volume<'a> {
        Volume::new(&self.plugins.directories.netns)
    }
}

impl Attachment {
    /// The parameters of its plugin.
    fn call(&self, pod: &PodId) -> Result<Call> {
        Ok(Call {
            netns: format!("{INSIDE}/{pod}").into(),
            container: pod.try_into()?,
            interface: self.interface.clone(),
        })
    }
}
