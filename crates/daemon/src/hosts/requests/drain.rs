//! Operators' settings of hosts: a host takes no more containers; its labels.

use std::time::Duration;

use cluster::book;
use host::hosts::Reply;
use model::{HostName, Labels, Result};

use crate::hosts::Hosts;

/// How long to wait until this host refuses containers.
const LIMIT: Duration = Duration::from_secs(5);

impl Hosts {
    /// Lets a host, this one unless named, take no more containers on networks of the cluster, or take them again.
    pub(in crate::hosts) fn drain(
        &self,
        name: Option<HostName>,
        is_draining: bool,
    ) -> Result<Reply> {
        let (member, etcd) = self.heard()?;
        let name = name.unwrap_or_else(|| member.name.clone());
        book::change_host(&etcd, &name, |host| {
            host.draining = is_draining;
            Ok(())
        })?;
        // Of this host it is so when the command ends; another one hears of it in a moment.
        self.wait(LIMIT, |state| name != member.name || state.draining == Some(is_draining));
        Ok(Reply::Done)
    }

    /// Sets labels of a host, and removes others.
    pub(in crate::hosts) fn label(
        &self,
        name: &HostName,
        set: &Labels,
        remove: &[String],
    ) -> Result<Reply> {
        let (_, etcd) = self.heard()?;
        book::change_host(&etcd, name, |host| {
            let mut all = host.labels.pairs().clone();
            all.extend(set.pairs().clone());
            all.retain(|key, _| !remove.contains(key));
            let pairs = all.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            host.labels = Labels::of_pairs(pairs)?;
            Ok(())
        })?;
        Ok(Reply::Done)
    }
}
