//! etcd's watches (`/v3/watch`): one JSON message a line.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::ops::ControlFlow;
use std::time::Duration;

use model::{Error, Result};
use serde_json::json;

use super::http::Http;
use super::wire::{Streamed, Watched, encoded};
use super::{change, end_of};
use crate::layout::ROOT;
use crate::port::{Listener, WatchEnd};
use crate::record::{Change, Revision};

/// A longer message is refused, in bytes: etcd splits what is longer than 1.5 MiB.
const LONGEST: u64 = 16 << 20;

pub(super) fn watch(
    http: &Http,
    after: Revision,
    quiet: Duration,
    listener: &mut Listener<'_>,
) -> Result<WatchEnd> {
    let body = json!({"create_request": {
        "key": encoded(ROOT),
        "range_end": encoded(&end_of(ROOT)),
        "start_revision": (after.0 + 1).to_string(),
    }});
    let mut stream = BufReader::new(http.stream("/v3/watch", &body, quiet)?);
    loop {
        let Some(line) = line(&mut stream)? else { return Ok(WatchEnd::Over) };
        match hear(&line, listener)? {
            Some(end) => return Ok(end),
            None => continue,
        }
    }
}

/// The next message; nothing where none came in time. A stream that ends is an error: the server has
/// gone.
fn line(stream: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = stream.by_ref().take(LONGEST).read_until(b'\n', &mut line);
    match read {
        Ok(_) if line.last() == Some(&b'\n') => Ok(Some(line)),
        Ok(_) if line.len() as u64 >= LONGEST => {
            Err(Error::try_again("etcd reports more changes at once than are read"))
        }
        Ok(_) => Err(Error::try_again("etcd has ended the watch")),
        Err(cause) if is_timeout(&cause) && line.is_empty() => Ok(None),
        Err(cause) => Err(Error::try_again("watching etcd").because(cause)),
    }
}

fn is_timeout(cause: &std::io::Error) -> bool {
    let inner = cause.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
    cause.kind() == ErrorKind::TimedOut || matches!(inner, Some(ureq::Error::Timeout(_)))
}

fn hear(line: &[u8], listener: &mut Listener<'_>) -> Result<Option<WatchEnd>> {
    let given: Streamed<Watched> = serde_json::from_slice(line)
        .map_err(|cause| Error::try_again("etcd's watch is not as it should be").because(cause))?;
    let Some(watched) = given.result else {
        let words = given.error.map(|error| error.message).unwrap_or_default();
        return Err(Error::try_again(format!("etcd's watch: {}", model::text::shown(&words))));
    };
    if watched.compact_revision > 0 {
        return Ok(Some(WatchEnd::Compacted));
    }
    if watched.canceled {
        let words = model::text::shown(&watched.cancel_reason);
        return Err(Error::try_again(format!("etcd has ended the watch: {words}")));
    }
    // That of the header may be of changes which are still to come.
    let revision = watched.events.iter().map(|event| event.kv.mod_revision).max();
    let changes: Vec<Change> = watched
        .events
        .into_iter()
        .map(|event| {
            let is_deletion = event.is_deletion();
            change(event.kv, is_deletion)
        })
        .collect();
    let Some(revision) = revision else { return Ok(None) };
    match listener(Revision(revision), changes) {
        ControlFlow::Break(()) => Ok(Some(WatchEnd::Over)),
        ControlFlow::Continue(()) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Heard = Vec<(Revision, Vec<Change>)>;

    fn heard(line: &str) -> (Result<Option<WatchEnd>>, Heard) {
        let mut all = Vec::new();
        let end = hear(line.as_bytes(), &mut |revision, changes| {
            all.push((revision, changes));
            ControlFlow::Continue(())
        });
        (end, all)
    }

    #[test]
    fn messages_are_read() {
        let (end, changes) = heard(r#"{"result":{"header":{"revision":"7"},"created":true}}"#);
        assert_eq!((end.unwrap(), changes.len()), (None, 0));
        let key = encoded("/spoke/v1/alive/a");
        let event = format!(r#"{{"type":"DELETE","kv":{{"key":"{key}","mod_revision":"8"}}}}"#);
        let line = format!(r#"{{"result":{{"header":{{"revision":"8"}},"events":[{event}]}}}}"#);
        let (end, changes) = heard(&line);
        assert_eq!(end.unwrap(), None);
        assert_eq!(changes[0].0, Revision(8));
        assert!(matches!(changes[0].1[0].read, Ok((_, None))));
        let compacted = r#"{"result":{"header":{},"canceled":true,"compact_revision":"9"}}"#;
        assert_eq!(heard(compacted).0.unwrap(), Some(WatchEnd::Compacted));
        for broken in
            ["", "{}", "[]", r#"{"error":{"message":"x"}}"#, r#"{"result":{"canceled":true}}"#]
        {
            assert!(heard(broken).0.is_err(), "{broken}");
        }
    }
}
