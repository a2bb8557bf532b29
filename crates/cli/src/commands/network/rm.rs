//! `spoke network rm`: networks are removed, and what is left of them in runtimes is reported.

use std::cell::OnceCell;

use ::host::cloud::Listed;
use ::host::exit::exit_code;
use engine::Engine;
use model::{Alias, Error, Kind, NetworkName, Result, Runtime};

use super::cloud;
use crate::answer::Answer;
use crate::args::RmArgs;
use crate::commands::doctor::removed::is_made;
use crate::commands::host;
use crate::context::CommandContext;
use crate::output::{Output, names};

/// Removes what it can; the first failure gives the exit code.
pub(super) fn rm(wanted: &RmArgs, output: Output, context: &CommandContext) -> Result<Answer> {
    let engine = (context.engine)()?;
    let engines = Engines { context, listed: OnceCell::new() };
    let mut answer = Answer::default();
    let mut removed = Vec::new();
    for name in &wanted.names {
        let known = engine.records.network(name).ok();
        match remove(&engine, name, wanted.force, &engines) {
            Ok(left) => {
                removed.push(name.to_string());
                answer.notes.extend(left.iter().filter_map(|alias| engines.broken(alias, name)));
                let drained = known.map_or(Ok(()), |known| cloud::drain(&engine, &known, context));
                // The daemon removes the rest.
                answer.notes.extend(drained.err().map(|error| error.to_string()));
            }
            Err(error) if wanted.force && error.kind() == Kind::NotFound => {}
            Err(error) => note(&mut answer, &error),
        }
    }
    Ok(Answer { text: names(output, &removed)?, ..answer })
}

/// What a runtime knew a removed network by.
struct Left {
    alias: Alias,
    /// Whether the network had attachments.
    was_used: bool,
}

/// The Docker Engines of this host, which are asked once for all networks: one that hangs is waited for.
struct Engines<'a, 'c> {
    context: &'a CommandContext<'c>,
    listed: OnceCell<Option<Listed>>,
}

impl Engines<'_, '_> {
    /// Whether all of them answer, and none lists it.
    fn have_not(&self, alias: &Alias) -> bool {
        alias.runtime == Runtime::Docker
            && self
                .listed
                .get_or_init(|| (self.context.listed)())
                .as_ref()
                .is_some_and(|listed| !listed.contains(alias.id.as_str()))
    }

    /// What is left of a removed network in a runtime. A network that Docker has removed had no attachment of its own,
    /// and may have had another runtime's: what had attachments may be of an engine that is not asked.
    fn broken(&self, Left { alias, was_used }: &Left, name: &NetworkName) -> Option<String> {
        let runtime = alias.runtime;
        let known = alias.title.as_ref().map_or(alias.id.as_str(), NetworkName::as_str);
        let again =
            format!("remove it there with `{runtime} network rm {known}`, and create it again");
        match (self.have_not(alias), was_used) {
            (true, false) => None,
            (true, true) => Some(format!(
                "no Docker Engine that is asked lists network {name} ({known}): where one that is not in [docker] api has \
                 it, none of its containers can use it: {again}"
            )),
            (false, _) => Some(format!(
                "{runtime} still has network {name} as {known}, and none of its containers can use it: {again}"
            )),
        }
    }
}

/// Removes it; what runtimes knew it by, which is of no use any more.
fn remove(
    engine: &Engine,
    name: &NetworkName,
    force: bool,
    engines: &Engines<'_, '_>,
) -> Result<Vec<Left>> {
    let context = engines.context;
    refuse_former(engine, name)?;
    // Its containers on other hosts are not detached by --force.
    if host::remove_network(engine, name, context)? {
        return Ok(Vec::new());
    }
    let meant = engine.records.meant(name)?;
    let mut aliases = engine.records.aliases()?;
    aliases.retain(|alias| alias.network == meant);
    let is_used = || -> Result<bool> {
        let all = engine.records.attachments()?;
        Ok(all.iter().any(|attachment| attachment.id.network == meant))
    };
    // What cannot be read may be in use.
    let was_used = !aliases.is_empty() && is_used().unwrap_or(true);
    let removed = match cloud::remove(engine, name, force, context) {
        Ok(false) => engine.networks.remove(name, force),
        removed => removed.map(drop),
    };
    match removed {
        Ok(()) => Ok(aliases.into_iter().map(|alias| Left { alias, was_used }).collect()),
        Err(error) => {
            let is_used = is_used().unwrap_or_default();
            let is_gone = |alias: &Alias| is_made(alias, context) && engines.have_not(alias);
            let are_gone = !aliases.is_empty() && !is_used && aliases.iter().all(is_gone);
            Err(match error.kind() {
                Kind::Conflict if !force && are_gone => gone(&meant),
                _ => with_advice(error, force || !is_used),
            })
        }
    }
}

/// Docker removes a network also where the daemon does not answer.
fn gone(name: &NetworkName) -> Error {
    Error::conflict(format!(
        "network {name} is Docker's in the book, and no Docker Engine that is asked lists it: unless one that is not in \
         [docker] api has it, remove it with `spoke network rm --force {name}`"
    ))
}

/// A name that a network had before it was renamed leads to that network elsewhere. Here the caller may mean
/// another one that was called so since, and is gone already.
fn refuse_former(engine: &Engine, name: &NetworkName) -> Result<()> {
    let Some(network) = engine.records.called(name)? else { return Ok(()) };
    let called = network.called();
    if called == name {
        return Ok(());
    }
    Err(Error::conflict(format!(
        "no network is called {name} now; {called} was before it was renamed: `spoke network rm {called}` removes it"
    )))
}

fn note(answer: &mut Answer, error: &Error) {
    if answer.code == 0 {
        answer.code = exit_code(error.kind());
    }
    answer.notes.push(error.to_string());
}

fn with_advice(error: Error, is_enough: bool) -> Error {
    match error.kind() {
        Kind::Conflict if !is_enough => {
            Error::conflict(format!("{error}; remove its containers, or detach them with --force"))
        }
        Kind::Conflict
        | Kind::Invalid
        | Kind::Unsupported
        | Kind::NotFound
        | Kind::Exhausted
        | Kind::TryAgain
        | Kind::Denied
        | Kind::Kernel
        | Kind::Bug => error,
    }
}
