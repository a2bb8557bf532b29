//! `spoke kurma deprovision --force`: gives up what plugins will never undo, and lists it.

use std::collections::BTreeSet;

use ::kurma::pod::Attachment;
use ::kurma::{NetworkingPod, PodId, Pods};
use host::exit::exit_code;
use model::{AttachmentId, ContainerId, Result};

use crate::answer::Answer;
use crate::context::CommandContext;
use crate::finding_table;
use crate::output::Output;
use crate::view::FindingView;

pub(super) fn run(
    pods: &Pods<'_>,
    plugins: &NetworkingPod,
    uuid: &PodId,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let abandoned = pods.abandon(uuid)?;
    let mut found: Vec<FindingView> =
        abandoned.attachments.iter().map(|attachment| given_up(attachment, plugins)).collect();
    found.extend(abandoned.damage.map(|error| FindingView {
        kind: "pending-cleanup",
        subject: format!("what the record of pod {uuid} says"),
        remedy: "forget",
        why: format!("{error}; what its plugins have made is unknown"),
        done: true,
    }));
    let (mut code, mut notes) = (0, Vec::new());
    for id in of_pod(uuid, context)? {
        let done = (context.engine)()?.links.remove(&id);
        if let Err(error) = &done {
            code = code.max(exit_code(error.kind()));
            notes.push(format!("{id}: {error}"));
        }
        found.push(FindingView {
            kind: "attachment",
            subject: id.to_string(),
            remedy: "free",
            why: "its pod is given up".to_owned(),
            done: done.is_ok(),
        });
    }
    let answer = match (found.is_empty(), output) {
        (true, Output::Table) => Answer::default(),
        _ => finding_table::answer(&found, output)?,
    };
    Ok(Answer { code, notes, ..answer })
}

/// The pod's records in the host's own store, which plugins of Spoke's write.
fn of_pod(uuid: &PodId, context: &CommandContext) -> Result<BTreeSet<AttachmentId>> {
    if !context.kurma.has_book() {
        return Ok(BTreeSet::new());
    }
    let container: ContainerId = uuid.try_into()?;
    let records = (context.engine)()?.records.attachments_of(&container)?.into_iter();
    Ok(records.map(|record| record.id).collect())
}

/// What stays with a plugin.
fn given_up(attachment: &Attachment, plugins: &NetworkingPod) -> FindingView {
    let name = &attachment.network.name;
    let reply = attachment.reply();
    let ips = [reply.and_then(|it| it.ip4.as_ref()), reply.and_then(|it| it.ip6.as_ref())];
    let had: Vec<String> = attachment
        .interface
        .iter()
        .map(ToString::to_string)
        .chain(ips.into_iter().flatten().map(|ip| ip.address.to_string()))
        .collect();
    let had = if had.is_empty() { String::new() } else { format!(" ({})", had.join(" ")) };
    let kept = plugins.directories.plugin(name).join("volume");
    FindingView {
        kind: "pending-cleanup",
        subject: format!("del of network \"{name}\"{had}"),
        remedy: "forget",
        why: format!(
            "{}; what {} made on the host may be left, and what it wrote down is in {}",
            attachment.error(),
            attachment.network.image,
            kept.display()
        ),
        done: true,
    }
}
