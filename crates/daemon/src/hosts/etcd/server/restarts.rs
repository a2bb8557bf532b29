//! Restarts of an etcd that ended by itself: the time of the next start, and the last message.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::time::{Duration, Instant};

use super::{LOG, Server};

/// A longer log begins anew, in bytes: nothing else rotates it.
const LONGEST_LOG: u64 = 4 << 20;
/// The end of it that is looked at, in bytes.
const LAST: u64 = 4096;

/// How often etcd has ended by itself: each time it is started again later.
#[derive(Default)]
pub(super) struct EtcdRestarts {
    started: Option<Instant>,
    next: Option<Instant>,
    pub(super) pause: Duration,
}

impl EtcdRestarts {
    /// The first pause.
    const FIRST: Duration = Duration::from_secs(1);
    /// The longest one; what runs for longer begins with the first again.
    const LAST: Duration = Duration::from_secs(60);

    /// It has ended: when it is started again. Whether that was not known yet.
    pub(super) fn end(&mut self, now: Instant) -> bool {
        if self.next.is_some() {
            return false;
        }
        let ran = self.started.map(|started| now.saturating_duration_since(started));
        self.pause = match ran {
            Some(ran) if ran < Self::LAST => (self.pause * 2).clamp(Self::FIRST, Self::LAST),
            Some(_) | None => Self::FIRST,
        };
        self.next = Some(now + self.pause);
        true
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    pub(super) fn start(&mut self, now: Instant) {
        (self.started, self.next) = (Some(now), None);
    }
}

impl Server {
    /// etcd appends to it, and goes on at its beginning.
    pub(super) fn shorten_log(&self) {
        let path = self.directory.join(LOG);
        let is_long = fs::metadata(&path).is_ok_and(|found| found.len() > LONGEST_LOG);
        if is_long && let Ok(log) = fs::OpenOptions::new().write(true).open(&path) {
            // Tried again in a second.
            let _ = log.set_len(0);
        }
    }

    pub(super) fn last_line(&self) -> String {
        let read = || {
            let mut log = fs::File::open(self.directory.join(LOG))?;
            let length = log.metadata()?.len();
            log.seek(SeekFrom::Start(length.saturating_sub(LAST)))?;
            let mut end = Vec::new();
            log.take(LAST).read_to_end(&mut end)?;
            Ok::<_, std::io::Error>(String::from_utf8_lossy(&end).into_owned())
        };
        let text = read().unwrap_or_default();
        let last = text.lines().rfind(|line| !line.trim().is_empty());
        last.map_or_else(|| "nothing".to_owned(), model::text::shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::StoreConfig;

    #[test]
    fn what_ends_at_once_is_started_ever_later() {
        let (mut ends, begin) = (EtcdRestarts::default(), Instant::now());
        let (mut now, mut pauses) = (begin, Vec::new());
        for _ in 0..8 {
            ends.start(now);
            assert!(ends.end(now) && !ends.end(now) && !ends.is_due(now));
            pauses.push(ends.pause.as_secs());
            now += ends.pause;
            assert!(ends.is_due(now));
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        ends.start(now);
        assert!(ends.end(now + EtcdRestarts::LAST));
        assert_eq!(ends.pause, EtcdRestarts::FIRST);
    }

    #[test]
    fn the_log_is_cut_and_its_last_line_is_known() {
        let place = tempfile::tempdir().unwrap();
        let store =
            StoreConfig { runtime: place.path().to_owned(), state: place.path().to_owned() };
        let server = Server::new(&store);
        assert_eq!(server.last_line(), "nothing");
        fs::create_dir(place.path().join("etcd")).unwrap();
        let log = place.path().join("etcd").join(LOG);
        fs::write(&log, "first\nthe member was removed\n\n").unwrap();
        assert_eq!(server.last_line(), "the member was removed");
        fs::File::options().write(true).open(&log).unwrap().set_len(LONGEST_LOG).unwrap();
        server.shorten_log();
        assert_eq!(fs::metadata(&log).unwrap().len(), LONGEST_LOG);
        fs::File::options().write(true).open(&log).unwrap().set_len(LONGEST_LOG + 1).unwrap();
        server.shorten_log();
        assert_eq!(fs::metadata(&log).unwrap().len(), 0);
    }
}
