//! `--etcd-ca` and its like.

use std::path::{Path, PathBuf};

use cluster::Access;
use model::{Error, Result};

// Comments that document this type would be taken for the command's own.
#[derive(Debug, clap::Args)]
pub(super) struct AccessArgs {
    /// The authorities of etcd's certificate, in PEM; those of this host unless given
    #[arg(long, value_name = "FILE")]
    etcd_ca: Option<PathBuf>,
    /// The certificate of this host for etcd, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    etcd_cert: Option<PathBuf>,
    /// Its key, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
    /// The user of etcd
    #[arg(long, value_name = "NAME", requires = "etcd_password")]
    etcd_user: Option<String>,
    /// A file with the user's password
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password: Option<PathBuf>,
}

impl AccessArgs {
    /// With files as the daemon, which has another directory, has to name them.
    pub(super) fn access(&self) -> Result<Access> {
        Ok(Access {
            ca: absolute(self.etcd_ca.as_deref())?,
            certificate: absolute(self.etcd_cert.as_deref())?,
            key: absolute(self.etcd_key.as_deref())?,
            user: self.etcd_user.clone(),
            password: absolute(self.etcd_password.as_deref())?,
        })
    }
}

fn absolute(path: Option<&Path>) -> Result<Option<PathBuf>> {
    let named = |path: &Path| {
        std::path::absolute(path)
            .map_err(|cause| Error::os(format!("naming {}", path.display()), cause))
    };
    path.map(named).transpose()
}
