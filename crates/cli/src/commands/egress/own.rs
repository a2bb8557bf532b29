//! The rules of one container, which hold instead of those of its network.

use engine::Engine;
use host::denied::Denied;
use host::time::rfc3339;
use linux::filter::fence::{self, Fenced, Own};
use model::{
    AmendmentPart, Attachment, Error, Fence, Layer, Moment, NetworkName, Result, Timestamp,
};
use netlink::Socket;
use serde::Serialize;

use crate::answer::Answer;
use crate::args::egress::SetArgs;
use crate::container::{Called, attachments, waiting};
use crate::context::CommandContext;
use crate::output::{Output, names};
use crate::titles::Titles;
use crate::view::rules;

/// What is to be set.
pub(super) enum RulesChange<'a> {
    /// The rules of a network.
    Network(NetworkName, Fence),
    /// Those of a container, or none of its own, on a network or on all of its networks.
    Container(&'a str, Option<NetworkName>, Option<Fence>),
}

impl SetArgs {
    pub(super) fn wanted(&self) -> Result<RulesChange<'_>> {
        let (first, second) = (self.first.as_deref(), self.second.as_deref());
        let network = |name: &str| name.parse::<NetworkName>();
        match (&self.container, first, second) {
            (None, Some(name), Some(rules)) => {
                Ok(RulesChange::Network(network(name)?, rules.parse()?))
            }
            (None, ..) => Err(Error::invalid("give a network and its rules, or --container")),
            (Some(_), _, Some(_)) if self.inherit => {
                Err(Error::invalid("--inherit: the network has the rules; leave others out"))
            }
            (Some(container), name, None) if self.inherit => {
                Ok(RulesChange::Container(container, name.map(network).transpose()?, None))
            }
            (Some(container), Some(rules), None) => {
                Ok(RulesChange::Container(container, None, Some(self.rules(rules)?)))
            }
            (Some(container), Some(name), Some(rules)) => Ok(RulesChange::Container(
                container,
                Some(network(name)?),
                Some(self.rules(rules)?),
            )),
            (Some(container), None, _) => {
                Err(Error::invalid(format!("which rules {container} has is missing")))
            }
        }
    }

    fn rules(&self, rules: &str) -> Result<Fence> {
        Ok(Fence { strict: self.strict, ..rules.parse()? })
    }
}

/// A container's own rules, as they are shown.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct OwnView {
    pub(super) container: String,
    pub(super) runtime: String,
    pub(super) addresses: Vec<String>,
    pub(super) rules: Vec<String>,
    pub(super) strict: bool,
    pub(super) learning_until: Option<String>,
}

/// Those of the containers on a network.
pub(super) fn views(
    engine: &Engine<'_>,
    network: &NetworkName,
    context: &CommandContext,
) -> Result<Vec<OwnView>> {
    let all = engine.records.attachments()?;
    let now = host::time::moment()?;
    let view = |attachment: &Attachment| {
        let own = attachment.wiring.own_fence.as_ref()?;
        Some(OwnView {
            container: attachment.container_name(),
            runtime: attachment.runtime.to_string(),
            addresses: attachment
                .addresses
                .iter()
                .map(|it| it.address.addr().to_string())
                .collect(),
            rules: rules::texts(own),
            strict: own.strict,
            learning_until: own
                .is_learning(&now)
                .then(|| rfc3339(Timestamp(context.now.0 + own.remaining(&now).as_secs()))),
        })
    };
    let mut views: Vec<OwnView> =
        all.iter().filter(|it| it.id.network == *network).filter_map(view).collect();
    views.sort();
    Ok(views)
}

/// The attachments that are meant, each on a network.
pub(super) fn called(
    engine: &Engine<'_>,
    container: &str,
    network: Option<&NetworkName>,
    context: &CommandContext,
) -> Result<Vec<Attachment>> {
    let mut found = attachments(engine, &Called::of(container), network, context)?;
    found.retain(|record| record.layer == Layer::Link);
    found.sort_by(|one, other| one.id.cmp(&other.id));
    match found.is_empty() {
        true => Err(Error::unsupported(format!(
            "{}: another plugin made its interface, and Spoke knows no egress of it",
            model::text::shown(container)
        ))),
        false => Ok(found),
    }
}

