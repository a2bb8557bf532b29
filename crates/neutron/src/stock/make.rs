//! Makes and resets single ports of the stock.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use model::{Error, Kind, ResourceId, Result};

use super::{StockDemand, Stored};
use crate::Neutron;
use crate::api::{FixedIp, PortChange, PortResource, Tagged};
use crate::contract;
use crate::port_update::Cancelled;
use crate::stock_key::{KeyDigest, PortUse};

/// How Neutron says that no agent of the host answers for it.
const UNBOUND: [&str; 2] = ["binding_failed", "unbound"];

/// Something to do.
#[derive(Debug)]
pub(super) enum Task {
    /// Make so many, in one request.
    Make(StockDemand, usize),
    /// Make what came back like new.
    Renew(Stored),
    /// Delete what came back.
    Discard(Stored),
}

/// The result.
#[derive(Debug)]
pub(super) enum TaskResult {
    /// So many new ports, of this project.
    New(String, usize),
    /// One is ready again.
    Renewed,
    /// One is deleted.
    Deleted,
    /// It is no longer wanted.
    Nothing,
    /// It did not work.
    Failed(Error),
}

/// A task that was done.
#[derive(Debug)]
pub(super) struct Done {
    /// The kind of its ports.
    pub(super) digest: KeyDigest,
    /// The port that came back.
    pub(super) port: Option<ResourceId>,
    /// The result.
    pub(super) made: TaskResult,
}

impl Task {
    /// The port that came back; none where ports are to be made.
    pub(super) fn port(&self) -> Option<&ResourceId> {
        match self {
            Task::Make(..) => None,
            Task::Renew(stored) | Task::Discard(stored) => Some(&stored.port.id),
        }
    }

    fn digest(&self) -> KeyDigest {
        match self {
            Task::Make(wanted, _) => wanted.digest.clone(),
            Task::Renew(stored) | Task::Discard(stored) => stored.key.clone(),
        }
    }
}

