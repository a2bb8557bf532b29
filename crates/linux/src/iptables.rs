//! The iptables back end: chains and rules as the reference plugins make them (`portmap`,
//! `firewall`, and `ipMasq` of `bridge` and `ptp`, release 1.9), so that either can follow the
//! other on a running host.
//!
//! Each operation reads the rules of a family once and writes them once, all or nothing per table.
//! Shared chains are created by a command that does not empty one that another process has just
//! created. A process that adds a shared rule reads again, and removes it where there are two.

mod change;
mod execute;
mod rules;
mod saved;

use std::collections::BTreeSet;
use std::time::Duration;

use model::{
    Attachment, AttachmentId, Backend, Error, Fact, Family, IfName, InterfaceAddress, LinkKind,
    Result,
};
use netlink::{At, HostLock, Socket};

use self::change::Change;
use self::execute::{Program, RulesLock};
use self::rules::RuleSet;
use self::saved::Saved;
use crate::identity::GROUP;
use crate::plan;

/// How often a change is tried while others change the same chains.
const ATTEMPTS: usize = 8;
/// The chains that isolate bridges.
pub(crate) const ISOLATION: [&str; 2] = [rules::STAGE_1, rules::STAGE_2];
/// How long others who change rules are waited for: each of them takes a fraction of a second.
const WAIT: Duration = Duration::from_secs(30);

/// Which of the host's iptables programs are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The programs that the host's administrator chose: `iptables-restore`.
    Host,
    /// The programs that speak to nftables: `iptables-nft-restore`.
    Nft,
    /// The programs that speak to the old tables: `iptables-legacy-restore`.
    Legacy,
}

/// A part of an attachment's wiring that this back end can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WiringPart {
    /// Source address translation.
    Masquerade,
    /// Published ports.
    Publish,
    /// Packet filtering.
    Firewall,
}

/// The iptables of the calling thread's network namespace.
#[derive(Clone, Debug)]
pub struct Iptables {
    variant: Variant,
    wait: Duration,
    lock: HostLock,
}

impl Iptables {
    /// Executes nothing yet.
    pub fn new(variant: Variant) -> Self {
        Self { variant, wait: WAIT, lock: HostLock::default() }
    }

    /// Excludes others who change the rules by this lock.
    pub fn locked_by(self, lock: &HostLock) -> Self {
        Self { lock: lock.clone(), ..self }
    }

