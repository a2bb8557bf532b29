//! What the databases of switches listed lately. Every attachment is looked at each time the packet filter is,
//! which must not ask for each, nor wait for a database that hangs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use neutron::ovsdb::{Listed, Ovsdb};

use super::TIMEOUT;

/// How long an answer serves.
const FRESH: Duration = Duration::from_secs(5);

/// How soon a database is asked again that did not answer.
const AGAIN: Duration = Duration::from_secs(60);

/// The answers, by database.
#[derive(Default)]
pub(in crate::dataplane) struct Known {
    answers: Mutex<BTreeMap<String, Answer>>,
}

struct Answer {
    until: Instant,
    listed: Option<Arc<Vec<Listed>>>,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").finish_non_exhaustive()
    }
}

impl Known {
    /// The ports of Spoke's that a database has, or had some seconds ago; none where it does not answer.
    pub(super) fn listed(&self, database: &str) -> Option<Arc<Vec<Listed>>> {
        let now = Instant::now();
        let answers = || self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = answers().get(database).filter(|answer| now < answer.until) {
            return answer.listed.clone();
        }
        // Other threads may ask meanwhile: nothing is locked while a database is asked.
        let asked = Ovsdb::connect_within(database, TIMEOUT).and_then(|mut it| it.listed());
        let listed = asked.ok().map(Arc::new);
        let lasts = if listed.is_some() { FRESH } else { AGAIN };
        let answer = Answer { until: Instant::now() + lasts, listed: listed.clone() };
        answers().insert(database.to_owned(), answer);
        listed
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
        let known = Known::default();
        assert!(known.listed(&database).is_none());
        server.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        assert!(known.listed(&database).is_none());
        assert!(server.accept().is_err(), "it was asked again");
    }
}
