//! `spoke cni`: the plugins of this host become links to a copy of this program.
//!
//! At every moment each name is either what it was or Spoke's, and the former file is kept under
//! another name before it is replaced, so that running the command again repairs a crash at any
//! point. A replaced file keeps its inode: it is restored exactly.

mod disk;

use std::path::Path;

use cni::Plugin;
use model::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::args::CniCommand;
use crate::context::CommandContext;
use crate::output::table::Table;
use crate::output::{Output, render};
use disk::{Directory, Entry};

/// The name of every plugin but the program itself, which is one too.
fn links() -> impl Iterator<Item = &'static str> {
    let native = Plugin::ALL.into_iter().map(Plugin::name).filter(|name| *name != PROGRAM);
    native.chain([host::kurma::TYPE])
}

/// The copy of the program, and the type of the plugin that does everything.
const PROGRAM: &str = "spoke";

pub(crate) fn run(
    command: &CniCommand,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    match command {
        CniCommand::Install { plugins, takeover } => {
            let directory = Directory::new(&plugins.bin_dir);
            install(&directory, *takeover, &context.executable)
        }
        CniCommand::Uninstall { plugins } => uninstall(&Directory::new(&plugins.bin_dir)),
        CniCommand::Runtime(command) => crate::commands::cni::run(command, output, context),
        CniCommand::Status { network: Some(network), place, .. } => {
            crate::commands::cni::status(network, place)
        }
        CniCommand::Status { plugins, .. } => {
            let states = states(&plugins.bin_dir, &context.executable)?;
            Ok(Answer::text(render(output, &states, || table(&states).text())?))
        }
    }
}

/// The state that is kept until the plugins are removed.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    /// The version that installed the plugins.
    version: String,
    /// Whether the directory was made for them.
    made_directory: bool,
    /// Names under which another program's file is kept.
    replaced: Vec<String>,
}

fn install(directory: &Directory, takeover: bool, executable: &Path) -> Result<Answer> {
    let made_directory = directory.ensure()?;
    let known = directory.manifest()?;
    let foreign = foreign(directory, known.as_ref(), executable)?;
    if !foreign.is_empty() && !takeover {
        if made_directory {
            directory.remove_if_empty()?;
        }
        return Err(Error::conflict(format!(
            "{} already has {}, which are a third party's; --takeover replaces them and keeps what they were",
            directory.path().display(),
            foreign.join(", ")
        )));
    }
    let mut manifest = known.unwrap_or(Manifest { made_directory, ..Manifest::default() });
    manifest.version = env!("CARGO_PKG_VERSION").to_owned();
    manifest.replaced.extend(foreign.iter().map(|&name| name.to_owned()));
    manifest.replaced.sort();
    manifest.replaced.dedup();
    directory.remember(&manifest)?;
    for name in &foreign {
        directory.keep(name)?;
    }
    directory.place_program(executable)?;
    for name in links() {
        directory.place_link(name)?;
    }
    directory.sync()?;
    Ok(Answer::text(summary(directory, &manifest)))
}

fn summary(directory: &Directory, manifest: &Manifest) -> String {
    let path = directory.path().display();
    let links: Vec<&str> = links().collect();
    let mut text = format!("{PROGRAM} in {path}, with links {}\n", links.join(", "));
    if !manifest.replaced.is_empty() {
        text.push_str(&format!(
            "replaced {}; `spoke cni uninstall --bin-dir {path}` puts them back\n",
            manifest.replaced.join(", ")
        ));
    }
    text
}

/// The names that belong to other programs.
fn foreign(
    directory: &Directory,
    known: Option<&Manifest>,
    executable: &Path,
) -> Result<Vec<&'static str>> {
    let mut foreign = Vec::new();
    for name in links() {
        match directory.entry(name)? {
            Entry::Missing | Entry::Ours => {}
            Entry::Foreign => foreign.push(name),
        }
    }
    let is_ours = match directory.entry(PROGRAM)? {
        Entry::Missing | Entry::Ours => true,
        Entry::Foreign if directory.is_program(executable)? => true,
        Entry::Foreign => known.map_or(Ok(false), |known| is_ours_now(directory, known))?,
    };
    if !is_ours {
        foreign.push(PROGRAM);
    }
    Ok(foreign)
}

/// Whether the program is Spoke's: the file that it replaces is kept first, and is the program
/// until then and again after it was restored.
fn is_ours_now(directory: &Directory, manifest: &Manifest) -> Result<bool> {
    let replaces = manifest.replaced.iter().any(|kept| kept == PROGRAM);
    Ok(!replaces || directory.is_kept(PROGRAM)?)
}

fn uninstall(directory: &Directory) -> Result<Answer> {
    let Some(manifest) = directory.manifest()? else {
        return Err(Error::not_found(format!(
            "Spoke's plugins are not installed in {}",
            directory.path().display()
        )));
    };
    let mut foreign_names = Vec::new();
    for name in links() {
        match directory.entry(name)? {
            Entry::Foreign if !directory.is_kept(name)? => {}
            Entry::Foreign if !directory.is_kept_file(name)? => foreign_names.push(name),
            Entry::Foreign | Entry::Missing | Entry::Ours => directory.give_back(name)?,
        }
    }
    if is_ours_now(directory, &manifest)? {
        directory.give_back(PROGRAM)?;
    }
    if foreign_names.is_empty() {
        directory.forget(manifest.made_directory)?;
    }
    let notes = foreign_names.iter().map(|name| {
        let kept = directory.kept(name);
        format!("{name} is of another program again; what it replaced stays as {}", kept.display())
    });
    let text = match manifest.replaced.as_slice() {
        [] => "removed\n".to_owned(),
        replaced => format!("removed, and put back {}\n", replaced.join(", ")),
    };
    Ok(Answer { notes: notes.collect(), ..Answer::text(text) })
}

/// The owner of a plugin.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PluginState {
    pub(crate) name: &'static str,
    /// `spoke`, `other-spoke` (another build of it), `foreign` or `missing`.
    pub(crate) state: &'static str,
    /// Whether what it replaced is kept.
    pub(crate) replaced: bool,
}

/// The state of each plugin in `bin_dir`.
pub(crate) fn states(bin_dir: &Path, executable: &Path) -> Result<Vec<PluginState>> {
    let directory = Directory::new(bin_dir);
    let manifest = directory.manifest()?;
    let program = match (directory.entry(PROGRAM)?, manifest.is_some()) {
        (Entry::Missing, _) => "missing",
        (Entry::Ours | Entry::Foreign, _) if directory.is_program(executable)? => "spoke",
        (Entry::Ours | Entry::Foreign, true) => "other-spoke",
        (Entry::Ours | Entry::Foreign, false) => "foreign",
    };
    let mut states = Vec::new();
    for name in links() {
        let state = match directory.entry(name)? {
            Entry::Missing => "missing",
            Entry::Foreign => "foreign",
            Entry::Ours => program,
        };
        states.push(PluginState { name, state, replaced: directory.is_kept(name)? });
    }
    let replaced = directory.is_kept(PROGRAM)?;
    states.push(PluginState { name: PROGRAM, state: program, replaced });
    Ok(states)
}

fn table(states: &[PluginState]) -> Table {
    let mut table = Table::new(&["PLUGIN", "STATE", "REPLACED"]);
    for plugin in states {
        let replaced = if plugin.replaced { "yes" } else { "" };
        table.row([plugin.name, plugin.state, replaced].map(str::to_owned));
    }
    table
}

#[cfg(test)]
mod tests;
