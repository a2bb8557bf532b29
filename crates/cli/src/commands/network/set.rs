//! `spoke network set` and `rename`: a network changes.

use engine::Engine;
use model::{Error, Network, NetworkChange, NetworkName, Result, Runtime};

use crate::answer::Answer;
use crate::args::{RenameArgs, SetArgs};
use crate::commands::host;
use crate::context::CommandContext;
use crate::output::{Output, names};
use crate::via::ViaView;

pub(super) fn set(wanted: &SetArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    if let Some((option, instead)) = wanted.fixed.0 {
        return Err(Error::unsupported(format!(
            "--{option} does not change while network {} is in use: {instead}",
            wanted.name
        )));
    }
    let change = wanted.change();
    if change == NetworkChange::default() {
        return Err(Error::invalid(
            "nothing to change: --mtu, --publish, --via, --sticky, --label and --unlabel can"
                .to_owned(),
        ));
    }
    let engine = (context.engine)()?;
    let before = engine.records.network(&wanted.name)?;
    refuse_shared(&engine.records.network(&wanted.name)?.name, context)?;
    let network = engine.networks.set_network(&wanted.name, &change)?;
    let mut notes = Vec::new();
    // What Docker has only joined it has made with none of them.
    if network.runtime == Runtime::Docker {
        notes.push(format!(
            "`docker network inspect` goes on to show the options that network {} was made with",
            network.called()
        ));
    }
    notes.extend(
        change.unlabel.iter().filter(|key| !before.labels.pairs().contains_key(*key)).map(|key| {
            format!("network {} had no label {}", network.called(), model::text::shown(key))
        }),
    );
    if change.settings.way.is_some() {
        notes.extend(missing_way(&network, &engine)?);
    }
    Ok(Answer { notes, ..Answer::text(names(output, &[network.called().to_string()])?) })
}

/// That nothing leaves a network, as long as its new way is not there.
fn missing_way(network: &Network, engine: &Engine) -> Result<Option<String>> {
    let view = ViaView::of(network, &engine.records.attachments()?);
    let missing = view.filter(ViaView::is_missing);
    Ok(missing.map(|view| {
        let name = network.called();
        format!("nothing leaves network {name} until its way is there: {}", view.short())
    }))
}

pub(super) fn rename(
    wanted: &RenameArgs,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    refuse_shared(&wanted.old, context)?;
    refuse_shared(&wanted.new, context)?;
    let engine = (context.engine)()?;
    let network = engine.networks.rename(&wanted.old, &wanted.new)?;
    Ok(Answer::text(names(output, &[network.called().to_string()])?))
}

fn refuse_shared(name: &NetworkName, context: &CommandContext) -> Result<()> {
    match host::is_shared(name, context) {
        true => Err(Error::unsupported(format!(
            "network {name} is one of many hosts: all of them have it from the cluster as it was made. Make \
             another one with `spoke network create --hosts`"
        ))),
        false => Ok(()),
    }
}
