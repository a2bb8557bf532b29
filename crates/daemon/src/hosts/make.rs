//! Makes the networks of the cluster on this host, and removes those that it has no more.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::{Etcd, View, book};
use host::time;
use model::{Backend, Error, IpNet, Kind, NetworkName, Result, Runtime, SharedNetwork};
use netlink::Socket;

use super::keep::Keeper;
use super::links::overlay;
use super::local::{self, Local};
use super::member::Member;

/// How often rules of iptables are compared, that others may have removed.
const RULES: Duration = Duration::from_secs(30);

impl Keeper<'_> {
    /// Makes one network here; the block with its gateway. The outer error is etcd's, the inner one this host's.
    pub(super) fn make(
        &mut self,
        etcd: &Etcd,
        view: &mut View,
        member: &Member,
        name: &NetworkName,
    ) -> Result<Result<IpNet>> {
        let gone = || Error::try_again(format!("network {name} went away"));
        let network = view.networks.get(name).cloned().ok_or_else(gone)?;
        if let Err(error) = self.refuse((view, member), name, &network) {
            if network.is_unknown() {
                return Ok(self.suspend(name).and(Err(error)));
            }
            return Ok(Err(error));
        }
        let mut local = match self.blocks(etcd, view, member, (name, &network)) {
            Err(error) if error.kind() == Kind::TryAgain => return Err(error),
            Err(error) => return Ok(Err(error)),
            Ok(local) => local,
        };
        // Addresses of these blocks that others have are kept from containers first.
        let kept = self.keep_for_others(etcd, view, member, name);
        if let Err(error) = &kept {
            let known = local::made(&self.hosts.place)?.remove(name);
            match known.filter(|known| known.is_same(&local)) {
                // It goes on with the blocks that it has.
                Some(known) => local = known,
                None => return Ok(Err(Error::new(error.kind(), error.to_string()))),
            }
        }
        self.report_unsettled(Some(name), kept);
        let is_draining = view.hosts.get(&member.name).is_some_and(|host| host.draining);
        let backend = self.daemon.context_pool.config().firewall.backend;
        let ensured = self.daemon.context_pool.with(|host_context| {
            local.ensure(name, &self.hosts.place, host_context, (backend, time::now(), is_draining))
        });
        let ensured = ensured.and_then(|backend| self.guard_by_rules(&local, name, backend));
        if ensured.is_ok() {
            self.hosts.set(|state| drop(state.failures.remove(name)));
        }
        Ok(ensured.map(|()| local.block))
    }

    /// Programs are executed for that, so it is not done at every comparison.
    fn guard_by_rules(
        &mut self,
        local: &Local,
        name: &NetworkName,
        backend: Backend,
    ) -> Result<()> {
        let is_fresh = |at: &Instant| at.elapsed() < RULES;
        if backend == Backend::Nftables || self.ruled.get(name).is_some_and(is_fresh) {
            return Ok(());
        }
        local.guard_by_rules(name, &self.daemon.context_pool.config().store.runtime)?;
        self.ruled.insert(name.clone(), Instant::now());
        Ok(())
    }

    /// Has the rules of the networks that are here hold, also while the cluster is not heard of: of all of them, whichever
    /// fails.
    pub(super) fn guard_made(&mut self) -> Result<()> {
        let mut guarded = Ok(());
        for (name, local) in local::made(&self.hosts.place)? {
            guarded = guarded.and(self.guard_one(&name, &local));
        }
        guarded
    }

    fn guard_one(&mut self, name: &NetworkName, local: &Local) -> Result<()> {
        let pool = &self.daemon.context_pool;
        let known = pool.with(|host_context| host_context.engine().records.declared(name))?;
        let bridge = model::bridge_name(name)?;
        let Some(known) = known.filter(|known| known.runtime == Runtime::Spoke) else {
            return Ok(());
        };
        if Socket::route()?.link_index(&bridge)?.is_none() {
            return Ok(());
        }
        let backend = local::backend_of(&known);
        local.guard(&bridge, backend, &self.hosts.place)?;
        self.guard_by_rules(local, name, backend)
    }

    /// Lets a network that is here take no more containers, which would not reach those of other hosts: this host, or
    /// the cluster, had another version before.
    fn suspend(&self, name: &NetworkName) -> Result<()> {
        if !local::made(&self.hosts.place)?.contains_key(name) {
            return Ok(());
        }
        self.daemon
            .context_pool
            .with(|host_context| host_context.engine().addresses.suspend_network(name))
    }

    /// The block with the gateway of a network that cannot be made as it should be, and is here as it was: a full disk
    /// is no reason to withdraw its containers.
    pub(super) fn had(
        &self,
        view: &View,
        member: &Member,
        name: &NetworkName,
    ) -> Result<Option<IpNet>> {
        let known = local::made(&self.hosts.place)?.remove(name);
        let known = known.filter(|known| overlay::is_here(view, member, name, known));
        let is_up = Socket::route()?.link_index(&model::bridge_name(name)?)?.is_some();
        Ok(known.filter(|_| is_up).map(|known| known.block))
    }

    /// Refuses what would take the device of another network, or the way to another host. What this host
    /// has already goes before what others write later.
    fn refuse(
        &self,
        (view, member): (&View, &Member),
        name: &NetworkName,
        network: &SharedNetwork,
    ) -> Result<()> {
        book::refuse_unknown(name, network)?;
        if network.encrypted {
            ::overlay::refuse_clear(name, member.address)?;
        }
        let made = local::made(&self.hosts.place)?;
        if made.get(name).is_some_and(|made| made.network.is_same(network)) {
            return Ok(());
        }
        book::refuse_hosts_own(view, name, network)?;
        let context_pool = &self.daemon.context_pool;
        context_pool.with(|host_context| host_context.engine().records.refuse_shared(name))?;
        let is_there = |other: &NetworkName| view.networks.contains_key(other);
        let mut others = made.iter().filter(|(other, _)| *other != name && is_there(other));
        match others.find(|(_, made)| made.network.vni == network.vni) {
            Some((other, _)) => Err(Error::conflict(format!(
                "network {name} is not used: its VNI {} is that of network {other} of this host",
                network.vni
            ))),
            None => book::refuse_unclaimed(view, name, network),
        }
    }

    /// Networks that this host has no more, once no container uses them.
    pub(super) fn remove_others(
        &mut self,
        etcd: &Etcd,
        view: &mut View,
        member: &Member,
        wanted: &[NetworkName],
    ) -> Result<()> {
        let mut made = local::made(&self.hosts.place)?;
        made.retain(|name, _| !wanted.contains(name));
        self.hosts.set(|state| {
            state.failures.retain(|name, _| wanted.contains(name) || made.contains_key(name));
        });
        self.free_others(etcd, view, member, (wanted, &made))?;
        for (name, _) in made {
            if self.hosts.is_still_in_engines(&name) {
                continue;
            }
            let removed = self
                .daemon
                .context_pool
                .with(|host_context| local::remove(&name, &self.hosts.place, host_context));
            match removed {
                Ok(()) => {
                    self.ruled.remove(&name);
                    self.hosts.set(|state| drop(state.failures.remove(&name)));
                    self.free(etcd, view, member, |of| *of == name)?;
                }
                Err(error) => self.fail(&name, &error),
            }
        }
        Ok(())
    }

    /// Blocks that a daemon before this one left when it removed the network.
    fn free_others(
        &mut self,
        etcd: &Etcd,
        view: &mut View,
        member: &Member,
        (wanted, made): (&[NetworkName], &BTreeMap<NetworkName, Local>),
    ) -> Result<()> {
        self.free(etcd, view, member, |name| !wanted.contains(name) && !made.contains_key(name))
    }

    /// Gives the blocks of some networks back, also those that rest.
    fn free(
        &mut self,
        etcd: &Etcd,
        view: &mut View,
        member: &Member,
        is_over: impl Fn(&NetworkName) -> bool,
    ) -> Result<()> {
        self.resting.forget(&is_over);
        let own = view.blocks.iter().filter(|(_, (holder, _))| *holder == member.name);
        let own: Vec<_> =
            own.map(|(key, _)| key.clone()).filter(|(name, _)| is_over(name)).collect();
        for (name, block) in own {
            book::give_up_block(etcd, &name, &member.name, block)?;
            view.blocks.remove(&(name, block));
        }
        Ok(())
    }

    /// Reports once that addresses cannot be kept for other hosts, or given back: the next comparison tries
    /// it again, and traffic does not wait for that.
    pub(super) fn report_unsettled(&mut self, of: Option<&NetworkName>, settled: Result<()>) {
        let before = self.unsettled.remove(&of.cloned());
        let Err(error) = settled else { return };
        let what = error.to_string();
        if before.as_ref() != Some(&what) {
            self.daemon.journal.failed("addresses between this host and others", &error);
        }
        self.unsettled.insert(of.cloned(), what);
    }

    /// Reports once what does not work.
    pub(super) fn fail(&self, name: &NetworkName, error: &Error) {
        let what = error.to_string();
        let before = self.hosts.lock().failures.get(name).cloned();
        if before.as_ref() != Some(&what) {
            self.daemon.journal.failed(&format!("making network {name} of the cluster"), error);
            self.hosts.set(|state| drop(state.failures.insert(name.clone(), what)));
        }
    }
}
