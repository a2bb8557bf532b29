//! A sandbox's record: its attachments, and the process that changes it.

use std::time::Duration;

use model::{
    Attachment, AttachmentId, ContainerId, Error, Family, GatewayState, Layer, PortMap, Process,
    Result, SandboxRecord,
};

use crate::Links;
use crate::links::gateway_choice::Candidate;
use crate::links::sandbox_ports::named;
use crate::port::{AttachmentLock, Key, Presence, Record, Txn};
use crate::records::book::{Read, unchanged};

/// How long one waits for another process that changes the same sandbox, in all: it may wait for some
/// calls of a plugin, one after the other.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The interval at which to check whether that process is done. A daemon does not end.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

impl Links<'_> {
    /// Adds to the transaction that begins there that an attachment has left its sandbox, and that
    /// its ports are not served.
    pub(super) fn part_from_sandbox(&self, attachment: &Attachment) -> Result<Txn> {
        match attachment.gateway_role {
            None => Ok(Txn::new()),
            Some(_) => {
                let txn = self.addresses.disclaim_ports(attachment, Txn::new())?;
                self.dismiss(attachment, named(attachment), txn)
            }
        }
    }

    /// Whether the namespace of an attachment is provably gone, although its path and its link
    /// prove nothing.
    pub(super) fn is_ended(&self, attachment: &Attachment) -> bool {
        let (Some(_), Some(sandbox)) = (&attachment.gateway_role, &attachment.sandbox) else {
            return false;
        };
        let sandbox_record =
            self.records.sandbox_record_of(attachment.sandbox_name()).ok().flatten();
        let known = sandbox_record.and_then(|read| read.value.namespace);
        let its = known.filter(|namespace| namespace.inode == sandbox.inode);
        its.is_some_and(|namespace| self.driver.is_ended(&namespace))
    }

    /// Adds the attachment to its sandbox's record in the transaction, where Spoke connects the
    /// sandbox.
    ///
    /// The first attachment becomes the default gateway at once, where its driver can do that,
    /// because there is no other candidate. That changes the default gateway, and the record says
    /// so.
    pub(crate) fn enlist(&self, attachment: &mut Attachment, txn: Txn) -> Result<Txn> {
        if attachment.gateway_role.is_none() {
            return Ok(txn);
        }
        let read = self.records.sandbox_record_of(attachment.sandbox_name())?;
        let mut sandbox_record = read.as_ref().map(|read| read.value.clone()).unwrap_or_default();
        sandbox_record.members.insert(attachment.id.clone());
        let publish = attachment.wiring.publish.as_ref();
        for map in publish.into_iter().flat_map(|publish| &publish.added) {
            for list in [&mut sandbox_record.ports, &mut sandbox_record.added] {
                if !list.contains(map) {
                    list.push(map.clone());
                }
            }
        }
        let sets_gateway_at_once = read.is_none() && self.driver.sets_gateway_at_once(attachment);
        if let Some(gateway_role) =
            attachment.gateway_role.as_mut().filter(|_| sets_gateway_at_once)
        {
            gateway_role.families = vec![Family::V4, Family::V6];
            sandbox_record.gateway_state = GatewayState::By(self.host.me());
        }
        let key = Key::Sandbox(attachment.sandbox_name().clone());
        Ok(txn
            .require(key.clone(), unchanged(read.as_ref()))
            .put(key, Record::Sandbox(sandbox_record)))
    }

    /// Removes the attachment from its sandbox's record in the transaction, with the ports that
    /// only it brought.
    pub(super) fn dismiss(
        &self,
        attachment: &Attachment,
        withdrawn: &[PortMap],
        txn: Txn,
    ) -> Result<Txn> {
        if attachment.gateway_role.is_none() {
            return Ok(txn);
        }
        let container = attachment.sandbox_name();
        let Some(read) = self.records.sandbox_record_of(container)? else { return Ok(txn) };
        let expect = unchanged(Some(&read));
        let mut sandbox_record = read.value;
        if !sandbox_record.members.remove(&attachment.id) {
            return Ok(txn);
        }
        sandbox_record.ports.retain(|map| !withdrawn.contains(map));
        let key = Key::Sandbox(container.clone());
        let txn = txn.require(key.clone(), expect);
        Ok(match sandbox_record.members.is_empty() {
            true => txn.delete(key),
            false => txn.put(key, Record::Sandbox(sandbox_record)),
        })
    }

    /// Whether any attachment of a container proves that its sandbox is there.
    pub(crate) fn is_there(&self, container: &ContainerId) -> Result<bool> {
        let Some(read) = self.records.sandbox_record_of(container)? else { return Ok(false) };
        for id in &read.value.members {
            let record = self.records.record_of(id, Layer::Link)?;
            if record.is_some_and(|read| self.driver.presence(&read.value) == Presence::Alive) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Threads of one process are one to the store: each sandbox has its turn as each attachment
    /// has one. No interface can be called so.
    pub(crate) fn lock_of(&self, container: &ContainerId) -> Result<AttachmentLock> {
        let (network, ifname) =
            (crate::links::gateway_choice::GATEWAY_NETWORK.parse()?, "*".parse()?);
        Ok(self.host.lock_attachment(&AttachmentId {
            network,
            container: container.clone(),
            ifname,
        }))
    }

    /// Another process that changes the sandbox's default gateway.
    pub(crate) fn other_changer(&self, sandbox_record: &SandboxRecord) -> Option<Process> {
        match sandbox_record.gateway_state {
            GatewayState::By(by) if by != self.host.me() && self.host.is_running(&by) => Some(by),
            GatewayState::By(_) | GatewayState::Determined | GatewayState::Undetermined => None,
        }
    }

    pub(crate) fn outwait(
        &self,
        read: &Read<SandboxRecord>,
        other: Process,
        container: &ContainerId,
    ) -> Result<()> {
        let is_changed = || {
            let now = self.records.sandbox_record_of(container)?;
            Ok(now.map(|now| now.revision) != Some(read.revision))
        };
        match self.wait(&other, TIMEOUT, is_changed)? {
            true => Ok(()),
            false => Err(Error::try_again(format!(
                "process {} still changes the default gateway of container {container}",
                other.pid
            ))),
        }
    }

    /// Waits until the process has ended, or has done what it was at; `false`: neither in time.
    pub(crate) fn wait(
        &self,
        process: &Process,
        limit: Duration,
        is_over: impl Fn() -> Result<bool>,
    ) -> Result<bool> {
        self.driver.pause();
        for _ in 0..limit.as_millis() / POLL_INTERVAL.as_millis() {
            if self.host.wait_for_end(process, POLL_INTERVAL) || is_over()? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Of the families in which it became default gateway at once, those that have a default route.
pub(crate) fn set_gateway_where_it_can(complete: &mut Attachment) {
    let Some(candidate) = Candidate::of(complete) else { return };
    if let Some(gateway_role) = &mut complete.gateway_role {
        gateway_role.families.retain(|family| candidate.default_families.contains(family));
    }
}
