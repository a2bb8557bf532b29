//! What the databases of switches listed lately. Every attachment is looked at each time the packet filter is,
//! which must not ask for each, nor wait for a database that hangs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::IfName;
use neutron::ovsdb::{Datapath, Listed, Ovsdb};

use super::TIMEOUT;

/// How long an answer serves.
const FRESH: Duration = Duration::from_secs(5);

/// How soon a database is asked again that did not answer, and what forwards the packets of a bridge.
const AGAIN: Duration = Duration::from_secs(60);

/// The answers, by database.
#[derive(Default)]
pub(in crate::dataplane) struct SwitchCache {
    answers: Mutex<BTreeMap<String, Answer>>,
    bridges: Mutex<BTreeMap<Bridge, (Instant, Datapath)>>,
}

/// A database and a bridge of it.
type Bridge = (String, IfName);

/// The owners of Spoke's ports, by their interfaces.
type Owners = BTreeMap<IfName, String>;

struct Answer {
    until: Instant,
    listed: Option<Arc<Owners>>,
}

impl fmt::Debug for SwitchCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").finish_non_exhaustive()
    }
}

impl SwitchCache {
    /// The ports of Spoke's that a database has, or had some seconds ago; none where it does not answer.
    pub(super) fn listed(&self, database: &str) -> Option<Arc<Owners>> {
        let now = Instant::now();
        let answers = || self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = answers().get(database).filter(|answer| now < answer.until) {
            return answer.listed.clone();
        }
        // Other threads may ask meanwhile: nothing is locked while a database is asked.
        let asked = Ovsdb::connect_within(database, TIMEOUT).and_then(|mut it| it.listed());
        let owners = |all: Vec<Listed>| all.into_iter().map(|it| (it.end, it.owner)).collect();
        let listed = asked.ok().map(|all| Arc::new(owners(all)));
        let lasts = if listed.is_some() { FRESH } else { AGAIN };
        let answer = Answer { until: Instant::now() + lasts, listed: listed.clone() };
        answers().insert(database.to_owned(), answer);
        listed
    }

    /// What forwards a bridge's packets, or did lately: its operator changes it hardly ever. None where the
    /// database does not answer, or has no such bridge.
    pub(super) fn datapath(&self, database: &str, bridge: &IfName) -> Option<Datapath> {
        let (now, key) = (Instant::now(), (database.to_owned(), bridge.clone()));
        let bridges = || self.bridges.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, datapath)) = bridges().get(&key).filter(|(until, _)| now < *until) {
            return Some(*datapath);
        }
        // One that did not answer lately is not waited for.
        self.listed(database)?;
        let asked = Ovsdb::connect_within(database, TIMEOUT).and_then(|mut it| it.bridge(bridge));
        let datapath = asked.ok()??.datapath;
        bridges().insert(key, (Instant::now() + AGAIN, datapath));
        Some(datapath)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A server that accepts no connection, as one that is stopped.
    #[test]
    fn who_does_not_answer_is_not_waited_for_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db.sock");
        let server = UnixListener::bind(&path).unwrap();
        let database = format!("unix:{}", path.display());
        let known = SwitchCache::default();
        assert!(known.listed(&database).is_none());
        server.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        assert!(known.listed(&database).is_none());
        assert!(known.datapath(&database, &"br0".parse().unwrap()).is_none());
        assert!(server.accept().is_err(), "it was asked again");
    }
}
