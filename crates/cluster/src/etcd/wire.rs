//! The JSON of the gateway: bytes are base64, 64-bit numbers are strings, what is zero is left out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{self, Deserializer};

/// Bytes, as the gateway wants them.
pub(super) fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Header {
    #[serde(default, deserialize_with = "number")]
    pub(super) revision: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct KeyValue {
    #[serde(default, deserialize_with = "bytes")]
    pub(super) key: Vec<u8>,
    #[serde(default, deserialize_with = "bytes")]
    pub(super) value: Vec<u8>,
    #[serde(default, deserialize_with = "number")]
    pub(super) mod_revision: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Ranged {
    pub(super) header: Header,
    #[serde(default)]
    pub(super) kvs: Vec<KeyValue>,
    #[serde(default)]
    pub(super) more: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Txned {
    pub(super) header: Header,
    #[serde(default)]
    pub(super) succeeded: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Granted {
    #[serde(rename = "ID", deserialize_with = "signed")]
    pub(super) id: i64,
}

/// One message of a stream.
#[derive(Debug, Deserialize)]
pub(super) struct Streamed<T> {
    pub(super) result: Option<T>,
    #[serde(default)]
    pub(super) error: Option<StreamError>,
}

#[derive(Debug, Deserialize)]
pub(super) struct StreamError {
    #[serde(default)]
    pub(super) message: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Renewed {
    /// Nothing where the lease has ended.
    #[serde(rename = "TTL", default, deserialize_with = "signed")]
    pub(super) seconds: i64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Watched {
    #[serde(default)]
    pub(super) canceled: bool,
    #[serde(default)]
    pub(super) cancel_reason: String,
    /// Not zero: what was asked for is not kept any more.
    #[serde(default, deserialize_with = "number")]
    pub(super) compact_revision: u64,
    #[serde(default)]
    pub(super) events: Vec<Event>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Event {
    #[serde(default, rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) kv: KeyValue,
}

impl Event {
    pub(super) fn is_deletion(&self) -> bool {
        self.kind.as_deref() == Some("DELETE")
    }
}

/// The servers of an etcd.
#[derive(Debug, Deserialize)]
pub(super) struct Servers {
    #[serde(default)]
    pub(super) members: Vec<Server>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Server {
    #[serde(rename = "ID", deserialize_with = "number")]
    pub(super) id: u64,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default, rename = "peerURLs")]
    pub(super) peers: Vec<String>,
    #[serde(default, rename = "isLearner")]
    pub(super) is_learner: bool,
}

/// An answer of which nothing is wanted.
#[derive(Debug, Deserialize)]
pub(super) struct Nothing {}

/// The answer to a user and a password.
#[derive(Debug, Deserialize)]
pub(super) struct Authenticated {
    pub(super) token: String,
}

/// An error of the gateway.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Refusal {
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) error: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Text(String),
    Unsigned(u64),
    Signed(i64),
}

fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let read = match Number::deserialize(from)? {
        Number::Text(text) => text.parse().ok(),
        Number::Unsigned(number) => Some(number),
        Number::Signed(number) => u64::try_from(number).ok(),
    };
    read.ok_or_else(|| de::Error::custom("a number is not valid"))
}

fn signed<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let read = match Number::deserialize(from)? {
        Number::Text(text) => text.parse().ok(),
        Number::Unsigned(number) => i64::try_from(number).ok(),
        Number::Signed(number) => Some(number),
    };
    read.ok_or_else(|| de::Error::custom("a number is not valid"))
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(from)?;
    STANDARD.decode(text).map_err(|_| de::Error::custom("bytes are no base64"))
}
