//! Join: an endpoint's way into its container.

use std::net::IpAddr;

use model::{Alias, Attachment, Family, Handoff, Result};

use super::network::alias_of;
use super::{Backstage, Stage};
use crate::driver::join::{bring_in, moved, routes};
use libnetwork::{Answer, Joined};

/// Join. The answer has the gateways and the routes of the subnets; Docker's own gateway network is
/// never wanted.
pub(super) fn join<B: Backstage>(stage: &Stage<'_, B>, call: &libnetwork::Join) -> Result<Answer> {
    let alias = alias_of(stage, &call.at.network)?;
    let joined = bring_in(stage.engine, &alias, call, stage.backstage)?;
    let prefix = alias.prefix.clone().or_else(|| stage.settings.prefix.clone());
    let alias = Alias { prefix, ..alias };
    let ours = joined.handoff == Handoff::Finish;
    let answer = Joined {
        interface: if ours { None } else { Some(moved(&alias, &joined)?) },
        gateway: match gateway(&joined, Family::V4) {
            Some(IpAddr::V4(v4)) => Some(v4),
            Some(IpAddr::V6(_)) | None => None,
        },
        gateway_v6: match gateway(&joined, Family::V6) {
            Some(IpAddr::V6(v6)) => Some(v6),
            Some(IpAddr::V4(_)) | None => None,
        },
        routes: if ours { Vec::new() } else { routes(&joined, &joined.routes) },
        no_gateway_service: true,
    };
    Ok(Answer::Joined(Box::new(answer)))
}

/// The default route's, or that of the subnet in which the address lies; what we complete has it
/// already.
fn gateway(joined: &Attachment, family: Family) -> Option<IpAddr> {
    let first = joined.addresses.iter().find(|held| Family::of(&held.address) == family);
    let usual = first.and_then(|held| held.gateway);
    let default = joined.routes.iter().find(|route| route.dst == family.everything());
    match (default, joined.handoff) {
        (Some(_), Handoff::Finish) => None,
        (Some(route), Handoff::Caller) => route.via.or(usual),
        (None, _) => usual,
    }
}
