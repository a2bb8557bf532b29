//! etcd by its JSON gateway (`/v3/kv/txn`, `/v3/watch`, `/v3/lease`; etcd 3.4 and later).
//!
//! Why not a gRPC client: see `docs/design/hosts.md`.

mod access;
mod http;
mod servers;
mod url;
mod watch;
mod wire;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use model::{Error, Kind, Result};
use serde_json::{Value, json};

use crate::layout::{self, ROOT};
use crate::port::{Cluster, Expect, LeaseId, Listener, Outcome, Txn, WatchEnd, Write};
use crate::record::{Change, Key, Record, Revision, TokenId, TokenRecord};
use crate::view::View;
pub use access::Access;
use http::Http;
pub use servers::EtcdServer;
pub use url::Url;
use wire::{Granted, KeyValue, Ranged, Renewed, Streamed, Txned, encoded};

/// How many records are asked for at a time.
const PAGE: usize = 2000;
/// A cluster of more records than this is refused: it is not one of ours.
const MOST_RECORDS: usize = 1 << 20;
/// The same in bytes of keys and values.
const MOST_BYTES: usize = 256 << 20;
/// So many kinds of records are distinguished, by so many bytes of their names: a layout has fewer, and shorter ones.
const MOST_KINDS: usize = 64;
const LONGEST_KIND: usize = 32;

/// What etcd says of a state that it does not keep any more (`ErrGRPCCompacted`).
const COMPACTED: &str = "required revision has been compacted";

/// How long a renewal may take: a host notices by it that it is cut off, and then connects anew rather than
/// wait for a connection whose packets are repeated ever more rarely.
const RENEWAL: Duration = Duration::from_secs(2);

/// A connection to the servers of etcd. Nothing is sent before it is used.
#[derive(Debug)]
pub struct Etcd {
    http: Http,
}

impl Etcd {
    /// With the servers of one etcd.
    ///
    /// # Errors
    /// `Invalid` where none is named, or a file cannot be used.
    pub fn new(servers: Vec<Url>, access: Access) -> Result<Self> {
        Http::new(servers, access).map(|http| Self { http })
    }

    /// What is known of one token, without reading all else.
    ///
    /// # Errors
    /// As those of the port.
    pub fn token(&self, id: &TokenId) -> Result<Option<TokenRecord>> {
        let path = layout::path(&Key::Token(id.clone()));
        let found: Ranged = self.http.ask("/v3/kv/range", &json!({"key": encoded(&path)}))?;
        let read = found.kvs.into_iter().next().map(|found| change(found, false).read);
        Ok(match read {
            Some(Ok((_, Some((Record::Token(token), _))))) => Some(token),
            Some(_) | None => None,
        })
    }

    /// Whether a record was written in this transaction; `None` where etcd does not know any more. In a state that was
    /// restored, and to which others wrote since, something else or nothing was.
    ///
    /// # Errors
    /// As those of the port.
    pub fn has_written(&self, key: &Key, at: Revision) -> Result<Option<bool>> {
        let path = encoded(&layout::path(key));
        let body = json!({"key": path, "revision": at.0.to_string()});
        let found: Ranged = match self.http.ask("/v3/kv/range", &body) {
            Ok(found) => found,
            Err(error) if error.to_string().contains(COMPACTED) => {
                let now: Ranged = self.http.ask("/v3/kv/range", &json!({"key": path}))?;
                let is_known = |known: &KeyValue| match known.mod_revision.cmp(&at.0) {
                    Ordering::Less => Some(false),
                    Ordering::Equal => Some(true),
                    Ordering::Greater => None,
                };
                return Ok(now.kvs.first().and_then(is_known));
            }
            Err(error) => return Err(error),
        };
        Ok(Some(found.kvs.first().is_some_and(|known| known.mod_revision == at.0)))
    }

    /// The next records, at most `limit`: fewer from then on where they are long.
    fn page(&self, from: &str, at: Option<u64>, limit: &mut usize) -> Result<Ranged> {
        fewer(limit, |limit| {
            let body = json!({
                "key": encoded(from),
                "range_end": encoded(&end_of(ROOT)),
                "limit": limit.to_string(),
                "revision": at.unwrap_or(0).to_string(),
            });
            self.http.ask("/v3/kv/range", &body)
        })
    }
}

