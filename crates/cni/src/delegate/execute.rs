//! Executing a plugin, bounded in time and in what it may say.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use model::{Error, Result};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::wire::{Environment, LONGEST};

/// How long a plugin may take. Runtimes give up after two minutes: what was begun has to be
/// undone before.
pub(super) const LIMIT: Duration = Duration::from_secs(100);

/// How long to wait before the next try to execute a file that is open for writing, as it is
/// while a new release is being copied; in ms. In all as long as the reference library tries, 5 s.
const PAUSES_MS: [u64; 7] = [10, 40, 150, 300, 500, 1000, 3000];

/// What became of a plugin.
pub(super) struct Ended {
    /// Its standard output, of which there is at most one byte more than [`LONGEST`].
    pub(super) said: Vec<u8>,
    /// How it ended.
    pub(super) status: ExitStatus,
}

/// Runs `file` with `input` until it has ended; its standard error is ours. After `limit` it is
/// killed with all that it started, which is [`model::Kind::TryAgain`].
pub(super) fn execute(
    file: &Path,
    environment: &Environment,
    input: String,
    limit: Duration,
) -> Result<Ended> {
    let failed = |cause| Error::os(format!("executing {}", file.display()), cause);
    let mut child = start(file, environment).map_err(failed)?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Error::bug(format!("process {} has no number", child.id())))?;
    // A plugin may answer before it has read everything, or without reading at all.
    if let Some(mut stdin) = child.stdin.take() {
        thread::spawn(move || stdin.write_all(input.as_bytes()));
    }
    let output = child.stdout.take();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let said = listen(output);
        // Not reaped here: until it is, its number stands for it and nobody else.
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        sender.send(said)
    });
    match receiver.recv_timeout(limit) {
        Ok(said) => {
            let status = child.wait().map_err(failed)?;
            Ok(Ended { said: said.map_err(failed)?, status })
        }
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = child.wait();
            Err(Error::new(
                model::Kind::TryAgain,
                format!(
                    "{} did not end its {} within {} s and was killed",
                    file.display(),
                    environment.command,
                    limit.as_secs_f32()
                ),
            ))
        }
    }
}

/// In a process group of its own, so that it can be killed with all that it starts.
fn start(file: &Path, environment: &Environment) -> io::Result<Child> {
    let mut command = Command::new(file);
    for (name, value) in environment.variables() {
        match value.is_empty() && name != "CNI_NETNS" {
            true => command.env_remove(name),
            false => command.env(name, value),
        };
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    for pause in PAUSES_MS.map(Duration::from_millis) {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => thread::sleep(pause),
            done => return done,
        }
    }
    command.spawn()
}

fn listen(output: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut said = Vec::new();
    if let Some(output) = output {
        output.take(LONGEST + 1).read_to_end(&mut said)?;
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    fn plugin(root: &Path, body: &str) -> PathBuf {
        let file = root.join("plugin");
        fs::write(&file, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        file
    }

    #[test]
    fn kills_what_does_not_end_with_what_it_started() {
        let root = tempfile::tempdir().unwrap();
        let alive = root.path().join("alive");
        let made = rustix::fs::mkfifoat(rustix::fs::CWD, &alive, 0o600.into());
        made.unwrap();
        let body = format!("sleep 1000 3>{} &\nwait", alive.display());
        let file = plugin(root.path(), &body);
        let watch = thread::spawn(move || {
            // Opens when the grandchild has, and ends when the last of them is gone.
            let mut text = String::new();
            fs::File::open(alive).unwrap().read_to_string(&mut text).unwrap();
        });
        let limit = Duration::from_millis(500);
        let ended = execute(&file, &Environment::default(), String::new(), limit);
        let error = ended.err().unwrap();
        assert_eq!(error.kind(), model::Kind::TryAgain);
        assert!(error.to_string().contains("within 0.5 s and was killed"), "{error}");
        watch.join().unwrap();
    }

    #[test]
    fn waits_for_a_file_that_is_being_written() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("true");
        fs::copy("/bin/true", &file).unwrap();
        let writing = OpenOptions::new().append(true).open(&file).unwrap();
        let busy = Command::new(&file).spawn().unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::ExecutableFileBusy);
        let closed = thread::spawn(move || {
            thread::sleep(Duration::from_millis(30));
            drop(writing);
        });
        let ended = execute(&file, &Environment::default(), String::new(), LIMIT).unwrap();
        assert!(ended.status.success() && ended.said.is_empty());
        closed.join().unwrap();
    }

    #[test]
    fn hears_no_more_than_it_must() {
        let root = tempfile::tempdir().unwrap();
        let file = plugin(root.path(), "yes");
        let ended = execute(&file, &Environment::default(), "x".repeat(1 << 20), LIMIT).unwrap();
        assert_eq!(ended.said.len() as u64, LONGEST + 1);
        assert!(!ended.status.success());
    }
}
