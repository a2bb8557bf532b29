//! How packets get through a bridge of Docker's own (`gateway_mode_ipv4`, `_ipv6`).

use model::{Absence, Error, Family, Result};
use spec::Texts;

use super::{MODE_V4, MODE_V6, mode_key};
use libnetwork;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Nat,
    /// `nat-unprotected`: others reach containers by routes.
    Unprotected,
    Routed,
    Isolated,
}

/// Those of the families that the network has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modes {
    v4: Option<Mode>,
    v6: Option<Mode>,
}

/// In which of its families something is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Families {
    Neither,
    /// Of two.
    Only(Family),
    All,
}

impl Modes {
    pub(super) fn read(texts: &Texts<'_>, options: &libnetwork::NetworkOptions) -> Result<Self> {
        let words = [
            ("nat", Mode::Nat),
            ("nat-unprotected", Mode::Unprotected),
            ("routed", Mode::Routed),
            ("isolated", Mode::Isolated),
        ];
        let of = |keys| texts.word(keys, &words);
        let (v4, v6) = (of(MODE_V4)?.unwrap_or(Mode::Nat), of(MODE_V6)?.unwrap_or(Mode::Nat));
        let modes = match (options.ipv4.unwrap_or(true), options.ipv6) {
            (true, true) => Self { v4: Some(v4), v6: Some(v6) },
            (false, true) => Self { v4: None, v6: Some(v6) },
            (true, false) | (false, false) => Self { v4: Some(v4), v6: None },
        };
        match modes.of(Mode::Isolated) {
            Families::All | Families::Only(_) if !options.internal => Err(Error::invalid(format!(
                "-o {}=isolated: only an internal network can be isolated; add --internal",
                mode_key(texts)
            ))),
            Families::All | Families::Only(_) | Families::Neither => Ok(modes),
        }
    }

    /// In which families it is this one.
    pub(super) fn of(self, mode: Mode) -> Families {
        let is = |there: Option<Mode>| there.map(|there| there == mode);
        match (is(self.v4), is(self.v6)) {
            (Some(true), Some(false)) => Families::Only(Family::V4),
            (Some(false), Some(true)) => Families::Only(Family::V6),
            (Some(true), _) | (_, Some(true)) => Families::All,
            (Some(false) | None, Some(false) | None) => Families::Neither,
        }
    }

    /// The families in which the host has no address on the segment. Where all are isolated, a family
    /// that the network does not have is, too.
    pub(super) fn host_absent(self) -> Absence {
        match self.of(Mode::Isolated) {
            Families::Neither => Absence::default(),
            Families::Only(family) => Absence::only(family),
            Families::All => Absence::EVERYWHERE,
        }
    }

    pub(super) fn is_isolated(self) -> bool {
        self.of(Mode::Isolated) == Families::All
    }
}