impl Cluster for Etcd {
    fn read(&self) -> Result<View> {
        let mut view = View::default();
        let (mut from, mut at, mut limit) = (ROOT.to_owned(), None, PAGE);
        let mut amount = Amount::default();
        loop {
            let page = self.page(&from, at, &mut limit)?;
            let revision = *at.get_or_insert(page.header.revision);
            view.revision = Revision(revision);
            let last = page.kvs.last().map(|last| last.key.clone());
            for found in page.kvs {
                amount.add(&found);
                view.apply(change(found, false));
            }
            amount.check()?;
            match last {
                // The key behind it.
                Some(last) if page.more => from = format!("{}\0", String::from_utf8_lossy(&last)),
                Some(_) | None => return Ok(view),
            }
        }
    }

    fn commit(&self, txn: &Txn) -> Result<Outcome> {
        if txn.writes.len() > Txn::MOST {
            return Err(Error::bug("a transaction of too many writes"));
        }
        let mut compare: Vec<Value> =
            txn.expect.iter().map(|(key, is)| compared(key, *is)).collect();
        compare.extend(txn.no_pin_since.map(|since| none_since(&format!("{ROOT}pin/"), since)));
        let certificates = txn.no_certificate_since.as_ref();
        compare.extend(
            certificates.map(|(host, since)| none_since(&layout::certificates_of(host), *since)),
        );
        let success: Result<Vec<Value>> = txn.writes.iter().map(written).collect();
        let done: Txned =
            self.http.ask("/v3/kv/txn", &json!({"compare": compare, "success": success?}))?;
        Ok(match done.succeeded {
            true => Outcome::Done(Revision(done.header.revision)),
            false => Outcome::Lost,
        })
    }

    fn grant(&self, seconds: u32) -> Result<LeaseId> {
        let granted: Granted =
            self.http.ask("/v3/lease/grant", &json!({"TTL": seconds.to_string()}))?;
        Ok(LeaseId(granted.id))
    }

    fn renew(&self, lease: LeaseId) -> Result<bool> {
        let body = json!({"ID": lease.0.to_string()});
        let renewed: Streamed<Renewed> =
            self.http.ask_within(RENEWAL, "/v3/lease/keepalive", &body)?;
        Ok(renewed.result.is_some_and(|renewed| renewed.seconds > 0))
    }

    fn watch(
        &self,
        after: Revision,
        quiet: Duration,
        listener: &mut Listener<'_>,
    ) -> Result<WatchEnd> {
        watch::watch(&self.http, after, quiet, listener)
    }
}

/// How much was read, and what it is: what stands behind [`ROOT`] in each key.
#[derive(Default)]
struct Amount {
    records: usize,
    bytes: usize,
    of_kind: BTreeMap<String, usize>,
}

impl Amount {
    fn add(&mut self, found: &KeyValue) {
        let bytes = found.key.len() + found.value.len();
        (self.records, self.bytes) = (self.records + 1, self.bytes + bytes);
        let rest = found.key.get(ROOT.len()..).unwrap_or_default();
        let kind = rest.split(|byte| *byte == b'/').next().unwrap_or_default();
        let kind = String::from_utf8_lossy(&kind[..kind.len().min(LONGEST_KIND)]);
        if let Some(known) = self.of_kind.get_mut(&*kind) {
            *known += bytes;
        } else if self.of_kind.len() < MOST_KINDS {
            self.of_kind.insert(kind.into_owned(), bytes);
        }
    }

    /// Nothing of it can be left out: without its own record a host would be one that was removed.
    fn check(&self) -> Result<()> {
        if self.records <= MOST_RECORDS && self.bytes <= MOST_BYTES {
            return Ok(());
        }
        let most = self.of_kind.iter().max_by_key(|(_, bytes)| **bytes);
        let most = most.map_or("", |(kind, _)| kind.as_str());
        Err(Error::invalid(format!(
            "etcd holds more than {MOST_RECORDS} records, or {} MiB, below {ROOT}, most of it below {ROOT}{}: they are not \
             Spoke's; delete them",
            MOST_BYTES >> 20,
            model::text::shown(most)
        )))
    }
}

