//! An etcd that lost its data, or has an older state of them.
//!
//! What was heard of is kept beside `member.json`: a daemon that has just begun would take any state for the latest one,
//! and a host that joined after a backup would take itself for removed.

use std::path::Path;
use std::time::{Duration, Instant};

use cluster::{Etcd, Key, Revision, View, layout};
use host::hosts::Reply;
use model::{Error, HostName, Result};
use serde::{Deserialize, Serialize};

use crate::hosts::Hosts;
use crate::hosts::keep::{Keeper, PERIOD};
use crate::hosts::member::{self, Member};

/// The file.
const HEARD: &str = "heard.json";
/// How long the keeper may take to read the cluster, in which it may wait for a pause to end.
const ACCEPT: Duration = Duration::from_secs(20);

/// Whether etcd has an older state than was heard of, and what the operator said to that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::hosts) enum Older {
    /// It has not.
    #[default]
    No,
    /// It has, and is not heeded.
    Refused,
    /// It has, and is taken as it is.
    Accepted,
}

impl Older {
    fn taken_back(self) -> Self {
        match self {
            Self::Accepted | Self::Refused => Self::Refused,
            Self::No => Self::No,
        }
    }
}

/// What was heard of the cluster last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::hosts) struct Heard {
    /// In which transaction this host wrote its own record.
    #[serde(default)]
    alive: u64,
    /// The latest state that it knew.
    #[serde(default)]
    heard: u64,
    /// Whether etcd had an older state after that.
    #[serde(default)]
    older: bool,
    /// Whether others wrote to that one since.
    #[serde(default)]
    other: bool,
    /// The latest record that it knew, by its key, and in which transaction that was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latest: Option<(String, u64)>,
}

impl Heard {
    /// As it was written.
    pub(in crate::hosts) fn read(place: &Path) -> Result<Self> {
        member::read(&place.join(HEARD)).map(Option::unwrap_or_default)
    }

    /// A host that is no member has heard of nothing.
    pub(in crate::hosts) fn forget(place: &Path) -> Result<()> {
        member::remove(&place.join(HEARD))
    }

    fn write(&self, place: &Path) -> Result<()> {
        member::write(place, HEARD, self)
    }

    fn latest(&self) -> Option<(Key, Revision)> {
        let (path, at) = self.latest.as_ref()?;
        Some((layout::key(path).ok()?, Revision(*at)))
    }

    /// The latest state, and the one of this host's own record. An earlier version kept the second one alone.
    fn revisions(&self) -> (Revision, Revision) {
        (Revision(self.heard.max(self.alive)), Revision(self.alive))
    }
}

/// The state that was written last.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::hosts) struct SavedState {
    heard: Revision,
    at: Option<Instant>,
    has_failed: bool,
}

impl SavedState {
    /// Whether the next daemon is to know of this state, and not of the one that was written.
    fn is_due(self, heard: Revision, now: Instant) -> bool {
        let is_rested = |at| now.saturating_duration_since(at) >= PERIOD;
        heard > self.heard && self.at.is_none_or(is_rested)
    }
}

impl Hosts {
    /// Takes an older state of etcd as it is: what it does not have is gone.
    pub(in crate::hosts) fn accept_older(&self) -> Result<Reply> {
        self.connected()?;
        let mut is_older = false;
        self.set(|state| {
            is_older = state.older != Older::No;
            if is_older {
                state.older = Older::Accepted;
            }
        });
        if !is_older {
            return Err(Error::conflict("etcd has no older state than this host has heard of"));
        }
        self.nudge();
        match self.wait(ACCEPT, |state| state.older == Older::No) {
            true => Ok(Reply::Done),
            false => {
                // What the operator was refused is not done later.
                self.set(|state| state.older = state.older.taken_back());
                Err(Error::try_again("etcd does not answer; see `spoke host ls`"))
            }
        }
    }
}

