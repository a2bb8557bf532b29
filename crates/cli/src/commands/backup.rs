//! `spoke backup` and `spoke restore`: the durable part of the book as one file.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use engine::{RestoreMode, describe};
use model::{Error, Result};
use serde::Serialize;
use store::archive;

use crate::answer::{Answer, FOUND};
use crate::args::backup::{BackupArgs, RestoreArgs};
use crate::context::CommandContext;
use crate::output::{Output, render};

/// Standard input or output in the place of a file.
const STANDARD: &str = "-";

/// What a restore did.
#[derive(Serialize)]
struct RestoredView {
    restored: Vec<String>,
    unchanged: usize,
    kept: Vec<String>,
    left_out: Vec<String>,
}

/// What was written into a file.
#[derive(Serialize)]
struct BackupView {
    file: String,
    records: usize,
    /// What is damaged, and not in it.
    damaged: Vec<String>,
}

pub(crate) fn backup(
    wanted: &BackupArgs,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let engine = (context.engine)()?;
    let damaged = engine.repair.damaged_durable()?;
    let records = engine.repair.backup()?;
    let bytes = archive::write(&records, env!("CARGO_PKG_VERSION"), context.now)?;
    let mut answer = written(&wanted.file, bytes)?;
    // Standard output has the backup itself.
    if wanted.file != Path::new(STANDARD) {
        let view = BackupView {
            file: wanted.file.display().to_string(),
            records: records.len(),
            damaged: damaged.iter().map(|it| it.path.to_string()).collect(),
        };
        answer.text = render(output, &view, String::new)?;
    }
    if !damaged.is_empty() {
        let not_in =
            |it: &engine::port::Damaged| format!("not in the backup: {}: {}", it.path, it.why);
        answer.notes = damaged.iter().map(not_in).collect();
        answer.code = FOUND;
    }
    Ok(answer)
}

/// For root alone: a network's options may hold what its plugins keep secret.
fn written(path: &Path, bytes: Vec<u8>) -> Result<Answer> {
    if path == Path::new(STANDARD) {
        let text = String::from_utf8(bytes)
            .map_err(|cause| Error::bug("a backup is no text").because(cause))?;
        return Ok(Answer::text(text));
    }
    refuse_other_files(path)?;
    let draft = path.with_added_extension("new");
    replaced(path, &draft, &bytes)
        .map_err(|cause| file::failed(format!("cannot write {}", path.display()), cause))?;
    Ok(Answer::default())
}

/// A symbolic link or a device would be replaced by the file, not written to.
fn refuse_other_files(path: &Path) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => Err(Error::invalid(format!(
            "{} is not a regular file, and a backup replaces what it is written to: name a file; - is \
             standard output",
            path.display()
        ))),
        // What cannot be looked at is reported where it is written.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// A backup may be anywhere, also in a directory that all users can write. It is on the disk before the old one goes,
/// because the disk may be about to fail.
fn replaced(path: &Path, draft: &Path, bytes: &[u8]) -> io::Result<()> {
    file::replace_by_new(path, draft, bytes)?;
    match file::sync_directory_of(path) {
        Err(cause) if !is_refused(cause.kind()) => Err(cause),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether a directory cannot be synced at all: the file is there all the same. Not every file system can, and
/// who may write into a directory need not be able to read it.
fn is_refused(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::PermissionDenied)
}

pub(crate) fn restore(
    wanted: &RestoreArgs,
    output: Output,
    context: &CommandContext,
) -> Result<Answer> {
    let records = archive::read(&read(&wanted.file)?)?;
    let mode = RestoreMode { keep_existing: wanted.keep_existing, dry_run: wanted.dry_run };
    let result = (context.engine)()?.repair.restore_backup(&records, mode)?;
    let view = RestoredView {
        restored: result.restored.iter().map(describe).collect(),
        unchanged: result.unchanged,
        kept: result.kept.iter().map(describe).collect(),
        left_out: result.left_out.iter().map(describe).collect(),
    };
    let kept = view.kept.iter().map(|key| format!("{key} is here and differs; it stays"));
    let left_out = view.left_out.iter();
    let left_out = left_out.map(|key| format!("{key} does not fit what stays; it is left out"));
    let notes = kept.chain(left_out).collect();
    let text = render(output, &view, || table(&view, wanted.dry_run))?;
    Ok(Answer { notes, ..Answer::text(text) })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let doing = || format!("cannot read the backup {}", path.display());
    if path != Path::new(STANDARD) {
        return file::read(path, archive::LARGEST).map_err(|cause| file::failed(doing(), cause));
    }
    let mut bytes = Vec::new();
    let mut input = std::io::stdin().lock().take(archive::LARGEST);
    input.read_to_end(&mut bytes).map_err(|cause| Error::os(doing(), cause))?;
    Ok(bytes)
}

fn table(view: &RestoredView, dry_run: bool) -> String {
    let verb = if dry_run { "would restore" } else { "restored" };
    let lines = view.restored.iter().map(|key| format!("{verb} {key}\n"));
    let unchanged =
        (view.unchanged > 0).then(|| format!("{} are here as they were\n", view.unchanged));
    lines.chain(unchanged).collect()
}
