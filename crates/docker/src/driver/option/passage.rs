//! Source addresses of packets that leave a bridge's network, and clients that come to it by
//! routes.

use model::{Passage, Publisher, Result};
use spec::Texts;

use super::{Mode, PORTS, mode_key};

const DIRECT: &str = "direct";
const MASQUERADE: &[&str] = &["masquerade", "com.docker.network.bridge.enable_ip_masquerade"];
const HOST_V4: &[&str] = &["host_ipv4", "com.docker.network.host_ipv4"];
const HOST_V6: &[&str] = &["host_ipv6", "com.docker.network.host_ipv6"];
const TRUSTED: &[&str] =
    &["trusted_host_interfaces", "com.docker.network.bridge.trusted_host_interfaces"];

/// Whether others reach containers by routes. In an open mode they do.
pub(super) fn direct(texts: &Texts<'_>, is_open: bool, said: Option<bool>) -> Result<Option<bool>> {
    match (is_open, said) {
        (true, None | Some(true)) => Ok(Some(true)),
        (true, Some(false)) => Err(texts.contradiction(DIRECT, mode_key(texts))),
        (false, said) => Ok(said),
    }
}

/// Which clients reach published ports at the containers' own addresses, and no other ports.
pub(super) fn passage(
    texts: &Texts<'_>,
    mode: Mode,
    publisher: Option<Publisher>,
    said: Option<Passage>,
) -> Result<Option<Passage>> {
    match (said, publisher) {
        // Docker publishes elsewhere, and Spoke does not know these ports.
        (Some(_), Some(Publisher::Runtime)) => {
            Err(texts.contradiction(texts.first(TRUSTED), PORTS[0]))
        }
        // Clients that reach them in any case need not be trusted.
        _ if mode == Mode::Routed => Ok(Some(Passage::Everybody)),
        (said, _) => Ok(said),
    }
}

pub(super) fn masquerade(
    texts: &Texts<'_>,
    mode: Mode,
    said: Option<bool>,
) -> Result<Option<bool>> {
    match (mode, said) {
        (Mode::Routed, None | Some(false)) => Ok(Some(false)),
        (Mode::Routed, Some(true)) => {
            Err(texts.contradiction(texts.first(MASQUERADE), mode_key(texts)))
        }
        (Mode::Nat | Mode::Isolated, said) => Ok(said),
    }
}

/// Only masqueraded packets leave with other addresses than their own.
pub(super) fn check_sources(texts: &Texts<'_>, masquerade: Option<bool>) -> Result<()> {
    match texts.there(&[HOST_V4, HOST_V6]) {
        Some(key) if masquerade == Some(false) => {
            let said = texts.there(&[MASQUERADE]);
            Err(texts.contradiction(key, said.unwrap_or_else(|| mode_key(texts))))
        }
        Some(_) | None => Ok(()),
    }
}