/// Whether it was refused to this container.
pub(super) fn is_of(attachment: &Attachment, denied: &Denied) -> bool {
    denied.runtime.as_deref() == Some(&*attachment.runtime.to_string())
        && denied.container.as_deref() == Some(&*attachment.container_name())
}

/// Gives a container rules of its own, or those of its networks again: on all of them or on none, as far as
/// that is known before.
pub(super) fn set(
    (container, network, rules): (&str, Option<NetworkName>, Option<Fence>),
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let engine = (context.engine)()?;
    let found = match called(&engine, container, network.as_ref(), context) {
        Err(error) if error.kind() == model::Kind::NotFound && rules.is_none() => {
            return forget(&engine, container, network.as_ref(), error);
        }
        found => found?,
    };
    for attachment in &found {
        let mut asked = attachment.clone();
        asked.wiring.own_fence.clone_from(&rules);
        asked.refuse_own_fence()?;
    }
    let (mut lines, titles) = (Vec::new(), Titles::read(&engine)?);
    for attachment in found {
        let now = engine.attachments.set_egress(&attachment.id, rules.as_ref())?;
        match rules {
            None => shut_by_network(&engine, &now)?,
            Some(_) => shut_by_own(&now)?,
        }
        lines.push(format!("{} on {}", now.container_name(), titles.shown(&now)));
    }
    Ok(Answer::text(names(output, &lines)?))
}

/// The attachment of a container whose own rules are meant. Of several the network says which.
pub(super) fn learner(
    engine: &Engine<'_>,
    container: &str,
    network: Option<&NetworkName>,
    context: &CommandContext,
) -> Result<Attachment> {
    let shown = || model::text::shown(container);
    let mut found = called(engine, container, network, context)?;
    found.retain(|it| it.wiring.own_fence.is_some());
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(_), false) => Err(Error::invalid(format!(
            "{} has egress rules of its own on several networks: say on which",
            shown()
        ))),
        (None, _) => Err(Error::not_found(format!(
            "{} has no egress rules of its own: `spoke egress set --container` gives it some; those of its \
             network are learned without --container",
            shown()
        ))),
    }
}

/// Has a container's own rules refuse nothing until then, or refuse again.
pub(super) fn learn(
    (container, network, until): (&str, Option<&NetworkName>, Option<Moment>),
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let engine = (context.engine)()?;
    let one = learner(&engine, container, network, context)?;
    let now = engine.attachments.learn_egress(&one.id, until.as_ref())?;
    shut_by_own(&now)?;
    let network = Titles::read(&engine)?.shown(&now);
    let line = format!("{} on {network}", now.container_name());
    Ok(Answer::text(names(output, &[line])?))
}

/// Tells the kernel for how long the container learns, and ends what its rules do not allow where it does not.
fn shut_by_own(attachment: &Attachment) -> Result<()> {
    let Some(own) = Own::of(attachment)? else { return Ok(()) };
    let now = host::time::moment()?;
    let mut socket = Socket::netfilter()?;
    fence::keep_own(&mut socket, &own, Some(&now))?;
    if own.fence.is_learning(&now) {
        return Ok(());
    }
    fence::end_packets(&mut socket, |socket| fence::prune_own(socket, &own))
}

/// Ends what the container's own rules allowed, and its network's do not.
fn shut_by_network(engine: &Engine<'_>, attachment: &Attachment) -> Result<()> {
    let network = engine.records.network_of(&attachment.id.network)?;
    let fenced = Fenced::of(&network.name, &network.wiring, &network.ipam)?;
    let now = host::time::moment()?;
    match fenced.filter(|fenced| !fenced.fence.is_learning(&now)) {
        Some(fenced) => {
            let mut socket = Socket::netfilter()?;
            fence::end_packets(&mut socket, |socket| fence::prune(socket, &fenced))
        }
        None => Ok(()),
    }
}

/// Of a container that is not attached only what its name keeps is known.
fn forget(
    engine: &Engine<'_>,
    container: &str,
    network: Option<&NetworkName>,
    unknown: Error,
) -> Result<Answer> {
    let Some((runtime, name)) = waiting(engine, &Called::of(container))? else {
        return Err(unknown);
    };
    let network = network.map(|called| engine.records.meant(called)).transpose()?;
    let (owner, part) = ((runtime, &name), AmendmentPart::Egress);
    match engine.attachments.forget_amendment(owner, network.as_ref(), part)? {
        true => Ok(Answer::default()),
        false => Err(unknown),
    }
}
