//! Source addresses of packets that leave a bridge's network, and clients that come to it by
//! routes.

use model::{Error, Family, Passage, Publisher, Result, Sources};
use spec::Texts;

use super::mode::{Families, Mode, Modes};
use super::{PORTS, mode_key};

pub(super) const DIRECT: &str = "direct";
pub(super) const MASQUERADE: &[&str] =
    &["masquerade", "com.docker.network.bridge.enable_ip_masquerade"];
pub(super) const HOST_V4: &[&str] = &["host_ipv4", "com.docker.network.host_ipv4"];
pub(super) const HOST_V6: &[&str] = &["host_ipv6", "com.docker.network.host_ipv6"];
pub(super) const TRUSTED: &[&str] =
    &["trusted_host_interfaces", "com.docker.network.bridge.trusted_host_interfaces"];

/// Whether others reach containers by routes, and the only family in which they do. In an open mode
/// they do.
pub(super) fn direct(
    texts: &Texts<'_>,
    open: Families,
    given: Option<bool>,
) -> Result<(Option<bool>, Option<Family>)> {
    match (open, given) {
        (Families::Only(family), None) => Ok((Some(true), Some(family))),
        (Families::All, None) | (Families::Only(_) | Families::All, Some(true)) => {
            Ok((Some(true), None))
        }
        (Families::Only(_) | Families::All, Some(false)) => {
            Err(texts.contradiction(DIRECT, mode_key(texts)))
        }
        (Families::Neither, given) => Ok((given, None)),
    }
}

/// Which clients reach published ports at the containers' own addresses, and no other ports.
pub(super) fn passage(
    texts: &Texts<'_>,
    modes: Modes,
    publisher: Option<Publisher>,
    given: Option<Passage>,
) -> Result<Option<Passage>> {
    if given.is_some() && publisher == Some(Publisher::Runtime) {
        // What Docker publishes it publishes elsewhere, and we do not know which ports these are.
        return Err(texts.contradiction(texts.first(TRUSTED), PORTS[0]));
    }
    let differs = [Mode::Routed, Mode::Unprotected].map(|mode| modes.of(mode));
    if given.is_some() && differs.iter().any(|which| matches!(which, Families::Only(_))) {
        return Err(Error::unsupported(format!(
            "-o {}: Spoke trusts interfaces in both families or in none, and {} says another mode \
             than that of the other family",
            texts.first(TRUSTED),
            mode_key(texts)
        )));
    }
    Ok(match modes.of(Mode::Routed) {
        // Who reaches them all the same need not be trusted.
        Families::All => Some(Passage::Everybody),
        Families::Only(family) => Some(Passage::EverybodyOf(family)),
        Families::Neither => given,
    })
}

pub(super) fn masquerade(
    texts: &Texts<'_>,
    modes: Modes,
    given: Option<bool>,
) -> Result<Option<bool>> {
    match (modes.of(Mode::Routed), given) {
        (Families::All, None | Some(false)) => Ok(Some(false)),
        (Families::All, Some(true)) => {
            Err(texts.contradiction(texts.first(MASQUERADE), mode_key(texts)))
        }
        (Families::Neither | Families::Only(_), given) => Ok(given),
    }
}

/// Only masqueraded packets leave with other addresses than their own.
pub(super) fn check_sources(
    texts: &Texts<'_>,
    masquerade: Option<bool>,
    modes: Modes,
    sources: &Sources,
) -> Result<()> {
    if let Families::Only(family) = modes.of(Mode::Routed)
        && sources.of(family).is_some()
    {
        let key = if family == Family::V4 { HOST_V4 } else { HOST_V6 };
        return Err(texts.contradiction(texts.first(key), mode_key(texts)));
    }
    match texts.there(&[HOST_V4, HOST_V6]) {
        Some(key) if masquerade == Some(false) => {
            let given = texts.there(&[MASQUERADE]);
            Err(texts.contradiction(key, given.unwrap_or_else(|| mode_key(texts))))
        }
        Some(_) | None => Ok(()),
    }
}
