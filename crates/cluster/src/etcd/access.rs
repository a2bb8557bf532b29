//! How this host shows etcd who it is, and knows etcd.

use std::path::PathBuf;

use model::{Error, Result};
use serde::{Deserialize, Serialize};
use ureq::tls::TlsConfig;
use web::{ClientFiles, Trust};

/// A longer password is none, in bytes.
const LONGEST: u64 = 4096;

/// Files that are read at each connection: who rotates them need not restart anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Access {
    /// The authorities of etcd's certificate, in PEM; those of this host unless given.
    pub ca: Option<PathBuf>,
    /// The certificate of this host, in PEM, with `key`.
    pub certificate: Option<PathBuf>,
    /// Its key, in PEM.
    pub key: Option<PathBuf>,
    /// The user of etcd, with `password`.
    pub user: Option<String>,
    /// The file with the user's password.
    pub password: Option<PathBuf>,
}

impl Access {
    /// Fails with `Invalid` where one half of a pair is missing, or a file is not named from the root.
    pub fn check(&self) -> Result<()> {
        if self.certificate.is_some() != self.key.is_some() {
            return Err(Error::invalid(
                "a certificate for etcd has a key, and a key a certificate",
            ));
        }
        if self.user.is_some() != self.password.is_some() {
            return Err(Error::invalid(
                "a user of etcd has a file with a password, and a password a user",
            ));
        }
        let files = [&self.ca, &self.certificate, &self.key, &self.password];
        match files.into_iter().flatten().find(|path| !path.is_absolute()) {
            Some(path) => {
                Err(Error::invalid(format!("{} is not named from the root", path.display())))
            }
            None => Ok(()),
        }
    }

    /// The user and the password, where etcd wants them.
    pub(super) fn credentials(&self) -> Result<Option<(&str, String)>> {
        let (Some(user), Some(path)) = (&self.user, &self.password) else { return Ok(None) };
        let doing = || format!("reading etcd's password {}", path.display());
        let text = file::text(path, LONGEST).map_err(|error| file::failed(doing(), error))?;
        Ok(Some((user, text.trim_end_matches(['\r', '\n']).to_owned())))
    }

    pub(super) fn tls(&self) -> Result<TlsConfig> {
        let trust = match &self.ca {
            Some(path) => Trust::File(path),
            None => Trust::Host { otherwise: "name etcd's with --etcd-ca" },
        };
        let files = self.certificate.as_ref().zip(self.key.as_ref());
        web::tls(trust, files.map(|(certificate, key)| ClientFiles { certificate, key }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_and_relative_files_are_refused() {
        let path = || Some(PathBuf::from("/etc/x"));
        assert!(Access::default().check().is_ok());
        let whole = Access { certificate: path(), key: path(), ..Access::default() };
        assert!(whole.check().is_ok());
        for bad in [
            Access { certificate: path(), ..Access::default() },
            Access { key: path(), ..Access::default() },
            Access { user: Some("u".to_owned()), ..Access::default() },
            Access { password: path(), ..Access::default() },
            Access { ca: Some("ca.pem".into()), ..Access::default() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
