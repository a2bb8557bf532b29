//! A line for each change, as long as a browser listens (HTML Standard, Server-Sent Events). The
//! line says only that something changed: the script asks for its view again.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use engine::port::Prefix;
use host::web::http::Connection;
use host::web::{self, Refusal};
use store::Watch;

use super::Daemon;

/// No more listen at a time.
const MOST: usize = 16;

/// How often the event file and the client are looked at while the store is silent.
const GLANCE: Duration = Duration::from_millis(200);

/// How often a line that says nothing is written: what is between may have lost the client.
const PING: Duration = Duration::from_secs(15);

/// After this the client connects anew.
const LONGEST: Duration = Duration::from_secs(600);

/// The store's parts that views show.
const SHOWN: [Prefix; 5] = [
    Prefix::Networks,
    Prefix::Attachments,
    Prefix::AllLeases,
    Prefix::Reservations,
    Prefix::Aliases,
];

/// A place among those that listen.
struct StreamSlot<'a>(&'a AtomicUsize);

impl<'a> StreamSlot<'a> {
    fn take(streams: &'a AtomicUsize) -> Option<Self> {
        let place = Self(streams);
        (streams.fetch_add(1, Ordering::AcqRel) < MOST).then_some(place)
    }
}

impl Drop for StreamSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Daemon {
    /// Writes until the client has gone, or the daemon ends.
    pub(super) fn live(
        &self,
        connection: &mut dyn Connection,
        streams: &AtomicUsize,
    ) -> io::Result<()> {
        let refusal = |sentence| Refusal { status: "503 Service Unavailable", sentence };
        let Some(_place) = StreamSlot::take(streams) else {
            return web::refuse(connection, &refusal("too many listen already"));
        };
        let Ok(mut watch) = self.watch_shown() else {
            return web::refuse(connection, &refusal("changes cannot be watched"));
        };
        let head = web::head("200 OK", "text/event-stream", None, "X-Accel-Buffering: no\r\n");
        web::write(connection, format!("{head}retry: 1000\n\n").as_bytes())?;
        let events = self.context_pool.config().events.path.clone();
        let (started, mut written) = (Instant::now(), Instant::now());
        let files = [host::denied::path(&events), events];
        let look = || files.each_ref().map(|file| mark_of(file));
        let mut mark = look();
        while !self.sleep(Duration::ZERO) && started.elapsed() < LONGEST {
            // What cannot be watched any more is watched anew by the next connection.
            let Ok(changes) = watch.wait(GLANCE) else { return Ok(()) };
            if connection.is_over() {
                return Ok(());
            }
            let now = look();
            if !changes.is_empty() || now != mark {
                mark = now;
                web::write(connection, b"event: change\ndata: 1\n\n")?;
                written = Instant::now();
            } else if written.elapsed() > PING {
                web::write(connection, b": \n\n")?;
                written = Instant::now();
            }
        }
        Ok(())
    }

    /// Changes from now on.
    fn watch_shown(&self) -> model::Result<Watch> {
        let store = host::host_context::open_store(self.context_pool.config())?;
        let mut watch = store.watch(&SHOWN)?;
        watch.wait(Duration::ZERO)?;
        Ok(watch)
    }
}

/// Differs when a file of events or refusals has more of them.
fn mark_of(file: &Path) -> Option<(u64, u64)> {
    fs::metadata(file).ok().map(|file| (file.ino(), file.len()))
}
