//! The files that say what published ports obey. The choice is in the directory of the book, where much else is
//! written: only the file itself counts there.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::{Errno, Result};

/// Changes of them are reported from now on.
pub(super) struct Files {
    inotify: OwnedFd,
    /// The watch of the choice's directory, and the name of the file.
    choice: Option<(i32, OsString)>,
}

impl Files {
    /// Everything in the directories `above`, and the file `choice`. A missing directory is looked at now
    /// and then.
    ///
    /// # Errors
    /// Where there are too many watches.
    pub(super) fn watch(above: &BTreeSet<PathBuf>, choice: &Path) -> Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let moved = WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::DELETE;
        let written = WatchFlags::CREATE | WatchFlags::CLOSE_WRITE;
        for directory in above {
            let _ = inotify::add_watch(&inotify, directory, moved | written | WatchFlags::ONLYDIR);
        }
        // It is written beside its place, and comes there by a rename.
        let watched = choice.parent().zip(choice.file_name()).and_then(|(directory, name)| {
            let watch = inotify::add_watch(&inotify, directory, moved | WatchFlags::ONLYDIR);
            Some((watch.ok()?, name.to_owned()))
        });
        Ok(Self { inotify, choice: watched })
    }

    /// Whether any of them changed since the last call.
    pub(super) fn have_changed(&self) -> bool {
        let mut buffer = [const { MaybeUninit::uninit() }; 8192];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut have_changed = false;
        loop {
            match reader.next() {
                Ok(event) => have_changed |= self.concerns(&event),
                Err(Errno::WOULDBLOCK) => return have_changed,
                Err(Errno::INTR) => {}
                Err(_) => return true,
            }
        }
    }

    fn concerns(&self, event: &inotify::Event<'_>) -> bool {
        let lost = ReadFlags::QUEUE_OVERFLOW | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
        match (&self.choice, event.file_name()) {
            _ if event.events().intersects(lost) => true,
            (Some((watch, choice)), Some(name)) if event.wd() == *watch => {
                name.to_bytes() == choice.as_bytes()
            }
            _ => true,
        }
    }
}

impl AsFd for Files {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use host::follow::Follow;

    #[test]
    fn only_what_is_read_wakes() {
        let (root, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let follow = Follow::new(state.path(), root.path());
        let above = BTreeSet::from([root.path().to_owned()]);
        let files = Files::watch(&above, &follow.path()).unwrap();
        assert!(!files.have_changed());

        // Its own lock, and the book.
        drop(follow.lock().unwrap());
        fs::write(state.path().join("other.new"), "x").unwrap();
        fs::rename(state.path().join("other.new"), state.path().join("other")).unwrap();
        fs::remove_file(state.path().join("other")).unwrap();
        assert!(!files.have_changed());

        fs::write(state.path().join("firewall.json.new"), "x").unwrap();
        fs::rename(state.path().join("firewall.json.new"), follow.path()).unwrap();
        assert!(files.have_changed());
        assert!(!files.have_changed());
        fs::remove_file(follow.path()).unwrap();
        assert!(files.have_changed());
        fs::write(root.path().join("ufw.conf"), "").unwrap();
        assert!(files.have_changed());
        drop(state);
        assert!(files.have_changed());
    }
}
