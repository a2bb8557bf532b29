//! The contents of a record's file: its key, its revision, and the record, as JSON.

use engine::port::{Key, Record, Revision, Versioned};
use model::{Error, Result};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

/// No record is larger, in bytes: what bounds every read. A container that publishes every port of a protocol
/// has some 10 MB, most of it twice.
pub(crate) const LARGEST: usize = 16 << 20;

/// Which record a file holds; its directory says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Network,
    Configured,
    Title,
    Attachment,
    Lease,
    Cursor,
    Port,
    Reservation,
    Sticky,
    Subnet,
    Alias,
    Sandbox,
    Endpoint,
    Amendment,
    Usage,
}

#[derive(Serialize, Deserialize)]
struct Stored<K, R> {
    key: K,
    revision: u64,
    record: R,
}

impl Kind {
    pub(crate) fn of(key: &Key) -> Self {
        match key {
            Key::Network(_) => Kind::Network,
            Key::Configured(_) => Kind::Configured,
            Key::Title(_) => Kind::Title,
            Key::Attachment(..) => Kind::Attachment,
            Key::Lease(..) => Kind::Lease,
            Key::Cursor(_) => Kind::Cursor,
            Key::Port(..) => Kind::Port,
            Key::Reservation(..) => Kind::Reservation,
            Key::Sticky(..) => Kind::Sticky,
            Key::Subnet(_) => Kind::Subnet,
            Key::Alias(_) => Kind::Alias,
            Key::Sandbox(_) => Kind::Sandbox,
            Key::Endpoint(_) => Kind::Endpoint,
            Key::Amendment(..) => Kind::Amendment,
            Key::Usage(..) => Kind::Usage,
        }
    }
}

/// The contents of the file of `key`. Fails with `Bug` where the record is of another kind than
/// the key, and with `Invalid` where it is too large.
pub(crate) fn encode(key: &Key, revision: Revision, record: &Record) -> Result<Vec<u8>> {
    let bytes = match (key, record) {
        (Key::Network(name) | Key::Configured(name), Record::Network(network)) => {
            write(name, revision, network)
        }
        (Key::Title(name), Record::Title(network)) => write(name, revision, network),
        (Key::Attachment(id, layer), Record::Attachment(held)) => {
            write((id, layer), revision, held)
        }
        (Key::Lease(space, address), Record::Lease(held)) => {
            write((space, address), revision, held)
        }
        (Key::Cursor(pool), Record::Cursor(cursor)) => write(pool, revision, cursor),
        (Key::Port(protocol, port), Record::Port(claims)) => {
            write((protocol, port), revision, claims)
        }
        (Key::Reservation(space, address), Record::Reservation(held)) => {
            write((space, address), revision, held)
        }
        (Key::Sticky(network, owner), Record::Sticky(addresses)) => {
            write((network, owner), revision, addresses)
        }
        (Key::Subnet(id), Record::Subnet(subnet)) => write(id, revision, subnet),
        (Key::Alias(id), Record::Alias(alias)) => write(id, revision, alias),
        (Key::Endpoint(id), Record::Attachment(held)) => write(id, revision, held),
        (Key::Amendment(network, runtime, name), Record::Amendment(held)) => {
            write((network, runtime, name), revision, held)
        }
        (Key::Usage(network, runtime, name, ifname), Record::Usage(held)) => {
            write((network, runtime, name, ifname), revision, held)
        }
        (Key::Sandbox(container), Record::Sandbox(sandbox_record)) => {
            write(container, revision, sandbox_record)
        }
        _ => return Err(Error::bug(format!("a record of another kind under {key:?}"))),
    }?;
    match bytes.len() {
        0..=LARGEST => Ok(bytes),
        size => Err(Error::invalid(format!(
            "{} would be a record of {size} bytes, and {LARGEST} are the most; publish fewer ports in one \
             container, or have fewer of what it lists",
            engine::describe(key)
        ))),
    }
}

fn write<K: Serialize, R: Serialize>(key: K, revision: Revision, record: R) -> Result<Vec<u8>> {
    let stored = Stored { key, revision: revision.0, record };
    serde_json::to_vec(&stored).map_err(|cause| Error::bug("a record is no JSON").because(cause))
}

