//! The table of `spoke … status`: the parts of an installation and their states.

use model::Result;
use serde::Serialize;

use crate::answer::Answer;
use crate::output::table::Table;
use crate::output::{self, Output};

/// One part of an installation.
#[derive(Debug, Serialize)]
pub(crate) struct StatusRow {
    pub(crate) part: String,
    /// Whether it is as it should be.
    pub(crate) good: bool,
    pub(crate) state: String,
}

pub(crate) fn render(output: Output, rows: &[StatusRow]) -> Result<Answer> {
    let table = || {
        let mut table = Table::new(&["PART", "STATE"]);
        for row in rows {
            table.row([row.part.clone(), row.state.clone()]);
        }
        table.text()
    };
    output::render(output, &rows, table).map(Answer::text)
}
