//! Rules that attachments share: the host's own filter accepts their packets.

use std::time::{Duration, Instant};

use model::{
    Attachment, Backend, Family, Firewall, IfName, IngressPolicy, Kind, Link, Passage, Result,
    Wiring,
};
use netlink::{At, Socket, xtables};

use super::Policy;
use super::expected::{behind, owner, switching};
use crate::filter::Open;
use crate::identity::GROUP;
use crate::iptables::{self, Iptables, Variant};
use crate::{filter, firewalld, forwarding};

impl Policy {
    /// As [`Policy::restore`], for what attachments of a bridge share.
    pub(crate) fn restore_shared(&self, attachment: &Attachment) -> Result<bool> {
        match owner(attachment)? {
            Some(_) => {
                let again = |old: &_| self.install_rules_again(Variant::Legacy, old);
                let missed = self.let_forward(attachment, &behind(attachment)?, again);
                match (missed, self.forget_former_isolation(attachment)) {
                    // What failed is tried again at a later look, and reported then.
                    (Ok(true), Err(_)) => Ok(true),
                    (missed, forgotten) => forgotten.and(missed),
                }
            }
            None => Ok(false),
        }
    }

    /// As [`crate::iptables::Iptables::install`], in healing: a process that keeps the lock does not keep it from what
    /// needs no lock.
    pub(super) fn install_rules_again(
        &self,
        variant: Variant,
        attachment: &Attachment,
    ) -> Result<bool> {
        self.change_rules_again(variant, |iptables| iptables.install(attachment))
    }

    fn change_rules_again<T>(
        &self,
        variant: Variant,
        change: impl FnOnce(&Iptables) -> Result<T>,
    ) -> Result<T> {
        let is_kept = self.kept_until.get().is_some_and(|until| Instant::now() < until);
        let wait = if is_kept { Duration::ZERO } else { WAIT };
        let changed = change(&self.iptables(variant).waiting(wait));
        if let Err(error) = &changed
            && error.kind() == Kind::TryAgain
            && !is_kept
        {
            self.kept_until.set(Some(Instant::now() + PAUSE));
        }
        changed
    }

    /// Makes the host's own filter let the packets pass, where it drops what it forwards. Whether it
    /// did not. `in_old_tables` does it there.
    pub(super) fn let_forward(
        &self,
        attachment: &Attachment,
        behind: &Option<IfName>,
        in_old_tables: impl Fn(&Attachment) -> Result<bool>,
    ) -> Result<bool> {
        let Some(firewall) = &attachment.wiring.firewall else { return Ok(false) };
        let (Backend::Nftables, Some(behind)) = (firewall.backend, behind) else {
            return Ok(false);
        };
        let wiring = &attachment.wiring;
        let let_by_route = wiring.let_by_route();
        let open = Open { direct: &let_by_route, trusted: wiring.passage().trusted() };
        let ours = forwarding::ours();
        let (others, allowed) = self.with(|socket| {
            let switched = match switching(attachment) {
                Some(bridge) => filter::allow_forwarding(socket, bridge, open, &ours)?.changed,
                None => false,
            };
            let trusted = firewalld::trust(socket, behind)?;
            Ok((switched || trusted, filter::allow_forwarding(socket, behind, open, &ours)?))
        })?;
        let changed = others || allowed.changed;
        if allowed.legacy.is_empty() {
            return Ok(changed);
        }
        let mut old = in_iptables(attachment);
        old.addresses.retain(|held| allowed.legacy.contains(&Family::of(&held.address)));
        match in_old_tables(&old) {
            // A program that is not installed here made those rules (k3s, Docker in a container).
            // They need not drop anything; `spoke doctor` checks whether they do.
            Err(error) if error.kind() == Kind::Unsupported => Ok(changed),
            installed => installed.map(|legacy| legacy || changed),
        }
    }
}

impl Policy {
    /// Version 0.1.0 isolated the bridges of Spoke's in the old tables, too, where these have rules. They drop what
    /// goes to published ports; our table isolates without them.
    fn forget_former_isolation(&self, attachment: &Attachment) -> Result<()> {
        let Some(bridge) = isolated(attachment) else { return Ok(()) };
        let now = Instant::now();
        let looked_at = self.looked_at.borrow().get(bridge).copied();
        if looked_at.is_some_and(|at| now.duration_since(at) < LOOKED) {
            return Ok(());
        }
        self.looked_at.borrow_mut().insert(bridge.clone(), now);
        // What cannot be read is left alone.
        let has = |family: &Family| {
            xtables::names_interface(*family, &iptables::ISOLATION, bridge).unwrap_or(false)
        };
        let families: Vec<Family> = [Family::V4, Family::V6].into_iter().filter(has).collect();
        if families.is_empty() {
            return Ok(());
        }
        let there = Socket::route()?.link(At::Name(bridge))?;
        // A bridge that others have made they may isolate, too.
        if there.is_none_or(|link| link.group != GROUP) {
            return Ok(());
        }
        self.restore_own(attachment)?;
        self.change_rules_again(Variant::Legacy, |iptables| {
            iptables.remove_isolation(bridge, &families)
        })
    }
}

/// The bridge that our table isolates for the attachment.
fn isolated(attachment: &Attachment) -> Option<&IfName> {
    let firewall = attachment.wiring.firewall.as_ref()?;
    let is_ours = firewall.backend == Backend::Nftables && firewall.ingress != IngressPolicy::Open;
    let bridge = attachment.wiring.link.as_ref()?.kind.bridge().filter(|_| is_ours)?;
    Some(&bridge.name)
}

/// How long healing waits for others who change iptables rules.
const WAIT: Duration = Duration::from_secs(2);
/// How long it waits no more once one of them has kept the lock for all that time: healing goes on with the
/// rest of the host.
const PAUSE: Duration = Duration::from_secs(60);

/// So long it does not look again at what the old tables have of a bridge: all attachments of one share that.
const LOOKED: Duration = Duration::from_secs(10);

/// The attachment as far as the old iptables must let its packets pass, which our table cannot make
/// it do. Our table isolates networks: the plugins' rules for that would drop what goes to published ports too.
pub(super) fn in_iptables(attachment: &Attachment) -> Attachment {
    let bridge = attachment.wiring.link.as_ref().and_then(bridge_of);
    let passage = match attachment.wiring.let_by_route()[..] {
        [] => attachment.wiring.passage().clone(),
        [only] => Passage::EverybodyOf(only),
        _ => Passage::Everybody,
    };
    let firewall = attachment.wiring.firewall.clone().map(|part| Firewall {
        backend: Backend::Iptables,
        passage,
        ingress: IngressPolicy::Open,
        bridge: part.bridge.clone().or(bridge),
        ..part
    });
    Attachment { wiring: Wiring { firewall, ..Wiring::default() }, ..attachment.clone() }
}

fn bridge_of(link: &Link) -> Option<IfName> {
    link.kind.bridge().map(|bridge| bridge.name.clone())
}
