//! `spoke network set` and `rename`: a network changes.

use model::{Error, NetworkChange, NetworkName, Result, Runtime};

use crate::answer::Answer;
use crate::args::{RenameArgs, SetArgs};
use crate::context::HostContext;
use crate::host;
use crate::output::{Output, names};

pub(super) fn set(wanted: &SetArgs, output: Output, host_context: &HostContext) -> Result<Answer> {
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
    let engine = (host_context.engine)()?;
    refuse_shared(&engine.records.network(&wanted.name)?.name, host_context)?;
    let network = engine.networks.set_network(&wanted.name, &change)?;
    let notes = match engine
        .records
        .aliases()?
        .iter()
        .any(|alias| alias.network == network.name && alias.runtime == Runtime::Docker)
    {
        true => vec![format!(
            "`docker network inspect` goes on to show the options that network {} was made with",
            network.called()
        )],
        false => Vec::new(),
    };
    Ok(Answer { notes, ..Answer::text(names(output, &[network.called().to_string()])?) })
}

pub(super) fn rename(
    wanted: &RenameArgs,
    output: Output,
    host_context: &HostContext,
) -> Result<Answer> {
    refuse_shared(&wanted.old, host_context)?;
    refuse_shared(&wanted.new, host_context)?;
    let engine = (host_context.engine)()?;
    let network = engine.networks.rename(&wanted.old, &wanted.new)?;
    Ok(Answer::text(names(output, &[network.called().to_string()])?))
}

fn refuse_shared(name: &NetworkName, host_context: &HostContext) -> Result<()> {
    match host::is_shared(name, host_context) {
        true => Err(Error::unsupported(format!(
            "network {name} is one of many hosts: all of them have it from the cluster as it was made. Make \
             another one with `spoke network create --hosts`"
        ))),
        false => Ok(()),
    }
}
