//! The options of `docker network create -o`: Spoke's own keys, and those of Docker's bridge driver
//! that mean the same.

use std::net::{IpAddr, Ipv4Addr};

use model::{EgressPolicy, Error, Handoff, IfName, IngressPolicy, Labels, Publisher, Result};
use spec::{DefaultRoute, FrontEnd, KindSpec, NetworkSpec, Source, Texts};

use libnetwork;

mod kind;
mod mode;
mod passage;
mod tenant;

use kind::KindOptions;
pub(crate) use kind::pools_of_others;
use mode::{Families, Mode, Modes};

const FRONT: FrontEnd = FrontEnd::Docker;

const ISOLATION: &str = "isolation";
const PORTS: &[&str] = &["ports"];
const INTERFACES: &[&str] = &["interfaces"];
const EGRESS: &str = "egress";
const VIA: &str = "via";
const GATEWAY: &[&str] = &["gateway"];
pub(super) const ICC: &[&str] = &["com.docker.network.bridge.enable_icc"];
const BINDING: &[&str] = &["com.docker.network.bridge.host_binding_ipv4"];
const MODE_V4: &[&str] = &["com.docker.network.bridge.gateway_mode_ipv4"];
const MODE_V6: &[&str] = &["com.docker.network.bridge.gateway_mode_ipv6"];
const INHIBIT: &[&str] = &["com.docker.network.bridge.inhibit_ipv4"];
const PREFIX: &[&str] = &["com.docker.network.container_iface_prefix"];

/// The longest prefix of an interface's name: two digits must fit behind it.
const LONGEST_PREFIX: usize = 13;

/// Reads a network's options; fails on the first that is unknown, senseless or in contradiction.
pub(crate) fn read(options: &libnetwork::NetworkOptions) -> Result<NetworkSpec> {
    let (labels, generic) = Labels::split(&options.generic)?;
    let texts = Texts { flag: "-o", map: &generic };
    let spec = texts.network(FRONT)?;
    let egress = match options.internal {
        true => EgressPolicy::Internal,
        false => EgressPolicy::Open,
    };
    let given = kind::read(&texts, &spec)?;
    let modes = Modes::read(&texts, options)?;
    let (direct, direct_only) = passage::direct(&texts, modes.of(Mode::Unprotected), spec.direct)?;
    let masquerade = passage::masquerade(&texts, modes, spec.masquerade)?;
    passage::check_sources(&texts, masquerade, modes, &spec.sources)?;
    let (publisher, handoff) = (publisher(&texts, modes, &given)?, handoff(&texts)?);
    if (publisher, handoff) == (Some(Publisher::Runtime), Some(Handoff::Finish)) {
        // Docker would call its own interface in the container as we call ours.
        return Err(texts.contradiction(PORTS[0], INTERFACES[0]));
    }
    if publisher == Some(Publisher::Runtime) && spec.fence.is_some() {
        // Containers would leave by Docker's own bridge.
        return Err(texts.contradiction(PORTS[0], EGRESS));
    }
    if publisher == Some(Publisher::Runtime) && spec.via.is_some() {
        return Err(texts.contradiction(PORTS[0], VIA));
    }
    let spec = NetworkSpec {
        route: route(&texts, modes, egress, &given)?,
        source: if given.dhcp { Source::Dhcp } else { Source::Book },
        kind: given.kind,
        ingress: ingress(&texts, spec.ingress)?,
        egress,
        publisher,
        handoff,
        direct,
        direct_only,
        passage: passage::passage(&texts, modes, publisher, spec.passage)?,
        masquerade,
        host_absent: modes.host_absent(),
        masquerade_only: match modes.of(Mode::Routed) {
            Families::Only(routed) => Some(routed.other()),
            Families::Neither | Families::All => None,
        },
        labels,
        publish_on: binding(&texts)?,
        prefix: prefix(&texts)?,
        ..spec
    };
    tenant::settle(spec, &texts)
}

/// Whether it has an option that only a bridge has.
pub(crate) fn is_of_bridge(spec: &NetworkSpec) -> bool {
    spec.bridge.is_some()
        || spec.ingress.is_some()
        || spec.reach.is_some()
        || spec.direct.is_some()
        || spec.passage.is_some()
        || !spec.sources.is_empty()
        || spec.masquerade.is_some()
        || spec.promiscuous.is_some()
        || spec.hairpin.is_some()
        || spec.names.is_some()
        || spec.fence.is_some()
        || spec.via.is_some()
}

fn prefix(texts: &Texts<'_>) -> Result<Option<IfName>> {
    texts.one(PREFIX, "the beginning of an interface name, at most 13 bytes", |text| {
        text.parse().ok().filter(|_| text.len() <= LONGEST_PREFIX)
    })
}

