//! Where one container may go, instead of what its networks say.

use model::{Error, Fence, Result};

use super::field::{self, fence, recorded_fence};
use crate::call::Call;
use crate::capability;
use crate::wire::{Command, Node, Object};

/// Its rules, and whether they are strict: as the capability and `args.cni` call it, and as an annotation does.
const EGRESS: [&str; 2] = [capability::EGRESS, "spoke.egress"];
const STRICT: [&str; 2] = [capability::EGRESS_STRICT, "spoke.egress-strict"];

/// The capability `egress`, the annotation of its pod, or else `args.cni.egress`, or that of an entry. What cannot
/// be read keeps no container from being removed: the user who makes a pod writes its annotation.
pub(super) fn of(call: &Call<'_>, entry: Option<&Object<'_>>) -> Result<Option<Fence>> {
    if matches!(call.command, Command::Del | Command::Gc) {
        return Ok(None);
    }
    // A container that an earlier version attached goes on to be checked.
    let read = if call.command == Command::Add { fence } else { recorded_fence };
    let rules = given(call, EGRESS, entry)?.map(|node| read(&node)).transpose()?;
    let strict = given(call, STRICT, entry)?.map(|node| is_on(&node)).transpose()?;
    Fence::strictly(rules, (STRICT[0], strict.unwrap_or(false)))
}

/// What is given first of the container.
fn given<'a>(
    call: &Call<'a>,
    [key, annotation]: [&str; 2],
    entry: Option<&Object<'a>>,
) -> Result<Option<Node<'a>>> {
    if let Some(runtime) = call.config.runtime()? {
        field::refuse_null(&runtime, &[key])?;
        let annotations = runtime.object(capability::POD_ANNOTATIONS)?;
        if let Some(pod) = &annotations {
            refuse_unknown(pod)?;
        }
        let annotated = || annotations.and_then(|pod| pod.get(annotation));
        if let Some(node) = runtime.get(key).or_else(annotated) {
            return Ok(Some(node));
        }
    }
    let args = call.config.root().object("args")?;
    if let Some((at, node)) = args.as_ref().and_then(|args| Some((key, args.get(key)?)))
        && call.command == Command::Add
    {
        return Err(
            node.wrong(format!("but it belongs into \"args\": {{\"cni\": {{\"{at}\": …}}}}"))
        );
    }
    let cni = args.map(|args| args.object("cni")).transpose()?.flatten();
    if let Some(cni) = &cni {
        field::refuse_null(cni, &[key])?;
    }
    let node = cni.and_then(|cni| cni.get(key));
    Ok(node.or_else(|| entry.and_then(|entry| entry.get(key))))
}

/// A pod whose annotation is mistyped must not be open. Keys of a domain, such as `spoke.example/team`, are its owner's.
fn refuse_unknown(pod: &Object<'_>) -> Result<()> {
    let known = [EGRESS[1], STRICT[1]];
    field::refuse_null(pod, &known)?;
    let is_ours = |key: &str| {
        let key = key.to_ascii_lowercase();
        key.starts_with("spoke/") || (key.starts_with("spoke.") && !key.contains('/'))
    };
    let is_known = |key: &str| known.iter().any(|known| known.eq_ignore_ascii_case(key));
    match pod.fields().find(|(key, _)| is_ours(key) && !is_known(key)) {
        None => Ok(()),
        Some((key, node)) => {
            let meant = model::text::meant(key, known);
            let known = known.join(" and ");
            let why = format!("but Spoke has no such annotation; {meant}it has {known}");
            Err(Error::unsupported(node.wrong(why).to_string()))
        }
    }
}

/// Annotations are text.
fn is_on(node: &Node<'_>) -> Result<bool> {
    match node.value().as_str() {
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(_) | None => node.flag(),
    }
}
