//! `[web]`: the page.

use std::net::SocketAddr;

use model::{Error, Result};
use serde::Deserialize;

/// Where the page is served.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebConfig {
    /// Whether it is served at all.
    pub enabled: bool,
    /// A loopback address, besides the socket: everybody on this host may read it there.
    pub listen: Option<SocketAddr>,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self { enabled: true, listen: None }
    }
}

impl WebConfig {
    /// Refuses to show to other hosts what runs on this one.
    pub(super) fn check(&self) -> Result<()> {
        match self.listen {
            Some(address) if !address.ip().is_loopback() => Err(Error::invalid(format!(
                "web.listen {address} can be reached from other hosts, and the page is not \
                 protected there; write 127.0.0.1:{}, or leave it out and use `spoke web`, over ssh \
                 from another host",
                address.port()
            ))),
            Some(_) | None => Ok(()),
        }
    }
}
