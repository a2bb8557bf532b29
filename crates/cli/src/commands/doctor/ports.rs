//! Published ports that another program has too.

use model::{Attachment, Phase, PortMap};

use crate::check::Check;
use crate::context::CommandContext;

/// Ports on which a process of this host listens, although they lead to a container.
pub(super) fn checks(context: &CommandContext, attachments: &[Attachment]) -> Vec<Check> {
    // A plugin may serve its ports with a process that listens.
    let is_ours =
        |it: &&Attachment| matches!(it.phase, Phase::Attached(_)) && !it.is_published_by_plugin();
    attachments.iter().filter(is_ours).flat_map(|record| of(context, record)).collect()
}

fn of(context: &CommandContext, record: &Attachment) -> Vec<Check> {
    let name = record.container_name();
    let check = |map: &PortMap| {
        let by = (context.taken)(map).rival(record.runtime)?;
        let port = format!("{}/{}", map.host_port, map.protocol);
        let what = format!("host port {port} leads to {name} and is in use by {by} too");
        Some(Check::warn(what, "stop one of them: who answers depends on where one asks"))
    };
    record.wiring.publish.iter().flat_map(|publish| &publish.ports).filter_map(check).collect()
}
