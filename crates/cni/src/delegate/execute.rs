//! Executing a plugin, bounded in time and in what it may say.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use model::{Error, Result};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::wire::{Environment, LONGEST};

/// How long a plugin may take. Runtimes give up after two minutes: what began has to be undone
/// before.
pub(crate) const LIMIT: Duration = Duration::from_secs(100);

/// How long to wait before the next try to execute a file that is open for writing, as it is
/// while a new release is being copied; in ms. In all as long as the reference library tries, 5 s.
const PAUSES_MS: [u64; 7] = [10, 40, 150, 300, 500, 1000, 3000];

/// How much of a plugin's standard error is kept, in bytes; the rest is read and dropped.
const COMPLAINT: usize = 64 << 10;

/// The standard input of a plugin.
pub(crate) enum Input {
    /// This.
    Text(String),
    /// The rest of a file; the plugin has the file open for as long as it runs.
    File(File),
}

impl Input {
    /// What the plugin is started with, and what is written into it then.
    fn split(self) -> (Stdio, String) {
        match self {
            Self::Text(text) => (Stdio::piped(), text),
            Self::File(file) => (file.into(), String::new()),
        }
    }
}

/// The end of a plugin.
pub(crate) struct Ended {
    /// Its standard output, of which there is at most one byte more than [`LONGEST`].
    pub(crate) answer: Vec<u8>,
    /// Its standard error.
    pub(crate) complained: Vec<u8>,
    /// How it ended.
    pub(crate) status: ExitStatus,
}

/// The first regular file called `plugin` in the directories, in order. A name with a `/` is a
/// path, and is refused (CVE-2021-20206).
pub(crate) fn find(plugin: &str, path: &[PathBuf]) -> Result<PathBuf> {
    if plugin.is_empty() {
        return Err(Error::invalid("no plugin name provided"));
    }
    if plugin.contains(['/', '\0']) || plugin == "." || plugin == ".." {
        return Err(Error::invalid(format!("invalid plugin name: {plugin}")));
    }
    if path.is_empty() {
        return Err(Error::invalid("no paths provided"));
    }
    let mut files = path.iter().map(|directory| directory.join(plugin));
    files.find(|file| file.is_file()).ok_or_else(|| {
        let path: Vec<String> = path.iter().map(|dir| dir.display().to_string()).collect();
        Error::not_found(format!("failed to find plugin {plugin:?} in path [{}]", path.join(" ")))
    })
}

/// Runs `file` with `input` until it has ended; its standard error is kept, and passed on to that of this
/// process. After `limit` it is killed with all that it started, which is [`model::Kind::TryAgain`].
pub(super) fn execute(
    file: &Path,
    environment: &Environment,
    input: Input,
    limit: Duration,
) -> Result<Ended> {
    let ended = execute_keeping(file, environment, &[], input, limit)?;
    // It is for a person; nobody need read it.
    let _ = io::stderr().write_all(&ended.complained);
    Ok(ended)
}

/// The same with more in its environment, and with its standard error kept alone.
pub(crate) fn execute_keeping(
    file: &Path,
    environment: &Environment,
    more: &[(String, String)],
    input: Input,
    limit: Duration,
) -> Result<Ended> {
    let (stdin, text) = input.split();
    let started = start(file, environment, more, stdin);
    run(started, (file, environment), text, limit)
}

fn run(
    started: io::Result<Child>,
    (file, environment): (&Path, &Environment),
    input: String,
    limit: Duration,
) -> Result<Ended> {
    let failed = |cause| Error::os(format!("executing {}", file.display()), cause);
    let mut child = started.map_err(failed)?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Error::bug(format!("process {} has no number", child.id())))?;
    // A plugin may answer before it has read everything, or without reading at all.
    if let Some(mut stdin) = child.stdin.take() {
        thread::spawn(move || stdin.write_all(input.as_bytes()));
    }
    let (output, complaints) = (child.stdout.take(), child.stderr.take());
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let aside = thread::spawn(move || note(complaints));
        let answer = listen(output);
        let complained = aside.join().unwrap_or_default();
        let answer = answer.map(|answer| (answer, complained));
        // Not reaped here, so that its number cannot be another process's yet.
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        sender.send(answer)
    });
    match receiver.recv_timeout(limit) {
        Ok(answer) => {
            let status = child.wait().map_err(failed)?;
            let (answer, complained) = answer.map_err(failed)?;
            Ok(Ended { answer, complained, status })
        }
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            // It may have ended already.
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
fn start(
    file: &Path,
    environment: &Environment,
    more: &[(String, String)],
    stdin: Stdio,
) -> io::Result<Child> {
    let mut command = Command::new(file);
    command.envs(more.iter().map(|(name, value)| (name, value)));
    for (name, value) in environment.variables() {
        match (name, value.is_empty()) {
            // As from the reference library a plugin has it where the program that calls has it.
            ("CNI_NETNS_OVERRIDE", true) => {}
            (_, true) if name != "CNI_NETNS" => drop(command.env_remove(name)),
            (_, _) => drop(command.env(name, value)),
        }
    }
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    for pause in PAUSES_MS.map(Duration::from_millis) {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => thread::sleep(pause),
            done => return done,
        }
    }
    command.spawn()
}

fn listen(output: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    if let Some(output) = output {
        output.take(LONGEST + 1).read_to_end(&mut answer)?;
    }
    Ok(answer)
}

/// To the end, so that the plugin can always write.
fn note(complaints: Option<impl Read>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut complaints) = complaints else { return kept };
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = complaints.read(&mut buffer) {
        let room = COMPLAINT.saturating_sub(kept.len()).min(read);
        kept.extend_from_slice(&buffer[..room]);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn text(input: &str) -> Input {
        Input::Text(input.to_owned())
    }

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
        // The grandchild has opened the file by then, also on a busy machine: else the watch never ends.
        let limit = Duration::from_secs(3);
        let ended = execute(&file, &Environment::default(), text(""), limit);
        let error = ended.err().unwrap();
        assert_eq!(error.kind(), model::Kind::TryAgain);
        assert!(error.to_string().contains("within 3 s and was killed"), "{error}");
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
        let ended = execute(&file, &Environment::default(), text(""), LIMIT).unwrap();
        assert!(ended.status.success() && ended.answer.is_empty());
        closed.join().unwrap();
    }

    #[test]
    fn hears_no_more_than_it_must() {
        let root = tempfile::tempdir().unwrap();
        let file = plugin(root.path(), "yes");
        let ended =
            execute(&file, &Environment::default(), text(&"x".repeat(1 << 20)), LIMIT).unwrap();
        assert_eq!(ended.answer.len() as u64, LONGEST + 1);
        assert!(!ended.status.success());
    }
}
