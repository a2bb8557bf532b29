//! How a cluster with an etcd of its own changes its authority: what the hosts know of it, and what each says of itself.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{Error, HostName, Result, Timestamp};
use serde::{Deserialize, Serialize};

use super::Trusted;

/// A longer certificate of an authority is none of ours, in bytes.
const LONGEST: usize = 4096;
/// A longer signature on the curve P-256 is none, in bytes.
const LONGEST_PROOF: usize = 80;

/// How far a change is. It goes on when every host has confirmed the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Every host comes to trust the new authority too.
    Trust,
    /// Every host gets certificates of the new one.
    Sign,
    /// Every host ceases to trust the old one.
    Drop,
    /// It is over.
    Done,
    /// It was given up before anything was signed: the new one is trusted no more.
    Abandoned,
}

impl Phase {
    /// Whether the change goes on.
    pub fn is_going_on(self) -> bool {
        matches!(self, Self::Trust | Self::Sign | Self::Drop)
    }

    /// As people read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Sign => "sign",
            Self::Drop => "drop",
            Self::Done => "done",
            Self::Abandoned => "abandoned",
        }
    }
}

/// What the hosts know of the last change of the authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorityRecord {
    /// How far it is.
    pub phase: Phase,
    /// The new one.
    #[serde(flatten)]
    pub next: Successor,
    /// When it began.
    pub since: Timestamp,
    /// The hosts that are not waited for. They have to join again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub without: BTreeSet<HostName>,
}

/// The authority that follows another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Successor {
    trusted: Trusted,
    digest: String,
    proof: Vec<u8>,
}

/// The same, as it is written.
#[derive(Serialize, Deserialize)]
struct Written {
    /// Its certificate, in PEM.
    certificate: String,
    /// The old one's signature of that, in base64: who does not have its key makes no other authority known.
    proof: String,
}

impl Successor {
    /// # Errors
    /// `Invalid` where these are more authorities than one, or the signature is longer than there is.
    pub(super) fn new(trusted: Trusted, proof: Vec<u8>) -> Result<Self> {
        let invalid = || Error::invalid("the cluster's next authority is not valid");
        let [digest] = <[String; 1]>::try_from(trusted.digests()).map_err(|_| invalid())?;
        match proof.len() <= LONGEST_PROOF {
            true => Ok(Self { trusted, digest, proof }),
            false => Err(invalid()),
        }
    }

    /// As an authority that is trusted: one.
    pub fn trusted(&self) -> &Trusted {
        &self.trusted
    }

    /// SHA-256 of its certificate as DER, in hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    pub(super) fn proof(&self) -> &[u8] {
        &self.proof
    }
}

impl TryFrom<Written> for Successor {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self> {
        if written.certificate.len() > LONGEST {
            return Err(Error::invalid(
                "the certificate of the cluster's next authority is too long",
            ));
        }
        let proof = STANDARD.decode(&written.proof);
        let proof =
            proof.map_err(|_| Error::invalid("a signature of an authority is no base64"))?;
        Self::new(Trusted::read(&written.certificate)?, proof)
    }
}

impl From<Successor> for Written {
    fn from(next: Successor) -> Self {
        Self { certificate: next.trusted.text(), proof: STANDARD.encode(next.proof) }
    }
}

/// What a host says of the authorities that it knows. Programs that cannot change the authority do not say it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Which has signed the certificate of this host, by its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Which it trusts, and its server of etcd too where it has one; none while that has to begin anew.
    #[serde(default)]
    pub trusted: Vec<String>,
}

impl Standing {
    /// Whether a host that says so has done what the phase asks for, where the new authority is `next`.
    pub fn confirms(&self, phase: Phase, next: &str) -> bool {
        let trusts = self.trusted.iter().any(|known| known == next);
        let is_signed = trusts && self.issuer.as_deref() == Some(next);
        match phase {
            Phase::Trust => trusts,
            Phase::Sign => is_signed,
            Phase::Drop | Phase::Done => is_signed && self.trusted.len() == 1,
            Phase::Abandoned => !trusts && !self.trusted.is_empty(),
        }
    }

    /// Whether it may have to cease to trust `next`, by which its own certificate is not signed.
    pub fn may_trust_still(&self, next: &str) -> bool {
        let is_beside = self.trusted.len() > 1 && self.trusted.iter().any(|known| known == next);
        self.trusted.is_empty() || (is_beside && self.issuer.as_deref() != Some(next))
    }
}
