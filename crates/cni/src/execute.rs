//! Executing a plugin, and trying again while its file is busy or locked; [`process`] bounds it.

pub mod process;
pub(crate) mod program_lock;
mod refusal;

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use model::{Error, Result};

pub(crate) use refusal::refusal;

use crate::wire::Environment;

/// How long a plugin may take. Runtimes give up after two minutes: what began has to be undone
/// before.
pub(crate) const LIMIT: Duration = Duration::from_secs(100);

/// How long to wait before the next try to execute a file that is open for writing, as it is
/// while a new release is being copied; in ms. In all as long as the reference library tries, 5 s.
const PAUSES_MS: [u64; 7] = [10, 40, 150, 300, 500, 1000, 3000];

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
pub(crate) fn execute(
    file: &Path,
    environment: &Environment,
    input: Input,
    limit: Duration,
) -> Result<Output> {
    let ended = execute_keeping(file, environment, &[], input, limit)?;
    // It is for a person, who need not read it.
    let _ = io::stderr().write_all(&ended.stderr);
    Ok(ended)
}

/// The same with more in its environment, and with its standard error kept alone.
pub(crate) fn execute_keeping(
    file: &Path,
    environment: &Environment,
    more: &[(String, String)],
    input: Input,
    limit: Duration,
) -> Result<Output> {
    let (stdin, text) = input.split();
    let ended =
        start(file, environment, more, stdin).and_then(|child| process::finish(child, text, limit));
    ended.map_err(|cause| match cause.kind() {
        ErrorKind::TimedOut => Error::try_again(format!(
            "{} did not end its {} within {} s and was killed",
            file.display(),
            environment.command,
            limit.as_secs_f32()
        )),
        _ => Error::os(format!("executing {}", file.display()), cause),
    })
}

/// Started again while its file is being written.
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
    process::prepare(&mut command, stdin);
    for pause in PAUSES_MS.map(Duration::from_millis) {
        match command.spawn() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => thread::sleep(pause),
            done => return done,
        }
    }
    command.spawn()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::LONGEST;
    use std::fs::{self, OpenOptions, Permissions};
    use std::io::Read;
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
        assert!(ended.status.success() && ended.stdout.is_empty());
        closed.join().unwrap();
    }

    #[test]
    fn hears_no_more_than_it_must() {
        let root = tempfile::tempdir().unwrap();
        let file = plugin(root.path(), "yes");
        let ended =
            execute(&file, &Environment::default(), text(&"x".repeat(1 << 20)), LIMIT).unwrap();
        assert_eq!(ended.stdout.len() as u64, LONGEST + 1);
        assert!(!ended.status.success());
    }
}
