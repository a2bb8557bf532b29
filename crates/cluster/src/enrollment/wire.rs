//! What a host asks one of those with the authority's key, and what it answers: one line of JSON each
//! way, by TLS.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::IpAddr;

use model::{Error, HostName, Kind, Result, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::etcd::Url;
use crate::record::TokenId;
use crate::token::Secret;
use crate::trust::PublicKey;

/// Longer lines are refused, in bytes.
const LONGEST: u64 = 32 << 10;
/// A longer sentence is cut, in characters.
const LONGEST_SENTENCE: usize = 1000;

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// To become a member; without a certificate.
    Join {
        /// Which token.
        id: TokenId,
        /// Its secret.
        secret: Secret,
        /// What the host is called.
        name: HostName,
        /// Where others reach it.
        address: IpAddr,
        /// Of its first certificate.
        key: PublicKey,
    },
    /// A new certificate; with the one before.
    Renew {
        /// Of the new one.
        key: PublicKey,
    },
    /// The authority's key; with a certificate of a host that is to run a server of etcd.
    Authority,
    /// The same, of the authority with this digest, while the cluster changes from one to another.
    AuthorityOf {
        /// SHA-256 of its certificate, in hexadecimal digits.
        digest: String,
    },
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// To [`Ask::Join`] and [`Ask::Renew`].
    Certified(Certified),
    /// To [`Ask::Authority`] and [`Ask::AuthorityOf`]: its key, in PEM.
    Authority(String),
    /// It is not done.
    Failed {
        /// Which kind of error, as `Debug` has it.
        kind: String,
        /// The sentence.
        what: String,
    },
}

/// A certificate.
#[derive(Debug, Serialize, Deserialize)]
pub struct Certified {
    /// In PEM.
    pub certificate: String,
    /// That of the authority, in PEM.
    pub authority: String,
    /// The servers of etcd.
    pub servers: Vec<Url>,
    /// The end of the certificate.
    pub until: Timestamp,
}

/// Writes one line.
///
/// # Errors
/// Where the other end does not take it.
pub fn write(stream: &mut impl Write, value: &impl Serialize) -> Result<()> {
    let line = serde_json::to_vec(value);
    let mut line = line.map_err(|cause| Error::bug("a line as JSON").because(cause))?;
    line.push(b'\n');
    let sent = stream.write_all(&line).and_then(|()| stream.flush());
    sent.map_err(|cause| Error::os("sending to the other host", cause))
}

/// Reads one line.
///
/// # Errors
/// `Invalid` where it is none of these; `TryAgain` where the other end does not say it in time.
pub fn read<T: DeserializeOwned>(stream: &mut impl Read) -> Result<T> {
    let mut line = Vec::new();
    let read = BufReader::new(stream.take(LONGEST)).read_until(b'\n', &mut line);
    read.map_err(|cause| Error::try_again("the other host does not answer").because(cause))?;
    // The cause could repeat a secret.
    serde_json::from_slice(&line).map_err(|_| {
        Error::invalid("the other host is not understood; install its version of Spoke")
    })
}

impl Reply {
    /// A failure, for the other end.
    pub fn failed(error: &Error) -> Self {
        Self::Failed { kind: format!("{:?}", error.kind()), what: error.to_string() }
    }

    /// What it is, or the failure that it says.
    ///
    /// # Errors
    /// That failure.
    pub fn checked(self) -> Result<Self> {
        let Self::Failed { kind, what } = self else { return Ok(self) };
        let known =
            [Kind::Denied, Kind::Conflict, Kind::Invalid, Kind::Unsupported, Kind::TryAgain];
        let kind = known.into_iter().find(|known| format!("{known:?}") == kind);
        let what: String =
            what.chars().filter(|it| !it.is_control()).take(LONGEST_SENTENCE).collect();
        Err(Error::new(kind.unwrap_or(Kind::TryAgain), what))
    }
}
