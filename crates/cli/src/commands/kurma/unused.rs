//! `spoke gc` with plugins out of images: namespaces that they still see, and that are unused.

use kurma::Directories;
use kurma::exec_cni::{self, Fate, Unused};
use model::Result;

use crate::args::GcArgs;
use crate::context::CommandContext;
use crate::view::FindingView;

/// The findings, and their remedies. The daemon waits a minute between its two checks; here the
/// second one follows at once, and what is younger than a minute is left to the daemon.
pub(crate) fn collect(gc: &GcArgs, context: &CommandContext) -> Result<Vec<FindingView>> {
    // A user's are in namespaces of that user's own.
    if !context.kurma.has_book() {
        return Ok(Vec::new());
    }
    let directories = context.kurma.directories();
    let found = exec_cni::unused(directories)?;
    let cleared = match gc.dry_run {
        true => Vec::new(),
        false => exec_cni::clear(directories, &found, gc.force)?,
    };
    let is_done = |unused: &Unused| cleared.iter().any(|one| one.name == unused.name);
    let namespaces = found.iter().map(|unused| view(unused, gc, is_done(unused)));
    Ok(namespaces.chain(forgotten(directories, gc)?).collect())
}

/// The marks of calls whose DEL never came.
fn forgotten(directories: &Directories, gc: &GcArgs) -> Result<Vec<FindingView>> {
    let names = match gc.dry_run {
        true => exec_cni::forgotten(directories)?,
        false => exec_cni::forget(directories)?,
    };
    let why = "a plugin was called for a container that is gone, and no DEL came for a day";
    let (remedy, done) = ("free", !gc.dry_run);
    let mark = |subject| FindingView { kind: "mark", subject, why: why.to_owned(), remedy, done };
    Ok(names.into_iter().map(mark).collect())
}

fn view(unused: &Unused, gc: &GcArgs, done: bool) -> FindingView {
    let what = match unused.is_mounted {
        true => "it is shown to a plugin out of an image, and nothing else uses it",
        false => "a namespace was shown here to a plugin out of an image, and is gone",
    };
    let goes = match unused.fate {
        Fate::Clear => true,
        Fate::Wait => gc.force,
        Fate::Keep => false,
    };
    let hint = match (unused.fate, goes, done) {
        (Fate::Keep, _, _) => "; but not every process of this host can be seen",
        (Fate::Wait, false, _) => "; it is too young to decide, `spoke serve` will",
        (_, true, false) if !gc.dry_run => "; it is in use after all",
        (_, _, _) => "",
    };
    let is_kept = !goes || !(done || gc.dry_run);
    FindingView {
        kind: "namespace",
        subject: unused.name.clone(),
        why: format!("{what}{hint}"),
        remedy: if is_kept { "keep" } else { "free" },
        done,
    }
}
