//! What is said about a hop.

use serde::Serialize;

use super::{Stop, Walker};
use crate::rules::{Author, RuleLocation};

/// Whether a packet gets there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every hop holds.
    Reaches,
    /// A hop fails.
    Fails,
    /// A hop cannot be judged.
    #[serde(rename = "cannot-tell")]
    Unknown,
}

/// How a hop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It holds.
    Ok,
    /// It holds, with a limit.
    Note,
    /// The packet ends here.
    Fail,
    /// It is not known whether the packet ends here.
    Unknown,
}

/// One hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// What it is about, in one word.
    pub hop: &'static str,
    /// How it is.
    pub status: Status,
    /// Whether it is one of the answer's.
    pub back: bool,
    /// What was found.
    pub what: String,
    /// Who set what decides, by the names of tables and chains.
    pub by: Option<Author>,
    /// The rule that decides.
    pub rule: Option<RuleLocation>,
    /// The command that mends it.
    pub fix: Option<String>,
}

impl Hop {
    /// A hop where the packet ends.
    pub fn new(hop: &'static str, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { hop, status: Status::Fail, back: false, what, by: None, rule: None, fix: None }
    }

    /// A hop that holds.
    pub fn ok(hop: &'static str, what: impl Into<String>) -> Self {
        Self { status: Status::Ok, ..Self::new(hop, what) }
    }

    /// Mended by this command, where there is one.
    #[must_use]
    pub(super) fn fixed_if(self, fix: Option<String>) -> Self {
        Self { fix, ..self }
    }

    /// Mended by this command, which can be run as it is.
    #[must_use]
    pub fn fixed(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Set by this program.
    #[must_use]
    pub fn by(mut self, author: Author) -> Self {
        self.by = Some(author);
        self
    }

    /// Decided by this rule.
    #[must_use]
    pub fn ruled(mut self, place: RuleLocation) -> Self {
        self.rule = Some(place);
        self
    }

    pub(super) fn verdict(&self) -> Verdict {
        match self.status {
            Status::Fail => Verdict::Fails,
            Status::Unknown => Verdict::Unknown,
            Status::Ok | Status::Note => Verdict::Reaches,
        }
    }
}

impl Walker<'_> {
    /// Says that a hop holds; of the answer only what fails is said.
    pub(super) fn ok(&mut self, hop: &'static str, what: impl Into<String>) {
        if !self.is_back {
            self.hops.push(Hop::ok(hop, what));
        }
    }

    /// Says that a hop holds, and what is to be known about it.
    pub(super) fn note(&mut self, hop: &'static str, what: impl Into<String>) {
        if !self.is_back {
            self.hops.push(Hop { status: Status::Note, ..Hop::new(hop, what) });
        }
    }

    pub(super) fn fail(&mut self, hop: Hop) -> Stop {
        self.hops.push(Hop { back: self.is_back, ..hop });
        Stop
    }

    pub(super) fn unknown(&mut self, hop: &'static str, what: impl Into<String>) -> Stop {
        self.fail(Hop { status: Status::Unknown, ..Hop::new(hop, what) })
    }
}
