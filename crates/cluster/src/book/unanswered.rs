//! A transaction without an answer: the connection was cut, or it took too long.
//!
//! It may have been carried out. What the cluster has afterwards says so, and so the caller reads again, as after a race.

use model::{Kind, Result};

use crate::port::Outcome;

/// Whether a transaction of an attempt was not answered.
#[derive(Debug, Default)]
pub(super) struct Unanswered(bool);

impl Unanswered {
    /// What came of a transaction. The first one without an answer counts as one that others were faster than.
    ///
    /// # Errors
    /// Every other one, and that of the next one without an answer.
    pub(super) fn heed(&mut self, outcome: Result<Outcome>) -> Result<Outcome> {
        match outcome {
            Err(error)
                if error.kind() == Kind::TryAgain && !std::mem::replace(&mut self.0, true) =>
            {
                Ok(Outcome::Lost)
            }
            outcome => outcome,
        }
    }

    /// Whether there was one: then what is read may be what this attempt wrote.
    pub(super) fn is_one(&self) -> bool {
        self.0
    }
}
