//! How long this host's certificates in its cluster last, and whether its server of etcd takes connections: what
//! `spoke doctor` and the metrics report before the cluster stops working.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use cluster::trust::{Files, OwnCertificate};
use model::{Result, Timestamp};

/// Below the durable directory.
const CLUSTER: &str = "hosts";
const VARIABLES: &str = "etcd/environment";
/// The variable of etcd's addresses.
const LISTEN: &str = "ETCD_LISTEN_CLIENT_URLS=";
const SCHEME: &str = "https://";
/// A server on the same host takes connections at once.
const TIMEOUT: Duration = Duration::from_millis(500);
/// The variables are a kilobyte.
const LONGEST: u64 = 1 << 20;

/// A certificate of this host.
pub struct Certificate {
    /// `host` or `server`.
    pub of: &'static str,
    own: OwnCertificate,
}

impl Certificate {
    /// When it ends.
    pub fn end(&self) -> Timestamp {
        self.own.until
    }

    /// Whether half of its life is over at `now`: it should have been renewed after a third.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        let life = self.own.until.0.saturating_sub(self.own.since.0);
        now.0 >= self.own.since.0.saturating_add(life / 2)
    }
}

/// Those of a member of a cluster with an etcd of its own; none of others.
///
/// # Errors
/// Where the files cannot be read.
pub fn certificates(state: &Path) -> Result<Vec<Certificate>> {
    let files = Files::below(&state.join(CLUSTER));
    let mut all = Vec::new();
    for (of, path) in [("host", files.host_path()), ("server", files.server_path())] {
        all.extend(files.own(&path)?.map(|own| Certificate { of, own }));
    }
    Ok(all)
}

/// Whether this host's server of etcd takes connections; `None` where this host has none.
pub fn etcd_serves(state: &Path) -> Option<bool> {
    let text = file::text(&state.join(VARIABLES), LONGEST).ok()?;
    let listed = text.lines().find_map(|line| line.strip_prefix(LISTEN))?;
    let mut addresses = listed.split(',').filter_map(|url| url.strip_prefix(SCHEME)?.parse().ok());
    let own = addresses.rfind(|address: &SocketAddr| address.ip().is_loopback())?;
    Some(TcpStream::connect_timeout(&own, TIMEOUT).is_ok())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn half_of_a_life_is_overdue() {
        let own = OwnCertificate {
            serial: None,
            record: None,
            since: Timestamp(100),
            until: Timestamp(200),
        };
        let certificate = Certificate { of: "host", own };
        assert!(!certificate.is_overdue(Timestamp(149)) && certificate.is_overdue(Timestamp(150)));
    }

    #[test]
    fn a_server_is_known_by_its_variables() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(etcd_serves(state.path()), None);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        fs::create_dir(state.path().join("etcd")).unwrap();
        let text = format!("ETCD_NAME=a\n{LISTEN}https://192.0.2.1:23790,https://{address}\n");
        fs::write(state.path().join(VARIABLES), text).unwrap();
        assert_eq!(etcd_serves(state.path()), Some(true));
        drop(listener);
        assert_eq!(etcd_serves(state.path()), Some(false));
    }
}
