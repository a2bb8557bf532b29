//! Carries out the choice of a sandbox's default gateway.
//!
//! A process that changes the default gateway first writes itself into the sandbox's record. While
//! it is alive no other process changes it. Once it is dead, or has failed, the state is unknown,
//! and the next process calls every driver again.

use std::time::Duration;

use model::{
    Attachment, AttachmentId, ContainerId, Error, Family, GatewayState, Kind, Layer, Namespace,
    Phase, PortMap, Process, Result, SandboxRecord,
};

use crate::attachments::begin::Role;
use crate::contention::RACES;
use crate::failures::all_of;
use crate::finding::{Finding, Garbage, Mode, Reconciled, Remedy};
use crate::links::gateway_choice::{Candidate, choose, needs_gateway_endpoint};
use crate::links::sandbox_ports::{all, share};
use crate::networks::sandbox::gateway_network::is_gateway_endpoint;
use crate::port::{Key, Outcome, Prefix, Record, Txn};
use crate::records::book::{Read, passable, unchanged};
use crate::{Connecting, Networks};

/// How long one waits for an attachment that is being removed.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(5);

/// How many names are tried for an exit.
const NAMES: u16 = 4;

/// The next step for a sandbox.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Nothing: its default gateway is the chosen one.
    Rest,
    /// Its exit goes.
    Leave(AttachmentId),
    /// It gets an exit.
    Enter,
    /// Drivers are called with their gateway role.
    GatewayRole,
}

