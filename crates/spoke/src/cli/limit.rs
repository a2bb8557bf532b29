//! `spoke limit`: what a running container may send and receive.

use model::{Bandwidth, Error, Layer, Rate, Result};

use super::args::{Limit, LimitArgs, Output};
use super::container::{Called, attachments, leading};
use super::output::names;
use super::{Answer, HostContext};

pub(super) fn run(
    wanted: &LimitArgs,
    output: Output,
    host_context: &HostContext,
) -> Result<Answer> {
    let engine = (host_context.engine)()?;
    let called = Called::of(&wanted.container);
    let mut found = attachments(&engine, &called, wanted.network.as_ref(), host_context)?;
    found.retain(|record| record.layer == Layer::Link);
    let Some(attachment) = leading(found) else {
        return Err(Error::unsupported(format!(
            "{}: another plugin made its interface, and limits it",
            model::text::shown(&wanted.container)
        )));
    };
    let given = |one: Option<Limit>| wanted.both.or(one).and_then(|limit| limit.0);
    let limits =
        Bandwidth { ingress: given(wanted.ingress), egress: given(wanted.egress), device: None };
    engine.set_limits(&attachment.id, &limits)?;
    let text =
        |rate: Option<Rate>| rate.map_or("unlimited".to_owned(), |it| format!("{} bit/s", it.rate));
    let line = format!(
        "{} on {}: receives {}, sends {}",
        attachment.container_name(),
        attachment.id.network,
        text(limits.ingress),
        text(limits.egress)
    );
    Ok(Answer::text(names(output, &[line])?))
}
