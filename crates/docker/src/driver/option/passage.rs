//! With which addresses packets leave a bridge's network, and who comes to it by routes.

use model::text::{interfaces, truth};
use model::{Passage, Publisher, Result, Sources};

use super::{DIRECT, MASQUERADE, Mode, PORTS, mode_key};
use crate::driver::text::Texts;

pub(super) const HOST_V4: &[&str] = &["host_ipv4", "com.docker.network.host_ipv4"];
pub(super) const HOST_V6: &[&str] = &["host_ipv6", "com.docker.network.host_ipv6"];
pub(super) const TRUSTED: &[&str] =
    &["trusted_host_interfaces", "com.docker.network.bridge.trusted_host_interfaces"];

/// Whether others reach containers by routes. In an open mode they do.
pub(super) fn direct(texts: &Texts<'_>, is_open: bool) -> Result<Option<bool>> {
    match (is_open, texts.one(DIRECT, "true or false", truth)?) {
        (true, None | Some(true)) => Ok(Some(true)),
        (true, Some(false)) => Err(texts.contradiction(DIRECT[0], mode_key(texts))),
        (false, said) => Ok(said),
    }
}

/// Who reaches published ports at the containers' own addresses, and nothing else of them.
pub(super) fn passage(
    texts: &Texts<'_>,
    mode: Mode,
    publisher: Option<Publisher>,
) -> Result<Option<Passage>> {
    let expected = "names of interfaces between colons, such as eth1:eth2";
    let said = texts.one(TRUSTED, expected, |text| interfaces(text).ok())?;
    match (&said, publisher) {
        // What Docker publishes it publishes elsewhere, and we do not know which ports these are.
        (Some(_), Some(Publisher::Runtime)) => {
            Err(texts.contradiction(texts.first(TRUSTED), PORTS[0]))
        }
        // Who reaches them all the same need not be trusted.
        _ if mode == Mode::Routed => Ok(Some(Passage::Everybody)),
        _ => Ok(said.map(Passage::Trusted)),
    }
}

pub(super) fn masquerade(texts: &Texts<'_>, mode: Mode) -> Result<Option<bool>> {
    match (mode, texts.one(MASQUERADE, "true or false", truth)?) {
        (Mode::Routed, None | Some(false)) => Ok(Some(false)),
        (Mode::Routed, Some(true)) => {
            Err(texts.contradiction(texts.first(MASQUERADE), mode_key(texts)))
        }
        (Mode::Nat | Mode::Isolated, said) => Ok(said),
    }
}

/// The addresses that packets leave with, which only masqueraded ones do.
pub(super) fn sources(texts: &Texts<'_>, masquerade: Option<bool>) -> Result<Sources> {
    let sources = Sources {
        v4: texts.one(HOST_V4, Sources::V4, Sources::read_v4)?,
        v6: texts.one(HOST_V6, Sources::V6, Sources::read_v6)?,
    };
    match texts.there(&[HOST_V4, HOST_V6]) {
        Some(key) if masquerade == Some(false) => {
            let said = texts.there(&[MASQUERADE]);
            Err(texts.contradiction(key, said.unwrap_or_else(|| mode_key(texts))))
        }
        Some(_) | None => Ok(sources),
    }
}