impl Neutron {
    /// Does all of it, several at the same time. Where Neutron has enough to do, what is left is left.
    pub(super) fn perform(
        &self,
        tasks: Vec<Task>,
        workers: usize,
        is_over: &(dyn Fn() -> bool + Sync),
    ) -> Vec<Done> {
        let workers = workers.min(tasks.len());
        let tasks = Mutex::new(VecDeque::from(tasks));
        let done = Mutex::new(Vec::new());
        let is_busy = AtomicBool::new(false);
        let work = || {
            while !is_busy.load(Ordering::Relaxed) && !is_over() {
                let Some(task) = locked(&tasks).pop_front() else { return };
                let (digest, port) = (task.digest(), task.port().cloned());
                let made = self.perform_one(task).unwrap_or_else(TaskResult::Failed);
                if matches!(&made, TaskResult::Failed(error) if is_away(error)) {
                    is_busy.store(true, Ordering::Relaxed);
                }
                locked(&done).push(Done { digest, port, made });
            }
        };
        thread::scope(|scope| {
            for _ in 1..workers {
                // If a thread cannot be started, the others do its work.
                let _ = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
            }
            work();
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn perform_one(&self, task: Task) -> Result<TaskResult> {
        match task {
            Task::Make(wanted, count) => self.make(&wanted, count),
            Task::Renew(stored) => self.renew(&stored),
            Task::Discard(stored) => self.discard(&stored.port.id),
        }
    }

    fn make(&self, wanted: &StockDemand, count: usize) -> Result<TaskResult> {
        let stock_files = self.stock_files();
        let _lock = stock_files.making(&wanted.digest)?;
        if !stock_files.is_wanted(&wanted.digest) {
            return Ok(TaskResult::Nothing);
        }
        let new = wanted.key.port(&self.settings.host)?;
        let ports = match count {
            1 => vec![self.api().create_port(&new)?],
            _ => self.api().create_ports(&vec![new; count])?,
        };
        let project = ports.first().map(|port| port.project_id.clone()).unwrap_or_default();
        let mut failure = None;
        for port in ports {
            let id = port.id.clone();
            if let Err(error) = self.shelve(wanted, port) {
                // Else the reconciler finds it.
                let _ = self.api().delete_port(&id);
                failure = Some(error);
            }
        }
        failure.map_or(Ok(TaskResult::New(project, count)), Err)
    }

    fn shelve(&self, wanted: &StockDemand, mut port: PortResource) -> Result<()> {
        let vif_type = port.vif_type.as_deref().unwrap_or_default();
        if wanted.key.place == PortUse::Host && UNBOUND.contains(&vif_type) {
            return Err(Error::new(
                Kind::Kernel,
                format!(
                    "Neutron cannot bind port {} of network {} to host {}: {vif_type}; is its agent \
                     there running under that name?",
                    port.id, wanted.key.network, self.settings.host
                ),
            ));
        }
        if !port.is_tagged(contract::OWNER) {
            let tags = vec![contract::OWNER.to_owned()];
            self.api().set_tags(Tagged::Ports, &port.id, &tags)?;
            port.tags = tags;
        }
        self.stock_files().put(&Stored { key: wanted.digest.clone(), port })
    }

    /// Undoes what an attachment changes of every port. One of which more was changed goes.
    fn renew(&self, stored: &Stored) -> Result<TaskResult> {
        let id = &stored.port.id;
        let book = self.port_updates();
        match book.cancel(id)? {
            None => {}
            Some(Cancelled::NotSent) => book.close(id)?,
            // Its name may still arrive, when it has another owner.
            Some(Cancelled::Unsure) => return self.discard(id),
        }
        let now = self.api().port(id)?.filter(|now| is_as_made(now, &stored.port));
        let Some(now) = now else { return self.discard(id) };
        // The next container would be reached by it. With the port it leads nowhere.
        if self.has_floating_ip(id)? {
            return self.discard(id);
        }
        let mark = stored.key.mark(&self.settings.host).to_string();
        let change = PortChange {
            name: (now.name != contract::PORT_NAME).then(|| contract::PORT_NAME.to_owned()),
            device_id: (!now.device_id.is_empty()).then(String::new),
            description: (now.description != mark).then_some(mark),
            ..PortChange::default()
        };
        if change.name.is_some() || change.device_id.is_some() || change.description.is_some() {
            self.api().change_port(id, &change, None)?;
        }
        if now.tags != [contract::OWNER] {
            self.api().set_tags(Tagged::Ports, id, &[contract::OWNER.to_owned()])?;
        }
        let stock_files = self.stock_files();
        let _lock = stock_files.making(&stored.key)?;
        if !stock_files.is_wanted(&stored.key) {
            return self.discard(id);
        }
        stock_files.ready_again(stored).map(|()| TaskResult::Renewed)
    }

    fn discard(&self, id: &ResourceId) -> Result<TaskResult> {
        self.abandon(id)?;
        self.stock_files().settle(id)?;
        Ok(TaskResult::Deleted)
    }
}

/// Neutron's statuses for "too many requests", and for a server that is overloaded or not there.
const AWAY: [u16; 4] = [429, 502, 503, 504];

/// Whether Neutron answers nothing at the moment, rather than this one request.
pub(super) fn is_away(error: &Error) -> bool {
    error.kind() == Kind::TryAgain && error.status().is_none_or(|status| AWAY.contains(&status))
}

/// The stack of a thread, in bytes.
const STACK: usize = 512 << 10;

/// Whether nothing was changed of a port that an attachment does not change of every port.
pub(crate) fn is_as_made(now: &PortResource, made: &PortResource) -> bool {
    let groups = |port: &PortResource| -> BTreeSet<ResourceId> {
        port.security_groups.iter().cloned().collect()
    };
    let dns = |port: &PortResource| port.dns_name.clone().unwrap_or_default();
    let ips = |port: &PortResource| -> BTreeSet<String> {
        let text = |ip: &FixedIp| format!("{:?}{:?}", ip.subnet_id, ip.ip_address);
        port.fixed_ips.iter().map(text).collect()
    };
    now.network_id == made.network_id
        && now.mac_address == made.mac_address
        && ips(now) == ips(made)
        && groups(now) == groups(made)
        && now.allowed_address_pairs == made.allowed_address_pairs
        && (now.host(), &now.vif_type) == (made.host(), &made.vif_type)
        && now.vnic_type == made.vnic_type
        && now.device_owner == made.device_owner
        && now.admin_state_up == made.admin_state_up
        && now.port_security_enabled == made.port_security_enabled
        && now.qos_policy_id == made.qos_policy_id
        && dns(now) == dns(made)
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
