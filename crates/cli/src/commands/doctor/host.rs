//! A check of `spoke doctor`: the store can be written.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::check::Check;
use crate::context::CommandContext;

pub(super) fn stores(context: &CommandContext) -> Vec<Check> {
    context.store.iter().map(|directory| store(directory)).collect()
}

/// Tries it with an empty file, which is removed again. A directory that is not there yet is
/// made on first use, and must be possible in the one above it.
fn store(directory: &Path) -> Check {
    let Some(existing) = directory.ancestors().find(|path| path.exists()) else {
        return Check::fail(format!("{} cannot be made", directory.display()), "").without_fix();
    };
    let probe = existing.join(format!(".spoke-doctor.{}", std::process::id()));
    let tried = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&probe)
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"probe\n"))
        .and_then(|()| fs::remove_file(&probe));
    let shown = directory.display();
    match tried {
        Ok(()) => Check::ok(format!("the book in {shown} can be written")),
        Err(cause) => {
            // The check itself is over; the next one replaces the file.
            let _ = fs::remove_file(&probe);
            let fix = match cause.kind() {
                ErrorKind::PermissionDenied => "run as root: sudo spoke doctor".to_owned(),
                ErrorKind::StorageFull => format!("free space on the file system of {shown}"),
                ErrorKind::ReadOnlyFilesystem => {
                    format!("mount -o remount,rw $(findmnt -no TARGET -T {})", existing.display())
                }
                _ => format!("ls -ld {}", existing.display()),
            };
            Check::fail(format!("the book in {shown} cannot be written: {cause}"), fix)
        }
    }
}
