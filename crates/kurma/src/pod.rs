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

/// The pods that something was done for.
#[derive(Debug, Default)]
pub struct Listed {
    /// Their records.
    pub records: Vec<Record>,
    /// Those whose record cannot be read, and why.
    pub unreadable: Vec<(PodId, Error)>,
}

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

    /// Every pod that something was done for. One whose record cannot be read does not hide the
    /// others.
    ///
    /// # Errors
    /// Where the records cannot be listed.
    pub fn list(&self) -> Result<Listed> {
        let record_store = self.record_store();
        let mut listed = Listed::default();
        for pod in record_store.pods()? {
            match record_store.read(&pod) {
                Ok(record) => listed.records.extend(record),
                Err(error) => listed.unreadable.push((pod, error)),
            }
        }
        Ok(listed)
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
