//! Sockets that the service manager keeps while the daemon is dead (sd_notify(3), `FDSTORE=1`).
//!
//! A query that comes meanwhile waits in its socket, and the next life answers it. Without a service manager
//! that keeps them (`FileDescriptorStoreMax=`), each life opens its own.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::notify;

/// Before the names of sockets that are kept, to distinguish them from those of socket units.
pub(crate) const PREFIX: &str = "names-";

/// What is kept.
#[derive(Debug, Default)]
pub(crate) struct FdStore(Mutex<StoredSockets>);

#[derive(Debug, Default)]
struct StoredSockets {
    /// Of the life before, and not asked for yet.
    inherited: BTreeMap<String, OwnedFd>,
    /// What the service manager has.
    stored: BTreeSet<String>,
}

impl FdStore {
    /// With what the service manager passed.
    pub(crate) fn new(inherited: BTreeMap<String, OwnedFd>) -> Self {
        let stored = inherited.keys().cloned().collect();
        Self(Mutex::new(StoredSockets { inherited, stored }))
    }

    /// The socket of a name that the life before had. The service manager keeps it on.
    pub(crate) fn take(&self, name: &str) -> Option<OwnedFd> {
        self.kept().inherited.remove(name)
    }

    /// Has a socket kept under a name that no other one has.
    pub(crate) fn keep(&self, name: &str, socket: BorrowedFd<'_>) {
        let Some(manager) = notify::manager() else { return };
        if !self.kept().stored.insert(name.to_owned()) {
            return;
        }
        // An error of a socket is no reason to give it up.
        let state = format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let sockets = [socket];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&sockets));
        let state = [IoSlice::new(state.as_bytes())];
        // A manager that does not listen keeps nothing: the next life opens its own.
        if sendmsg(&manager, &state, &mut control, SendFlags::NOSIGNAL).is_err() {
            self.kept().stored.remove(name);
        }
    }

    /// Has it kept no more.
    pub(crate) fn discard(&self, name: &str) {
        let mut kept = self.kept();
        kept.inherited.remove(name);
        if kept.stored.remove(name) {
            notify::notify(&format!("FDSTOREREMOVE=1\nFDNAME={name}"));
        }
    }

    /// Gives up what no thread asked for: what has come and gone since.
    pub(crate) fn discard_rest(&self) {
        let rest: Vec<String> = self.kept().inherited.keys().cloned().collect();
        rest.iter().for_each(|name| self.discard(name));
    }

    /// Gives up everything.
    pub(crate) fn discard_all(&self) {
        let all: Vec<String> = self.kept().stored.iter().cloned().collect();
        all.iter().for_each(|name| self.discard(name));
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, StoredSockets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
