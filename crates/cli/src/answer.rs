//! The answer of a command, and the form of its sentences.

use crate::output::table;

/// The output of a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// For standard output.
    pub(crate) text: String,
    /// For standard error, one line each.
    pub(crate) notes: Vec<String>,
    /// The exit code.
    pub(crate) code: u8,
}

impl Answer {
    pub(crate) fn text(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

/// The exit code of a check that found something.
pub(crate) const FOUND: u8 = 1;

/// An error that quotes a third party must not control the terminal.
pub fn sentence(text: &impl std::fmt::Display) -> String {
    text.to_string().lines().map(table::clean).collect::<Vec<_>>().join("\n")
}