/// The key, revision and record in a file of that kind.
pub(crate) fn decode(kind: Kind, bytes: &[u8]) -> serde_json::Result<(Key, Versioned)> {
    match kind {
        Kind::Network => read(bytes, Key::Network, Record::Network),
        Kind::Configured => read(bytes, Key::Configured, Record::Network),
        Kind::Title => read(bytes, Key::Title, Record::Title),
        Kind::Attachment => {
            read(bytes, |(id, layer)| Key::Attachment(id, layer), Record::Attachment)
        }
        Kind::Lease => read(bytes, |(space, address)| Key::Lease(space, address), Record::Lease),
        Kind::Cursor => read(bytes, Key::Cursor, Record::Cursor),
        Kind::Port => read(bytes, |(protocol, port)| Key::Port(protocol, port), Record::Port),
        Kind::Reservation => {
            read(bytes, |(space, address)| Key::Reservation(space, address), Record::Reservation)
        }
        Kind::Sticky => read(bytes, |(network, owner)| Key::Sticky(network, owner), Record::Sticky),
        Kind::Subnet => read(bytes, Key::Subnet, Record::Subnet),
        Kind::Alias => read(bytes, Key::Alias, Record::Alias),
        Kind::Sandbox => read(bytes, Key::Sandbox, Record::Sandbox),
        Kind::Endpoint => read(bytes, Key::Endpoint, Record::Attachment),
        Kind::Amendment => read(
            bytes,
            |(network, runtime, name)| Key::Amendment(network, runtime, name),
            Record::Amendment,
        ),
        Kind::Usage => {
            let key = |(network, runtime, name, ifname)| Key::Usage(network, runtime, name, ifname);
            read(bytes, key, Record::Usage)
        }
    }
}

fn read<K: DeserializeOwned, R: DeserializeOwned>(
    bytes: &[u8],
    key: impl FnOnce(K) -> Key,
    record: impl FnOnce(R) -> Record,
) -> serde_json::Result<(Key, Versioned)> {
    let stored: Stored<K, R> = serde_json::from_slice(bytes)?;
    let revision = Revision(stored.revision);
    Ok((key(stored.key), Versioned { record: record(stored.record), revision }))
}

/// Only the revision of a file's record.
pub(super) fn revision(bytes: &[u8]) -> serde_json::Result<Revision> {
    let stored: Stored<IgnoredAny, IgnoredAny> = serde_json::from_slice(bytes)?;
    Ok(Revision(stored.revision))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Cursor, PoolId};
    use proptest::prelude::*;

    fn cursor() -> (Key, Record) {
        let key = Key::Cursor(PoolId { network: "n".parse().unwrap(), index: 0 });
        (key, Record::Cursor(Cursor::new("10.0.0.1".parse().unwrap())))
    }

    #[test]
    fn the_format_is_fixed() {
        let (key, record) = cursor();
        let bytes = encode(&key, Revision(7), &record).unwrap();
        let expected =
            r#"{"key":{"network":"n","index":0},"revision":7,"record":{"at":"10.0.0.1"}}"#;
        assert_eq!(String::from_utf8(bytes.clone()).unwrap(), expected);
        assert_eq!(revision(&bytes).unwrap(), Revision(7));
        let read = decode(Kind::Cursor, &bytes).unwrap();
        assert_eq!(read, (key, Versioned { record, revision: Revision(7) }));
    }

    #[test]
    fn refuses_a_record_of_another_kind_and_a_huge_one() {
        let (key, record) = cursor();
        let port = Key::Port(model::Protocol::Tcp, 1.try_into().unwrap());
        assert_eq!(encode(&port, Revision(1), &record).unwrap_err().kind(), model::Kind::Bug);
        let many = Record::Sticky(vec!["255.255.255.255".parse().unwrap(); 1_000_000]);
        let sticky = Key::Sticky("n".parse().unwrap(), "o".parse().unwrap());
        assert_eq!(encode(&sticky, Revision(1), &many).unwrap_err().kind(), model::Kind::Invalid);
        drop(key);
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(Kind::Lease, &bytes);
            let _ = revision(&bytes);
        }

        #[test]
        fn no_truncated_file_is_taken(cut in 0usize..73) {
            let (key, record) = cursor();
            let bytes = encode(&key, Revision(7), &record).unwrap();
            prop_assert!(decode(Kind::Cursor, &bytes[..cut.min(bytes.len() - 1)]).is_err());
        }
    }
}
