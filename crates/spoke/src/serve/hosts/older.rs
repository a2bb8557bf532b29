//! An etcd that lost its data, or has an older state of them.

use cluster::{Revision, View};
use model::{Error, HostName, Result};

use super::keep::Keeper;
use super::member::Member;

impl Keeper<'_> {
    /// Such an etcd says nothing of which hosts were removed: what this host has stays until etcd is as it was, or the
    /// operator decides.
    pub(super) fn refuse_older(&mut self, view: &View, member: &Member) -> Result<()> {
        if view.layout.is_none() && self.hosts.lock().leaving {
            return Err(Error::not_found("this host left a cluster of which etcd has no records"));
        }
        if view.layout.is_none() {
            return Err(Error::try_again(
                "etcd has no records of this cluster: it lost its data, or is another one; restore \
                 its data, or remove this host with `spoke host remove` and begin anew",
            ));
        }
        self.is_older = is_older(view, &member.name, (self.heard, self.alive), self.is_older);
        if self.is_older {
            return Err(Error::try_again(format!(
                "etcd has an older state ({}) than was heard of before ({}): it was restored from a \
                 backup; restart the daemon to take it as it is",
                view.revision.0, self.heard.0
            )));
        }
        self.heard = view.revision;
        Ok(())
    }
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
        // A daemon that has just begun takes it as it is.
        let mut view = View { revision: Revision(7), ..View::default() };
        view.epochs.insert(name.clone(), Revision(3));
        assert!(!is_older(&view, &name, (Revision(0), Revision(0)), false));
    }
}
