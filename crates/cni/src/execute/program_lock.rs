//! One plugin at a time for an attachment, also where the process that called it has died.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use model::{Error, Kind, Result};
use rustix::fs::FlockOperation;

/// The file at `path`, locked and at its beginning, with `text` in it. It is a plugin's standard
/// input, so that it stays locked for as long as the plugin runs, even if its caller has died. A
/// plugin that still runs is waited for, for at most `limit`.
///
/// # Errors
/// [`Kind::TryAgain`] where it does not end; where the file cannot be written.
pub(crate) fn take(path: &Path, text: &str, limit: Duration) -> Result<File> {
    let failed = |cause| Error::os(format!("writing {}", path.display()), cause);
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    }
    let end = Instant::now() + limit;
    let how = FlockOperation::NonBlockingLockExclusive;
    let Some(mut file) = file::lock_opened(|| open(path), how, end).map_err(failed)? else {
        let what = "a plugin that was called for it before has not ended yet";
        return Err(Error::new(Kind::TryAgain, what));
    };
    let mut fill = || {
        file.set_len(0)?;
        file.write_all(text.as_bytes())?;
        file.rewind()
    };
    fill().map_err(failed)?;
    Ok(file)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn lasts_as_long_as_its_reader() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("turns/one");
        let input = take(&path, "input", Duration::ZERO).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo; read ended <$0; cat"]).arg(root.path().join("end"));
        let end = root.path().join("end");
        rustix::fs::mkfifoat(rustix::fs::CWD, &end, 0o600.into()).unwrap();
        let child = command.stdin(input).stdout(Stdio::piped()).spawn().unwrap();
        drop(command);
        let early = take(&path, "more", Duration::ZERO).unwrap_err();
        assert_eq!(early.kind(), Kind::TryAgain);
        std::fs::write(&end, "\n").unwrap();
        assert_eq!(child.wait_with_output().unwrap().stdout, b"\ninput");
        drop(take(&path, "m", Duration::from_secs(60)).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "m");
    }
}
