//! An attachment's entries in the guard of a host that forwards because of Spoke.

use model::{Attachment, Gateway, LinkKind, Result};
use netlink::{At, Socket};

use super::expected::behind;
use crate::filter::transit::{self, Entry};
use crate::forwarding;
use crate::identity::GROUP;

/// Adds the entries. Where the host forwarded before, there is no guard.
pub(super) fn report(attachment: &Attachment) -> Result<()> {
    if !is_concerned(attachment) || !forwarding::is_ours_at_all() {
        return Ok(());
    }
    let wanted = entries(attachment)?;
    if wanted.is_empty() {
        return Ok(());
    }
    let mut filter = Socket::netfilter()?;
    for entry in &wanted {
        if !transit::has(&mut filter, entry)? {
            return transit::ensure(&mut filter, &wanted);
        }
    }
    Ok(())
}

/// Whether the host forwards for it.
fn is_concerned(attachment: &Attachment) -> bool {
    match attachment.wiring.link.as_ref().map(|link| &link.kind) {
        Some(LinkKind::Bridge(bridge)) => bridge.gateway != Gateway::None,
        Some(LinkKind::Ptp(ptp)) => ptp.direct,
        Some(_) | None => false,
    }
}

fn entries(attachment: &Attachment) -> Result<Vec<Entry>> {
    let Some(behind) = behind(attachment)? else { return Ok(Vec::new()) };
    let mut entries = Vec::new();
    match attachment.wiring.let_by_route()[..] {
        [] => {}
        [only] => entries.push(Entry::DirectOf(behind.clone(), only)),
        _ => entries.push(Entry::Direct(behind.clone())),
    }
    let trusted = attachment.wiring.passage().trusted().iter().cloned();
    entries.extend(trusted.map(|from| Entry::Trusted(from, behind.clone())));
    let link = Socket::route()?.link(At::Name(&behind))?;
    if link.is_some_and(|link| link.kind.as_deref() == Some("bridge") && link.group != GROUP) {
        entries.push(Entry::Bridge(behind));
    }
    Ok(entries)
}