impl Keeper<'_> {
    /// Takes over what an earlier daemon heard.
    pub(in crate::hosts) fn remember(&mut self) -> Result<()> {
        let known = Heard::read(&self.hosts.place)?;
        (self.heard, self.alive) = known.revisions();
        (self.is_older, self.is_other) = (known.older, known.other);
        self.latest = known.latest();
        Ok(())
    }

    /// Keeps what this daemon has heard for the next one. A full disk is no reason to be lost.
    pub(in crate::hosts) fn keep_heard(&mut self) {
        let latest = self.latest.as_ref().map(|(key, at)| (layout::path(key), at.0));
        let (alive, heard) = (self.alive.0, self.heard.0);
        let heard = Heard { alive, heard, older: self.is_older, other: self.is_other, latest };
        let written = heard.write(&self.hosts.place);
        let had_failed = self.kept.has_failed;
        let (at, has_failed) = (Some(Instant::now()), written.is_err());
        self.kept = SavedState { heard: self.heard, at, has_failed };
        if let Err(error) = written
            && !had_failed
        {
            self.daemon.journal.failed("the cluster of hosts", &error);
        }
    }

    /// The same while the cluster changes. What others write does not change this host's own record: a state without it
    /// is older only than the latest one.
    pub(in crate::hosts) fn keep_latest(&mut self) {
        if self.kept.is_due(self.heard, Instant::now()) {
            self.keep_heard();
        }
    }

    /// Such an etcd says nothing of which hosts were removed: what this host has stays until etcd is as it was, or the
    /// operator decides.
    pub(in crate::hosts) fn refuse_older(
        &mut self,
        etcd: &Etcd,
        view: &View,
        member: &Member,
    ) -> Result<()> {
        if view.layout.is_none() && self.hosts.lock().leaving {
            return Err(Error::not_found("this host left a cluster of which etcd has no records"));
        }
        if view.layout.is_none() {
            return Err(Error::try_again(
                "etcd has no records of this cluster: it lost its data, or is another one; restore \
                 its data, or remove this host with `spoke host remove` and start a new cluster",
            ));
        }
        let was_older = self.is_older;
        let had_latest = self.had_latest(etcd, view)?;
        self.is_other = is_other(had_latest, self.is_other);
        self.is_older =
            self.is_other || is_older(view, &member.name, (self.heard, self.alive), was_older);
        if self.is_older && self.hosts.lock().older == Older::Accepted {
            (self.is_older, self.alive, self.heard) = (false, Revision::default(), view.revision);
            (self.latest, self.is_other) = (None, false);
        }
        if self.is_older != was_older {
            self.keep_heard();
        }
        let older = if self.is_older { Older::Refused } else { Older::No };
        self.hosts.set(|state| state.older = older);
        if self.is_older {
            return Err(self.older(view));
        }
        self.heard = view.revision;
        if had_latest.is_none() {
            // Of that etcd does not know any more.
            self.latest = None;
        }
        self.note_latest(view);
        Ok(())
    }

    fn older(&self, view: &View) -> Error {
        let state = match view.revision < self.heard {
            true => format!("({}) than was heard of before ({})", view.revision.0, self.heard.0),
            false => format!(
                "than was heard of before, to which others wrote since ({})",
                view.revision.0
            ),
        };
        Error::try_again(format!(
            "etcd has an older state {state}: it was restored from a backup; `spoke host accept-older` takes it as it is"
        ))
    }

    /// Whether the latest record that was heard of was written as that says. A state that was restored comes to the same
    /// revision by what others write to it, and not with this record.
    fn had_latest(&self, etcd: &Etcd, view: &View) -> Result<Option<bool>> {
        match &self.latest {
            Some((key, at)) if *at <= view.revision => etcd.has_written(key, *at),
            Some(_) | None => Ok(None),
        }
    }

    /// The record by which this state is known again.
    pub(in crate::hosts) fn note_latest(&mut self, view: &View) {
        let known = self.latest.as_ref().map(|(_, at)| *at);
        if view.latest.as_ref().map(|(_, at)| *at) > known {
            self.latest.clone_from(&view.latest);
        }
    }
}

