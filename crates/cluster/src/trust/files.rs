//! Where a host keeps its certificates and the authority's: a directory that only the superuser reads.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use model::{Error, Result, Timestamp};
use rcgen::KeyPair;
use serde::{Deserialize, Serialize};

use super::authority::{Authority, new_key};
use super::rotation::{Standing, Successor};
use super::serial::{CertificateRecord, PublicKey, Serial};
use super::trusted::Trusted;

/// Longer files are none of ours, in bytes.
const LONGEST: u64 = 1 << 20;
const AUTHORITY: &str = "ca.pem";
const AUTHORITY_KEY: &str = "ca.key";
/// The key of the authority that follows.
const NEXT_KEY: &str = "next.key";
const REVOKED: &str = "revoked.pem";

/// The directory.
#[derive(Clone, Debug)]
pub struct Files(PathBuf);

/// A certificate of this host, from when on it has it, and what the cluster is to know of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnCertificate {
    /// Its number, where this host has signed it itself.
    pub serial: Option<Serial>,
    /// What is to be known of it.
    pub record: Option<CertificateRecord>,
    /// Since when.
    pub since: Timestamp,
    /// Its end.
    pub until: Timestamp,
}

impl OwnCertificate {
    /// Whether a third of its life is over.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let life = self.until.0.saturating_sub(self.since.0);
        now.0 >= self.since.0.saturating_add(life / 3) || now.0 < self.since.0
    }
}

/// A key whose certificate is still to come.
pub struct Pending(KeyPair);

impl Pending {
    /// A new key.
    ///
    /// # Errors
    /// `Kernel` where there is no randomness.
    pub fn new() -> Result<Self> {
        new_key().map(Self)
    }

    /// What the certificate is made for.
    ///
    /// # Errors
    /// `Bug` where the key is of another kind.
    pub fn public(&self) -> Result<PublicKey> {
        PublicKey::new(self.0.public_key_raw())
    }

    /// In PEM.
    pub fn text(&self) -> String {
        self.0.serialize_pem()
    }

    /// The key that was written down.
    ///
    /// # Errors
    /// `Invalid` where it is damaged.
    pub fn read(text: &str) -> Result<Self> {
        let damaged = |_| Error::invalid("the key of a certificate is damaged");
        KeyPair::from_pem(text).map(Self).map_err(damaged)
    }
}

impl Files {
    /// Below the directory of what is known of the cluster.
    pub fn below(place: &Path) -> Self {
        Self(place.join("tls"))
    }

    /// The authority's certificate.
    pub fn authority_path(&self) -> PathBuf {
        self.0.join(AUTHORITY)
    }

    /// What this host shows others: a certificate and its key in one file, so that both change at once.
    pub fn host_path(&self) -> PathBuf {
        self.0.join("host.pem")
    }

    /// The same of its server of etcd.
    pub fn server_path(&self) -> PathBuf {
        self.0.join("server.pem")
    }

    /// The list of certificates that are worth nothing.
    pub fn revocations_path(&self) -> PathBuf {
        self.0.join(REVOKED)
    }

    /// Certificates that are worth nothing, and when they would have ended, as they were written last.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn revocations(&self) -> Result<BTreeMap<Serial, Timestamp>> {
        let text = self.text(&about(&self.revocations_path()))?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    /// Writes the list of them for etcd, which reads it at each connection.
    ///
    /// # Errors
    /// Where that fails.
    pub fn write_revocations(
        &self,
        authority: &Authority,
        revoked: &BTreeMap<Serial, Timestamp>,
        now: Timestamp,
    ) -> Result<()> {
        let json = serde_json::to_string(revoked);
        let json = json.map_err(|cause| Error::bug("a file as JSON").because(cause))?;
        self.write(REVOKED, &authority.revocations(revoked, now)?)?;
        self.write(&about(&self.revocations_path()), &json)
    }

    /// SHA-256 of the authority's certificate as DER, in hexadecimal digits; of the first, where there are two.
    ///
    /// # Errors
    /// Where it is not there, or damaged.
    pub fn authority_digest(&self) -> Result<String> {
        super::pem::certificate(&self.read(&self.authority_path())?).map(|der| super::digest(&der))
    }

    /// The authorities that this host trusts.
    ///
    /// # Errors
    /// As [`Files::authority_digest`].
    pub fn trusted(&self) -> Result<Trusted> {
        Trusted::read(&self.read(&self.authority_path())?)
    }

