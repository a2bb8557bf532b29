//! Calls that join existing networks of other front ends: one, or several at once.
//!
//! Nothing of such a call is named after its own configuration, so the records say which call made
//! them. Later contents of that configuration do not count.

use engine::{Members, Request};
use model::{Attachment, Dns, Error, Network, NetworkName, Origin, Phase, Result};

use super::{Added, network, request, require_interface};
use crate::call::Call;
use crate::plugin::Plan;
use crate::wire::{NO_ADDRESS, Success, Version};
use crate::words::reported;

/// Whether the networks are not the configuration's own.
pub(super) fn is_joining(plan: &Plan) -> bool {
    plan.network.is_some() || !plan.further.is_empty()
}

pub(super) fn add(call: &Call<'_>, plan: Plan) -> Result<Added> {
    let (engine, version) = (call.context.engine, call.config.version());
    let requests = requests(call, plan)?;
    if version < Version::V030 && requests.iter().all(|it| it.ipam == model::Ipam::None) {
        let more = format!("; a result of version {version} needs one, and no network gives one");
        return Err(reported(NO_ADDRESS, &more));
    }
    let made = engine.attachments.attach_several(&origin(call)?, &requests)?;
    let result = merged(call, &made).and_then(|success| success.render(version));
    let result = result.inspect_err(|_| {
        // An attachment whose result cannot be printed must not stay.
        let _ =
            origin(call).and_then(|origin| engine.attachments.detach_several(&origin, &requests));
    })?;
    Ok((result, made.into_iter().map(|attachment| (attachment.id, attachment.layer)).collect()))
}

pub(super) fn del(call: &Call<'_>, plan: Plan) -> Result<()> {
    call.context.engine.attachments.detach_several(&origin(call)?, &requests(call, plan)?)
}

pub(super) fn check(call: &Call<'_>, plan: Plan) -> Result<()> {
    let requests = requests(call, plan)?;
    let previous = call.previous.clone().unwrap_or_default();
    for request in &requests {
        require_interface(call, &previous, request)?;
    }
    call.context.engine.attachments.check_several(&origin(call)?, &requests, &previous.attached()?)
}

pub(super) fn status(call: &Call<'_>, plan: &Plan) -> Result<()> {
    let mut plans = std::iter::once(plan).chain(&plan.further);
    plans.try_for_each(|plan| call.context.engine.attachments.status(&network(call, plan)))
}

/// The runtime lists what it named: neither the further interfaces of a call, nor others'
/// interfaces on a network that this configuration only joins. What the call made on networks that
/// it does not name any more belongs to it too.
pub(super) fn gc(call: &Call<'_>, plan: &Plan, valid: Members) -> Result<()> {
    let engine = call.context.engine;
    let records = engine.records.attachments()?;
    let mut networks: Vec<Network> =
        std::iter::once(plan).chain(&plan.further).map(|plan| network(call, plan)).collect();
    for record in records.iter().filter(|record| made_by(record, call.config.name())) {
        if networks.iter().all(|network| network.name != record.id.network)
            && let Ok(network) = engine.records.network_of(&record.id.network)
        {
            networks.push(Network { runtime: record.runtime, ..network });
        }
    }
    let failures: Vec<Error> = networks
        .iter()
        .filter_map(|network| {
            let valid = kept(&records, network, call.config.name(), &valid);
            engine.repair.gc(network, &valid).err()
        })
        .collect();
    let sentences: Vec<String> = failures.iter().map(ToString::to_string).collect();
    match failures.first() {
        None => Ok(()),
        Some(first) => Err(Error::new(first.kind(), sentences.join("; "))),
    }
}

/// The attachments that stay on a network.
fn kept(
    records: &[Attachment],
    network: &Network,
    config: &NetworkName,
    valid: &Members,
) -> Members {
    let mut kept = valid.clone();
    for record in records.iter().filter(|record| record.id.network == network.name) {
        let container = &record.id.container;
        let member = (container.clone(), record.id.ifname.clone());
        match &record.origin {
            None if network.name == *config => {}
            Some(origin) if origin.config == *config => {
                kept.remove(&member);
                if valid.contains(&(container.clone(), origin.ifname.clone())) {
                    kept.insert(member);
                }
            }
            Some(_) | None => {
                kept.insert(member);
            }
        }
    }
    kept
}

fn made_by(record: &Attachment, config: &NetworkName) -> bool {
    record.origin.as_ref().is_some_and(|origin| origin.config == *config)
}

fn origin(call: &Call<'_>) -> Result<Origin> {
    match &call.subject {
        Some((_, ifname)) => Ok(Origin {
            config: call.config.name().clone(),
            ifname: ifname.clone(),
            routed: Vec::new(),
        }),
        None => Err(Error::bug("a container's command came without a container")),
    }
}

fn requests(call: &Call<'_>, mut plan: Plan) -> Result<Vec<Request>> {
    let further = std::mem::take(&mut plan.further);
    std::iter::once(plan).chain(further).map(|plan| request(call, plan)).collect()
}

/// One result of all, the interfaces of each together.
fn merged(call: &Call<'_>, made: &[Attachment]) -> Result<Success> {
    let mut all = Success::default();
    for attachment in made {
        let Phase::Attached(attached) = &attachment.phase else {
            return Err(Error::bug(format!("{} is not attached", attachment.id)));
        };
        let part = Success::of(attached, &call.environment.netns);
        let before = i64::try_from(all.interfaces.len()).unwrap_or_default();
        all.interfaces.extend(part.interfaces);
        all.ips.extend(part.ips.into_iter().map(|ip| crate::wire::Ip {
            interface: ip.interface.map(|place| place + before),
            ..ip
        }));
        all.routes.extend(part.routes);
        if all.dns == Dns::default() {
            all.dns = part.dns;
        }
    }
    Ok(all)
}