/// From where containers are reached, where the caller says so.
pub(super) fn ingress(
    texts: &Texts<'_>,
    isolation: Option<IngressPolicy>,
) -> Result<Option<IngressPolicy>> {
    match (texts.flag(ICC)?, isolation) {
        (None, isolation) => Ok(isolation),
        (Some(false), None | Some(IngressPolicy::Isolated)) => Ok(Some(IngressPolicy::Isolated)),
        (Some(true), None) => Ok(None),
        (Some(true), Some(policy)) if policy != IngressPolicy::Isolated => Ok(Some(policy)),
        (Some(_), Some(_)) => Err(texts.contradiction(ICC[0], ISOLATION)),
    }
}

fn publisher(texts: &Texts<'_>, modes: Modes, kind: &KindOptions) -> Result<Option<Publisher>> {
    let words = [("spoke", Publisher::Spoke), ("docker", Publisher::Runtime)];
    let given = texts.word(PORTS, &words)?;
    // Hosts on the segment reach containers there directly, and this host may not.
    if kind.kind.as_ref().is_some_and(|kind| kind.is_lan() || matches!(kind, KindSpec::Ovs(_))) {
        return match given {
            Some(Publisher::Spoke) => Err(texts.contradiction(PORTS[0], kind.key)),
            given => Ok(Some(given.unwrap_or(Publisher::None))),
        };
    }
    match (modes.of(Mode::Routed), given) {
        (Families::All, None) => Ok(Some(Publisher::None)),
        (Families::All, Some(_)) | (Families::Only(_), Some(Publisher::Runtime)) => {
            Err(texts.contradiction(PORTS[0], mode_key(texts)))
        }
        (Families::Neither | Families::Only(_), given) => Ok(given),
    }
}

fn handoff(texts: &Texts<'_>) -> Result<Option<Handoff>> {
    let words = [("docker", Handoff::Caller), ("spoke", Handoff::Finish)];
    texts.word(INTERFACES, &words)
}

fn route(
    texts: &Texts<'_>,
    modes: Modes,
    egress: EgressPolicy,
    kind: &KindOptions,
) -> Result<Option<DefaultRoute>> {
    let words = [
        ("default", DefaultRoute::Bridge),
        ("address", DefaultRoute::Nowhere),
        ("none", DefaultRoute::Segment),
    ];
    let given = texts.word(GATEWAY, &words)?;
    if kind.is_elsewhere() {
        return elsewhere(texts, given, egress, kind).map(Some);
    }
    let inhibited = texts.flag(INHIBIT)?.unwrap_or(false);
    match (modes.is_isolated(), inhibited, given) {
        (_, true, Some(_)) => Err(texts.contradiction(INHIBIT[0], GATEWAY[0])),
        (true, true, None) => Err(texts.contradiction(INHIBIT[0], mode_key(texts))),
        (true, false, Some(other)) if other != DefaultRoute::Segment => {
            Err(texts.contradiction(GATEWAY[0], mode_key(texts)))
        }
        (true, false, _) => Ok(Some(DefaultRoute::Segment)),
        (false, true, None) if egress == EgressPolicy::Internal => Ok(Some(DefaultRoute::Segment)),
        (false, true, None) => Ok(Some(DefaultRoute::Router)),
        (false, false, Some(DefaultRoute::Bridge)) if egress == EgressPolicy::Internal => {
            Err(no_way_out())
        }
        (false, false, given) => Ok(given),
    }
}

/// The gateway is elsewhere: a router on the segment, or one that the plugins name.
fn elsewhere(
    texts: &Texts<'_>,
    given: Option<DefaultRoute>,
    egress: EgressPolicy,
    kind: &KindOptions,
) -> Result<DefaultRoute> {
    let is_internal = egress == EgressPolicy::Internal;
    if is_internal && kind.is_external() {
        return Err(Error::unsupported(format!(
            "--internal: the source of the addresses ({} {}) gives the default route with them",
            texts.flag, kind.key
        )));
    }
    match given {
        Some(DefaultRoute::Segment) if !kind.is_external() => Ok(DefaultRoute::Segment),
        None if is_internal => Ok(DefaultRoute::Segment),
        Some(DefaultRoute::Bridge) if is_internal => Err(no_way_out()),
        None | Some(DefaultRoute::Bridge) => Ok(DefaultRoute::Router),
        Some(DefaultRoute::Nowhere | DefaultRoute::Router | DefaultRoute::Segment) => {
            Err(texts.contradiction(GATEWAY[0], kind.key))
        }
    }
}

fn no_way_out() -> Error {
    Error::invalid(
        "-o gateway=default: an internal network has no default route; leave out either this or \
         --internal",
    )
}

fn binding(texts: &Texts<'_>) -> Result<Option<IpAddr>> {
    let given: Option<Ipv4Addr> =
        texts.one(BINDING, "an IPv4 address", |text| text.parse().ok())?;
    Ok(given.filter(|address| !address.is_unspecified()).map(IpAddr::V4))
}

fn mode_key(texts: &Texts<'_>) -> &'static str {
    if texts.map.contains_key(MODE_V4[0]) { MODE_V4[0] } else { MODE_V6[0] }
}

#[cfg(test)]
mod tests;
