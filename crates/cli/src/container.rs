//! Which attached container is meant by a name.

use std::collections::BTreeSet;

use engine::Engine;
use model::{
    Amendment, Attachment, AttachmentId, ContainerId, Error, Kind, Layer, NetworkName, OwnerName,
    Phase, Result, Route, Runtime,
};

use crate::context::CommandContext;
use crate::titles;

/// The fewest characters of an id that stand for it.
const SHORTEST: usize = 6;

/// Whose containers have names.
const RUNTIMES: [Runtime; 5] =
    [Runtime::Cni, Runtime::Podman, Runtime::Spoke, Runtime::Docker, Runtime::Kurma];

/// A container's name, as it was typed: `web`, `podman:web`, or `podman/web` as listings have it.
pub(super) struct Called<'a> {
    runtime: Option<String>,
    name: &'a str,
    /// All of it, where a slash is behind the runtime: a pod's namespace may have the name of one.
    pod: Option<&'a str>,
}

impl<'a> Called<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let is_runtime =
            |(word, _): &(&str, &str)| RUNTIMES.iter().any(|it| it.to_string() == *word);
        if let Some((runtime, name)) = text.split_once(':') {
            return Self { runtime: Some(runtime.to_owned()), name, pod: None };
        }
        match text.split_once('/').filter(is_runtime) {
            Some((runtime, name)) => {
                Self { runtime: Some(runtime.to_owned()), name, pod: Some(text) }
            }
            None => Self { runtime: None, name: text, pod: None },
        }
    }

    /// Whether a container of that runtime and name is meant ([`model::is_owner_called`]).
    pub(super) fn is_name(&self, runtime: Runtime, name: &str) -> bool {
        let is_pod = self.pod.is_some_and(|pod| model::is_owner_called(name, pod));
        is_pod || (self.is_of(runtime) && model::is_owner_called(name, self.name))
    }

    fn is_of(&self, runtime: Runtime) -> bool {
        self.runtime.as_ref().is_none_or(|wanted| *wanted == runtime.to_string())
    }

    fn is(&self, record: &Attachment) -> bool {
        let (id, sandbox) = (record.id.container.as_str(), record.sandbox_name().as_str());
        let owner = record.owner.as_ref();
        let is_known = || [id, sandbox].contains(&self.name) || is_dockers_id(record, self.name);
        let is_id = self.is_of(record.runtime) && is_known();
        is_id || owner.is_some_and(|owner| self.is_name(record.runtime, owner.as_str()))
    }

    /// The name, with the runtime that was named.
    fn shown(&self) -> String {
        let name = model::text::shown(self.name);
        let runtime = self.runtime.as_deref().map(model::text::shown);
        runtime.map_or_else(|| name.clone(), |runtime| format!("{runtime}/{name}"))
    }

    fn begins(&self, record: &Attachment) -> bool {
        self.name.len() >= SHORTEST
            && self.is_of(record.runtime)
            && record.id.container.as_str().starts_with(self.name)
    }
}

/// The digits that `docker ps` shows of an id.
const SHORT_ID: usize = 12;

/// Whether this is the id of a container of Docker's, whole or as `docker ps` shows it: an engine lists it among what the
/// container is called, and the record's own id is that of the endpoint.
pub(super) fn is_dockers_id(record: &Attachment, word: &str) -> bool {
    record.runtime == Runtime::Docker
        && may_be_dockers_id(word)
        && record.names.iter().any(|name| word.get(..SHORT_ID) == Some(name.as_str()))
}

/// Whether a container of Docker's may have this id.
fn may_be_dockers_id(word: &str) -> bool {
    let digits = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    [SHORT_ID, 64].contains(&word.len()) && word.bytes().all(digits)
}

/// The complete attachments of the container that is called so, on one network or on all.
///
/// # Errors
/// `NotFound` where there is none, `Conflict` where there are several containers.
pub(super) fn attachments(
    engine: &Engine<'_>,
    called: &Called<'_>,
    network: Option<&NetworkName>,
    context: &CommandContext,
) -> Result<Vec<Attachment>> {
    let mut found = named(engine, called)?;
    if found.is_empty() && learn(engine, called, context)? {
        found = named(engine, called)?;
    }
    let who: BTreeSet<_> =
        found.iter().map(|it| (it.runtime.to_string(), it.container_name())).collect();
    refuse_several(called, &who)?;
    if let Some(network) = network {
        let network = titles::meant(engine, network)?;
        found.retain(|it| it.id.network == network);
    }
    match found.is_empty() {
        false => Ok(found),
        true => Err(Error::not_found(format!(
            "no container '{}' is attached{}; `spoke ps` lists what is",
            called.shown(),
            network.map_or(String::new(), |name| format!(" to network {name}"))
        ))),
    }
}

/// The records of the container that is called so, and what its name keeps: of one that is away that alone. Of every
/// container, where none is named.
///
/// # Errors
/// As [`attachments`].
pub(super) fn shown(
    engine: &Engine<'_>,
    container: Option<&str>,
    context: &CommandContext,
) -> Result<(Vec<Attachment>, Vec<Amendment>)> {
    let mut kept = engine.attachments.amendments()?;
    let Some(container) = container else { return Ok((engine.records.attachments()?, kept)) };
    let called = Called::of(container);
    kept.retain(|it| called.is_name(it.runtime, it.name.as_str()));
    match attachments(engine, &called, None, context) {
        Ok(known) => Ok((with_layers(engine, &known)?, kept)),
        Err(error) if error.kind() == Kind::NotFound && !kept.is_empty() => Ok((Vec::new(), kept)),
        // Says which containers there are.
        Err(unknown) => Err(unknown),
    }
}

