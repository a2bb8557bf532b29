//! The membership of this host: a file that only the superuser may read.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use host::hosts::MEMBER;

use cluster::{Access, Etcd, Url};
use model::{Error, HostName, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longer ones are none of ours, in bytes.
const LONGEST: u64 = 1 << 20;

/// This host, as a member of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Member {
    /// The host's name.
    pub(super) name: HostName,
    /// Where others reach it.
    pub(super) address: IpAddr,
    /// The servers of etcd.
    pub(super) etcd: Vec<Url>,
    /// How etcd knows this host.
    #[serde(default)]
    pub(super) access: Access,
    /// Whether etcd is the cluster's own: hosts run it, and sign each other's certificates.
    #[serde(default)]
    pub(super) own_etcd: bool,
}

impl Member {
    pub(super) fn etcd(&self) -> Result<Etcd> {
        Etcd::new(self.etcd.clone(), self.access.clone())
    }

    pub(super) fn read(place: &Path) -> Result<Option<Self>> {
        read(&place.join(MEMBER))
    }

    pub(super) fn write(&self, place: &Path) -> Result<()> {
        write(place, MEMBER, self)
    }

    pub(super) fn forget(place: &Path) -> Result<()> {
        remove(&place.join(MEMBER))
    }
}

/// The address from which this host reaches the server: others reach it there as well.
pub(super) fn own_address(server: &Url) -> Result<IpAddr> {
    let doing = || format!("looking for the way to {server}");
    let to = SocketAddr::new(server.address()?, server.port());
    let from: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    // Nothing is sent.
    let socket = UdpSocket::bind((from, 0)).and_then(|socket| {
        socket.connect(to)?;
        socket.local_addr()
    });
    match socket.map_err(|cause| Error::os(doing(), cause))?.ip() {
        address if is_reached(address) => Ok(address),
        other => Err(Error::invalid(format!(
            "the way to {server} begins at {other}, where no other host reaches this one; say where with --address"
        ))),
    }
}

/// Whether others may reach a host at an address of it.
pub(super) fn is_reached(address: IpAddr) -> bool {
    let is_of_link = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(is_of_link || address.is_loopback() || address.is_unspecified())
}

/// What is in a file of ours, if it is there.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let bytes = match file::read(path, LONGEST) {
        Ok(bytes) => bytes,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(file::failed(format!("reading {}", path.display()), cause)),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|cause| {
        let what = format!("{} is damaged; move it away and join again", path.display());
        Error::invalid(what).because(cause)
    })
}

/// Writes it whole or not at all, and for good.
pub(super) fn write(place: &Path, name: &str, value: &impl Serialize) -> Result<()> {
    let bytes = serde_json::to_vec(value);
    write_text(place, name, &bytes.map_err(|cause| Error::bug("a file as JSON").because(cause))?)
}

/// The same for what is no JSON.
pub(super) fn write_text(place: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = place.join(name);
    let failed = |cause| Error::os(format!("writing {}", path.display()), cause);
    DirBuilder::new().recursive(true).mode(0o700).create(place).map_err(failed)?;
    let draft = place.join(format!(".{name}.new"));
    file::replace_durably(&path, &draft, bytes, 0o600).map_err(failed)
}

/// Removes a file that may have gone.
pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => {
            Err(Error::os(format!("removing {}", path.display()), cause))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
