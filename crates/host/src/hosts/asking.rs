//! One question to the daemon, which may be starting again.

use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use model::{Error, Kind, Result};

use super::{Ask, KINDS, Line, Reply, is_member, line, place, read_line, socket, understood};

/// How long the daemon may take to answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a daemon that was killed, or is updated, may take to be there again; docs/hosts.md says it too.
const RESTART: Duration = Duration::from_secs(10);
/// How often it is tried meanwhile.
const PAUSE: Duration = Duration::from_millis(50);

/// Asks the daemon.
///
/// # Errors
/// The daemon's; `TryAgain` where it does not run.
pub fn ask(runtime: &Path, ask: &Ask) -> Result<Reply> {
    exchange(runtime, ask)?.ok_or_else(not_running)
}

/// As [`ask`], of a daemon of a cluster's host that may be starting again: it is waited for. What is asked can be asked twice,
/// because a daemon may end before it answers.
///
/// # Errors
/// As [`ask`].
pub fn ask_restarted(runtime: &Path, state: &Path, ask: &Ask) -> Result<Reply> {
    ask_until(Instant::now() + RESTART, (runtime, state), ask)
}

fn ask_until(deadline: Instant, (runtime, state): (&Path, &Path), ask: &Ask) -> Result<Reply> {
    loop {
        match exchange(runtime, ask)? {
            Some(reply) => return Ok(reply),
            None if is_member(&place(state)) && Instant::now() < deadline => thread::sleep(PAUSE),
            None => return Err(not_running()),
        }
    }
}

fn not_running() -> Error {
    Error::try_again(
        "the daemon is not running, and only it speaks to other hosts: start `spoke serve`",
    )
}

/// None where no daemon runs, or it ended before it answered.
fn exchange(runtime: &Path, ask: &Ask) -> Result<Option<Reply>> {
    let path = socket(runtime);
    let stream = UnixStream::connect(&path);
    let about = || format!("connecting to {}", path.display());
    let Some(mut stream) = unless_gone(stream, about)? else { return Ok(None) };
    let asking = || "asking the daemon".to_owned();
    let question = line(ask)?;
    let answer = stream
        .set_read_timeout(Some(TIMEOUT))
        .and_then(|()| stream.write_all(&question))
        .and_then(|()| read_line(&mut stream));
    match unless_gone(answer, asking)?.filter(|answer| !answer.is_empty()) {
        None => Ok(None),
        Some(answer) => match understood(&answer)? {
            Line::Reply(reply) => Ok(Some(*reply)),
            Line::Failed { kind, what } => {
                let kind = KINDS.into_iter().find(|known| format!("{known:?}") == kind);
                Err(Error::new(kind.unwrap_or(Kind::Bug), what))
            }
        },
    }
}

fn unless_gone<T>(outcome: io::Result<T>, about: impl FnOnce() -> String) -> Result<Option<T>> {
    use ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound};
    match outcome {
        Ok(done) => Ok(Some(done)),
        Err(cause) => match cause.kind() {
            NotFound | ConnectionRefused | ConnectionReset | BrokenPipe => Ok(None),
            _ => Err(Error::os(about(), cause)),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::hosts::{MEMBER, answer};

    /// Answers one question, after another connection that ends without an answer.
    fn serve(listener: &UnixListener) {
        drop(listener.accept().unwrap());
        let (mut stream, _) = listener.accept().unwrap();
        answer(&mut stream, TIMEOUT, |_| Ok(Reply::Done)).unwrap();
    }

    #[test]
    fn a_daemon_that_starts_again_is_waited_for_on_a_member() {
        let folder = tempfile::tempdir().unwrap();
        let (runtime, state) = (folder.path().join("run"), folder.path().join("lib"));
        std::fs::create_dir(&runtime).unwrap();
        let asks = |limit| {
            ask_until(Instant::now() + limit, (&runtime, &state), &Ask::RotateKeys).map(drop)
        };
        let refused = asks(TIMEOUT).unwrap_err();
        assert!(refused.to_string().contains("the daemon is not running"), "{refused}");
        std::fs::create_dir_all(place(&state)).unwrap();
        std::fs::write(place(&state).join(MEMBER), "{}").unwrap();
        assert_eq!(asks(Duration::ZERO).unwrap_err().kind(), Kind::TryAgain);
        // What a killed daemon leaves.
        drop(UnixListener::bind(socket(&runtime)).unwrap());
        thread::scope(|scope| {
            let asked = scope.spawn(|| asks(TIMEOUT));
            std::fs::remove_file(socket(&runtime)).unwrap();
            serve(&UnixListener::bind(socket(&runtime)).unwrap());
            asked.join().unwrap().unwrap();
        });
    }
}