impl Networks<'_> {
    /// Makes the chosen attachment of a container's sandbox its only default gateway, with the
    /// sandbox's ports. A sandbox that is in that state already, or that Spoke does not connect, is
    /// no error. The caller holds no turn at any of its attachments.
    pub(crate) fn update_gateway(&self, container: &ContainerId) -> Result<()> {
        if self.records.sandbox_record_of(container)?.is_none() {
            return Ok(());
        }
        let _lock = self.links.lock_of(container)?;
        self.update_gateway_locked(container, &[], false)
    }

    /// The same for the holder of the turn; `withdrawn` ports no longer belong to the sandbox.
    /// `has_started`: the caller itself wrote this process into the sandbox's record, and the
    /// attachments' records have the results.
    pub(in crate::networks) fn update_gateway_locked(
        &self,
        container: &ContainerId,
        withdrawn: &[PortMap],
        has_started: bool,
    ) -> Result<()> {
        // What is known of the default gateway, once this process is the one that changes it.
        let mut knows = None;
        let mut namespace = None;
        for _ in 0..RACES {
            let Some(mut read) = self.records.sandbox_record_of(container)? else { return Ok(()) };
            if let Some(other) = self.links.other_changer(&read.value) {
                self.links.outwait(&read, other, container)?;
                continue;
            }
            let is_determined = read.value.gateway_state == GatewayState::Determined;
            let is_started =
                has_started && read.value.gateway_state == GatewayState::By(self.host.me());
            let is_known = knows.unwrap_or(is_determined || is_started);
            let members = self.members(container, &mut read)?;
            let mut ports = all(&read.value.ports, &members);
            ports.retain(|map| !withdrawn.contains(map));
            let next = next(&members, &ports, is_known);
            namespace = namespace.or_else(|| self.namespace_of(&members)).or(read.value.namespace);
            let is_written = (&ports, namespace) == (&read.value.ports, read.value.namespace);
            let gateway_state = match next {
                Next::Rest if is_determined && is_written => return Ok(()),
                Next::Rest => GatewayState::Determined,
                Next::Leave(_) | Next::Enter | Next::GatewayRole => {
                    GatewayState::By(self.host.me())
                }
            };
            let ids = read.value.members.clone();
            let mut added = read.value.added.clone();
            added.retain(|map| !withdrawn.contains(map));
            let ports_now = ports.clone();
            let sandbox_record =
                SandboxRecord { members: ids, ports: ports_now, added, namespace, gateway_state };
            if !self.replace_sandbox_record(container, &mut read, sandbox_record)? {
                continue;
            }
            if next == Next::Rest {
                return Ok(());
            }
            if let Err(error) = self.step(&next, &members, &ports, is_known) {
                self.leave_undetermined(container);
                return Err(error.context(format!("leading container {container} out")));
            }
            knows = Some(is_known || next == Next::GatewayRole);
        }
        Err(Error::try_again(format!("the networks of container {container} change all the time")))
    }

    /// The same after an attachment left: a sandbox that is gone needs no default gateway.
    pub(in crate::networks) fn update_gateway_after_leave(
        &self,
        container: &ContainerId,
    ) -> Result<()> {
        match self.update_gateway(container) {
            Err(_) if !self.links.is_there(container)? => Ok(()),
            settled => settled,
        }
    }

    /// The namespace of the sandbox, if it exists: it may be another one than before.
    fn namespace_of(&self, members: &[Attachment]) -> Option<Namespace> {
        let mut sandboxes = members.iter().rev().filter_map(|member| member.sandbox.as_ref());
        sandboxes.find_map(|sandbox| self.driver.namespace(sandbox))
    }

    fn step(
        &self,
        next: &Next,
        members: &[Attachment],
        ports: &[PortMap],
        is_known: bool,
    ) -> Result<()> {
        match next {
            Next::Rest => Ok(()),
            Next::Leave(id) => self.links.remove(id),
            Next::Enter => self.enter(members),
            Next::GatewayRole => self.set_gateway(members, ports, is_known),
        }
    }

    /// The sandbox may have an interface that Spoke does not know, with the name that the gateway
    /// endpoint would get. Then the endpoint gets another name.
    fn enter(&self, members: &[Attachment]) -> Result<()> {
        let mut entered = Ok(());
        for place in 0..NAMES {
            let Some(request) = self.gateway_endpoint_of(members, place)? else { return Ok(()) };
            entered = self
                .attachments
                .attach_as(&request, Role::GatewayRoute(&Connecting::default()))
                .map(|_| ());
            match &entered {
                Err(error) if error.kind() == Kind::Conflict => {}
                Ok(()) | Err(_) => break,
            }
        }
        entered
    }

    /// Calls drivers with their gateway role and ports: first those that lose families, so that no
    /// two attachments are default gateways at once. Where one of these fails, none gains a family.
    fn set_gateway(&self, members: &[Attachment], ports: &[PortMap], is_known: bool) -> Result<()> {
        let candidates = candidates(members);
        let chosen = choose(&candidates);
        let mut failures = Vec::new();
        let mut now = Vec::with_capacity(members.len());
        for ((member, candidate), families) in members.iter().zip(&candidates).zip(&chosen) {
            let loses = member.published().iter().any(|map| !share(member, ports).contains(map));
            let is_kept = |family: &Family| is_known && !loses && families.contains(family);
            let kept: Vec<Family> =
                candidate.gateway_families.iter().copied().filter(is_kept).collect();
            if !is_known || kept != candidate.gateway_families {
                failures.extend(self.set_gateway_of(member, &kept).err());
            }
            now.push(kept);
        }
        all_of(failures)?;
        let mut failures = Vec::new();
        for ((member, families), now) in members.iter().zip(&chosen).zip(&now) {
            // The store has the ports before the kernel does.
            let carrier = self.links.carry(member, ports)?;
            let is_grown = carrier.published() != member.published() && !families.is_empty();
            if families != now || is_grown {
                failures.extend(self.set_gateway_of(&carrier, families).err());
            }
        }
        all_of(failures)
    }

    /// Calls one driver, and records its gateway role. An attachment that is being detached has no
    /// role any more.
    fn set_gateway_of(&self, member: &Attachment, families: &[Family]) -> Result<()> {
        let reported = self.driver.set_gateway(member, families);
        for _ in 0..RACES {
            let read = self.records.record_of(&member.id, Layer::Link)?;
            let Some(mut read) = read.filter(|it| matches!(it.value.phase, Phase::Attached(_)))
            else {
                // It goes, and takes with it what this leaves.
                let _ = self.driver.set_gateway(member, &[]);
                return Ok(());
            };
            if let Err(error) = reported {
                return Err(error);
            }
            let mut led = read.value.clone();
            match &mut led.gateway_role {
                Some(gateway_role) if gateway_role.families != families => {
                    gateway_role.families = families.to_vec()
                }
                Some(_) | None => return Ok(()),
            }
            if self.records.try_replace(&mut read, led, Txn::new())?.is_none() {
                return Ok(());
            }
        }
        Err(Error::try_again(format!("{} changes all the time", member.id)))
    }

    /// Waits until an attachment that is being removed is gone: until then it may still be the
    /// default gateway. If that takes too long the others do not wait for it.
    fn see_off(&self, id: &AttachmentId) -> Result<()> {
        let Some(read) = self.records.record_of(id, Layer::Link)? else { return Ok(()) };
        let Phase::Detaching { by, .. } = &read.value.phase else { return Ok(()) };
        if *by == self.host.me() {
            // Waits for another thread of this process, if there is one.
            drop(self.host.lock_attachment(id));
            return Ok(());
        }
        let is_over = || {
            let now = self.records.record_of(id, Layer::Link)?;
            Ok(now.map(|now| now.revision) != Some(read.revision))
        };
        self.links.wait(by, REMOVAL_TIMEOUT, is_over).map(|_| ())
    }

    /// `false`: another process has changed it.
    fn replace_sandbox_record(
        &self,
        container: &ContainerId,
        read: &mut Read<SandboxRecord>,
        with: SandboxRecord,
    ) -> Result<bool> {
        let key = Key::Sandbox(container.clone());
        let txn = Txn::new().require(key.clone(), unchanged(Some(read)));
        let txn = match with.members.is_empty() {
            true => txn.delete(key),
            false => txn.put(key, Record::Sandbox(with.clone())),
        };
        match self.store.commit(&txn)? {
            Outcome::Done(revision) => {
                *read = Read { value: with, revision };
                Ok(true)
            }
            Outcome::Lost(_) => Ok(false),
        }
    }

    /// Records that the default gateway is unknown. If this fails, the end of this process implies
    /// it.
    pub(in crate::networks) fn leave_undetermined(&self, container: &ContainerId) {
        for _ in 0..RACES {
            let Ok(Some(mut read)) = self.records.sandbox_record_of(container) else { return };
            if read.value.gateway_state != GatewayState::By(self.host.me()) {
                return;
            }
            let sandbox_record =
                SandboxRecord { gateway_state: GatewayState::Undetermined, ..read.value.clone() };
            if !matches!(
                self.replace_sandbox_record(container, &mut read, sandbox_record),
                Ok(false)
            ) {
                return;
            }
        }
    }

    /// Those that are complete: what others make or remove at this moment is chosen about when they
    /// are done. What a dead process left of one goes.
    fn members(
        &self,
        container: &ContainerId,
        sandbox_record: &mut Read<SandboxRecord>,
    ) -> Result<Vec<Attachment>> {
        let mut members = Vec::with_capacity(sandbox_record.value.members.len());
        let mut kept = sandbox_record.value.clone();
        for id in &sandbox_record.value.members {
            match self.records.record_of(id, Layer::Link)? {
                Some(read) if matches!(read.value.phase, Phase::Attached(_)) => {
                    members.push(*read.value);
                }
                // Only the holder of this turn works on a gateway endpoint.
                Some(_) if is_gateway_endpoint(id) => {
                    self.links.free_if_gone(id)?;
                }
                Some(read) if self.is_left_by_another(&read.value.phase) => {
                    // If this fails the reconciler reports it. If it became default gateway at
                    // once, there are two until then.
                    let _ = self.links.free_if_gone(id);
                }
                Some(_) => self.see_off(id)?,
                None => drop(kept.members.remove(id)),
            }
        }
        if kept != sandbox_record.value {
            // Where another process changed it, the next write notices that.
            self.replace_sandbox_record(container, sandbox_record, kept)?;
        }
        Ok(members)
    }

    fn is_left_by_another(&self, phase: &Phase) -> bool {
        let dead = |process: &Process| *process != self.host.me() && !self.host.is_running(process);
        match phase {
            Phase::Attaching { by } => dead(by),
            Phase::Detaching { by, attacher } => dead(by) && attacher.as_ref().is_none_or(dead),
            Phase::Reserved | Phase::Attached(_) => false,
        }
    }

    /// Existing sandboxes without the chosen default gateway, on which no process works.
    pub(crate) fn undetermined(&self, mode: Mode, found: &mut Reconciled) -> Result<()> {
        for (key, _) in self.store.list(&Prefix::Sandboxes)? {
            let Key::Sandbox(container) = key else { continue };
            let Some(read) = self.records.sandbox_record_of(&container)? else { continue };
            let Some(mut members) = passable(self.records.members_of(&read.value))? else {
                continue;
            };
            members.retain(|member| matches!(member.phase, Phase::Attached(_)));
            let is_known = read.value.gateway_state == GatewayState::Determined;
            let ports = all(&read.value.ports, &members);
            let is_right =
                is_known && ports == read.value.ports && next(&members, &ports, true) == Next::Rest;
            let is_idle = is_right || self.links.other_changer(&read.value).is_some();
            if is_idle || !self.links.is_there(&container)? {
                continue;
            }
            let updated = match mode {
                Mode::Mend => self.update_gateway(&container),
                Mode::DryRun => Ok(()),
            };
            let what = Garbage::Sandbox(container);
            found.add(Finding { what, remedy: Remedy::Free }, updated);
        }
        Ok(())
    }
}

fn candidates(members: &[Attachment]) -> Vec<Candidate> {
    members.iter().filter_map(Candidate::of).collect()
}

/// The next step for a sandbox of these complete attachments with these ports.
fn next(members: &[Attachment], ports: &[PortMap], is_known: bool) -> Next {
    let candidates = candidates(members);
    let gateway_network = members.iter().find(|member| is_gateway_endpoint(&member.id));
    match (needs_gateway_endpoint(&candidates), gateway_network) {
        (true, None) => return Next::Enter,
        (false, Some(gateway_network)) => return Next::Leave(gateway_network.id.clone()),
        (true, Some(_)) | (false, None) => {}
    }
    let is_chosen = candidates
        .iter()
        .zip(choose(&candidates))
        .all(|(it, families)| it.gateway_families == families);
    let is_carried = members.iter().all(|member| member.published() == share(member, ports));
    if is_known && is_chosen && is_carried { Next::Rest } else { Next::GatewayRole }
}
