//! The authorities that a host trusts: one, or two while the cluster changes its authority.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{Error, Result, Timestamp};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};

use super::rotation::Successor;

/// More authorities than this are none of ours.
const MOST: usize = 4;
/// A line of PEM, in characters (RFC 7468 §2).
const LINE: usize = 64;
/// What is signed begins with it: no other signature of an authority does.
const FOLLOWS: &[u8] = b"Spoke: this authority follows\n";
/// In bytes: a mark and two coordinates (RFC 5480 §2.2), at the end of what describes the key.
const POINT: usize = 65;

/// Certificates of authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trusted(Vec<CertificateDer<'static>>);

impl Trusted {
    /// Those of a file in PEM.
    ///
    /// # Errors
    /// `Invalid` where there is none, one of them cannot be an authority's, or there are too many.
    pub fn read(pem: &str) -> Result<Self> {
        let damaged = || Error::invalid("the certificate of the cluster's authority is damaged");
        let all = CertificateDer::pem_slice_iter(pem.as_bytes()).take(MOST + 1);
        let all: Vec<_> = all.collect::<std::result::Result<_, _>>().map_err(|_| damaged())?;
        match all.is_empty() || all.len() > MOST {
            true => Err(damaged()),
            false => {
                let read = Self(all);
                read.roots().map(|_| read)
            }
        }
    }

    /// Refuses to trust more than could be read again.
    ///
    /// # Errors
    /// `Conflict`.
    pub fn refuse_too_many(&self) -> Result<()> {
        match self.0.len() > MOST {
            true => Err(Error::conflict(format!(
                "this host would trust more than {MOST} authorities: end the changes before this one first"
            ))),
            false => Ok(()),
        }
    }

    /// In PEM.
    pub fn text(&self) -> String {
        self.0.iter().map(|der| pem(der)).collect()
    }

    /// SHA-256 of each as DER, in hexadecimal digits.
    pub fn digests(&self) -> Vec<String> {
        self.0.iter().map(|der| super::digest(der)).collect()
    }

    /// Whether one of them has this digest.
    pub fn has(&self, digest: &str) -> bool {
        self.digests().iter().any(|known| known == digest)
    }

    /// The same, and those of `others` behind them.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Those of which it holds, by their digests.
    #[must_use]
    pub fn only(mut self, is: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|der| is(&super::digest(der)));
        self
    }

    /// Which of them has signed a certificate that a host shows as a client, by its digest; `pem` may have its key too.
    pub fn issuer(&self, pem: &str, now: Timestamp) -> Option<String> {
        let shown = super::pem::certificate(pem).ok()?;
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now.0));
        let has_signed = |der: &&CertificateDer<'static>| {
            let Ok(roots) = Self(vec![(*der).clone()]).roots() else { return false };
            let verifier = WebPkiClientVerifier::builder_with_provider(
                Arc::new(roots),
                super::pem::provider(),
            );
            let verifier = verifier.build();
            verifier.is_ok_and(|it| it.verify_client_cert(&shown, &[], now).is_ok())
        };
        self.0.iter().find(has_signed).map(|der| super::digest(der))
    }

    /// Whether one of them has said that `next` follows.
    pub fn endorses(&self, next: &Successor) -> bool {
        let message = follows(next.trusted());
        self.0.iter().any(|der| {
            let Ok(parsed) = ParsedCertificate::try_from(der) else { return false };
            let info = parsed.subject_public_key_info();
            let Some(begin) = info.len().checked_sub(POINT) else { return false };
            let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &info[begin..]);
            key.verify(&message, next.proof()).is_ok()
        })
    }

    /// For rustls.
    ///
    /// # Errors
    /// `Invalid` where one of them cannot be an authority's.
    pub(crate) fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        for der in &self.0 {
            let added = roots.add(der.clone());
            added.map_err(|cause| {
                Error::invalid("the certificate of the cluster's authority is damaged")
                    .because(cause)
            })?;
        }
        Ok(roots)
    }

    pub(crate) fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.0
    }

    /// That with the public key of this pair.
    pub(super) fn with_key(self, public: &[u8]) -> Option<CertificateDer<'static>> {
        self.0.into_iter().find(|der| der.windows(public.len()).any(|part| part == public))
    }
}

/// What an authority signs to say that `next` follows.
pub(super) fn follows(next: &Trusted) -> Vec<u8> {
    let mut message = FOLLOWS.to_vec();
    next.0.iter().for_each(|der| message.extend_from_slice(der));
    message
}

/// A certificate in PEM (RFC 7468).
pub(super) fn pem(der: &CertificateDer<'_>) -> String {
    let text = STANDARD.encode(der);
    let mut lines = String::from("-----BEGIN CERTIFICATE-----\n");
    for (at, letter) in text.chars().enumerate() {
        if at > 0 && at % LINE == 0 {
            lines.push('\n');
        }
        lines.push(letter);
    }
    lines + "\n-----END CERTIFICATE-----\n"
}