/// Every record of these attachments, whatever layer it is of.
fn with_layers(engine: &Engine<'_>, known: &[Attachment]) -> Result<Vec<Attachment>> {
    let containers: BTreeSet<&ContainerId> = known.iter().map(|it| &it.id.container).collect();
    let mut records = Vec::new();
    for container in containers {
        records.append(&mut engine.records.attachments_of(container)?);
    }
    records.retain(|record| known.iter().any(|it| it.id == record.id));
    // Docker gives each endpoint of a container an id of its own, and views search in the order of the whole list.
    records.sort_by(|one, other| (&one.id, one.layer).cmp(&(&other.id, other.layer)));
    Ok(records)
}

/// The container that is called so and for which amendments wait; `None` where there is none.
///
/// # Errors
/// `Conflict` where there are several containers.
pub(super) fn waiting(
    engine: &Engine<'_>,
    called: &Called<'_>,
) -> Result<Option<(Runtime, OwnerName)>> {
    let mut kept = engine.attachments.amendments()?;
    kept.retain(|it| called.is_name(it.runtime, it.name.as_str()));
    let who: BTreeSet<_> =
        kept.iter().map(|it| (it.runtime.to_string(), it.name.to_string())).collect();
    refuse_several(called, &who)?;
    Ok(kept.into_iter().next().map(|it| (it.runtime, it.name)))
}

fn refuse_several(called: &Called<'_>, who: &BTreeSet<(String, String)>) -> Result<()> {
    if who.len() < 2 {
        return Ok(());
    }
    let who: Vec<String> = who.iter().map(|(runtime, name)| format!("{runtime}:{name}")).collect();
    Err(Error::conflict(format!(
        "'{}' is the name of several containers: {}; name one of them",
        model::text::shown(called.name),
        who.join(", ")
    )))
}

fn named(engine: &Engine<'_>, called: &Called<'_>) -> Result<Vec<Attachment>> {
    let mut records = engine.records.attachments_called(called.name)?;
    if records.is_empty() && may_be_dockers_id(called.name) {
        records = engine.records.attachments()?;
    }
    records.retain(|it| matches!(it.phase, Phase::Attached(_)));
    let mut found: Vec<Attachment> = records.iter().filter(|it| called.is(it)).cloned().collect();
    if found.is_empty() {
        found = records.iter().filter(|it| called.begins(it)).cloned().collect();
    }
    // The layers beside a link have what the link has.
    let ids: BTreeSet<AttachmentId> =
        found.iter().filter(|it| it.layer == Layer::Link).map(|it| it.id.clone()).collect();
    found.retain(|it| it.layer == Layer::Link || !ids.contains(&it.id));
    Ok(found)
}

/// Docker's containers have names that the daemon learns: without it, or before, the engines are
/// asked. Whether there is one of that name.
fn learn(engine: &Engine<'_>, called: &Called<'_>, context: &CommandContext) -> Result<bool> {
    let records = engine.records.attachments()?;
    let is_nameless = |it: &&Attachment| {
        it.runtime == Runtime::Docker && it.layer == Layer::Link && it.owner.is_none()
    };
    let nameless: Vec<&Attachment> = records.iter().filter(is_nameless).collect();
    if nameless.is_empty() || !called.is_of(Runtime::Docker) {
        return Ok(false);
    }
    let mut learned = false;
    let containers = (context.running)().into_iter().filter_map(Result::ok).flatten();
    for (_, endpoint) in containers.flat_map(|container| container.endpoints) {
        let is_it = |name: &&OwnerName| called.is_name(Runtime::Docker, name.as_str());
        let record = nameless.iter().find(|it| it.id.container == endpoint.id);
        if let (Some(name), Some(record)) = (endpoint.name.as_ref().filter(is_it), record) {
            engine.attachments.set_owner(&record.id, name)?;
            learned = true;
        }
    }
    Ok(learned)
}

/// The attachment of a container over which ports lead to it: that with its default route, rather
/// one that publishes ports already.
pub(super) fn leading(mut attachments: Vec<Attachment>) -> Option<Attachment> {
    let rank = |it: &Attachment| {
        let leads = it.gateway_role.as_ref().is_some_and(|role| !role.families.is_empty());
        let publishes = it.wiring.publish.as_ref().is_some_and(|publish| !publish.is_empty());
        let routes = match &it.phase {
            Phase::Attached(attached) => attached.routes.iter().any(Route::is_default),
            Phase::Reserved | Phase::Attaching { .. } | Phase::Detaching { .. } => false,
        };
        (!leads, !publishes, !routes, it.id.clone())
    };
    attachments.sort_by_key(rank);
    attachments.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A namespace of Kubernetes may have the name of a runtime.
    #[test]
    fn a_pod_is_called_with_its_namespace_whatever_that_is() {
        for runtime in RUNTIMES {
            let text = format!("{runtime}/web");
            let called = Called::of(&text);
            assert!(called.is_name(Runtime::Cni, &format!("pod/{runtime}/web")), "{text}");
            assert!(called.is_name(runtime, "web"), "{text}");
            assert!(!called.is_name(Runtime::Cni, "pod/prod/web") || runtime == Runtime::Cni);
            let of_runtime = format!("{runtime}:web");
            let is_pod = Called::of(&of_runtime).is_name(Runtime::Cni, "pod/docker/web");
            assert_eq!(is_pod, runtime == Runtime::Cni, "{of_runtime}");
        }
    }
}