    /// Waits no longer than this for others who change the rules.
    pub fn waiting(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Makes the rules of those parts of the attachment's wiring whose back end is iptables, in
    /// the families of its addresses. Repeating it changes nothing; ports that were published
    /// before and are not any more are taken back. Whether anything was changed.
    ///
    /// # Errors
    /// `Invalid` where an option cannot be put into a rule, `Unsupported` where there are no
    /// iptables programs, `TryAgain` where they do not end in time or others keep changing or
    /// locking the rules, `Kernel` with the program's own words otherwise. A family that failed is unchanged.
    pub fn install(&self, attachment: &Attachment) -> Result<bool> {
        let mut changed = false;
        if parts_of(attachment).is_empty() {
            return Ok(changed);
        }
        for family in families(&attachment.addresses) {
            let wanted = self.wanted(attachment, family)?;
            if !wanted.is_empty() {
                changed |= self.edit(family, |saved| change::install(saved, &wanted))?;
            }
        }
        Ok(changed)
    }

    /// Removes what [`Iptables::install`] and the reference plugins made for the attachment;
    /// what is not there is done, and so is everything where there are no iptables programs.
    ///
    /// # Errors
    /// As [`Iptables::install`]; the first one, after both families were tried.
    pub fn remove(&self, attachment: &Attachment) -> Result<()> {
        self.remove_parts(&attachment.id, &parts_of(attachment), &attachment.addresses)
    }

    /// Removes what the reference plugins made for an attachment of which there is no record.
    /// Without `addresses` everything that is named after network and container goes, in both
    /// families; filter rules bear no name and can be found only by address.
    ///
    /// # Errors
    /// As [`Iptables::install`].
    pub fn remove_parts(
        &self,
        id: &AttachmentId,
        parts: &[WiringPart],
        addresses: &[InterfaceAddress],
    ) -> Result<()> {
        if parts.is_empty() {
            return Ok(());
        }
        let mut wanted = families(addresses);
        if wanted.is_empty() {
            wanted = BTreeSet::from([Family::V4, Family::V6]);
        }
        let remove = |family| {
            let held = rules::of_family(addresses, family);
            self.edit_if_there(family, |saved| Ok(change::remove(saved, id, parts, &held)))
        };
        wanted.into_iter().map(remove).fold(Ok(()), Result::and)
    }

    /// Isolates the bridge of a network that many hosts share, whether or not a container of this host is on it: from
    /// what other networks guard, and where it `is_guarded` these from it. Repeating it changes nothing.
    ///
    /// # Errors
    /// As [`Iptables::install`].
    pub fn isolate_bridge(
        &self,
        bridge: &IfName,
        families: &[Family],
        is_guarded: bool,
    ) -> Result<()> {
        let wanted = RuleSet::of_bridge(bridge, is_guarded)?;
        let made = families
            .iter()
            .map(|family| self.edit(*family, |saved| change::install(saved, &wanted)).map(drop));
        made.fold(Ok(()), Result::and)
    }

    /// Removes the isolation of a bridge, which its containers share.
    ///
    /// # Errors
    /// As [`Iptables::install`].
    pub fn remove_bridge(&self, bridge: &IfName) -> Result<()> {
        let remove =
            |family| self.edit_if_there(family, |saved| Ok(change::remove_bridge(saved, bridge)));
        [Family::V4, Family::V6].into_iter().map(remove).fold(Ok(()), Result::and)
    }

    /// Removes the rules that isolate a bridge in these families, and nothing else of it.
    ///
    /// # Errors
    /// As [`Iptables::install`].
    pub(crate) fn remove_isolation(&self, bridge: &IfName, families: &[Family]) -> Result<()> {
        let isolations = RuleSet::isolations(bridge)?;
        let remove = |family: &Family| {
            self.edit_if_there(*family, |saved| Ok(change::remove_isolation(saved, &isolations)))
        };
        families.iter().map(remove).fold(Ok(()), Result::and)
    }

    /// Names the first rule of the attachment that is missing.
    ///
    /// # Errors
    /// `NotFound` with the rule; otherwise as [`Iptables::install`].
    pub fn check(&self, attachment: &Attachment) -> Result<()> {
        if parts_of(attachment).is_empty() {
            return Ok(());
        }
        for family in families(&attachment.addresses) {
            let wanted = self.wanted(attachment, family)?;
            if wanted.is_empty() {
                continue;
            }
            let saved = Saved::parse(&self.program(family).save()?);
            if let Some(missing) = change::missing(&saved, &wanted) {
                return Err(Error::not_found(format!(
                    "{} has no rule {:?} of {}; attach it anew",
                    self.program(family).name("restore"),
                    missing.text,
                    attachment.id
                ))
                .about(Fact::NoRule { chain: missing.chain.clone(), rule: missing.text.clone() }));
            }
        }
        Ok(())
    }

    /// Published ports are not the old tables' business, nor who comes by a route, but what they send
    /// passes there.
    fn wanted(&self, attachment: &Attachment, family: Family) -> Result<RuleSet> {
        let mut wanted = RuleSet::of(attachment, family)?;
        if self.variant == Variant::Legacy && !wanted.is_empty() {
            let held = rules::of_family(&attachment.addresses, family);
            wanted.let_published(&held);
            wanted.let_routed(attachment.wiring.passage(), family, &held)?;
        }
        if let Some(interface) = only_way(attachment)? {
            wanted.drop_unknown(attachment, (family, &interface))?;
        }
        Ok(wanted)
    }

    fn program(&self, family: Family) -> Program {
        Program::new(self.variant, family)
    }

    /// Reads, plans, and writes in one go; again where another process wrote in between. Returns
    /// whether there was anything to change.
    fn edit(&self, family: Family, plan: impl Fn(Saved) -> Result<Change>) -> Result<bool> {
        let program = self.program(family);
        let lock = RulesLock::take(&self.lock, self.wait)?;
        let mut refused: Option<(String, Error)> = None;
        let mut changed = false;
        for _ in 0..ATTEMPTS {
            let change = plan(Saved::parse(&program.save()?))?;
            let text = change.render();
            if text.is_empty() {
                return Ok(changed);
            }
            changed = true;
            match program.restore(&text, &lock) {
                Ok(()) if !change.is_contended() => return Ok(true),
                Ok(()) => refused = None,
                Err(error) if error.kind() != model::Kind::Kernel => return Err(error),
                // No process wrote in between: it would be refused again.
                Err(error) if refused.is_some_and(|(before, _)| before == text) => {
                    return Err(error);
                }
                Err(error) => refused = Some((text, error)),
            }
        }
        refused.map_or(Ok(true), |(_, error)| Err(error))
    }

    fn edit_if_there(&self, family: Family, plan: impl Fn(Saved) -> Result<Change>) -> Result<()> {
        match self.edit(family, plan) {
            Err(error) if error.kind() == model::Kind::Unsupported => Ok(()),
            result => result.map(drop),
        }
    }
}

/// The parts of the attachment's wiring that are iptables' business.
pub fn parts_of(attachment: &Attachment) -> Vec<WiringPart> {
    let wiring = &attachment.wiring;
    let backends = [
        (WiringPart::Masquerade, wiring.masquerade.as_ref().map(|part| part.backend)),
        (WiringPart::Publish, wiring.publish.as_ref().map(|part| part.backend)),
        (WiringPart::Firewall, wiring.firewall.as_ref().map(|part| part.backend)),
    ];
    let ours = backends.into_iter().filter(|(_, backend)| *backend == Some(Backend::Iptables));
    ours.map(|(part, _)| part).collect()
}

/// The interface by which everything comes to a container that comes to it by this host, as far as that is known: not where
/// the bridge is another program's, or the gateway is of a VLAN of it. There answers to what came in by another way are of
/// no connection here.
fn only_way(attachment: &Attachment) -> Result<Option<IfName>> {
    let Some(link) = &attachment.wiring.link else { return Ok(None) };
    let interface = match &link.kind {
        LinkKind::Bridge(bridge) if plan::port::vlan_of_gateway(bridge).is_none() => {
            bridge.name.clone()
        }
        LinkKind::Ptp(_) => plan::host_end(attachment)?,
        _ => return Ok(None),
    };
    let there = Socket::route()?.link(At::Name(&interface))?;
    Ok(there.filter(|link| link.group == GROUP).map(|_| interface))
}

fn families(addresses: &[InterfaceAddress]) -> BTreeSet<Family> {
    addresses.iter().map(|held| Family::of(&held.address)).collect()
}

#[cfg(test)]
mod tests;
