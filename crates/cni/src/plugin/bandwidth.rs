//! `bandwidth`: limits of what the container sends and receives, chained behind a main plugin.

use model::{Bandwidth, Error, Fact, IfName, Rate, Result, Wiring};

use super::Plan;
use crate::call::Call;
use crate::capability;
use crate::wire::{Command, Object, Success};
use crate::words::reported;

/// The fields of the configuration. Without any of them, the capability `bandwidth` counts.
const FIELDS: [&str; 4] = ["ingressRate", "ingressBurst", "egressRate", "egressBurst"];

pub(super) fn plan(call: &Call<'_>) -> Result<Plan> {
    let limits = limits(call)?;
    // As the reference, whose CHECK asks for interfaces also where there is no limit.
    if let (Some(previous), Command::Check) = (&call.previous, call.command) {
        require_interfaces(previous)?;
    }
    let Some(limits) = limits else { return Ok(Plan { idle: true, ..Plan::default() }) };
    let device = match (&call.previous, &call.subject, call.command) {
        (Some(previous), Some((_, ifname)), Command::Add | Command::Check) => {
            Some(host_end(previous, ifname)?)
        }
        (_, _, _) => None,
    };
    let wiring = Wiring { bandwidth: Some(Bandwidth { device, ..limits }), ..Wiring::default() };
    Ok(Plan { wiring, ..Plan::default() })
}

/// Limits of which nothing is known.
pub(super) fn remnant() -> Wiring {
    Wiring { bandwidth: Some(Bandwidth::default()), ..Wiring::default() }
}

/// The limits that are asked for, if there are any.
pub(super) fn limits(call: &Call<'_>) -> Result<Option<Bandwidth>> {
    let root = call.config.root();
    let runtime = match call.config.runtime()? {
        Some(runtime) => runtime.object(capability::BANDWIDTH)?,
        None => None,
    };
    let is_configured = FIELDS.iter().any(|key| root.get(key).is_some());
    let asked = match runtime {
        Some(runtime) if !is_configured => runtime,
        Some(_) | None => root,
    };
    of(&asked)
}

/// The limits that an object asks for, if it asks for any.
pub(super) fn of(asked: &Object<'_>) -> Result<Option<Bandwidth>> {
    let ingress = rate(asked, "ingressRate", "ingressBurst")?;
    let egress = rate(asked, "egressRate", "egressBurst")?;
    Ok((ingress.is_some() || egress.is_some()).then_some(Bandwidth {
        ingress,
        egress,
        ..Bandwidth::default()
    }))
}

/// Both are in bits; without both there is no limit. The kernel counts bytes, in 32 bits.
fn rate(asked: &Object<'_>, rate: &str, burst: &str) -> Result<Option<Rate>> {
    let bits = |key: &str| {
        let number = asked.integer(key)?.unwrap_or(0);
        u64::try_from(number).map_err(|_| {
            Error::invalid(format!("{key:?} is {number}, which is not a number of bits"))
        })
    };
    let wrong =
        |what: &str| Err(reported(what, &format!(": they are {rate:?} and {burst:?}, in bits")));
    match (bits(rate)?, bits(burst)?) {
        (0, 0) => Ok(None),
        (_, 0) => wrong("if rate is set, burst must also be set"),
        (0, _) => wrong("if burst is set, rate must also be set"),
        (_, burst) if burst / 8 >= u64::from(u32::MAX) => wrong("burst cannot be more than 4GB"),
        (rate, burst) => Ok(Some(Rate { rate, burst })),
    }
}

fn require_interfaces(previous: &Success) -> Result<()> {
    match previous.interfaces.is_empty() {
        false => Ok(()),
        true => Err(reported("no interfaces provided", ": \"prevResult.interfaces\" is empty")),
    }
}

/// The host's end of the container's pair: what was made last in the host before the interface.
fn host_end(previous: &Success, ifname: &IfName) -> Result<IfName> {
    require_interfaces(previous)?;
    let is_own =
        |it: &&crate::wire::Interface| it.name == ifname.as_str() && !it.sandbox.is_empty();
    let before = previous.interfaces.iter().take_while(|it| !is_own(it));
    match before.filter(|it| it.sandbox.is_empty()).last() {
        Some(end) => end.name.parse(),
        None => Err(Error::invalid(format!(
            "container interface {ifname} has no veth peer in \"prevResult\": bandwidth is for \
             pairs, as bridge and ptp make them"
        ))
        .about(Fact::Whole(format!(
            "container interface {ifname} has no veth peer: interface \"{ifname}\" was not a veth \
             interface"
        )))),
    }
}
