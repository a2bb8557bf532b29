//! Routed networks, and those of a transport that this version does not know, that are still on this host, while the cluster does not say that they should be.
//!
//! The guard of a host that forwards accepts their bridges, because the table of routed networks decides who sends
//! to them. So they stay in it, and the only packets to them are answers and those to published ports.

use std::collections::{BTreeMap, BTreeSet};

use model::{IfName, IpNet, NetworkName, Result, Transport};
use overlay::{Overlay, RoutedNetwork, Routes};

use crate::hosts::keep::{IDLE, Keeper};
use crate::hosts::local::{self, Local};
use crate::hosts::member::Member;

/// The bridges and addresses of those networks that were made here, without these.
pub(in crate::hosts) fn closed(
    made: &BTreeMap<NetworkName, Local>,
    open: &[RoutedNetwork],
) -> Result<BTreeMap<IfName, Vec<IpNet>>> {
    let is_open = |name: &NetworkName| open.iter().any(|open| open.name == *name);
    let all = made
        .iter()
        .filter(|(name, made)| made.network.transport != Transport::Vxlan && !is_open(name));
    all.map(|(name, made)| Ok((model::bridge_name(name)?, made.network.nets().collect()))).collect()
}

/// Removes every link to other hosts, but lets no container send to these.
pub(in crate::hosts) fn unlink(
    member: &Member,
    closed: BTreeMap<IfName, Vec<IpNet>>,
) -> Result<()> {
    let nothing = Overlay {
        local: member.address,
        members: BTreeSet::new(),
        networks: Vec::new(),
        tunnels: Vec::new(),
        routes: Routes { closed, ..Routes::default() },
    };
    nothing.apply()?.failures.into_iter().next().map_or(Ok(()), Err)
}

impl Keeper<'_> {
    /// Keeps strangers out of what is here, until it is known what the cluster says: after a start of the host its
    /// containers may be there before etcd answers.
    pub(in crate::hosts) fn close_unheard(&mut self, member: &Member) {
        if self.is_settled {
            return;
        }
        let closed = local::made(&self.hosts.place).and_then(|made| closed(&made, &[]));
        let routes = closed.map(|closed| Routes { closed, ..Routes::default() });
        match routes.and_then(|routes| routes.close(member.address)) {
            Ok(None) => {}
            Ok(filter) => self.hosts.set(|state| state.filter = filter),
            Err(error) => self.note(vec![error.context("routed networks").to_string()]),
        }
    }

    /// Waits for this host to become a member of a cluster.
    pub(in crate::hosts) fn idle(&mut self) {
        if !self.is_swept {
            // It is tried again.
            self.is_swept = Routes::sweep().unwrap_or(false);
        }
        self.pause(IDLE);
    }
}
