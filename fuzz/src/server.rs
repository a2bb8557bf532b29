//! A server that says what its input says, for targets that ask one.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// Longer than an answer that is written at once takes on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(4);

/// On a unix socket in a folder of its own, which is gone with this: so it is never `static`.
pub(crate) struct Server {
    folder: TempDir,
    socket: PathBuf,
    answer: Arc<Mutex<Vec<u8>>>,
}

impl Server {
    /// One after another, connections go to `reply`, with what is to be said.
    pub(crate) fn start(socket: &str, reply: fn(UnixStream, &[u8])) -> Self {
        let folder = crate::place::folder();
        let socket = folder.path().join(socket);
        let listener = UnixListener::bind(&socket).expect("a socket");
        let answer = Arc::<Mutex<Vec<u8>>>::default();
        let says = Arc::clone(&answer);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let bytes = locked(&says).clone();
                reply(stream, &bytes);
            }
        });
        Self { folder, socket, answer }
    }

    /// From now on.
    pub(crate) fn say(&self, bytes: &[u8]) {
        *locked(&self.answer) = bytes.to_vec();
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}

fn locked(answer: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    answer.lock().unwrap_or_else(PoisonError::into_inner)
}