    /// Trusts these and no others.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn keep_trusted(&self, trusted: &Trusted) -> Result<()> {
        self.write(AUTHORITY, &trusted.text())
    }

    /// What this host says of the authorities that it knows.
    ///
    /// # Errors
    /// Where a file is not there, or damaged.
    pub fn standing(&self, now: Timestamp) -> Result<Standing> {
        let trusted = self.trusted()?;
        let issuer = trusted.issuer(&self.read(&self.host_path())?, now);
        Ok(Standing { issuer, trusted: trusted.digests() })
    }

    /// The authority that follows, where this host has its key.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn next(&self, next: &Successor) -> Result<Option<Authority>> {
        let certificate = next.trusted().text();
        // A key that is another one's, or damaged, is none: it is asked for again.
        Ok(self.text(NEXT_KEY)?.and_then(|key| Authority::read(&certificate, &key).ok()))
    }

    /// How long the key of an authority that follows has been here, where one is.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn next_age(&self, now: SystemTime) -> Result<Option<Duration>> {
        let path = self.0.join(NEXT_KEY);
        match std::fs::metadata(&path).and_then(|it| it.modified()) {
            // Written by a clock that was ahead: it is as if it were written now.
            Ok(at) => Ok(Some(now.duration_since(at).unwrap_or_default())),
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(Error::os(format!("reading {}", path.display()), cause)),
        }
    }

    /// Keeps the key of the authority that follows.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn keep_next(&self, next: &Authority) -> Result<()> {
        self.write(NEXT_KEY, &next.key())
    }

    /// Forgets that key.
    ///
    /// # Errors
    /// Where that fails.
    pub fn forget_next(&self) -> Result<()> {
        match std::fs::remove_file(self.0.join(NEXT_KEY)) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                Err(Error::os(format!("removing {}", self.0.join(NEXT_KEY).display()), cause))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// What is in one of these files.
    ///
    /// # Errors
    /// `NotFound` where it is not there.
    pub fn read(&self, path: &Path) -> Result<String> {
        let missing = || Error::not_found(format!("{} is not there", path.display()));
        self.text(&name(path))?.ok_or_else(missing)
    }

    /// The authority, where this host has its key.
    ///
    /// # Errors
    /// Where a file is damaged or cannot be read.
    pub fn authority(&self) -> Result<Option<Authority>> {
        let Some(key) = self.text(AUTHORITY_KEY)? else { return Ok(None) };
        let certificate = self.text(AUTHORITY)?.unwrap_or_default();
        Authority::read(&certificate, &key).map(Some)
    }

    /// Keeps the authority with its key.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn keep_authority(&self, authority: &Authority) -> Result<()> {
        self.write(AUTHORITY, authority.certificate())?;
        self.write(AUTHORITY_KEY, &authority.key())
    }

    /// Keeps the key with which this host signs, of an authority that it trusts.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn keep_key(&self, authority: &Authority) -> Result<()> {
        self.write(AUTHORITY_KEY, &authority.key())
    }

    /// Keeps the certificate of the authority.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn keep_certificate(&self, certificate: &str) -> Result<()> {
        self.write(AUTHORITY, certificate)
    }

    /// Keeps a certificate with its key, under the name of one of the paths above.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn keep(
        &self,
        path: &Path,
        key: &Pending,
        certificate: &str,
        own: &OwnCertificate,
    ) -> Result<()> {
        let json = serde_json::to_string(own);
        let json = json.map_err(|cause| Error::bug("a file as JSON").because(cause))?;
        self.write(&name(path), &format!("{certificate}{}", key.0.serialize_pem()))?;
        self.write(&about(path), &json)
    }

    /// What is known of a certificate.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn own(&self, path: &Path) -> Result<Option<OwnCertificate>> {
        let text = self.text(&about(path))?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Writes a file whole or not at all.
    ///
    /// # Errors
    /// Where that fails.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.0.join(name);
        let failed = |cause| Error::os(format!("writing {}", path.display()), cause);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(failed)?;
        let draft = self.0.join(format!(".{name}.new"));
        file::replace_durably(&path, &draft, text.as_bytes(), 0o600).map_err(failed)
    }

    /// What is in a file, where it is there.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>> {
        let path = self.0.join(name);
        match file::text(&path, LONGEST) {
            Ok(text) => Ok(Some(text)),
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(file::failed(format!("reading {}", path.display()), cause)),
        }
    }

    /// Removes all of it.
    ///
    /// # Errors
    /// Where that fails.
    pub fn remove(&self) -> Result<()> {
        match std::fs::remove_dir_all(&self.0) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                Err(Error::os(format!("removing {}", self.0.display()), cause))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn about(path: &Path) -> String {
    format!("{}.json", name(path))
}
