//! `spoke host remove`.

use cluster::book;
use model::{HostName, Kind, Result};

use super::keep::Keeper;
use super::member::Member;
use super::{Hosts, tend};

impl Hosts {
    /// Takes a host out of the cluster.
    pub(super) fn remove(&self, name: &HostName, force: bool) -> Result<()> {
        let (member, _) = self.connected()?;
        let is_own = *name == member.name;
        let removed = tend::retire(&member, name)
            .and_then(|etcd| book::remove_host(&etcd, name, &member.name, force));
        match removed {
            // etcd lost its data, and so nobody says to this host that it was removed.
            Err(error) if error.kind() == Kind::NotFound && is_own => {}
            // It was removed while it was cut off: its certificate is worth nothing.
            Err(error) if error.kind() == Kind::TryAgain && is_own && member.own_etcd && force => {}
            Err(error) => return Err(error),
            // The others end its connection, maybe before it has heard why.
            Ok(()) if is_own && member.own_etcd => {}
            Ok(()) => return Ok(()),
        }
        self.set(|state| state.leaving = true);
        self.nudge();
        Ok(())
    }
}

impl Keeper<'_> {
    /// Whether this host goes, also where etcd does not answer it.
    pub(super) fn is_leaving(&self, member: &Member) -> bool {
        member.own_etcd && self.hosts.lock().leaving
    }
}
