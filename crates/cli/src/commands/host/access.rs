//! `--etcd-ca` and its like.

use std::path::{Path, PathBuf};

use cluster::Access;
use model::{Error, Result};

use crate::args::host::AccessArgs;

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