/// Asks for ever fewer records while the answer is longer than is read.
fn fewer<T>(limit: &mut usize, ask: impl Fn(usize) -> Result<T>) -> Result<T> {
    loop {
        match ask(*limit) {
            Err(error) if error.kind() == Kind::Exhausted && *limit > 1 => {
                *limit = (*limit / 8).max(1);
            }
            answer => return answer,
        }
    }
}

/// The first key behind all that begin with `prefix`, which ends in `/`.
fn end_of(prefix: &str) -> String {
    let mut end = prefix.to_owned();
    end.pop();
    end.push('0');
    end
}

fn compared(key: &Key, expect: Expect) -> Value {
    let key = encoded(&layout::path(key));
    match expect {
        Expect::Absent => {
            json!({"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0"})
        }
        Expect::Present => {
            json!({"key": key, "target": "CREATE", "result": "GREATER", "create_revision": "0"})
        }
        Expect::At(Revision(at)) => {
            json!({"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": at.to_string()})
        }
    }
}

/// A range without a key counts as one of revision 0.
fn none_since(prefix: &str, Revision(since): Revision) -> Value {
    json!({
        "key": encoded(prefix), "range_end": encoded(&end_of(prefix)), "target": "MOD", "result": "LESS",
        "mod_revision": since.saturating_add(1).to_string(),
    })
}

fn written(write: &Write) -> Result<Value> {
    Ok(match write {
        Write::Put(key, record, lease) => json!({"request_put": {
            "key": encoded(&layout::path(key)),
            "value": encoded(&layout::value(record)?),
            "lease": lease.map_or(0, |lease| lease.0).to_string(),
        }}),
        Write::Delete(key) => {
            json!({"request_delete_range": {"key": encoded(&layout::path(key))}})
        }
        Write::DeleteEndpointsOf(host) => {
            let prefix = layout::endpoints_of(host);
            json!({"request_delete_range": {
                "key": encoded(&prefix),
                "range_end": encoded(&end_of(&prefix)),
            }})
        }
    })
}

/// What a record of etcd's is to us.
fn change(found: KeyValue, is_deleted: bool) -> Change {
    let path = String::from_utf8_lossy(&found.key).into_owned();
    let read = layout::key(&path).and_then(|key| match is_deleted {
        true => Ok((key, None)),
        false => {
            let record = layout::record(&key, &found.value)?;
            Ok((key, Some((record, Revision(found.mod_revision)))))
        }
    });
    let bytes = found.key.len() + found.value.len();
    Change { path, is_gone: is_deleted, bytes, read: read.map_err(|error| error.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_records_are_read_a_few_at_a_time() {
        let of = |most: usize| {
            let mut limit = PAGE;
            let read = fewer(&mut limit, |limit| match limit <= most {
                true => Ok(limit),
                false => Err(Error::exhausted("an answer that is too long")),
            });
            // The next page begins with what fits.
            read.inspect(|read| assert_eq!(*read, limit))
        };
        assert_eq!([of(2000), of(1999), of(40), of(1)].map(Result::unwrap), [2000, 250, 31, 1]);
        assert_eq!(of(0).unwrap_err().kind(), Kind::Exhausted);
    }

    #[test]
    fn what_is_too_much_is_named() {
        let found = |key: &str, bytes: usize| KeyValue {
            key: format!("{ROOT}{key}").into_bytes(),
            value: vec![b'x'; bytes],
            mod_revision: 1,
        };
        let mut amount = Amount::default();
        amount.add(&found("host/a", 100));
        for _ in 0..16 {
            amount.add(&found("endpoint/b/front/10.8.0.2", 16 << 20));
        }
        let why = amount.check().unwrap_err().to_string();
        assert!(
            why.contains("256 MiB") && why.contains("most of it below /spoke/v1/endpoint"),
            "{why}"
        );
        let mut amount = Amount::default();
        for kind in 0..100 {
            amount.add(&found(&format!("{kind}{}/a", "x".repeat(100)), 1));
        }
        assert!(amount.check().is_ok() && amount.of_kind.len() == MOST_KINDS);
    }
}