/// Whether the latest record that was heard of says that this is another history. Where etcd does not keep what was at that
/// moment, it stays what it was taken for.
fn is_other(had_latest: Option<bool>, was_other: bool) -> bool {
    had_latest.map_or(was_other, |had| !had)
}

/// Whether etcd has an older state than this daemon `heard` of, or than the one in which the host wrote its own record.
/// The revision of a state that was restored grows, maybe beyond both: that record says it still. Without the record
/// the host was removed, unless the state was older before.
fn is_older(
    view: &View,
    name: &HostName,
    (heard, alive): (Revision, Revision),
    was_older: bool,
) -> bool {
    let own = view.epochs.get(name);
    view.revision < heard || own.map_or(was_older, |own| *own < alive)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A backup may have this host's own record, and lack what others wrote after it.
    #[test]
    fn the_next_daemon_knows_the_latest_state() {
        let place = tempfile::tempdir().unwrap();
        let latest = Some(("/spoke/v1/turn".to_owned(), 95));
        let heard = Heard { alive: 90, heard: 100, older: true, other: false, latest };
        heard.write(place.path()).unwrap();
        let read = Heard::read(place.path()).unwrap();
        assert_eq!(read.latest(), Some((Key::Turn, Revision(95))));
        assert_eq!(read.revisions(), (Revision(100), Revision(90)));
        let name: HostName = "a".parse().unwrap();
        let mut view = View { revision: Revision(95), ..View::default() };
        view.epochs.insert(name.clone(), Revision(90));
        assert!(is_older(&view, &name, read.revisions(), false));
        // An earlier version wrote less.
        let earlier: Heard = serde_json::from_str(r#"{"alive":90,"older":true}"#).unwrap();
        assert_eq!(earlier.revisions(), (Revision(90), Revision(90)));
    }

    #[test]
    fn another_history_stays_one_where_etcd_has_forgotten_the_moment() {
        assert!(is_other(Some(false), false) && is_other(None, true));
        assert!(!is_other(Some(true), true) && !is_other(None, false));
    }

    #[test]
    fn the_latest_state_is_written_where_it_changed_and_not_all_the_time() {
        let now = Instant::now();
        let kept = SavedState { heard: Revision(7), at: Some(now), has_failed: false };
        assert!(SavedState::default().is_due(Revision(1), now));
        assert!(!kept.is_due(Revision(8), now) && kept.is_due(Revision(8), now + PERIOD));
        assert!(!kept.is_due(Revision(7), now + PERIOD));
    }

    #[test]
    fn what_was_not_done_in_time_is_taken_back() {
        assert_eq!(Older::Accepted.taken_back(), Older::Refused);
        assert_eq!(Older::No.taken_back(), Older::No);
    }

    #[test]
    fn a_state_that_was_older_stays_so_while_its_revision_grows() {
        let name: HostName = "a".parse().unwrap();
        let is = |revision, own: Option<u64>, was_older| {
            let mut view = View { revision: Revision(revision), ..View::default() };
            own.map(|own| view.epochs.insert(name.clone(), Revision(own)));
            is_older(&view, &name, (Revision(100), Revision(90)), was_older)
        };
        assert!(!is(100, Some(90), false) && !is(120, Some(110), false));
        assert!(is(99, Some(90), false));
        // Other hosts write to it.
        assert!(is(200, Some(50), false) && is(200, Some(50), true) && is(200, None, true));
        // The data are back.
        assert!(!is(200, Some(90), true));
        // This host was removed.
        assert!(!is(200, None, false));
        // A host that has heard of nothing takes it as it is.
        let mut view = View { revision: Revision(7), ..View::default() };
        view.epochs.insert(name.clone(), Revision(3));
        assert!(!is_older(&view, &name, (Revision(0), Revision(0)), false));
    }
}
